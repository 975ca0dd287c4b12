//! Why somebody is not let in.

use std::fmt;

use super::jwt;

/// Why a credential names nobody. The texts are told to the caller and to the log: none of them holds a part of a
/// credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Nothing is presented.
    Missing,
    /// More than one `authorization` header.
    TwoAuthorizations,
    /// More than one forwarding header.
    TwoForwarded,
    /// The `authorization` header is no bearer token.
    NoBearer,
    /// No token of the file.
    UnknownToken,
    /// A token of the file whose end has passed.
    ExpiredToken,
    /// A web token that is not valid.
    WebToken(jwt::Refused),
    /// A forwarding header without exactly one SPIFFE URI in its last element.
    Forwarded,
    /// A trusted proxy told nothing of who calls it.
    NotForwarded,
    /// The certificate is not, or not any more, one of the authority's: expired, revoked, or of another authority.
    Certificate,
    /// The certificate names nobody: not exactly one SPIFFE URI, and no DNS name.
    Nameless,
    /// The name is longer than a principal may be, or has characters that none has.
    Name,
}

impl fmt::Display for Refused {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Refused::WebToken(refused) => return refused.fmt(to),
            Refused::Missing => {
                "no credential was presented: send `authorization: Bearer TOKEN`, or use a client certificate"
            }
            Refused::TwoAuthorizations => "two authorization headers were sent: send one",
            Refused::TwoForwarded => "two x-forwarded-client-cert headers were sent: the proxy must send one",
            Refused::NoBearer => "the authorization header is not `Bearer TOKEN`",
            Refused::UnknownToken => "the token is not known here, or is not any more",
            Refused::ExpiredToken => "the token has expired: the file of tokens says when it ends",
            Refused::Forwarded => {
                "the last element of x-forwarded-client-cert has not exactly one URI that begins with spiffe://"
            }
            Refused::NotForwarded => {
                "the proxy sent no x-forwarded-client-cert: it is trusted to name others, and has no name here"
            }
            Refused::Certificate => {
                "the client certificate is not valid here, or is not any more: it has expired, was revoked, or another \
                 authority signed it"
            }
            Refused::Nameless => {
                "the client certificate names nobody: it needs exactly one spiffe:// URI, or a DNS name"
            }
            Refused::Name => "the name in the credential is too long, or has characters that no name has",
        })
    }
}

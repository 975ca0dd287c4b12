//! Reasons for failed authentication.

use std::fmt;

use super::jwt;

/// Why a call is not authenticated. The texts are returned to the caller and logged, and do not contain any part of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No credential was presented.
    Missing,
    /// More than one `authorization` header.
    TwoAuthorizations,
    /// More than one forwarding header.
    TwoForwarded,
    /// The `authorization` header does not hold a bearer token.
    NoBearer,
    /// The token is not in the file.
    UnknownToken,
    /// The token of the file has expired.
    ExpiredToken,
    /// The web token is not valid.
    WebToken(jwt::Refused),
    /// The forwarding header does not have exactly one SPIFFE URI in its last element.
    Forwarded,
    /// A trusted proxy did not forward the identity of its client.
    NotForwarded,
    /// The certificate is not valid: expired, revoked, or signed by another authority.
    Certificate,
    /// The certificate does not name a principal: it has several SPIFFE URIs, or neither a SPIFFE URI nor a DNS name.
    Nameless,
    /// The name is too long for a principal, or has control or bidi characters.
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
                "the client certificate does not name a principal: it needs exactly one spiffe:// URI, or a DNS name"
            }
            Refused::Name => "the name in the credential is too long, or has characters that no name has",
        })
    }
}

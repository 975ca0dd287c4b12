//! JSON web tokens (RFC 7519) as bearer tokens: compact form, signed, from configured issuers.
//!
//! Signatures are verified by `ring`, which TLS uses too. Tokens are parsed here and not by the crate `jsonwebtoken`: unless
//! one of its cryptography backends is built in, it needs a process-wide provider, and panics until one is installed; it reads
//! the machine's clock itself; and it accepts a header with duplicate names. Without these parts, only splitting at dots would
//! be left to it.

mod json_object;
mod keys;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Number, Value};

use super::LEEWAY;
use crate::common::misleading::is_misleading;
use json_object::{JsonObject, WrongType};
use keys::{Algorithm, CANDIDATES_MAX, Unverified};
pub use keys::{JWKS_MAX, Keys};

/// The maximum size of a token in bytes.
pub const TOKEN_MAX: usize = 8 * 1_024;
/// The maximum size of a subject in bytes.
pub const SUBJECT_MAX: usize = 256;
const NAME_MAX: usize = 64;
/// 2^53: larger numbers are not exact as a floating-point number.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// An issuer of tokens.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// The name in principals: `jwt:NAME:SUB`.
    pub name: String,
    /// The exact claim `iss` of its tokens.
    pub iss: String,
    /// The accepted audiences: the claim `aud` must have one of them.
    pub audiences: Vec<String>,
    /// The current keys.
    pub keys: Arc<Keys>,
}

impl Issuer {
    /// An issuer of this name, whose tokens have this `iss` and one of these audiences.
    ///
    /// # Errors
    /// The fault, in words.
    pub fn new(name: &str, iss: &str, audiences: &[String], keys: Arc<Keys>) -> Result<Issuer, String> {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_of_name) {
            return Err(format!(
                "the name of an issuer has 1 to {NAME_MAX} of A-Z, a-z, 0-9, `.`, `_` and `-`"
            ));
        }
        if iss.is_empty() {
            return Err(format!("the issuer {name} has no `iss`"));
        }
        if audiences.is_empty() || audiences.iter().any(String::is_empty) {
            return Err(format!("the issuer {name} needs an audience, and none of them is empty"));
        }
        let (name, iss, audiences) = (name.to_owned(), iss.to_owned(), audiences.to_vec());
        Ok(Issuer { name, iss, audiences, keys })
    }

    /// Checks that the issuer of each token and principal is unambiguous.
    ///
    /// # Errors
    /// Two issuers have the same name or the same `iss`; in words.
    pub fn distinct(issuers: &[Issuer]) -> Result<(), String> {
        for (at, issuer) in issuers.iter().enumerate() {
            let earlier = &issuers[..at];
            if earlier.iter().any(|other| other.name == issuer.name) {
                return Err(format!("two issuers have the name {}", issuer.name));
            }
            if let Some(other) = earlier.iter().find(|other| other.iss == issuer.iss) {
                return Err(format!("the issuers {} and {} have the same `iss`", other.name, issuer.name));
            }
        }
        Ok(())
    }
}

/// A valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// `jwt:ISSUER-NAME:SUB`.
    pub principal: String,
    /// The second since 1970 from which on it is not valid.
    pub until: u64,
}

/// Why a token is refused. The texts are logged and returned to the caller, and do not contain any part of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the text of each says what it is")]
pub enum Refused {
    #[error("the token has more than {TOKEN_MAX} bytes")]
    TooLong,
    #[error("the token is malformed: {0}")]
    Malformed(&'static str),
    #[error("the token is malformed: `{0}` is not of its type")]
    WrongType(&'static str),
    #[error("the token has no `{0}`")]
    Missing(&'static str),
    #[error("the token demands an extension that is not known (`crit`)")]
    Critical,
    #[error("the token is not signed with RS256, ES256 or EdDSA")]
    Algorithm,
    #[error("the issuer of the token is not configured")]
    UnknownIssuer,
    /// The key may be new: the keys of this issuer (by index) may be fetched again.
    #[error("the token is signed with a key that is not known of its issuer")]
    UnknownKey { issuer: usize },
    #[error("the token names no key (`kid`), and the keys of its issuer have ids")]
    NoKeyId,
    #[error(
        "the token names no key (`kid`): the signature is not valid by the first {CANDIDATES_MAX} keys of its issuer \
         that have no id and are for its algorithm, and no more of them are tried"
    )]
    NotTried,
    #[error("the key of the token is for another algorithm")]
    KeyType,
    #[error("the signature of the token is not valid")]
    Signature,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    NotYetValid,
    #[error("the token is for another audience")]
    WrongAudience,
    #[error(
        "the subject of the token is empty, longer than {SUBJECT_MAX} bytes, or has characters that control or turn a line"
    )]
    Subject,
}

impl From<WrongType> for Refused {
    fn from(WrongType(name): WrongType) -> Refused {
        Refused::WrongType(name)
    }
}

/// Verifies a token at this second since 1970. Claims are used only after the signature was verified; before that only `iss` is
/// read, to find the keys.
///
/// # Errors
/// Why the token is not valid.
pub fn verify(issuers: &[Issuer], token: &str, now: u64) -> Result<Verified, Refused> {
    if token.len() > TOKEN_MAX {
        return Err(Refused::TooLong);
    }
    let SplitToken { signed, header, claims, signature } = SplitToken::of(token)?;
    if header.get("crit").is_some() {
        return Err(Refused::Critical);
    }
    let algorithm = header.text("alg")?.ok_or(Refused::Missing("alg"))?;
    let algorithm = Algorithm::of(algorithm).ok_or(Refused::Algorithm)?;
    let iss = claims.text("iss")?.ok_or(Refused::Missing("iss"))?;
    let known = issuers.iter().enumerate().find(|(_, issuer)| issuer.iss == iss);
    let (at, issuer) = known.ok_or(Refused::UnknownIssuer)?;

    issuer
        .keys
        .verify(header.text("kid")?, algorithm, |key| key.verifies(signed, &signature))
        .map_err(|unverified| refused(unverified, at))?;
    claimed(issuer, &claims, now)
}

/// The refusal of a token that no key of this issuer (by index) verifies.
fn refused(unverified: Unverified, issuer: usize) -> Refused {
    match unverified {
        Unverified::UnknownKey => Refused::UnknownKey { issuer },
        Unverified::NoKeyId => Refused::NoKeyId,
        Unverified::KeyType => Refused::KeyType,
        Unverified::Signature => Refused::Signature,
        Unverified::NotTried => Refused::NotTried,
    }
}

/// Checks the claims of a token with a valid signature.
fn claimed(issuer: &Issuer, claims: &JsonObject, now: u64) -> Result<Verified, Refused> {
    let is_meant = |audience: &str| issuer.audiences.iter().any(|ours| ours == audience);
    let is_for_us = match claims.get("aud").ok_or(Refused::Missing("aud"))? {
        Value::String(audience) => is_meant(audience),
        Value::Array(all) => {
            let all: Option<Vec<&str>> = all.iter().map(Value::as_str).collect();
            all.ok_or(Refused::WrongType("aud"))?.into_iter().any(is_meant)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            return Err(Refused::WrongType("aud"));
        }
    };
    if !is_for_us {
        return Err(Refused::WrongAudience);
    }
    let until = seconds(claims, "exp", f64::floor)?.ok_or(Refused::Missing("exp"))?.saturating_add(LEEWAY);
    if now >= until {
        return Err(Refused::Expired);
    }
    let not_before = seconds(claims, "nbf", f64::ceil)?;
    if not_before.is_some_and(|from| now.saturating_add(LEEWAY) < from) {
        return Err(Refused::NotYetValid);
    }
    let subject = claims.text("sub")?.ok_or(Refused::Missing("sub"))?;
    if subject.is_empty() || subject.len() > SUBJECT_MAX || subject.contains(is_misleading) {
        return Err(Refused::Subject);
    }
    Ok(Verified { principal: format!("jwt:{}:{subject}", issuer.name), until })
}

/// A time. The standard allows fractions of seconds: they are rounded so that the token is valid for less time.
fn seconds(claims: &JsonObject, name: &'static str, rounded: fn(f64) -> f64) -> Result<Option<u64>, Refused> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole, not below zero, and small enough to be exact"
    )]
    let whole = |number: &Number| {
        let fraction = number.as_f64().map(rounded).filter(|number| (0.0..=EXACT_MAX).contains(number));
        number.as_u64().or(fraction.map(|number| number as u64))
    };
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_number().and_then(whole);
    seconds.map(Some).ok_or(Refused::WrongType(name))
}

/// A token, split into its parts.
struct SplitToken<'t> {
    /// The signed text.
    signed: &'t [u8],
    header: JsonObject,
    claims: JsonObject,
    signature: Vec<u8>,
}

impl SplitToken<'_> {
    fn of(token: &str) -> Result<SplitToken<'_>, Refused> {
        let not_three = Refused::Malformed("it has not three parts");
        let (signed, signature) = token.rsplit_once('.').ok_or(not_three)?;
        let (header, claims) = signed.split_once('.').ok_or(not_three)?;
        if claims.contains('.') {
            return Err(not_three);
        }
        let header =
            object(header).ok_or(Refused::Malformed("its header is not a JSON object in base64url"))?;
        let claims =
            object(claims).ok_or(Refused::Malformed("its claims are not a JSON object in base64url"))?;
        let signature = URL_SAFE_NO_PAD.decode(signature);
        let signature = signature.map_err(|_| Refused::Malformed("its signature is not base64url"))?;
        Ok(SplitToken { signed: signed.as_bytes(), header, claims, signature })
    }
}

/// Decodes a JSON object strictly: base64url without padding, no trailing text, no duplicate names.
fn object(part: &str) -> Option<JsonObject> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

#[cfg(test)]
pub(crate) mod tests;

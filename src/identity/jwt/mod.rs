//! JSON web tokens (RFC 7519) as bearer tokens: the compact form, signed, of configured issuers.
//!
//! The signature is verified by `ring`, on which TLS stands too. What is around it is read here and not by the crate
//! `jsonwebtoken`: with a verifier that one does not bring along it has one for the whole process, which panics until
//! somebody installs it; it asks the machine's clock itself; and it takes a header with a name twice. Without these
//! nothing but splitting at dots would be left to it.

mod fields;
mod keys;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Number, Value};

use super::LEEWAY;
use crate::common::misleading::is_misleading;
use fields::{Fields, WrongType};
use keys::{Algorithm, CANDIDATES_MAX, Unverified};
pub use keys::{JWKS_MAX, Keys};

/// How many bytes a token may have.
pub const TOKEN_MAX: usize = 8 * 1_024;
/// How many bytes a subject may have.
pub const SUBJECT_MAX: usize = 256;
const NAME_MAX: usize = 64;
/// Beyond this a fraction cannot be told from its neighbours.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Who signs tokens.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// What principals are called by.
    pub name: String,
    /// The claim `iss` of its tokens, to the letter.
    pub iss: String,
    /// The claim `aud` of its tokens has one of these.
    pub audiences: Vec<String>,
    /// Its keys, as far as they are known.
    pub keys: Arc<Keys>,
}

impl Issuer {
    /// An issuer of this name, whose tokens have this `iss` and one of these audiences.
    ///
    /// # Errors
    /// What is wrong with it, in words.
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

    /// Whether it can be told which issuer a token and a principal are of.
    ///
    /// # Errors
    /// Two have the same name or the same `iss`; in words.
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

/// A token that is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// `jwt:ISSUER-NAME:SUB`.
    pub principal: String,
    /// From this second on, since 1970, it is not.
    pub until: u64,
}

/// Why a token is refused. The words have no part of the token: they are logged, and told to the caller.
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
    /// The key may be new: of this issuer, by its index, the keys may be fetched anew.
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

/// Who presents this token, at this second since 1970. The claims count only once the signature is known to be valid;
/// before that the issuer alone is read, whose keys can tell.
///
/// # Errors
/// It is not valid.
pub fn verify(issuers: &[Issuer], token: &str, now: u64) -> Result<Verified, Refused> {
    if token.len() > TOKEN_MAX {
        return Err(Refused::TooLong);
    }
    let Parts { signed, header, claims, signature } = Parts::of(token)?;
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

/// Why the token is refused that no key of this issuer, by its index, has verified.
fn refused(unverified: Unverified, issuer: usize) -> Refused {
    match unverified {
        Unverified::UnknownKey => Refused::UnknownKey { issuer },
        Unverified::NoKeyId => Refused::NoKeyId,
        Unverified::KeyType => Refused::KeyType,
        Unverified::Signature => Refused::Signature,
        Unverified::NotTried => Refused::NotTried,
    }
}

/// The claims of a token whose signature is valid.
fn claimed(issuer: &Issuer, claims: &Fields, now: u64) -> Result<Verified, Refused> {
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

/// A time. The standard allows fractions of seconds: they are rounded to the side on which the token is valid for less.
fn seconds(claims: &Fields, name: &'static str, rounded: fn(f64) -> f64) -> Result<Option<u64>, Refused> {
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

/// A token, taken apart.
struct Parts<'t> {
    /// What the signature is of.
    signed: &'t [u8],
    header: Fields,
    claims: Fields,
    signature: Vec<u8>,
}

impl Parts<'_> {
    fn of(token: &str) -> Result<Parts<'_>, Refused> {
        let not_three = Refused::Malformed("it has not three parts");
        let (signed, signature) = token.rsplit_once('.').ok_or(not_three)?;
        let (header, claims) = signed.split_once('.').ok_or(not_three)?;
        if claims.contains('.') {
            return Err(not_three);
        }
        let header = object(header).ok_or(Refused::Malformed("its header is no JSON object in base64url"))?;
        let claims =
            object(claims).ok_or(Refused::Malformed("its claims are no JSON object in base64url"))?;
        let signature = URL_SAFE_NO_PAD.decode(signature);
        let signature = signature.map_err(|_| Refused::Malformed("its signature is not base64url"))?;
        Ok(Parts { signed: signed.as_bytes(), header, claims, signature })
    }
}

/// Strictly: without padding, with nothing behind the end, each name once.
fn object(part: &str) -> Option<Fields> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

#[cfg(test)]
pub(crate) mod tests;

//! What reads credentials, each by itself: for the tests that mangle them alone.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;

use super::certificate::Names;
use super::forwarded;
use super::jwt::{self, Issuer, Keys};
use super::refused::Refused;
use super::tokens::Tokens;

/// Whom a forwarding header names.
///
/// # Errors
/// It names nobody.
pub fn forwarded(header: &[u8]) -> Result<String, Refused> {
    forwarded::principal(header)
}

/// Whom a certificate names.
///
/// # Errors
/// It names nobody.
pub fn certified(certificate: &[u8]) -> Result<String, Refused> {
    Names::of(&CertificateDer::from(certificate))?.principal()
}

/// Whom a token of the file stands for.
#[must_use]
pub fn token<'t>(tokens: &'t Tokens, token: &[u8]) -> Option<&'t str> {
    tokens.known(&super::tokens::hash(token)).map(|known| &*known.principal)
}

/// How many keys a JWKS has that can be used.
///
/// # Errors
/// It has none, or is none.
pub fn keys(jwks: &[u8]) -> Result<usize, String> {
    Keys::of_jwks(jwks).map(|keys| keys.count())
}

/// One issuer of JSON web tokens.
pub struct OneIssuer([Issuer; 1]);

impl OneIssuer {
    /// With these keys.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(name: &str, iss: &str, audience: &str, jwks: &[u8]) -> Result<OneIssuer, String> {
        let keys = Arc::new(Keys::of_jwks(jwks)?);
        Ok(OneIssuer([Issuer::new(name, iss, &[audience.to_owned()], keys)?]))
    }

    /// Who presents a token, at this second since 1970.
    ///
    /// # Errors
    /// Why it is not valid.
    pub fn verify(&self, token: &str, now: u64) -> Result<String, String> {
        let verified = jwt::verify(&self.0, token, now);
        verified.map(|verified| verified.principal).map_err(|refused| refused.to_string())
    }
}

//! The parsers of credentials, one by one, for tests that fuzz them.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;

use super::certificate::Names;
use super::forwarded;
use super::jwt::{self, Issuer, Keys};
use super::refused::Refused;
use super::tokens::Tokens;

/// The principal in a forwarding header.
///
/// # Errors
/// The header does not name a principal.
pub fn forwarded(header: &[u8]) -> Result<String, Refused> {
    forwarded::principal(header)
}

/// The principal in a certificate.
///
/// # Errors
/// The certificate does not name a principal.
pub fn certified(certificate: &[u8]) -> Result<String, Refused> {
    Names::of(&CertificateDer::from(certificate))?.principal()
}

/// The principal of a token of the file; `None` if the token is unknown.
#[must_use]
pub fn token<'t>(tokens: &'t Tokens, token: &[u8]) -> Option<&'t str> {
    tokens.known(&super::tokens::hash(token)).map(|known| &*known.principal)
}

/// The number of usable keys of a JWKS.
///
/// # Errors
/// The text is not a JWKS, or its keys are ambiguous.
pub fn keys(jwks: &[u8]) -> Result<usize, String> {
    Keys::of_jwks(jwks).map(|keys| keys.count())
}

/// One issuer of JSON web tokens.
pub struct OneIssuer([Issuer; 1]);

impl OneIssuer {
    /// An issuer with these keys.
    ///
    /// # Errors
    /// Its fault.
    pub fn new(name: &str, iss: &str, audience: &str, jwks: &[u8]) -> Result<OneIssuer, String> {
        let keys = Arc::new(Keys::of_jwks(jwks)?);
        Ok(OneIssuer([Issuer::new(name, iss, &[audience.to_owned()], keys)?]))
    }

    /// The principal of a token, at this second since 1970.
    ///
    /// # Errors
    /// Why it is not valid.
    pub fn verify(&self, token: &str, now: u64) -> Result<String, String> {
        let verified = jwt::verify(&self.0, token, now);
        verified.map(|verified| verified.principal).map_err(|refused| refused.to_string())
    }
}

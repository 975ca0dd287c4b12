//! The public keys of an issuer: the usable signature keys of a JWKS (RFC 7517).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

use super::json_object::{JsonObject, WrongType};

/// The maximum size of a JWKS in bytes.
pub const JWKS_MAX: usize = 256 * 1_024;
/// The maximum number of keys of an issuer.
const KEYS_MAX: usize = 16;
/// The number of keys that are tried for a token without a `kid`: anyone can send such a token at no cost, and each key costs
/// the server one signature verification.
pub(super) const CANDIDATES_MAX: usize = 4;
/// Bounds on the modulus of an RSA key, in bits.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;
/// Bounds on the exponent of an RSA key, in bits: larger ones are slow to verify, and not in use.
const RSA_EXPONENT_BITS: std::ops::RangeInclusive<usize> = 2..=33;
/// The length of a coordinate of P-256, and of a key of Ed25519.
const POINT_BYTES: usize = 32;
/// The maximum length, in characters, of a JSON error in a message: it may quote the text.
const ERROR_CHARS: usize = 200;

/// The signature algorithms. `none` and algorithms with a shared secret are not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    /// The algorithm with this exact name in a header or a key; `None` if it is not supported.
    pub(super) fn of(word: &str) -> Option<Algorithm> {
        match word {
            "RS256" => Some(Algorithm::Rs256),
            "ES256" => Some(Algorithm::Es256),
            "EdDSA" => Some(Algorithm::EdDsa),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyMaterial {
    /// Big-endian, without leading zeros.
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A public key that verifies signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublicKey {
    id: Option<String>,
    public: KeyMaterial,
}

impl PublicKey {
    /// The one algorithm of the key: the type of the key decides, never a token alone.
    pub(super) fn algorithm(&self) -> Algorithm {
        match self.public {
            KeyMaterial::Rsa { .. } => Algorithm::Rs256,
            KeyMaterial::P256(_) => Algorithm::Es256,
            KeyMaterial::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    /// Whether the signature of the message is valid for this key.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.public {
            KeyMaterial::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            KeyMaterial::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            KeyMaterial::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        verified.is_ok()
    }

    /// The key, or why it cannot verify tokens.
    fn of(fields: &JsonObject) -> Result<PublicKey, Unusable> {
        if fields.text("use")?.is_some_and(|usage| usage != "sig") {
            return Err(Unusable("it is not for signatures (`use`)"));
        }
        let verifies = |operations: &Value| {
            operations.as_array().is_some_and(|all| all.iter().any(|operation| operation == "verify"))
        };
        if !fields.get("key_ops").is_none_or(verifies) {
            return Err(Unusable("it is not for verifying (`key_ops`)"));
        }
        let public = match (fields.text("kty")?, fields.text("crv")?) {
            (Some("RSA"), _) => rsa(fields)?,
            (Some("EC"), Some("P-256")) => {
                let (x, y) = (point(fields, "x")?, point(fields, "y")?);
                KeyMaterial::P256([&[4], &x[..], &y[..]].concat())
            }
            (Some("OKP"), Some("Ed25519")) => KeyMaterial::Ed25519(point(fields, "x")?),
            _ => return Err(Unusable("it is not of RSA, P-256 or Ed25519 (`kty`, `crv`)")),
        };
        let key = PublicKey { id: fields.text("kid")?.map(str::to_owned), public };
        match fields.text("alg")? {
            Some(word) if Algorithm::of(word) != Some(key.algorithm()) => {
                Err(Unusable("its `alg` is not that of its type: RS256, ES256 or EdDSA"))
            }
            _ => Ok(key),
        }
    }
}

/// Why a key is left out.
struct Unusable(&'static str);

impl From<WrongType> for Unusable {
    fn from(_: WrongType) -> Unusable {
        Unusable("a field that must be a text is none")
    }
}

fn rsa(fields: &JsonObject) -> Result<KeyMaterial, Unusable> {
    let (n, e) = (number(fields, "n")?, number(fields, "e")?);
    let is_odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
    if !RSA_BITS.contains(&bits(&n)) || !is_odd(&n) {
        return Err(Unusable("its modulus (`n`) has not 2048 to 8192 bits, or is even"));
    }
    if !RSA_EXPONENT_BITS.contains(&bits(&e)) || !is_odd(&e) {
        return Err(Unusable("its exponent (`e`) is not an odd number from 3 to 2^33"));
    }
    Ok(KeyMaterial::Rsa { n, e })
}

/// A number without leading zeros: some issuers write them, although the standard forbids it.
fn number(fields: &JsonObject, name: &'static str) -> Result<Vec<u8>, Unusable> {
    let bytes = bytes(fields, name)?;
    Ok(bytes.into_iter().skip_while(|byte| *byte == 0).collect())
}

/// The number of bits of a number without leading zeros.
fn bits(number: &[u8]) -> usize {
    let unused = number.first().map_or(0, |first| first.leading_zeros() as usize);
    number.len() * 8 - unused
}

fn point(fields: &JsonObject, name: &'static str) -> Result<Vec<u8>, Unusable> {
    let bytes = bytes(fields, name)?;
    if bytes.len() == POINT_BYTES { Ok(bytes) } else { Err(Unusable("a coordinate has not 32 bytes")) }
}

fn bytes(fields: &JsonObject, name: &'static str) -> Result<Vec<u8>, Unusable> {
    let text = fields.text(name)?.ok_or(Unusable("a part of it is missing"))?;
    URL_SAFE_NO_PAD.decode(text).map_err(|_| Unusable("a part of it is not base64url"))
}

/// The relevant part of a JWKS.
#[derive(Deserialize)]
struct Jwks {
    keys: Vec<JsonObject>,
}

/// The keys of an issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys(Vec<PublicKey>);

impl Keys {
    /// No keys: every token is refused.
    #[must_use]
    pub fn none() -> Keys {
        Keys::default()
    }

    /// The keys of a JWKS. Keys of other types and for other uses are left out.
    ///
    /// # Errors
    /// The text is not a JWKS, or its keys are ambiguous; in words.
    pub fn of_jwks(text: &[u8]) -> Result<Keys, String> {
        if text.len() > JWKS_MAX {
            return Err(format!("the JWKS has more than {JWKS_MAX} bytes"));
        }
        let jwks: Jwks = serde_json::from_slice(text).map_err(|error| {
            let error: String = error.to_string().chars().take(ERROR_CHARS).collect();
            format!("it is not a JWKS, an object with a list `keys`: {}", error.escape_debug())
        })?;
        let (mut keys, mut left_out) = (Vec::new(), None);
        for fields in &jwks.keys {
            match PublicKey::of(fields) {
                Ok(key) => keys.push(key),
                Err(unusable) => {
                    left_out.get_or_insert(unusable);
                }
            }
        }
        match left_out {
            _ if keys.len() > KEYS_MAX => {
                return Err(format!("the JWKS has {} keys; {KEYS_MAX} are the most", keys.len()));
            }
            Some(Unusable(why)) if keys.is_empty() => {
                let all = jwks.keys.len();
                return Err(format!("the JWKS has no key that can be used, of {all}; the first: {why}"));
            }
            None if keys.is_empty() => return Err("the JWKS has no keys".to_owned()),
            _ => {}
        }
        let is_twice = |(at, key): (usize, &PublicKey)| {
            key.id.is_some() && keys[..at].iter().any(|earlier: &PublicKey| earlier.id == key.id)
        };
        if keys.iter().enumerate().any(is_twice) {
            return Err("the JWKS has two keys with the same `kid`".to_owned());
        }
        Ok(Keys(keys))
    }

    /// The number of keys.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Verifies a signature with the key of this id; without an id, with the first [`CANDIDATES_MAX`] keys of the algorithm
    /// that do not have an id. A key with an id never verifies a token without one.
    ///
    /// # Errors
    /// Why no key verifies it.
    pub(super) fn verify(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        mut verifies: impl FnMut(&PublicKey) -> bool,
    ) -> Result<(), Unverified> {
        if let Some(id) = id {
            let key =
                self.0.iter().find(|key| key.id.as_deref() == Some(id)).ok_or(Unverified::UnknownKey)?;
            if key.algorithm() != algorithm {
                return Err(Unverified::KeyType);
            }
            return if verifies(key) { Ok(()) } else { Err(Unverified::Signature) };
        }
        let without_id = |key: &&PublicKey| key.id.is_none() && key.algorithm() == algorithm;
        match self.0.iter().filter(without_id).count() {
            0 if self.0.iter().any(|key| key.id.is_some()) => Err(Unverified::NoKeyId),
            0 => Err(Unverified::UnknownKey),
            _ if self.0.iter().filter(without_id).take(CANDIDATES_MAX).any(verifies) => Ok(()),
            count if count > CANDIDATES_MAX => Err(Unverified::NotTried),
            _ => Err(Unverified::Signature),
        }
    }
}

/// Why no key verifies a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unverified {
    /// No key has this id, or this algorithm.
    UnknownKey,
    /// No key is named, and the keys have ids.
    NoKeyId,
    /// The named key has another algorithm.
    KeyType,
    /// The signature is not valid.
    Signature,
    /// The signature is not valid by the keys that were tried, and there are more without an id.
    NotTried,
}

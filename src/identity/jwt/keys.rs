//! The public keys of an issuer: a JWKS (RFC 7517), of which that is kept which can verify.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

use super::fields::{Fields, WrongType};

/// How many bytes a JWKS may have.
pub const JWKS_MAX: usize = 256 * 1_024;
/// How many keys an issuer may have.
const KEYS_MAX: usize = 16;
/// How many keys are tried with a token that does not name its key: a stranger can send such a token for nothing, and each
/// key that is tried costs the server one verification of a signature.
pub(super) const CANDIDATES_MAX: usize = 4;
/// How many bits the modulus of an RSA key may have, at the least and at the most.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;
/// How many bits the exponent of an RSA key may have: more take long to verify, and nobody has them.
const RSA_EXPONENT_BITS: std::ops::RangeInclusive<usize> = 2..=33;
/// A coordinate of P-256, and a key of Ed25519.
const POINT_BYTES: usize = 32;
/// How many characters of an error in JSON are told: it may quote the text.
const ERROR_CHARS: usize = 200;

/// How a token is signed. There is no `none`, and nothing that is verified by a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    /// By the exact word that a header, or a key, has for it.
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
enum Public {
    /// Big-endian, without zeros at the beginning.
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// A point that is not compressed.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A key that can verify.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    id: Option<String>,
    public: Public,
}

impl Key {
    /// The one algorithm that it is for: the type of a key decides, never a token alone.
    pub(super) fn algorithm(&self) -> Algorithm {
        match self.public {
            Public::Rsa { .. } => Algorithm::Rs256,
            Public::P256(_) => Algorithm::Es256,
            Public::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    /// Whether this is its signature of the message.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.public {
            Public::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            Public::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Public::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        verified.is_ok()
    }

    /// The key, or why it is none that can verify a token.
    fn of(fields: &Fields) -> Result<Key, Unusable> {
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
                Public::P256([&[4], &x[..], &y[..]].concat())
            }
            (Some("OKP"), Some("Ed25519")) => Public::Ed25519(point(fields, "x")?),
            _ => return Err(Unusable("it is not of RSA, P-256 or Ed25519 (`kty`, `crv`)")),
        };
        let key = Key { id: fields.text("kid")?.map(str::to_owned), public };
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

fn rsa(fields: &Fields) -> Result<Public, Unusable> {
    let (n, e) = (number(fields, "n")?, number(fields, "e")?);
    let is_odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
    if !RSA_BITS.contains(&bits(&n)) || !is_odd(&n) {
        return Err(Unusable("its modulus (`n`) has not 2048 to 8192 bits, or is even"));
    }
    if !RSA_EXPONENT_BITS.contains(&bits(&e)) || !is_odd(&e) {
        return Err(Unusable("its exponent (`e`) is not an odd number from 3 to 2^33"));
    }
    Ok(Public::Rsa { n, e })
}

/// Some issuers write a zero before a number, which the standard forbids and which changes nothing.
fn number(fields: &Fields, name: &'static str) -> Result<Vec<u8>, Unusable> {
    let bytes = bytes(fields, name)?;
    Ok(bytes.into_iter().skip_while(|byte| *byte == 0).collect())
}

/// Of a number without zeros at its beginning.
fn bits(number: &[u8]) -> usize {
    let unused = number.first().map_or(0, |first| first.leading_zeros() as usize);
    number.len() * 8 - unused
}

fn point(fields: &Fields, name: &'static str) -> Result<Vec<u8>, Unusable> {
    let bytes = bytes(fields, name)?;
    if bytes.len() == POINT_BYTES { Ok(bytes) } else { Err(Unusable("a coordinate has not 32 bytes")) }
}

fn bytes(fields: &Fields, name: &'static str) -> Result<Vec<u8>, Unusable> {
    let text = fields.text(name)?.ok_or(Unusable("a part of it is missing"))?;
    URL_SAFE_NO_PAD.decode(text).map_err(|_| Unusable("a part of it is not base64url"))
}

/// What a JWKS is, as far as it matters here.
#[derive(Deserialize)]
struct Jwks {
    keys: Vec<Fields>,
}

/// The keys of an issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys(Vec<Key>);

impl Keys {
    /// None yet, or none any more: each token is refused.
    #[must_use]
    pub fn none() -> Keys {
        Keys::default()
    }

    /// Those of a JWKS. Keys of other types and for other uses are left out.
    ///
    /// # Errors
    /// It is none, or leaves open which key is meant; in words.
    pub fn of_jwks(text: &[u8]) -> Result<Keys, String> {
        if text.len() > JWKS_MAX {
            return Err(format!("the JWKS has more than {JWKS_MAX} bytes"));
        }
        let jwks: Jwks = serde_json::from_slice(text).map_err(|error| {
            let error: String = error.to_string().chars().take(ERROR_CHARS).collect();
            format!("it is no JWKS, an object with a list `keys`: {}", error.escape_debug())
        })?;
        let (mut keys, mut left_out) = (Vec::new(), None);
        for fields in &jwks.keys {
            match Key::of(fields) {
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
        let is_twice = |(at, key): (usize, &Key)| {
            key.id.is_some() && keys[..at].iter().any(|earlier: &Key| earlier.id == key.id)
        };
        if keys.iter().enumerate().any(is_twice) {
            return Err("the JWKS has two keys with the same `kid`".to_owned());
        }
        Ok(Keys(keys))
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Verifies a signature with the key of this id; without an id, with the first [`CANDIDATES_MAX`] keys that have no
    /// id and are for the algorithm. A key with an id never verifies a token that does not name the key.
    ///
    /// # Errors
    /// No key verifies it.
    pub(super) fn verify(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        mut verifies: impl FnMut(&Key) -> bool,
    ) -> Result<(), Unverified> {
        if let Some(id) = id {
            let key =
                self.0.iter().find(|key| key.id.as_deref() == Some(id)).ok_or(Unverified::UnknownKey)?;
            if key.algorithm() != algorithm {
                return Err(Unverified::KeyType);
            }
            return if verifies(key) { Ok(()) } else { Err(Unverified::Signature) };
        }
        let without_id = |key: &&Key| key.id.is_none() && key.algorithm() == algorithm;
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
    /// No key has this id, or no key is for the algorithm.
    UnknownKey,
    /// No key is named, and the keys have ids.
    NoKeyId,
    /// The key that is named is for another algorithm.
    KeyType,
    /// The signature is not valid.
    Signature,
    /// The signature is not valid by the keys that were tried, and there are more without an id.
    NotTried,
}

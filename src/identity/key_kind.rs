//! The kind of a certificate's key, and why a file does not have a usable key or certificate.

use std::fmt;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::asn1_rs::Tag;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::public_key::PublicKey;

/// The sizes of RSA keys with which this program can sign.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=4_096;

const RSA: &str = "1.2.840.113549.1.1.1";
const RSA_PSS: &str = "1.2.840.113549.1.1.10";
const EC: &str = "1.2.840.10045.2.1";
const DSA: &str = "1.2.840.10040.4.1";
const ED25519: &str = "1.3.101.112";
const ED448: &str = "1.3.101.113";

/// The kind of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    Rsa(usize),
    P256,
    P384,
    P521,
    Ed25519,
    /// The name of another kind, or its object identifier.
    Other(String),
}

impl KeyKind {
    /// The kind of a certificate's key; `None` if the certificate cannot be read.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<KeyKind> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let key = parsed.public_key();
        // The library would read explicit curve parameters, which do not name the curve, as an identifier.
        let named = key.algorithm.parameters.as_ref().filter(|curve| curve.tag() == Tag::Oid);
        let curve = || named.and_then(|curve| curve.as_oid().ok());
        Some(match key.algorithm.algorithm.to_id_string().as_str() {
            RSA => match key.parsed() {
                Ok(PublicKey::RSA(key)) => KeyKind::Rsa(key.key_size()),
                _ => KeyKind::Other("RSA".into()),
            },
            EC if named.is_none() => KeyKind::Other("EC with a curve that is described and not named".into()),
            EC => match curve().map(|curve| curve.to_id_string()).unwrap_or_default().as_str() {
                "1.2.840.10045.3.1.7" => KeyKind::P256,
                "1.3.132.0.34" => KeyKind::P384,
                "1.3.132.0.35" => KeyKind::P521,
                "1.3.132.0.10" => KeyKind::Other("secp256k1".into()),
                other => KeyKind::Other(format!("EC with the curve {other}")),
            },
            RSA_PSS => KeyKind::Other("RSA-PSS".into()),
            DSA => KeyKind::Other("DSA".into()),
            ED25519 => KeyKind::Ed25519,
            ED448 => KeyKind::Other("Ed448".into()),
            other => KeyKind::Other(other.to_owned()),
        })
    }

    /// The kind of a private key that this program cannot use; `None` for any other key. PKCS#8 has the object identifier of the
    /// kind near the beginning, SEC1 (only for EC) after the key.
    pub(super) fn of_unusable(key: &PrivateKeyDer<'_>) -> Option<KeyKind> {
        const P521: &[u8] = b"\x06\x05\x2B\x81\x04\x00\x23";
        const SECP256K1: &[u8] = b"\x06\x05\x2B\x81\x04\x00\x0A";
        const ED448: &[u8] = b"\x06\x03\x2B\x65\x71";
        let has = |oid: &[u8]| key.secret_der().windows(oid.len()).any(|part| part == oid);
        let kinds = [
            (P521, KeyKind::P521),
            (SECP256K1, KeyKind::Other("secp256k1".into())),
            (ED448, KeyKind::Other("Ed448".into())),
        ];
        let is_rsa = matches!(key, PrivateKeyDer::Pkcs1(_));
        kinds.into_iter().find(|(oid, _)| !is_rsa && has(oid)).map(|(_, kind)| kind)
    }

    /// Whether this program can sign with such a key.
    pub(super) fn is_usable(&self) -> bool {
        match self {
            KeyKind::Rsa(bits) => RSA_BITS.contains(bits),
            KeyKind::P256 | KeyKind::P384 | KeyKind::Ed25519 => true,
            KeyKind::P521 | KeyKind::Other(_) => false,
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyKind::Rsa(bits) => write!(to, "RSA with {bits} bits"),
            KeyKind::P256 => to.write_str("EC P-256"),
            KeyKind::P384 => to.write_str("EC P-384"),
            KeyKind::P521 => to.write_str("EC P-521"),
            KeyKind::Ed25519 => to.write_str("Ed25519"),
            KeyKind::Other(name) => to.write_str(name),
        }
    }
}

/// Whether the first certificate of the chain has an Ed25519 key, or any certificate of the chain has an Ed25519 signature.
pub(super) fn uses_ed25519(chain: &[CertificateDer<'_>]) -> bool {
    let is_signed = |certificate: &CertificateDer<'_>| {
        let parsed = X509Certificate::from_der(certificate).ok();
        parsed.is_some_and(|(_, one)| one.signature_algorithm.algorithm.to_id_string() == ED25519)
    };
    chain.first().and_then(KeyKind::of) == Some(KeyKind::Ed25519) || chain.iter().any(is_signed)
}

/// The fault of a PEM text with a byte order mark: a PEM reader skips a block whose BEGIN line follows such a mark, and would
/// read only the rest. `None` if the text has no such mark.
pub(super) fn has_mark(bytes: &[u8]) -> Option<&'static str> {
    const MARKED: &[u8] = b"\xEF\xBB\xBF-----BEGIN";
    match bytes {
        [0xEF, 0xBB, 0xBF, ..] => Some("begins with a byte order mark: save it as UTF-8 without one"),
        _ if bytes.windows(MARKED.len()).any(|part| part == MARKED) => {
            Some("has a byte order mark before a BEGIN line: save it as UTF-8 without one")
        }
        _ => None,
    }
}

/// Describes a text without a usable PEM block by its form; `None` if the form is unknown.
pub(super) fn why_not_pem(bytes: &[u8]) -> Option<&'static str> {
    let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    if let Some(why) = has_mark(bytes) {
        return Some(why);
    }
    Some(match bytes {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => {
            "is UTF-16 (it begins with a byte order mark): save it as UTF-8"
        }
        [0x30, 0..=0x84, ..] => {
            "is DER: make PEM of it by `openssl x509 -inform DER` or `openssl pkey -inform DER`"
        }
        _ if has("BEGIN ENCRYPTED PRIVATE KEY") || has("Proc-Type: 4,ENCRYPTED") => {
            "is encrypted: decrypt it by `openssl pkey -in ENCRYPTED -out KEY` into a file that only the server can read"
        }
        _ if has("BEGIN OPENSSH PRIVATE KEY") => {
            "is a key of OpenSSH: make PEM of it by `ssh-keygen -p -m PKCS8 -f KEY`"
        }
        _ if has("BEGIN DSA PRIVATE KEY") => {
            "is of the kind DSA: use EC P-256, EC P-384 or RSA with 2048 to 4096 bits"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_not_pem_describes_the_form() {
        for (text, says) in [
            (&b"\xEF\xBB\xBF-----BEGIN CERTIFICATE-----"[..], Some("byte order mark")),
            (b"-----BEGIN A-----\n\xEF\xBB\xBF-----BEGIN B-----", Some("mark before a BEGIN line")),
            (b"\xFF\xFE-\0-\0", Some("UTF-16")),
            (b"\xFE\xFF\0-\0-", Some("UTF-16")),
            (b"\x30\x82\x01\x02", Some("is DER")),
            (b"\x30\x77\x02", Some("is DER")),
            (b"-----BEGIN ENCRYPTED PRIVATE KEY-----", Some("is encrypted")),
            (b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n", Some("is encrypted")),
            (b"-----BEGIN OPENSSH PRIVATE KEY-----", Some("OpenSSH")),
            (b"-----BEGIN DSA PRIVATE KEY-----", Some("DSA")),
            (b"-----BEGIN PRIVATE KEY-----", None),
            (b"", None),
        ] {
            let found = why_not_pem(text);
            assert_eq!(found.is_some(), says.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(says.unwrap_or_default()), "{found:?}");
        }
    }

    #[test]
    fn uses_ed25519_looks_at_the_first_key_and_at_each_signature() {
        let certificate = |key: &rcgen::KeyPair, of: &rcgen::KeyPair| {
            let params = rcgen::CertificateParams::default();
            params
                .signed_by(key, &rcgen::Issuer::from_params(&params, of))
                .expect("a certificate")
                .der()
                .clone()
        };
        let key = |of| rcgen::KeyPair::generate_for(of).expect("a key");
        let (edwards, p256) = (key(&rcgen::PKCS_ED25519), key(&rcgen::PKCS_ECDSA_P256_SHA256));
        for (what, chain, uses) in [
            ("no certificate", vec![], false),
            ("neither", vec![certificate(&p256, &p256)], false),
            ("its key", vec![certificate(&edwards, &p256)], true),
            ("its signature", vec![certificate(&p256, &edwards)], true),
            ("that of the next", vec![certificate(&p256, &p256), certificate(&p256, &edwards)], true),
            (
                "the key of the next alone",
                vec![certificate(&p256, &p256), certificate(&edwards, &p256)],
                false,
            ),
        ] {
            assert_eq!(uses_ed25519(&chain), uses, "{what}");
        }
    }

    #[test]
    fn is_usable_only_for_supported_kinds() {
        for (kind, is) in [
            (KeyKind::Rsa(1_024), false),
            (KeyKind::Rsa(2_048), true),
            (KeyKind::Rsa(4_096), true),
            (KeyKind::Rsa(8_192), false),
            (KeyKind::P256, true),
            (KeyKind::P521, false),
            (KeyKind::Other("DSA".into()), false),
        ] {
            assert_eq!(kind.is_usable(), is, "{kind}");
        }
    }
}

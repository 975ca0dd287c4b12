//! Signs the tokens of the tests.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::rsa::{KeyPair as RsaKeyPair, PublicKeyComponents};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
};

/// An RSA key of 2048 bits, in PKCS #8: only for tests, and public.
const RSA_KEY: &str = "\
    MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQCx5uGHa0U6XdJ7PFvfGtGzTHol4sopvSJzWxJGPF2+SP9qSnbN\
    X9Kge7/kLKNYfbXp6xnWYwWlCEMCtodMWQwPzRuBm7W7zpS8ozQmQc9vBaHylfbSac5fn6Ces8TzpHU03GLrfjgquNWwxwjxUm9X\
    g19TWHEzRxIZ8nNhm9BzGln60qTN7GLppx0hSwZoJFzmmrhaVpT499KqhzzVKm4oSqzl/vll8dWI2B23MIe4Vp1tQHotON9QfmRb\
    FWBqQX6CZkiAeY69WvJDhNloDQijBSYOjgWc8sakM0+yY8mWbnx4bezHvnZKCJ+r/h6ri7RisSXNmIptc0HNTJreBsl9AgMBAAEC\
    ggEAEhXHiDhhIZgsxTcTRoX3xW4ZM3AaXyM0Cl1laTB1KIVL5Hv3bH9jmR7ww1BqYUeTo65bwmNEoqH0C1A6Rt+n4z9Vnte7zNYp\
    DALcp/r5YcRFJ1++vLs22Jpl/gbbwcJOi/Yk3uMbm0mOUlnu0HbcjMf1Jog6Jx1Ve2pzTPvwX+hQJ0WQ96QE8qzUzz1qXTibqln7\
    pjC3F9tObgv/hbbI0GTMNkBip2Vw+uOt5Ehdkh7A5Zfxglg/d5RQTjaBYkGeUAIFEsI0Z1rr/WnpFyO4bVHBYMFVRT9dh08N3W93\
    vXSObsMM8GOSW/J2drQuzZfxyMQTmzhv5flErrkPUMD2fQKBgQDZKEfIEBF/G+FalJqcDYkL50yh01iHaBupY1sjjMgKKiwmAsof\
    sI0j5FLV9pz+2Dry/ie03k5X+P7Om6fDcbAa9kNDJAf4Az+3OjAEd9EsDHAaphrIn6droSWrr+xn/GoSiLLpU++3rc2y3Lem+WzF\
    GMhVWKNnhh1zw5BU9JMPkwKBgQDRuRPTR/e8uXrTUBwiyDv2eDdg+bcinROcO2KM+oYHV9tCilhOuJQ2DiNrl2aE35VRjnUqgjJ6\
    8zEmtHi1NqZY11jqTj3MaSh2DqACldpN9AMN2Pt+Af8GyLo2ntsjeK2389la505m6td6bMevIEGrUDDcEAa6/Jp4fdcKgFLMrwKB\
    gA5vAvZlOwR70eq3Xd9pduZ3pTxMU+IMJWqI1BH01Yb3bp/IJ68biQYNswPNtHmr3Z8xDWqULBjkz+rjpa7z64SfQbFAv9bYQG/p\
    Si/B1wFagkkDKVyUYAhjWaGju87dlB9PPrULgy9uOfHdgcdzZKtlDku97H6BB4weP4WmC/BJAoGBAIWht2c2AT4otYG2Fud2zPZk\
    bW0GUNHmYpt3H3mTHBnLunMwscofRJkY8yrYQsPBr2RTMIcQhNfg4920uwFEvEP5m7dYeXopO1XWRdC/6WUoaVXGf6Ev5m9NMZIi\
    MKHugEqpP0L0BfoAA6MHc0k8dXuSUj+2moNE96x1CrOvRpMTAoGBAMkMBHm+JxNpyTe0S/+UfgZGvcaOl6R1NrTbdt9HuCif+vhj\
    Ep4pFi6KtjcXql5X7qHrNxPYaaHUeAtBTSjZPRm/74ubkxpZX3h5V8Uv1pAennhTDISxRJ+4q+BZIqUgClTD9Kqy9qY8eBrBXZPo\
    pBBhHCgeSBciklsiimFhdIwS";

/// The key that signs a token.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    Rsa,
    P256,
    Ed25519,
    /// A key that is not published.
    OtherP256,
    OtherEd25519,
    /// The published RSA key, used as a shared secret.
    RsaAsSecret,
    NoKey,
}

/// The keys. All except the RSA key are generated for each test.
pub(crate) struct Signer {
    random: SystemRandom,
    rsa: RsaKeyPair,
    p256: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
    other_p256: EcdsaKeyPair,
    other_ed25519: Ed25519KeyPair,
}

pub(crate) fn base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    pub(crate) fn new() -> Signer {
        let random = SystemRandom::new();
        let p256 = || {
            let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap()
        };
        let ed25519 = || {
            let key = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
            Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap()
        };
        let rsa = RsaKeyPair::from_pkcs8(&STANDARD.decode(RSA_KEY).unwrap()).unwrap();
        let (other_p256, other_ed25519) = (p256(), ed25519());
        Signer { rsa, p256: p256(), ed25519: ed25519(), other_p256, other_ed25519, random }
    }

    /// The published RSA key, with more members, which begin with a comma.
    pub(crate) fn rsa(&self, more: &str) -> String {
        let PublicKeyComponents { n, e } = PublicKeyComponents::<Vec<u8>>::from(self.rsa.public());
        format!(r#"{{"kty":"RSA","n":"{}","e":"{}"{more}}}"#, base64url(n), base64url(e))
    }

    pub(crate) fn p256(&self, more: &str) -> String {
        let point = self.p256.public_key().as_ref();
        let (x, y) = (base64url(&point[1..33]), base64url(&point[33..]));
        format!(r#"{{"kty":"EC","crv":"P-256","x":"{x}","y":"{y}"{more}}}"#)
    }

    pub(crate) fn ed25519(&self, more: &str) -> String {
        ed25519(&self.ed25519, more)
    }

    pub(crate) fn other_ed25519(&self, more: &str) -> String {
        ed25519(&self.other_ed25519, more)
    }

    /// A JWKS of one key of each type: `rsa`, `p256` and `ed25519`.
    pub(crate) fn jwks(&self) -> String {
        jwks(&[
            self.rsa(r#","kid":"rsa","use":"sig","alg":"RS256""#),
            self.p256(r#","kid":"p256","use":"sig""#),
            self.ed25519(r#","kid":"ed25519""#),
        ])
    }

    pub(crate) fn token(&self, header: &str, claims: &str, by: By) -> String {
        self.signed(&format!("{}.{}", base64url(header), base64url(claims)), by)
    }

    /// This text, and its signature.
    pub(crate) fn signed(&self, text: &str, by: By) -> String {
        let message = text.as_bytes();
        let p256 = |key: &EcdsaKeyPair| key.sign(&self.random, message).unwrap().as_ref().to_vec();
        let signature = match by {
            By::Rsa => {
                let mut signature = vec![0; self.rsa.public().modulus_len()];
                self.rsa.sign(&RSA_PKCS1_SHA256, &self.random, message, &mut signature).unwrap();
                signature
            }
            By::P256 => p256(&self.p256),
            By::OtherP256 => p256(&self.other_p256),
            By::Ed25519 => self.ed25519.sign(message).as_ref().to_vec(),
            By::OtherEd25519 => self.other_ed25519.sign(message).as_ref().to_vec(),
            By::RsaAsSecret => {
                let secret = hmac::Key::new(hmac::HMAC_SHA256, self.rsa.public().as_ref());
                hmac::sign(&secret, message).as_ref().to_vec()
            }
            By::NoKey => Vec::new(),
        };
        format!("{text}.{}", base64url(signature))
    }
}

fn ed25519(key: &Ed25519KeyPair, more: &str) -> String {
    format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{}"{more}}}"#, base64url(key.public_key()))
}

pub(crate) fn jwks(keys: &[String]) -> String {
    format!(r#"{{"keys":[{}]}}"#, keys.join(","))
}

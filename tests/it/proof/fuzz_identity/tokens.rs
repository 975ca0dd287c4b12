//! JSON web tokens and the keys of their issuers.

use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use idempotency_ledger::identity::mangled::{self, OneIssuer};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};

use super::{SECONDS, bounded, reasoned, text};
use crate::harness::random::Random;
use crate::proof::fuzz::{mutate, until};
use crate::proof::run::Run;
use crate::proof::steps::pick;

const NOW: u64 = 1_000_000;
const CLAIMS: [&str; 4] = [
    r#"{"iss":"https://a.example","aud":"ledger","sub":"worker","exp":1000300,"nbf":999700}"#,
    r#"{"iss":"https://a.example","aud":["x","ledger"],"sub":"worker:2","exp":1000300.5,"nested":{"a":[1,2,{}]}}"#,
    r#"{"iss":"https://a.example","aud":"ledger","sub":"worker","exp":900000}"#,
    r#"{"iss":"https://b.example","aud":"ledger","sub":"worker","exp":1000300}"#,
];
const HEADERS: [&str; 6] = [
    r#"{"alg":"ES256","kid":"p256"}"#,
    r#"{"alg":"EdDSA","kid":"ed25519","typ":"JWT"}"#,
    r#"{"alg":"EdDSA"}"#,
    r#"{"alg":"none"}"#,
    r#"{"alg":"HS256","kid":"p256"}"#,
    r#"{"alg":"RS256","kid":"rsa"}"#,
];
/// RFC 7515, A.2: a key of RSA that somebody else made.
const MODULUS: &str = "\
    ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SF\
    d2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo\
    7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkM\
    Ls91kzk2PAcDTW9gb54h4FRWyuXpoQ";

fn base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

struct Signer {
    random: SystemRandom,
    p256: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
}

impl Signer {
    fn new() -> Signer {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let p256 = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap();
        let key = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Signer { p256, ed25519: Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap(), random }
    }

    fn jwks(&self) -> String {
        let point = self.p256.public_key().as_ref();
        let (x, y) = (base64url(&point[1..33]), base64url(&point[33..]));
        let ed25519 = base64url(self.ed25519.public_key());
        format!(
            r#"{{"keys":[{{"kty":"EC","crv":"P-256","kid":"p256","x":"{x}","y":"{y}"}},{{"kty":"OKP","crv":"Ed25519","kid":"ed25519","x":"{ed25519}"}},{{"kty":"RSA","kid":"rsa","n":"{MODULUS}","e":"AQAB"}}]}}"#
        )
    }

    /// What it signs, and a signature of that which may be none of the key that the header names.
    fn token(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", base64url(header), base64url(claims));
        let signature = match header {
            _ if header.contains("ES256") => {
                self.p256.sign(&self.random, signed.as_bytes()).unwrap().as_ref().to_vec()
            }
            _ => self.ed25519.sign(signed.as_bytes()).as_ref().to_vec(),
        };
        format!("{signed}.{}", base64url(signature))
    }
}

/// A token with one of its parts changed below its encoding, or of parts of two.
fn changed(random: &mut Random, tokens: &[Vec<u8>]) -> Vec<u8> {
    let parts = |token: &Vec<u8>| text(token).split('.').map(str::to_owned).collect::<Vec<_>>();
    let mut of_one = parts(pick(random, tokens));
    let at = random.below(3) as usize;
    match random.below(3) {
        0 => of_one[at] = parts(pick(random, tokens))[at].clone(),
        1 => {
            let decoded = URL_SAFE_NO_PAD.decode(&of_one[at]).unwrap();
            of_one[at] = base64url(mutate(random, &[decoded]));
        }
        _ => {
            let more = *pick(random, &["=", "==", ".", "A", " ", "\n", "\0"]);
            of_one[at].push_str(more);
        }
    }
    of_one.join(".").into_bytes()
}

#[test]
fn mangled_json_web_tokens() {
    let mut run = Run::new("fuzz-json-web-tokens", SECONDS);
    let mut random = Random::new(run.seed);
    let signer = Signer::new();
    let issuer = OneIssuer::new("a", "https://a.example", "ledger", signer.jwks().as_bytes()).unwrap();
    let all =
        HEADERS.iter().flat_map(|header| CLAIMS.map(|claims| signer.token(header, claims).into_bytes()));
    let seeds: Vec<Vec<u8>> = all.collect();
    let valid = |token: &[u8]| issuer.verify(&text(token), NOW).is_ok();
    // Two good texts of claims, under each header that names the key which signed.
    assert_eq!(seeds.iter().filter(|seed| valid(seed)).count(), 4);
    let (end, mut tried, mut known) = (until(&run), 0_u64, 0_u64);
    while Instant::now() < end {
        let token = match random.below(3) {
            0 => mutate(&mut random, &seeds),
            _ => changed(&mut random, &seeds),
        };
        let token = text(&token);
        match bounded(&run, "a token", token.as_bytes(), || issuer.verify(&token, NOW)) {
            Ok(principal) => {
                known += 1;
                let is_sound = seeds.contains(&token.clone().into_bytes());
                if !is_sound || !["jwt:a:worker", "jwt:a:worker:2"].contains(&principal.as_str()) {
                    run.fail(format!("{principal} is known by a mangled token"), &[("token", token)]);
                }
            }
            Err(why) => reasoned(&run, "token", token.as_bytes(), &[why]),
        }
        tried += 1;
        let elapsed = run.elapsed().as_secs();
        run.progress(elapsed, format!("{tried} tokens"));
    }
    assert!(known > 0 && known < tried);
    run.summary(format!("{tried} JSON web tokens, {known} of them unchanged and known"));
}

#[test]
fn mangled_keys_of_issuers() {
    let mut run = Run::new("fuzz-jwks", SECONDS);
    let mut random = Random::new(run.seed);
    let signer = Signer::new();
    let seeds =
        [signer.jwks().into_bytes(), br#"{"keys":[{"kty":"oct","k":"AAAA"},{"use":"enc"}]}"#.to_vec()];
    let token = signer.token(HEADERS[2], CLAIMS[0]);
    let (end, mut tried, mut read) = (until(&run), 0_u64, 0_u64);
    while Instant::now() < end {
        let jwks = mutate(&mut random, &seeds);
        match bounded(&run, "keys", &jwks, || mangled::keys(&jwks)) {
            Ok(0) => run.fail("a JWKS without keys was read", &[("jwks", text(&jwks))]),
            Ok(_) => {
                read += 1;
                let issuer = OneIssuer::new("a", "https://a.example", "ledger", &jwks).unwrap();
                let found = bounded(&run, "a token", &jwks, || issuer.verify(&token, NOW));
                // The key that signed stands there still, to the letter.
                let key = base64url(signer.ed25519.public_key());
                if found.is_ok() && !text(&jwks).contains(&key) {
                    run.fail("a token is known without its key", &[("jwks", text(&jwks))]);
                }
            }
            Err(why) => reasoned(&run, "keys", &jwks, &[why]),
        }
        tried += 1;
        let elapsed = run.elapsed().as_secs();
        run.progress(elapsed, format!("{tried} sets of keys"));
    }
    assert!(read > 0 && read < tried);
    run.summary(format!("{tried} sets of keys, {read} of them read"));
}

//! Which tokens are valid.

mod issuers;
mod jwks;
pub(crate) mod signer;
mod vectors;

use super::*;
use signer::{By, Signer, base64url};

const NOW: u64 = 1_000_000;
const RSA: &str = r#"{"alg":"RS256","kid":"rsa","typ":"JWT"}"#;
const P256: &str = r#"{"alg":"ES256","kid":"p256"}"#;
const ED25519: &str = r#"{"alg":"EdDSA","kid":"ed25519"}"#;
/// Valid claims, in the middle of their validity.
const CLAIMS: &str =
    r#"{"iss":"https://a.example","aud":"ledger","sub":"worker","exp":1000300,"nbf":999700,"iat":"never"}"#;

/// Issuer `a` has a key of each type, with ids; `b` has one key without an id.
struct World {
    signer: Signer,
    issuers: Vec<Issuer>,
}

impl World {
    fn new() -> World {
        let signer = Signer::new();
        let of = |name: &str, jwks: &str| {
            let keys = Arc::new(Keys::of_jwks(jwks.as_bytes()).unwrap());
            let audiences = ["ledger".to_owned(), "ledger-eu".to_owned()];
            Issuer::new(name, &format!("https://{name}.example"), &audiences, keys).unwrap()
        };
        let of_b = signer::jwks(&[signer.other_ed25519("")]);
        let issuers = vec![of("a", &signer.jwks()), of("b", &of_b)];
        World { signer, issuers }
    }

    fn verify(&self, header: &str, claims: &str, by: By) -> Result<Verified, Refused> {
        verify(&self.issuers, &self.signer.token(header, claims, by), NOW)
    }
}

fn verified(subject: &str, until: u64) -> Verified {
    Verified { principal: format!("jwt:{subject}"), until }
}

#[test]
fn verify_requires_the_named_key_and_algorithm() {
    let good = || Ok(verified("a:worker", 1_000_360));
    let world = World::new();
    for (header, by, result) in [
        (RSA, By::Rsa, good()),
        (P256, By::P256, good()),
        (ED25519, By::Ed25519, good()),
        // No key is named, and the keys have ids.
        (r#"{"alg":"RS256"}"#, By::Rsa, Err(Refused::NoKeyId)),
        (r#"{"alg":"ES256"}"#, By::P256, Err(Refused::NoKeyId)),
        (r#"{"alg":"EdDSA"}"#, By::Ed25519, Err(Refused::NoKeyId)),
        (r#"{"alg":"EdDSA"}"#, By::OtherEd25519, Err(Refused::NoKeyId)),
        // Keys in the header of a token are ignored.
        (
            r#"{"alg":"EdDSA","kid":"ed25519","jku":"https://evil.example","jwk":{"kty":"OKP"}}"#,
            By::Ed25519,
            good(),
        ),
        (r#"{"alg":"EdDSA","jwk":{"kty":"OKP"}}"#, By::Ed25519, Err(Refused::NoKeyId)),
        // Not signed, or signed with the public key as a shared secret.
        (r#"{"alg":"none"}"#, By::NoKey, Err(Refused::Algorithm)),
        (r#"{"alg":"none","kid":"rsa"}"#, By::NoKey, Err(Refused::Algorithm)),
        (r#"{"alg":"None"}"#, By::NoKey, Err(Refused::Algorithm)),
        (r#"{"alg":""}"#, By::NoKey, Err(Refused::Algorithm)),
        (r#"{"alg":"HS256"}"#, By::RsaAsSecret, Err(Refused::Algorithm)),
        (r#"{"alg":"HS256","kid":"rsa"}"#, By::RsaAsSecret, Err(Refused::Algorithm)),
        (r#"{"alg":"RS256","kid":"rsa"}"#, By::RsaAsSecret, Err(Refused::Signature)),
        (RSA, By::NoKey, Err(Refused::Signature)),
        (P256, By::NoKey, Err(Refused::Signature)),
        (ED25519, By::NoKey, Err(Refused::Signature)),
        // Unsupported algorithms, in any spelling.
        (r#"{"alg":"RS512","kid":"rsa"}"#, By::Rsa, Err(Refused::Algorithm)),
        (r#"{"alg":"PS256","kid":"rsa"}"#, By::Rsa, Err(Refused::Algorithm)),
        (r#"{"alg":"rs256","kid":"rsa"}"#, By::Rsa, Err(Refused::Algorithm)),
        (r#"{"kid":"rsa"}"#, By::Rsa, Err(Refused::Missing("alg"))),
        (r#"{"alg":null}"#, By::Rsa, Err(Refused::WrongType("alg"))),
        (r#"{"alg":["RS256"]}"#, By::Rsa, Err(Refused::WrongType("alg"))),
        // Signed by another key than the one that `kid` names.
        (ED25519, By::OtherEd25519, Err(Refused::Signature)),
        (P256, By::OtherP256, Err(Refused::Signature)),
        (ED25519, By::P256, Err(Refused::Signature)),
        (r#"{"alg":"RS256","kid":"ed25519"}"#, By::Rsa, Err(Refused::KeyType)),
        (r#"{"alg":"EdDSA","kid":"rsa"}"#, By::Ed25519, Err(Refused::KeyType)),
        (r#"{"alg":"EdDSA","kid":"new"}"#, By::Ed25519, Err(Refused::UnknownKey { issuer: 0 })),
        (r#"{"alg":"EdDSA","kid":""}"#, By::Ed25519, Err(Refused::UnknownKey { issuer: 0 })),
        (r#"{"alg":"EdDSA","kid":null}"#, By::Ed25519, Err(Refused::WrongType("kid"))),
        // Extensions.
        (r#"{"alg":"EdDSA","crit":["exp"]}"#, By::Ed25519, Err(Refused::Critical)),
        (r#"{"alg":"EdDSA","crit":[]}"#, By::Ed25519, Err(Refused::Critical)),
        (r#"{"alg":"EdDSA","crit":null}"#, By::Ed25519, Err(Refused::Critical)),
        (r#"{"alg":"EdDSA","crit":["b64"],"b64":false}"#, By::Ed25519, Err(Refused::Critical)),
    ] {
        assert_eq!(world.verify(header, CLAIMS, by), result, "{header} by {by:?}");
    }
}

/// The number of verifications for a token without a `kid`, by the number of keys with an id, without an id, and without an id
/// for another algorithm; and why the token is refused.
#[test]
fn verify_without_kid_tries_few_keys() {
    let signer = Signer::new();
    for (named, nameless, others, verifications, refused) in [
        (0, 0, 0, 0, Unverified::UnknownKey),
        (0, 0, 3, 0, Unverified::UnknownKey),
        (1, 0, 0, 0, Unverified::NoKeyId),
        (16, 0, 0, 0, Unverified::NoKeyId),
        (1, 0, 1, 0, Unverified::NoKeyId),
        (0, 1, 0, 1, Unverified::Signature),
        (0, 4, 0, 4, Unverified::Signature),
        (0, 5, 0, 4, Unverified::NotTried),
        (0, 16, 0, 4, Unverified::NotTried),
        (3, 2, 2, 2, Unverified::Signature),
    ] {
        let mut all: Vec<String> =
            (0..named).map(|at| signer.ed25519(&format!(r#","kid":"{at}""#))).collect();
        all.extend((0..nameless).map(|_| signer.ed25519("")));
        all.extend((0..others).map(|_| signer.p256("")));
        let keys =
            if all.is_empty() { Keys::none() } else { Keys::of_jwks(signer::jwks(&all).as_bytes()).unwrap() };
        let mut tried = 0;
        let result = keys.verify(None, Algorithm::EdDsa, |_| {
            tried += 1;
            false
        });
        let row = format!("{named} named, {nameless} nameless, {others} others");
        assert_eq!((tried, result), (verifications, Err(refused)), "{row}");
        // The last key that is tried may be the right one.
        let mut tried = 0;
        let last = keys.verify(None, Algorithm::EdDsa, |key| {
            tried += 1;
            assert!(key.algorithm() == Algorithm::EdDsa, "{row}");
            tried == verifications
        });
        assert_eq!(last.is_ok(), verifications > 0, "{row}");
    }
}

#[test]
fn refusal_without_kid_says_how_many_keys_were_tried() {
    let signer = Signer::new();
    for (count, refused, says) in [
        (4, Refused::Signature, "signature of the token is not valid"),
        (5, Refused::NotTried, "by the first 4 keys"),
    ] {
        let all: Vec<String> = (0..count).map(|_| signer.ed25519("")).collect();
        let keys = Arc::new(Keys::of_jwks(signer::jwks(&all).as_bytes()).unwrap());
        let issuer = Issuer::new("a", "https://a.example", &["ledger".to_owned()], keys).unwrap();
        let token = signer.token(r#"{"alg":"EdDSA"}"#, CLAIMS, By::OtherEd25519);
        let result = verify(&[issuer], &token, NOW).unwrap_err();
        assert_eq!(result, refused, "{count}");
        assert!(result.to_string().contains(says), "{result}");
    }
}

#[test]
fn verify_key_of_other_issuer_is_unknown() {
    let world = World::new();
    let of_b = CLAIMS.replace("a.example", "b.example");
    for (header, claims, by, result) in [
        (r#"{"alg":"EdDSA"}"#, &of_b[..], By::OtherEd25519, Ok(verified("b:worker", 1_000_360))),
        (r#"{"alg":"EdDSA"}"#, &of_b, By::Ed25519, Err(Refused::Signature)),
        (ED25519, &of_b, By::Ed25519, Err(Refused::UnknownKey { issuer: 1 })),
        (ED25519, &of_b, By::OtherEd25519, Err(Refused::UnknownKey { issuer: 1 })),
        (r#"{"alg":"RS256"}"#, &of_b, By::Rsa, Err(Refused::UnknownKey { issuer: 1 })),
        (r#"{"alg":"EdDSA"}"#, CLAIMS, By::OtherEd25519, Err(Refused::NoKeyId)),
    ] {
        assert_eq!(world.verify(header, claims, by), result, "{header} {claims} by {by:?}");
    }
}

#[test]
fn verify_checks_claim_types_and_audience() {
    let world = World::new();
    let long = "é".repeat(SUBJECT_MAX / 2);
    let too_long = format!("{long}a");
    for (from, to, result) in [
        ("", "", Ok(verified("a:worker", 1_000_360))),
        (r#""https://a.example""#, r#""https://a.example/""#, Err(Refused::UnknownIssuer)),
        (r#""https://a.example""#, r#""https://A.example""#, Err(Refused::UnknownIssuer)),
        (r#""https://a.example""#, r#""""#, Err(Refused::UnknownIssuer)),
        (r#""https://a.example""#, r#"["https://a.example"]"#, Err(Refused::WrongType("iss"))),
        (r#""iss""#, r#""isx""#, Err(Refused::Missing("iss"))),
        (r#""ledger""#, r#""ledger-eu""#, Ok(verified("a:worker", 1_000_360))),
        (r#""ledger""#, r#"["x","ledger-eu"]"#, Ok(verified("a:worker", 1_000_360))),
        (r#""ledger""#, r#""Ledger""#, Err(Refused::WrongAudience)),
        (r#""ledger""#, r#""ledger ""#, Err(Refused::WrongAudience)),
        (r#""ledger""#, r#""""#, Err(Refused::WrongAudience)),
        (r#""ledger""#, r#"["x","y"]"#, Err(Refused::WrongAudience)),
        (r#""ledger""#, "[]", Err(Refused::WrongAudience)),
        (r#""ledger""#, r#"["ledger",1]"#, Err(Refused::WrongType("aud"))),
        (r#""ledger""#, r#"[["ledger"]]"#, Err(Refused::WrongType("aud"))),
        (r#""ledger""#, r#"{"ledger":1}"#, Err(Refused::WrongType("aud"))),
        (r#""ledger""#, "null", Err(Refused::WrongType("aud"))),
        (r#""aud""#, r#""aux""#, Err(Refused::Missing("aud"))),
        (r#""worker""#, r#""a:b c*/ü""#, Ok(verified("a:a:b c*/ü", 1_000_360))),
        ("worker", &long, Ok(verified(&format!("a:{long}"), 1_000_360))),
        ("worker", &too_long, Err(Refused::Subject)),
        (r#""worker""#, r#""""#, Err(Refused::Subject)),
        (r#""worker""#, r#""a\nb""#, Err(Refused::Subject)),
        (r#""worker""#, r#""a\u0000""#, Err(Refused::Subject)),
        (r#""worker""#, r#""a\u007f""#, Err(Refused::Subject)),
        (r#""worker""#, r#""a\u0085""#, Err(Refused::Subject)),
        (r#""worker""#, r#""a\u061c""#, Err(Refused::Subject)),
        (r#""worker""#, r#""a\u200f""#, Err(Refused::Subject)),
        (r#""worker""#, "\"a\u{202e}b\"", Err(Refused::Subject)),
        (r#""worker""#, r#""\u2066a""#, Err(Refused::Subject)),
        (r#""worker""#, "7", Err(Refused::WrongType("sub"))),
        (r#""worker""#, "null", Err(Refused::WrongType("sub"))),
        (r#""sub""#, r#""sux""#, Err(Refused::Missing("sub"))),
        (r#""exp""#, r#""exx""#, Err(Refused::Missing("exp"))),
        ("1000300", r#""1000300""#, Err(Refused::WrongType("exp"))),
        ("1000300", "null", Err(Refused::WrongType("exp"))),
        ("1000300", "-1", Err(Refused::WrongType("exp"))),
        ("1000300", "1e300", Err(Refused::WrongType("exp"))),
        ("999700", r#""x""#, Err(Refused::WrongType("nbf"))),
        ("999700", "null", Err(Refused::WrongType("nbf"))),
        (r#""nbf""#, r#""nbx""#, Ok(verified("a:worker", 1_000_360))),
    ] {
        let claims = CLAIMS.replace(from, to);
        let claims = if from.is_empty() { CLAIMS } else { &claims };
        assert_eq!(world.verify(ED25519, claims, By::Ed25519), result, "{from} as {to}");
    }
}

#[test]
fn verify_times_have_a_minute_of_leeway() {
    let world = World::new();
    for (from, to, result) in [
        ("1000300", "1000000", Ok(verified("a:worker", 1_000_060))),
        ("1000300", "999941", Ok(verified("a:worker", 1_000_001))),
        ("1000300", "999941.9", Ok(verified("a:worker", 1_000_001))),
        ("1000300", "999940", Err(Refused::Expired)),
        ("1000300", "999940.9", Err(Refused::Expired)),
        ("1000300", "0", Err(Refused::Expired)),
        ("1000300", "18446744073709551615", Ok(verified("a:worker", u64::MAX))),
        ("999700", "1000060", Ok(verified("a:worker", 1_000_360))),
        ("999700", "1000059.5", Ok(verified("a:worker", 1_000_360))),
        ("999700", "1000060.5", Err(Refused::NotYetValid)),
        ("999700", "1000061", Err(Refused::NotYetValid)),
        ("999700", "18446744073709551615", Err(Refused::NotYetValid)),
    ] {
        let claims = CLAIMS.replace(from, to);
        assert_eq!(world.verify(ED25519, &claims, By::Ed25519), result, "{from} as {to}");
    }
}

#[test]
fn verify_bad_signature_does_not_reveal_claim_errors() {
    let world = World::new();
    for (from, to) in [("1000300", "0"), ("999700", "2000000"), ("ledger", "other"), ("worker", "")] {
        let claims = CLAIMS.replace(from, to);
        assert_eq!(world.verify(ED25519, &claims, By::OtherEd25519), Err(Refused::Signature), "{claims}");
    }
}

/// Malformed tokens: not three parts in strict base64url.
#[test]
fn verify_malformed_token_is_refused() {
    let world = World::new();
    let (header, claims) = (base64url(ED25519), base64url(CLAIMS));
    let good = world.signer.token(ED25519, CLAIMS, By::Ed25519);
    let signature = good.rsplit('.').next().unwrap();
    let twice = |text: &str, more: &str| text.replacen('{', &format!("{{{more},"), 1);
    let signed = |header: &str, claims: &str| world.signer.signed(&format!("{header}.{claims}"), By::Ed25519);
    // The last of 86 characters has two bits of the 64 bytes; the other four are zero.
    let other_end = format!("{}{}", &good[..good.len() - 1], if good.ends_with('A') { 'B' } else { 'C' });
    assert!(verify(&world.issuers, &good, NOW).is_ok());
    let no_header = Refused::Malformed("its header is not a JSON object in base64url");
    let no_claims = Refused::Malformed("its claims are not a JSON object in base64url");
    let no_signature = Refused::Malformed("its signature is not base64url");
    let not_three = Refused::Malformed("it has not three parts");
    for (token, refused) in [
        (String::new(), not_three),
        ("a".into(), not_three),
        ("a.b".into(), not_three),
        (format!("{header}.{claims}"), not_three),
        (format!("{good}."), not_three),
        (format!(".{good}"), not_three),
        (format!("{good}.{signature}"), not_three),
        ("..".into(), no_header),
        (format!(".{claims}.{signature}"), no_header),
        (format!("{header}..{signature}"), no_claims),
        (format!("{header}.{claims}."), Refused::Signature),
        (format!(" {good}"), no_header),
        (format!("{good} "), no_signature),
        (format!("{good}\n"), no_signature),
        (format!("{good}="), no_signature),
        (format!("{good}=="), no_signature),
        (format!("{good}AAA"), no_signature),
        (format!("{good}A"), Refused::Signature),
        (format!("{good}AAAA"), Refused::Signature),
        (other_end, no_signature),
        (format!("{header}.{claims}.{}", signature.replace(['-', '_'], "+")), no_signature),
        (format!("{header}.{claims}.{}", &signature[..84]), Refused::Signature),
        (signed(&format!("{header}="), &claims), no_header),
        (signed(&header, &format!("{claims}=")), no_claims),
        (signed(&base64url("x"), &claims), no_header),
        (signed(&base64url("null"), &claims), no_header),
        (signed(&base64url(r#"["EdDSA"]"#), &claims), no_header),
        (signed(&base64url(format!("{ED25519}x")), &claims), no_header),
        (signed(&base64url([0xff, 0xfe]), &claims), no_header),
        (signed(&header, &base64url("[]")), no_claims),
        (signed(&header, &base64url(format!("{CLAIMS}{CLAIMS}"))), no_claims),
        (signed(&header, &base64url(format!(r#"{{"x":{}"#, "[".repeat(5_000)))), no_claims),
        // Duplicate names.
        (signed(&base64url(twice(ED25519, r#""alg":"EdDSA""#)), &claims), no_header),
        (signed(&base64url(twice(ED25519, r#""alg":"none""#)), &claims), no_header),
        (signed(&base64url(twice(ED25519, r#""\u0061lg":"none""#)), &claims), no_header),
        (signed(&base64url(twice(ED25519, r#""x":1,"x":1"#)), &claims), no_header),
        (signed(&header, &base64url(twice(CLAIMS, r#""sub":"admin""#))), no_claims),
        (signed(&header, &base64url(twice(CLAIMS, r#""exp":9"#))), no_claims),
        (signed(&header, &base64url(twice(CLAIMS, r#""x":1,"x":2"#))), no_claims),
    ] {
        // Some signatures have neither of the characters that are replaced.
        if token != good {
            assert_eq!(verify(&world.issuers, &token, NOW), Err(refused), "{token}");
        }
    }
}

#[test]
fn verify_long_token_is_refused() {
    let world = World::new();
    let of_length = |length: usize| {
        let fill = |bytes: usize| CLAIMS.replacen('{', &format!(r#"{{"fill":"{}","#, "x".repeat(bytes)), 1);
        let least = world.signer.token(ED25519, &fill(0), By::Ed25519).len();
        let token = world.signer.token(ED25519, &fill((length - least) * 3 / 4), By::Ed25519);
        (token.len(), verify(&world.issuers, &token, NOW))
    };
    let (length, result) = of_length(TOKEN_MAX);
    assert!((TOKEN_MAX - 2..=TOKEN_MAX).contains(&length) && result.is_ok(), "{length}: {result:?}");
    let (length, result) = of_length(TOKEN_MAX + 4);
    assert!(length > TOKEN_MAX, "{length}");
    assert_eq!(result, Err(Refused::TooLong));
    assert_eq!(verify(&world.issuers, &"é".repeat(TOKEN_MAX), NOW), Err(Refused::TooLong));
    assert!(verify(&world.issuers, "é.é.é", NOW).is_err());
}

#[test]
fn verify_changed_token_is_refused() {
    let world = World::new();
    let good = world.signer.token(ED25519, CLAIMS, By::Ed25519);
    for at in 0..good.len() {
        for other in ["A", "g", "_", ".", "=", "", "AA", "\0", "é"] {
            let token = format!("{}{other}{}", &good[..at], &good[at + 1..]);
            if token != good {
                assert!(verify(&world.issuers, &token, NOW).is_err(), "{other} at {at}: {token}");
            }
        }
    }
}

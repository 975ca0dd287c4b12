//! Which keys of a JWKS are kept.

use super::signer::jwks;
use super::*;

fn kept(text: &str) -> Result<usize, String> {
    Keys::of_jwks(text.as_bytes()).map(|keys| keys.count())
}

/// A number of this many bytes in base64url: all ones, or with another end.
fn number(bytes: usize, end: u8) -> String {
    let mut number = vec![0xff; bytes];
    if let Some(last) = number.last_mut() {
        *last = end;
    }
    base64url(number)
}

fn rsa_of(n: &str, e: &str) -> String {
    format!(r#"{{"kty":"RSA","n":"{n}","e":"{e}"}}"#)
}

#[test]
fn of_jwks_keeps_usable_keys() {
    let signer = Signer::new();
    let long = |text: &str| text.replace(r#""x":""#, r#""x":"AAAA"#);
    let modulus = &number(256, 0xff)[..];
    for (key, kept_of_it) in [
        (signer.rsa(""), true),
        (signer.rsa(r#","use":"sig","alg":"RS256","key_ops":["verify"],"kid":"","x5c":["x"]"#), true),
        (signer.rsa(r#","use":"enc""#), false),
        (signer.rsa(r#","use":1"#), false),
        (signer.rsa(r#","alg":"RS512""#), false),
        (signer.rsa(r#","alg":"PS256""#), false),
        (signer.rsa(r#","alg":"ES256""#), false),
        (signer.rsa(r#","key_ops":["encrypt"]"#), false),
        (signer.rsa(r#","key_ops":[]"#), false),
        (signer.rsa(r#","key_ops":"verify""#), false),
        (signer.rsa(r#","kid":1"#), false),
        (signer.rsa(r#","kid":null"#), false),
        (rsa_of(modulus, "AQAB"), true),
        (rsa_of(modulus, "Aw"), true),
        (rsa_of(modulus, "AAEAAQ"), true),
        (rsa_of(&number(1_024, 0xff), "AQAB"), true),
        (rsa_of(&number(1_025, 0xff), "AQAB"), false),
        (rsa_of(&number(255, 0xff), "AQAB"), false),
        (rsa_of(&number(128, 0xff), "AQAB"), false),
        (rsa_of(&number(256, 0xfe), "AQAB"), false),
        (rsa_of(&base64url([&[0][..], &[0xff; 256]].concat()), "AQAB"), true),
        (rsa_of(&base64url([&[0][..], &[0xff; 255]].concat()), "AQAB"), false),
        (rsa_of(&base64url([&[0x7f][..], &[0xff; 255]].concat()), "AQAB"), false),
        (rsa_of(modulus, "AQ"), false),
        (rsa_of(modulus, "Ag"), false),
        (rsa_of(modulus, ""), false),
        (rsa_of(modulus, &number(5, 0xff)), false),
        (rsa_of("", "AQAB"), false),
        (rsa_of("+/+/", "AQAB"), false),
        (r#"{"kty":"RSA","e":"AQAB"}"#.into(), false),
        (signer.p256(r#","alg":"ES256""#), true),
        (signer.p256(r#","alg":"RS256""#), false),
        (long(&signer.p256("")), false),
        (signer.p256("").replace("P-256", "P-384"), false),
        (signer.p256("").replace("P-256", "secp256k1"), false),
        (signer.p256("").replace(r#""y""#, r#""z""#), false),
        (signer.ed25519(r#","alg":"EdDSA""#), true),
        (signer.ed25519(r#","alg":"ES256""#), false),
        (long(&signer.ed25519("")), false),
        (signer.ed25519("").replace("Ed25519", "X25519"), false),
        (signer.ed25519("").replace("OKP", "EC"), false),
        (signer.p256("").replace(r#""EC""#, r#""OKP""#), false),
        (r#"{"kty":"oct","k":"AAAA","alg":"HS256"}"#.into(), false),
        ("{}".into(), false),
    ] {
        let good = signer.ed25519(r#","kid":"another""#);
        let with_good_key = kept(&jwks(&[good, key.clone()])).unwrap();
        assert_eq!(with_good_key, if kept_of_it { 2 } else { 1 }, "{key}");
        assert_eq!(kept(&jwks(std::slice::from_ref(&key))).is_ok(), kept_of_it, "{key}");
    }
}

#[test]
fn of_jwks_malformed_reports_reason() {
    let signer = Signer::new();
    let many = |count: usize| {
        jwks(&(0..count).map(|at| signer.ed25519(&format!(r#","kid":"{at}""#))).collect::<Vec<_>>())
    };
    let same =
        |more: &str| jwks(&[signer.rsa(r#","kid":"k""#), signer.p256(&format!(r#","kid":"k"{more}"#))]);
    let twice = jwks(&[signer.rsa(r#","kid":"k","kid":"l""#)]);
    let filled = format!(r#"{{"x":"{}"}}"#, "x".repeat(256 * 1_024));
    let wide = format!(r#"{{"keys":"{}"}}"#, "x".repeat(2_000));
    for (text, result) in [
        (&many(16)[..], Ok(16)),
        (&many(17), Err("the JWKS has 17 keys; 16 are the most")),
        (&same(""), Err("the JWKS has two keys with the same `kid`")),
        (&same(r#","use":"enc""#), Ok(1)),
        (&jwks(&[signer.rsa(""), signer.p256("")]), Ok(2)),
        (&twice, Err("it is not a JWKS")),
        (r#"{"keys":[]}"#, Err("the JWKS has no keys")),
        (r#"{"keys":[{}]}"#, Err("the JWKS has no key that can be used, of 1; the first: it is not of RSA")),
        (r#"{"keys":[],"keys":[]}"#, Err("it is not a JWKS")),
        (r#"{"keys":[1]}"#, Err("it is not a JWKS")),
        ("{}", Err("it is not a JWKS")),
        ("[]", Err("it is not a JWKS")),
        ("<html>", Err("it is not a JWKS")),
        ("", Err("it is not a JWKS")),
        (&filled, Err("the JWKS has more than 262144 bytes")),
        (&wide, Err("it is not a JWKS")),
    ] {
        let shown = text.get(..80).unwrap_or(text);
        match (kept(text), result) {
            (Ok(kept), Ok(count)) => assert_eq!(kept, count, "{shown}"),
            (Err(error), Err(begin)) => {
                assert!(error.starts_with(begin) && error.len() < 400, "{shown}: {error}");
            }
            (got, wanted) => panic!("{shown}: {got:?}, not {wanted:?}"),
        }
    }
}

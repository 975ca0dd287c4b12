//! Which issuers can be configured.

use super::*;

fn issuer(name: &str, iss: &str, audiences: &[&str]) -> Result<Issuer, String> {
    let audiences: Vec<String> = audiences.iter().map(|audience| (*audience).to_owned()).collect();
    Issuer::new(name, iss, &audiences, Arc::new(Keys::none()))
}

#[test]
fn new_invalid_name_is_refused() {
    for (name, good) in [
        ("a", true),
        ("Corp-1._x", true),
        (&*"x".repeat(64), true),
        (&*"x".repeat(65), false),
        ("", false),
        ("a:b", false),
        ("a b", false),
        ("a*", false),
        ("ä", false),
    ] {
        assert_eq!(issuer(name, "i", &["a"]).is_ok(), good, "{name}");
    }
}

#[test]
fn new_without_audience_is_refused() {
    for (iss, audiences, good) in [
        ("i", &["a"][..], true),
        ("i", &["a", "b"], true),
        ("i", &[], false),
        ("i", &["a", ""], false),
        ("", &["a"], false),
    ] {
        assert_eq!(issuer("n", iss, audiences).is_ok(), good, "{iss} {audiences:?}");
    }
}

#[test]
fn distinct_refuses_duplicates() {
    let of = |all: &[(&str, &str)]| {
        let all: Vec<Issuer> = all.iter().map(|(name, iss)| issuer(name, iss, &["a"]).unwrap()).collect();
        Issuer::distinct(&all)
    };
    for (all, result) in [
        (&[][..], Ok(())),
        (&[("a", "1"), ("b", "2"), ("A", "3")], Ok(())),
        (&[("a", "1"), ("b", "2"), ("a", "3")], Err("two issuers have the name a")),
        (&[("a", "1"), ("b", "2"), ("c", "2")], Err("the issuers b and c have the same `iss`")),
    ] {
        assert_eq!(of(all), result.map_err(str::to_owned), "{all:?}");
    }
}

#[test]
fn verify_without_keys_is_refused() {
    let signer = Signer::new();
    let issuers = [issuer("a", "https://a.example", &["ledger"]).unwrap()];
    for header in [ED25519, r#"{"alg":"EdDSA"}"#] {
        let token = signer.token(header, CLAIMS, By::Ed25519);
        assert_eq!(verify(&issuers, &token, NOW), Err(Refused::UnknownKey { issuer: 0 }), "{header}");
        assert_eq!(verify(&[], &token, NOW), Err(Refused::UnknownIssuer), "{header}");
    }
}

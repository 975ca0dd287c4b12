//! The catalogue of credentials: how each is presented, and whom it names by docs/contract.md, section 14.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::wire::Headers;
use crate::identity::People;
use crate::identity::web_tokens::{ISSUER, Signer, now};

const AUTHORIZATION: &str = "authorization";
const XFCC: &str = "x-forwarded-client-cert";

/// A credential.
#[derive(Clone, Debug)]
pub(super) struct Presented {
    pub(super) what: String,
    pub(super) headers: Headers,
    /// The principal; `None` if the call is `UNAUTHENTICATED`.
    pub(super) known: Option<String>,
}

fn presented(what: &str, headers: Headers, known: Option<&str>) -> Presented {
    Presented { what: what.to_owned(), headers, known: known.map(str::to_owned) }
}

fn authorization(values: &[&[u8]]) -> Headers {
    values.iter().map(|value| (AUTHORIZATION, value.to_vec())).collect()
}

/// What a caller presents to a server with a file of tokens, where nothing stands between the two.
pub(super) fn bearer(people: &People) -> Vec<Presented> {
    let (one, two) = (people.token("one"), people.token("two"));
    let removed = "ilt_0000000000000000000000000000000000000000000";
    let hash = &people.tokens[0].1.hash;
    let bearer = |token: &str| format!("Bearer {token}");
    let single: &[(&str, String, Option<&str>)] = &[
        ("a token", bearer(one), Some("token:one")),
        ("another token", bearer(two), Some("token:two")),
        ("a token that ends later", bearer(people.token("ends")), Some("token:ends")),
        ("a token that ended within the leeway", bearer(people.token("ending")), Some("token:ending")),
        ("a token that has ended", bearer(people.token("ended")), None),
        ("a token that ended long ago", bearer(people.token("long-ended")), None),
        ("the scheme in small letters", format!("bearer {one}"), Some("token:one")),
        ("the scheme in capitals", format!("BEARER {one}"), Some("token:one")),
        ("the scheme in mixed letters", format!("bEaReR {one}"), Some("token:one")),
        ("an empty header", String::new(), None),
        ("a blank", " ".into(), None),
        ("the scheme alone", "Bearer".into(), None),
        ("the scheme and a blank", "Bearer ".into(), None),
        ("the scheme of passwords", format!("Basic {one}"), None),
        ("another scheme", format!("Token {one}"), None),
        ("a longer scheme", format!("Bearers {one}"), None),
        ("no scheme", one.into(), None),
        ("two blanks", format!("Bearer  {one}"), None),
        ("a blank before", format!(" Bearer {one}"), None),
        ("a blank behind", format!("Bearer {one} "), None),
        ("a tab", format!("Bearer\t{one}"), None),
        ("a blank within", format!("Bearer {} {}", &one[..20], &one[20..]), None),
        ("a quoted token", format!("Bearer \"{one}\""), None),
        ("two in one header", format!("Bearer {one}, Bearer {two}"), None),
        ("a token that was never there, or was taken out", bearer(removed), None),
        ("the hash of a token", bearer(hash), None),
        ("the digits of the hash", bearer(hash.trim_start_matches("sha256:")), None),
        ("a cut token", bearer(&one[..one.len() - 1]), None),
        ("a longer token", bearer(&format!("{one}A")), None),
        ("a token in capitals", bearer(&one.to_uppercase()), None),
        ("a token without its prefix", bearer(one.trim_start_matches("ilt_")), None),
        ("a principal", bearer("token:one"), None),
        ("a long token", bearer(&"a".repeat(5_000)), None),
        ("a token and much behind it", bearer(&format!("{one}{}", "a".repeat(5_000))), None),
    ];
    let mut all: Vec<Presented> = single
        .iter()
        .map(|(what, value, known)| presented(what, authorization(&[value.as_bytes()]), *known))
        .collect();
    let (one, two) = (bearer(one), bearer(two));
    let (valid, other) = (one.as_bytes(), two.as_bytes());
    let beyond_ascii = [valid, &[0xe9, 0xff]].concat();
    let several: &[(&str, &[&[u8]])] = &[
        ("no header", &[]),
        ("no ASCII", &[b"Bearer \xc3\xa4"]),
        ("no UTF-8", &[&beyond_ascii]),
        ("twice", &[valid, valid]),
        ("two tokens", &[valid, other]),
        ("a valid token, then a wrong one", &[valid, b"Bearer x"]),
        ("a wrong token, then a valid one", &[b"Bearer x", valid]),
        ("an empty header, then a valid one", &[b"", valid]),
        ("a valid token, then an empty header", &[valid, b""]),
        ("a password, then a valid token", &[b"Basic eDp5", valid]),
        ("a valid token, three times", &[valid, valid, valid]),
    ];
    all.extend(several.iter().map(|(what, values)| presented(what, authorization(values), None)));
    for name in [
        "x-authorization",
        "proxy-authorization",
        "cookie",
        "authorization-token",
        "x-forwarded-authorization",
    ] {
        all.push(presented(&format!("a token as {name}"), vec![(name, valid.to_vec())], None));
    }
    let forwarded = (XFCC, b"URI=spiffe://shop/pay".to_vec());
    all.push(presented("a forwarded name, from a proxy that is not listed", vec![forwarded.clone()], None));
    let both = vec![(AUTHORIZATION, valid.to_vec()), forwarded.clone()];
    all.push(presented("a token, and a forwarded name of a stranger", both, Some("token:one")));
    let wrong = vec![(AUTHORIZATION, b"Bearer x".to_vec()), forwarded];
    all.push(presented("a wrong token, and a forwarded name of a stranger", wrong, None));
    all
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// Web tokens of the issuer `corp`, whose keys have ids; and such as it has not signed.
pub(super) fn web_tokens(ours: &Signer, theirs: &Signer) -> Vec<Presented> {
    let header = json!({ "alg": "EdDSA", "kid": ours.kid });
    let usual = json!({ "iss": ISSUER, "aud": "ledger", "sub": "pay", "exp": now() + 600 });
    let claims = |changes: Value| ours.token(&changes);
    let with_header = |header: Value| ours.signs(&header, &usual);
    let unsigned = |header: Value| format!("{}.{}.", part(&header), part(&usual));
    let sound = claims(json!({}));
    let (signed, signature) = sound.rsplit_once('.').unwrap();
    let (first, _) = signed.split_once('.').unwrap();
    let forged = json!({ "iss": ISSUER, "aud": "ledger", "sub": "root", "exp": now() + 600 });
    let doubled = format!(
        "{{\"iss\":\"{ISSUER}\",\"aud\":\"ledger\",\"sub\":\"pay\",\"sub\":\"root\",\"exp\":{}}}",
        now() + 600
    );
    let rows: Vec<(&str, String, Option<&str>)> = vec![
        ("a web token", sound.clone(), Some("jwt:corp:pay")),
        ("one of its audiences", claims(json!({ "aud": ["x", "ledger"] })), Some("jwt:corp:pay")),
        ("ended within the leeway", claims(json!({ "exp": now() - 2 })), Some("jwt:corp:pay")),
        ("begins within the leeway", claims(json!({ "nbf": now() + 30 })), Some("jwt:corp:pay")),
        ("a subject like a principal", claims(json!({ "sub": "token:one" })), Some("jwt:corp:token:one")),
        ("ended", claims(json!({ "exp": now() - 90 })), None),
        ("ended long ago", claims(json!({ "exp": 1 })), None),
        ("no end", claims(json!({ "exp": null })), None),
        ("an end that is a text", claims(json!({ "exp": "4102444800" })), None),
        ("an end below zero", claims(json!({ "exp": -1 })), None),
        ("not yet valid", claims(json!({ "nbf": now() + 120 })), None),
        ("a beginning that is a text", claims(json!({ "nbf": "1" })), None),
        ("another audience", claims(json!({ "aud": "elsewhere" })), None),
        ("no audience", claims(json!({ "aud": null })), None),
        ("an empty list of audiences", claims(json!({ "aud": [] })), None),
        ("an audience that is a number", claims(json!({ "aud": 5 })), None),
        ("an audience in capitals", claims(json!({ "aud": "LEDGER" })), None),
        ("another issuer", claims(json!({ "iss": "https://evil.example" })), None),
        ("an issuer with a slash behind", claims(json!({ "iss": format!("{ISSUER}/") })), None),
        ("no issuer", claims(json!({ "iss": null })), None),
        ("no subject", claims(json!({ "sub": null })), None),
        ("an empty subject", claims(json!({ "sub": "" })), None),
        ("a subject that is a number", claims(json!({ "sub": 5 })), None),
        ("a subject with a control character", claims(json!({ "sub": "pay\u{7}" })), None),
        ("a subject that turns the line", claims(json!({ "sub": "pay\u{202e}" })), None),
        ("a long subject", claims(json!({ "sub": "a".repeat(300) })), None),
        ("a subject that stands there twice", ours.signs_text(&header.to_string(), &doubled), None),
        ("alg none", unsigned(json!({ "alg": "none" })), None),
        ("alg none, with the id of a key", unsigned(json!({ "alg": "none", "kid": ours.kid })), None),
        ("alg none in mixed letters", unsigned(json!({ "alg": "nOnE", "kid": ours.kid })), None),
        ("no alg", with_header(json!({ "kid": ours.kid })), None),
        ("a shared secret", with_header(json!({ "alg": "HS256", "kid": ours.kid })), None),
        ("the alg of another type", with_header(json!({ "alg": "RS256", "kid": ours.kid })), None),
        ("the alg of another curve", with_header(json!({ "alg": "ES256", "kid": ours.kid })), None),
        (
            "an extension that must be known",
            with_header(json!({ "alg": "EdDSA", "kid": ours.kid, "crit": ["x"] })),
            None,
        ),
        ("an unknown key", with_header(json!({ "alg": "EdDSA", "kid": "k9" })), None),
        ("an empty id of a key", with_header(json!({ "alg": "EdDSA", "kid": "" })), None),
        ("an id of a key that is a number", with_header(json!({ "alg": "EdDSA", "kid": 1 })), None),
        ("no id of a key, where the keys have ids", with_header(json!({ "alg": "EdDSA" })), None),
        ("another's key", theirs.token(&json!({})), None),
        ("another's key, without an id", theirs.signs(&json!({ "alg": "EdDSA" }), &usual), None),
        ("other claims behind the signature", format!("{first}.{}.{signature}", part(&forged)), None),
        ("no signature", format!("{signed}."), None),
        ("a cut signature", format!("{signed}.{}", &signature[..signature.len() - 4]), None),
        ("two parts", signed.to_owned(), None),
        ("four parts", format!("{sound}.x"), None),
        ("five parts, as an encrypted token has", format!("{sound}.x.y"), None),
        ("padding", format!("{sound}=="), None),
        ("no JSON", "a.b.c".into(), None),
        ("dots alone", "..".into(), None),
    ];
    rows.into_iter()
        .map(|(what, token, known)| {
            presented(
                &format!("web token: {what}"),
                authorization(&[format!("Bearer {token}").as_bytes()]),
                known,
            )
        })
        .collect()
}

/// What a proxy that is trusted sends.
pub(super) fn forwarded(people: &People) -> Vec<Presented> {
    let token = (AUTHORIZATION, format!("Bearer {}", people.token("one")).into_bytes());
    let wrong = (AUTHORIZATION, b"Bearer x".to_vec());
    let name = |text: &str| (XFCC, text.as_bytes().to_vec());
    let pay = || name("By=spiffe://mesh/ledger;URI=spiffe://shop/pay");
    let known = Some("spiffe://shop/pay");
    let mut all = vec![
        presented("nothing at all", vec![], None),
        presented("a token comes first", vec![token.clone(), pay()], Some("token:one")),
        presented("a token alone", vec![token.clone()], Some("token:one")),
        presented("a wrong token is not made good", vec![wrong, pay()], None),
        presented("a wrong header is not made good", vec![token.clone(), name("Hash=1")], None),
        presented("two headers", vec![pay(), pay()], None),
        presented("two headers, and a token", vec![token.clone(), pay(), pay()], None),
        presented("two tokens, and a header", vec![token.clone(), token, pay()], None),
        presented("no UTF-8", vec![(XFCC, b"URI=spiffe://shop/\xff".to_vec())], None),
    ];
    let long = format!("URI=spiffe://shop/{}", "a".repeat(600));
    let rows: &[(&str, Option<&str>)] = &[
        ("URI=spiffe://shop/pay", known),
        ("By=spiffe://mesh/ledger;Hash=1;Subject=\"CN=a,O=b\";URI=spiffe://shop/pay", known),
        ("uri=\"spiffe://shop/pay\"", known),
        ("URI=spiffe://forged/x,URI=spiffe://shop/pay", known),
        ("URI=https://shop/pay;URI=spiffe://shop/pay", known),
        ("", None),
        ("URI=", None),
        ("URI", None),
        ("URI=https://shop/pay", None),
        ("URI=SPIFFE://shop/pay", None),
        ("URI=spiffe://shop/a;URI=spiffe://shop/b", None),
        ("By=spiffe://shop/pay", None),
        ("DNS=shop", None),
        ("URI=spiffe://forged/x,Hash=1", None),
        ("URI=spiffe://forged/x,", None),
        ("Subject=\"a,URI=spiffe://forged/x", None),
        ("Subject=\"a\"URI=spiffe://forged/x", None),
        ("URI=\"spiffe://shop/pay b\"", None),
        (&long, None),
    ];
    all.extend(
        rows.iter()
            .map(|(text, known)| presented(&format!("forwarded {text:.60}"), vec![name(text)], *known)),
    );
    all
}

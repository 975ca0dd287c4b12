use bytes::Bytes;
use http::{HeaderValue, Response, header};

use crate::{
    Advice, Outcome, Steer,
    http::{Settings, rules, settings::source_of},
};

fn key(values: &[&[u8]]) -> Option<String> {
    let values: Vec<HeaderValue> =
        values.iter().map(|value| HeaderValue::from_bytes(value).unwrap()).collect();
    rules::key_of(&values.iter().collect::<Vec<_>>())
}

#[test]
fn keys_are_bare_or_strings_of_structured_fields() {
    assert_eq!(key(&[b"8e03978e-40d5"]).as_deref(), Some("8e03978e-40d5"));
    assert_eq!(key(&[br#""a \"b\" \\ c, d""#]).as_deref(), Some(r#"a "b" \ c, d"#));
    assert_eq!(key(&["x".repeat(255).as_bytes()]), Some("x".repeat(255)));
    for wrong in [&b""[..], b"a b", b"a,b", b"\"a", b"a\"", b"\"\"", b"\"a\";b", b"\"a\\b\"", b"\xfc", b"\""]
    {
        assert_eq!(key(&[wrong]), None, "{wrong:?}");
    }
    assert_eq!(key(&["x".repeat(256).as_bytes()]), None);
    assert_eq!(key(&[]), None);
    assert_eq!(key(&[b"a", b"a"]), None);
}

#[test]
fn sources_encode_each_part_and_are_hashed_where_too_long() {
    assert_eq!(source_of("a/", "POST", "/é~._-"), "a%2F/POST/%2F%C3%A9~._-");
    assert_eq!(source_of(&"t".repeat(300), "POST", "/").len(), 64);
    assert_ne!(source_of(&"t".repeat(300), "POST", "/"), source_of(&"t".repeat(301), "POST", "/"));
}

fn stored(answer: &Response<Bytes>, whole: bool) -> Bytes {
    rules::settled(&Settings::default(), answer, whole, false).unwrap().bytes
}

fn replayed(result: impl Into<Bytes>) -> (Response<Bytes>, bool) {
    let outcome = Outcome { result: Some(result.into()), ..Outcome::new(Advice::Ack) };
    rules::replayed(&outcome)
}

#[test]
fn stored_answers_are_read_back() {
    let mut answer = Response::new(Bytes::from_static(b"one\ntwo"));
    *answer.status_mut() = http::StatusCode::CREATED;
    answer.headers_mut().insert(header::LOCATION, HeaderValue::from_bytes(b"/\xfc").unwrap());
    answer.headers_mut().insert("x-private", HeaderValue::from_static("not stored"));
    let (again, omitted) = replayed(stored(&answer, true));
    assert!(!omitted);
    assert_eq!((again.status(), &again.body()[..]), (http::StatusCode::CREATED, &b"one\ntwo"[..]));
    assert_eq!(again.headers()[header::LOCATION].as_bytes(), b"/\xfc");
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    assert!(!again.headers().contains_key("x-private"));
}

#[test]
fn answers_of_other_languages_are_read() {
    let (again, omitted) = replayed(&b"[201, [[\"content-type\", \"text/plain\"]]]\ncreated"[..]);
    assert_eq!((again.status().as_u16(), &again.body()[..], omitted), (201, &b"created"[..], false));
    let (again, omitted) = replayed(&b"[404, [], \"omitted\"]"[..]);
    assert_eq!((again.status().as_u16(), omitted), (404, true));
    assert_eq!(again.headers()["idempotency-body"], "omitted");
    // The effect happened also where what is stored cannot be read.
    for result in [&b""[..], b"receipt", b"[99999, []]", b"[200, [[\"a b\", \"\"]]]"] {
        let (again, omitted) = replayed(Bytes::from_static(result));
        assert_eq!((again.status().as_u16(), omitted), (200, true), "{result:?}");
    }
}

#[test]
fn answers_beyond_the_bound_are_stored_without_their_body() {
    let large = Response::new(Bytes::from(vec![b'x'; 16_384]));
    assert_eq!(stored(&large, true), r#"[200,[],"omitted"]"#);
    assert_eq!(stored(&Response::new(Bytes::new()), false), r#"[200,[],"omitted"]"#);
}

#[test]
fn announced_requests_are_neither_released_nor_repeated() {
    let settled = |status: u16, announced| {
        let answer = Response::builder().status(status).body(Bytes::new()).unwrap();
        rules::settled(&Settings::default(), &answer, true, announced)
    };
    assert!(matches!(settled(422, false), Err(Steer::GiveBack { unpin_fingerprint: true, .. })));
    assert!(settled(422, true).is_ok());
    assert!(matches!(settled(500, false), Err(Steer::Retry { .. })));
    assert!(matches!(settled(500, true), Err(Steer::Park { .. })));
    assert!(settled(302, false).is_ok());
}

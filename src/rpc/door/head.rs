//! Reads the head of a request, and refuses what can be refused by it alone. These refusals are HTTP's own:
//! they have no `ErrorInfo`, and nothing was applied.

use std::sync::Arc;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method as HttpMethod, StatusCode};

use super::hosts::Hosts;
use super::methods::{Method, Methods};
use crate::rpc::edge::layer::during;
use crate::wire::reasons::During;

const TIMEOUT: &str = "connect-timeout-ms";
const VERSION: &str = "connect-protocol-version";
/// A timeout of Connect has at most this many digits.
const TIMEOUT_DIGITS_MAX: usize = 10;
/// A timeout of gRPC has at most this many digits.
const GRPC_DIGITS_MAX: usize = 8;

/// The encoding of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Json,
    Proto,
}

impl Codec {
    pub(super) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Codec::Json => "application/json",
            Codec::Proto => "application/proto",
        })
    }
}

/// A call that may go on to the edge.
#[derive(Clone)]
pub(super) struct RequestHead {
    pub(super) codec: Codec,
    pub(super) method: Arc<Method>,
    pub(super) during: During,
}

/// Why a call is refused by its head alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Http(StatusCode, &'static str),
    /// The method streams.
    Streams,
    /// The request is compressed.
    Compressed,
}

use Refused::Http;

/// Reads what a request asks for. `hosts` are checked where callers are anonymous.
pub(super) fn read(
    request: &Parts,
    methods: &Methods,
    hosts: Option<&Hosts>,
) -> Result<RequestHead, Refused> {
    if hosts.is_some_and(|hosts| !hosts.allow(request)) {
        let text = "the Host is not an IP address, localhost or a name of http_hosts\n";
        return Err(Http(StatusCode::MISDIRECTED_REQUEST, text));
    }
    if request.method != HttpMethod::POST {
        return Err(Http(StatusCode::METHOD_NOT_ALLOWED, "only POST\n"));
    }
    let path = request.uri.path();
    let Some(method) = methods.get(path) else {
        return Err(Http(
            StatusCode::NOT_FOUND,
            "a path is /SERVICE/METHOD of a service that is offered here\n",
        ));
    };
    let Some(codec) = codec(&request.headers, method.streams) else {
        let text = "the content type must be application/json or application/proto\n";
        return Err(Http(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    };
    if request.headers.get_all(VERSION).iter().any(|version| version != "1") {
        return Err(Http(StatusCode::BAD_REQUEST, "connect-protocol-version must be 1\n"));
    }
    if request.headers.contains_key(TIMEOUT) && timeout(&request.headers).is_none() {
        return Err(Http(
            StatusCode::BAD_REQUEST,
            "connect-timeout-ms must be one number of at most 10 digits\n",
        ));
    }
    if method.streams {
        return Err(Refused::Streams);
    }
    if request.headers.get_all(CONTENT_ENCODING).iter().any(|encoding| encoding != "identity") {
        return Err(Refused::Compressed);
    }
    Ok(RequestHead { codec, method: Arc::clone(method), during: during(path) })
}

/// The encoding of the messages, by the one content type. A web page can send three types without a preflight
/// (text, and two of forms): none of them may pass, however it is written.
fn codec(headers: &HeaderMap, streams: bool) -> Option<Codec> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let value = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
    let (kind, parameters) = value.split_once(';').unwrap_or((value, ""));
    let parameters = parameters.trim();
    if !parameters.is_empty() && !parameters.replace('"', "").eq_ignore_ascii_case("charset=utf-8") {
        return None;
    }
    let kind = kind.trim().to_ascii_lowercase();
    // Clients send these types for methods that stream, which are refused with a reason.
    let kind = if streams { kind.replace("/connect+", "/") } else { kind };
    match kind.as_str() {
        "application/json" => Some(Codec::Json),
        "application/proto" => Some(Codec::Proto),
        _ => None,
    }
}

/// The milliseconds of `connect-timeout-ms`.
fn timeout(headers: &HeaderMap) -> Option<u64> {
    let mut values = headers.get_all(TIMEOUT).iter();
    let text = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() <= TIMEOUT_DIGITS_MAX;
    text.parse().ok().filter(|_| is_number)
}

/// The headers in gRPC's form. Headers of gRPC or of the transport are set by the door alone: with a client's
/// `grpc-encoding` the message would be decompressed, and its `grpc-timeout` would count.
pub(super) fn as_grpc(headers: &mut HeaderMap) {
    let timeout = timeout(headers);
    let own = |name: &str| name.starts_with("grpc-") || name.starts_with("connect-");
    let names: Vec<_> = headers.keys().filter(|name| own(name.as_str())).cloned().collect();
    for name in names {
        headers.remove(name);
    }
    for name in
        [http::header::TE, http::header::CONTENT_LENGTH, http::header::TRANSFER_ENCODING, CONTENT_ENCODING]
    {
        headers.remove(name);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    if let Some(milliseconds) = timeout {
        let text = milliseconds.to_string();
        let grpc =
            if text.len() > GRPC_DIGITS_MAX { format!("{}S", milliseconds / 1_000) } else { text + "m" };
        if let Ok(value) = HeaderValue::from_str(&grpc) {
            headers.insert("grpc-timeout", value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (name.parse().expect("a name"), value.parse().expect("a value"))).collect()
    }

    #[test]
    fn content_types_that_need_no_preflight_are_refused() {
        for (values, expected) in [
            (&["application/json"][..], Some(Codec::Json)),
            (&["Application/JSON; charset=UTF-8"], Some(Codec::Json)),
            (&["application/json;charset=\"utf-8\""], Some(Codec::Json)),
            (&["application/proto"], Some(Codec::Proto)),
            (&["application/json; charset=latin1"], None),
            (&["text/plain"], None),
            (&["text/plain; application/json"], None),
            (&["text/plain;charset=application/json"], None),
            (&["application/x-www-form-urlencoded"], None),
            (&["multipart/form-data; boundary=application/json"], None),
            (&["application/json", "text/plain"], None),
            (&["application/json, text/plain"], None),
            (&["application/connect+json"], None),
            (&["application/grpc"], None),
            (&[""], None),
            (&[], None),
        ] {
            assert_eq!(codec(&headers("content-type", values), false), expected, "{values:?}");
        }
    }

    #[test]
    fn timeouts_are_one_number_of_ten_digits() {
        for (values, expected, grpc) in [
            (&["0"][..], Some(0), Some("0m")),
            (&["1500"], Some(1_500), Some("1500m")),
            (&["99999999"], Some(99_999_999), Some("99999999m")),
            (&["9999999999"], Some(9_999_999_999), Some("9999999S")),
            (&["99999999999"], None, None),
            (&["-1"], None, None),
            (&["+1"], None, None),
            (&["1s"], None, None),
            (&[""], None, None),
            (&["1", "2"], None, None),
            (&[], None, None),
        ] {
            let mut headers = headers(TIMEOUT, values);
            assert_eq!(timeout(&headers), expected, "{values:?}");
            headers.insert("grpc-timeout", HeaderValue::from_static("7S"));
            headers.insert("grpc-encoding", HeaderValue::from_static("gzip"));
            as_grpc(&mut headers);
            let passed_on = headers.get("grpc-timeout").and_then(|value| value.to_str().ok());
            assert_eq!(passed_on, grpc, "{values:?}");
            assert!(
                !headers.contains_key("grpc-encoding"),
                "only the door says whether a message is compressed"
            );
        }
    }

    /// What a head is refused for; a sound one is a `Claim` in JSON.
    #[test]
    fn read_refuses_a_head_that_says_what_the_door_does_not_do() {
        let methods = Methods::of(crate::proto::pool().unwrap(), &["idempotency.ledger.v1.LedgerService"]);
        let bad = |text| Err(Http(StatusCode::BAD_REQUEST, text));
        let version = "connect-protocol-version must be 1\n";
        let timeout = "connect-timeout-ms must be one number of at most 10 digits\n";
        for (headers, expected) in [
            (&[][..], Ok(Codec::Json)),
            (&[(VERSION, "1"), (TIMEOUT, "1500"), ("content-encoding", "identity")], Ok(Codec::Json)),
            (&[(VERSION, "2")], bad(version)),
            (&[(VERSION, "")], bad(version)),
            (&[(VERSION, "1"), (VERSION, "2")], bad(version)),
            (&[(TIMEOUT, "1s")], bad(timeout)),
            (&[("content-encoding", "gzip")], Err(Refused::Compressed)),
        ] {
            let mut request = http::Request::post("/idempotency.ledger.v1.LedgerService/Claim")
                .header(CONTENT_TYPE, "application/json");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(read(&parts, &methods, None).map(|head| head.codec), expected, "{headers:?}");
        }
    }
}

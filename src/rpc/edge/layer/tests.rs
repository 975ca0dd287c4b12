//! What the edge reads from headers, and what it makes of the framework's errors.

use http::HeaderValue;
use tonic_types::StatusExt as _;

use super::*;

#[test]
fn deadline_is_at_most_eight_digits_and_a_unit() {
    for (value, expected) in [
        ("1H", Some(Duration::from_hours(1))),
        ("2M", Some(Duration::from_mins(2))),
        ("3S", Some(Duration::from_secs(3))),
        ("4m", Some(Duration::from_millis(4))),
        ("5u", Some(Duration::from_micros(5))),
        ("6n", Some(Duration::from_nanos(6))),
        ("99999999S", Some(Duration::from_secs(99_999_999))),
        ("0S", Some(Duration::ZERO)),
        ("123456789S", None),
        ("7s", None),
        ("7", None),
        ("S", None),
        ("-1S", None),
        ("1 S", None),
        ("", None),
    ] {
        let mut headers = HeaderMap::new();
        assert_eq!(deadline(&headers), None);
        headers.insert("grpc-timeout", HeaderValue::from_static(value));
        assert_eq!(deadline(&headers), expected, "{value:?}");
    }
}

/// Without a reason a client cannot tell whether the call may have been carried out.
#[test]
fn explained_gives_errors_of_the_framework_a_reason() {
    for (code, reason) in [
        (Code::DeadlineExceeded, Some("DEADLINE_EXCEEDED")),
        (Code::Cancelled, Some("CANCELLED")),
        (Code::OutOfRange, Some("TOO_LARGE")),
        (Code::Internal, Some("INVALID_FIELD")),
        (Code::Unimplemented, Some("UNIMPLEMENTED")),
        (Code::Unavailable, None),
        (Code::NotFound, None),
    ] {
        let mut response = Status::new(code, "of the framework").into_http();
        response.headers_mut().insert(ACCEPTED, HeaderValue::from_static("gzip"));
        let explained = explained(response, 1_000, During::Other);
        assert_eq!(explained.headers()[ACCEPTED], "gzip", "{code:?}: what the server can read stays named");
        let status = Status::from_header_map(explained.headers()).unwrap();
        let found = status.get_details_error_info().map(|info| info.reason);
        assert_eq!(found.as_deref(), reason, "{code:?}");
        assert_eq!(status.message() == "of the framework", reason.is_none(), "{code:?}: {status:?}");
    }
}

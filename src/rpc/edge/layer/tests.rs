//! What the edge reads from headers, what it makes of the framework's errors, and which time of a call it counts.

use std::convert::Infallible;

use http::HeaderValue;
use tonic_types::StatusExt as _;

use super::*;
use crate::metrics::{Method, Metrics};

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

/// The alert for slow calls is on this histogram: a call is not slow because it waits for the verdict of another one.
#[tokio::test]
async fn time_that_a_call_waited_is_not_in_the_histogram() {
    const WAIT: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_hours(1);
    let metrics = Metrics::new().unwrap();
    let method = Method { service: "s".into(), name: "Waits".into(), kind: "unary" };
    let connected = Arc::new(metrics.calls([method]).unwrap().connected());
    let connection = accounts::for_tests::connection();
    let open = OpenCall::begin(&connection);
    let call = CallAccount::admit(&connection, open, &CallOwner::Stranger, None, 0).unwrap();
    let waits = Arc::clone(&call);
    let answer = async move {
        waits.rest();
        tokio::time::sleep(WAIT).await;
        waits.resume().unwrap();
        Ok::<_, Infallible>(Response::new(Body::empty()))
    };
    let began = Instant::now();
    let edge = EdgeFuture {
        answer: tokio::time::timeout(LONG, accounts::within(Arc::clone(&call), answer)),
        ours: true,
        is_stream: false,
        during: During::Claim,
        options: EdgeOptions { deadline_max: LONG, bytes_max: 1_000, slow_call: LONG, bare: false },
        call: Arc::clone(&call),
        counted: connected.begin("/s/Waits"),
        served: Served::default(),
        trace_id: None,
    };
    drop(edge.await.unwrap());
    let (all, rested) = (began.elapsed(), call.rested());
    assert!(rested >= WAIT, "{rested:?}");
    let text = metrics.text().unwrap();
    let sum =
        |line: &&str| line.starts_with("grpc_server_handling_seconds_sum{") && line.contains("\"Waits\"");
    let (_, sum) = text.lines().find(sum).unwrap().rsplit_once(' ').unwrap();
    let counted = Duration::from_secs_f64(sum.parse().unwrap());
    assert!(counted + rested <= all, "{counted:?} are counted, and it rested for {rested:?} of {all:?}");
}

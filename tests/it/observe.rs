//! The plain HTTP port of a running server: what it answers, and that its metrics tell what happened.

mod entries;
mod fields;
mod flood;
mod log;
mod moves;
mod traces;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use idempotency_ledger::proto;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic_health::pb::health_check_response::ServingStatus;

use crate::harness::details::{acquired, claim, key};
use crate::harness::postgres::{Cluster, free_port};
use crate::harness::signals::signal;
use crate::process::{BINARY, Server, sqlite};

/// How long a condition may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The status and the text of an answer.
pub(crate) async fn asked(address: &str, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{request} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, text) = answer.split_once("\r\n\r\n").unwrap();
    (status, text.to_owned())
}

/// The series of a server, each with its value.
pub(crate) async fn series(address: &str) -> BTreeMap<String, f64> {
    let (status, text) = asked(address, "GET /metrics").await;
    assert_eq!(status, 200, "{text}");
    parsed(&text)
}

/// The series of a scrape, each with its value.
pub(crate) fn parsed(text: &str) -> BTreeMap<String, f64> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let pair = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        (series.to_owned(), value.parse().unwrap())
    };
    samples.map(pair).collect()
}

async fn server_on(url: &str, more: &[&str]) -> (Server, String) {
    let observed = format!("127.0.0.1:{}", free_port());
    let settings = [&["--observe-listen", &observed], more].concat();
    (Server::with(Command::new(BINARY), url, &settings, Stdio::null()).await, observed)
}

async fn server(folder: &tempfile::TempDir, more: &[&str]) -> (Server, String) {
    server_on(&sqlite(folder.path()), more).await
}

/// A Postgres with a schema.
fn postgres() -> (Cluster, String) {
    let cluster = Cluster::start("");
    let url = cluster.url("postgres");
    assert!(Command::new(BINARY).args(["migrate", "--database-url", &url]).status().unwrap().success());
    (cluster, url)
}

#[tokio::test]
async fn the_port_answers_probes_and_refuses_all_else() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, at) = server(&folder, &[]).await;
    for (request, status, says) in [
        ("GET /livez", 200, "live\n"),
        ("GET /readyz", 200, "ready\n"),
        ("HEAD /readyz", 200, ""),
        ("GET /readyz?verbose", 200, "ready\n"),
        ("GET /", 404, "here are /metrics, /livez and /readyz\n"),
        ("GET /metrics/", 404, "here are /metrics, /livez and /readyz\n"),
        ("POST /metrics", 405, "only GET and HEAD\n"),
        ("DELETE /livez", 405, "only GET and HEAD\n"),
    ] {
        assert_eq!(asked(&at, request).await, (status, says.to_owned()), "{request}");
    }
}

#[tokio::test]
async fn a_draining_server_is_live_and_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    // It ends with the test.
    let (server, at) = server(&folder, &["--drain-wait", "10m"]).await;
    signal("TERM", &[server.child.id()]);
    let until = Instant::now() + PATIENCE;
    while asked(&at, "GET /readyz").await != (503, "draining\n".to_owned()) {
        assert!(Instant::now() < until, "it drains, and is ready");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(asked(&at, "GET /livez").await, (200, "live\n".to_owned()));
}

#[tokio::test]
async fn a_chosen_port_that_is_taken_is_refused_and_the_default_gives_way() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, at) = server(&folder, &[]).await;
    let second = tempfile::tempdir().unwrap();
    let url = sqlite(second.path());
    let mut refused = Command::new(BINARY)
        .args(["serve", "--listen", "127.0.0.1:0", "--database-url", &url, "--observe-listen", &at])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while refused.try_wait().unwrap().is_none() && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let serves = refused.try_wait().unwrap().is_none();
    refused.kill().unwrap();
    let refused = refused.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!serves && !refused.status.success(), "it must not serve without its metrics: {said}");
    assert!(said.contains("observe_listen") && said.contains(&at), "{said}");
    let off = ["--observe-listen", "off"];
    drop(Server::with(Command::new(BINARY), &url, &off, Stdio::null()).await);
    // Two servers that nobody told of the port: at least one of them cannot have it.
    let _first = Server::start(&url).await;
    let third = tempfile::tempdir().unwrap();
    let _second = Server::start(&sqlite(third.path())).await;
}

#[tokio::test]
async fn metrics_tell_what_happened_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    metrics_tell_what_happened(&sqlite(folder.path())).await;
}

#[tokio::test]
async fn metrics_tell_what_happened_on_postgres() {
    let (_cluster, url) = postgres();
    metrics_tell_what_happened(&url).await;
}

/// A Postgres that stands still until this is dropped, also by a test that fails: nobody could end it.
struct Stopped(Vec<u32>);

impl Stopped {
    fn new(cluster: &Cluster) -> Stopped {
        Stopped(cluster.pause())
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal("CONT", &self.0);
    }
}

/// A store that stands still is seen, and neither a scrape nor a probe waits for it.
#[tokio::test]
async fn a_store_that_stands_still_is_seen_and_keeps_nobody_waiting() {
    let (cluster, url) = postgres();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let at = format!("127.0.0.1:{}", free_port());
    let settings = ["--observe-listen", &at, "--log-format", "json", "--slow-call", "400ms"];
    let file = Stdio::from(std::fs::File::create(&log).unwrap());
    let server = Server::with(Command::new(BINARY), &url, &settings, file).await;
    let mut client = server.client().await;
    client.claim(claim("billing", "1")).await.unwrap();
    let stopped = Stopped::new(&cluster);
    let mut late = tonic::Request::new(claim("billing", "2"));
    late.set_timeout(Duration::from_millis(500));
    late.metadata_mut().insert("traceparent", TRACEPARENT.parse().unwrap());
    client.claim(late).await.unwrap_err();
    let until = Instant::now() + PATIENCE;
    let slow = loop {
        if let Some(slow) = lines(&log).into_iter().find(|line| line["message"] == "a call was slow") {
            break slow;
        }
        assert!(Instant::now() < until, "the log has no slow call");
    };
    let told = ["method", "code", "trace_id"].map(|name| slow[name].as_str().unwrap_or_default());
    assert_eq!(told, ["Claim", "DeadlineExceeded", TRACE_ID], "{slow}");
    server.becomes(ServingStatus::NotServing).await;
    // The store stands still until later.
    for (path, status, says) in [("/livez", 200, "live\n"), ("/readyz", 200, "ready\n")] {
        let answer = tokio::time::timeout(PATIENCE, asked(&at, &format!("GET {path}"))).await;
        assert_eq!(answer, Ok((status, says.to_owned())), "{path}");
    }
    let seen = tokio::time::timeout(PATIENCE, series(&at)).await.unwrap();
    drop(stopped);
    for (series, least, most) in [
        ("idempotency_ledger_store_ready", 0.0, 0.0),
        (
            r#"idempotency_ledger_claims_total{consumer="billing",event_type="",verdict="unanswered"}"#,
            1.0,
            1.0,
        ),
        (
            r#"grpc_server_handled_total{grpc_code="DeadlineExceeded",grpc_method="Claim",grpc_service="idempotency.ledger.v1.LedgerService",grpc_type="unary"}"#,
            1.0,
            1.0,
        ),
        (r#"idempotency_ledger_store_failures_total{kind="unknown",statement="insert"}"#, 1.0, f64::MAX),
        ("idempotency_ledger_policies_age_seconds", 1.0, 600.0),
    ] {
        let value = seen.get(series).copied().unwrap_or(-1.0);
        assert!((least..=most).contains(&value), "{series} is {value}");
    }
    server.becomes(ServingStatus::Serving).await;
    assert_eq!(series(&at).await.get("idempotency_ledger_store_ready"), Some(&1.0));
}

async fn metrics_tell_what_happened(url: &str) {
    let (server, at) = server_on(url, &[]).await;
    let mut client = server.client().await;
    let before = series(&at).await;
    // A claim, a second one while it is held, its completion, that again, a duplicate; a claim that is wrong, and a
    // settlement that comes too late.
    let granted = acquired(client.claim(claim("billing", "1")).await.unwrap().get_ref());
    client.claim(claim("billing", "1")).await.unwrap();
    let complete = |id: &str, token| proto::CompleteRequest {
        key: key("billing", id),
        token,
        ..proto::CompleteRequest::default()
    };
    for _ in 0..2 {
        client.complete(complete("1", granted.token)).await.unwrap();
    }
    client.claim(claim("billing", "1")).await.unwrap();
    client.claim(proto::ClaimRequest::default()).await.unwrap_err();
    client.complete(complete("2", 7)).await.unwrap_err();
    let sent = proto::ClaimRequest { event_type: "sent".into(), ..claim("shipping", "2") };
    let batch = vec![claim("shipping", "1"), sent, proto::ClaimRequest::default()];
    let granted =
        client.batch_claim(proto::BatchClaimRequest { requests: batch }).await.unwrap().into_inner();
    let tokens: Vec<i64> = granted.responses[..2].iter().map(|response| acquired(response).token).collect();
    let release = proto::ReleaseRequest {
        key: key("shipping", "1"),
        token: tokens[0],
        delay: None,
        unpin_fingerprint: false,
        event_type: String::new(),
    };
    client.release(release).await.unwrap();
    let fail = proto::FailRequest {
        key: key("shipping", "2"),
        token: tokens[1],
        kind: proto::FailureKind::Terminal.into(),
        event_type: "sent".into(),
        ..proto::FailRequest::default()
    };
    client.fail(fail).await.unwrap();
    let after = series(&at).await;
    let grew = |series: &str| after.get(series).copied().unwrap_or(-1.0) - before.get(series).unwrap_or(&0.0);
    for (series, by) in [
        (r#"idempotency_ledger_claims_total{consumer="billing",event_type="",verdict="acquired"}"#, 1.0),
        (r#"idempotency_ledger_claims_total{consumer="billing",event_type="",verdict="in_progress"}"#, 1.0),
        (r#"idempotency_ledger_claims_total{consumer="billing",event_type="",verdict="completed"}"#, 1.0),
        (r#"idempotency_ledger_claims_total{consumer="billing",event_type="",verdict="parked"}"#, 0.0),
        (r#"idempotency_ledger_claims_total{consumer="shipping",event_type="",verdict="acquired"}"#, 1.0),
        (r#"idempotency_ledger_claims_total{consumer="shipping",event_type="sent",verdict="acquired"}"#, 1.0),
        (
            r#"idempotency_ledger_attempts_failed_total{consumer="shipping",event_type="sent",kind="terminal"}"#,
            1.0,
        ),
        (
            r#"idempotency_ledger_claim_held_seconds_count{consumer="billing",event_type="",operation="complete"}"#,
            1.0,
        ),
        (
            r#"idempotency_ledger_claim_held_seconds_count{consumer="shipping",event_type="sent",operation="fail"}"#,
            1.0,
        ),
        (
            r#"idempotency_ledger_claim_held_seconds_bucket{consumer="shipping",event_type="sent",operation="fail",le="60"}"#,
            1.0,
        ),
        (r#"idempotency_ledger_completion_attempts_sum{consumer="billing"}"#, 1.0),
        (r#"idempotency_ledger_releases_in_a_row_sum{consumer="shipping"}"#, 1.0),
        (
            r#"idempotency_ledger_settlements_total{consumer="billing",operation="complete",outcome="ok"}"#,
            1.0,
        ),
        (
            r#"idempotency_ledger_settlements_total{consumer="billing",operation="complete",outcome="replayed"}"#,
            1.0,
        ),
        (
            r#"idempotency_ledger_settlements_total{consumer="billing",operation="complete",outcome="rejected"}"#,
            1.0,
        ),
        (r#"idempotency_ledger_refusals_total{reason="INVALID_FIELD"}"#, 2.0),
        (r#"idempotency_ledger_refusals_total{reason="ENTRY_NOT_FOUND"}"#, 1.0),
        (r#"idempotency_ledger_queue_commands{lane="claim"}"#, 0.0),
        (r#"idempotency_ledger_queue_wait_seconds_count{lane="release"}"#, 1.0),
        (r#"idempotency_ledger_queue_wait_seconds_count{lane="close"}"#, 4.0),
        ("idempotency_ledger_queue_bytes", 0.0),
        ("idempotency_ledger_batch_commands_sum", 10.0),
        (r#"idempotency_ledger_store_statement_seconds_count{statement="complete"}"#, 3.0),
        (r#"idempotency_ledger_store_statement_rows_sum{statement="complete"}"#, 3.0),
        (
            r#"grpc_server_handled_total{grpc_code="OK",grpc_method="Claim",grpc_service="idempotency.ledger.v1.LedgerService",grpc_type="unary"}"#,
            3.0,
        ),
        (
            r#"grpc_server_handled_total{grpc_code="InvalidArgument",grpc_method="Claim",grpc_service="idempotency.ledger.v1.LedgerService",grpc_type="unary"}"#,
            1.0,
        ),
        (
            r#"grpc_server_started_total{grpc_method="Claim",grpc_service="idempotency.ledger.v1.LedgerService",grpc_type="unary"}"#,
            4.0,
        ),
        (
            r#"grpc_server_handling_seconds_count{grpc_method="BatchClaim",grpc_service="idempotency.ledger.v1.LedgerService",grpc_type="unary"}"#,
            1.0,
        ),
    ] {
        assert!((grew(series) - by).abs() < f64::EPSILON, "{series} grew by {}, not {by}", grew(series));
    }
    for (series, is) in [
        ("idempotency_ledger_store_ready", 1.0),
        (concat!(r#"idempotency_ledger_build_info{version=""#, env!("CARGO_PKG_VERSION"), r#""}"#), 1.0),
        ("idempotency_ledger_policies_unreadable", 0.0),
        ("idempotency_ledger_store_clock_behind_seconds", 0.0),
        ("idempotency_ledger_store_backends_left_behind", 0.0),
        ("idempotency_ledger_request_bytes", 0.0),
        (r#"idempotency_ledger_store_sessions_opened_total{outcome="ok",purpose="heartbeat"}"#, 1.0),
        (r#"idempotency_ledger_store_sessions_opened_total{outcome="failed",purpose="claims"}"#, 0.0),
    ] {
        assert_eq!(after.get(series), Some(&is), "{series}");
    }
    for (series, least, most) in [
        ("idempotency_ledger_store_sessions", 1.0, 3.0),
        ("idempotency_ledger_store_sessions_wanted", 1.0, 3.0),
        ("idempotency_ledger_policies_age_seconds", 0.0, 5.0),
        ("process_resident_memory_bytes", 1e6, 1e9),
        ("process_open_fds", 5.0, 1e5),
    ] {
        let value = after.get(series).copied().unwrap_or(-1.0);
        assert!((least..=most).contains(&value), "{series} is {value}");
    }
    assert!(after["idempotency_ledger_connections"] >= 1.0, "the client of this test is connected");
    let of_inserts =
        |of: &str| grew(&format!(r#"idempotency_ledger_store_statement_{of}{{statement="insert"}}"#));
    let (rows, statements) = (of_inserts("rows_sum"), of_inserts("seconds_count"));
    assert!(
        rows > statements && statements >= 2.0,
        "the two of the batch went in one: {rows} in {statements}"
    );
}

/// The lines of a JSON log.
fn lines(log: &Path) -> Vec<serde_json::Value> {
    let text = crate::harness::log_file::settled(log);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

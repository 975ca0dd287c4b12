//! What a collector gets over OTLP: the way of one message.

mod collector;
mod environment;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use idempotency_ledger::proto;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use opentelemetry_proto::tonic::trace::v1::Span;
use tonic::Request;
use tonic::transport::Channel;

use self::collector::{Collector, told};
use super::postgres;
use crate::harness::details::{acquired, claim, key};
use crate::harness::postgres::free_port;
use crate::harness::signals::signal;
use crate::process::{BINARY, Server, sqlite};

const PRODUCER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const REDELIVERY: &str = "00-8a3c60f7d188f8fa79d48a391a778fa6-53995c3f42cd8ad8-01";
const LEDGER: &str = "idempotency.ledger.v1.LedgerService";

/// With a trace context.
fn within<T>(traceparent: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if !traceparent.is_empty() {
        request.metadata_mut().insert("traceparent", traceparent.parse().unwrap());
    }
    request
}

/// A server with these variables. Those of the test's own environment do not reach it.
async fn server(url: &str, variables: &[(&str, &str)], log: Stdio) -> Server {
    let mut command = Command::new(BINARY);
    let inherited = std::env::vars_os().map(|(name, _)| name);
    for name in inherited.filter(|name| name.to_string_lossy().starts_with("OTEL_")) {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    let observed = format!("127.0.0.1:{}", free_port());
    Server::with(command, url, &["--observe-listen", &observed, "--log-format", "json"], log).await
}

/// Ends it as an operator would: what it has recorded is sent.
async fn end(mut server: Server) {
    signal("TERM", &[server.child.id()]);
    let until = Instant::now() + Duration::from_secs(20);
    while server.child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "the server does not end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_way_of_a_message_is_told_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    // The insert does not tell what it met.
    the_way_of_a_message_is_told(&sqlite(folder.path()), "sqlite", &["insert", "load", "replace"]).await;
}

#[tokio::test]
async fn the_way_of_a_message_is_told_on_postgres() {
    let (_cluster, url) = postgres();
    the_way_of_a_message_is_told(&url, "postgresql", &["insert", "replace"]).await;
}

/// An attempt that fails, in the producer's trace; the attempt after that, in another trace, and its completion.
/// `again` are the statements of the second claim.
async fn the_way_of_a_message_is_told(url: &str, database: &str, again: &[&str]) {
    let collector = Collector::default();
    let endpoint = format!("http://{}", collector.start().await);
    let server = server(url, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)], Stdio::null()).await;
    let mut client = server.client().await;
    let order = || proto::ClaimRequest { event_type: "order.paid".into(), ..claim("billing", "1") };
    let first = acquired(client.claim(within(PRODUCER, order())).await.unwrap().get_ref());
    let failed = proto::FailRequest {
        key: key("billing", "1"),
        token: first.token,
        retry_after: Some(prost_types::Duration::default()),
        ..proto::FailRequest::default()
    };
    client.fail(within(PRODUCER, failed)).await.unwrap();
    // A Claim that may wait is recorded as any other.
    let wait = Some(prost_types::Duration { seconds: 1, nanos: 0 });
    let waits = proto::ClaimRequest { wait, ..order() };
    let second = acquired(client.claim(within(REDELIVERY, waits)).await.unwrap().get_ref());
    let done = proto::CompleteRequest {
        key: key("billing", "1"),
        token: second.token,
        ..proto::CompleteRequest::default()
    };
    client.complete(within(REDELIVERY, done)).await.unwrap();
    let look = proto::LookupRequest { key: key("billing", "1"), ..Default::default() };
    client.lookup(within(REDELIVERY, look)).await.unwrap();
    drop(client);
    end(server).await;

    let spans = collector.spans();
    let children = |parent: &[u8]| -> Vec<&Span> {
        let mut found: Vec<&Span> = spans.iter().filter(|span| span.parent_span_id == parent).collect();
        found.sort_by_key(|span| span.start_time_unix_nano);
        found
    };
    for (context, calls) in [
        (PRODUCER, &[("Claim", &["insert"][..]), ("Fail", &["load", "replace"])][..]),
        (REDELIVERY, &[("Claim", again), ("Complete", &["complete"]), ("Lookup", &["load"])]),
    ] {
        let parts: Vec<&str> = context.split('-').collect();
        let (trace, parent) = (hex::decode(parts[1]).unwrap(), hex::decode(parts[2]).unwrap());
        let served = children(&parent);
        let names: Vec<&str> = served.iter().map(|span| span.name.as_str()).collect();
        let methods: Vec<String> = calls.iter().map(|(method, _)| format!("{LEDGER}/{method}")).collect();
        assert_eq!(names, methods, "{spans:#?}");
        for (call, (method, statements)) in served.iter().zip(calls) {
            let attributes = told(&call.attributes);
            for (name, value) in [
                ("rpc.system.name", "grpc"),
                ("rpc.method", call.name.as_str()),
                ("rpc.response.status_code", "OK"),
                ("idempotency_ledger.consumer", "billing"),
            ] {
                assert_eq!(attributes.get(name).map(String::as_str), Some(value), "{method}");
            }
            assert_eq!(
                (call.kind(), call.trace_id.clone()),
                (span_kind("SERVER"), trace.clone()),
                "{method}"
            );
            let batches = children(&call.span_id);
            assert_eq!(batches.len(), 1, "{method}");
            let batch = batches[0];
            assert_eq!((batch.name.as_str(), batch.kind()), ("batch", span_kind("INTERNAL")), "{method}");
            let sent = children(&batch.span_id);
            let names: Vec<&str> = sent.iter().map(|span| span.name.as_str()).collect();
            assert_eq!(names, *statements, "{method}");
            for statement in sent {
                let attributes = told(&statement.attributes);
                assert_eq!(attributes["db.system.name"], database, "{method}");
                assert_eq!(attributes["db.query.summary"], statement.name, "{method}");
                assert_eq!(attributes["idempotency_ledger.rows"], "1", "{method}");
                assert_eq!(
                    (statement.kind(), statement.trace_id.clone()),
                    (span_kind("CLIENT"), trace.clone())
                );
            }
        }
    }
    let claims: Vec<&Span> = spans.iter().filter(|span| span.name.ends_with("/Claim")).collect();
    let (one, two) = (claims[0], claims[1]);
    for (claim, attempt) in [(one, "1"), (two, "2")] {
        let attributes = told(&claim.attributes);
        assert_eq!(attributes["idempotency_ledger.verdict"], "acquired");
        assert_eq!(attributes["idempotency_ledger.attempt"], attempt);
        assert_eq!(attributes["idempotency_ledger.event_type"], "order.paid");
    }
    assert!(one.links.is_empty(), "{:?}", one.links);
    // The entry keeps the span of the first attempt.
    let linked: Vec<_> = two.links.iter().map(|link| (&link.trace_id, &link.span_id)).collect();
    assert_eq!(linked, [(&one.trace_id, &one.span_id)]);
}

fn span_kind(name: &str) -> opentelemetry_proto::tonic::trace::v1::span::SpanKind {
    opentelemetry_proto::tonic::trace::v1::span::SpanKind::from_str_name(&format!("SPAN_KIND_{name}"))
        .unwrap()
}

/// The spans of a server that recorded what `calls` did, once it has ended.
async fn recorded<F: Future<Output = ()>>(
    url: &str,
    calls: impl FnOnce(LedgerServiceClient<Channel>) -> F,
) -> Vec<Span> {
    let collector = Collector::default();
    let endpoint = format!("http://{}", collector.start().await);
    let server = server(url, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)], Stdio::null()).await;
    calls(server.client().await).await;
    end(server).await;
    collector.spans()
}

/// Those of one name, in the order in which they began.
fn named<'s>(spans: &'s [Span], name: &str) -> Vec<&'s Span> {
    let mut found: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
    found.sort_by_key(|span| span.start_time_unix_nano);
    found
}

#[tokio::test]
async fn a_message_without_a_trace_leads_to_its_first_attempt_too() {
    let folder = tempfile::tempdir().unwrap();
    let spans = recorded(&sqlite(folder.path()), async |mut client| {
        for _ in 0..2 {
            client.claim(claim("billing", "1")).await.unwrap();
        }
    })
    .await;
    let claims = named(&spans, &format!("{LEDGER}/Claim"));
    let [first, second] = claims[..] else { panic!("{spans:#?}") };
    assert!(first.parent_span_id.is_empty() && first.trace_id != second.trace_id);
    let linked: Vec<_> = second.links.iter().map(|link| (&link.trace_id, &link.span_id)).collect();
    assert_eq!(linked, [(&first.trace_id, &first.span_id)]);
    let told = told(&second.attributes);
    assert_eq!(told["idempotency_ledger.verdict"], "in_progress");
}

#[tokio::test]
async fn a_batch_and_its_items_are_one_call() {
    let folder = tempfile::tempdir().unwrap();
    let spans = recorded(&sqlite(folder.path()), async |mut client| {
        let mut requests: Vec<_> = (0..5).map(|number| claim("billing", &number.to_string())).collect();
        requests.push(proto::ClaimRequest::default());
        client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap();
        client.claim(proto::ClaimRequest::default()).await.unwrap_err();
    })
    .await;
    let [call] = named(&spans, &format!("{LEDGER}/BatchClaim"))[..] else { panic!("{spans:#?}") };
    assert_eq!(told(&call.attributes)["idempotency_ledger.items"], "6");
    let [batch] = named(&spans, "batch")[..] else { panic!("{spans:#?}") };
    assert_eq!(told(&batch.attributes)["idempotency_ledger.commands"], "5");
    let [insert] = named(&spans, "insert")[..] else { panic!("{spans:#?}") };
    assert_eq!(told(&insert.attributes)["idempotency_ledger.rows"], "5");
    let [refused] = named(&spans, &format!("{LEDGER}/Claim"))[..] else { panic!("{spans:#?}") };
    let refused = told(&refused.attributes);
    assert_eq!(refused["rpc.response.status_code"], "INVALID_ARGUMENT");
    assert_eq!(refused["idempotency_ledger.reason"], "INVALID_FIELD");
    assert_eq!(spans.len(), 4, "health checks are not recorded: {spans:#?}");
}

#[tokio::test]
async fn a_store_that_fails_is_told() {
    let (cluster, url) = postgres();
    let spans = recorded(&url, async |mut client| {
        let stopped = super::Stopped::new(&cluster);
        let mut late = Request::new(claim("billing", "1"));
        late.set_timeout(Duration::from_millis(500));
        client.claim(late).await.unwrap_err();
        // Until the statement is given up.
        tokio::time::sleep(Duration::from_secs(4)).await;
        drop(stopped);
    })
    .await;
    let [call] = named(&spans, &format!("{LEDGER}/Claim"))[..] else { panic!("{spans:#?}") };
    assert_eq!(told(&call.attributes)["error.type"], "DEADLINE_EXCEEDED");
    let inserts = named(&spans, "insert");
    let first = inserts.first().unwrap_or_else(|| panic!("{spans:#?}"));
    assert_eq!(told(&first.attributes)["error.type"], "unknown");
}

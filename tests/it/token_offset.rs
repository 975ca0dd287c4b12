//! `RaiseTokenOffset`: what helps where the store's clock was set back. It only grows, within its bounds; it is in
//! force at once, everywhere; it is audited, and safe to repeat.

use std::sync::Arc;

use idempotency_ledger::domain::{AuditEvent, RequestDigest, Span, TOKEN_OFFSET_MAX, TOKEN_OFFSET_STEP_MAX};
use idempotency_ledger::proto;
use idempotency_ledger::store::{OffsetRaise, WriteResult};
use prost_types::Duration;
use sqlx::Executor as _;
use tonic::{Code, Status};

use crate::harness::details::{acquired, claim, fields, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::postgres as pg;
use crate::harness::server::{Kind, START, Served, Setup, TestServer, TestStore};

on_both_stores!(
    a_clock_that_was_set_back_is_helped_on_all_servers_at_once,
    it_is_looked_at_without_changing_it,
    a_repeat_changes_nothing_and_an_id_belongs_to_its_request,
    it_only_grows_within_its_bounds,
    malformed_requests_are_refused_by_field,
    the_store_raises_it_from_what_was_seen_or_not_at_all,
);

const HOUR: i64 = 3_600;

fn seconds(seconds: i64) -> Option<Duration> {
    Some(Duration { seconds, nanos: 0 })
}

fn raise(from: i64, to: i64) -> proto::RaiseTokenOffsetRequest {
    proto::RaiseTokenOffsetRequest {
        request_id: format!("raise to {to}"),
        reason: "the clock was set back".into(),
        token_offset: seconds(to),
        expected_token_offset: if from == 0 { None } else { seconds(from) },
        validate_only: false,
    }
}

async fn ask(
    server: &TestServer,
    request: proto::RaiseTokenOffsetRequest,
) -> Result<proto::RaiseTokenOffsetResponse, Status> {
    server.admin.clone().raise_token_offset(request).await.map(tonic::Response::into_inner)
}

fn look() -> proto::RaiseTokenOffsetRequest {
    proto::RaiseTokenOffsetRequest { validate_only: true, ..Default::default() }
}

async fn events(server: &TestServer) -> Vec<proto::AuditEvent> {
    let page = server.admin.clone().list_audit_events(proto::ListAuditEventsRequest::default()).await;
    page.unwrap().into_inner().events
}

async fn a_clock_that_was_set_back_is_helped_on_all_servers_at_once(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let mut other = Served::start(Arc::clone(&server.at.store), Setup::default()).await;
    let before = acquired(&server.client.claim(claim("c", "before")).await.unwrap().into_inner()).token;
    server.at.set_clock(START - Span::from_secs(HOUR)).await;
    for client in [&mut server.client, &mut other.client] {
        let refused = refusal(&client.claim(claim("c", "behind")).await.unwrap_err());
        assert_eq!(refused.reason, "STORE_CLOCK_BEHIND");
    }
    let now = ask(&server, look()).await.unwrap();
    assert_eq!((now.token_offset, now.behind), (seconds(0), seconds(HOUR)));
    assert_eq!(now.clock.unwrap().seconds, START.micros() / 1_000_000 - HOUR);
    assert_eq!(now.clock_mark.unwrap().seconds, START.micros() / 1_000_000);
    // Not quite enough; then enough.
    let now = ask(&server, raise(0, HOUR - 1)).await.unwrap();
    assert_eq!((now.token_offset, now.behind, now.replayed), (seconds(HOUR - 1), seconds(1), false));
    let refused = refusal(&server.client.claim(claim("c", "behind")).await.unwrap_err());
    assert_eq!(refused.reason, "STORE_CLOCK_BEHIND");
    let now = ask(&server, raise(HOUR - 1, HOUR + 1)).await.unwrap();
    assert_eq!((now.token_offset, now.behind), (seconds(HOUR + 1), None));
    for (client, id) in [(&mut other.client, "there"), (&mut server.client, "here")] {
        let held = acquired(&client.claim(claim("c", id)).await.unwrap().into_inner());
        assert!(held.token > before && held.token < START.micros() + 2_000_000, "{}", held.token);
        // Leases go by the clock alone.
        assert_eq!(held.lease, seconds(30));
    }
    let events = events(&server).await;
    let last = &events[0];
    assert_eq!(events.len(), 2);
    assert_eq!(
        (last.action.as_str(), last.actor.as_str(), last.reason.as_str()),
        ("RAISE_TOKEN_OFFSET", "anonymous", "the clock was set back")
    );
    assert_eq!(last.before_json, format!("{{\"token_offset_us\":{}}}", (HOUR - 1) * 1_000_000));
    assert_eq!(last.after_json, format!("{{\"token_offset_us\":{}}}", (HOUR + 1) * 1_000_000));
    other.stop().await;
    // It survives a restart.
    let at = server.stop().await;
    let mut server = TestServer::on(at, Setup::default()).await;
    assert_eq!(ask(&server, look()).await.unwrap().token_offset, seconds(HOUR + 1));
    let request = proto::CompleteRequest { key: key("c", "before"), token: before, ..Default::default() };
    server.client.complete(request).await.unwrap();
    server.stop().await;
}

async fn it_is_looked_at_without_changing_it(kind: Kind) {
    let server = TestServer::start(kind).await;
    let could = proto::RaiseTokenOffsetRequest { validate_only: true, ..raise(0, HOUR) };
    assert_eq!(ask(&server, could.clone()).await.unwrap().token_offset, seconds(0));
    let refused =
        ask(&server, proto::RaiseTokenOffsetRequest { token_offset: seconds(0), ..could }).await.unwrap_err();
    assert_eq!(fields(&refused), ["token_offset"]);
    assert_eq!(ask(&server, look()).await.unwrap().token_offset, seconds(0));
    assert_eq!(events(&server).await, []);
    server.stop().await;
}

async fn a_repeat_changes_nothing_and_an_id_belongs_to_its_request(kind: Kind) {
    let server = TestServer::start(kind).await;
    assert!(!ask(&server, raise(0, HOUR)).await.unwrap().replayed);
    ask(&server, raise(HOUR, 2 * HOUR)).await.unwrap();
    let again = ask(&server, raise(0, HOUR)).await.unwrap();
    assert_eq!((again.replayed, again.token_offset), (true, seconds(2 * HOUR)), "it shows what is in force");
    let first = raise(0, HOUR);
    for (what, request) in [
        ("reason", proto::RaiseTokenOffsetRequest { reason: "another".into(), ..first.clone() }),
        ("offset", proto::RaiseTokenOffsetRequest { token_offset: seconds(3 * HOUR), ..first.clone() }),
        (
            "expected",
            proto::RaiseTokenOffsetRequest { expected_token_offset: seconds(2 * HOUR), ..first.clone() },
        ),
    ] {
        let refused = ask(&server, request).await.unwrap_err();
        assert_eq!(
            (refusal(&refused).reason.as_str(), fields(&refused)),
            ("INVALID_FIELD", vec!["request_id".into()]),
            "{what}"
        );
    }
    // The id of a request that names a consumer is another one: it belongs to the consumer.
    let policy = Some(proto::Policy { disabled: Some(true), ..Default::default() });
    let request = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: first.request_id,
        reason: first.reason,
        policy,
        ..Default::default()
    };
    assert!(!server.admin.clone().set_policy(request).await.unwrap().into_inner().replayed);
    assert_eq!(events(&server).await.len(), 3);
    server.stop().await;
}

async fn it_only_grows_within_its_bounds(kind: Kind) {
    let server = TestServer::start(kind).await;
    ask(&server, raise(0, HOUR)).await.unwrap();
    let (step, max) = (TOKEN_OFFSET_STEP_MAX.micros() / 1_000_000, TOKEN_OFFSET_MAX.micros() / 1_000_000);
    for (from, to, reason, wrong) in [
        (HOUR, HOUR, "INVALID_FIELD", "token_offset"),
        (HOUR, HOUR - 1, "INVALID_FIELD", "token_offset"),
        (HOUR, HOUR + step + 1, "INVALID_FIELD", "token_offset"),
        (0, 2 * HOUR, "VERSION_MISMATCH", ""),
        (2 * HOUR, 3 * HOUR, "VERSION_MISMATCH", ""),
    ] {
        let request = proto::RaiseTokenOffsetRequest { request_id: "new".into(), ..raise(from, to) };
        let refused = ask(&server, request).await.unwrap_err();
        let expected: Vec<String> = if wrong.is_empty() { Vec::new() } else { vec![wrong.to_owned()] };
        assert_eq!(
            (refusal(&refused).reason.as_str(), fields(&refused)),
            (reason, expected),
            "{from} to {to}"
        );
    }
    let mut from = HOUR;
    while from < max {
        let to = (from + step).min(max);
        ask(&server, raise(from, to)).await.unwrap();
        from = to;
    }
    let refused = ask(&server, raise(max, max + 1)).await.unwrap_err();
    assert_eq!(fields(&refused), ["token_offset"]);
    let held = acquired(&server.client.clone().claim(claim("c", "1")).await.unwrap().into_inner());
    assert!(held.token > max * 1_000_000 && held.token < 1 << 53, "{}", held.token);
    server.stop().await;
}

async fn malformed_requests_are_refused_by_field(kind: Kind) {
    let server = TestServer::start(kind).await;
    let odd = Some(Duration { seconds: 1, nanos: 1 });
    let negative = seconds(-1);
    for (request, wrong) in [
        (proto::RaiseTokenOffsetRequest::default(), &["request_id", "reason", "token_offset"][..]),
        (proto::RaiseTokenOffsetRequest { request_id: "r".repeat(129), ..raise(0, 1) }, &["request_id"]),
        (proto::RaiseTokenOffsetRequest { request_id: "a/b".into(), ..raise(0, 1) }, &["request_id"]),
        (proto::RaiseTokenOffsetRequest { reason: "r".repeat(1_025), ..raise(0, 1) }, &["reason"]),
        (
            proto::RaiseTokenOffsetRequest {
                token_offset: odd,
                expected_token_offset: negative,
                ..raise(0, 1)
            },
            &["token_offset", "expected_token_offset"],
        ),
        (proto::RaiseTokenOffsetRequest { token_offset: odd, ..look() }, &["token_offset"]),
    ] {
        let refused = ask(&server, request).await.unwrap_err();
        assert_eq!(
            (refusal(&refused).code, fields(&refused).as_slice()),
            (Code::InvalidArgument, &wrong.iter().map(|it| it.to_string()).collect::<Vec<_>>()[..])
        );
    }
    assert_eq!(ask(&server, look()).await.unwrap().token_offset, seconds(0));
    server.stop().await;
}

fn event(request_id: &str) -> AuditEvent {
    AuditEvent {
        request_id: request_id.into(),
        at: START,
        actor: "a".into(),
        action: "RAISE_TOKEN_OFFSET".into(),
        consumer: String::new(),
        key: None,
        reason: "r".into(),
        before: None,
        after: None,
        digest: Some(RequestDigest::of("tests", request_id.as_bytes())),
    }
}

async fn the_store_raises_it_from_what_was_seen_or_not_at_all(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    for (id, from, to, expected, offset) in [
        ("1", 0, 7, WriteResult::Done, 7),
        ("2", 0, 9, WriteResult::Lost, 7),
        ("3", 7, 6, WriteResult::Lost, 7),
        ("1", 7, 9, WriteResult::Repeated, 7),
        ("2", 7, 9, WriteResult::Done, 9),
    ] {
        let done =
            session.operators().raise_token_offset(OffsetRaise { from, to }, &event(id)).await.unwrap();
        assert_eq!(done, expected, "{id}: {from} to {to}");
        assert_eq!(session.entries().load(&[]).await.unwrap().reading.token_offset, offset, "{id}");
    }
    assert_eq!(session.operators().audited("", "1").await.unwrap().unwrap().request_id, "1");
    assert!(session.operators().audited("", "3").await.unwrap().is_none(), "what is lost leaves no event");
}

/// A statement that read the old offset may still write: until it has ended the offset stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_under_way_keeps_the_offset_until_it_has_ended() {
    let server = TestServer::start(Kind::Postgres).await;
    server.client.clone().claim(claim("c", "1")).await.unwrap();
    let mut writer = pg::shared().connect(server.at.database.as_ref().unwrap()).await;
    writer.execute("BEGIN").await.unwrap();
    writer.execute("UPDATE ledger.entries SET updated_at = updated_at").await.unwrap();
    let refused = refusal(&ask(&server, raise(0, HOUR)).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::ResourceExhausted, "OVERLOADED"));
    assert_eq!(ask(&server, look()).await.unwrap().token_offset, seconds(0));
    assert_eq!(events(&server).await, []);
    // Others are served meanwhile.
    acquired(&server.client.clone().claim(claim("c", "2")).await.unwrap().into_inner());
    writer.execute("COMMIT").await.unwrap();
    assert_eq!(ask(&server, raise(0, HOUR)).await.unwrap().token_offset, seconds(HOUR));
    server.stop().await;
}

//! Calls that wait for another verdict.

mod account;
mod bounds;
mod crowd;
mod replicas;
mod without_claim;

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use idempotency_ledger::domain::{Key, Span};
use idempotency_ledger::proto::claim_response::Verdict;
use idempotency_ledger::proto::lookup_response::Found;
use idempotency_ledger::proto::{self, EntryState, ErrorReason, FailureKind};
use tokio::task::JoinHandle;
use tonic::{Code, Status};

use crate::harness::details::{acquired, claim, completed, fields, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};
use crate::harness::timer::Timer;

on_both_stores!(
    a_waiting_claim_is_answered_the_result_of_the_holder,
    a_waiting_lookup_is_answered_once_the_entry_is_settled,
    of_many_waiters_one_is_granted_the_key_at_each_failure,
    once_the_entry_is_settled_all_waiters_look_in_one_load,
    a_repeat_that_waits_is_answered_its_own_grant,
    a_wait_that_is_used_up_answers_the_last_verdict,
    a_lease_that_runs_out_is_taken_over_by_a_waiter,
    a_backoff_is_awaited_if_it_ends_within_the_wait,
    a_backoff_that_begins_during_the_wait_is_awaited_or_answered,
    a_caller_that_went_away_leaves_nothing_behind,
    a_change_of_an_operator_is_answered_to_waiters,
    the_items_of_a_batch_do_not_wait,
);

pub(crate) const WAITERS: &str = "idempotency_ledger_waiters";

/// A number of seconds.
pub(crate) fn secs(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

pub(crate) fn millis(millis: i32) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds: 0, nanos: millis * 1_000_000 })
}

/// Within this time a call is answered that a change of the entry wakes, or a short wait ends.
pub(crate) const SOONER: Duration = Duration::from_secs(2);
/// Within this time a call is answered that finds the change by loading its key, which it does each second.
pub(crate) const BY_A_LOAD: Duration = Duration::from_secs(3);

/// A Claim that waits for up to 9 s.
pub(crate) fn waits(consumer: &str, id: &str) -> proto::ClaimRequest {
    proto::ClaimRequest { wait: secs(9), ..claim(consumer, id) }
}

pub(crate) type Waiting<T> = JoinHandle<Result<T, Status>>;

/// Sends a Claim that waits.
pub(crate) fn sent(server: &TestServer, request: proto::ClaimRequest) -> Waiting<proto::ClaimResponse> {
    let mut client = server.client.clone();
    tokio::spawn(async move { Ok(client.claim(request).await?.into_inner()) })
}

pub(crate) fn looked_up(server: &TestServer, id: &str) -> Waiting<proto::LookupResponse> {
    let mut client = server.client.clone();
    let request = proto::LookupRequest { key: key("c", id), wait: secs(9) };
    tokio::spawn(async move { Ok(client.lookup(request).await?.into_inner()) })
}

/// Waits until this holds. It polls: no event reports a change of a metric.
pub(crate) async fn until(what: &str, is: impl Fn() -> bool) {
    let timer = Timer::start();
    while !is() {
        timer.within(Duration::from_secs(20), what);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until this many calls wait.
pub(crate) async fn until_waiting(server: &TestServer, calls: usize) {
    let now = || server.metric(WAITERS).unwrap_or_default();
    until(&format!("{calls} calls wait, not {}", now()), || (now() - calls as f64).abs() < 0.5).await;
}

/// How many waits have ended like this.
pub(crate) fn ended(server: &TestServer, outcome: &str) -> usize {
    let series = format!("idempotency_ledger_wait_seconds_count{{outcome=\"{outcome}\"}}");
    server.metric(&series).unwrap() as usize
}

fn loads(server: &TestServer) -> usize {
    let series = "idempotency_ledger_store_statement_seconds_count{statement=\"load\"}";
    server.metric(series).unwrap_or_default() as usize
}

/// Claims a key without a wait; its token.
pub(crate) async fn held(server: &TestServer, id: &str) -> i64 {
    for _ in 0..20 {
        match server.client.clone().claim(claim("c", id)).await {
            Ok(granted) => return acquired(&granted.into_inner()).token,
            // A statement may take too long on a busy machine; nothing was changed then.
            Err(status) => assert_eq!(refusal(&status).reason, "STORE_UNAVAILABLE", "{status:?}"),
        }
    }
    panic!("the store takes nothing");
}

pub(crate) async fn complete(server: &TestServer, id: &str, token: i64) {
    let result = Bytes::from_static(b"done");
    let request = proto::CompleteRequest { key: key("c", id), token, result, ..Default::default() };
    server.client.clone().complete(request).await.unwrap();
}

pub(crate) async fn fail(server: &TestServer, id: &str, token: i64) {
    let kind = FailureKind::Retryable.into();
    let retry_after = secs(0);
    let request = proto::FailRequest { key: key("c", id), token, kind, retry_after, ..Default::default() };
    server.client.clone().fail(request).await.unwrap();
}

pub(crate) async fn answer<T>(waiting: Waiting<T>) -> T {
    waiting.await.unwrap().unwrap()
}

/// The answer to that of two calls which is answered first, and the other call.
pub(crate) async fn first_of<T>(one: Waiting<T>, other: Waiting<T>) -> (T, Waiting<T>) {
    let (Either::Left((first, left)) | Either::Right((first, left))) = select(one, other).await;
    (first.unwrap().unwrap(), left)
}

async fn a_waiting_claim_is_answered_the_result_of_the_holder(kind: Kind) {
    let server = TestServer::start(kind).await;
    let token = held(&server, "1").await;
    let waiting = sent(&server, waits("c", "1"));
    until_waiting(&server, 1).await;
    complete(&server, "1", token).await;
    let timer = Timer::start();
    let answered = answer(waiting).await;
    timer.within(SOONER, "a call that the completion wakes");
    assert_eq!(completed(&answered).result, Bytes::from_static(b"done"));
    until_waiting(&server, 0).await;
    assert_eq!(ended(&server, "answered"), 1);
    // What is final, and what is new, is answered without a wait.
    for (id, verdict) in [("1", "completed"), ("2", "acquired")] {
        let answered = server.client.clone().claim(waits("c", id)).await.unwrap().into_inner();
        let is = match answered.verdict.unwrap() {
            Verdict::Completed(_) => "completed",
            Verdict::Acquired(_) => "acquired",
            other => panic!("{other:?}"),
        };
        assert_eq!(is, verdict);
    }
    assert_eq!(ended(&server, "answered"), 1, "they did not wait");
    server.stop().await;
}

async fn a_waiting_lookup_is_answered_once_the_entry_is_settled(kind: Kind) {
    let server = TestServer::start(kind).await;
    // It waits for an entry that does not exist yet, too.
    let waiting = looked_up(&server, "1");
    until_waiting(&server, 1).await;
    let token = held(&server, "1").await;
    fail(&server, "1", token).await;
    let token = held(&server, "1").await;
    assert!(!waiting.is_finished());
    complete(&server, "1", token).await;
    let answered = answer(waiting).await;
    assert_eq!(answered.state(), EntryState::Completed);
    assert!(
        matches!(answered.found, Some(Found::Completed(found)) if found.result == Bytes::from_static(b"done"))
    );
    server.stop().await;
}

async fn of_many_waiters_one_is_granted_the_key_at_each_failure(kind: Kind) {
    const WAITERS: usize = 40;
    let server = TestServer::start(kind).await;
    let mut token = held(&server, "1").await;
    let (tell, mut answered) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..WAITERS {
        let (waiting, tell) = (sent(&server, waits("c", "1")), tell.clone());
        tokio::spawn(async move { tell.send(answer(waiting).await) });
    }
    until_waiting(&server, WAITERS).await;
    for left in (WAITERS - 3..WAITERS).rev() {
        fail(&server, "1", token).await;
        token = acquired(&answered.recv().await.unwrap()).token;
        until_waiting(&server, left).await;
        assert!(answered.try_recv().is_err(), "one grant a failure, and no other call is answered");
    }
    complete(&server, "1", token).await;
    for _ in 0..WAITERS - 3 {
        completed(&answered.recv().await.unwrap());
    }
    assert_eq!((ended(&server, "granted"), ended(&server, "answered")), (3, WAITERS - 3));
    server.stop().await;
}

async fn once_the_entry_is_settled_all_waiters_look_in_one_load(kind: Kind) {
    const CALLS: usize = 60;
    let server = TestServer::start(kind).await;
    let token = held(&server, "1").await;
    let waiting: Vec<_> = (0..CALLS).map(|_| sent(&server, waits("c", "1"))).collect();
    until_waiting(&server, CALLS).await;
    let before = loads(&server);
    complete(&server, "1", token).await;
    for one in waiting {
        completed(&answer(one).await);
    }
    assert_eq!(loads(&server) - before, 1);
    server.stop().await;
}

async fn a_repeat_that_waits_is_answered_its_own_grant(kind: Kind) {
    let server = TestServer::start(kind).await;
    let token = held(&server, "1").await;
    let repeated = proto::ClaimRequest {
        claim_id: "6f1ae0a6-5b1f-4e0e-9d1a-0b2f6e2f7c11".to_owned(),
        ..waits("c", "1")
    };
    // Another one between them: it is granted nothing.
    let waiting = [sent(&server, repeated.clone()), sent(&server, repeated.clone())];
    until_waiting(&server, 2).await;
    let other = sent(&server, waits("c", "1"));
    until_waiting(&server, 3).await;
    fail(&server, "1", token).await;
    let mut grants = Vec::new();
    for one in waiting {
        grants.push(acquired(&answer(one).await));
    }
    assert_eq!(grants[0].token, grants[1].token);
    let replayed = grants.iter().filter(|grant| grant.replayed).count();
    assert_eq!(replayed, 1, "one is granted, the other one is its repeat");
    assert!(!other.is_finished());
    complete(&server, "1", grants[0].token).await;
    completed(&answer(other).await);
    server.stop().await;
}

async fn a_wait_that_is_used_up_answers_the_last_verdict(kind: Kind) {
    let server = TestServer::start(kind).await;
    held(&server, "1").await;
    let wait = millis(300);
    let call = server.client.clone().claim(proto::ClaimRequest { wait, ..waits("c", "1") }).await.unwrap();
    assert!(matches!(call.into_inner().verdict, Some(Verdict::InProgress(_))));
    let (timer, at_least) = (Timer::start(), Duration::from_millis(300));
    let request = proto::ClaimRequest { wait, ..waits("c", "1") };
    let answered = server.client.clone().claim(request).await.unwrap().into_inner();
    assert!(matches!(answered.verdict, Some(Verdict::InProgress(_))), "{answered:?}");
    assert!(timer.elapsed() >= at_least, "{:?}", timer.elapsed());
    timer.within(SOONER, "a wait of 300 ms");
    // The call's deadline bounds the wait, and the answer arrives before it: 200 ms are reserved for the way back, and 250 ms for
    // the last look.
    let (timer, mut request) = (Timer::start(), tonic::Request::new(waits("c", "1")));
    request.set_timeout(Duration::from_secs(3));
    let answered = server.client.clone().claim(request).await.unwrap().into_inner();
    assert!(matches!(answered.verdict, Some(Verdict::InProgress(_))), "{answered:?}");
    assert!(timer.elapsed() >= Duration::from_millis(2_500), "{:?}", timer.elapsed());
    let (timer, request) = (Timer::start(), proto::LookupRequest { key: key("c", "none"), wait });
    let answered = server.client.clone().lookup(request).await.unwrap().into_inner();
    assert_eq!(answered, proto::LookupResponse::default());
    assert!(timer.elapsed() >= at_least, "{:?}", timer.elapsed());
    timer.within(SOONER, "a wait of 300 ms");
    assert_eq!(ended(&server, "over"), 4);
    server.stop().await;
}

async fn a_lease_that_runs_out_is_taken_over_by_a_waiter(kind: Kind) {
    let server = TestServer::start(kind).await;
    held(&server, "1").await;
    let (one, other) = (sent(&server, waits("c", "1")), sent(&server, waits("c", "1")));
    until_waiting(&server, 2).await;
    server.advance(Span::from_secs(100)).await;
    let (granted, other) = first_of(one, other).await;
    let grant = acquired(&granted);
    assert!(grant.effect_unknown && grant.attempt == 2, "{grant:?}");
    until_waiting(&server, 1).await;
    assert!(!other.is_finished());
    other.abort();
    server.stop().await;
}

async fn a_backoff_is_awaited_if_it_ends_within_the_wait(kind: Kind) {
    let server = TestServer::start(kind).await;
    for (id, delay) in [("1", 5), ("2", 60)] {
        let token = held(&server, id).await;
        let request =
            proto::ReleaseRequest { key: key("c", id), token, delay: secs(delay), ..Default::default() };
        server.client.clone().release(request).await.unwrap();
    }
    // One that goes on for longer than the wait is answered immediately.
    let answered = server.client.clone().claim(waits("c", "2")).await.unwrap().into_inner();
    assert!(matches!(answered.verdict, Some(Verdict::Backoff(_))), "{answered:?}");
    assert_eq!(answered.retry_after, secs(60));
    let waiting = sent(&server, waits("c", "1"));
    until_waiting(&server, 1).await;
    server.advance(Span::from_secs(5)).await;
    let timer = Timer::start();
    assert_eq!(acquired(&answer(waiting).await).attempt, 1);
    timer.within(BY_A_LOAD, "a call whose backoff has ended");
    server.stop().await;
}

async fn a_backoff_that_begins_during_the_wait_is_awaited_or_answered(kind: Kind) {
    let server = TestServer::start(kind).await;
    for (id, delay) in [("1", 5), ("2", 60)] {
        let token = held(&server, id).await;
        let (one, other) = (sent(&server, waits("c", id)), sent(&server, waits("c", id)));
        until_waiting(&server, 2).await;
        let request =
            proto::ReleaseRequest { key: key("c", id), token, delay: secs(delay), ..Default::default() };
        server.client.clone().release(request).await.unwrap();
        if delay == 5 {
            server.advance(Span::from_secs(5)).await;
            let (granted, left) = first_of(one, other).await;
            assert_eq!(acquired(&granted).attempt, 1);
            left.abort();
            until_waiting(&server, 0).await;
            continue;
        }
        let timer = Timer::start();
        for one in [one, other] {
            let answered = answer(one).await;
            assert!(matches!(answered.verdict, Some(Verdict::Backoff(_))), "{answered:?}");
            assert_eq!(answered.retry_after, secs(60));
            timer.within(SOONER, "a call that the Release wakes");
        }
    }
    assert_eq!((ended(&server, "granted"), ended(&server, "answered")), (1, 2));
    server.stop().await;
}

async fn a_caller_that_went_away_leaves_nothing_behind(kind: Kind) {
    let server = TestServer::start(kind).await;
    let token = held(&server, "1").await;
    let first = sent(&server, waits("c", "1"));
    until_waiting(&server, 1).await;
    let second = sent(&server, waits("c", "1"));
    until_waiting(&server, 2).await;
    first.abort();
    until_waiting(&server, 1).await;
    assert_eq!(ended(&server, "gone"), 1);
    // It does not look any more, and the next one does.
    fail(&server, "1", token).await;
    let token = acquired(&answer(second).await).token;
    complete(&server, "1", token).await;
    let entry = server.entry(&Key::new("c", "tests", "1")).await.unwrap();
    assert_eq!(entry.attempts, 2, "the one that went away was granted nothing");
    server.stop().await;
}

async fn a_change_of_an_operator_is_answered_to_waiters(kind: Kind) {
    let server = TestServer::start(kind).await;
    held(&server, "1").await;
    let waiting = sent(&server, waits("c", "1"));
    until_waiting(&server, 1).await;
    let version = server.entry(&Key::new("c", "tests", "1")).await.unwrap().version;
    let request = proto::ParkEntryRequest {
        key: key("c", "1"),
        expected_version: version,
        request_id: "park-1".into(),
        reason: "a test".into(),
    };
    server.admin.clone().park_entry(request).await.unwrap();
    assert!(matches!(answer(waiting).await.verdict, Some(Verdict::Parked(_))));
    server.stop().await;
}

async fn the_items_of_a_batch_do_not_wait(kind: Kind) {
    let server = TestServer::start(kind).await;
    let requests = vec![claim("c", "1"), waits("c", "2")];
    let answer = server.client.clone().batch_claim(proto::BatchClaimRequest { requests }).await.unwrap();
    let answers = answer.into_inner().responses;
    acquired(&answers[0]);
    let Some(Verdict::Rejected(rejected)) = &answers[1].verdict else { panic!("{:?}", answers[1]) };
    let at_fault: Vec<&str> =
        rejected.field_violations.iter().map(|violation| violation.field.as_str()).collect();
    assert_eq!((rejected.reason(), at_fault), (ErrorReason::InvalidField, vec!["requests[1].wait"]));
    for wait in [secs(-1), Some(prost_types::Duration { seconds: 1, nanos: 1 })] {
        let refused =
            server.client.clone().claim(proto::ClaimRequest { wait, ..claim("c", "3") }).await.unwrap_err();
        assert_eq!((refused.code(), fields(&refused)), (Code::InvalidArgument, vec!["wait".to_owned()]));
        let lookup = proto::LookupRequest { key: key("c", "3"), wait };
        let refused = server.client.clone().lookup(lookup).await.unwrap_err();
        assert_eq!((refused.code(), fields(&refused)), (Code::InvalidArgument, vec!["wait".to_owned()]));
    }
    let requests = vec![proto::LookupRequest { key: key("c", "1"), wait: secs(0) }];
    let answer = server.client.clone().batch_lookup(proto::BatchLookupRequest { requests }).await.unwrap();
    let outcome = answer.into_inner().responses.pop().unwrap().outcome.unwrap();
    let proto::lookup_result::Outcome::Rejected(rejected) = outcome else { panic!("{outcome:?}") };
    assert_eq!(rejected.field_violations[0].field, "requests[0].wait");
    server.stop().await;
}

//! Calls of ClaimNext that wait: what ends a wait, and how long it may be. docs/contract.md, section 15.

use std::sync::Arc;
use std::time::{Duration, Instant};

use idempotency_ledger::domain::Policy;
use idempotency_ledger::identity::Guard;
use idempotency_ledger::ledger::WaitBounds;
use idempotency_ledger::proto::{self, FailureKind};
use tokio::task::JoinHandle;
use tonic::{Request, Status};

use super::{handed, ids, inbox, next, seconds, server, server_with, stored};
use crate::harness::details::{key, refusal};
use crate::harness::faulty::{FaultyStore, Inject, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer, TestStore};
use crate::identity::{People, by};
use crate::waiting::{SOONER, ended, secs, until_waiting};

on_both_stores!(
    wait_is_ended_by_the_next_message_that_becomes_due,
    wait_is_ended_by_a_lease_that_runs_out,
    wait_is_bounded_by_the_server_and_by_the_deadline,
    calls_beyond_the_bounds_of_waiting_calls_do_not_wait,
    each_waiting_call_is_handed_its_own_messages,
    wait_is_ended_by_a_policy_that_is_disabled,
    store_wakes_waiting_calls_before_their_next_poll,
    server_that_drains_lets_waiting_calls_go,
    credential_and_right_are_judged_at_each_look_for_messages,
    look_that_fails_is_repeated_at_the_next_poll,
    look_that_fails_uses_no_quota,
);

type Waiting = JoinHandle<Result<proto::ClaimNextResponse, Status>>;

fn waits(server: &TestServer, max: i32) -> Waiting {
    let mut client = server.client.clone();
    let request = proto::ClaimNextRequest { wait: secs(9), ..next(max) };
    tokio::spawn(async move { Ok(client.claim_next(request).await?.into_inner()) })
}

async fn names(waiting: Waiting) -> Vec<String> {
    let answer = tokio::time::timeout(SOONER, waiting).await.expect("it is answered before its wait is over");
    ids(&answer.unwrap().unwrap()).into_iter().map(|(id, _)| id).collect()
}

async fn wait_is_ended_by_the_next_message_that_becomes_due(kind: Kind) {
    let mut server = server(kind).await;
    stored(&mut server, "1").await;
    let [(id, token)] = handed(&mut server, next(1)).await.try_into().unwrap();
    let request = proto::FailRequest {
        key: key("c", &id),
        token,
        kind: FailureKind::Retryable.into(),
        retry_after: secs(60),
        ..Default::default()
    };
    server.client.fail(request).await.unwrap();
    let waiting = waits(&server, 1);
    until_waiting(&server, 1).await;
    server.advance(seconds(59)).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(!waiting.is_finished(), "it is not due yet");
    server.advance(seconds(1)).await;
    assert_eq!(names(waiting).await, ["1"]);
    server.stop().await;
}

async fn wait_is_ended_by_a_lease_that_runs_out(kind: Kind) {
    let mut server = server(kind).await;
    stored(&mut server, "1").await;
    assert_eq!(handed(&mut server, next(1)).await.len(), 1);
    let waiting = waits(&server, 1);
    until_waiting(&server, 1).await;
    server.advance(seconds(31)).await;
    assert_eq!(names(waiting).await, ["1"]);
    server.stop().await;
}

async fn wait_is_bounded_by_the_server_and_by_the_deadline(kind: Kind) {
    let bound = Duration::from_millis(1_200);
    let setup = Setup { max_wait: bound, ..Setup::default().with("c", inbox()) };
    let mut server = server_with(kind, setup).await;
    let since = Instant::now();
    let request = proto::ClaimNextRequest { wait: secs(9), ..next(1) };
    let answer = server.client.claim_next(request).await.unwrap().into_inner();
    assert!((bound..SOONER).contains(&since.elapsed()), "{:?}", since.elapsed());
    let retry_after = answer.retry_after.expect("retry_after");
    assert!(answer.messages.is_empty() && (0..=1).contains(&retry_after.seconds), "{retry_after:?}");
    server.stop().await;
    let mut server = super::server(kind).await;
    let since = Instant::now();
    let mut request = Request::new(proto::ClaimNextRequest { wait: secs(9), ..next(1) });
    request.set_timeout(Duration::from_secs(2));
    let answer = server.client.claim_next(request).await.unwrap().into_inner();
    assert!(answer.messages.is_empty() && answer.retry_after.is_some(), "{answer:?}");
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    server.stop().await;
}

async fn calls_beyond_the_bounds_of_waiting_calls_do_not_wait(kind: Kind) {
    let bounds = WaitBounds { server: 4, key: 100 };
    let setup = Setup { waits: bounds, ..Setup::default().with("c", inbox()) };
    let mut server = server_with(kind, setup).await;
    // A consumer has at most as many as it leaves free: two of four.
    let waiting = [waits(&server, 1), waits(&server, 1)];
    until_waiting(&server, 2).await;
    let since = Instant::now();
    let request = proto::ClaimNextRequest { wait: secs(9), ..next(1) };
    let answer = server.client.claim_next(request).await.unwrap().into_inner();
    assert!(since.elapsed() < SOONER, "it does not wait");
    let retry_after = answer.retry_after.expect("retry_after");
    assert!(retry_after.seconds == 0 && retry_after.nanos > 0 || retry_after.seconds == 1, "{retry_after:?}");
    assert_eq!(ended(&server, "no_place"), 1);
    for id in ["1", "2"] {
        stored(&mut server, id).await;
    }
    let mut all = Vec::new();
    for one in waiting {
        all.extend(names(one).await);
    }
    all.sort();
    assert_eq!(all, ["1", "2"], "those that wait are woken");
    server.stop().await;
}

async fn each_waiting_call_is_handed_its_own_messages(kind: Kind) {
    let mut server = server(kind).await;
    let waiting: Vec<Waiting> = (0..5).map(|_| waits(&server, 2)).collect();
    until_waiting(&server, 5).await;
    let requests = (0..10).map(|id| super::message(&id.to_string())).collect();
    server.client.batch_store(proto::BatchStoreRequest { requests }).await.unwrap();
    let mut all = Vec::new();
    for one in waiting {
        let some = names(one).await;
        assert_eq!(some.len(), 2);
        all.extend(some);
    }
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 10, "each message one time");
    server.stop().await;
}

async fn wait_is_ended_by_a_policy_that_is_disabled(kind: Kind) {
    let mut server = server(kind).await;
    let waiting = waits(&server, 1);
    until_waiting(&server, 1).await;
    let request = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: "off".into(),
        reason: "a rest".into(),
        policy: Some(proto::Policy { disabled: Some(true), inbox: Some(true), ..Default::default() }),
        ..Default::default()
    };
    server.admin.set_policy(request).await.unwrap();
    stored(&mut server, "1").await;
    let answer = tokio::time::timeout(SOONER, waiting).await.expect("it is answered before its wait is over");
    assert_eq!(refusal(&answer.unwrap().unwrap_err()).reason, "CONSUMER_DISABLED");
    server.stop().await;
}

/// Of five calls that look once a second, each a fifth of a second after the one before it, polls alone would answer the last one
/// 800 ms after the Store at the earliest.
async fn store_wakes_waiting_calls_before_their_next_poll(kind: Kind) {
    let mut server = server_with(kind, Setup { default: inbox(), ..Setup::default() }).await;
    let mut took = Vec::new();
    for round in 0..3 {
        let consumers: Vec<String> = (0..5).map(|number| format!("c{round}{number}")).collect();
        let mut waiting = Vec::new();
        for consumer in &consumers {
            let mut client = server.client.clone();
            let request = proto::ClaimNextRequest { consumer: consumer.clone(), wait: secs(9), ..next(1) };
            waiting.push(tokio::spawn(async move {
                let answer = client.claim_next(request).await.unwrap().into_inner();
                (Instant::now(), answer.messages.len())
            }));
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        // After 1.5 s a call looks once a second.
        tokio::time::sleep(Duration::from_millis(1_600)).await;
        let since = Instant::now();
        let requests = consumers.iter().map(|consumer| super::message_of(consumer, "1")).collect();
        server.client.batch_store(proto::BatchStoreRequest { requests }).await.unwrap();
        let mut longest = Duration::ZERO;
        for one in waiting {
            let (at, messages) = one.await.unwrap();
            assert_eq!(messages, 1);
            longest = longest.max(at - since);
        }
        // A busy machine may be late: it has three tries.
        if longest < Duration::from_millis(600) {
            return drop(server.stop().await);
        }
        took.push(longest);
    }
    panic!("no Store wakes them: {took:?}");
}

async fn server_that_drains_lets_waiting_calls_go(kind: Kind) {
    let server = server(kind).await;
    let waiting: Vec<Waiting> = (0..4).map(|_| waits(&server, 1)).collect();
    until_waiting(&server, 4).await;
    let since = Instant::now();
    let stopped = tokio::spawn(server.stop());
    for one in waiting {
        let answer = tokio::time::timeout(SOONER, one).await.expect("it is let go").unwrap().unwrap();
        let again = answer.retry_after.expect("retry_after");
        assert!(answer.messages.is_empty());
        assert!(again.seconds == 0 && again.nanos > 0 || again.seconds == 1 && again.nanos == 0, "{again:?}");
    }
    assert!(since.elapsed() < SOONER, "long before the wait is over: {:?}", since.elapsed());
    stopped.await.unwrap();
}

async fn credential_and_right_are_judged_at_each_look_for_messages(kind: Kind) {
    const ALL: &[(&str, &str)] = &[("*", "claim settle read admin store")];
    let people = People::new(&[("one", ALL), ("two", ALL), ("stays", ALL)]);
    let guard = Guard::new(people.trust());
    let mut server =
        server_with(kind, Setup { guard: guard.clone(), ..Setup::default().with("c", inbox()) }).await;
    let mut waiting = Vec::new();
    for (number, name) in ["one", "two", "stays"].into_iter().enumerate() {
        let mut client = server.client.clone();
        let request = by(people.token(name), proto::ClaimNextRequest { wait: secs(9), ..next(1) });
        waiting.push(tokio::spawn(async move { client.claim_next(request).await }));
        until_waiting(&server, number + 1).await;
    }
    // The credential of the first is taken out, and the right of the second.
    let lines: Vec<&str> = people.tokens_file.lines().filter(|line| !line.starts_with("one ")).collect();
    let left = People {
        tokens: Vec::new(),
        tokens_file: lines.join("\n"),
        rights_file: People::new(&[("stays", ALL)]).rights_file,
    };
    guard.replace(left.trust());
    server.client.store(by(people.token("stays"), super::message("1"))).await.unwrap();
    let mut answered = Vec::new();
    for one in waiting {
        let answer = tokio::time::timeout(SOONER, one).await.expect("it is answered early").unwrap();
        answered.push(match answer {
            Ok(answer) => format!("{} messages", answer.into_inner().messages.len()),
            Err(status) => refusal(&status).reason,
        });
    }
    assert_eq!(answered, ["UNAUTHENTICATED", "CONSUMER_NOT_ALLOWED", "1 messages"]);
    server.stop().await;
}

/// A store that fails for a moment ends no wait. Where the last look fails, its error is the answer.
async fn look_that_fails_is_repeated_at_the_next_poll(kind: Kind) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    let mut server = TestServer::on(at, Setup::default().with("c", inbox())).await;
    for (fault, is_last, reason) in [
        (Inject::Unavailable, false, None),
        (Inject::LostRequest, false, None),
        (Inject::Unavailable, true, Some("STORE_UNAVAILABLE")),
        (Inject::LostRequest, true, Some("OUTCOME_UNKNOWN")),
    ] {
        let mut client = server.client.clone();
        let request = proto::ClaimNextRequest { wait: secs(if is_last { 1 } else { 9 }), ..next(1) };
        let waiting = tokio::spawn(async move { client.claim_next(request).await });
        until_waiting(&server, 1).await;
        plan.next(vec![fault; if is_last { 1_000 } else { 3 }]);
        if !is_last {
            while plan.has_faults() && !waiting.is_finished() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let id = format!("{fault:?}");
            stored(&mut server, &id).await;
        }
        let answer = tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap().unwrap();
        plan.clear();
        let found = answer.as_ref().err().map(|status| refusal(status).reason);
        assert_eq!(found.as_deref(), reason, "{fault:?}: {answer:?}");
        let handed = answer.map(|answer| ids(&answer.into_inner()).len()).unwrap_or_default();
        assert_eq!(handed, usize::from(!is_last), "{fault:?}");
    }
    server.stop().await;
}

/// A look that fails hands out nothing, so that it uses nothing of the quota of its consumer.
async fn look_that_fails_uses_no_quota(kind: Kind) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    let policy = Policy { claims_per_second: 2, ..inbox() };
    let mut server = TestServer::on(at, Setup::default().with("c", policy)).await;
    for id in ["1", "2", "3"] {
        stored(&mut server, id).await;
    }
    plan.next(vec![Inject::Unavailable; 1_000]);
    for _ in 0..5 {
        let failed = server.client.claim_next(next(9)).await.unwrap_err();
        assert_eq!(refusal(&failed).reason, "STORE_UNAVAILABLE");
    }
    plan.clear();
    assert_eq!(handed(&mut server, next(9)).await.len(), 2);
    server.stop().await;
}

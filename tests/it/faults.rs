//! A store that fails: what is unknown is resolved or said to be unknown, what is poisoned fails
//! alone, what dies is answered and comes back.

mod held;
mod marks;
mod second_try;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::settlement::Action;
use idempotency_ledger::proto::settlement_result::Outcome;
use idempotency_ledger::proto::{self, claim_response::Verdict};
use sqlx::Executor as _;
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::harness::details::{acquired, claim, completed, key, refusal};
use crate::harness::faulty::{FaultyStore, Inject, POISON, Plan};
use crate::harness::on_both_stores;
use crate::harness::postgres as pg;
use crate::harness::server::{Kind, Setup, TestServer, TestStore};

on_both_stores!(
    a_lost_answer_is_resolved_by_one_repeat,
    a_lost_request_is_repeated,
    what_stays_unknown_is_said_and_the_identical_request_finds_out,
    after_an_unknown_outcome_no_answer_says_not_applied,
    an_unknown_outcome_without_a_session_stays_unknown,
    a_refused_write_is_certainly_not_applied,
    a_conflict_is_tried_again,
    a_poisoned_row_fails_alone_within_few_statements,
    a_dying_task_answers_its_waiters_and_comes_back,
    a_row_that_can_not_be_read_fails_alone,
    a_deadline_is_answered_before_it_is_over_and_the_call_is_carried_out,
    claims_look_first_while_most_messages_come_again,
);

async fn server(kind: Kind) -> (TestServer, Arc<Plan>) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    (TestServer::on(at, Setup::default()).await, plan)
}

fn delivery(id: &str, number: u128) -> proto::ClaimRequest {
    let claim_id = uuid::Builder::from_random_bytes(number.to_be_bytes()).into_uuid();
    proto::ClaimRequest { claim_id: claim_id.to_string(), ..claim("c", id) }
}

fn complete(id: &str, token: i64) -> proto::CompleteRequest {
    proto::CompleteRequest {
        key: key("c", id),
        token,
        result: Bytes::new(),
        result_left_out: false,
        event_type: String::new(),
    }
}

/// An insert that meets entries costs more than a look at them.
async fn claims_look_first_while_most_messages_come_again(kind: Kind) {
    let (server, plan) = server(kind).await;
    let mut client = server.client.clone();
    let mut of = async |ids: std::ops::Range<u32>| {
        let requests = ids.map(|id| claim("c", &id.to_string())).collect();
        let counts = || [plan.writes.load(Ordering::SeqCst), plan.loads.load(Ordering::SeqCst)];
        let before = counts();
        let answer = client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap().into_inner();
        let acquired = |one: &&proto::ClaimResponse| matches!(one.verdict, Some(Verdict::Acquired(_)));
        let [writes, loads] = counts();
        (answer.responses.iter().filter(acquired).count(), writes - before[0], loads - before[1])
    };
    assert_eq!(of(0..500).await, (500, 1, 0), "new messages are claimed without a look");
    of(0..500).await;
    assert_eq!(of(0..500).await, (0, 0, 1), "they come again");
    assert_eq!(of(400..600).await, (100, 1, 1), "some of them are new");
    of(1_000..1_500).await;
    assert_eq!(of(1_500..2_000).await, (500, 1, 0), "no more come again");
    server.stop().await;
}

async fn a_lost_answer_is_resolved_by_one_repeat(kind: Kind) {
    let (mut server, plan) = server(kind).await;
    plan.next([Inject::LostAnswer]);
    let held = acquired(&server.client.claim(delivery("1", 1)).await.unwrap().into_inner());
    assert!(held.replayed, "found as its own claim");
    plan.next([Inject::LostAnswer]);
    let renewed = proto::RenewRequest {
        key: key("c", "1"),
        token: held.token,
        effect_started: true,
        ..Default::default()
    };
    server.client.renew(renewed).await.unwrap();
    plan.next([Inject::LostAnswer]);
    let done = server.client.complete(complete("1", held.token)).await.unwrap().into_inner();
    assert!(done.replayed);
    for (id, retry_after) in
        [("failed", Some(prost_types::Duration { seconds: 1, nanos: 0 })), ("released", None)]
    {
        let held = acquired(&server.client.claim(delivery(id, 1)).await.unwrap().into_inner());
        plan.next([Inject::LostAnswer]);
        let (key, token) = (key("c", id), held.token);
        let replayed = match retry_after {
            Some(_) => {
                let request = proto::FailRequest { key, token, retry_after, ..Default::default() };
                server.client.fail(request).await.unwrap().into_inner().replayed
            }
            None => {
                let request = proto::ReleaseRequest {
                    key,
                    token,
                    delay: None,
                    unpin_fingerprint: false,
                    event_type: String::new(),
                };
                server.client.release(request).await.unwrap().into_inner().replayed
            }
        };
        assert!(replayed, "{id}");
    }
    server.stop().await;
}

async fn a_lost_request_is_repeated(kind: Kind) {
    let (mut server, plan) = server(kind).await;
    plan.next([Inject::LostRequest]);
    let held = acquired(&server.client.claim(delivery("1", 1)).await.unwrap().into_inner());
    assert!(!held.replayed);
    plan.next([Inject::LostRequest]);
    let done = server.client.complete(complete("1", held.token)).await.unwrap().into_inner();
    assert!(!done.replayed);
    server.stop().await;
}

async fn what_stays_unknown_is_said_and_the_identical_request_finds_out(kind: Kind) {
    let (mut server, plan) = server(kind).await;
    plan.next([Inject::LostRequest, Inject::LostAnswer]);
    let unknown = server.client.claim(delivery("1", 1)).await.unwrap_err();
    let refused = refusal(&unknown);
    assert_eq!((refused.code, refused.reason.as_str()), (Code::Unavailable, "OUTCOME_UNKNOWN"));
    assert_eq!(refused.advice, "RETRY_LATER");
    assert!(unknown.get_error_details().retry_info().is_some());
    let held = acquired(&server.client.claim(delivery("1", 1)).await.unwrap().into_inner());
    assert!(held.replayed);
    server.stop().await;
}

async fn after_an_unknown_outcome_no_answer_says_not_applied(kind: Kind) {
    let (mut server, plan) = server(kind).await;
    let slow = acquired(&server.client.claim(delivery("1", 1)).await.unwrap().into_inner());
    server.advance(Span::from_secs(31)).await;
    acquired(&server.client.claim(delivery("1", 2)).await.unwrap().into_inner());
    plan.next([Inject::LostRequest]);
    let refused = refusal(&server.client.complete(complete("1", slow.token)).await.unwrap_err());
    assert_eq!(refused.reason, "OUTCOME_UNKNOWN");
    let refused = refusal(&server.client.complete(complete("1", slow.token)).await.unwrap_err());
    assert_eq!(refused.reason, "LEASE_LOST");
    server.stop().await;
}

/// The connection breaks, and no other can be had: what was sent may have been applied.
async fn an_unknown_outcome_without_a_session_stays_unknown(kind: Kind) {
    let (mut server, plan) = server(kind).await;
    let held = acquired(&server.client.claim(delivery("1", 1)).await.unwrap().into_inner());
    plan.next([Inject::LostAnswer]);
    plan.no_sessions.store(true, Ordering::SeqCst);
    let refused = refusal(&server.client.complete(complete("1", held.token)).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::Unavailable, "OUTCOME_UNKNOWN"));
    // What was never sent is certainly not applied.
    let refused = refusal(&server.client.claim(delivery("2", 2)).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::Unavailable, "STORE_UNAVAILABLE"));
    plan.no_sessions.store(false, Ordering::SeqCst);
    let done = loop {
        match server.client.complete(complete("1", held.token)).await {
            Ok(done) => break done.into_inner(),
            Err(status) => assert_eq!(refusal(&status).reason, "STORE_UNAVAILABLE"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert!(done.replayed, "it was applied");
    server.stop().await;
}

async fn a_refused_write_is_certainly_not_applied(kind: Kind) {
    let (mut server, plan) = server(kind).await;
    plan.next([Inject::Unavailable]);
    let refused = refusal(&server.client.claim(delivery("1", 1)).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::Unavailable, "STORE_UNAVAILABLE"));
    assert!(!acquired(&server.client.claim(delivery("1", 1)).await.unwrap().into_inner()).replayed);
    server.stop().await;
}

async fn a_conflict_is_tried_again(kind: Kind) {
    let (mut server, plan) = server(kind).await;
    plan.next([Inject::Conflict; 5]);
    let held = acquired(&server.client.claim(delivery("1", 1)).await.unwrap().into_inner());
    assert!(!held.replayed);
    plan.next([Inject::Conflict; 40]);
    let refused = refusal(&server.client.complete(complete("1", held.token)).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::ResourceExhausted, "OVERLOADED"));
    server.stop().await;
}

async fn a_poisoned_row_fails_alone_within_few_statements(kind: Kind) {
    let (mut server, plan) = server(kind).await;
    let mut requests: Vec<_> = (0..64).map(|number| claim("c", &format!("m{number}"))).collect();
    requests[40] = claim("c", POISON);
    let before = plan.writes.load(Ordering::SeqCst);
    let answers = server.client.batch_claim(proto::BatchClaimRequest { requests }).await;
    let answers = answers.unwrap().into_inner().responses;
    let statements = plan.writes.load(Ordering::SeqCst) - before;
    assert!(statements <= 2 * 6 + 1, "{statements} statements for 64 rows");
    for (number, answer) in answers.iter().enumerate() {
        if number == 40 {
            let Some(Verdict::Rejected(rejected)) = &answer.verdict else { panic!("{answer:?}") };
            assert_eq!(rejected.reason(), proto::ErrorReason::Internal);
            assert_eq!(
                (rejected.code, rejected.advice()),
                (Code::Internal as i32, proto::Advice::RetryLater)
            );
            assert!(!rejected.message.contains("on demand"), "the driver's text never leaves");
        } else {
            acquired(answer);
        }
    }
    server.stop().await;
}

async fn a_dying_task_answers_its_waiters_and_comes_back(kind: Kind) {
    let (server, plan) = server(kind).await;
    plan.next([Inject::Panic]);
    let calls = (0..20).map(|number| {
        let mut client = server.client.clone();
        async move { client.claim(delivery(&format!("m{number}"), 1)).await }
    });
    let answers = futures_util::future::join_all(calls).await;
    let lost = answers.iter().filter(|answer| answer.is_err()).count();
    assert!(lost > 0, "nobody waited for the task that died");
    for answer in answers {
        match answer {
            Ok(response) => drop(acquired(&response.into_inner())),
            Err(status) => assert_eq!(refusal(&status).reason, "OUTCOME_UNKNOWN"),
        }
    }
    for number in 0..20 {
        let mut client = server.client.clone();
        acquired(&client.claim(delivery(&format!("m{number}"), 1)).await.unwrap().into_inner());
    }
    server.stop().await;
}

async fn a_deadline_is_answered_before_it_is_over_and_the_call_is_carried_out(kind: Kind) {
    let (mut server, plan) = server(kind).await;
    plan.close();
    let mut request = tonic::Request::new(delivery("1", 1));
    request.set_timeout(std::time::Duration::from_secs(2));
    let late = server.client.claim(request).await.unwrap_err();
    let refused = refusal(&late);
    assert_eq!((refused.code, refused.reason.as_str()), (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"));
    assert!(late.get_error_details().retry_info().is_some());
    // What was sent to the store is carried out; the identical request finds its answer.
    plan.open();
    assert!(acquired(&server.client.claim(delivery("1", 1)).await.unwrap().into_inner()).replayed);
    server.stop().await;
}

async fn a_row_that_can_not_be_read_fails_alone(kind: Kind) {
    let (mut server, _) = server(kind).await;
    for id in ["good", "bad"] {
        let held = acquired(&server.client.claim(delivery(id, 1)).await.unwrap().into_inner());
        server.client.complete(complete(id, held.token)).await.unwrap();
    }
    server.at.execute("UPDATE @entries SET state = 77 WHERE id = 'bad'").await;
    let requests = vec![delivery("good", 2), delivery("bad", 3)];
    let answers = server.client.batch_claim(proto::BatchClaimRequest { requests }).await;
    let answers = answers.unwrap().into_inner().responses;
    completed(&answers[0]);
    let Some(Verdict::Rejected(rejected)) = &answers[1].verdict else { panic!("{answers:?}") };
    assert_eq!(rejected.reason(), proto::ErrorReason::EntryUnreadable);
    // Another key behind the same hash is an error, never a silent duplicate.
    server.at.execute("UPDATE @entries SET state = 4, id = 'another' WHERE id = 'bad'").await;
    let refused = refusal(&server.client.claim(delivery("bad", 4)).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::Internal, "KEY_COLLISION"));
    server.stop().await;
}

/// Somebody's open transaction on one row: its neighbours are served, its own call is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_row_fails_alone() {
    let (mut server, _) = server(Kind::Postgres).await;
    let requests = (0..16_u128).map(|number| delivery(&format!("m{number}"), number + 1)).collect();
    let held = server.client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap().into_inner();
    let tokens: Vec<i64> = held.responses.iter().map(|one| acquired(one).token).collect();
    let mut other = pg::shared().connect(server.at.database.as_ref().unwrap()).await;
    other.execute("BEGIN").await.unwrap();
    other.execute("SELECT 1 FROM ledger.entries WHERE id = 'm7' FOR UPDATE").await.unwrap();
    let settle = |number: usize| proto::Settlement {
        action: Some(Action::Complete(complete(&format!("m{number}"), tokens[number]))),
    };
    let settlements = (0..16).map(settle).collect();
    let results = server.client.batch_settle(proto::BatchSettleRequest { settlements }).await;
    for (number, result) in results.unwrap().into_inner().results.iter().enumerate() {
        match &result.outcome {
            Some(Outcome::Rejected(it)) if number == 7 => {
                assert_eq!(it.reason(), proto::ErrorReason::Overloaded);
            }
            Some(Outcome::Complete(_)) if number != 7 => {}
            other => panic!("{number}: {other:?}"),
        }
    }
    other.execute("ROLLBACK").await.unwrap();
    server.client.complete(complete("m7", tokens[7])).await.unwrap();
    server.stop().await;
}

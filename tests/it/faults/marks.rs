//! The mark of a superseded Complete that cannot be written: the answer is LEASE_LOST all the same.

use std::sync::atomic::Ordering;

use idempotency_ledger::domain::{Key, Span};
use idempotency_ledger::proto;
use sqlx::Executor as _;

use super::{complete, delivery, server};
use crate::harness::details::{acquired, refusal};
use crate::harness::faulty::Inject;
use crate::harness::on_both_stores;
use crate::harness::postgres as pg;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(
    a_mark_that_cannot_be_written_changes_nothing_of_the_answer,
    a_mark_that_loses_a_race_is_written_again,
    a_second_report_whose_answer_is_lost_is_counted_once,
);

const DOUBLED: &str = "idempotency_ledger_doubled_effects_total{consumer=\"c\"}";

async fn two_holders(server: &mut TestServer, id: &str) -> (i64, i64) {
    let first = granted(server, id, 1).await;
    server.advance(Span::from_secs(60)).await;
    (first, granted(server, id, 2).await)
}

/// The store may have been away a moment ago.
async fn granted(server: &mut TestServer, id: &str, number: u128) -> i64 {
    loop {
        match server.client.claim(delivery(id, number)).await {
            Ok(answer) => return acquired(&answer.into_inner()).token,
            Err(status) => assert_eq!(refusal(&status).reason, "STORE_UNAVAILABLE", "{id}"),
        }
        tokio::task::yield_now().await;
    }
}

async fn refused(server: &mut TestServer, id: &str, token: i64) -> (String, String) {
    let refused = refusal(&server.client.complete(complete(id, token)).await.unwrap_err());
    (refused.reason, refused.state)
}

async fn marks(server: &TestServer, id: &str) -> i32 {
    server.entry(&Key::new("c", "tests", id)).await.unwrap().superseded_completes
}

async fn a_mark_that_cannot_be_written_changes_nothing_of_the_answer(kind: Kind) {
    let (mut server, plan) = server(kind).await;
    // What becomes of the write of the mark, and whether it is there then.
    let faults =
        [(Inject::Unavailable, 0), (Inject::LostRequest, 0), (Inject::LostAnswer, 1), (Inject::Nothing, 1)];
    for (number, (fault, written)) in faults.into_iter().enumerate() {
        for sessions in [true, false] {
            let id = format!("{number} {sessions}");
            let (first, second) = two_holders(&mut server, &id).await;
            // First comes the guess that the claim is the latest, then the mark.
            plan.next([Inject::Nothing, fault]);
            plan.no_sessions.store(!sessions, Ordering::SeqCst);
            let said = refused(&mut server, &id, first).await;
            plan.no_sessions.store(false, Ordering::SeqCst);
            assert_eq!(said, ("LEASE_LOST".into(), "IN_PROGRESS".into()), "{id} {fault:?}");
            let done = loop {
                match server.client.complete(complete(&id, second)).await {
                    Ok(done) => break done.into_inner(),
                    Err(status) => assert_eq!(refusal(&status).reason, "STORE_UNAVAILABLE", "{id}"),
                }
                tokio::task::yield_now().await;
            };
            assert!(!done.replayed, "{id}");
            assert_eq!(marks(&server, &id).await, written, "{id} {fault:?}");
        }
    }
    server.stop().await;
}

async fn a_mark_that_loses_a_race_is_written_again(kind: Kind) {
    let (mut server, plan) = server(kind).await;
    for losses in [1, 5, 40] {
        let id = losses.to_string();
        let (first, _) = two_holders(&mut server, &id).await;
        plan.next([Inject::Nothing]);
        plan.next(std::iter::repeat_n(Inject::Conflict, losses));
        assert_eq!(refused(&mut server, &id, first).await.0, "LEASE_LOST", "{losses}");
        // Beyond the bound of races it is given up, and the answer stays.
        assert_eq!(marks(&server, &id).await, i32::from(losses < 40), "{losses}");
        plan.clear();
    }
    server.stop().await;
}

/// The second try of a Complete finds it done, and stands for the first one.
async fn a_second_report_whose_answer_is_lost_is_counted_once(kind: Kind) {
    let (mut server, plan) = server(kind).await;
    let (first, second) = two_holders(&mut server, "1").await;
    assert_eq!(refused(&mut server, "1", first).await.0, "LEASE_LOST");
    plan.next([Inject::LostAnswer]);
    assert!(server.client.complete(complete("1", second)).await.unwrap().into_inner().replayed);
    assert_eq!(server.metric(DOUBLED), Some(1.0));
    assert!(server.client.complete(complete("1", second)).await.unwrap().into_inner().replayed);
    assert_eq!(server.metric(DOUBLED), Some(1.0), "the caller repeats itself");
    server.stop().await;
}

/// Another session's open transaction on the row: a Complete that ends a claim would wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_does_not_wait_for_a_locked_row() {
    let (mut server, _) = server(Kind::Postgres).await;
    let (first, second) = two_holders(&mut server, "1").await;
    let mut other = pg::shared().connect(server.at.database.as_ref().unwrap()).await;
    other.execute("BEGIN").await.unwrap();
    other.execute("SELECT 1 FROM ledger.entries WHERE id = '1' FOR UPDATE").await.unwrap();
    let mut request = tonic::Request::new(complete("1", first));
    request.set_timeout(std::time::Duration::from_secs(20));
    let refused = refusal(&server.client.complete(request).await.unwrap_err());
    assert_eq!(refused.reason, "LEASE_LOST");
    other.execute("ROLLBACK").await.unwrap();
    assert_eq!(marks(&server, "1").await, 0, "it is lost");
    let done: proto::CompleteResponse =
        server.client.complete(complete("1", second)).await.unwrap().into_inner();
    assert!(!done.replayed);
    server.stop().await;
}

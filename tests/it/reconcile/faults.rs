//! Reconciling while answers are lost, the clock is wrong, a row is locked, or a claim comes in between.

use std::sync::Arc;

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::{self, EffectEvidence, ReconcileOutcome, ReconcileResult};
use sqlx::Executor as _;

use super::{answered, entry, events, reconciled, request, row};
use crate::harness::details::{acquired, claim, refusal};
use crate::harness::faulty::{FaultyStore, Inject, Plan};
use crate::harness::on_both_stores;
use crate::harness::postgres as pg;
use crate::harness::server::{Kind, Served, Setup, TestServer, TestStore, replica};

on_both_stores!(
    a_second_try_answers_what_the_first_one_has_done,
    a_request_that_is_repeated_after_an_unknown_outcome_is_known,
    doubled_effect_whose_outcome_is_unknown_is_alerted_once,
    a_wrong_clock_refuses_the_whole_request,
    requests_that_race_bring_an_effect_in_once,
);

async fn faulty(kind: Kind) -> (TestServer, Arc<Plan>) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    (TestServer::on(at, Setup::default()).await, plan)
}

fn outcomes(results: &[ReconcileResult]) -> Vec<ReconcileOutcome> {
    results.iter().map(ReconcileResult::outcome).collect()
}

async fn a_second_try_answers_what_the_first_one_has_done(kind: Kind) {
    let (server, plan) = faulty(kind).await;
    let rows = vec![row("1", EffectEvidence::Spool), row("2", EffectEvidence::SpoolUnfinished)];
    let expected = [ReconcileOutcome::Completed, ReconcileOutcome::Parked];
    plan.next([Inject::LostAnswer]);
    assert_eq!(outcomes(&answered(&server, request(rows.clone())).await.unwrap()), expected);
    assert_eq!(events(&server).await.len(), 2);
    // The effect of one message twice: the alert is not lost with the answer, nor raised twice.
    let again = proto::ReconcileRow {
        result: b"R".to_vec().into(),
        at: super::instant(super::AT + Span(7)),
        ..rows[0].clone()
    };
    plan.next([Inject::LostAnswer]);
    assert_eq!(reconciled(&server, again).await, ReconcileOutcome::Doubled);
    let series = "idempotency_ledger_doubled_effects_total{consumer=\"c\"}";
    assert_eq!((server.metric(series), events(&server).await.len()), (Some(1.0), 3));
    // Nothing was written the first time: it is decided again.
    plan.next([Inject::LostRequest]);
    assert_eq!(reconciled(&server, row("3", EffectEvidence::Guard)).await, ReconcileOutcome::Completed);
    server.stop().await;
}

async fn a_request_that_is_repeated_after_an_unknown_outcome_is_known(kind: Kind) {
    let (server, plan) = faulty(kind).await;
    let rows = || vec![row("1", EffectEvidence::Spool), row("2", EffectEvidence::Guard)];
    // The server tries again by itself: both tries must break.
    plan.next([Inject::LostRequest, Inject::LostAnswer]);
    let refused = answered(&server, request(rows())).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "OUTCOME_UNKNOWN");
    let results = answered(&server, request(rows())).await.unwrap();
    assert_eq!(outcomes(&results), [ReconcileOutcome::Known; 2]);
    plan.next([Inject::LostRequest; 2]);
    let refused = answered(&server, request(vec![row("3", EffectEvidence::Guard)])).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "OUTCOME_UNKNOWN");
    assert_eq!(reconciled(&server, row("3", EffectEvidence::Guard)).await, ReconcileOutcome::Completed);
    server.stop().await;
}

/// The repeat is answered KNOWN, without an alert: so the alert must not wait for a certain outcome.
async fn doubled_effect_whose_outcome_is_unknown_is_alerted_once(kind: Kind) {
    let (server, plan) = faulty(kind).await;
    let first = row("1", EffectEvidence::Spool);
    assert_eq!(reconciled(&server, first.clone()).await, ReconcileOutcome::Completed);
    let second = proto::ReconcileRow { at: super::instant(super::AT + Span(7)), ..first };
    plan.next([Inject::LostRequest, Inject::LostAnswer]);
    let refused = answered(&server, request(vec![second.clone()])).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "OUTCOME_UNKNOWN");
    let series = "idempotency_ledger_doubled_effects_total{consumer=\"c\"}";
    assert_eq!(server.metric(series), Some(1.0));
    assert_eq!(reconciled(&server, second).await, ReconcileOutcome::Known);
    assert_eq!(server.metric(series), Some(1.0));
    server.stop().await;
}

/// By a wrong clock a lease may seem over that is not.
async fn a_wrong_clock_refuses_the_whole_request(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    acquired(&server.client.claim(claim("c", "held")).await.unwrap().into_inner());
    server.at.session().await.upkeep().write_heartbeat(&replica(1)).await.unwrap();
    server.advance(Span::from_secs(-3_600)).await;
    let rows = || vec![row("held", EffectEvidence::Spool), row("new", EffectEvidence::Spool)];
    for dry_run in [true, false] {
        let request = proto::ReconcileEntriesRequest { dry_run, ..request(rows()) };
        let refused = answered(&server, request).await.unwrap_err();
        assert_eq!(refusal(&refused).reason, "STORE_CLOCK_BEHIND");
    }
    assert!(entry(&server, "new").await.is_none() && events(&server).await.is_empty());
    server.advance(Span::from_secs(3_601)).await;
    let results = answered(&server, request(rows())).await.unwrap();
    assert_eq!(outcomes(&results), [ReconcileOutcome::NotNow, ReconcileOutcome::Completed]);
    server.stop().await;
}

/// Of two servers, and of many requests of each: one of them brings the effect in.
async fn requests_that_race_bring_an_effect_in_once(kind: Kind) {
    let server = TestServer::start(kind).await;
    let second = Served::start(Arc::clone(&server.at.store), Setup::default()).await;
    for round in 0..10 {
        let row = || row(&format!("r{round}"), EffectEvidence::Spool);
        let asked = (0..6).map(|number| {
            let mut admin = if number % 2 == 0 { server.admin.clone() } else { second.admin.clone() };
            async move {
                admin.reconcile_entries(request(vec![row()])).await.unwrap().into_inner().results.remove(0)
            }
        });
        let results = futures_util::future::join_all(asked).await;
        let of = |outcome| results.iter().filter(|result| result.outcome() == outcome).count();
        let found = (of(ReconcileOutcome::Completed), of(ReconcileOutcome::Known));
        assert_eq!(found, (1, 5), "{results:?}");
    }
    assert_eq!(events(&server).await.len(), 10);
    second.stop().await;
    server.stop().await;
}

async fn begin(server: &TestServer, statement: &str) -> sqlx::PgConnection {
    let database = server.at.database.clone().unwrap();
    let mut other = pg::shared().connect(&database).await;
    other.execute("BEGIN").await.unwrap();
    other.execute(sqlx::AssertSqlSafe(statement.to_owned())).await.unwrap();
    other
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_row_is_refused_alone() {
    let mut server = TestServer::start(Kind::Postgres).await;
    super::meet(&mut server).await;
    let other = begin(&server, "SELECT 1 FROM ledger.entries WHERE id = 'parked' FOR UPDATE").await;
    let rows = || ["absent", "parked", "retryable"].map(|id| row(id, EffectEvidence::Spool)).to_vec();
    let results = answered(&server, request(rows())).await.unwrap();
    let rejected = results[1].rejected.as_ref().unwrap();
    assert_eq!(rejected.reason(), proto::ErrorReason::Overloaded);
    let expected = [ReconcileOutcome::Completed, ReconcileOutcome::Unspecified, ReconcileOutcome::Resolved];
    assert_eq!(outcomes(&results), expected);
    sqlx::Connection::close(other).await.unwrap();
    let results = answered(&server, request(rows())).await.unwrap();
    let expected = [ReconcileOutcome::Known, ReconcileOutcome::Resolved, ReconcileOutcome::Known];
    assert_eq!(outcomes(&results), expected);
    server.stop().await;
}

/// The row waits for a writer, and is then decided on what that one has left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_was_changed_in_between_is_decided_again() {
    let mut server = TestServer::start(Kind::Postgres).await;
    super::meet(&mut server).await;
    let database = server.at.database.clone().unwrap();
    let before = entry(&server, "retryable").await.unwrap();
    let given_up = "UPDATE ledger.entries SET version = version + 1, state = 5, closed_by = 3, attention = 5 \
                    WHERE id = 'retryable'";
    let mut other = begin(&server, given_up).await;
    let asked = reconciled(&server, row("retryable", EffectEvidence::Spool));
    let commit = async {
        pg::somebody_waits(&database).await;
        other.execute("COMMIT").await.unwrap();
    };
    let (outcome, ()) = tokio::join!(asked, commit);
    assert_eq!(outcome, ReconcileOutcome::Contradicts);
    assert_eq!(entry(&server, "retryable").await.unwrap().version, before.version + 1);
    assert!(events(&server).await.is_empty(), "no event of what was not written");
    server.stop().await;
}

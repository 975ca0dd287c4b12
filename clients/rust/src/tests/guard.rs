use sqlx::{Connection, SqliteConnection};

use super::world::{Script, acquired, completed, failed, grant};
use crate::{Advice, Key, Ledger, Outcome, Steer, guard, proto as pb};

async fn guarded(ledger: &Ledger, mut connection: SqliteConnection) -> Outcome {
    let delivery = ledger.process(Key::of("shop", "1"), async move |claim| {
        guard::once(&mut connection, &claim, async |_| Ok("receipt")).await
    });
    delivery.await.unwrap()
}

async fn connection() -> SqliteConnection {
    SqliteConnection::connect("sqlite::memory:").await.unwrap()
}

#[tokio::test]
async fn missing_table_of_the_guard_is_named_and_logged() {
    let ledger = Script::of([grant(acquired())]).ledger();
    let outcome = guarded(&ledger, connection().await).await;
    let reason = outcome.reason.unwrap();
    assert!(matches!(outcome.advice, Advice::RetryLater { .. }) && outcome.effect_unknown);
    assert!(reason.starts_with("the database has no table effect_guard; run "), "{reason}");
    assert_eq!(ledger.inner.report.due(&reason), None, "it was not logged");
}

#[tokio::test]
async fn error_of_the_effect_is_a_retry_that_is_logged_by_its_type() {
    let ledger = Script::of([grant(acquired()), failed(pb::Advice::RetryLater)]).ledger();
    let mut connection = connection().await;
    sqlx::raw_sql(guard::SQLITE_TABLE).execute(&mut connection).await.unwrap();
    let delivery = ledger.process(Key::of("shop", "1"), async move |claim| {
        guard::once(&mut connection, &claim, async |_| Ok("4111 x".parse::<u64>()?.to_string())).await
    });
    let outcome = delivery.await.unwrap();
    assert_eq!(outcome.reason.as_deref(), Some("ParseIntError"));
    assert_eq!(ledger.inner.report.due("the effect ended with ParseIntError"), None, "it was not logged");
}

#[tokio::test]
async fn retry_of_the_application_within_a_guard_is_not_logged() {
    let ledger = Script::of([grant(acquired()), failed(pb::Advice::RetryLater)]).ledger();
    let mut connection = connection().await;
    sqlx::raw_sql(guard::SQLITE_TABLE).execute(&mut connection).await.unwrap();
    let delivery = ledger.process(Key::of("shop", "1"), async move |claim| {
        guard::once(&mut connection, &claim, async |_| Err::<&str, _>(Steer::retry())).await
    });
    assert_eq!(delivery.await.unwrap().reason.as_deref(), Some("Retry"));
    assert_eq!(ledger.inner.report.due("Retry"), Some(0));
}

#[tokio::test]
async fn guarded_effect_has_its_result() {
    let ledger = Script::of([grant(acquired()), completed()]).ledger();
    let mut connection = connection().await;
    sqlx::raw_sql(guard::SQLITE_TABLE).execute(&mut connection).await.unwrap();
    let outcome = guarded(&ledger, connection).await;
    assert_eq!((outcome.advice, outcome.result.as_deref()), (Advice::Ack, Some(&b"receipt"[..])));
}

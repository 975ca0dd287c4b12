//! A statement of `SQLite` that goes together with its transaction: what it takes for granted, and what is left of it
//! when it fails.

use bytes::Bytes;
use idempotency_ledger::domain::{Entry, Policy, Span, StoreTime, Terms};
use idempotency_ledger::store::{Completion, Fault, Session, StoreError};
use sqlx::{AssertSqlSafe, Executor as _, SqliteConnection, raw_sql};

use super::{claim, granted, insert, load, next};
use crate::harness::server::{Kind, START, TestStore};

/// The row of a first grant, for the statement to stamp.
fn unstamped(id: &str) -> Entry {
    granted(id, START).stamped(StoreTime(-START.micros()), -START.micros())
}

async fn change(connection: &mut SqliteConnection, text: &str) {
    connection.execute(raw_sql(AssertSqlSafe(text))).await.unwrap();
}

/// A session that has learnt the names in rows, and has looked at `meta`.
async fn at_work(at: &TestStore) -> Box<dyn Session> {
    let mut session = at.session().await;
    insert(&mut *session, &granted("known", START)).await;
    session
}

#[tokio::test]
async fn an_offset_that_was_raised_meanwhile_is_in_the_token() {
    const RAISED: i64 = 60_000_000;
    let at = TestStore::new(Kind::Sqlite).await;
    let mut session = at_work(&at).await;
    change(&mut at.sqlite().await, &format!("UPDATE meta SET token_offset = {RAISED}")).await;
    let inserted = session.entries().insert(&[unstamped("new")], StoreTime::MAX).await.unwrap();
    let token = granted("new", START).token + RAISED;
    assert_eq!(inserted.tokens(), [Some(token)]);
    assert_eq!(load(&mut *session, "new").await.unwrap().token, token);
}

#[tokio::test]
async fn nothing_is_granted_below_a_mark_that_was_raised_meanwhile() {
    let at = TestStore::new(Kind::Sqlite).await;
    let mut session = at_work(&at).await;
    let mark = (START + Span::from_secs(60)).micros();
    change(&mut at.sqlite().await, &format!("UPDATE meta SET clock_mark = {mark}")).await;
    let inserted = session.entries().insert(&[unstamped("new")], StoreTime::MAX).await;
    assert!(matches!(inserted, Err(StoreError::NotApplied(Fault::ClockBehind))), "{inserted:?}");
    assert_eq!(load(&mut *session, "new").await, None);
}

/// Another binary may have raised them since this one looked.
#[tokio::test]
async fn nothing_is_done_where_the_schema_serves_this_binary_no_more() {
    let at = TestStore::new(Kind::Sqlite).await;
    let mut session = at_work(&at).await;
    let mut other = at.sqlite().await;
    let known = load(&mut *session, "known").await.unwrap();
    for column in ["serves_from", "level"] {
        for statement in ["load", "insert", "complete", "replace"] {
            change(&mut other, &format!("UPDATE meta SET {column} = {column} + 1000")).await;
            let entries = session.entries();
            let done = match statement {
                "load" => entries.load(std::slice::from_ref(&known.key)).await.map(drop),
                "insert" => entries.insert(&[unstamped("new")], StoreTime::MAX).await.map(drop),
                "complete" => entries.complete(&[completion(&known)]).await.map(drop),
                _ => {
                    entries.replace(&[next(&known, &claim(2), START + Span::from_secs(600))]).await.map(drop)
                }
            };
            assert!(
                matches!(done, Err(StoreError::NotApplied(Fault::Outdated(_)))),
                "{statement}, {column}: {done:?}"
            );
            change(&mut other, &format!("UPDATE meta SET {column} = {column} - 1000")).await;
            // It is looked at again, too.
            assert_eq!(load(&mut *session, "known").await.as_ref(), Some(&known), "{statement}, {column}");
            assert_eq!(load(&mut *session, "new").await, None, "{statement}, {column}");
        }
    }
}

fn completion(entry: &Entry) -> Completion {
    Completion {
        key: entry.key.clone(),
        token: entry.token,
        result: Bytes::new(),
        terms: Terms::of(&Policy::default()),
        result_dropped: false,
    }
}

/// A row of a batch fails when the one before it is written, or the commit does: nothing is left of either, and what
/// is told of it is not more than what is certain.
#[tokio::test]
async fn of_a_statement_that_fails_nothing_is_left() {
    const ROW: &str = "CREATE TRIGGER trouble AFTER INSERT ON entries WHEN new.id = 'bad'
        BEGIN SELECT RAISE(FAIL, 'trouble'); END";
    const COMMIT: &str = "CREATE TABLE parent (no integer PRIMARY KEY);
        CREATE TABLE child (no integer REFERENCES parent (no) DEFERRABLE INITIALLY DEFERRED);
        CREATE TRIGGER trouble AFTER INSERT ON entries WHEN new.id = 'bad' BEGIN INSERT INTO child VALUES (1); END";
    for (fails, is_certain) in [(ROW, true), (COMMIT, false)] {
        for is_at_work in [false, true] {
            let at = TestStore::new(Kind::Sqlite).await;
            let mut session = if is_at_work { at_work(&at).await } else { at.session().await };
            let mut other = at.sqlite().await;
            change(&mut other, fails).await;
            let batch = ["before", "bad", "after"];
            let rows = batch.map(unstamped);
            let inserted = session.entries().insert(&rows, StoreTime::MAX).await;
            match inserted {
                Err(StoreError::NotApplied(Fault::Permanent(_))) if is_certain => {}
                Err(StoreError::Unknown(_)) if !is_certain => {}
                other => panic!("{fails}: {other:?}"),
            }
            change(&mut other, "DROP TRIGGER trouble").await;
            for id in batch {
                assert_eq!(load(&mut *session, id).await, None, "{fails}: {id}");
            }
            let inserted = session.entries().insert(&rows, StoreTime::MAX).await.unwrap();
            let tokens = batch.map(|id| Some(granted(id, START).token));
            assert_eq!(inserted.tokens(), tokens, "{fails}");
        }
    }
}

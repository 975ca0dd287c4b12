//! The statements themselves: each can be prepared, and the hot ones read no more than their rows.

use bytes::Bytes;
use idempotency_ledger::domain::{Entry, Key, Policy, Span, Terms};
use idempotency_ledger::store::{Completion, Found};
use sqlx::{Column as _, Connection as _, Executor as _, Row as _, SqlSafeStr as _, Statement as _};

use super::{claim, granted, next};
use crate::harness::postgres as pg;
use crate::harness::server::{Kind, START, TestStore, put_new};

#[tokio::test]
async fn every_statement_of_postgres_can_be_prepared_and_has_a_name() {
    let at = TestStore::new(Kind::Postgres).await;
    let mut connection = pg::shared().connect(at.database.as_ref().unwrap()).await;
    for statement in idempotency_ledger::store::POSTGRES_STATEMENTS.iter().copied() {
        assert!(statement.starts_with("-- ledger."), "{statement}");
        connection.prepare(sqlx::AssertSqlSafe(statement).into_sql_str()).await.unwrap();
    }
}

#[tokio::test]
async fn every_statement_of_sqlite_can_be_prepared_and_has_a_name() {
    let at = TestStore::new(Kind::Sqlite).await;
    let mut connection = at.sqlite().await;
    for statement in idempotency_ledger::store::SQLITE_STATEMENTS.iter().copied() {
        assert!(statement.starts_with("-- ledger."), "{statement}");
        connection.prepare(sqlx::AssertSqlSafe(statement).into_sql_str()).await.unwrap();
    }
}

/// Rows are read by position: whatever else a statement tells, the columns of an entry stand side by side, in the
/// order of all others.
#[tokio::test]
async fn entries_come_with_their_columns_in_one_order() {
    let (postgres, sqlite) = (TestStore::new(Kind::Postgres).await, TestStore::new(Kind::Sqlite).await);
    let mut all = Vec::new();
    let mut connection = pg::shared().connect(postgres.database.as_ref().unwrap()).await;
    for statement in idempotency_ledger::store::POSTGRES_STATEMENTS.iter().copied() {
        let prepared = connection.prepare(sqlx::AssertSqlSafe(statement).into_sql_str()).await.unwrap();
        all.push(prepared.columns().iter().map(|column| column.name().to_owned()).collect::<Vec<_>>());
    }
    let mut connection = sqlite.sqlite().await;
    for statement in idempotency_ledger::store::SQLITE_STATEMENTS.iter().copied() {
        let prepared = connection.prepare(sqlx::AssertSqlSafe(statement).into_sql_str()).await.unwrap();
        all.push(prepared.columns().iter().map(|column| column.name().to_owned()).collect());
    }
    all.retain(|names| names.iter().any(|name| name == "checkpoint"));
    assert!(all.len() >= 10, "{} statements tell of entries", all.len());
    let entry = |names: &[String]| {
        let first = names.iter().position(|name| name == "key").unwrap();
        assert_eq!(names.iter().filter(|name| *name == "key").count(), 1, "{names:?}");
        let last = names.iter().rposition(|name| name == "checkpoint").unwrap();
        names[first..=last].to_vec()
    };
    let of_a_load = entry(&all[0]);
    for names in &all {
        assert_eq!(entry(names), of_a_load);
    }
}

/// On a table that was never analysed and holds many rows of one consumer, the hot statements read
/// their rows by key.
#[tokio::test]
async fn the_plans_of_the_hot_statements_are_pinned() {
    let at = TestStore::new(Kind::Postgres).await;
    let database = at.database.clone().unwrap();
    let mut session = at.session().await;
    for part in 0..10 {
        let mut rows: Vec<Entry> =
            (0..500).map(|number| granted(&format!("m{part}-{number}"), START)).collect();
        rows.sort_by_key(|row| row.key.hash());
        put_new(&mut *session, START, &rows).await;
    }
    let scans = async |database: &str| -> (i64, i64) {
        let mut connection = pg::shared().connect(database).await;
        // Statistics reach the view when their backend has been idle for a moment.
        tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
        let row =
            sqlx::query("SELECT seq_scan, seq_tup_read FROM pg_stat_user_tables WHERE relname = 'entries'")
                .fetch_one(&mut connection)
                .await
                .unwrap();
        connection.close().await.unwrap();
        (row.get(0), row.get(1))
    };
    let before = scans(&database).await;
    let mut keys: Vec<Key> =
        (0..500).map(|number| Key::new("stores", "tests", &format!("m3-{number}"))).collect();
    keys.sort_by_key(Key::hash);
    let loaded = session.entries().load(&keys).await.unwrap();
    let entries: Vec<Entry> = loaded
        .found
        .into_iter()
        .map(|found| match found {
            Found::Entry(entry) => next(&entry, &claim(2), START + Span::from_secs(60)),
            Found::Absent | Found::Collision | Found::Unreadable(_) => panic!("{found:?}"),
        })
        .collect();
    assert!(session.entries().replace(&entries).await.unwrap().iter().all(|done| *done));
    let completions: Vec<Completion> = entries
        .iter()
        .map(|entry| Completion {
            key: entry.key.clone(),
            token: entry.token,
            result: Bytes::new(),
            terms: Terms::of(&Policy::default()),
            result_dropped: false,
        })
        .collect();
    assert!(session.entries().complete(&completions).await.unwrap().iter().all(Option::is_some));
    assert_eq!(scans(&database).await, before, "a hot statement read the whole table");
}

/// A completion touches no index: the claims that operators must find enter theirs only when they are old, or
/// were changed.
#[tokio::test]
async fn completions_are_heap_only_updates() {
    let at = TestStore::new(Kind::Postgres).await;
    let database = at.database.clone().unwrap();
    let mut session = at.session().await;
    for part in 0..10 {
        let mut rows: Vec<Entry> =
            (0..500).map(|number| granted(&format!("m{part}-{number}"), START)).collect();
        rows.sort_by_key(|row| row.key.hash());
        put_new(&mut *session, START, &rows).await;
        let completions: Vec<Completion> = rows
            .iter()
            .map(|row| Completion {
                key: row.key.clone(),
                token: row.token,
                result: Bytes::from_static(b"done"),
                terms: Terms::of(&Policy::default()),
                result_dropped: false,
            })
            .collect();
        assert!(session.entries().complete(&completions).await.unwrap().iter().all(Option::is_some));
    }
    drop(session);
    let mut connection = pg::shared().connect(&database).await;
    let statement = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'entries'";
    let (updated, heap_only) = loop {
        // Statistics reach the view when their backend has been idle for a moment, or has gone.
        let row = sqlx::query(statement).fetch_one(&mut connection).await.unwrap();
        let (updated, heap_only): (i64, i64) = (row.get(0), row.get(1));
        if updated >= 5_000 {
            break (updated, heap_only);
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    connection.close().await.unwrap();
    assert!(heap_only * 100 >= updated * 90, "{heap_only} of {updated}");
}

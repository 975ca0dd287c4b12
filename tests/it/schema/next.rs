//! The schema of the next version: it comes while this version serves, which serves on, and starts on it. No
//! migration holds anybody up for long.

use std::time::Duration;

use idempotency_ledger::store::MigrationPace;
use idempotency_ledger::store::migrations::{POSTGRES, migration, postgres};
use sqlx::migrate::{Migration, Migrator};
use sqlx::{Executor as _, Row as _};
use tonic_health::pb::health_check_response::ServingStatus;

use super::load::{Load, Sum};
use super::{migrate, served};
use crate::harness::postgres as pg;
use crate::harness::server::postgres_store;
use crate::harness::timer::Timer;

/// By how much longer a call may take than the longest to a server whose schema does not change.
const HELD_UP_MAX: Duration = Duration::from_secs(1);

const COLUMN: &str =
    "ALTER TABLE ledger.entries ADD COLUMN next_place bigint, ADD COLUMN next_word text DEFAULT 'x'";
const INDEX: &str =
    "-- no-transaction\nCREATE INDEX CONCURRENTLY entries_next ON ledger.entries (next_place)";

/// The present migrations, and these.
fn with(more: &[(&'static str, &'static str)]) -> Migrator {
    let mut all: Vec<Migration> = POSTGRES.iter().cloned().collect();
    for ((name, text), version) in more.iter().zip(9_001..) {
        all.push(migration(version, name, text));
    }
    postgres(all)
}

fn pace(within: Duration) -> MigrationPace {
    MigrationPace { rest: Duration::from_millis(300), within, ..MigrationPace::default() }
}

/// A database of its own, at the present schema.
async fn database(name: &str) -> String {
    let cluster = tokio::task::spawn_blocking(pg::shared).await.unwrap();
    cluster.execute("postgres", &format!("CREATE DATABASE {name}")).await;
    let url = cluster.url(name);
    migrate(&url);
    url
}

/// No call is held up by the migration. The control is a server with another database of the same cluster, which answers the same
/// calls at the same time: the machine and the cluster delay it as much.
fn no_call_is_held_up(sum: &Sum, control: &Sum) {
    println!(
        "{} pairs; the longest call took {:?}, of the control {:?}",
        sum.pairs, sum.longest, control.longest
    );
    let bound = control.longest + HELD_UP_MAX;
    assert!(sum.longest < bound, "a call took {:?}, at most {bound:?} is allowed", sum.longest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_schema_comes_under_load_and_holds_nobody_up() {
    let url = database("next_load").await;
    let folder = tempfile::tempdir().unwrap();
    let server = served(&url, &[], &folder.path().join("log"));
    let unchanged = served(&database("next_load_control").await, &[], &folder.path().join("unchanged"));
    server.becomes(ServingStatus::Serving).await;
    unchanged.becomes(ServingStatus::Serving).await;
    let (load, control) =
        (Load::start(&server.client().await, 16), Load::start(&unchanged.client().await, 16));
    load.more(300).await;
    // Somebody else's transaction, with which the new column must wait.
    let mut other = pg::shared().connect("next_load").await;
    other.execute("BEGIN; LOCK TABLE ledger.entries IN ROW EXCLUSIVE MODE").await.unwrap();
    let store = postgres_store(&url);
    let next = with(&[("column", COLUMN), ("index", INDEX)]);
    let migrating =
        tokio::spawn(async move { store.migrate_by(&next, pace(Duration::from_secs(60))).await.unwrap() });
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!migrating.is_finished(), "the column did not wait");
    load.more(100).await;
    other.execute("COMMIT").await.unwrap();
    assert_eq!(migrating.await.unwrap(), 2);
    load.more(300).await;
    let late = served(&url, &[], &folder.path().join("late"));
    late.becomes(ServingStatus::Serving).await;
    let late_load = Load::start(&late.client().await, 2);
    late_load.more(20).await;
    let (sum, control, late_sum) = (load.end().await, control.end().await, late_load.end().await);
    assert_eq!(
        (sum.refused.len(), late_sum.refused.len()),
        (0, 0),
        "{:?} {:?}",
        sum.refused,
        late_sum.refused
    );
    no_call_is_held_up(&sum, &control);
    let valid = "SELECT i.indisvalid FROM pg_index i WHERE i.indexrelid = 'ledger.entries_next'::regclass";
    assert!(other.fetch_one(valid).await.unwrap().get::<bool, _>(0));
}

/// A lock that is never given, and a statement that takes for ever: neither holds anybody up, and `migrate` says so
/// when its time is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_cannot_come_gives_up_and_holds_nobody_up() {
    let url = database("next_never").await;
    let folder = tempfile::tempdir().unwrap();
    let server = served(&url, &[], &folder.path().join("log"));
    let unchanged = served(&database("next_never_control").await, &[], &folder.path().join("unchanged"));
    server.becomes(ServingStatus::Serving).await;
    unchanged.becomes(ServingStatus::Serving).await;
    let mut other = pg::shared().connect("next_never").await;
    let slow = "DO $$ BEGIN LOCK TABLE ledger.entries IN ACCESS EXCLUSIVE MODE; PERFORM pg_sleep(30); END $$";
    for (hold, text) in [("LOCK TABLE ledger.entries IN ROW EXCLUSIVE MODE", COLUMN), ("SELECT 1", slow)] {
        let (load, control) =
            (Load::start(&server.client().await, 8), Load::start(&unchanged.client().await, 8));
        load.more(50).await;
        other.execute(sqlx::AssertSqlSafe(format!("BEGIN; {hold}"))).await.unwrap();
        let timer = Timer::start();
        let (store, next) = (postgres_store(&url), with(&[("never", text)]));
        let said = store.migrate_by(&next, pace(Duration::from_secs(3))).await.unwrap_err().to_string();
        assert!(said.contains("9001") && said.contains("stands in its way"), "{said}");
        timer.within(Duration::from_secs(10), "a migration with three seconds for all its attempts");
        other.execute("ROLLBACK").await.unwrap();
        no_call_is_held_up(&load.end().await, &control.end().await);
        let columns = "SELECT count(*) FROM information_schema.columns WHERE column_name LIKE 'next%'
                       AND column_name <> 'next_at'";
        assert_eq!(other.fetch_one(columns).await.unwrap().get::<i64, _>(0), 0);
    }
}

/// An index that was built by half is built again, and not taken for a whole one.
#[tokio::test]
async fn a_half_built_index_is_built_again() {
    let url = database("next_half").await;
    let mut other = pg::shared().connect("next_half").await;
    other.execute("INSERT INTO ledger.sources VALUES (1, 'one'), (2, 'two')").await.unwrap();
    let text =
        "-- no-transaction\nCREATE UNIQUE INDEX CONCURRENTLY sources_next ON ledger.sources (length(name))";
    let store = postgres_store(&url);
    let next = with(&[("half", text)]);
    let mut valid = async || -> Option<bool> {
        let valid = "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                     WHERE c.relname = 'sources_next'";
        other.fetch_optional(valid).await.unwrap().map(|row| row.get(0))
    };
    assert!(store.migrate_by(&next, pace(Duration::from_secs(5))).await.is_err());
    assert_eq!(valid().await, Some(false));
    pg::shared().execute("next_half", "UPDATE ledger.sources SET name = 'three' WHERE no = 2").await;
    assert_eq!(store.migrate_by(&next, pace(Duration::from_secs(5))).await.unwrap(), 1);
    assert_eq!(valid().await, Some(true));
}

/// A migration that servers live through is one statement: several would hold their locks together for longer than
/// each of them may.
#[test]
fn every_migration_after_the_first_is_one_statement() {
    for one in POSTGRES.iter().filter(|one| one.version > 1) {
        let text: String = one.sql.as_str().lines().filter(|line| !line.starts_with("--")).collect();
        let outside: String = text.split("$$").step_by(2).collect();
        let statements = outside.split(';').filter(|statement| !statement.trim().is_empty()).count();
        assert_eq!(statements, 1, "{} has {statements}", one.description);
    }
}

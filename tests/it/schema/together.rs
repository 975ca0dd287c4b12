//! Several `migrate` at the same time, real processes: each ends well, and one of them does the work.

use std::process::{Command, Stdio};
use std::time::Duration;

use idempotency_ledger::store::migrations::POSTGRES;
use sqlx::{Connection as _, Row as _};

use super::{ended, migrate, run};
use crate::harness::postgres as pg;
use crate::harness::timer::Timer;
use crate::process::{BINARY, sqlite};

const AT_ONCE: usize = 4;
const ROUNDS: usize = 6;

/// What each of some that run at the same time says it applied.
fn together(url: &str) -> Vec<(bool, String)> {
    let one = || {
        let mut command = Command::new(BINARY);
        command.args(["migrate", "--database-url", url]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let all: Vec<_> = (0..AT_ONCE).map(|_| one()).collect();
    let ended = all.into_iter().map(|child| child.wait_with_output().unwrap());
    ended
        .map(|output| {
            let text = [output.stdout, output.stderr].concat();
            (output.status.success(), String::from_utf8_lossy(&text).into_owned())
        })
        .collect()
}

#[tokio::test]
async fn several_at_once_do_no_harm_on_postgres() {
    let cluster = tokio::task::spawn_blocking(pg::shared).await.unwrap();
    let count = POSTGRES.iter().count();
    for round in 0..ROUNDS {
        let name = format!("together_{round}");
        cluster.execute("postgres", &format!("CREATE DATABASE {name}")).await;
        let url = cluster.url(&name);
        let said = together(&url);
        assert!(said.iter().all(|(well, _)| *well), "{said:?}");
        let did = |number: usize| {
            said.iter().filter(|(_, text)| text.contains(&format!("migrations applied: {number},"))).count()
        };
        assert_eq!((did(count), did(0)), (1, AT_ONCE - 1), "{said:?}");
        let mut connection = cluster.connect(&name).await;
        let row =
            sqlx::query("SELECT count(*), count(DISTINCT version) FROM ledger.migrations WHERE success");
        let row = row.fetch_one(&mut connection).await.unwrap();
        let count = i64::try_from(count).unwrap();
        assert_eq!((row.get::<i64, _>(0), row.get::<i64, _>(1)), (count, count));
        let locks = sqlx::query_scalar::<_, i64>(
            "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
             WHERE l.locktype = 'advisory' AND d.datname = current_database()",
        );
        assert_eq!(locks.fetch_one(&mut connection).await.unwrap(), 0, "a lock was left behind");
        connection.close().await.unwrap();
    }
}

/// One process owns the file: the others say so, and change nothing.
#[tokio::test]
async fn several_at_once_do_no_harm_on_sqlite() {
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        let url = sqlite(folder.path());
        let said = together(&url);
        assert!(said.iter().any(|(well, _)| *well), "{said:?}");
        assert!(said.iter().all(|(well, text)| *well || text.contains("in use by another")), "{said:?}");
        let (text, code) = run(&["migrate", "--database-url", &url]);
        assert!(code == Some(0) && text.contains("migrations applied: 0,"), "{text}");
    }
}

/// The bookkeeping lies in the ledger's schema. What another application keeps in `public` by the same library,
/// under the same name, stays as it is.
#[tokio::test]
async fn public_belongs_to_others() {
    let cluster = tokio::task::spawn_blocking(pg::shared).await.unwrap();
    cluster.execute("postgres", "CREATE DATABASE beside_others").await;
    let theirs =
        "CREATE TABLE public._sqlx_migrations (version BIGINT PRIMARY KEY, description TEXT NOT NULL,
        installed_on TIMESTAMPTZ NOT NULL DEFAULT now(), success BOOLEAN NOT NULL, checksum BYTEA NOT NULL,
        execution_time BIGINT NOT NULL);
        INSERT INTO public._sqlx_migrations VALUES (20240101000000, 'theirs', now(), true, 'x', 1)";
    cluster.execute("beside_others", theirs).await;
    migrate(&cluster.url("beside_others"));
    let mut connection = cluster.connect("beside_others").await;
    let tables: Vec<String> =
        sqlx::query_scalar("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'")
            .fetch_all(&mut connection)
            .await
            .unwrap();
    assert_eq!(tables, ["_sqlx_migrations"]);
    let rows: Vec<i64> = sqlx::query_scalar("SELECT version FROM public._sqlx_migrations")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(rows, [20_240_101_000_000]);
}

/// Whoever waits holds no statement open: an index that is built concurrently would wait for it.
#[tokio::test]
async fn whoever_waits_for_another_is_idle_and_gives_up_in_time() {
    use idempotency_ledger::store::MigrationPace;
    let database = pg::database().await;
    let mut other = pg::shared().connect(&database).await;
    sqlx::query("SELECT pg_advisory_lock(1818584167, 1)").execute(&mut other).await.unwrap();
    let pace = MigrationPace {
        rest: Duration::from_millis(20),
        within: Duration::from_secs(1),
        ..MigrationPace::default()
    };
    let store = crate::harness::server::postgres_store(&pg::shared().url(&database));
    let timer = Timer::start();
    let waiting = tokio::spawn(async move { store.migrate_by(&POSTGRES, pace).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let active = sqlx::query_scalar::<_, i64>(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'idempotency-ledger migrate'
         AND datname = current_database() AND wait_event_type = 'Lock'",
    );
    assert_eq!(active.fetch_one(&mut other).await.unwrap(), 0, "it waits within a statement");
    let said = waiting.await.unwrap().unwrap_err().to_string();
    assert!(said.contains("another `migrate`"), "{said}");
    // It waits for one second.
    timer.within(Duration::from_secs(5), "the end of a migration that waits for another");
}

/// A transaction that is left open with a lock on `meta` keeps `migrate --accept-clock` for 5 s, and not for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accept_clock_behind_a_held_lock_ends_with_the_reason() {
    let cluster = pg::shared();
    cluster.execute("postgres", "CREATE DATABASE clock_behind_lock").await;
    let url = cluster.url("clock_behind_lock");
    migrate(&url);
    let mut holder = cluster.connect("clock_behind_lock").await;
    for statement in ["BEGIN", "UPDATE ledger.meta SET level = level"] {
        sqlx::raw_sql(statement).execute(&mut holder).await.unwrap();
    }
    let accept = ["migrate", "--accept-clock", "--database-url", &url];
    let mut child = Command::new(BINARY).args(accept).stderr(Stdio::piped()).spawn().unwrap();
    let code = ended(&mut child, Duration::from_secs(30)).await;
    let text = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert_eq!(code, Some(1), "{text}");
    for said in ["held a lock on ledger.meta for 5 s", "pg_stat_activity", "lock timeout:"] {
        assert!(text.contains(said), "must say {said:?}: {text}");
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    let (text, code) = run(&accept);
    assert_eq!(code, Some(0), "{text}");
}

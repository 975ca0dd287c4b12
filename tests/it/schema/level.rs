//! The store says which binaries it serves: from which schema on, and up to which feature. A server that is not
//! served any more writes nothing more, refuses, drains, and ends.

use std::time::Duration;

use idempotency_ledger::rpc::proto;
use idempotency_ledger::rpc::proto::admin_service_client::AdminServiceClient;
use sqlx::{Connection as _, Executor as _, Row as _};

use super::load::Load;
use super::{ended, migrate, run, served};
use crate::harness::details::refusal;
use crate::harness::postgres as pg;
use crate::process::sqlite;
use tonic_health::pb::health_check_response::ServingStatus;

/// A database behind the server's back.
enum Behind {
    Postgres(&'static str),
    Sqlite(String),
}

impl Behind {
    fn url(&self) -> String {
        match self {
            Behind::Postgres(database) => pg::shared().url(database),
            Behind::Sqlite(url) => url.clone(),
        }
    }

    /// `@` stands for the schema.
    async fn execute(&self, statement: &str) {
        match self {
            Behind::Postgres(database) => {
                pg::shared().execute(database, &statement.replace('@', "ledger.")).await
            }
            Behind::Sqlite(url) => {
                let mut connection = sqlx::SqliteConnection::connect(url).await.unwrap();
                connection.execute(sqlx::AssertSqlSafe(statement.replace('@', ""))).await.unwrap();
                connection.close().await.unwrap();
            }
        }
    }

    /// All that a server writes by itself or for others, as numbers that change with each write.
    async fn written(&self) -> Vec<i64> {
        let numbers = [
            "SELECT count(*) FROM @entries",
            "SELECT coalesce(max(updated_at), 0) FROM @entries",
            "SELECT coalesce(max(heard_at), 0) FROM @replicas",
            "SELECT clock_mark FROM @meta",
            "SELECT coalesce(max(last_run_at), 0) FROM @purges",
            "SELECT count(*) FROM @policies",
        ];
        let mut all = Vec::new();
        for number in numbers {
            all.push(match self {
                Behind::Postgres(database) => {
                    let mut connection = pg::shared().connect(database).await;
                    let number = sqlx::AssertSqlSafe(number.replace('@', "ledger."));
                    connection.fetch_one(number).await.unwrap().get(0)
                }
                Behind::Sqlite(url) => {
                    let mut connection = sqlx::SqliteConnection::connect(url).await.unwrap();
                    connection.fetch_one(sqlx::AssertSqlSafe(number.replace('@', ""))).await.unwrap().get(0)
                }
            });
        }
        all
    }
}

/// Whoever serves notices within a second or two, refuses, drains, and ends with the code that says why; whoever
/// starts is refused with the same one.
async fn outdated(store: Behind, raise: &str, says: &str) {
    let url = store.url();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    migrate(&url);
    let mut server = served(&url, &["--drain-wait", "3s", "--purge-every", "1s"], &log);
    server.becomes(ServingStatus::Serving).await;
    let load = Load::start(&server.client().await, 8);
    load.more(50).await;
    store.execute(raise).await;
    load.refused("STORE_UNAVAILABLE").await;
    let channel = server.channel().await.unwrap();
    // What was sent before has ended by now.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (before, pairs) = (store.written().await, load.pairs());
    let mut admin = AdminServiceClient::new(channel);
    let request = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: "late".into(),
        reason: "too late".into(),
        policy: Some(proto::Policy { max_attempts: Some(3), ..Default::default() }),
        ..Default::default()
    };
    let refused = refusal(&admin.set_policy(request).await.unwrap_err());
    assert_eq!((refused.reason.as_str(), refused.advice.as_str()), ("STORE_UNAVAILABLE", "RETRY_LATER"));
    assert_eq!(ended(&mut server.child, Duration::from_secs(20)).await, Some(8));
    assert_eq!((store.written().await, load.pairs()), (before, pairs), "something was written");
    let sum = load.end().await;
    let unexpected = |reason: &&String| !["STORE_UNAVAILABLE", "DRAINING", "GONE"].contains(&reason.as_str());
    assert_eq!(sum.refused.keys().find(unexpected), None, "{:?}", sum.refused);
    let text = std::fs::read_to_string(&log).unwrap();
    for word in ["this server is outdated", says, "the newer binary", "drained"] {
        assert!(text.contains(word), "the log must say {word:?}: {text}");
    }
    let (text, code) = run(&["serve", "--listen", "127.0.0.1:0", "--database-url", &url]);
    assert_eq!(code, Some(8), "{text}");
    assert!(text.contains("database_url") && text.contains(says), "{text}");
}

async fn postgres(database: &'static str) -> Behind {
    let cluster = tokio::task::spawn_blocking(pg::shared).await.unwrap();
    cluster.execute("postgres", &format!("CREATE DATABASE {database}")).await;
    Behind::Postgres(database)
}

const LEVEL: &str = "UPDATE @meta SET level = level + 1";
const SERVES_FROM: &str = "UPDATE @meta SET serves_from = 9999";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_meets_a_newer_feature_ends_on_postgres() {
    outdated(postgres("level_raised").await, LEVEL, "features up to number 2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_meets_a_newer_feature_ends_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    outdated(Behind::Sqlite(sqlite(folder.path())), LEVEL, "features up to number 2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_the_schema_does_not_serve_any_more_ends() {
    outdated(postgres("level_schema").await, SERVES_FROM, "serves binaries of schema version 9999").await;
}

/// Where the heartbeat stands still, claims do not go on for longer than by policies that cannot be read: the
/// reading that renews the trust in them sees the level too.
#[tokio::test]
async fn what_is_granted_by_policies_that_were_read_again_sees_the_level() {
    use crate::harness::server::{Kind, TestStore};
    for kind in [Kind::Postgres, Kind::Sqlite] {
        let at = TestStore::new(kind).await;
        let mut session = at.session().await;
        session.policy_book().policy_epoch().await.unwrap();
        at.execute("UPDATE @ledger.meta SET level = level + 1").await;
        let said = session.policy_book().policy_epoch().await.unwrap_err().to_string();
        assert!(said.contains("newer binary"), "{kind:?}: {said}");
        let Err(said) = at.store.open(idempotency_ledger::store::Purpose::Claims).await else {
            panic!("{kind:?}: a session was opened");
        };
        assert!(said.to_string().contains("newer binary"), "{kind:?}: {said}");
    }
}

/// A binary from before a schema that serves it starts on it, and goes on: on both stores, and `migrate` has
/// nothing to do there.
#[tokio::test]
async fn a_newer_schema_that_serves_this_binary_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let stores = [Behind::Sqlite(sqlite(folder.path())), postgres("level_newer").await];
    for store in stores {
        let url = store.url();
        migrate(&url);
        let bytes = if matches!(store, Behind::Sqlite(_)) { "x''" } else { "''::bytea" };
        let newer = format!(
            "INSERT INTO @migrations (version, description, success, checksum, execution_time)
             VALUES (9999, 'of a newer binary', true, {bytes}, 0)"
        );
        store.execute(&newer).await;
        let (text, code) = run(&["migrate", "--database-url", &url]);
        assert!(code == Some(0) && text.contains("migrations applied: 0,"), "{code:?} {text}");
        let server = served(&url, &[], &folder.path().join("log"));
        server.becomes(ServingStatus::Serving).await;
        let load = Load::start(&server.client().await, 2);
        load.more(20).await;
        assert_eq!(load.end().await.refused.len(), 0);
    }
}

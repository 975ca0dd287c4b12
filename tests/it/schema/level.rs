//! The store says which binaries it serves: from which schema on, and up to which feature. A server that is not
//! served any more writes nothing more, refuses, drains, and ends.

use std::process::{self, Stdio};
use std::time::Duration;

use bytes::Bytes;
use idempotency_ledger::domain::{
    AuditEvent, Claim, Claimant, Command, Context, Key, Policy, RequestDigest, Span, StoreTime, decide,
};
use idempotency_ledger::proto;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::store::{Completion, Fault, LEVEL, Purpose, StoreError, Write, WriteResult};
use sqlx::{Connection as _, Executor as _, Row as _};
use uuid::Uuid;

use super::load::Load;
use super::{ended, migrate, run, served};
use crate::harness::details::{acquired, claim, refusal};
use crate::harness::postgres as pg;
use crate::harness::server::{Kind, START, TestStore, put_new};
use crate::process::{BINARY, Server, sqlite};
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
    let text = crate::harness::log_file::settled(&log);
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

/// The first feature that this binary does not know.
const NEWER: i32 = LEVEL + 1;

fn raise() -> String {
    format!("UPDATE @meta SET level = {NEWER}")
}

fn says() -> String {
    format!("features up to number {NEWER}")
}
const SERVES_FROM: &str = "UPDATE @meta SET serves_from = 9999";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_meets_a_newer_feature_ends_on_postgres() {
    outdated(postgres("level_raised").await, &raise(), &says()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_meets_a_newer_feature_ends_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    outdated(Behind::Sqlite(sqlite(folder.path())), &raise(), &says()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_the_schema_does_not_serve_any_more_ends() {
    outdated(postgres("level_schema").await, SERVES_FROM, "serves binaries of schema version 9999").await;
}

/// Where the heartbeat stands still, claims do not go on for longer than by policies that cannot be read: the
/// reading that renews the trust in them sees the level too.
#[tokio::test]
async fn what_is_granted_by_policies_that_were_read_again_sees_the_level() {
    for kind in [Kind::Postgres, Kind::Sqlite] {
        let at = TestStore::new(kind).await;
        let mut session = at.session().await;
        session.policy_book().policy_epoch().await.unwrap();
        at.execute(&raise().replace('@', "@ledger.")).await;
        let said = session.policy_book().policy_epoch().await.unwrap_err().to_string();
        assert!(said.contains("newer binary"), "{kind:?}: {said}");
        let Err(said) = at.store.open(Purpose::Claims).await else {
            panic!("{kind:?}: a session was opened");
        };
        assert!(said.to_string().contains("newer binary"), "{kind:?}: {said}");
    }
}

/// However old the last reading of the level is: what would write an entry on Postgres writes nothing beyond it, in a
/// batch or alone, and says why at once or with the next look. (A file of SQLite has one server, which raises the level
/// itself.)
#[tokio::test]
async fn no_statement_writes_an_entry_beyond_the_level() {
    writes_nothing_after(&raise()).await;
}

#[tokio::test]
async fn no_statement_writes_an_entry_of_a_store_that_serves_newer_binaries() {
    writes_nothing_after(SERVES_FROM).await;
}

async fn writes_nothing_after(outdated: &str) {
    let at = TestStore::new(Kind::Postgres).await;
    let mut session = at.session().await;
    let first = |id: &str, now: StoreTime| {
        let context = Context {
            policy: &Policy::default(),
            now,
            token_offset: 0,
            position: 1,
            clock_behind: false,
            clock_before_release: false,
            clock_ahead: false,
        };
        let claimant = Claimant { claim_id: Uuid::from_u128(1), principal: "p".into(), owner: "o".into() };
        let (lease, fingerprint, occurred_at, traceparent) = (None, Bytes::new(), None, String::new());
        let claim = Command::Claim(Claim {
            claimant,
            lease,
            fingerprint,
            occurred_at,
            traceparent,
            handed_out: false,
        });
        decide(&Key::new("c", "s", id), None, &claim, &context).write.unwrap()
    };
    let mut rows = [first("1", START), first("2", START), first("3", START)];
    rows.sort_by_key(|row| row.key.hash());
    put_new(&mut *session, START, &rows).await;
    at.execute(&outdated.replace('@', "@ledger.")).await;
    let sum = "SELECT sum(hashtext(e::text)) FROM @entries e";
    let before = at.number(sum).await;
    let completions: Vec<Completion> = rows
        .iter()
        .map(|row| Completion {
            key: row.key.clone(),
            token: row.token,
            result: Bytes::from_static(b"done"),
            terms: row.terms(),
            result_dropped: false,
        })
        .collect();
    let mut changed = rows.clone();
    changed.iter_mut().for_each(|row| (row.version, row.attempts) = (row.version + 1, 9));
    let mut fresh = [first("4", StoreTime(0)), first("5", StoreTime(0))];
    fresh.sort_by_key(|row| row.key.hash());
    let entries = session.entries();
    for many in [1, 2] {
        let inserted = entries.insert(&fresh[..many], StoreTime::MAX).await;
        assert!(matches!(inserted, Err(StoreError::NotApplied(Fault::Outdated(_)))), "{inserted:?}");
        assert_eq!(entries.complete(&completions[..many]).await.unwrap(), vec![None; many]);
        assert_eq!(entries.replace(&changed[..many]).await.unwrap(), vec![false; many]);
        let keys: Vec<Key> = rows[..many].iter().map(|row| row.key.clone()).collect();
        let loaded = entries.load(&keys).await;
        assert!(matches!(loaded, Err(StoreError::NotApplied(Fault::Outdated(_)))), "{loaded:?}");
    }
    at.set_clock(START + Span::from_days(1)).await;
    let delete = Write::Delete(rows[0].key.hash(), rows[0].version);
    let event = AuditEvent {
        request_id: "late".into(),
        at: START,
        actor: "operator".into(),
        action: "DELETE".into(),
        consumer: "c".into(),
        key: None,
        reason: "too late".into(),
        before: None,
        after: None,
        digest: Some(RequestDigest::of("tests", b"late")),
    };
    assert_eq!(session.operators().change(&delete, &event).await.unwrap(), WriteResult::Lost);
    assert_eq!(at.number(sum).await, before, "an entry has changed");
    assert_eq!(at.number("SELECT count(*) FROM @ledger.audit").await, 0);
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

/// `migrate` of a binary that the store does not serve any more refuses too, on both stores.
#[tokio::test]
async fn migrate_of_a_store_that_serves_newer_binaries_exits_with_8() {
    let folder = tempfile::tempdir().unwrap();
    let stores = [Behind::Sqlite(sqlite(folder.path())), postgres("level_migrate").await];
    for store in stores {
        let url = store.url();
        migrate(&url);
        store.execute(SERVES_FROM).await;
        let (text, code) = run(&["migrate", "--database-url", &url]);
        assert!(code == Some(8) && text.contains("run the newer binary"), "{code:?} {text}");
    }
}

/// Entries under keys of another format would not be found: `migrate` and a server that migrates refuse them, and take a
/// store without any.
#[tokio::test]
async fn entries_under_keys_of_another_format_are_refused_on_both_stores() {
    let folder = tempfile::tempdir().unwrap();
    let stores = [Behind::Sqlite(sqlite(folder.path())), postgres("level_keys").await];
    for store in stores {
        let url = store.url();
        migrate(&url);
        let server = Server::with(process::Command::new(BINARY), &url, &[], Stdio::null()).await;
        acquired(&server.client().await.claim(claim("c", "order-1")).await.unwrap().into_inner());
        drop(server);
        // As the schema before had it.
        for statement in [
            "DELETE FROM @migrations WHERE version >= 7",
            "DROP INDEX @entries_due",
            "DROP INDEX @entries_erasable",
            "ALTER TABLE @entries DROP COLUMN next_at",
            "ALTER TABLE @entries DROP COLUMN erase_at",
            "ALTER TABLE @entries DROP COLUMN body",
            "DROP TABLE @messages",
            "DROP TABLE @handouts",
            "ALTER TABLE @meta DROP COLUMN key_format",
            "UPDATE @meta SET serves_from = 1",
        ] {
            store.execute(statement).await;
        }
        for command in ["migrate", "serve"] {
            let (text, code) = run(&[command, "--database-url", &url]);
            let refused = "entries under keys of format 1, this binary makes keys of format 2";
            if command == "migrate" || matches!(store, Behind::Sqlite(_)) {
                assert!(code == Some(8) && text.contains(refused), "{command}: {code:?} {text}");
            } else {
                assert!(code == Some(1) && text.contains("run `"), "{command}: {code:?} {text}");
            }
        }
        store.execute("DELETE FROM @entries").await;
        migrate(&url);
        let server = Server::with(process::Command::new(BINARY), &url, &[], Stdio::null()).await;
        acquired(&server.client().await.claim(claim("c", "order-1")).await.unwrap().into_inner());
    }
}

//! The schema's name: another application's schema is left alone, and two ledgers live in one database.

use idempotency_ledger::proto;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::store::SchemaName;
use sqlx::{Executor as _, Row as _};
use tonic_health::pb::health_check_response::ServingStatus;

use super::{run, served};
use crate::harness::details::{acquired, claim, completed, key};
use crate::harness::postgres as pg;
use crate::holds::{hold, resume};
use crate::process::Server;
use crate::replays::{closes, creates};

/// What others may have made, and whether `migrate` takes the schema for its own.
const SCHEMAS: &[(&str, &str, bool)] = &[
    ("a table", "CREATE TABLE ledger.accounts (id int)", false),
    ("a function", "CREATE FUNCTION ledger.f() RETURNS int LANGUAGE sql AS 'SELECT 1'", false),
    ("a type", "CREATE TYPE ledger.mood AS ENUM ('well')", false),
    ("a sequence", "CREATE SEQUENCE ledger.numbers", false),
    (
        "migrations of another tool, and a table",
        "CREATE TABLE ledger.migrations (id int, name text); CREATE TABLE ledger.meta (serves_from int)",
        false,
    ),
    (
        "migrations of the same library, and a table",
        "CREATE TABLE ledger.migrations (version bigint, description text, installed_on timestamptz, success bool,
                                         checksum bytea, execution_time bigint);
         CREATE TABLE ledger.entries (id int)",
        false,
    ),
    ("a table `meta`", "CREATE TABLE ledger.meta (id int)", false),
    ("nothing", "SELECT 1", true),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schema_of_another_application_is_left_alone() {
    for (number, (what, made, is_ours)) in SCHEMAS.iter().enumerate() {
        let database = format!("other_schema_{number}");
        let cluster = pg::shared();
        cluster.execute("postgres", &format!("CREATE DATABASE {database}")).await;
        cluster.execute(&database, &format!("CREATE SCHEMA ledger; {made}")).await;
        let before = objects(&database).await;
        let url = cluster.url(&database);
        let (text, code) = run(&["migrate", "--database-url", &url, "--grant-to", "postgres"]);
        if *is_ours {
            assert_eq!(code, Some(0), "{what}: {text}");
            continue;
        }
        assert_eq!(code, Some(1), "{what}: {text}");
        for said in ["the schema `ledger` is not a ledger's", "nothing was changed", "--schema NAME"] {
            assert!(text.contains(said), "{what}: {text}");
        }
        assert_eq!(objects(&database).await, before, "{what}");
        let (text, code) = run(&["migrate", "--database-url", &url, "--schema", "of_messages"]);
        assert_eq!(code, Some(0), "{what}: {text}");
        assert!(objects(&database).await.starts_with(&*before), "{what}: all of it is there still");
    }
}

/// What is in the schema `ledger`, and who may execute its functions.
async fn objects(database: &str) -> String {
    let all = "SELECT coalesce(string_agg(o, ', ' ORDER BY o), '') FROM (
                   SELECT relname::text || ' ' || relkind::text AS o FROM pg_class WHERE relnamespace = 'ledger'::regnamespace
                   UNION SELECT proname::text || ' ' || coalesce(proacl::text, 'all') FROM pg_proc
                   WHERE pronamespace = 'ledger'::regnamespace) AS x(o)";
    let row = pg::shared().connect(database).await.fetch_one(all).await.unwrap();
    row.get(0)
}

/// Each key word of the running Postgres is refused with the reason, or `CREATE SCHEMA` and a call in it take it without
/// quotes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schema_name_that_needs_quotes_is_refused() {
    let cluster = pg::shared();
    cluster.execute("postgres", "CREATE DATABASE words").await;
    let mut connection = cluster.connect("words").await;
    let words = "SELECT word, catcode IN ('R', 'T') AS is_reserved FROM pg_get_keywords() ORDER BY word";
    for row in connection.fetch_all(words).await.unwrap() {
        let (word, is_reserved): (String, bool) = (row.get(0), row.get(1));
        let parsed = word.parse::<SchemaName>();
        assert_eq!(parsed.is_err(), is_reserved, "{word}: {parsed:?}");
        let made = format!(
            "BEGIN; CREATE SCHEMA {word}; CREATE TABLE {word}.t (i int);
             CREATE FUNCTION {word}.f() RETURNS int LANGUAGE sql AS 'SELECT 1';
             INSERT INTO {word}.t SELECT {word}.f() FROM {word}.t x CROSS JOIN {word}.t;
             UPDATE {word}.t SET i = greatest(i, {word}.f()); DELETE FROM {word}.t;
             DROP TABLE {word}.t; DROP FUNCTION {word}.f(); ROLLBACK"
        );
        let made = connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(made))).await;
        assert_eq!(made.is_err(), is_reserved, "{word}: {made:?}");
        if is_reserved {
            connection.execute("ROLLBACK").await.unwrap();
        }
    }
    let url = cluster.url("words");
    for command in ["migrate", "serve"] {
        let (text, code) = run(&[command, "--database-url", &url, "--schema", "user"]);
        assert_eq!(code, Some(2), "{command}: {text}");
        assert!(text.contains("`user` is a reserved word of Postgres"), "{command}: {text}");
        assert!(!text.contains("syntax error"), "{command}: {text}");
    }
}

/// A ledger in a schema with another name, whose server purges every 100 ms.
async fn ledger_in(url: &str, schema: &str, log: &std::path::Path) -> Server {
    let (text, code) = run(&["migrate", "--database-url", url, "--schema", schema]);
    assert_eq!(code, Some(0), "{text}");
    let server = served(url, &["--schema", schema, "--purge-every", "100ms", "--count-every", "1s"], log);
    server.becomes(ServingStatus::Serving).await;
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ledgers_in_two_schemas_of_one_database_do_not_meet() {
    let cluster = pg::shared();
    cluster.execute("postgres", "CREATE DATABASE two_ledgers").await;
    let url = cluster.url("two_ledgers");
    let folder = tempfile::tempdir().unwrap();
    let logs = ["one", "_two2"].map(|name| folder.path().join(name));
    let one = ledger_in(&url, "one", &logs[0]).await;
    let two = ledger_in(&url, "_two2", &logs[1]).await;

    let (mut first, mut second) = (one.client().await, two.client().await);
    let held = acquired(&first.claim(claim("c", "m")).await.unwrap().into_inner());
    let complete = proto::CompleteRequest { key: key("c", "m"), token: held.token, ..Default::default() };
    first.complete(complete).await.unwrap();
    acquired(&second.claim(claim("c", "m")).await.unwrap().into_inner());
    completed(&first.claim(claim("c", "m")).await.unwrap().into_inner());

    let mut admin = AdminServiceClient::new(one.channel().await.unwrap());
    let policy = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: "set".into(),
        reason: "a test".into(),
        policy: Some(proto::Policy { replay: proto::ReplayMode::Rebuild.into(), ..Default::default() }),
        ..Default::default()
    };
    admin.set_policy(policy).await.unwrap();
    admin.create_replay_run(creates("r")).await.unwrap();
    admin.close_replay_run(closes("r")).await.unwrap();
    admin.hold_consumers(hold("c")).await.unwrap();
    admin.resume_consumers(resume("c")).await.unwrap();
    let filter = Some(proto::EntryFilter { consumer: "c".into(), ..Default::default() });
    let listed = admin.list_entries(proto::ListEntriesRequest { filter, ..Default::default() }).await;
    assert_eq!(listed.unwrap().into_inner().entries.len(), 1);
    admin.summarize_entries(proto::SummarizeEntriesRequest::default()).await.unwrap();
    admin.get_retention_status(proto::GetRetentionStatusRequest::default()).await.unwrap();
    let audit = admin.list_audit_events(proto::ListAuditEventsRequest::default()).await.unwrap().into_inner();
    assert_eq!(audit.events.len(), 5);
    let mut admin = AdminServiceClient::new(two.channel().await.unwrap());
    let audit = admin.list_audit_events(proto::ListAuditEventsRequest::default()).await.unwrap().into_inner();
    assert_eq!(audit.events.len(), 0, "the other ledger knows nothing of it");

    let there = "SELECT string_agg(nspname, ' ' ORDER BY nspname COLLATE \"C\") FROM pg_namespace
                 WHERE nspname NOT LIKE 'pg_%' AND nspname NOT IN ('public', 'information_schema')";
    let schemas: String = cluster.connect("two_ledgers").await.fetch_one(there).await.unwrap().get(0);
    assert_eq!(schemas, "_two2 one");
    for (server, log) in [(one, &logs[0]), (two, &logs[1])] {
        drop(server);
        let log = std::fs::read_to_string(log).unwrap();
        assert!(!log.contains("ERROR"), "{log}");
    }
}

//! Two roles: the owner makes the schema, the application serves with what it needs and nothing else.

use std::time::Duration;

use idempotency_ledger::store::POSTGRES_STATEMENTS;
use sqlx::{AssertSqlSafe, Executor as _, PgConnection, Row as _};
use tonic_health::pb::health_check_response::ServingStatus;

use super::load::Load;
use super::{run, served};
use crate::harness::details::{acquired, claim};
use crate::harness::postgres as pg;

const OWNER: &str = "ledger_owner";
/// A name that must be quoted.
const APPLICATION: &str = "ledger-app";

/// All that the application's role may do: for each table, and for each column of `meta`.
const MAY: &[(&str, &str)] = &[
    ("audit", "SELECT INSERT"),
    ("consumers", "SELECT INSERT UPDATE"),
    ("entries", "SELECT INSERT UPDATE DELETE"),
    ("handouts", "SELECT INSERT UPDATE DELETE"),
    ("holds", "SELECT INSERT DELETE"),
    ("messages", "SELECT INSERT UPDATE DELETE"),
    ("meta", "SELECT"),
    ("meta.clock_mark", "SELECT UPDATE"),
    ("meta.level", "SELECT UPDATE"),
    ("meta.policy_epoch", "SELECT UPDATE"),
    ("meta.token_offset", "SELECT UPDATE"),
    ("migrations", "SELECT"),
    ("policies", "SELECT INSERT"),
    ("principals", "SELECT INSERT"),
    ("purges", "SELECT INSERT UPDATE DELETE"),
    ("replay_runs", "SELECT INSERT UPDATE"),
    ("replicas", "SELECT INSERT UPDATE DELETE"),
    ("sources", "SELECT INSERT"),
    ("terms", "SELECT INSERT"),
];

/// What it must not do, as attempts.
const MUST_NOT: &[&str] = &[
    "CREATE TABLE ledger.mine (x int)",
    "CREATE TABLE public.mine (x int)",
    "DROP TABLE ledger.entries",
    "ALTER TABLE ledger.entries ADD COLUMN mine int",
    "TRUNCATE ledger.entries",
    "CREATE INDEX mine ON ledger.entries (id)",
    "CREATE OR REPLACE FUNCTION ledger.clock() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'",
    "UPDATE ledger.audit SET reason = 'another'",
    "DELETE FROM ledger.audit",
    "TRUNCATE ledger.audit",
    "SELECT * FROM ledger.audit FOR UPDATE",
    "UPDATE ledger.meta SET serves_from = 0",
    "UPDATE ledger.meta SET audit_kept_for = 0",
    "DELETE FROM ledger.meta",
    "INSERT INTO ledger.migrations SELECT 99, 'x', now(), true, '', 0",
    "UPDATE ledger.policies SET policy = NULL",
    "DELETE FROM ledger.policies",
    "DELETE FROM ledger.consumers",
    "DELETE FROM ledger.replay_runs",
    "UPDATE ledger.holds SET reason = 'another'",
    "SET ROLE ledger_owner",
];

/// A database of the owner's, as every one is since Postgres 15.
async fn database(name: &str) -> String {
    static ROLES: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();
    let cluster = tokio::task::spawn_blocking(pg::shared).await.unwrap();
    let roles = "CREATE ROLE ledger_owner LOGIN; CREATE ROLE \"ledger-app\" LOGIN";
    ROLES.get_or_init(|| async { cluster.execute("postgres", roles).await }).await;
    cluster.execute("postgres", &format!("CREATE DATABASE {name} OWNER ledger_owner")).await;
    cluster.execute(name, "REVOKE CREATE ON SCHEMA public FROM PUBLIC").await;
    name.to_owned()
}

fn url(database: &str, role: &str) -> String {
    pg::shared().url(database).replacen("postgres@", &format!("{role}@"), 1)
}

async fn connect(database: &str, role: &str) -> PgConnection {
    <PgConnection as sqlx::Connection>::connect(&url(database, role)).await.unwrap()
}

fn granted(database: &str) {
    let owner = url(database, OWNER);
    // Twice: it is repeated with each migration.
    for applied in ["", "migrations applied: 0,"] {
        let (text, code) = run(&["migrate", "--database-url", &owner, "--grant-to", APPLICATION]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains(applied) && text.contains("ledger-app has the rights of a server"), "{text}");
    }
}

#[tokio::test]
async fn the_application_may_do_what_it_needs_and_nothing_else() {
    let database = database("rights_listed").await;
    granted(&database);
    let mut application = connect(&database, APPLICATION).await;
    let rows = sqlx::query(
        "WITH things AS (
             SELECT c.oid, c.relname::text AS name, NULL::text AS part FROM pg_class c
             WHERE c.relnamespace = 'ledger'::regnamespace AND c.relkind IN ('r', 'v', 'm', 'S', 'p')
             UNION ALL
             SELECT c.oid, c.relname || '.' || a.attname, a.attname FROM pg_class c
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
             WHERE c.relnamespace = 'ledger'::regnamespace AND c.relkind IN ('r', 'p'))
         SELECT t.name, string_agg(w.word, ' ' ORDER BY w.place) AS may
         FROM things t CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER'])
              WITH ORDINALITY AS w(word, place)
         WHERE CASE WHEN t.part IS NULL THEN has_table_privilege(t.oid, w.word)
                    WHEN w.word IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES')
                    THEN has_column_privilege(t.oid, t.part, w.word) AND w.word = ANY (ARRAY['SELECT', 'UPDATE'])
                         AND t.name LIKE 'meta.%' AND has_column_privilege(t.oid, t.part, 'UPDATE')
                    ELSE false END
         GROUP BY t.name ORDER BY t.name",
    );
    let found = rows.fetch_all(&mut application).await.unwrap();
    let found: Vec<(String, String)> = found.iter().map(|row| (row.get(0), row.get(1))).collect();
    let found: Vec<(&str, &str)> = found.iter().map(|(name, may)| (name.as_str(), may.as_str())).collect();
    assert_eq!(found, MAY);
    for statement in MUST_NOT {
        let refused = application.execute(*statement).await.expect_err(statement);
        let code = refused.as_database_error().and_then(sqlx::error::DatabaseError::code);
        assert_eq!(code.as_deref(), Some("42501"), "{statement}: {refused}");
    }
    let owns = "SELECT count(*) FROM pg_class WHERE relowner = (SELECT oid FROM pg_roles WHERE rolname = current_user)";
    assert_eq!(application.fetch_one(owns).await.unwrap().get::<i64, _>(0), 0);
}

/// Each statement of a server, as the application: its rights are looked at where its plan begins.
#[tokio::test]
async fn no_statement_of_a_server_needs_more() {
    let database = database("rights_statements").await;
    granted(&database);
    let mut application = connect(&database, APPLICATION).await;
    for statement in POSTGRES_STATEMENTS.iter() {
        for plain in ["DEALLOCATE ALL".to_owned(), format!("PREPARE asked AS {statement}")] {
            application
                .execute(AssertSqlSafe(plain))
                .await
                .unwrap_or_else(|error| panic!("{error}: {statement}"));
        }
        let count = "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'asked'";
        let count: i32 = application.fetch_one(count).await.unwrap().get(0);
        let nothing = vec!["NULL"; usize::try_from(count).unwrap()].join(", ");
        let nothing = if nothing.is_empty() { nothing } else { format!("({nothing})") };
        let explained = application.execute(AssertSqlSafe(format!("EXPLAIN EXECUTE asked {nothing}"))).await;
        explained.unwrap_or_else(|error| panic!("{error}: {statement}"));
    }
}

/// A server with the application's role, whatever it is asked for; nobody but the owner says how long the audit is
/// kept at least.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_serves_with_the_role_of_the_application() {
    let database = database("rights_served").await;
    let folder = tempfile::tempdir().unwrap();
    let mut early = served(&url(&database, APPLICATION), &[], &folder.path().join("early"));
    assert_eq!(super::ended(&mut early.child, Duration::from_secs(20)).await, Some(1));
    granted(&database);
    let log = folder.path().join("log");
    let server = served(&url(&database, APPLICATION), &["--purge-every", "1s"], &log);
    server.becomes(ServingStatus::Serving).await;
    let load = Load::start(&server.client().await, 4);
    load.more(50).await;
    assert_eq!(load.end().await.refused.len(), 0);
    for id in ["parked", "deleted"] {
        acquired(&server.client().await.claim(claim("c", id)).await.unwrap().into_inner());
    }
    let reason = ["--reason", "r", "--yes"];
    for command in [
        &["policy", "set", "c", "--max-attempts", "7", "--reason", "r"][..],
        &["policy", "get", "c"],
        &["entries", "park", "c", "tests", "parked", "--reason", "r"],
        &["entries", "redrive", "c", "tests", "parked", "--force", reason[0], reason[1], reason[2]],
        &["entries", "list", "--consumer", "c"],
        &["entries", "summary"],
        &["tokens", "raise-offset", "--by", "1h", reason[0], reason[1], reason[2]],
        &["audit", "list"],
        &["retention", "status"],
    ] {
        let asked = [command, &["--endpoint", &server.address]].concat();
        let (text, code) = run(&asked);
        assert_eq!(code, Some(0), "{command:?}: {text}");
    }
    let mut owner = connect(&database, OWNER).await;
    let hour = "INSERT INTO ledger.audit SELECT 'old ' || n, ledger.clock() - n * 3600000000, 'a', 'X', 'c', NULL, 'r'
                FROM generate_series(1, 100) n";
    owner.execute(hour).await.unwrap();
    let mut application = connect(&database, APPLICATION).await;
    let forget = "SELECT ledger.forget_audit(9223372036854775807, 1000)";
    owner.execute("UPDATE ledger.meta SET audit_kept_for = 90 * 3600000000").await.unwrap();
    assert_eq!(application.fetch_one(forget).await.unwrap().get::<i64, _>(0), 11);
    owner.execute("UPDATE ledger.meta SET audit_kept_for = DEFAULT").await.unwrap();
    assert_eq!(application.fetch_one(forget).await.unwrap().get::<i64, _>(0), 66, "a day is kept");
    let text = crate::harness::log_file::settled(&log);
    assert!(!text.contains("permission denied"), "{text}");
}

/// An owner that may make nothing in the database but what is in the schema, which somebody made for it.
#[tokio::test]
async fn an_owner_of_the_schema_alone_can_migrate() {
    let database = database("rights_strict").await;
    for statement in [
        "ALTER DATABASE rights_strict OWNER TO postgres",
        "CREATE SCHEMA ledger AUTHORIZATION ledger_owner",
        "REVOKE ALL ON SCHEMA public FROM PUBLIC",
    ] {
        pg::shared().execute(&database, statement).await;
    }
    let url = url(&database, OWNER);
    let (text, code) = run(&["migrate", "--database-url", &url]);
    assert_eq!(code, Some(0), "{text}");
    let (text, code) = run(&["migrate", "--database-url", &url, "--grant-to", "nobody"]);
    assert!(code == Some(1) && text.contains("nobody"), "{text}");
}

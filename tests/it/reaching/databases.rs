//! What a database must be: its encoding, and what else its maker chooses.

use std::process::Command;
use std::time::{Duration, Instant};

use idempotency_ledger::proto;

use super::{cluster, migrated};
use crate::harness::details::{acquired, claim, key};
use crate::process::{BINARY, Server};

/// Refused by `migrate` and at a start, with the statement that makes a database that will do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_cannot_hold_every_text_is_refused_with_the_statement_that_makes_another() {
    let cluster = cluster("fsync = off").await;
    for statement in [
        "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'",
        "CREATE DATABASE none TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'",
        "CREATE DATABASE copied TEMPLATE template0 IS_TEMPLATE true",
    ] {
        cluster.execute("postgres", statement).await;
    }
    let mut made = None;
    for (database, says) in [("latin", "LATIN1"), ("none", "SQL_ASCII"), ("copied", "a template")] {
        let text = migrated(&cluster.url(database)).await.expect_err(database);
        assert!(text.contains(says) && text.contains(database), "{text}");
        let (_, statement) = text.split_once("CREATE").expect(&text);
        made = statement.split_once(';').map(|(statement, _)| format!("CREATE{statement}"));
        let serve = ["serve", "--listen", "127.0.0.1:0", "--observe-listen", "off", "--database-url"];
        let output = Command::new(BINARY).args(serve).arg(cluster.url(database)).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && text.contains(says), "{text}");
        let mut connection = cluster.connect(database).await;
        let there: bool = sqlx::query_scalar("SELECT to_regnamespace('ledger') IS NOT NULL")
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert!(!there, "{database} was changed");
    }
    cluster.execute("postgres", &made.expect("a statement")).await;
    migrated(&cluster.url("ledger")).await.expect("the database that the error names will do");
}

/// A newer library of the system may order texts differently, and spoils each index that has its order: no index of the
/// ledger does. A
/// tablespace that is gone leaves tables where the database is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_index_depends_on_an_order_that_may_change() {
    let cluster = cluster("fsync = off").await;
    cluster.execute("postgres", "CREATE DATABASE ledger").await;
    cluster.execute("postgres", "ALTER DATABASE ledger SET default_tablespace = 'gone'").await;
    migrated(&cluster.url("ledger")).await.unwrap();
    let mut connection = cluster.connect("ledger").await;
    let spoiled: Vec<String> = sqlx::query_scalar(
        "SELECT i.indexrelid::regclass::text
         FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid, unnest(i.indcollation::oid[]) AS used
         WHERE c.relnamespace = 'ledger'::regnamespace AND used NOT IN (0, 'pg_catalog.\"C\"'::regcollation)",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    assert_eq!(spoiled, Vec::<String>::new());
}

/// A role's settings that end sessions are overruled, for `migrate` too: a session that rests for longer stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_outlives_the_settings_of_its_role() {
    let cluster = cluster("fsync = off").await;
    cluster.execute("postgres", "CREATE ROLE app SUPERUSER LOGIN").await;
    cluster.execute("postgres", "ALTER ROLE app SET idle_session_timeout = '200ms'").await;
    let mut watch = cluster.connect("postgres").await;
    let version = "SELECT current_setting('server_version_num')::int";
    let version: i32 = sqlx::query_scalar(version).fetch_one(&mut watch).await.unwrap();
    if version >= 170_000 {
        // No migration is as quick as that.
        cluster.execute("postgres", "ALTER ROLE app SET transaction_timeout = '1ms'").await;
    }
    let url = cluster.url("postgres").replace("postgres@", "app@");
    migrated(&url).await.unwrap();
    let server = Server::start(&url).await;
    server.client().await.claim(claim("c", "1")).await.unwrap();
    let rested = "SELECT count(*) FROM pg_stat_activity WHERE now() - state_change > interval '800 ms'
                  AND application_name = 'idempotency-ledger claims'";
    let until = Instant::now() + Duration::from_secs(20);
    while sqlx::query_scalar::<_, i64>(rested).fetch_one(&mut watch).await.unwrap() == 0 {
        assert!(Instant::now() < until, "no session rests: Postgres ends them");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.client().await.claim(claim("c", "2")).await.unwrap();
}

/// What a role has set for its sessions bounds no statement of `migrate`; waits for locks are bounded by `migrate` itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrate_overrules_the_timeouts_of_its_role() {
    let cluster = cluster("fsync = off").await;
    for statement in [
        "CREATE ROLE app SUPERUSER LOGIN",
        "ALTER ROLE app SET statement_timeout = '1min'",
        "ALTER ROLE app SET lock_timeout = '1min'",
        "CREATE TABLE seen (statement text, lock text)",
        "CREATE FUNCTION look() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO public.seen VALUES (current_setting('statement_timeout'), current_setting('lock_timeout'));
         END $$",
        "CREATE EVENT TRIGGER look ON ddl_command_start WHEN tag IN ('CREATE SCHEMA') EXECUTE FUNCTION look()",
    ] {
        cluster.execute("postgres", statement).await;
    }
    migrated(&cluster.url("postgres").replace("postgres@", "app@")).await.unwrap();
    let mut connection = cluster.connect("postgres").await;
    let seen: Vec<(String, String)> =
        sqlx::query_as("SELECT statement, lock FROM seen").fetch_all(&mut connection).await.unwrap();
    assert_eq!(seen, [("0".to_owned(), "5s".to_owned())]);
}

/// A role that does not own the database is named the right that it lacks; with it, it migrates.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_the_right_to_create_is_named_the_statement_that_gives_it() {
    let cluster = cluster("fsync = off").await;
    cluster.execute("postgres", "CREATE ROLE app LOGIN").await;
    cluster.execute("postgres", "CREATE DATABASE \"of others\"").await;
    cluster.admit("host all app 127.0.0.1/32 trust").await;
    let url = cluster.url("of%20others").replace("postgres@", "app@");
    let text = migrated(&url).await.unwrap_err();
    assert!(text.contains("permission denied"), "{text}");
    // It would be a line of Postgres' own source.
    assert!(!text.contains("at line"), "{text}");
    let (_, statement) = text.split_once("GRANT").expect(&text);
    let (statement, _) = statement.split_once("that role").expect(&text);
    cluster.execute("postgres", &format!("GRANT{statement}app")).await;
    migrated(&url).await.unwrap();
}

/// A publication of all tables, as Debezium and moves between managed services make it, refuses the update and deletion of
/// rows without a primary key: each table of the ledger has one, and a server and `migrate` work as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publication_of_all_tables_keeps_no_server_from_its_work() {
    let cluster = cluster("fsync = off\nwal_level = logical").await;
    cluster.execute("postgres", "CREATE PUBLICATION everything FOR ALL TABLES").await;
    let url = cluster.url("postgres");
    migrated(&url).await.unwrap();
    let server = Server::start(&url).await;
    let mut client = server.client().await;
    let held = acquired(&client.claim(claim("c", "1")).await.unwrap().into_inner());
    let complete = proto::CompleteRequest { key: key("c", "1"), token: held.token, ..Default::default() };
    client.complete(complete).await.unwrap();
    let mut connection = cluster.connect("postgres").await;
    let refused: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_class c
         WHERE c.relnamespace = 'ledger'::regnamespace AND c.relkind = 'r'
           AND NOT (c.relreplident = 'd' AND EXISTS (
               SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    assert_eq!(refused, Vec::<String>::new(), "tables whose rows cannot be changed");
}

//! The schema is dumped and restored by its name, whole or in part; and roles that rotate bring it up, none of them a superuser.

use std::process::Command;
use std::sync::Arc;

use idempotency_ledger::proto;
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};

use super::run;
use crate::docs::read;
use crate::harness::details::{acquired, claim, completed, key, refusal};
use crate::harness::postgres as pg;
use crate::harness::server::{Served, Setup, postgres_store};

async fn database(name: &str) -> String {
    let cluster = tokio::task::spawn_blocking(pg::shared).await.unwrap();
    cluster.execute("postgres", &format!("CREATE DATABASE {name}")).await;
    cluster.url(name)
}

/// A program of Postgres.
fn program(name: &str, arguments: &[&str]) {
    let output = Command::new(pg::shared().bin().join(name)).args(arguments).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

fn migrate(url: &str) {
    let (text, code) = run(&["migrate", "--database-url", url]);
    assert_eq!(code, Some(0), "{text}");
}

async fn serve(url: &str) -> Served {
    Served::start(Arc::new(postgres_store(url)), Setup::default()).await
}

async fn complete(served: &Served, consumer: &str, id: &str) {
    let mut client = served.client.clone();
    let token = acquired(&client.claim(claim(consumer, id)).await.unwrap().into_inner()).token;
    let request = proto::CompleteRequest { key: key(consumer, id), token, ..Default::default() };
    client.complete(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_is_restored_by_its_name_is_served_and_knows_all() {
    let (before, after) = (database("dumped_schema").await, database("restored_schema").await);
    migrate(&before);
    let served = serve(&before).await;
    complete(&served, "c", "done").await;
    served.stop().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.dump");
    let file = file.to_str().unwrap();
    program("pg_dump", &["--format", "custom", "--schema", "ledger", "--dbname", &before, "--file", file]);
    program("pg_restore", &["--no-owner", "--exit-on-error", "--dbname", &after, file]);
    let (text, code) = run(&["migrate", "--database-url", &after]);
    assert!(code == Some(0) && text.contains("migrations applied: 0,"), "{text}");
    let served = serve(&after).await;
    completed(&served.client.clone().claim(claim("c", "done")).await.unwrap().into_inner());
    complete(&served, "c", "new").await;
    served.stop().await;
}

/// The entries alone, into a ledger that has given the numbers of their names to others: nothing of them is granted again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_that_are_restored_without_their_names_are_never_granted_again() {
    let (before, after) = (database("dumped_entries").await, database("restored_entries").await);
    migrate(&before);
    let served = serve(&before).await;
    complete(&served, "c", "done").await;
    served.stop().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("entries.dump");
    let file = file.to_str().unwrap();
    program(
        "pg_dump",
        &[
            "--format",
            "custom",
            "--data-only",
            "--table",
            "ledger.entries",
            "--dbname",
            &before,
            "--file",
            file,
        ],
    );
    migrate(&after);
    let restore = || program("pg_restore", &["--exit-on-error", "--dbname", &after, file]);
    for others_first in [false, true] {
        pg::shared()
            .execute("restored_entries", "TRUNCATE ledger.entries, ledger.consumers, ledger.sources")
            .await;
        let served = serve(&after).await;
        if others_first {
            complete(&served, "another consumer", "of another message").await;
        }
        restore();
        let answer = served.client.clone().claim(claim("c", "done")).await;
        match answer {
            // By chance its names have the numbers that they had.
            Ok(answer) if !others_first => drop(completed(&answer.into_inner())),
            Ok(answer) => panic!("{answer:?}"),
            Err(status) => assert_eq!(refusal(&status).reason, "KEY_COLLISION", "{status:?}"),
        }
        served.stop().await;
    }
}

/// The statements of docs/postgres.md, as a broker of credentials runs them for each lease.
#[tokio::test]
async fn roles_that_rotate_migrate_as_the_group_and_own_nothing() {
    let page = read("docs/postgres.md");
    let (_, rest) =
        page.split_once("<!-- statements: rotating owner -->").expect("the statements of the page");
    let block = rest.split("```").nth(1).unwrap().trim_start_matches("sql");
    database("rotated_owners").await;
    let cluster = pg::shared();
    let group =
        "CREATE ROLE ledger_migrators NOLOGIN; ALTER DATABASE rotated_owners OWNER TO ledger_migrators";
    cluster.execute("postgres", group).await;
    for name in ["v-migrate-1", "v-migrate-2"] {
        let create = block
            .replace("{{name}}", name)
            .replace("{{password}}", "p")
            .replace("{{expiration}}", "infinity");
        cluster.execute("rotated_owners", &create).await;
        let url = cluster.url("rotated_owners").replacen("postgres@", &format!("{name}@"), 1);
        let (text, code) = run(&["migrate", "--database-url", &url]);
        assert_eq!(code, Some(0), "{text}");
        let mut connection = PgConnection::connect(&cluster.url("rotated_owners")).await.unwrap();
        let others = "SELECT count(*) FROM pg_class c WHERE c.relnamespace = 'ledger'::regnamespace
                      AND pg_get_userbyid(c.relowner) <> 'ledger_migrators'";
        assert_eq!(connection.fetch_one(others).await.unwrap().get::<i64, _>(0), 0);
        let is_super = format!("SELECT rolsuper FROM pg_roles WHERE rolname = '{name}'");
        assert!(!connection.fetch_one(sqlx::AssertSqlSafe(is_super)).await.unwrap().get::<bool, _>(0));
        connection.close().await.unwrap();
        // At the end of the lease: it owns nothing, so that nothing stands in the way.
        cluster.execute("rotated_owners", &format!("DROP ROLE \"{name}\"")).await;
    }
}

//! From the schema before the baseline: what was in it reads the same afterwards, and lives on.
//!
//! `before/` holds databases of that schema, with entries in every state, and what the binary of that time said of
//! them. Both were written by it, on both stores.

use std::fs;
use std::path::Path;
use std::process::Command;

use idempotency_ledger::domain::StoreTime;
use idempotency_ledger::rpc::proto;
use idempotency_ledger::store::migrations::SQLITE;
use serde_json::Value;
use sqlx::{Connection as _, Executor as _};

use super::run;
use crate::harness::details::{claim, completed};
use crate::harness::on_both_stores;
use crate::harness::postgres as pg;
use crate::harness::server::{Kind, Setup, TestServer, TestStore, make_clock};
use crate::process::{BINARY, sqlite};

on_both_stores!(what_was_before_the_baseline_reads_the_same_and_lives_on, what_cannot_be_carried_over_stays);

/// The instant at which it was asked.
const ASKED_AT: StoreTime = StoreTime(1_780_012_035_000_000);

fn file(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/schema/before");
    fs::read_to_string(folder.join(name)).unwrap()
}

fn lines(name: &str) -> Vec<Value> {
    file(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A database of that time.
struct Before {
    folder: tempfile::TempDir,
    database: Option<String>,
    url: String,
}

impl Before {
    async fn new(kind: Kind, name: &str) -> Before {
        let folder = tempfile::tempdir().unwrap();
        match kind {
            Kind::Sqlite => {
                let url = sqlite(folder.path());
                let made = Before { folder, database: None, url };
                let path = made.folder.path().join("ledger.db");
                fs::File::create(&path).unwrap();
                made.execute(&file("sqlite.sql")).await;
                made
            }
            Kind::Postgres | Kind::Pooled => {
                let cluster = tokio::task::spawn_blocking(pg::shared).await.unwrap();
                cluster.execute("postgres", &format!("CREATE DATABASE {name}")).await;
                let made = Before { folder, database: Some(name.to_owned()), url: cluster.url(name) };
                made.execute(&file("postgres.sql")).await;
                made
            }
        }
    }

    /// `@` stands for the schema.
    async fn execute(&self, statements: &str) {
        let raw = |schema| sqlx::raw_sql(sqlx::AssertSqlSafe(statements.replace("@ledger.", schema)));
        if let Some(database) = &self.database {
            let mut connection = pg::shared().connect(database).await;
            connection.execute(raw("ledger.")).await.unwrap();
        } else {
            let mut connection = sqlx::SqliteConnection::connect(&self.url).await.unwrap();
            connection.execute(raw("")).await.unwrap();
            connection.close().await.unwrap();
        }
    }

    async fn number(&self, statement: &str) -> i64 {
        if let Some(database) = &self.database {
            let mut connection = pg::shared().connect(database).await;
            let statement = sqlx::AssertSqlSafe(statement.replace("@ledger.", "ledger."));
            return sqlx::query_scalar(statement).fetch_one(&mut connection).await.unwrap();
        }
        let mut connection = sqlx::SqliteConnection::connect(&self.url).await.unwrap();
        let statement = sqlx::AssertSqlSafe(statement.replace("@ledger.", ""));
        sqlx::query_scalar(statement).fetch_one(&mut connection).await.unwrap()
    }
}

/// Whatever was said before is said now. There may be more.
fn says(now: &Value, before: &Value) -> bool {
    match (now, before) {
        (Value::Object(now), Value::Object(before)) => {
            before.iter().all(|(name, value)| now.get(name).is_some_and(|now| says(now, value)))
        }
        (Value::Array(now), Value::Array(before)) => {
            now.len() == before.len() && now.iter().zip(before).all(|(now, before)| says(now, before))
        }
        (now, before) => now == before,
    }
}

async fn what_was_before_the_baseline_reads_the_same_and_lives_on(kind: Kind) {
    let before = Before::new(kind, "before_baseline").await;
    // An event of an entry whose place in the store is another one since.
    let event = "INSERT INTO @ledger.audit (request_id, at, actor, action, consumer, key, reason)
        SELECT 'of a timed id', 1, 'a', 'PARK', 'careful', key, 'r' FROM @ledger.entries
        WHERE id = '01890a5d-ac96-774b-bcce-b302099a8057' ORDER BY created_at LIMIT 1";
    before.execute(event).await;
    for applied in [SQLITE.iter().count(), 0] {
        let (text, code) = run(&["migrate", "--database-url", &before.url]);
        let applied = format!("migrations applied: {applied},");
        assert!(code == Some(0) && text.contains(&applied), "{code:?} {text}");
    }
    let found = "SELECT count(*) FROM @ledger.audit a JOIN @ledger.entries e ON e.key = a.key
        WHERE a.request_id = 'of a timed id'";
    assert_eq!(before.number(found).await, 1);
    before.execute("DELETE FROM @ledger.audit WHERE request_id = 'of a timed id'").await;
    if let Some(database) = &before.database {
        let others = "SELECT count(*) FROM pg_tables WHERE schemaname IN ('public', 'ledger_before')";
        assert_eq!(before.number(others).await, 0, "something is left behind");
        make_clock(pg::shared(), database).await;
    } else {
        let others = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'before%' OR name LIKE '\\_sqlx%' ESCAPE '\\'";
        assert_eq!(before.number(others).await, 0, "something is left behind");
    }
    let Before { folder, database, .. } = before;
    let mut server =
        TestServer::on(TestStore::found(folder, database, ASKED_AT).await, Setup::default()).await;
    for line in lines("seen.jsonl") {
        let mut words: Vec<&str> = Vec::new();
        words.extend(line["asked"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
        let address = server.address().to_string();
        let mut command = Command::new(BINARY);
        command.args(&words).args(["--json", "--endpoint", &address]);
        let ran = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        assert_eq!(ran.status.code().map(i64::from), line["code"].as_i64(), "{words:?}: {ran:?}");
        let out = String::from_utf8(ran.stdout).unwrap();
        let now: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(
            says(&Value::from(now.clone()), &line["said"]),
            "{words:?} said {}\nand says {now:?}",
            line["said"]
        );
    }
    for held in lines("held.jsonl") {
        let text = |name: &str| held[name].as_str().unwrap().to_owned();
        let key = proto::EntryKey {
            consumer: text("consumer"),
            source: text("source"),
            id: text("id"),
            ..Default::default()
        };
        let token = held["token"].as_i64().unwrap();
        let result = bytes::Bytes::from_static(b"done since");
        let request = proto::CompleteRequest {
            key: Some(key.clone()),
            token,
            result,
            result_left_out: false,
            event_type: String::new(),
        };
        assert!(!server.client.complete(request).await.unwrap().into_inner().replayed, "{held}");
        let request = proto::ClaimRequest { key: Some(key), ..claim("c", "x") };
        completed(&server.client.claim(request).await.unwrap().into_inner());
    }
    let timed = proto::EntryKey {
        consumer: "changed".into(),
        source: "orders".into(),
        id: "01890a5d-ac96-774b-bcce-b302099a8057".into(),
        ..Default::default()
    };
    let again = proto::ClaimRequest { key: Some(timed), ..claim("c", "x") };
    completed(&server.client.claim(again).await.unwrap().into_inner());
    server.looked().await;
    server.stop().await;
}

/// A table that is not as it should be: nothing is changed, and it is said.
async fn what_cannot_be_carried_over_stays(kind: Kind) {
    let before = Before::new(kind, "before_broken").await;
    before.execute("ALTER TABLE @ledger.entries RENAME COLUMN result TO outcome").await;
    let entries = before.number("SELECT count(*) FROM @ledger.entries").await;
    let (text, code) = run(&["migrate", "--database-url", &before.url]);
    assert!(code == Some(1) && text.contains("result"), "{code:?} {text}");
    assert_eq!(before.number("SELECT count(*) FROM @ledger.entries").await, entries);
    before.execute("ALTER TABLE @ledger.entries RENAME COLUMN outcome TO result").await;
    let (text, code) = run(&["migrate", "--database-url", &before.url]);
    let applied = format!("migrations applied: {},", SQLITE.iter().count());
    assert!(code == Some(0) && text.contains(&applied), "{code:?} {text}");
    assert_eq!(before.number("SELECT count(*) FROM @ledger.entries").await, entries);
}

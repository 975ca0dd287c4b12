//! The audit of one operation next to those of many others whose ids begin alike: the query reads none of theirs.

use idempotency_ledger::domain::AuditEvent;
use idempotency_ledger::store::{POSTGRES_SETTINGS, SQLITE_STATEMENTS};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Executor as _, Row as _};

use super::plans::{Case, explain};
use crate::harness::postgres as pg;
use crate::harness::server::{Kind, TestStore};

/// Events of other operations: `fix-0001` and so on sort after `fix`, and before its parts, `fix/…`.
const OTHERS: u64 = 2_000;
const PARTS: u64 = 30;

/// How many rows of the audit were read: returned, or filtered out.
fn rows_read(plan: &Value) -> f64 {
    let of = |name: &str| plan[name].as_f64().unwrap_or_default();
    let here = if plan["Relation Name"] == "audit" {
        (of("Actual Rows") + of("Rows Removed by Filter")) * of("Actual Loops")
    } else {
        0.0
    };
    let parts = plan["Plans"].as_array();
    here + parts.into_iter().flatten().map(rows_read).sum::<f64>()
}

#[tokio::test]
async fn audit_of_an_operation_reads_its_own_events_alone() {
    let database = pg::database().await;
    let mut connection = pg::shared().connect(&database).await;
    let literal = |id: &str| format!("'{}'", AuditEvent::id_of("c", id));
    let insert = |id: String, count: u64| {
        format!(
            "INSERT INTO ledger.audit (request_id, at, actor, action, consumer, reason)
             SELECT {id}, i, 'ann', 'REDRIVE', 'c', 'tests' FROM generate_series(1::bigint, {count}) AS i"
        )
    };
    for statement in [
        "ALTER TABLE ledger.audit SET (autovacuum_enabled = off)".to_owned(),
        insert(literal("fix"), 1),
        insert(format!("{} || lpad(i::text, 4, '0')", literal("fix-")), OTHERS),
        // Their parts, and the operations that sort after it.
        insert(format!("{} || lpad(i::text, 4, '0') || '/part'", literal("fix-")), OTHERS),
        insert(format!("{} || lpad(i::text, 4, '0')", literal("fix0")), OTHERS),
        insert(format!("{} || lpad(i::text, 4, '0')", literal("fix/")), PARTS),
    ] {
        connection.execute(AssertSqlSafe(statement)).await.unwrap();
    }
    connection.execute(POSTGRES_SETTINGS).await.unwrap();
    let first = literal("fix/~");
    for analysed in [false, true] {
        if analysed {
            connection.execute("ANALYZE ledger.audit").await.unwrap();
        }
        for (limit, expected) in [(1_000, PARTS + 1), (10, 11)] {
            let arguments = format!("9223372036854775807, {first}, {limit}, {}", literal("fix"));
            let case =
                Case { name: "audit of an operation", statement: "audit_of_operation", arguments, bound: 0 };
            let plan = explain(&mut connection, &case).await;
            let (read, found) = (rows_read(&plan["Plan"]), plan["Plan"]["Actual Rows"].as_f64().unwrap());
            assert_eq!(found, (expected.min(limit)) as f64, "analysed: {analysed}: {plan:#}");
            assert!(read <= expected as f64, "{read} rows are read, analysed: {analysed}: {plan:#}");
        }
    }
}

/// `SQLite` does not report how many rows it reads: its plan must have a look-up of the operation's own id, and one range.
#[tokio::test]
async fn audit_of_an_operation_is_two_searches_on_sqlite() {
    let at = TestStore::new(Kind::Sqlite).await;
    let mut connection = at.sqlite().await;
    let head = "-- ledger.audit_of_operation\n";
    let statement = SQLITE_STATEMENTS.iter().find(|statement| statement.starts_with(head)).unwrap();
    let plan = format!("EXPLAIN QUERY PLAN {statement}");
    let rows = sqlx::query(AssertSqlSafe(plan)).fetch_all(&mut connection).await.unwrap();
    let reads: Vec<String> = rows
        .iter()
        .map(|row| row.get::<String, _>("detail"))
        .filter(|detail| detail.contains("audit"))
        .collect();
    let by = "SEARCH audit USING INDEX sqlite_autoindex_audit_1";
    let expected = [format!("{by} (request_id>? AND request_id<?)"), format!("{by} (request_id=?)")];
    assert_eq!(reads, expected);
}

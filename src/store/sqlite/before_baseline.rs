//! From the schema before the baseline, which was never released, to the baseline: in one transaction.

use sqlx::migrate::Migrator;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection as _, Executor as _, Row as _};

use super::errors::of_sqlx;
use crate::domain::{Key, KeyHash};
use crate::store::{Fault, StoreError};

const FOUND: &str = "\
-- ledger.before_baseline
SELECT count(*) = 2 FROM sqlite_master WHERE type = 'table' AND name IN ('_sqlx_migrations', 'replicas')";

/// Names of indexes belong to the file: those of the tables that stand aside go.
const STAND_ASIDE: &str = "\
DROP INDEX entries_sweep;
DROP INDEX entries_by_consumer;
DROP INDEX entries_attention;
DROP INDEX audit_by_time;
DROP INDEX audit_by_consumer;
DROP INDEX audit_by_key;
ALTER TABLE meta RENAME TO before_meta;
ALTER TABLE consumers RENAME TO before_consumers;
ALTER TABLE sources RENAME TO before_sources;
ALTER TABLE entries RENAME TO before_entries;
ALTER TABLE policies RENAME TO before_policies;
ALTER TABLE audit RENAME TO before_audit;
ALTER TABLE purges RENAME TO before_purges;
ALTER TABLE replicas RENAME TO before_replicas";

const CARRY_OVER: &str = include_str!("../../../migrations/sqlite/before_baseline.sql");

const KEYS: &str = "\
-- ledger.keys_before_baseline
SELECT e.key, n.name, s.name, e.id
FROM entries e JOIN consumers n ON n.no = e.consumer JOIN sources s ON s.no = e.source
WHERE e.key > ?1 ORDER BY e.key LIMIT ?2";

const KEYS_AT_ONCE: i64 = 1_000;

/// Brings the schema before the baseline to the baseline, if it is there; says whether it was.
pub(super) async fn carry_over(
    connection: &mut SqliteConnection,
    migrations: &Migrator,
) -> Result<bool, StoreError> {
    let wrong = |error: sqlx::Error| of_sqlx(&error);
    let found = sqlx::query(FOUND).fetch_one(&mut *connection).await.map_err(wrong)?;
    if !found.get::<bool, _>(0) {
        return Ok(false);
    }
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(wrong)?;
    transaction.execute(sqlx::raw_sql(STAND_ASIDE)).await.map_err(wrong)?;
    let baseline = migrations.iter().next().map(|migration| migration.version);
    let made = migrations.run_direct(baseline, &mut *transaction, false).await;
    made.map_err(|error| StoreError::NotApplied(Fault::Schema(error.to_string())))?;
    transaction.execute(sqlx::raw_sql(CARRY_OVER)).await.map_err(wrong)?;
    new_keys(&mut transaction).await?;
    transaction.commit().await.map_err(wrong)?;
    Ok(true)
}

/// Entries whose ids carry their time lie in another place since.
async fn new_keys(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let wrong = |error: sqlx::Error| of_sqlx(&error);
    let mut after = KeyHash::nil();
    loop {
        let query = sqlx::query(KEYS).bind(after).bind(KEYS_AT_ONCE);
        let rows = query.fetch_all(&mut *connection).await.map_err(wrong)?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in &rows {
            after = row.get(0);
            let text = |place: usize| row.get::<String, _>(place);
            let key = Key::new(&text(1), &text(2), &text(3)).hash();
            if key == after {
                continue;
            }
            for statement in
                ["UPDATE entries SET key = ?2 WHERE key = ?1", "UPDATE audit SET key = ?2 WHERE key = ?1"]
            {
                let query = sqlx::query(statement).bind(after).bind(key);
                query.execute(&mut *connection).await.map_err(wrong)?;
            }
        }
    }
}

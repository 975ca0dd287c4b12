//! The purge: what it goes by, and what it deletes.

use sqlx::SqliteConnection;

use super::errors::of_sqlx;
use crate::domain::KeyHash;
use crate::store::{Reading, StoreError};

pub(super) const RULES: &str = "\
-- ledger.rules
SELECT rules FROM meta";

pub(super) const RULES_CHANGED: &str = "\
-- ledger.rules_changed
UPDATE meta SET rules = rules + 1";

/// The purge's and operators' own.
pub(super) const DELETE: &str = "\
-- ledger.delete
DELETE FROM entries WHERE key = ?1 AND version = ?2 AND max(version, token) + 60000000 < ?3";

pub(super) async fn rules(connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    sqlx::query_scalar(RULES).fetch_one(connection).await.map_err(|error| of_sqlx(&error))
}

pub(super) async fn rules_changed(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    sqlx::query(RULES_CHANGED).execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(())
}

/// Nobody else writes meanwhile: the rules that are found stay so until the end.
pub(super) async fn purge(
    connection: &mut SqliteConnection,
    reading: Reading,
    entries: Vec<(KeyHash, i64)>,
    judged_by: i64,
) -> Result<usize, StoreError> {
    let mut gone = 0;
    if reading.behind() || rules(connection).await? != judged_by {
        return Ok(gone);
    }
    for (key, version) in entries {
        gone += usize::from(delete(connection, reading, key, version).await?);
    }
    Ok(gone)
}

pub(super) async fn delete(
    connection: &mut SqliteConnection,
    reading: Reading,
    key: KeyHash,
    version: i64,
) -> Result<bool, StoreError> {
    let query = sqlx::query(DELETE).bind(key).bind(version).bind(reading.token_clock());
    let done = query.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(done.rows_affected() == 1)
}

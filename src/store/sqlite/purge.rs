//! The purge: what it goes by, and what it deletes.

use sqlx::SqliteConnection;

use super::errors::of_sqlx;
use crate::domain::{KeyHash, PurgeStatus, PurgeWorker, Reading, StoreTime};
use crate::store::StoreError;
use crate::store::purge::{HEARD_OF, WORKERS_MAX};
use crate::store::row::WorkerRow;

pub(super) const POLICY_EPOCH: &str = "\
-- ledger.policy_epoch
SELECT rules FROM meta";

pub(super) const RAISE_POLICY_EPOCH: &str = "\
-- ledger.raise_policy_epoch
UPDATE meta SET rules = rules + 1";

/// The purge's and operators' own.
pub(super) const DELETE: &str = "\
-- ledger.delete
DELETE FROM entries WHERE key = ?1 AND version = ?2 AND max(version, token) + 60000000 < ?3";

pub(super) const PURGES_FORGET: &str = "\
-- ledger.purges_forget
DELETE FROM purges WHERE last_run_at < ?1";

pub(super) const PURGES_REPORT: &str = "\
-- ledger.purges_report
INSERT INTO purges (replica, last_run_at, purged_total, purged_per_second, last_error, last_error_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (replica) DO UPDATE SET last_run_at = excluded.last_run_at, purged_total = excluded.purged_total,
    purged_per_second = excluded.purged_per_second, last_error = excluded.last_error,
    last_error_at = excluded.last_error_at";

pub(super) const BACKLOG: &str = "\
-- ledger.backlog
SELECT count(*) AS due, min(sweep_at) AS oldest
FROM (SELECT sweep_at FROM entries WHERE sweep_at <= ?1 ORDER BY sweep_at LIMIT ?2)";

pub(super) const PURGES: &str = "\
-- ledger.purges
SELECT replica, last_run_at, purged_total, purged_per_second, last_error, last_error_at
FROM purges WHERE last_run_at >= ?1
ORDER BY last_run_at DESC, replica LIMIT ?2";

pub(super) async fn policy_epoch(connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    sqlx::query_scalar(POLICY_EPOCH).fetch_one(connection).await.map_err(|error| of_sqlx(&error))
}

pub(super) async fn raise_policy_epoch(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    sqlx::query(RAISE_POLICY_EPOCH).execute(connection).await.map_err(|error| of_sqlx(&error))?;
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
    if reading.behind() || policy_epoch(connection).await? != judged_by {
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

pub(super) async fn report(connection: &mut SqliteConnection, worker: PurgeWorker) -> Result<(), StoreError> {
    let forget = sqlx::query(PURGES_FORGET).bind((worker.last_run_at - HEARD_OF).micros());
    forget.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    let query = sqlx::query(PURGES_REPORT)
        .bind(worker.replica)
        .bind(worker.last_run_at.micros())
        .bind(worker.purged_total)
        .bind(worker.purged_per_second)
        .bind(worker.last_error)
        .bind(worker.last_error_at.map(StoreTime::micros));
    query.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(())
}

pub(super) async fn status(
    connection: &mut SqliteConnection,
    reading: Reading,
    due_max: usize,
) -> Result<PurgeStatus, StoreError> {
    let query = sqlx::query_as::<_, (i64, Option<i64>)>(BACKLOG)
        .bind(reading.now.micros())
        .bind(i64::try_from(due_max).unwrap_or(i64::MAX));
    let (due, oldest) = query.fetch_one(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    let query =
        sqlx::query_as::<_, WorkerRow>(PURGES).bind((reading.now - HEARD_OF).micros()).bind(WORKERS_MAX);
    let workers = query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(PurgeStatus {
        due: usize::try_from(due).unwrap_or(0),
        oldest: oldest.map(StoreTime),
        workers: workers.into_iter().map(PurgeWorker::from).collect(),
    })
}

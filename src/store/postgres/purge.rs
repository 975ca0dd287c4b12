//! The purge: what it goes by, and what it deletes.

use super::errors::of_sqlx;
use super::{PgSession, column};
use crate::domain::{KeyHash, PurgeStatus, PurgeWorker, Reading, StoreTime};
use crate::store::purge::{HEARD_OF, WORKERS_MAX};
use crate::store::row::WorkerRow;
use crate::store::{Session as _, StoreError};

pub(super) const POLICY_EPOCH: &str = "\
-- ledger.policy_epoch
SELECT rules FROM ledger.meta";

/// After `consumers`, in every transaction: two that came the other way round would wait for each other.
///
/// The row stays locked until the commit, so that the numbers become visible in their order: whoever sees one
/// sees all changes below it. A number never comes twice, not even where a promoted database lost the
/// commits that had used it: the clock moves on.
pub(super) const RAISE_POLICY_EPOCH: &str = "\
-- ledger.raise_policy_epoch
UPDATE ledger.meta SET rules = greatest(rules + 1, ledger.clock())";

/// It sees the rules as they stood when it began. A change of policy that is committed while it runs is
/// later than the purge: the window floor which that one sets leaves the purge's margin for it, and no
/// statement runs for as long.
pub(super) const PURGE: &str = "\
-- ledger.purge
WITH clock AS MATERIALIZED (
    SELECT ledger.clock() + token_offset AS token_clock, clock_mark FROM ledger.meta WHERE rules = $4
)
DELETE FROM ledger.entries e
USING clock c CROSS JOIN unnest($1::uuid[], $2::bigint[]) AS r(key, version)
WHERE e.key = ANY (ARRAY[r.key]) AND e.created_at >= ANY (ARRAY[0 * r.version])
  AND e.version = r.version AND greatest(e.version, e.token) + 60000000 < c.token_clock
  AND c.token_clock >= greatest(c.clock_mark, $3)";

/// An operator's, whatever the rules.
pub(super) const DELETE: &str = "\
-- ledger.delete
WITH clock AS MATERIALIZED (SELECT ledger.clock() + token_offset AS token_clock, clock_mark FROM ledger.meta)
DELETE FROM ledger.entries e
USING clock c
WHERE e.key = ANY (ARRAY[$1::uuid]) AND e.created_at >= ANY (ARRAY[0::bigint])
  AND e.version = $2 AND greatest(e.version, e.token) + 60000000 < c.token_clock
  AND c.token_clock >= greatest(c.clock_mark, $3)";

pub(super) const PURGES_REPORT: &str = "\
-- ledger.purges_report
WITH forgotten AS (DELETE FROM ledger.purges WHERE last_run_at < $7 AND replica <> $1)
INSERT INTO ledger.purges (replica, last_run_at, purged_total, purged_per_second, last_error, last_error_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (replica) DO UPDATE SET last_run_at = excluded.last_run_at, purged_total = excluded.purged_total,
    purged_per_second = excluded.purged_per_second, last_error = excluded.last_error,
    last_error_at = excluded.last_error_at";

pub(super) const BACKLOG: &str = "\
-- ledger.backlog
SELECT count(*) AS due, min(w.sweep_at) AS oldest
FROM (SELECT e.sweep_at FROM ledger.entries e WHERE e.sweep_at <= $1 ORDER BY e.sweep_at LIMIT $2) w";

pub(super) const PURGES: &str = "\
-- ledger.purges
SELECT replica, last_run_at, purged_total, purged_per_second, last_error, last_error_at
FROM ledger.purges WHERE last_run_at >= $1
ORDER BY last_run_at DESC, replica LIMIT $2";

impl PgSession {
    pub(super) async fn policy_epoch_now(&mut self) -> Result<i64, StoreError> {
        let query = sqlx::query_scalar::<_, i64>(POLICY_EPOCH).persistent(self.persistent);
        query.fetch_one(&mut self.connection).await.map_err(of_sqlx)
    }

    pub(super) async fn raise_policy_epoch(&mut self) -> Result<(), StoreError> {
        self.query(RAISE_POLICY_EPOCH).execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(())
    }

    pub(super) async fn purge_by(
        &mut self,
        entries: &[(KeyHash, i64)],
        policy_epoch: i64,
    ) -> Result<usize, StoreError> {
        let query = self
            .query(PURGE)
            .bind(column(entries, |one| one.0))
            .bind(column(entries, |one| one.1))
            .bind(self.mark.get())
            .bind(policy_epoch);
        let done = query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
    }

    pub(super) async fn delete(&mut self, key: KeyHash, version: i64) -> Result<bool, StoreError> {
        let query = self.query(DELETE).bind(key).bind(version).bind(self.mark.get());
        let done = query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(done.rows_affected() == 1)
    }

    pub(super) async fn write_purge_report(&mut self, worker: &PurgeWorker) -> Result<(), StoreError> {
        let query = self
            .query(PURGES_REPORT)
            .bind(worker.replica)
            .bind(worker.last_run_at.micros())
            .bind(worker.purged_total)
            .bind(worker.purged_per_second)
            .bind(worker.last_error.clone())
            .bind(worker.last_error_at.map(StoreTime::micros))
            .bind((worker.last_run_at - HEARD_OF).micros());
        query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(())
    }

    pub(super) async fn read_purge_status(
        &mut self,
        due_max: usize,
    ) -> Result<(Reading, PurgeStatus), StoreError> {
        let reading = self.load(&[]).await?.reading;
        let query = sqlx::query_as::<_, (i64, Option<i64>)>(BACKLOG)
            .persistent(self.persistent)
            .bind(reading.now.micros())
            .bind(i64::try_from(due_max).unwrap_or(i64::MAX));
        let (due, oldest) = query.fetch_one(&mut self.connection).await.map_err(of_sqlx)?;
        let query = sqlx::query_as::<_, WorkerRow>(PURGES)
            .persistent(self.persistent)
            .bind((reading.now - HEARD_OF).micros())
            .bind(WORKERS_MAX);
        let workers = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let status = PurgeStatus {
            due: usize::try_from(due).unwrap_or(0),
            oldest: oldest.map(StoreTime),
            workers: workers.into_iter().map(PurgeWorker::from).collect(),
        };
        Ok((reading, status))
    }
}

//! Replay runs, and how they begin and end.

use async_trait::async_trait;

use super::PgSession;
use super::errors::of_sqlx;
use crate::domain::{AuditEvent, ReplayRun, StoreTime};
use crate::store::replays::{REPLAY_LEVEL, RunRow, number, readable};
use crate::store::{ROWS_MAX, ReplayBook, StoreError, WriteResult};

pub(super) const REPLAY_RUNS: &str = "\
-- ledger.replay_runs
SELECT consumer, name, mode, created_at, ends_at, closed_at, actor, reason FROM ledger.replay_runs
WHERE swept_at IS NULL ORDER BY consumer, name";

pub(super) const REPLAY_RUN: &str = "\
-- ledger.replay_run
SELECT consumer, name, mode, created_at, ends_at, closed_at, actor, reason FROM ledger.replay_runs
WHERE consumer = $1 AND name = $2";

pub(super) const REPLAY_RUNS_OF: &str = "\
-- ledger.replay_runs_of
SELECT consumer, name, mode, created_at, ends_at, closed_at, actor, reason FROM ledger.replay_runs
WHERE consumer = $1 AND name > $2 ORDER BY name LIMIT $3";

/// Raises epoch and level before a run is added. The row of `meta` stays locked until the commit: a change of policy that could
/// end the run sooner is committed either before, and then no run is added, or afterwards, and then sees the run.
pub(super) const REPLAY_BEGIN: &str = "\
-- ledger.replay_begin
UPDATE ledger.meta SET policy_epoch = greatest(policy_epoch + 1, ledger.clock()), level = greatest(level, $2)
WHERE policy_epoch = $1";

pub(super) const REPLAY_ADD: &str = "\
-- ledger.replay_add
INSERT INTO ledger.replay_runs (consumer, name, mode, created_at, ends_at, actor, reason)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";

pub(super) const REPLAY_CLOSE: &str = "\
-- ledger.replay_close
UPDATE ledger.replay_runs SET closed_at = $3 WHERE consumer = $1 AND name = $2 AND closed_at IS NULL";

pub(super) const REPLAY_SWEEP: &str = "\
-- ledger.replay_sweep
UPDATE ledger.replay_runs SET swept_at = $3 WHERE consumer = $1 AND name = $2 AND swept_at IS NULL";

/// Marks runs that have ended and have no entries as swept. A run that has ended grants nothing, so a run without entries stays
/// without entries. The index of its consumer shows whether it has one.
pub(super) const REPLAYS_SWEEP_EMPTY: &str = "\
-- ledger.replays_sweep_empty
UPDATE ledger.replay_runs u SET swept_at = $2
FROM (
    SELECT s.consumer, s.name FROM ledger.replay_runs s
    WHERE s.swept_at IS NULL AND least(s.ends_at, s.closed_at) < $1
      AND NOT EXISTS (
          SELECT 1 FROM ledger.consumers n JOIN ledger.entries e ON e.consumer = n.no
          WHERE n.name = s.consumer || chr(31) || s.name)
    ORDER BY s.consumer, s.name LIMIT $3
) AS r
WHERE u.consumer = r.consumer AND u.name = r.name AND u.swept_at IS NULL";

/// Ends runs sooner whose consumer has a shorter retention now. Follows a change of retentions, after the policy epoch in the
/// same transaction: so it sees every run that was added under an earlier epoch. A run ends before the first of its entries can
/// be purged, and never reopens. The end is never set in the past: until every server knows of it, the purge leaves the run's
/// entries.
pub(super) const REPLAYS_SHORTEN: &str = "\
-- ledger.replays_shorten
UPDATE ledger.replay_runs u SET ends_at = r.ends_at
FROM (
    SELECT s.consumer, s.name,
        greatest(s.created_at + coalesce(n.retention, d.retention), c.now) AS ends_at
    FROM ledger.replay_runs s
    CROSS JOIN (SELECT ledger.clock() AS now FROM ledger.meta) c
    LEFT JOIN ledger.consumers n ON n.name = s.consumer
    LEFT JOIN ledger.consumers d ON d.name = ''
    WHERE s.swept_at IS NULL AND coalesce(n.retention, d.retention) IS NOT NULL
) AS r
WHERE u.consumer = r.consumer AND u.name = r.name AND u.ends_at > r.ends_at";

#[async_trait]
impl ReplayBook for PgSession {
    async fn replay_runs(&mut self) -> Result<Vec<ReplayRun>, StoreError> {
        let query = sqlx::query_as::<_, RunRow>(REPLAY_RUNS).persistent(self.persistent);
        Ok(readable(query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?))
    }

    async fn replay_run(&mut self, consumer: &str, name: &str) -> Result<Option<ReplayRun>, StoreError> {
        let query = sqlx::query_as::<_, RunRow>(REPLAY_RUN).persistent(self.persistent);
        let query = query.bind(consumer.to_owned()).bind(name.to_owned());
        Ok(readable(query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?).pop())
    }

    async fn replay_runs_of(
        &mut self,
        consumer: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<ReplayRun>, StoreError> {
        let query = sqlx::query_as::<_, RunRow>(REPLAY_RUNS_OF)
            .persistent(self.persistent)
            .bind(consumer.to_owned())
            .bind(after.to_owned())
            .bind(i64::try_from(limit).unwrap_or(i64::MAX));
        Ok(readable(query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?))
    }

    async fn add_replay_run(
        &mut self,
        run: &ReplayRun,
        policy_epoch: i64,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        self.connection.begin().await?;
        let outcome = self.add_run_within_transaction(run, policy_epoch, event).await;
        self.end(outcome).await
    }

    async fn close_replay_run(
        &mut self,
        consumer: &str,
        name: &str,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        self.connection.begin().await?;
        let outcome = self.close_run_within_transaction(consumer, name, event).await;
        self.end(outcome).await
    }

    async fn sweep_replay_run(
        &mut self,
        consumer: &str,
        name: &str,
        at: StoreTime,
    ) -> Result<(), StoreError> {
        let query =
            self.query(REPLAY_SWEEP).bind(consumer.to_owned()).bind(name.to_owned()).bind(at.micros());
        query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(())
    }

    async fn sweep_empty_runs(
        &mut self,
        ended_before: StoreTime,
        at: StoreTime,
    ) -> Result<usize, StoreError> {
        self.connection.begin().await?;
        let swept = self.sweep_within_transaction(ended_before, at).await;
        let (swept, outcome) = match swept {
            Ok(swept) => (swept, Ok(if swept > 0 { WriteResult::Done } else { WriteResult::Lost })),
            Err(error) => (0, Err(error)),
        };
        self.end(outcome).await?;
        Ok(swept)
    }
}

impl PgSession {
    /// Locks the policy epoch first, like changes of retentions, to avoid deadlocks.
    async fn sweep_within_transaction(
        &mut self,
        ended_before: StoreTime,
        at: StoreTime,
    ) -> Result<usize, StoreError> {
        self.raise_policy_epoch().await?;
        let sweep = self.query(REPLAYS_SWEEP_EMPTY).bind(ended_before.micros()).bind(at.micros());
        let sweep = sweep.bind(i64::try_from(ROWS_MAX).unwrap_or(i64::MAX));
        let swept = sweep.execute(&mut self.connection).await.map_err(of_sqlx)?.rows_affected();
        Ok(usize::try_from(swept).unwrap_or(usize::MAX))
    }

    async fn add_run_within_transaction(
        &mut self,
        run: &ReplayRun,
        policy_epoch: i64,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        if !self.add_event(event).await? {
            return Ok(WriteResult::Repeated);
        }
        let begin = self.query(REPLAY_BEGIN).bind(policy_epoch).bind(REPLAY_LEVEL);
        if begin.execute(&mut self.connection).await.map_err(of_sqlx)?.rows_affected() == 0 {
            return Ok(WriteResult::Lost);
        }
        let add = self
            .query(REPLAY_ADD)
            .bind(run.consumer.clone())
            .bind(run.name.clone())
            .bind(number(run.mode))
            .bind(run.created_at.micros())
            .bind(run.ends_at.micros())
            .bind(run.actor.clone())
            .bind(run.reason.clone());
        let added = add.execute(&mut self.connection).await.map_err(of_sqlx)?.rows_affected() > 0;
        Ok(if added { WriteResult::Done } else { WriteResult::Lost })
    }

    async fn close_run_within_transaction(
        &mut self,
        consumer: &str,
        name: &str,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        if !self.add_event(event).await? {
            return Ok(WriteResult::Repeated);
        }
        // Before the row of the run, to avoid a deadlock: `REPLAYS_SHORTEN` locks them in this order.
        self.raise_policy_epoch().await?;
        let close = self.query(REPLAY_CLOSE).bind(consumer.to_owned()).bind(name.to_owned());
        let close = close.bind(event.at.micros());
        let closed = close.execute(&mut self.connection).await.map_err(of_sqlx)?.rows_affected() > 0;
        Ok(if closed { WriteResult::Done } else { WriteResult::Lost })
    }

    /// See [`REPLAYS_SHORTEN`].
    pub(super) async fn shorten_runs(&mut self) -> Result<(), StoreError> {
        self.query(REPLAYS_SHORTEN).execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(())
    }
}

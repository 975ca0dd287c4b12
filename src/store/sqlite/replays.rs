//! Replay runs, and how they begin and end.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;

use super::SqliteSession;
use super::audit::{add_event, repeated};
use super::errors::of_sqlx;
use super::file::Work;
use super::policies::raise_policy_epoch;
use crate::domain::{AuditEvent, ReplayRun, StoreTime};
use crate::store::replays::{REPLAY_LEVEL, RunRow, number, readable};
use crate::store::{ROWS_MAX, ReplayBook, StoreError, WriteResult};

pub(super) const REPLAY_RUNS: &str = "\
-- ledger.replay_runs
SELECT consumer, name, mode, created_at, ends_at, closed_at, actor, reason FROM replay_runs
WHERE swept_at IS NULL ORDER BY consumer, name";

pub(super) const REPLAY_RUN: &str = "\
-- ledger.replay_run
SELECT consumer, name, mode, created_at, ends_at, closed_at, actor, reason FROM replay_runs
WHERE consumer = ?1 AND name = ?2";

pub(super) const REPLAY_RUNS_OF: &str = "\
-- ledger.replay_runs_of
SELECT consumer, name, mode, created_at, ends_at, closed_at, actor, reason FROM replay_runs
WHERE consumer = ?1 AND name > ?2 ORDER BY name LIMIT ?3";

pub(super) const REPLAY_BEGIN: &str = "\
-- ledger.replay_begin
UPDATE meta SET policy_epoch = policy_epoch + 1, level = max(level, ?2) WHERE policy_epoch = ?1";

pub(super) const REPLAY_ADD: &str = "\
-- ledger.replay_add
INSERT INTO replay_runs (consumer, name, mode, created_at, ends_at, actor, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING";

pub(super) const REPLAY_CLOSE: &str = "\
-- ledger.replay_close
UPDATE replay_runs SET closed_at = ?3 WHERE consumer = ?1 AND name = ?2 AND closed_at IS NULL";

pub(super) const REPLAY_SWEEP: &str = "\
-- ledger.replay_sweep
UPDATE replay_runs SET swept_at = ?3 WHERE consumer = ?1 AND name = ?2 AND swept_at IS NULL";

/// Marks runs that have ended and have no entries as swept. A run that has ended grants nothing, so a run
/// without entries stays without entries.
pub(super) const REPLAYS_SWEEP_EMPTY: &str = "\
-- ledger.replays_sweep_empty
UPDATE replay_runs SET swept_at = ?2
WHERE rowid IN (
    SELECT s.rowid FROM replay_runs s
    WHERE s.swept_at IS NULL AND min(s.ends_at, coalesce(s.closed_at, s.ends_at)) < ?1
      AND NOT EXISTS (
          SELECT 1 FROM consumers n JOIN entries e ON e.consumer = n.no
          WHERE n.name = s.consumer || char(31) || s.name)
    ORDER BY s.consumer, s.name LIMIT ?3)";

#[async_trait]
impl ReplayBook for SqliteSession {
    async fn replay_runs(&mut self) -> Result<Vec<ReplayRun>, StoreError> {
        let work: Work<Vec<ReplayRun>> = Box::new(|connection, _, _| {
            Box::pin(async move {
                let rows = sqlx::query_as::<_, RunRow>(REPLAY_RUNS).fetch_all(connection).await;
                Ok(readable(rows.map_err(|error| of_sqlx(&error))?))
            })
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn replay_run(&mut self, consumer: &str, name: &str) -> Result<Option<ReplayRun>, StoreError> {
        let (consumer, name) = (consumer.to_owned(), name.to_owned());
        let work: Work<Option<ReplayRun>> = Box::new(move |connection, _, _| {
            Box::pin(async move {
                let query = sqlx::query_as::<_, RunRow>(REPLAY_RUN).bind(consumer).bind(name);
                let rows = query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))?;
                Ok(readable(rows).pop())
            })
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn replay_runs_of(
        &mut self,
        consumer: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<ReplayRun>, StoreError> {
        let (consumer, after) = (consumer.to_owned(), after.to_owned());
        let work: Work<Vec<ReplayRun>> = Box::new(move |connection, _, _| {
            Box::pin(async move {
                let query = sqlx::query_as::<_, RunRow>(REPLAY_RUNS_OF).bind(consumer).bind(after);
                let query = query.bind(i64::try_from(limit).unwrap_or(i64::MAX));
                Ok(readable(query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))?))
            })
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn add_replay_run(
        &mut self,
        run: &ReplayRun,
        policy_epoch: i64,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        let (run, event) = (run.clone(), event.clone());
        let work: Work<WriteResult> =
            Box::new(move |connection, _, _| Box::pin(add_run(connection, run, policy_epoch, event)));
        Ok(self.file.write(work).await?.1)
    }

    async fn close_replay_run(
        &mut self,
        consumer: &str,
        name: &str,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        let (consumer, name, event) = (consumer.to_owned(), name.to_owned(), event.clone());
        let work: Work<WriteResult> =
            Box::new(move |connection, _, _| Box::pin(close_run(connection, consumer, name, event)));
        Ok(self.file.write(work).await?.1)
    }

    async fn sweep_replay_run(
        &mut self,
        consumer: &str,
        name: &str,
        at: StoreTime,
    ) -> Result<(), StoreError> {
        let (consumer, name) = (consumer.to_owned(), name.to_owned());
        let work: Work<()> = Box::new(move |connection, _, _| {
            Box::pin(async move {
                let sweep = sqlx::query(REPLAY_SWEEP).bind(consumer).bind(name).bind(at.micros());
                sweep.execute(connection).await.map_err(|error| of_sqlx(&error))?;
                Ok(())
            })
        });
        self.file.write(work).await?;
        Ok(())
    }

    async fn sweep_empty_runs(
        &mut self,
        ended_before: StoreTime,
        at: StoreTime,
    ) -> Result<usize, StoreError> {
        let work: Work<usize> =
            Box::new(move |connection, _, _| Box::pin(sweep_empty(connection, ended_before, at)));
        Ok(self.file.write(work).await?.1)
    }
}

async fn sweep_empty(
    connection: &mut SqliteConnection,
    ended_before: StoreTime,
    at: StoreTime,
) -> Result<usize, StoreError> {
    let sweep = sqlx::query(REPLAYS_SWEEP_EMPTY).bind(ended_before.micros()).bind(at.micros());
    let sweep = sweep.bind(i64::try_from(ROWS_MAX).unwrap_or(i64::MAX));
    let swept = sweep.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?.rows_affected();
    if swept > 0 {
        raise_policy_epoch(connection).await?;
    }
    Ok(usize::try_from(swept).unwrap_or(usize::MAX))
}

async fn add_run(
    connection: &mut SqliteConnection,
    run: ReplayRun,
    policy_epoch: i64,
    event: AuditEvent,
) -> Result<WriteResult, StoreError> {
    if repeated(connection, &event).await? {
        return Ok(WriteResult::Repeated);
    }
    let taken = sqlx::query_as::<_, RunRow>(REPLAY_RUN).bind(run.consumer.clone()).bind(run.name.clone());
    if taken.fetch_optional(&mut *connection).await.map_err(|error| of_sqlx(&error))?.is_some() {
        return Ok(WriteResult::Lost);
    }
    let begin = sqlx::query(REPLAY_BEGIN).bind(policy_epoch).bind(REPLAY_LEVEL);
    if begin.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?.rows_affected() == 0 {
        return Ok(WriteResult::Lost);
    }
    let add = sqlx::query(REPLAY_ADD)
        .bind(run.consumer)
        .bind(run.name)
        .bind(number(run.mode))
        .bind(run.created_at.micros())
        .bind(run.ends_at.micros())
        .bind(run.actor)
        .bind(run.reason);
    add.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    add_event(connection, event).await?;
    Ok(WriteResult::Done)
}

async fn close_run(
    connection: &mut SqliteConnection,
    consumer: String,
    name: String,
    event: AuditEvent,
) -> Result<WriteResult, StoreError> {
    if repeated(connection, &event).await? {
        return Ok(WriteResult::Repeated);
    }
    let close = sqlx::query(REPLAY_CLOSE).bind(consumer).bind(name).bind(event.at.micros());
    if close.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?.rows_affected() == 0 {
        return Ok(WriteResult::Lost);
    }
    raise_policy_epoch(connection).await?;
    add_event(connection, event).await?;
    Ok(WriteResult::Done)
}

//! Background work of a server; the statements of the purge are in `purge.rs`. The heartbeat uses the single writing connection
//! of the file, like claims: so it fails if another process has locked the file and blocks them.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;

use super::errors::of_sqlx;
use super::file::Work;
use super::{SqliteSession, purge};
use crate::domain::{KeyHash, PurgeWorker, Reading, Span, StoreTime};
use crate::store::upkeep::{FORGOTTEN_MAX, HEARD_OF, acceptable};
use crate::store::{Created, PurgeTurn, Replica, StoreError, Upkeep};

pub(super) const BEAT: &str = "\
-- ledger.beat
UPDATE meta SET clock_mark = max(clock_mark, ?1 + token_offset)";

pub(super) const REPLICA_TELL: &str = "\
-- ledger.replica_tell
INSERT INTO replicas (replica, heard_at, speaks, version)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (replica) DO UPDATE SET heard_at = excluded.heard_at, speaks = excluded.speaks,
    version = excluded.version";

pub(super) const REPLICAS_FORGET: &str = "\
-- ledger.replicas_forget
DELETE FROM replicas
WHERE replica IN (SELECT o.replica FROM replicas o WHERE o.heard_at < ?1 AND o.replica <> ?2 LIMIT ?3)";

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

pub(super) const AUDIT_PURGE: &str = "\
-- ledger.audit_purge
DELETE FROM audit
WHERE request_id IN (SELECT request_id FROM audit WHERE at < ?1 ORDER BY at, request_id LIMIT ?2)";

#[async_trait]
impl Upkeep for SqliteSession {
    async fn write_heartbeat(&mut self, replica: &Replica) -> Result<Reading, StoreError> {
        let (replica, file) = (replica.clone(), Arc::clone(&self.file));
        let work: Work<Option<i64>> = Box::new(move |connection, _, reading| {
            Box::pin(async move {
                beat(connection, reading, replica).await?;
                match file.location().losses() {
                    Some(losses) => losses.beat(connection).await,
                    None => Ok(None),
                }
            })
        });
        let (reading, count) = self.file.write(work).await?;
        if let (Some(losses), Some(count)) = (self.file.location().losses(), count) {
            losses.beaten(count).await;
        }
        self.file.location().watch_wal();
        Ok(reading)
    }

    /// Nothing to do: in `SQLite` every claim is in that index from the beginning.
    async fn index_open_claims(&mut self, _limit: usize) -> Result<usize, StoreError> {
        Ok(0)
    }

    async fn take_purge_turn(&mut self, hold: Span) -> Result<Option<PurgeTurn>, StoreError> {
        let work: Work<Option<PurgeTurn>> =
            Box::new(move |connection, _, reading| Box::pin(purge::take_turn(connection, reading, hold)));
        Ok(self.file.write(work).await?.1)
    }

    async fn end_purge_turn(&mut self, turn: &PurgeTurn, due: StoreTime) -> Result<(), StoreError> {
        let turn = turn.clone();
        let work: Work<()> =
            Box::new(move |connection, _, _| Box::pin(purge::end_turn(connection, turn, due)));
        let _: () = self.file.write(work).await?.1;
        Ok(())
    }

    async fn created_between(
        &mut self,
        turn: &PurgeTurn,
        after: StoreTime,
        until: StoreTime,
        limit: usize,
    ) -> Result<Created, StoreError> {
        let number = turn.number;
        let work: Work<Created> = Box::new(move |connection, dictionary, reading| {
            Box::pin(purge::created(connection, dictionary, reading, number, (after, until), limit))
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn first_created_after(
        &mut self,
        turn: &PurgeTurn,
        after: StoreTime,
    ) -> Result<Option<StoreTime>, StoreError> {
        let number = turn.number;
        let work: Work<Option<StoreTime>> =
            Box::new(move |connection, _, _| Box::pin(purge::created_first(connection, number, after)));
        Ok(self.file.write(work).await?.1)
    }

    async fn purge(&mut self, entries: &[(KeyHash, i64)], policy_epoch: i64) -> Result<usize, StoreError> {
        let entries = entries.to_vec();
        let work: Work<usize> = Box::new(move |connection, _, reading| {
            Box::pin(purge::delete_over(connection, reading, entries, policy_epoch))
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn report_purge(&mut self, worker: &PurgeWorker) -> Result<(), StoreError> {
        let worker = worker.clone();
        let work: Work<()> = Box::new(move |connection, _, _| Box::pin(report(connection, worker)));
        let _: () = self.file.write(work).await?.1;
        Ok(())
    }

    async fn purge_audit(&mut self, before: StoreTime, limit: usize) -> Result<usize, StoreError> {
        let work: Work<usize> = Box::new(move |connection, _, _| Box::pin(forget(connection, before, limit)));
        Ok(self.file.write(work).await?.1)
    }
}

pub(super) async fn beat(
    connection: &mut SqliteConnection,
    reading: Reading,
    replica: Replica,
) -> Result<(), StoreError> {
    // A reading of a wrong clock must not become the mark.
    if reading.is_sound() {
        let mark = sqlx::query(BEAT).bind(reading.now.micros());
        mark.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    }
    let forget = sqlx::query(REPLICAS_FORGET)
        .bind((reading.now - HEARD_OF).micros())
        .bind(replica.id)
        .bind(FORGOTTEN_MAX);
    forget.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    let tell = sqlx::query(REPLICA_TELL)
        .bind(replica.id)
        .bind(reading.now.micros())
        .bind(replica.speaks)
        .bind(replica.version);
    tell.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(())
}

/// Accepts the clock on behalf of an operator, however far it is ahead of its mark.
pub(super) async fn accept_clock(
    connection: &mut SqliteConnection,
    reading: Reading,
) -> Result<(), StoreError> {
    acceptable(&reading)?;
    let mark = sqlx::query(BEAT).bind(reading.now.micros());
    mark.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(())
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

pub(super) async fn forget(
    connection: &mut SqliteConnection,
    before: StoreTime,
    limit: usize,
) -> Result<usize, StoreError> {
    let query = sqlx::query(AUDIT_PURGE).bind(before.micros()).bind(i64::try_from(limit).unwrap_or(i64::MAX));
    let done = query.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
}

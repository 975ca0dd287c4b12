//! The heartbeat of the one process that has the file. It has the one writer of the file, as claims have:
//! whoever locks the file holds up all of them, and the heartbeat tells so.

use sqlx::SqliteConnection;

use super::errors::of_sqlx;
use crate::domain::{Reading, StoreTime};
use crate::store::purge::HEARD_OF;
use crate::store::replica::FORGOTTEN_MAX;
use crate::store::{Replica, StoreError};

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

pub(super) const REPLICAS_BELOW: &str = "\
-- ledger.replicas_below
SELECT replica, speaks, version FROM replicas
WHERE heard_at >= ?1 AND speaks < ?2
ORDER BY speaks, replica LIMIT ?3";

pub(super) async fn beat(
    connection: &mut SqliteConnection,
    reading: Reading,
    replica: Replica,
) -> Result<(), StoreError> {
    let mark = sqlx::query(BEAT).bind(reading.now.micros());
    mark.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
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

pub(super) async fn below(
    connection: &mut SqliteConnection,
    format: i32,
    heard_since: StoreTime,
    limit: usize,
) -> Result<Vec<Replica>, StoreError> {
    let query = sqlx::query_as::<_, Replica>(REPLICAS_BELOW)
        .bind(heard_since.micros())
        .bind(format)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX));
    query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))
}

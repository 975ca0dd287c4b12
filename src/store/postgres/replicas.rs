//! The heartbeat of a replica, and what other replicas told with theirs.

use super::PgSession;
use super::errors::of_sqlx;
use crate::domain::{Reading, StoreTime};
use crate::store::purge::HEARD_OF;
use crate::store::replica::FORGOTTEN_MAX;
use crate::store::{Replica, StoreError};

/// It waits for nobody: whoever changes a policy locks `meta` until the commit, and may stand still there. Then
/// the mark is left to a later heartbeat, of any replica. The replica's own row is always written, which
/// proves that the store takes writes.
pub(super) const BEAT: &str = "\
-- ledger.beat
WITH clock AS MATERIALIZED (
    SELECT ledger.clock() AS now, token_offset, clock_mark FROM ledger.meta
), free AS MATERIALIZED (
    SELECT m.one FROM ledger.meta m FOR NO KEY UPDATE SKIP LOCKED
), marked AS (
    UPDATE ledger.meta m SET clock_mark = greatest(m.clock_mark, c.now + m.token_offset)
    FROM clock c CROSS JOIN free f
    WHERE m.one = f.one
), old AS MATERIALIZED (
    SELECT o.replica FROM ledger.replicas o CROSS JOIN clock c
    WHERE o.heard_at < c.now - $4 AND o.replica <> $1
    LIMIT $5 FOR UPDATE OF o SKIP LOCKED
), forgotten AS (
    DELETE FROM ledger.replicas g USING old o WHERE g.replica = o.replica
), told AS (
    INSERT INTO ledger.replicas (replica, heard_at, speaks, version)
    SELECT $1::uuid, c.now, $2::int, $3::text FROM clock c
    ON CONFLICT (replica) DO UPDATE SET heard_at = excluded.heard_at, speaks = excluded.speaks,
        version = excluded.version
)
SELECT c.now AS clock_now, c.token_offset, c.clock_mark FROM clock c";

pub(super) const REPLICAS_BELOW: &str = "\
-- ledger.replicas_below
SELECT replica, speaks, version FROM ledger.replicas
WHERE heard_at >= $1 AND speaks < $2
ORDER BY speaks, replica LIMIT $3";

impl PgSession {
    pub(super) async fn write_heartbeat(&mut self, replica: &Replica) -> Result<Reading, StoreError> {
        let mark = self.mark.get();
        let query = self
            .query(BEAT)
            .bind(replica.id)
            .bind(replica.speaks)
            .bind(replica.version.clone())
            .bind(HEARD_OF.micros())
            .bind(FORGOTTEN_MAX);
        let row = query.fetch_one(&mut self.connection).await.map_err(of_sqlx)?;
        self.reading(&row, mark)
    }

    pub(super) async fn find_replicas_below(
        &mut self,
        format: i32,
        heard_since: StoreTime,
        limit: usize,
    ) -> Result<Vec<Replica>, StoreError> {
        let query = sqlx::query_as::<_, Replica>(REPLICAS_BELOW)
            .persistent(self.persistent)
            .bind(heard_since.micros())
            .bind(format)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX));
        query.fetch_all(&mut self.connection).await.map_err(of_sqlx)
    }
}

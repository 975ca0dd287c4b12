//! Background work of a server: heartbeat, the index of open claims, and reports of the purge, whose statements are in
//! `purge.rs`.

use async_trait::async_trait;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row as _};
use uuid::Uuid;

use super::errors::of_sqlx;
use super::schema_name::SchemaName;
use super::{PgSession, list_position, serves};
use crate::domain::{ClockLimits, KeyHash, PurgeWorker, Reading, Span, StoreTime, TOKEN_CLOCK_MAX};
use crate::store::numbers::number;
use crate::store::postgres::connection::connect::unavailable;
use crate::store::upkeep::{FORGOTTEN_MAX, HEARD_OF, acceptable};
use crate::store::{Created, Fault, PurgeTurn, Replica, StoreError, Upkeep};

/// How far the marks stay behind the clock, in microseconds. An insert may read the clock before it waits for a lock, but no
/// statement takes this long: all entries created before the mark are committed and visible.
const MARK_BEHIND: i64 = 60_000_000;

/// The number of consumers that one round of marking looks at.
const CONSUMERS_PER_ROUND: i64 = 100;

/// Accepts the clock on behalf of an operator, however far it is ahead of its mark.
const ACCEPT_CLOCK: &str = "\
-- ledger.accept_clock
UPDATE ledger.meta SET clock_mark = greatest(clock_mark, $1 + token_offset)";

const CLOCK: &str = "\
-- ledger.clock
SELECT ledger.clock() AS clock_now, token_offset, clock_mark FROM ledger.meta";

/// The write of a heartbeat. Never waits for a lock: a change of policies locks `meta` until its commit, which may take long.
/// Then a later heartbeat of any replica writes the mark (`SKIP LOCKED`). The replica's own row is always written, which proves
/// that the store accepts writes.
pub(super) const BEAT: &str = "\
-- ledger.beat
WITH clock AS MATERIALIZED (
    SELECT ledger.clock() AS now, token_offset, clock_mark, serves_from, level FROM ledger.meta
), free AS MATERIALIZED (
    SELECT m.one FROM ledger.meta m FOR NO KEY UPDATE SKIP LOCKED
), marked AS (
    UPDATE ledger.meta m SET clock_mark = greatest(m.clock_mark, c.now + m.token_offset)
    FROM clock c CROSS JOIN free f
    WHERE m.one = f.one AND c.now >= $6 AND c.now + m.token_offset <= $8
      AND (m.clock_mark = 0 OR c.now + m.token_offset - m.clock_mark <= $7)
), old AS MATERIALIZED (
    SELECT o.replica FROM ledger.replicas o CROSS JOIN clock c
    WHERE o.heard_at < c.now - $4 AND o.replica <> $1
    LIMIT $5 FOR UPDATE OF o SKIP LOCKED
), forgotten AS (
    DELETE FROM ledger.replicas g USING old o WHERE g.replica = o.replica
), reported AS (
    INSERT INTO ledger.replicas (replica, heard_at, speaks, version)
    SELECT $1::uuid, c.now, $2::int, $3::text FROM clock c
    ON CONFLICT (replica) DO UPDATE SET heard_at = excluded.heard_at, speaks = excluded.speaks,
        version = excluded.version
)
SELECT c.now AS clock_now, c.token_offset, c.clock_mark, c.serves_from, c.level FROM clock c";

pub(super) const PURGES_REPORT: &str = "\
-- ledger.purges_report
WITH forgotten AS (DELETE FROM ledger.purges WHERE last_run_at < $7 AND replica <> $1)
INSERT INTO ledger.purges (replica, last_run_at, purged_total, purged_per_second, last_error, last_error_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (replica) DO UPDATE SET last_run_at = excluded.last_run_at, purged_total = excluded.purged_total,
    purged_per_second = excluded.purged_per_second, last_error = excluded.last_error,
    last_error_at = excluded.last_error_at";

/// Deletes old audit events by a function of the owner: the servers' role may not delete events. The function keeps the events
/// that `audit_kept_for` of `meta` protects.
pub(super) const AUDIT_PURGE: &str = "\
-- ledger.audit_purge
SELECT ledger.forget_audit($1, $2) AS gone";

/// Sets back the marks that are too late by the present clock: after the clock was set back (and `token_offset` raised for it),
/// new entries are created before such a mark.
pub(super) const UNMARK: &str = "\
-- ledger.unmark
WITH clock AS MATERIALIZED (SELECT ledger.clock() - $1::bigint AS until FROM ledger.meta)
UPDATE ledger.consumers n
SET marked_at = c.until, marked_key = '00000000-0000-0000-0000-000000000000'
FROM clock c WHERE n.marked_at > c.until";

/// Finds the consumers with claims beyond their mark that are old enough to be marked.
pub(super) const UNMARKED: &str = "\
-- ledger.unmarked
WITH clock AS MATERIALIZED (SELECT ledger.clock() - $1::bigint AS until FROM ledger.meta)
SELECT n.no, c.until FROM clock c CROSS JOIN ledger.consumers n
WHERE n.no > $3 AND EXISTS (
    SELECT 1 FROM ledger.entries e
    WHERE e.consumer = n.no AND (e.created_at, e.key) > (n.marked_at, n.marked_key)
      AND e.created_at <= c.until
    OFFSET 0)
ORDER BY n.no LIMIT $2";

/// Reads the next claims of a consumer beyond its mark, and which of them are open. Includes all claims created at the same
/// instant as the last one: the index has no order among them.
pub(super) const UNMARKED_OPEN: &str = concat!(
    "-- ledger.unmarked_open
WITH passed AS MATERIALIZED (
    SELECT f.key, f.created_at, f.open FROM ledger.consumers n CROSS JOIN LATERAL (
        SELECT e.key, e.created_at, e.state = ",
    number!(IN_PROGRESS),
    " AND e.attention IS NULL AS open
        FROM ledger.entries e
        WHERE e.consumer = n.no AND (e.created_at, e.key) > (n.marked_at, n.marked_key) AND e.created_at <= $2
        ORDER BY e.created_at FETCH FIRST ($3) ROWS WITH TIES
    ) AS f
    WHERE n.no = $1
)
SELECT (SELECT count(*) FROM passed) AS looked_at, l.created_at AS last_at, l.key AS last_key, o.key
FROM (SELECT created_at, key FROM passed ORDER BY created_at DESC, key DESC LIMIT 1) AS l
LEFT JOIN passed o ON o.open"
);

/// Adds open claims to the index of open entries. Keeps their version: nothing that a client can see changes.
pub(super) const MARK: &str = concat!(
    "-- ledger.mark
UPDATE ledger.entries e SET attention = ",
    number!(IN_PROGRESS),
    "
FROM unnest($1::uuid[]) AS r(key)
WHERE e.key = ANY (ARRAY[r.key]) AND e.state = ",
    number!(IN_PROGRESS),
    " AND e.attention IS NULL"
);

pub(super) const MARKED: &str = "\
-- ledger.marked
UPDATE ledger.consumers n SET marked_at = $2, marked_key = $3
WHERE n.no = $1 AND (n.marked_at, n.marked_key) < ($2::bigint, $3::uuid)";

/// Sets the clock's mark to its present reading, with the rights of the schema's owner.
pub(super) async fn accept_clock(
    connection: &mut PgConnection,
    name: &SchemaName,
    limits: ClockLimits,
) -> Result<StoreTime, StoreError> {
    let rendered = |template: &str| AssertSqlSafe(name.render(template).into_owned());
    let read = sqlx::query(rendered(CLOCK)).persistent(false).fetch_one(&mut *connection).await;
    let row = read.map_err(|error| locked(error, name))?;
    let reading = Reading {
        now: StoreTime(row.try_get("clock_now").map_err(of_sqlx)?),
        token_offset: row.try_get("token_offset").map_err(of_sqlx)?,
        mark: row.try_get("clock_mark").map_err(of_sqlx)?,
        limits,
    };
    acceptable(&reading)?;
    let query = sqlx::query(rendered(ACCEPT_CLOCK)).persistent(false).bind(reading.now.micros());
    query.execute(connection).await.map_err(|error| locked(error, name))?;
    Ok(reading.now)
}

/// The error if a lock keeps the clock from being accepted.
fn locked(error: sqlx::Error, name: &SchemaName) -> StoreError {
    match of_sqlx(error) {
        StoreError::NotApplied(Fault::Locked(text)) => unavailable(format!(
            "{text}: another session has held a lock on {name}.meta for 5 s, and the clock was not accepted; pg_stat_activity \
             shows that session: wait for its end or end it, and run `migrate --accept-clock` again"
        )),
        error @ (StoreError::NotApplied(_) | StoreError::Unknown(_)) => error,
    }
}

#[async_trait]
impl Upkeep for PgSession {
    async fn write_heartbeat(&mut self, replica: &Replica) -> Result<Reading, StoreError> {
        let mark = self.mark.get();
        let query = self
            .query(BEAT)
            .bind(replica.id)
            .bind(replica.speaks)
            .bind(replica.version.clone())
            .bind(HEARD_OF.micros())
            .bind(FORGOTTEN_MAX)
            .bind(self.clock_limits.earliest.micros())
            .bind(self.clock_limits.jump_max.micros())
            .bind(TOKEN_CLOCK_MAX);
        let row = query.fetch_one(&mut self.connection).await.map_err(of_sqlx)?;
        serves(&row)?;
        self.reading(&row, mark)
    }

    /// Looks at each claim once it is a minute old, and adds it to the index of open entries if it is still open. Claims
    /// that are completed sooner, nearly all of them, never touch that index.
    async fn index_open_claims(&mut self, limit: usize) -> Result<usize, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let query = self.query(UNMARK).bind(MARK_BEHIND);
        query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        // Round robin: consumers that always have new claims do not starve the others.
        let after = std::mem::take(&mut self.marked_last);
        let query = self.query(UNMARKED).bind(MARK_BEHIND).bind(CONSUMERS_PER_ROUND).bind(after);
        let consumers = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let more = i64::try_from(consumers.len()).is_ok_and(|number| number >= CONSUMERS_PER_ROUND);
        let mut looked_at = 0;
        for consumer in &consumers {
            let no: i32 = consumer.try_get("no").map_err(of_sqlx)?;
            let until: i64 = consumer.try_get("until").map_err(of_sqlx)?;
            let query = self.query(UNMARKED_OPEN).bind(no).bind(until).bind(limit - looked_at);
            let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
            let Some(first) = rows.first() else { continue };
            looked_at += first.try_get::<i64, _>("looked_at").map_err(of_sqlx)?;
            let mut open = Vec::with_capacity(rows.len());
            for row in &rows {
                open.extend(row.try_get::<Option<Uuid>, _>("key").map_err(of_sqlx)?);
            }
            // Ordered by key, like every write, to avoid deadlocks.
            open.sort_unstable();
            if !open.is_empty() {
                let query = self.query(MARK).bind(open);
                query.execute(&mut self.connection).await.map_err(of_sqlx)?;
            }
            if let Some((at, key)) = list_position(first, "last_at", "last_key")? {
                let query = self.query(MARKED).bind(no).bind(at.micros()).bind(key);
                query.execute(&mut self.connection).await.map_err(of_sqlx)?;
            }
            if looked_at >= limit || more {
                self.marked_last = no;
            }
            if looked_at >= limit {
                break;
            }
        }
        // A round that began in the middle of the consumers does not know whether those before it have more.
        Ok(usize::try_from(if more || after > 0 { limit } else { looked_at }).unwrap_or(usize::MAX))
    }

    async fn take_purge_turn(&mut self, hold: Span) -> Result<Option<PurgeTurn>, StoreError> {
        self.take_turn(hold).await
    }

    async fn end_purge_turn(&mut self, turn: &PurgeTurn, due: StoreTime) -> Result<(), StoreError> {
        self.end_turn(turn, due).await
    }

    async fn created_between(
        &mut self,
        turn: &PurgeTurn,
        after: StoreTime,
        until: StoreTime,
        limit: usize,
    ) -> Result<Created, StoreError> {
        self.created(turn, after, until, limit).await
    }

    async fn first_created_after(
        &mut self,
        turn: &PurgeTurn,
        after: StoreTime,
    ) -> Result<Option<StoreTime>, StoreError> {
        self.created_first(turn, after).await
    }

    async fn purge(&mut self, entries: &[(KeyHash, i64)], policy_epoch: i64) -> Result<usize, StoreError> {
        self.delete_over(entries, policy_epoch).await
    }

    async fn report_purge(&mut self, worker: &PurgeWorker) -> Result<(), StoreError> {
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

    async fn purge_audit(&mut self, before: StoreTime, limit: usize) -> Result<usize, StoreError> {
        let query =
            self.query(AUDIT_PURGE).bind(before.micros()).bind(i64::try_from(limit).unwrap_or(i64::MAX));
        let row = query.fetch_one(&mut self.connection).await.map_err(of_sqlx)?;
        let gone: i64 = row.try_get("gone").map_err(of_sqlx)?;
        Ok(usize::try_from(gone).unwrap_or(usize::MAX))
    }
}

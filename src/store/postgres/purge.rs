//! The purge: the turns of consumers, the entries that it looks at, and those that it deletes.

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::errors::of_sqlx;
use super::{PgSession, column};
use crate::domain::{KeyHash, SETTLED, Span, StoreTime};
use crate::store::columns::{columns, select_list};
use crate::store::row::readable;
use crate::store::schema::{known, level};
use crate::store::{Created, Entries as _, PurgePlace, PurgeTurn, StoreError, TURN_MAX};

/// Takes the turn of the consumer that has been due for the longest time. Skips a row that another session has locked: a change
/// of policies may hold its lock for long.
pub(super) const PURGE_TAKE: &str = "\
-- ledger.purge_take
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS now, token_offset, clock_mark FROM ledger.meta),
next AS MATERIALIZED (
    SELECT n.no FROM ledger.consumers n CROSS JOIN clock c
    WHERE n.name <> ''
      AND (n.purge_due <= c.now OR n.purge_due > c.now + $2)
      AND (n.purge_held <= c.now OR n.purge_held > c.now + $2)
    ORDER BY n.purge_due LIMIT 1 FOR NO KEY UPDATE OF n SKIP LOCKED
)
UPDATE ledger.consumers n SET purge_held = c.now + $1
FROM clock c CROSS JOIN next t
WHERE n.no = t.no
RETURNING c.now AS clock_now, c.token_offset, c.clock_mark, n.no, n.name, n.purge_held, n.purge_passed,
    n.purge_again, n.purge_again_due";

pub(super) const PURGE_END: &str = "\
-- ledger.purge_end
UPDATE ledger.consumers n
SET purge_held = 0, purge_due = $3, purge_passed = $4, purge_again = $5, purge_again_due = $6
WHERE n.no = $1 AND n.purge_held = $2";

/// Reads a consumer's entries in the order of their creation. Entries created at the same instant have no order in the index, so
/// they are returned together. Each comes with its physical position (`ctid`).
pub(super) const CREATED: &str = concat!(
    "-- ledger.created
SELECT ",
    columns!(),
    ", e.ctid::text AS place
FROM ledger.entries e
WHERE e.consumer = $1 AND e.created_at > $2 AND e.created_at <= $3
ORDER BY e.created_at FETCH FIRST ($4) ROWS WITH TIES"
);

pub(super) const CREATED_FIRST: &str = "\
-- ledger.created_first
SELECT e.created_at FROM ledger.entries e
WHERE e.consumer = $1 AND e.created_at > $2
ORDER BY e.created_at LIMIT 1";

/// Deletes entries that were judged to be over, if neither they nor the policies have changed since. Sees the policies of its
/// snapshot. A change of policies that is committed while it runs counts as later than the purge: the window floor of that change
/// leaves a margin for the purge, and no statement runs as long as that margin. A row is found by the physical position (`ctid`)
/// at which it was read, which costs less than half of a look-up in the index of keys; a row that has moved since then is left
/// for another turn. The key is compared by an expression that keeps the planner from using the index after all.
pub(super) const PURGE: &str = concat!(
    "-- ledger.purge
WITH clock AS MATERIALIZED (
    SELECT ledger.clock() + token_offset AS token_clock, clock_mark FROM ledger.meta
    WHERE policy_epoch = $4 AND serves_from <= ",
    known!(),
    " AND level <= ",
    level!(),
    "
)
DELETE FROM ledger.entries e
USING clock c CROSS JOIN (
    SELECT o.key, o.version, coalesce(o.place, (SELECT k.ctid FROM ledger.entries k WHERE k.key = o.key)) AS place
    FROM unnest($1::uuid[], $2::bigint[], $6::text[]::tid[]) AS o(key, version, place) OFFSET 0) AS r
WHERE e.ctid = r.place AND e.key IS NOT DISTINCT FROM r.key
  AND e.version = r.version AND greatest(e.version, e.token) + $5 < c.token_clock
  AND c.token_clock >= greatest(c.clock_mark, $3)"
);

impl PgSession {
    pub(super) async fn take_turn(&mut self, hold: Span) -> Result<Option<PurgeTurn>, StoreError> {
        let mark = self.mark.get();
        let query = self.query(PURGE_TAKE).bind(hold.micros()).bind(TURN_MAX.micros());
        let row = query.fetch_optional(&mut self.connection).await.map_err(of_sqlx)?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(PurgeTurn {
            consumer: row.try_get("name").map_err(of_sqlx)?,
            number: row.try_get("no").map_err(of_sqlx)?,
            held: instant(&row, "purge_held")?,
            taken: self.reading(&row, mark)?,
            place: PurgePlace {
                passed: instant(&row, "purge_passed")?,
                again: instant(&row, "purge_again")?,
                again_due: instant(&row, "purge_again_due")?,
            },
        }))
    }

    pub(super) async fn end_turn(&mut self, turn: &PurgeTurn, due: StoreTime) -> Result<(), StoreError> {
        let query = self
            .query(PURGE_END)
            .bind(turn.number)
            .bind(turn.held.micros())
            .bind(due.micros())
            .bind(turn.place.passed.micros())
            .bind(turn.place.again.micros())
            .bind(turn.place.again_due.micros());
        query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(())
    }

    pub(super) async fn created(
        &mut self,
        turn: &PurgeTurn,
        after: StoreTime,
        until: StoreTime,
        limit: usize,
    ) -> Result<Created, StoreError> {
        let reading = self.load(&[]).await?.reading;
        let query = self
            .query(CREATED)
            .bind(turn.number)
            .bind(after.micros())
            .bind(until.micros())
            .bind(i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let last = rows.last().map(|row| instant(row, "created_at")).transpose()?;
        let entries = readable(self.entries_of(&rows).await?);
        self.places = rows.iter().map(place_of).collect::<Result<_, _>>()?;
        Ok(Created { reading, count: rows.len(), last, entries })
    }

    pub(super) async fn created_first(
        &mut self,
        turn: &PurgeTurn,
        after: StoreTime,
    ) -> Result<Option<StoreTime>, StoreError> {
        let query = self.query(CREATED_FIRST).bind(turn.number).bind(after.micros());
        let row = query.fetch_optional(&mut self.connection).await.map_err(of_sqlx)?;
        row.map(|row| instant(&row, "created_at")).transpose()
    }

    pub(super) async fn delete_over(
        &mut self,
        entries: &[(KeyHash, i64)],
        policy_epoch: i64,
    ) -> Result<usize, StoreError> {
        let query = self
            .query(PURGE)
            .bind(column(entries, |one| one.0))
            .bind(column(entries, |one| one.1))
            .bind(self.mark.get())
            .bind(policy_epoch)
            .bind(SETTLED.micros())
            .bind(column(entries, |one| self.places.get(&one.0).cloned()));
        let done = query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
    }
}

/// The key and the physical position (`ctid`) of a row.
fn place_of(row: &PgRow) -> Result<(KeyHash, String), StoreError> {
    Ok((row.try_get("key").map_err(of_sqlx)?, row.try_get("place").map_err(of_sqlx)?))
}

fn instant(row: &PgRow, column: &str) -> Result<StoreTime, StoreError> {
    Ok(StoreTime(row.try_get(column).map_err(of_sqlx)?))
}

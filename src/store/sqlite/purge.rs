//! The purge: the turns of consumers, the entries that it looks at, and those that it deletes.

use sqlx::Row as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::entries::{delete, stored};
use super::errors::of_sqlx;
use super::policies::policy_epoch;
use crate::domain::{KeyHash, Reading, Span, StoreTime};
use crate::store::columns::{columns, select_list};
use crate::store::dictionary::Dictionary;
use crate::store::row::readable;
use crate::store::{Created, PurgePlace, PurgeTurn, StoreError, TURN_MAX};

pub(super) const PURGE_TAKE: &str = "\
-- ledger.purge_take
UPDATE consumers SET purge_held = ?1 + ?2
WHERE no = (
    SELECT n.no FROM consumers n
    WHERE n.name <> ''
      AND (n.purge_due <= ?1 OR n.purge_due > ?1 + ?3)
      AND (n.purge_held <= ?1 OR n.purge_held > ?1 + ?3)
    ORDER BY n.purge_due LIMIT 1)
RETURNING no, name, purge_held, purge_passed, purge_again, purge_again_due";

pub(super) const PURGE_END: &str = "\
-- ledger.purge_end
UPDATE consumers
SET purge_held = 0, purge_due = ?3, purge_passed = ?4, purge_again = ?5, purge_again_due = ?6
WHERE no = ?1 AND purge_held = ?2";

/// Reads a consumer's entries in the order of their creation. Entries created at the same instant have no
/// order in the index, so they are returned together.
pub(super) const CREATED: &str = concat!(
    "-- ledger.created
SELECT ",
    columns!(),
    "
FROM entries e
WHERE e.consumer = ?1 AND e.created_at > ?2 AND e.created_at <= coalesce((
    SELECT l.created_at FROM entries l
    WHERE l.consumer = ?1 AND l.created_at > ?2 AND l.created_at <= ?3
    ORDER BY l.created_at LIMIT 1 OFFSET ?4 - 1), ?3)
ORDER BY e.created_at"
);

pub(super) const CREATED_FIRST: &str = "\
-- ledger.created_first
SELECT e.created_at FROM entries e
WHERE e.consumer = ?1 AND e.created_at > ?2
ORDER BY e.created_at LIMIT 1";

pub(super) async fn take_turn(
    connection: &mut SqliteConnection,
    reading: Reading,
    hold: Span,
) -> Result<Option<PurgeTurn>, StoreError> {
    let query =
        sqlx::query(PURGE_TAKE).bind(reading.now.micros()).bind(hold.micros()).bind(TURN_MAX.micros());
    let row = query.fetch_optional(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(row.map(|row| PurgeTurn {
        consumer: row.get("name"),
        number: row.get("no"),
        held: instant(&row, "purge_held"),
        taken: reading,
        place: PurgePlace {
            passed: instant(&row, "purge_passed"),
            again: instant(&row, "purge_again"),
            again_due: instant(&row, "purge_again_due"),
        },
    }))
}

pub(super) async fn end_turn(
    connection: &mut SqliteConnection,
    turn: PurgeTurn,
    due: StoreTime,
) -> Result<(), StoreError> {
    let query = sqlx::query(PURGE_END)
        .bind(turn.number)
        .bind(turn.held.micros())
        .bind(due.micros())
        .bind(turn.place.passed.micros())
        .bind(turn.place.again.micros())
        .bind(turn.place.again_due.micros());
    query.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(())
}

pub(super) async fn created(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    reading: Reading,
    consumer: i32,
    (after, until): (StoreTime, StoreTime),
    limit: usize,
) -> Result<Created, StoreError> {
    let query = sqlx::query(CREATED)
        .bind(consumer)
        .bind(after.micros())
        .bind(until.micros())
        .bind(i64::try_from(limit).unwrap_or(i64::MAX));
    let rows = query.fetch_all(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    let last = rows.last().map(|row| instant(row, "created_at"));
    let entries = readable(stored(connection, dictionary, &rows).await?);
    Ok(Created { reading, count: rows.len(), last, entries })
}

pub(super) async fn created_first(
    connection: &mut SqliteConnection,
    consumer: i32,
    after: StoreTime,
) -> Result<Option<StoreTime>, StoreError> {
    let query = sqlx::query(CREATED_FIRST).bind(consumer).bind(after.micros());
    let row = query.fetch_optional(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(row.map(|row| instant(&row, "created_at")))
}

/// Runs in a write transaction, so the policies that it reads cannot change until the end.
pub(super) async fn delete_over(
    connection: &mut SqliteConnection,
    reading: Reading,
    entries: Vec<(KeyHash, i64)>,
    judged_by: i64,
) -> Result<usize, StoreError> {
    let mut gone = 0;
    if !reading.is_sound() || policy_epoch(connection).await? != judged_by {
        return Ok(gone);
    }
    for (key, version) in entries {
        gone += usize::from(delete(connection, reading, key, version).await?);
    }
    Ok(gone)
}

fn instant(row: &SqliteRow, column: &str) -> StoreTime {
    StoreTime(row.get(column))
}

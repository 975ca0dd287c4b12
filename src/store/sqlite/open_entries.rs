//! What operators ask of all consumers: which of them have open entries, and what these entries failed with.

use sqlx::Row as _;
use sqlx::sqlite::SqliteConnection;
use uuid::Uuid;

use super::errors::of_sqlx;
use super::listing::{OPEN_ROWS, filtered};
use crate::domain::{EntryFilter, OpenConsumers, OpenRange, OpenRow, Reading, StoreTime};
use crate::store::StoreError;

/// Looks at ?2 names, and probes an index for each of them.
macro_rules! open_consumers {
    ($name:literal, $which:literal) => {
        concat!(
            "-- ledger.",
            $name,
            "
SELECT l.name, EXISTS (SELECT 1 FROM entries e ",
            $which,
            ") AS open
FROM (SELECT n.no, n.name FROM consumers n WHERE n.name > ?1 ORDER BY n.name LIMIT ?2) AS l
ORDER BY l.name"
        )
    };
}

pub(super) const OPEN_CONSUMERS: &str = open_consumers!(
    "open_consumers",
    "WHERE e.consumer = l.no AND e.attention IN (SELECT s.value FROM json_each(?3) AS s)"
);
pub(super) const DOUBLED_CONSUMERS: &str = open_consumers!(
    "doubled_consumers",
    "INDEXED BY entries_doubled WHERE e.consumer = l.no AND e.doubled IS NOT NULL AND ?3 IS NOT NULL"
);

pub(super) async fn find_open(
    connection: &mut SqliteConnection,
    after: String,
    states: Vec<i16>,
    doubled: bool,
    names: usize,
) -> Result<OpenConsumers, StoreError> {
    let statement = if doubled { DOUBLED_CONSUMERS } else { OPEN_CONSUMERS };
    let query = sqlx::query(statement)
        .bind(after)
        .bind(i64::try_from(names).unwrap_or(i64::MAX))
        .bind(serde_json::Value::from(states).to_string());
    let rows = query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))?;
    let last = rows.last().filter(|_| rows.len() == names).map(|row| row.get("name"));
    let open = rows.iter().filter(|row| row.get("open")).map(|row| row.get("name")).collect();
    Ok(OpenConsumers { open, last })
}

pub(super) async fn read_open(
    connection: &mut SqliteConnection,
    reading: Reading,
    range: OpenRange,
    filter: EntryFilter,
) -> Result<Vec<OpenRow>, StoreError> {
    let before = range.before.unwrap_or((StoreTime::MAX, Uuid::max()));
    let limit = i64::try_from(range.limit).unwrap_or(i64::MAX);
    let query = filtered(OPEN_ROWS, range.namespace, before, &filter, reading, limit).bind(range.state);
    let rows = query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))?;
    let one = |row: &sqlx::sqlite::SqliteRow| {
        let place = (StoreTime(row.try_get("created_at").ok()?), row.try_get("key").ok()?);
        // A damaged row is in no group, and counts as read: `ListEntries` names it.
        let readable = || {
            let fits = row.try_get::<Option<bool>, _>("fits").ok()?.unwrap_or(false);
            Some(OpenRow {
                place,
                cause: row.try_get("cause").ok()?,
                error: row.try_get("error").ok()?,
                fits,
            })
        };
        Some(readable().unwrap_or(OpenRow { place, cause: 0, error: String::new(), fits: false }))
    };
    Ok(rows.iter().filter_map(one).collect())
}

//! What operators ask of all consumers: which of them have open entries, and what these entries failed with.

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::PgSession;
use super::errors::of_sqlx;
use super::list_position;
use super::listing::{fits, graces, planned_each_time};
use crate::domain::{EntryFilter, OpenConsumers, OpenRange, OpenRow, Reading, StoreTime};
use crate::store::numbers::number;
use crate::store::{Entries as _, StoreError};

/// Looks at $3 names, and probes an index for each of them: without the bound, a ledger of many consumers without open entries
/// would be read as a whole.
macro_rules! open_consumers {
    ($name:literal, $which:literal) => {
        concat!(
            "-- ledger.",
            $name,
            "
WITH looked AS MATERIALIZED (
    SELECT n.no, n.name FROM ledger.consumers n WHERE n.name > $1 ORDER BY n.name LIMIT $3
)
SELECT l.name, EXISTS (SELECT 1 FROM ledger.entries e WHERE e.consumer = l.no AND ",
            $which,
            " OFFSET 0) AS open
FROM looked l ORDER BY l.name"
        )
    };
}

pub(super) const OPEN_CONSUMERS: &str =
    open_consumers!("open_consumers", "e.attention = ANY ($2::smallint[])");
pub(super) const DOUBLED_CONSUMERS: &str =
    open_consumers!("doubled_consumers", "e.doubled AND cardinality($2::smallint[]) >= 0");

/// Reads $12 entries of one consumer in the state $11, the newest first.
pub(super) const OPEN_ROWS: &str = concat!(
    "-- ledger.open_rows
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS clock_now FROM ledger.meta),
",
    graces!("$10::boolean"),
    "
SELECT f.key, f.created_at, f.cause, f.error, f.fits
FROM clock k CROSS JOIN graces g CROSS JOIN ledger.consumers c CROSS JOIN LATERAL (
    SELECT e.key, e.created_at, coalesce(e.cause, ",
    number!(NO_CAUSE),
    "::smallint) AS cause, left(split_part(coalesce(e.last_error, ''), chr(10), 1), 200) AS error,
           ",
    fits!(),
    "
    FROM ledger.entries e
    WHERE e.consumer = c.no AND e.attention = $11::smallint AND (e.created_at, e.key) < ($2::bigint, $3::uuid)
      AND e.created_at >= $4 AND e.created_at <= $5
    ORDER BY e.created_at DESC, e.key DESC LIMIT $12
) AS f
WHERE c.name = $1
ORDER BY f.created_at DESC, f.key DESC"
);

impl PgSession {
    pub(super) async fn find_open(
        &mut self,
        after: &str,
        states: &[i16],
        doubled: bool,
        names: usize,
    ) -> Result<OpenConsumers, StoreError> {
        let statement = if doubled { DOUBLED_CONSUMERS } else { OPEN_CONSUMERS };
        let query = planned_each_time(statement)
            .bind(after.to_owned())
            .bind(states.to_vec())
            .bind(i64::try_from(names).unwrap_or(i64::MAX));
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let looked = |row: &PgRow| Ok((row.try_get::<String, _>("name")?, row.try_get::<bool, _>("open")?));
        let looked = rows.iter().map(looked).collect::<Result<Vec<_>, sqlx::Error>>().map_err(of_sqlx)?;
        let last = looked.last().filter(|_| looked.len() == names).map(|(name, _)| name.clone());
        let open = looked.into_iter().filter(|(_, open)| *open).map(|(name, _)| name).collect();
        Ok(OpenConsumers { open, last })
    }

    pub(super) async fn read_open(
        &mut self,
        range: &OpenRange,
        filter: &EntryFilter,
    ) -> Result<(Reading, Vec<OpenRow>), StoreError> {
        let reading = self.load(&[]).await?.reading;
        let (at, key) = range.before.unwrap_or((StoreTime::MAX, uuid::Uuid::max()));
        let query = planned_each_time(OPEN_ROWS)
            .bind(range.namespace.clone())
            .bind(at.micros())
            .bind(key)
            .bind(filter.created_from.micros())
            .bind(filter.created_until.micros())
            .bind(filter.source.clone())
            .bind(filter.id_prefix.clone())
            .bind(filter.states.clone())
            .bind(filter.causes.clone())
            .bind(filter.expired)
            .bind(range.state)
            .bind(i64::try_from(range.limit).unwrap_or(i64::MAX))
            .bind(filter.owner.clone())
            .bind(filter.error.clone())
            .bind(filter.parked_from.map(StoreTime::micros))
            .bind(filter.message_state);
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let Some(place) = list_position(row, "created_at", "key")? else { continue };
            found.push(OpenRow {
                place,
                cause: row.try_get("cause").map_err(of_sqlx)?,
                error: row.try_get("error").map_err(of_sqlx)?,
                fits: row.try_get::<Option<bool>, _>("fits").map_err(of_sqlx)?.unwrap_or(false),
            });
        }
        Ok((reading, found))
    }
}

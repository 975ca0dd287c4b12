//! The lists of entries that operators ask for.

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{Postgres, Row as _};
use uuid::Uuid;

use super::errors::of_sqlx;
use super::{PgSession, place};
use crate::domain::{Listed, Listing};
use crate::store::StoreError;
use crate::store::columns::{columns, select_list};
use crate::store::numbers::number;
use crate::store::row::listed;

/// Whether an entry `e` fits the filter, and the page that is made of the `scanned` ones. A state or cause that is none of
/// the known ones fits every filter: the entry cannot be read, and a list names it.
macro_rules! fits {
    () => {
        concat!(
            "($6::text IS NULL OR e.source = (SELECT s.no FROM ledger.sources s WHERE s.name = $6))
           AND ($7 = '' OR starts_with(coalesce(e.id, e.id_uuid::text), $7)) AND (cardinality($8::smallint[]) = 0 OR e.state = ANY ($8) OR e.state NOT BETWEEN 1 AND 6)
           AND (cardinality($9::smallint[]) = 0 OR e.cause = ANY ($9) OR e.state NOT BETWEEN 1 AND 6
                OR e.state = 6 AND coalesce(e.cause, 0) NOT BETWEEN 1 AND 5)
           AND (NOT $10::boolean OR (e.state = ",
            number!(IN_PROGRESS),
            " AND e.lease_until <= k.clock_now
                AND e.lease_until + (SELECT t.grace FROM ledger.terms t WHERE t.no = e.terms) <= k.clock_now)) AS fits"
        )
    };
}
macro_rules! page {
    ($order:literal) => {
        concat!(
            "), page AS (
    SELECT key, created_at FROM scanned WHERE fits ORDER BY created_at ",
            $order,
            ", key ",
            $order,
            " LIMIT $11
)
SELECT k.clock_now, k.token_offset, k.clock_mark, (SELECT count(*) FROM scanned) AS looked_at,
       l.created_at AS last_at, l.key AS last_key, ",
            columns!(),
            "
FROM clock k
LEFT JOIN (SELECT created_at, key FROM scanned ORDER BY created_at ",
            $order,
            ", key ",
            $order,
            " OFFSET $12 - 1 LIMIT 1) l ON true
LEFT JOIN (page p JOIN ledger.entries e
               ON e.key = ANY (ARRAY[p.key])) ON true
ORDER BY p.created_at ",
            $order,
            ", p.key ",
            $order
        )
    };
}
/// All entries of a consumer, or those that an index has, in one direction.
macro_rules! list_all {
    ($name:literal, $which:literal, $beyond:literal, $order:literal) => {
        concat!(
            "-- ledger.",
            $name,
            "
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS clock_now, token_offset, clock_mark FROM ledger.meta),
scanned AS MATERIALIZED (
    SELECT f.key, f.created_at, f.fits
    FROM clock k CROSS JOIN ledger.consumers c CROSS JOIN LATERAL (
        SELECT e.key, e.created_at, ",
            fits!(),
            "
        FROM ledger.entries e
        WHERE e.consumer = c.no",
            $which,
            " AND (e.created_at, e.key) ",
            $beyond,
            " ($2::bigint, $3::uuid) AND e.created_at >= $4 AND e.created_at <= $5
        ORDER BY e.created_at ",
            $order,
            ", e.key ",
            $order,
            " LIMIT $12
    ) AS f
    WHERE c.name = $1
",
            page!($order)
        )
    };
}
/// Entries in some states, none of them COMPLETED: of each state those that are in the index, and the claims
/// beyond the consumer's mark, which are not: among all that was created there.
macro_rules! list_open {
    ($name:literal, $beyond:literal, $order:literal, $from_at:literal, $from_key:literal, $mark:literal) => {
        concat!(
            "-- ledger.",
            $name,
            "
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS clock_now, token_offset, clock_mark FROM ledger.meta),
consumer AS MATERIALIZED (
    SELECT no, marked_at, marked_key, ",
            $from_at,
            " AS from_at, ",
            $from_key,
            " AS from_key
    FROM ledger.consumers WHERE name = $1
), scanned AS MATERIALIZED (
    SELECT u.key, u.created_at, u.fits FROM (
        SELECT f.key, f.created_at, f.fits
        FROM clock k CROSS JOIN consumer c CROSS JOIN unnest($8::smallint[]) AS w(state) CROSS JOIN LATERAL (
            SELECT e.key, e.created_at, ",
            fits!(),
            "
            FROM ledger.entries e
            WHERE e.consumer = c.no AND e.attention = w.state AND (e.created_at, e.key) ",
            $beyond,
            " ($2::bigint, $3::uuid) AND e.created_at >= $4 AND e.created_at <= $5
            ORDER BY e.created_at ",
            $order,
            ", e.key ",
            $order,
            " LIMIT $12
        ) AS f
        UNION ALL
        SELECT f.key, f.created_at, f.fits
        FROM clock k CROSS JOIN consumer c CROSS JOIN LATERAL (
            SELECT e.key, e.created_at, e.attention IS NULL AND e.state = ", number!(IN_PROGRESS), " AND ",
            fits!(),
            "
            FROM ledger.entries e
            WHERE e.consumer = c.no AND (e.created_at, e.key) ",
            $beyond,
            " (c.from_at, c.from_key) AND e.created_at >= $4 AND e.created_at <= $5 AND ",
            $mark,
            "
            ORDER BY e.created_at ",
            $order,
            ", e.key ",
            $order,
            " LIMIT $12
        ) AS f
        WHERE 2 = ANY ($8::smallint[])
    ) AS u
    ORDER BY u.created_at ",
            $order,
            ", u.key ",
            $order,
            " LIMIT $12
",
            page!($order)
        )
    };
}

pub(super) const LIST_OLDEST: &str = list_all!("list_oldest", "", ">", "ASC");
pub(super) const LIST_NEWEST: &str = list_all!("list_newest", "", "<", "DESC");
pub(super) const LIST_DOUBLED_OLDEST: &str = list_all!("list_doubled_oldest", " AND e.doubled", ">", "ASC");
pub(super) const LIST_DOUBLED_NEWEST: &str = list_all!("list_doubled_newest", " AND e.doubled", "<", "DESC");
pub(super) const LIST_OPEN_OLDEST: &str = list_open!(
    "list_open_oldest",
    ">",
    "ASC",
    "CASE WHEN (marked_at, marked_key) > ($2::bigint, $3::uuid) THEN marked_at ELSE $2::bigint END",
    "CASE WHEN (marked_at, marked_key) > ($2::bigint, $3::uuid) THEN marked_key ELSE $3::uuid END",
    "true"
);
pub(super) const LIST_OPEN_NEWEST: &str = list_open!(
    "list_open_newest",
    "<",
    "DESC",
    "$2::bigint",
    "$3::uuid",
    "(e.created_at, e.key) > (c.marked_at, c.marked_key)"
);

impl PgSession {
    pub(super) async fn list_entries(&mut self, listing: &Listing) -> Result<Listed, StoreError> {
        let filter = &listing.filter;
        let statement = match (filter.doubled, filter.by_attention(), listing.newest_first) {
            (true, _, false) => LIST_DOUBLED_OLDEST,
            (true, _, true) => LIST_DOUBLED_NEWEST,
            (false, false, false) => LIST_OLDEST,
            (false, false, true) => LIST_NEWEST,
            (false, true, false) => LIST_OPEN_OLDEST,
            (false, true, true) => LIST_OPEN_NEWEST,
        };
        let mark = self.mark.get();
        let (at, key) = listing.place();
        let query = planned_anew(statement)
            .bind(filter.namespace().name().to_owned())
            .bind(at.micros())
            .bind(key)
            .bind(filter.created_from.micros())
            .bind(filter.created_until.micros())
            .bind(filter.source.clone())
            .bind(filter.id_prefix.clone())
            .bind(filter.states.clone())
            .bind(filter.causes.clone())
            .bind(filter.expired)
            .bind(i64::try_from(listing.limit).unwrap_or(i64::MAX))
            .bind(listing.look_at());
        let mut rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let first = rows.first().ok_or_else(super::no_meta)?;
        let reading = self.reading(first, mark)?;
        let looked_at: i64 = first.try_get("looked_at").map_err(of_sqlx)?;
        let ended = place(first, "last_at", "last_key")?;
        rows.retain(|row| matches!(row.try_get::<Option<Uuid>, _>("key"), Ok(Some(_))));
        let mut shown = Vec::with_capacity(rows.len());
        for row in &rows {
            shown.extend(place(row, "created_at", "key")?);
        }
        let next = Listed::place(listing, &shown, looked_at, ended);
        Ok(Listed { reading, rows: listed(shown, self.entries_of(&rows).await?), next })
    }
}

/// Operators ask seldom. Their statements are planned each time, for the table as it is now.
pub(super) fn planned_anew(statement: &'static str) -> Query<'static, Postgres, PgArguments> {
    sqlx::query(statement).persistent(false)
}

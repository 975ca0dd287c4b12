//! Lists of entries for operators.

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{Postgres, Row as _};
use uuid::Uuid;

use super::errors::of_sqlx;
use super::{PgSession, list_position};
use crate::domain::{Listed, Listing, StoreTime};
use crate::store::StoreError;
use crate::store::columns::{columns, select_list};
use crate::store::numbers::number;
use crate::store::query;
use crate::store::row::listed;

/// The grace of all terms, by number, as one value: looking up the terms for each claim whose lease is over touched three pages
/// a claim, 15,000 of the 21,000 pages of a list of expired claims (`tests/it/proof/rows/bounded.rs`).
macro_rules! graces {
    ($when:literal) => {
        concat!(
            "graces AS MATERIALIZED (
    SELECT jsonb_object_agg(t.no, t.grace) AS by_terms FROM ledger.terms t WHERE ",
            $when,
            "
)"
        )
    };
}
pub(super) use graces;

/// Whether an entry `e` matches the filter. An unknown state or cause matches every filter: the entry is unreadable, and lists
/// must show it.
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
                AND e.lease_until + (g.by_terms ->> e.terms::text)::bigint <= k.clock_now))
           AND ($13 = '' OR e.owner = $13) AND ($14 = '' OR strpos(e.last_error, $14) > 0)
           AND ($15::bigint IS NULL OR e.state = ",
            number!(PARKED),
            " AND coalesce(e.parked_at, e.updated_at, e.granted_at, e.created_at) >= $15)
           AND ($16::smallint IS NULL OR e.body = $16) AS fits"
        )
    };
}
pub(super) use fits;

/// Reads the first $12 entries of a range, and numbers them: the one with the number $12 is the last that was read.
macro_rules! look {
    ($open:expr, $which:expr, $beyond:literal, $from:literal, $order:literal) => {
        concat!(
            "
        SELECT s.key, s.created_at, s.fits, row_number() OVER (ORDER BY s.created_at ",
            $order,
            ", s.key ",
            $order,
            ") AS nth
        FROM (
            SELECT e.key, e.created_at, ",
            $open,
            fits!(),
            "
            FROM ledger.entries e
            WHERE e.consumer = c.no",
            $which,
            " AND (e.created_at, e.key) ",
            $beyond,
            " ",
            $from,
            " AND e.created_at >= $4 AND e.created_at <= $5
            ORDER BY e.created_at ",
            $order,
            ", e.key ",
            $order,
            " LIMIT $12
        ) AS s
    "
        )
    };
}
/// Merges the entries that were read into a page. If a range has more entries, the page ends at the last entry that was read in
/// it, for all other ranges too: entries beyond it belong to the next page.
macro_rules! page {
    ($within:literal, $order:literal) => {
        concat!(
            "), ended AS MATERIALIZED (
    SELECT created_at, key FROM looked WHERE nth = $12 ORDER BY created_at ",
            $order,
            ", key ",
            $order,
            " LIMIT 1
), page AS (
    SELECT l.key, l.created_at FROM looked l LEFT JOIN ended d ON true
    WHERE l.fits AND (d.key IS NULL OR (l.created_at, l.key) ",
            $within,
            " (d.created_at, d.key))
    ORDER BY l.created_at ",
            $order,
            ", l.key ",
            $order,
            " LIMIT $11
)
SELECT k.clock_now, k.token_offset, k.clock_mark, d.created_at AS last_at, d.key AS last_key, ",
            columns!(),
            "
FROM clock k
LEFT JOIN ended d ON true
LEFT JOIN (page p JOIN ledger.entries e
               ON e.key = ANY (ARRAY[p.key])) ON true
ORDER BY p.created_at ",
            $order,
            ", p.key ",
            $order
        )
    };
}
macro_rules! head {
    ($name:literal) => {
        concat!(
            "-- ledger.",
            $name,
            "
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS clock_now, token_offset, clock_mark FROM ledger.meta),
",
            graces!("$10::boolean")
        )
    };
}
/// Lists all entries of a consumer, or those in a partial index, in one direction.
macro_rules! list_all {
    ($name:literal, $which:literal, $beyond:literal, $within:literal, $order:literal) => {
        concat!(
            head!($name),
            ", looked AS MATERIALIZED (
    SELECT f.key, f.created_at, f.nth, f.fits
    FROM clock k CROSS JOIN graces g CROSS JOIN ledger.consumers c CROSS JOIN LATERAL (",
            look!("", $which, $beyond, "($2::bigint, $3::uuid)", $order),
            ") AS f
    WHERE c.name = $1
",
            page!($within, $order)
        )
    };
}
/// Lists entries in some states other than COMPLETED: for each state those in the index, and the claims beyond the consumer's
/// mark, which are not in it yet, among all entries created there.
macro_rules! list_open {
    ($name:literal, $beyond:literal, $within:literal, $order:literal, $from_at:literal, $from_key:literal, $mark:literal) => {
        concat!(
            head!($name),
            ", consumer AS MATERIALIZED (
    SELECT no, marked_at, marked_key, ",
            $from_at,
            " AS from_at, ",
            $from_key,
            " AS from_key
    FROM ledger.consumers WHERE name = $1
), looked AS MATERIALIZED (
    SELECT f.key, f.created_at, f.nth, f.fits
    FROM clock k CROSS JOIN graces g CROSS JOIN consumer c CROSS JOIN unnest($8::smallint[]) AS w(state)
    CROSS JOIN LATERAL (",
            look!("", " AND e.attention = w.state", $beyond, "($2::bigint, $3::uuid)", $order),
            ") AS f
    UNION ALL
    SELECT f.key, f.created_at, f.nth, f.fits
    FROM clock k CROSS JOIN graces g CROSS JOIN consumer c CROSS JOIN LATERAL (",
            look!(
                concat!("e.attention IS NULL AND e.state = ", number!(IN_PROGRESS), " AND "),
                concat!(" AND ", $mark),
                $beyond,
                "(c.from_at, c.from_key)",
                $order
            ),
            ") AS f
    WHERE 2 = ANY ($8::smallint[])
",
            page!($within, $order)
        )
    };
}

pub(super) const LIST_OLDEST: &str = list_all!("list_oldest", "", ">", "<=", "ASC");
pub(super) const LIST_NEWEST: &str = list_all!("list_newest", "", "<", ">=", "DESC");
pub(super) const LIST_DOUBLED_OLDEST: &str =
    list_all!("list_doubled_oldest", " AND e.doubled", ">", "<=", "ASC");
pub(super) const LIST_DOUBLED_NEWEST: &str =
    list_all!("list_doubled_newest", " AND e.doubled", "<", ">=", "DESC");
pub(super) const LIST_OPEN_OLDEST: &str = list_open!(
    "list_open_oldest",
    ">",
    "<=",
    "ASC",
    "CASE WHEN (marked_at, marked_key) > ($2::bigint, $3::uuid) THEN marked_at ELSE $2::bigint END",
    "CASE WHEN (marked_at, marked_key) > ($2::bigint, $3::uuid) THEN marked_key ELSE $3::uuid END",
    "true"
);
pub(super) const LIST_OPEN_NEWEST: &str = list_open!(
    "list_open_newest",
    "<",
    ">=",
    "DESC",
    "$2::bigint",
    "$3::uuid",
    "(e.created_at, e.key) > (c.marked_at, c.marked_key)"
);

impl PgSession {
    pub(super) async fn list_entries(&mut self, listing: &Listing) -> Result<Listed, StoreError> {
        let filter = &listing.filter;
        let statement = match (filter.doubled, query::by_attention(filter), listing.newest_first) {
            (true, _, false) => LIST_DOUBLED_OLDEST,
            (true, _, true) => LIST_DOUBLED_NEWEST,
            (false, false, false) => LIST_OLDEST,
            (false, false, true) => LIST_NEWEST,
            (false, true, false) => LIST_OPEN_OLDEST,
            (false, true, true) => LIST_OPEN_NEWEST,
        };
        let mark = self.mark.get();
        let (at, key) = query::first_place(listing);
        let query = planned_each_time(statement)
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
            .bind(query::look_at(listing))
            .bind(filter.owner.clone())
            .bind(filter.error.clone())
            .bind(filter.parked_from.map(StoreTime::micros))
            .bind(filter.message_state);
        let mut rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let first = rows.first().ok_or_else(super::no_meta)?;
        let reading = self.reading(first, mark)?;
        let ended = list_position(first, "last_at", "last_key")?;
        rows.retain(|row| matches!(row.try_get::<Option<Uuid>, _>("key"), Ok(Some(_))));
        let mut shown = Vec::with_capacity(rows.len());
        for row in &rows {
            shown.extend(list_position(row, "created_at", "key")?);
        }
        let next = query::next_place(listing, &shown, ended);
        Ok(Listed { reading, rows: listed(shown, self.entries_of(&rows).await?), next })
    }
}

/// A query without a cached plan: operators ask rarely, so each statement is planned for the table as it is now.
pub(super) fn planned_each_time(statement: &'static str) -> Query<'static, Postgres, PgArguments> {
    sqlx::query(statement).persistent(false)
}

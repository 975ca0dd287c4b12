//! What operators ask for: lists and counts.

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{Postgres, Row as _};
use uuid::Uuid;

use super::errors::of_sqlx;
use super::{PgSession, place};
use crate::domain::{Count, Expired, Listed, Listing, NameCounts, StoreTime, Summary};
use crate::store::columns::{columns, select_list};
use crate::store::numbers::{self, number};
use crate::store::query::{EXACT_MAX, scaled};
use crate::store::row::listed;
use crate::store::{Entries as _, StoreError};

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
/// All entries of a consumer, in one direction.
macro_rules! list_all {
    ($name:literal, $beyond:literal, $order:literal) => {
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
        WHERE e.consumer = c.no AND (e.created_at, e.key) ",
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

pub(super) const LIST_OLDEST: &str = list_all!("list_oldest", ">", "ASC");
pub(super) const LIST_NEWEST: &str = list_all!("list_newest", "<", "DESC");
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

/// `OFFSET 0`, here and below: what is asked of entries is asked for one consumer after the other, never of a
/// whole index of theirs.
pub(super) const CONSUMERS: &str = "\
-- ledger.consumers
SELECT n.name FROM ledger.consumers n
WHERE n.name > $1 AND EXISTS (SELECT 1 FROM ledger.entries e WHERE e.consumer = n.no OFFSET 0)
ORDER BY n.name LIMIT $2";

/// Open claims, and when those whose lease is over have expired.
macro_rules! open {
    () => {
        "SELECT e.created_at, e.attempts, CASE WHEN e.lease_until <= c.now THEN e.lease_until +
                     (SELECT t.grace FROM ledger.terms t WHERE t.no = e.terms) END AS over_at
              FROM ledger.entries e "
    };
}

/// What is not COMPLETED: by its index, and the claims beyond the mark. Counted for one consumer and state after
/// the other, so that each is a range of the index and nothing is sorted.
pub(super) const SUMMARY: &str = concat!(
    "-- ledger.summary
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS now FROM ledger.meta),
asked AS MATERIALIZED (
    SELECT n.no, n.name, n.marked_at, n.marked_key, r.near
    FROM unnest($1::text[], $2::int[]) AS r(name, near) JOIN ledger.consumers n ON n.name = r.name
)
SELECT a.name, o.state, o.cause, sum(o.count)::bigint AS count, min(o.oldest) AS oldest,
       sum(o.near)::bigint AS near, sum(o.expired)::bigint AS expired, min(o.expired_since) AS expired_since
FROM clock c CROSS JOIN asked a CROSS JOIN LATERAL (
    SELECT w.state, g.cause, g.count, g.oldest, g.near, 0::bigint AS expired, NULL::bigint AS expired_since
    FROM unnest('{",
    number!(RECEIVED),
    ",",
    number!(FAILED_RETRYABLE),
    ",",
    number!(FAILED_TERMINAL),
    ",",
    number!(PARKED),
    "}'::smallint[]) AS w(state) CROSS JOIN LATERAL (
        SELECT coalesce(e.cause, ",
    number!(NO_CAUSE),
    "::smallint) AS cause, count(*) AS count, min(e.created_at) AS oldest,
               count(*) FILTER (WHERE w.state <= ",
    number!(FAILED_RETRYABLE),
    " AND e.attempts >= a.near) AS near
        FROM ledger.entries e WHERE e.consumer = a.no AND e.attention = w.state GROUP BY 1
    ) AS g
    UNION ALL
    SELECT ",
    number!(IN_PROGRESS),
    "::smallint, ",
    number!(NO_CAUSE),
    "::smallint, count(*), min(e.created_at),
           count(*) FILTER (WHERE e.attempts >= a.near),
           count(*) FILTER (WHERE e.over_at <= c.now),
           min(e.over_at) FILTER (WHERE e.over_at <= c.now)
    FROM (",
    open!(),
    "WHERE e.consumer = a.no AND e.attention = ",
    number!(IN_PROGRESS),
    "::smallint OFFSET 0) AS e
    UNION ALL
    SELECT ",
    number!(IN_PROGRESS),
    "::smallint, ",
    number!(NO_CAUSE),
    "::smallint, count(*), min(e.created_at),
           count(*) FILTER (WHERE e.attempts >= a.near),
           count(*) FILTER (WHERE e.over_at <= c.now),
           min(e.over_at) FILTER (WHERE e.over_at <= c.now)
    FROM (",
    open!(),
    "WHERE e.consumer = a.no AND (e.created_at, e.key) > (a.marked_at, a.marked_key)
                AND e.attention IS NULL AND e.state = ",
    number!(IN_PROGRESS),
    " OFFSET 0) AS e
) AS o
WHERE o.count > 0
GROUP BY a.name, o.state, o.cause
ORDER BY a.name, o.state, o.cause"
);

/// Whether there are more than so many entries, and in how many pages; and how many names there are, which are numbered from 1
/// on.
pub(super) const SIZE: &str = "\
-- ledger.size
SELECT (SELECT count(*) FROM (SELECT 1 FROM ledger.entries ORDER BY key LIMIT $1) AS first) AS entries,
       pg_relation_size('ledger.entries') / current_setting('block_size')::bigint AS pages,
       (SELECT coalesce(max(no), 0)::bigint FROM ledger.consumers) AS consumers,
       (SELECT coalesce(max(no), 0)::bigint FROM ledger.sources) AS sources,
       (SELECT coalesce(max(no), 0)::bigint FROM ledger.principals) AS principals";

/// Of pages that are chosen at random, always the same ones.
pub(super) const SAMPLED: &str = concat!(
    "-- ledger.sampled
WITH sample AS MATERIALIZED (
    SELECT e.consumer, count(*) AS completed
    FROM ledger.entries e TABLESAMPLE SYSTEM ($1) REPEATABLE (1)
    WHERE e.state = ",
    number!(COMPLETED),
    " GROUP BY e.consumer
)
SELECT n.name, coalesce((SELECT s.completed FROM sample s WHERE s.consumer = n.no), 0) AS completed
FROM ledger.consumers n WHERE n.name = ANY ($2::text[])"
);

/// How many pages a sample looks at: some thousands of entries stand in them.
const SAMPLED_PAGES: f64 = 200.0;

impl PgSession {
    pub(super) async fn list_entries(&mut self, listing: &Listing) -> Result<Listed, StoreError> {
        let filter = &listing.filter;
        let statement = match (filter.by_attention(), listing.newest_first) {
            (false, false) => LIST_OLDEST,
            (false, true) => LIST_NEWEST,
            (true, false) => LIST_OPEN_OLDEST,
            (true, true) => LIST_OPEN_NEWEST,
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

    pub(super) async fn names_of_consumers(
        &mut self,
        after: &str,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let query =
            self.query(CONSUMERS).bind(after.to_owned()).bind(i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        rows.iter().map(|row| row.try_get("name").map_err(of_sqlx)).collect()
    }

    pub(super) async fn count(&mut self, consumers: &[(String, Option<i32>)]) -> Result<Summary, StoreError> {
        let reading = self.load(&[]).await?.reading;
        let (names, near): (Vec<String>, Vec<Option<i32>>) = consumers.iter().cloned().unzip();
        let query = planned_anew(SUMMARY).bind(names.clone()).bind(near);
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let (mut counts, mut expired) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in &rows {
            let consumer: String = row.try_get("name").map_err(of_sqlx)?;
            let number: i64 = row.try_get("expired").map_err(of_sqlx)?;
            if number > 0 {
                let since = StoreTime(row.try_get("expired_since").map_err(of_sqlx)?);
                expired.push(Expired { consumer: consumer.clone(), count: number, since });
            }
            let state: (i16, i16) =
                (row.try_get("state").map_err(of_sqlx)?, row.try_get("cause").map_err(of_sqlx)?);
            let Some(state) = numbers::state(state.0, state.1) else {
                tracing::error!(?state, "entries are in a state that cannot be read");
                continue;
            };
            counts.push(Count {
                consumer,
                state,
                count: row.try_get("count").map_err(of_sqlx)?,
                oldest: StoreTime(row.try_get("oldest").map_err(of_sqlx)?),
                near_exhaustion: row.try_get("near").map_err(of_sqlx)?,
            });
        }
        let size =
            self.query(SIZE).bind(EXACT_MAX + 1).fetch_one(&mut self.connection).await.map_err(of_sqlx)?;
        let estimated = size.try_get::<i64, _>("entries").map_err(of_sqlx)? > EXACT_MAX;
        let pages: i64 = size.try_get("pages").map_err(of_sqlx)?;
        let stored = NameCounts {
            consumers: size.try_get("consumers").map_err(of_sqlx)?,
            sources: size.try_get("sources").map_err(of_sqlx)?,
            principals: size.try_get("principals").map_err(of_sqlx)?,
        };
        let parts = if estimated { parts(pages) } else { 1.0 };
        let query = planned_anew(SAMPLED).bind(100.0 / parts).bind(names);
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let mut completed = Vec::with_capacity(rows.len());
        for row in &rows {
            let found = row.try_get("completed").map_err(of_sqlx)?;
            completed.push((row.try_get("name").map_err(of_sqlx)?, scaled(found, parts)));
        }
        Ok(Summary { reading, counts, expired, completed, estimated, names: stored })
    }
}

/// Into how many parts the pages are divided, of which a sample is one.
#[allow(clippy::cast_precision_loss, reason = "an estimate")]
fn parts(pages: i64) -> f64 {
    (pages as f64 / SAMPLED_PAGES).max(1.0)
}

/// Operators ask seldom. Their statements are planned each time, for the table as it is now.
fn planned_anew(statement: &'static str) -> Query<'static, Postgres, PgArguments> {
    sqlx::query(statement).persistent(false)
}

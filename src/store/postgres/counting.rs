//! The counts that operators ask for.

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::PgSession;
use super::errors::of_sqlx;
use super::listing::{graces, planned_each_time};
use crate::domain::{Count, Expired, NameCounts, StoreTime, Summary};
use crate::store::numbers::{self, number};
use crate::store::query::{EXACT_MAX, scaled};
use crate::store::{Entries as _, StoreError};

/// `OFFSET 0`, here and below, is an optimization fence: the planner must look up entries consumer by consumer, and never
/// scan a whole index.
pub(super) const CONSUMERS: &str = "\
-- ledger.consumers
SELECT n.name FROM ledger.consumers n
WHERE n.name > $1 AND EXISTS (SELECT 1 FROM ledger.entries e WHERE e.consumer = n.no OFFSET 0)
ORDER BY n.name LIMIT $2";

/// Of entries `e`: their number, the oldest instant, and the number with one attempt left; and whether there may be more,
/// since more than $3 were found.
macro_rules! counts {
    ($open:literal) => {
        concat!(
            "count(*)",
            $open,
            " AS count, min(e.created_at)",
            $open,
            " AS oldest,
               count(*) FILTER (WHERE e.open AND e.attempts >= a.near) AS near,
               sum(count(*)) OVER () > $3::bigint AS more"
        )
    };
}

/// Of open claims `e`: when those whose lease is over expired.
macro_rules! expired {
    () => {
        ", count(*) FILTER (WHERE e.open AND e.over_at <= c.now) AS expired,
           min(e.over_at) FILTER (WHERE e.open AND e.over_at <= c.now) AS expired_since"
    };
}

/// Claims, and when those whose lease is over expired.
macro_rules! claims {
    ($open:literal) => {
        concat!(
            "SELECT e.created_at, e.attempts, ",
            $open,
            " AS open, CASE WHEN e.lease_until <= c.now
                     THEN e.lease_until + (g.by_terms ->> e.terms::text)::bigint END AS over_at
              FROM ledger.entries e "
        )
    };
}

/// Counts entries that are not COMPLETED: those in the index of open entries, and the claims beyond the mark, youngest first,
/// since most of the older ones are COMPLETED. Counts one consumer and state at a time, so that each is a range of the index and
/// nothing is sorted. Reads at most $3 + 1 entries of each range, because each entry may lie in another page of the table.
pub(super) const SUMMARY: &str = concat!(
    "-- ledger.summary
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS now FROM ledger.meta),
",
    graces!("true"),
    ", asked AS MATERIALIZED (
    SELECT n.no, n.name, n.marked_at, n.marked_key, r.near
    FROM unnest($1::text[], $2::int[]) AS r(name, near) JOIN ledger.consumers n ON n.name = r.name
)
SELECT a.name, o.state, o.cause, sum(o.count)::bigint AS count, min(o.oldest) AS oldest,
       sum(o.near)::bigint AS near, bool_or(o.more) AS more, sum(o.expired)::bigint AS expired,
       min(o.expired_since) AS expired_since
FROM clock c CROSS JOIN graces g CROSS JOIN asked a CROSS JOIN LATERAL (
    SELECT w.state, f.cause, f.count, f.oldest, f.near, f.more, 0::bigint AS expired, NULL::bigint AS expired_since
    FROM unnest('{",
    number!(RECEIVED),
    ",",
    number!(FAILED_RETRYABLE),
    ",",
    number!(FAILED_TERMINAL),
    ",",
    number!(PARKED),
    "}'::smallint[]) AS w(state) CROSS JOIN LATERAL (
        SELECT e.cause, ",
    counts!(""),
    "
        FROM (SELECT coalesce(e.cause, ",
    number!(NO_CAUSE),
    "::smallint) AS cause, e.created_at, e.attempts, w.state <= ",
    number!(FAILED_RETRYABLE),
    " AS open
              FROM ledger.entries e WHERE e.consumer = a.no AND e.attention = w.state
              ORDER BY e.created_at, e.key LIMIT $3::bigint + 1) AS e
        GROUP BY 1
    ) AS f
    UNION ALL
    SELECT ",
    number!(IN_PROGRESS),
    "::smallint, ",
    number!(NO_CAUSE),
    "::smallint, ",
    counts!(""),
    expired!(),
    "
    FROM (",
    claims!("true"),
    "WHERE e.consumer = a.no AND e.attention = ",
    number!(IN_PROGRESS),
    "::smallint ORDER BY e.created_at, e.key LIMIT $3::bigint + 1) AS e
    UNION ALL
    SELECT ",
    number!(IN_PROGRESS),
    "::smallint, ",
    number!(NO_CAUSE),
    "::smallint, ",
    counts!(" FILTER (WHERE e.open)"),
    expired!(),
    "
    FROM (",
    claims!("e.attention IS NULL AND e.state = 2 "),
    "WHERE e.consumer = a.no AND (e.created_at, e.key) > (a.marked_at, a.marked_key)
              ORDER BY e.created_at DESC, e.key DESC LIMIT $3::bigint + 1) AS e
) AS o
WHERE o.count > 0 OR o.more
GROUP BY a.name, o.state, o.cause
ORDER BY a.name, o.state, o.cause"
);

/// Whether there are more than $1 entries, and in how many pages; and the number of names, which are numbered from 1 on. A
/// table of more than $1 pages is taken to have more than $1 entries, without reading its pages.
pub(super) const SIZE: &str = "\
-- ledger.size
SELECT CASE WHEN p.pages > $1 THEN $1
            ELSE (SELECT count(*) FROM (SELECT 1 FROM ledger.entries ORDER BY key LIMIT $1) AS first) END AS entries,
       p.pages,
       (SELECT coalesce(max(no), 0)::bigint FROM ledger.consumers) AS consumers,
       (SELECT coalesce(max(no), 0)::bigint FROM ledger.sources) AS sources,
       (SELECT coalesce(max(no), 0)::bigint FROM ledger.principals) AS principals
FROM (SELECT pg_relation_size('ledger.entries') / current_setting('block_size')::bigint AS pages) AS p";

/// Counts COMPLETED entries in a sample of pages (`TABLESAMPLE`), always the same ones.
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

/// Counts doubled effects, by their index, one consumer at a time.
pub(super) const DOUBLED: &str = "\
-- ledger.doubled
SELECT n.name, d.count
FROM unnest($1::text[]) AS r(name) JOIN ledger.consumers n ON n.name = r.name
CROSS JOIN LATERAL (SELECT count(*) AS count FROM ledger.entries e WHERE e.consumer = n.no AND e.doubled OFFSET 0) AS d
WHERE d.count > 0";

/// The number of pages of a sample: they hold some thousands of entries.
const SAMPLED_PAGES: f64 = 200.0;

impl PgSession {
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

    pub(super) async fn count(
        &mut self,
        consumers: &[(String, Option<i32>)],
        most: i64,
    ) -> Result<Summary, StoreError> {
        let reading = self.load(&[]).await?.reading;
        let (names, near): (Vec<String>, Vec<Option<i32>>) = consumers.iter().cloned().unzip();
        let query = planned_each_time(SUMMARY).bind(names.clone()).bind(near).bind(most);
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
                oldest: row.try_get::<Option<i64>, _>("oldest").map_err(of_sqlx)?.map(StoreTime),
                near_exhaustion: row.try_get("near").map_err(of_sqlx)?,
                at_least: row.try_get("more").map_err(of_sqlx)?,
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
        let query = planned_each_time(SAMPLED).bind(100.0 / parts).bind(names);
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let mut completed = Vec::with_capacity(rows.len());
        for row in &rows {
            let found = row.try_get("completed").map_err(of_sqlx)?;
            completed.push((row.try_get("name").map_err(of_sqlx)?, scaled(found, parts)));
        }
        let doubled = self.doubled(consumers).await?;
        Ok(Summary { reading, counts, expired, doubled, completed, estimated, names: stored })
    }

    /// The number of entries of these consumers with a doubled effect.
    async fn doubled(
        &mut self,
        consumers: &[(String, Option<i32>)],
    ) -> Result<Vec<(String, i64)>, StoreError> {
        let names: Vec<String> = consumers.iter().map(|(name, _)| name.clone()).collect();
        let query = planned_each_time(DOUBLED).bind(names);
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let count = |row: &PgRow| Ok((row.try_get("name")?, row.try_get("count")?));
        rows.iter().map(count).collect::<Result<_, sqlx::Error>>().map_err(of_sqlx)
    }
}

/// The ratio of all pages to the pages of a sample.
#[allow(clippy::cast_precision_loss, reason = "an estimate")]
fn parts(pages: i64) -> f64 {
    (pages as f64 / SAMPLED_PAGES).max(1.0)
}

//! Counts for operators. Each runs within one transaction, and so sees one snapshot.

use sqlx::Row as _;
use sqlx::sqlite::SqliteConnection;

use super::errors::of_sqlx;
use crate::domain::{Count, Expired, NameCounts, Reading, StoreTime, Summary};
use crate::store::StoreError;
use crate::store::numbers::{self, FAILED_RETRYABLE, FAILED_TERMINAL, IN_PROGRESS, PARKED, RECEIVED, number};
use crate::store::query::{EXACT_MAX, scaled};

pub(super) const CONSUMERS: &str = "\
-- ledger.consumers
SELECT n.name FROM consumers n
WHERE n.name > ?1 AND EXISTS (SELECT 1 FROM entries e WHERE e.consumer = n.no)
ORDER BY n.name LIMIT ?2";

/// Counts the entries in one state, oldest first. Reads at most ?5 + 1 entries of each state.
pub(super) const SUMMARY: &str = concat!(
    "-- ledger.summary
SELECT e.attention AS state, e.cause, count(*) AS count, min(e.created_at) AS oldest,
       count(*) FILTER (WHERE e.attention <= ",
    number!(FAILED_RETRYABLE),
    " AND e.attempts >= ?2) AS near, sum(count(*)) OVER () > ?5 AS more,
       count(*) FILTER (WHERE e.over_at <= ?3) AS expired, min(e.over_at) FILTER (WHERE e.over_at <= ?3) AS expired_since
FROM (
    SELECT e.attention, coalesce(e.cause, 0) AS cause, e.created_at, e.attempts,
           CASE WHEN e.attention = ",
    number!(IN_PROGRESS),
    " THEN e.lease_until + (SELECT t.grace FROM terms t WHERE t.no = e.terms) END AS over_at
    FROM consumers n CROSS JOIN entries e
    WHERE n.name = ?1 AND e.consumer = n.no AND e.attention = ?4
    ORDER BY e.created_at, e.key LIMIT ?5 + 1
) AS e
GROUP BY 1, 2
ORDER BY 1, 2"
);

/// The states that are counted: all but COMPLETED.
const COUNTED: [i16; 5] = [RECEIVED, IN_PROGRESS, FAILED_RETRYABLE, FAILED_TERMINAL, PARKED];

/// Counts doubled effects, by their index.
pub(super) const DOUBLED: &str = "\
-- ledger.doubled
SELECT count(*) AS count FROM consumers n CROSS JOIN entries e INDEXED BY entries_doubled
WHERE n.name = ?1 AND e.consumer = n.no AND e.doubled IS NOT NULL";

/// Whether there are more than ?1 entries, and their range of rowids; and the number of names, which are numbered from 1 on.
pub(super) const SIZE: &str = "\
-- ledger.size
SELECT (SELECT count(*) FROM (SELECT 1 FROM entries LIMIT ?1)) AS entries,
       coalesce((SELECT min(rowid) FROM entries), 0) AS first, coalesce((SELECT max(rowid) FROM entries), 0) AS last,
       (SELECT coalesce(max(no), 0) FROM consumers) AS consumers,
       (SELECT coalesce(max(no), 0) FROM sources) AS sources,
       (SELECT coalesce(max(no), 0) FROM principals) AS principals";

/// Counts the completed entries of a small ledger.
pub(super) const COMPLETED: &str = concat!(
    "-- ledger.completed
SELECT n.name, count(*) AS completed
FROM entries e CROSS JOIN consumers n ON n.no = e.consumer WHERE e.state = ",
    number!(COMPLETED),
    " GROUP BY n.name"
);

/// Counts the completed entries in a sample of ?3 rows among the ?2 rows from rowid ?1 on, at rowids that are far from each other
/// and always the same. A deleted entry leaves its rowid empty.
pub(super) const SAMPLED: &str = concat!(
    "-- ledger.sampled
WITH RECURSIVE place (number) AS (SELECT 0 UNION ALL SELECT number + 1 FROM place WHERE number + 1 < ?3)
SELECT n.name, count(*) AS completed
FROM place p CROSS JOIN entries e ON e.rowid = ?1 + p.number * 2654435761 % ?2
CROSS JOIN consumers n ON n.no = e.consumer WHERE e.state = ",
    number!(COMPLETED),
    " GROUP BY n.name"
);

pub(super) async fn names_of_consumers(
    connection: &mut SqliteConnection,
    after: String,
    limit: usize,
) -> Result<Vec<String>, StoreError> {
    let query = sqlx::query(CONSUMERS).bind(after).bind(i64::try_from(limit).unwrap_or(i64::MAX));
    let rows = query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(rows.iter().map(|row| row.get("name")).collect())
}

pub(super) async fn count(
    connection: &mut SqliteConnection,
    reading: Reading,
    consumers: Vec<(String, Option<i32>)>,
    most: i64,
) -> Result<Summary, StoreError> {
    let (mut counts, mut expired, mut doubled) = (Vec::new(), Vec::new(), Vec::new());
    for (consumer, near) in &consumers {
        let query = sqlx::query(DOUBLED).bind(consumer.clone()).fetch_one(&mut *connection).await;
        let count: i64 = query.map_err(|error| of_sqlx(&error))?.get("count");
        doubled.extend((count > 0).then(|| (consumer.clone(), count)));
        let mut rows = Vec::new();
        for state in COUNTED {
            let query = sqlx::query(SUMMARY).bind(consumer.clone()).bind(*near);
            let query = query.bind(reading.now.micros()).bind(state).bind(most);
            rows.extend(query.fetch_all(&mut *connection).await.map_err(|error| of_sqlx(&error))?);
        }
        for row in &rows {
            let number: i64 = row.get("expired");
            if number > 0 {
                let since = StoreTime(row.get("expired_since"));
                expired.push(Expired { consumer: consumer.clone(), count: number, since });
            }
            let Some(state) = numbers::state(row.get("state"), row.get("cause")) else {
                tracing::error!("entries are in a state that cannot be read");
                continue;
            };
            counts.push(Count {
                consumer: consumer.clone(),
                state,
                count: row.get("count"),
                oldest: Some(StoreTime(row.get("oldest"))),
                near_exhaustion: row.get("near"),
                at_least: row.get("more"),
            });
        }
    }
    let (completed, estimated, names) = completed(connection, &consumers).await?;
    Ok(Summary { reading, counts, expired, doubled, completed, estimated, names })
}

/// The number of COMPLETED entries of these consumers, whether it is estimated, and the number of names.
async fn completed(
    connection: &mut SqliteConnection,
    consumers: &[(String, Option<i32>)],
) -> Result<(Vec<(String, i64)>, bool, NameCounts), StoreError> {
    let size = sqlx::query(SIZE).bind(EXACT_MAX + 1).fetch_one(&mut *connection).await;
    let size = size.map_err(|error| of_sqlx(&error))?;
    let estimated = size.get::<i64, _>("entries") > EXACT_MAX;
    let names = NameCounts {
        consumers: size.get("consumers"),
        sources: size.get("sources"),
        principals: size.get("principals"),
    };
    let (first, span) =
        (size.get::<i64, _>("first"), size.get::<i64, _>("last") - size.get::<i64, _>("first") + 1);
    let (query, parts) = if estimated {
        (sqlx::query(SAMPLED).bind(first).bind(span).bind(EXACT_MAX), parts(span))
    } else {
        (sqlx::query(COMPLETED), 1.0)
    };
    let rows = query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        let (consumer, completed): (String, i64) = (row.get("name"), row.get("completed"));
        if consumers.iter().any(|(asked, _)| *asked == consumer) {
            found.push((consumer, scaled(completed, parts)));
        }
    }
    Ok((found, estimated, names))
}

/// The ratio of all rows to the rows of a sample.
#[allow(clippy::cast_precision_loss, reason = "an estimate")]
fn parts(span: i64) -> f64 {
    span as f64 / EXACT_MAX as f64
}

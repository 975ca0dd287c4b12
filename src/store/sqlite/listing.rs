//! What operators ask for: lists and counts. Each within one transaction: it sees one state of things.

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row as _, SqliteExecutor};
use uuid::Uuid;

use super::at_once::Way;
use super::entries::load;
use super::errors::of_sqlx;
use crate::domain::{
    Count, EntryFilter, Expired, KeyHash, Listed, Listing, NameCounts, Reading, StoreTime, Summary,
};
use crate::once_a_second::warn_once_a_second;
use crate::store::dictionary::Dictionary;
use crate::store::numbers::{self, number};
use crate::store::query::{EXACT_MAX, scaled};
use crate::store::row::listed;
use crate::store::{StoreError, in_order};

/// As in Postgres, a state or cause that is none of the known ones fits every filter: the entry cannot be read, and a list
/// names it.
macro_rules! scan {
    ($name:literal, $index:literal, $state:literal, $beyond:literal, $order:literal) => {
        concat!(
            "-- ledger.",
            $name,
            "
SELECT e.key, e.created_at,
       (?5 IS NULL OR e.source = (SELECT s.no FROM sources s WHERE s.name = ?5))
       AND (?6 = '' OR substr(coalesce(e.id, lower(substr(hex(e.id_uuid), 1, 8) || '-' || substr(hex(e.id_uuid), 9, 4)
           || '-' || substr(hex(e.id_uuid), 13, 4) || '-' || substr(hex(e.id_uuid), 17, 4) || '-'
           || substr(hex(e.id_uuid), 21))), 1, length(?6)) = ?6)
       AND (?7 = '' OR instr(?7, ',' || e.state || ',') > 0 OR e.state NOT BETWEEN 1 AND 6)
       AND (?8 = '' OR instr(?8, ',' || coalesce(e.cause, 0) || ',') > 0 OR e.state NOT BETWEEN 1 AND 6
            OR e.state = 6 AND coalesce(e.cause, 0) NOT BETWEEN 1 AND 5)
       AND (NOT ?9 OR (e.state = ",
            number!(IN_PROGRESS),
            " AND e.lease_until + (SELECT t.grace FROM terms t WHERE t.no = e.terms) <= ?10)) AS fits
FROM consumers c CROSS JOIN entries e",
            $index,
            "
WHERE c.name = ?1 AND e.consumer = c.no",
            $state,
            " AND (e.created_at, e.key) ",
            $beyond,
            " (?2, ?3) AND e.created_at >= ?4 AND e.created_at <= ?11
ORDER BY e.created_at ",
            $order,
            ", e.key ",
            $order,
            " LIMIT ?12"
        )
    };
}

pub(super) const LIST_OLDEST: &str = scan!("list_oldest", "", "", ">", "ASC");
pub(super) const LIST_NEWEST: &str = scan!("list_newest", "", "", "<", "DESC");
pub(super) const LIST_DOUBLED_OLDEST: &str =
    scan!("list_doubled_oldest", " INDEXED BY entries_doubled", " AND e.doubled IS NOT NULL", ">", "ASC");
pub(super) const LIST_DOUBLED_NEWEST: &str =
    scan!("list_doubled_newest", " INDEXED BY entries_doubled", " AND e.doubled IS NOT NULL", "<", "DESC");
pub(super) const LIST_OPEN_OLDEST: &str = scan!("list_open_oldest", "", " AND e.attention = ?13", ">", "ASC");
pub(super) const LIST_OPEN_NEWEST: &str =
    scan!("list_open_newest", "", " AND e.attention = ?13", "<", "DESC");

pub(super) const CONSUMERS: &str = "\
-- ledger.consumers
SELECT n.name FROM consumers n
WHERE n.name > ?1 AND EXISTS (SELECT 1 FROM entries e WHERE e.consumer = n.no)
ORDER BY n.name LIMIT ?2";

pub(super) const SUMMARY: &str = concat!(
    "-- ledger.summary
SELECT e.attention AS state, coalesce(e.cause, 0) AS cause, count(*) AS count, min(e.created_at) AS oldest,
       count(*) FILTER (WHERE e.attention <= ",
    number!(FAILED_RETRYABLE),
    " AND e.attempts >= ?2) AS near,
       count(*) FILTER (WHERE e.attention = ",
    number!(IN_PROGRESS),
    " AND e.lease_until + (SELECT t.grace FROM terms t WHERE t.no = e.terms) <= ?3) AS expired,
       min(e.lease_until + (SELECT t.grace FROM terms t WHERE t.no = e.terms)) FILTER (WHERE e.attention = ",
    number!(IN_PROGRESS),
    " AND e.lease_until + (SELECT t.grace FROM terms t WHERE t.no = e.terms) <= ?3)
           AS expired_since
FROM consumers n CROSS JOIN entries e
WHERE n.name = ?1 AND e.consumer = n.no AND e.attention IN (",
    number!(RECEIVED),
    ", ",
    number!(IN_PROGRESS),
    ", ",
    number!(FAILED_RETRYABLE),
    ", ",
    number!(FAILED_TERMINAL),
    ", ",
    number!(PARKED),
    ")
GROUP BY 1, 2
ORDER BY 1, 2"
);

/// Doubled effects, by their index.
pub(super) const DOUBLED: &str = "\
-- ledger.doubled
SELECT count(*) AS count FROM consumers n CROSS JOIN entries e INDEXED BY entries_doubled
WHERE n.name = ?1 AND e.consumer = n.no AND e.doubled IS NOT NULL";

/// Whether there are more than so many entries, and between which rows of the table; and how many names there are, which are
/// numbered from 1 on.
pub(super) const SIZE: &str = "\
-- ledger.size
SELECT (SELECT count(*) FROM (SELECT 1 FROM entries LIMIT ?1)) AS entries,
       coalesce((SELECT min(rowid) FROM entries), 0) AS first, coalesce((SELECT max(rowid) FROM entries), 0) AS last,
       (SELECT coalesce(max(no), 0) FROM consumers) AS consumers,
       (SELECT coalesce(max(no), 0) FROM sources) AS sources,
       (SELECT coalesce(max(no), 0) FROM principals) AS principals";

/// What a small ledger has completed.
pub(super) const COMPLETED: &str = concat!(
    "-- ledger.completed
SELECT n.name, count(*) AS completed
FROM entries e CROSS JOIN consumers n ON n.no = e.consumer WHERE e.state = ",
    number!(COMPLETED),
    " GROUP BY n.name"
);

/// The same among ?3 rows between the ?1st and ?2 after it, at places that are far from each other and always the
/// same. Where an entry was forgotten there is none.
pub(super) const SAMPLED: &str = concat!(
    "-- ledger.sampled
WITH RECURSIVE place (number) AS (SELECT 0 UNION ALL SELECT number + 1 FROM place WHERE number + 1 < ?3)
SELECT n.name, count(*) AS completed
FROM place p CROSS JOIN entries e ON e.rowid = ?1 + p.number * 2654435761 % ?2
CROSS JOIN consumers n ON n.no = e.consumer WHERE e.state = ",
    number!(COMPLETED),
    " GROUP BY n.name"
);

pub(super) async fn list(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    reading: Reading,
    listing: Listing,
) -> Result<Listed, StoreError> {
    let open: Vec<Option<i16>> = if listing.filter.by_attention() {
        listing.filter.states.iter().copied().map(Some).collect()
    } else {
        vec![None]
    };
    let mut scanned: Vec<(StoreTime, KeyHash, bool)> = Vec::new();
    for state in open {
        scanned.extend(scan(&mut *connection, &listing, state, reading).await?);
    }
    scanned.sort_unstable_by_key(|(at, key, _)| (*at, *key));
    if listing.newest_first {
        scanned.reverse();
    }
    let most = usize::try_from(listing.look_at()).unwrap_or(usize::MAX);
    scanned.truncate(most);
    let looked_at = i64::try_from(scanned.len()).unwrap_or(i64::MAX);
    let ended = scanned.last().map(|(at, key, _)| (*at, *key));
    let shown: Vec<(StoreTime, KeyHash)> = scanned
        .into_iter()
        .filter_map(|(at, key, fits)| fits.then_some((at, key)))
        .take(listing.limit)
        .collect();
    let next = Listed::place(&listing, &shown, looked_at, ended);
    let keys: Vec<KeyHash> = shown.iter().map(|(_, key)| *key).collect();
    let found = load(connection, dictionary, Way::Begun, keys.clone()).await?.unwrap_or_default();
    let found = in_order(keys.into_iter(), found);
    let (shown, found) = shown.into_iter().zip(found).filter_map(|(at, found)| Some((at, found?))).unzip();
    Ok(Listed { reading, rows: listed(shown, found), next })
}

async fn scan(
    connection: impl SqliteExecutor<'_>,
    listing: &Listing,
    state: Option<i16>,
    reading: Reading,
) -> Result<Vec<(StoreTime, KeyHash, bool)>, StoreError> {
    let consumer = listing.filter.namespace().name().to_owned();
    let EntryFilter { source, id_prefix, states, causes, expired, created_from, created_until, .. } =
        listing.filter.clone();
    let statement = match (listing.filter.doubled, state.is_some(), listing.newest_first) {
        (true, _, false) => LIST_DOUBLED_OLDEST,
        (true, _, true) => LIST_DOUBLED_NEWEST,
        (false, false, false) => LIST_OLDEST,
        (false, false, true) => LIST_NEWEST,
        (false, true, false) => LIST_OPEN_OLDEST,
        (false, true, true) => LIST_OPEN_NEWEST,
    };
    let (at, key) = listing.place();
    let query = sqlx::query(statement)
        .bind(consumer)
        .bind(at.micros())
        .bind(key)
        .bind(created_from.micros())
        .bind(source)
        .bind(id_prefix)
        .bind(numbers(&states))
        .bind(numbers(&causes))
        .bind(expired)
        .bind(reading.now.micros())
        .bind(created_until.micros())
        .bind(listing.look_at());
    let query = if let Some(state) = state { query.bind(state) } else { query };
    let rows = query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))?;
    let one = |row: &SqliteRow| {
        // A row whose key is damaged has no name by which a person could ask for it.
        let Ok(key) = row.try_get::<Uuid, _>("key") else {
            warn_once_a_second!("an entry has a damaged key, which no list shows: see docs/sqlite.md");
            return None;
        };
        let fits = row.get::<Option<bool>, _>("fits");
        Some((StoreTime(row.get("created_at")), key, fits.unwrap_or(false)))
    };
    Ok(rows.iter().filter_map(one).collect())
}

/// Numbers as a text in which each is found between two commas; nothing where there are none.
fn numbers(all: &[i16]) -> String {
    if all.is_empty() {
        return String::new();
    }
    all.iter().fold(String::from(","), |text, number| format!("{text}{number},"))
}

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
) -> Result<Summary, StoreError> {
    let (mut counts, mut expired, mut doubled) = (Vec::new(), Vec::new(), Vec::new());
    for (consumer, near) in &consumers {
        let query = sqlx::query(DOUBLED).bind(consumer.clone()).fetch_one(&mut *connection).await;
        let count: i64 = query.map_err(|error| of_sqlx(&error))?.get("count");
        doubled.extend((count > 0).then(|| (consumer.clone(), count)));
        let query = sqlx::query(SUMMARY).bind(consumer.clone()).bind(*near).bind(reading.now.micros());
        let rows = query.fetch_all(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
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
                oldest: StoreTime(row.get("oldest")),
                near_exhaustion: row.get("near"),
            });
        }
    }
    let (completed, estimated, names) = completed(connection, &consumers).await?;
    Ok(Summary { reading, counts, expired, doubled, completed, estimated, names })
}

/// How many entries of these consumers are COMPLETED, whether that is estimated, and how many names there are.
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

/// How many rows each place of a sample stands for.
#[allow(clippy::cast_precision_loss, reason = "an estimate")]
fn parts(span: i64) -> f64 {
    span as f64 / EXACT_MAX as f64
}

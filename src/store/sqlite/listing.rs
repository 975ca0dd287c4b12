//! Lists of entries for operators. Each runs within one transaction, and so sees one snapshot.

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row as _, SqliteExecutor};
use uuid::Uuid;

use super::entries::load;
use super::errors::of_sqlx;
use super::one_trip::Mode;
use crate::common::log_limit::warn_once_a_second;
use crate::domain::{EntryFilter, KeyHash, Listed, Listing, Reading, StoreTime};
use crate::store::dictionary::Dictionary;
use crate::store::numbers::number;
use crate::store::query;
use crate::store::row::listed;
use crate::store::{StoreError, in_order};

/// As in Postgres, an unknown state or cause matches every filter: the entry is unreadable, and lists must show it.
macro_rules! scan {
    ($name:literal, $index:literal, $state:literal, $beyond:literal, $order:literal) => {
        scan!($name, $index, $state, $beyond, $order, "")
    };
    ($name:literal, $index:literal, $state:literal, $beyond:literal, $order:literal, $more:expr) => {
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
            " AND e.lease_until + (SELECT t.grace FROM terms t WHERE t.no = e.terms) <= ?10))
       AND (?13 = '' OR e.owner = ?13) AND (?14 = '' OR instr(e.last_error, ?14) > 0)
       AND (?15 IS NULL OR (e.state = ",
            number!(PARKED),
            " AND coalesce(e.parked_at, e.updated_at, e.granted_at, e.created_at) >= ?15))
       AND (?16 IS NULL OR e.body = ?16) AS fits",
            $more,
            "
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

/// The open entries of one state, newest first, with the first lines of their errors.
pub(super) const OPEN_ROWS: &str = scan!(
    "open_rows",
    "",
    " AND e.attention = ?17",
    "<",
    "DESC",
    ", coalesce(e.cause, 0) AS cause, substr(coalesce(substr(e.last_error, 1, instr(e.last_error || char(10), char(10)) - 1),
           ''), 1, 200) AS error"
);

pub(super) const LIST_OLDEST: &str = scan!("list_oldest", "", "", ">", "ASC");
pub(super) const LIST_NEWEST: &str = scan!("list_newest", "", "", "<", "DESC");
pub(super) const LIST_DOUBLED_OLDEST: &str =
    scan!("list_doubled_oldest", " INDEXED BY entries_doubled", " AND e.doubled IS NOT NULL", ">", "ASC");
pub(super) const LIST_DOUBLED_NEWEST: &str =
    scan!("list_doubled_newest", " INDEXED BY entries_doubled", " AND e.doubled IS NOT NULL", "<", "DESC");
pub(super) const LIST_OPEN_OLDEST: &str = scan!("list_open_oldest", "", " AND e.attention = ?17", ">", "ASC");
pub(super) const LIST_OPEN_NEWEST: &str =
    scan!("list_open_newest", "", " AND e.attention = ?17", "<", "DESC");

pub(super) async fn list(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    reading: Reading,
    listing: Listing,
) -> Result<Listed, StoreError> {
    let open: Vec<Option<i16>> = if query::by_attention(&listing.filter) {
        listing.filter.states.iter().copied().map(Some).collect()
    } else {
        vec![None]
    };
    let (mut looked, mut ends) = (Vec::new(), Vec::new());
    for state in open {
        let (found, has_more) = scan(&mut *connection, &listing, state, reading).await?;
        ends.extend(found.last().filter(|_| has_more).map(|(at, key, _)| (*at, *key)));
        looked.extend(found);
    }
    // If a state has more entries, the page ends at the last entry that was read in it, for all other states too: entries
    // beyond it belong to the next page.
    let ended = if listing.newest_first { ends.into_iter().max() } else { ends.into_iter().min() };
    let is_within = |place: (StoreTime, KeyHash)| {
        ended.is_none_or(|ended| if listing.newest_first { place >= ended } else { place <= ended })
    };
    looked.retain(|(at, key, _)| is_within((*at, *key)));
    looked.sort_unstable_by_key(|(at, key, _)| (*at, *key));
    if listing.newest_first {
        looked.reverse();
    }
    let shown: Vec<(StoreTime, KeyHash)> = looked
        .into_iter()
        .filter_map(|(at, key, fits)| fits.then_some((at, key)))
        .take(listing.limit)
        .collect();
    let next = query::next_place(&listing, &shown, ended);
    let keys: Vec<KeyHash> = shown.iter().map(|(_, key)| *key).collect();
    let found = load(connection, dictionary, Mode::InTransaction, keys.clone()).await?.unwrap_or_default();
    let found = in_order(keys.into_iter(), found);
    let (shown, found) = shown.into_iter().zip(found).filter_map(|(at, found)| Some((at, found?))).unzip();
    Ok(Listed { reading, rows: listed(shown, found), next })
}

/// A position that was read, and whether its entry matches the filter.
type Looked = (StoreTime, KeyHash, bool);

/// Reads the next entries; returns whether there are more.
async fn scan(
    connection: impl SqliteExecutor<'_>,
    listing: &Listing,
    state: Option<i16>,
    reading: Reading,
) -> Result<(Vec<Looked>, bool), StoreError> {
    let statement = match (listing.filter.doubled, state.is_some(), listing.newest_first) {
        (true, _, false) => LIST_DOUBLED_OLDEST,
        (true, _, true) => LIST_DOUBLED_NEWEST,
        (false, false, false) => LIST_OLDEST,
        (false, false, true) => LIST_NEWEST,
        (false, true, false) => LIST_OPEN_OLDEST,
        (false, true, true) => LIST_OPEN_NEWEST,
    };
    let (at, key) = query::first_place(listing);
    let namespace = listing.filter.namespace().name().to_owned();
    let query = filtered(statement, namespace, (at, key), &listing.filter, reading, query::look_at(listing));
    let query = if let Some(state) = state { query.bind(state) } else { query };
    let rows = query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))?;
    let one = |row: &SqliteRow| {
        // A row with a damaged key cannot be requested by its key, so it is left out.
        let Ok(key) = row.try_get::<Uuid, _>("key") else {
            warn_once_a_second!("an entry has a damaged key, which no list shows: see docs/sqlite.md");
            return None;
        };
        let fits = row.get::<Option<bool>, _>("fits");
        Some((StoreTime(row.get("created_at")), key, fits.unwrap_or(false)))
    };
    let has_more = i64::try_from(rows.len()).is_ok_and(|rows| rows >= query::look_at(listing));
    Ok((rows.iter().filter_map(one).collect(), has_more))
}

/// A statement with the arguments of a filter, from a position of a namespace on, that reads at most `limit` entries.
pub(super) fn filtered(
    statement: &'static str,
    namespace: String,
    (at, key): (StoreTime, KeyHash),
    filter: &EntryFilter,
    reading: Reading,
    limit: i64,
) -> sqlx::query::Query<'static, sqlx::Sqlite, sqlx::sqlite::SqliteArguments> {
    let filter = filter.clone();
    sqlx::query(statement)
        .bind(namespace)
        .bind(at.micros())
        .bind(key)
        .bind(filter.created_from.micros())
        .bind(filter.source)
        .bind(filter.id_prefix)
        .bind(numbers(&filter.states))
        .bind(numbers(&filter.causes))
        .bind(filter.expired)
        .bind(reading.now.micros())
        .bind(filter.created_until.micros())
        .bind(limit)
        .bind(filter.owner)
        .bind(filter.error)
        .bind(filter.parked_from.map(StoreTime::micros))
        .bind(filter.message_state)
}

/// Numbers as a text with each between two commas; empty without numbers.
pub(super) fn numbers(all: &[i16]) -> String {
    if all.is_empty() {
        return String::new();
    }
    all.iter().fold(String::from(","), |text, number| format!("{text}{number},"))
}

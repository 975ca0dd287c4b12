//! Reads and writes entries by their keys.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use sqlx::Row as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::SqliteSession;
use super::entry_statements::{ADDED, COMPLETE, DELETE, DELETE_UNREADABLE, INSERT, LOAD, REPLACE};
use super::errors::of_sqlx;
use super::inbox_statements::INBOX_ERASE_MESSAGE;
use super::names::{learn_names, learn_values};
use super::one_trip::{Mode, RowQuery, RowWork};
use crate::domain::{Entry, Key, KeyHash, Reading, SETTLED, StoreTime, TOKEN_MAX};
use crate::store::columns::{Row, entry_columns};
use crate::store::dictionary::Dictionary;
use crate::store::row::{Raw, Stored};
use crate::store::{Completion, Done, Entries, Fault, Found, Inserted, Loaded, StoreError, in_order};

impl SqliteSession {
    /// The entries with these hashes, in the same order.
    pub(super) async fn rows_of(
        &mut self,
        hashes: Vec<KeyHash>,
    ) -> Result<(Reading, Vec<Found>), StoreError> {
        let count = hashes.len();
        let hashes: Arc<[KeyHash]> = hashes.into();
        let work: RowWork<Vec<Found>> = Box::new(move |connection, dictionary, _, mode| {
            let hashes = Arc::clone(&hashes);
            Box::pin(async move {
                let Some(found) = load(connection, dictionary, mode, hashes.to_vec()).await? else {
                    return Ok(None);
                };
                let found = found.into_iter().map(|(key, stored)| (key, Found::from(stored.entry)));
                let found = in_order(hashes.iter().copied(), found.collect());
                Ok(Some(found.map(|found| found.unwrap_or(Found::Absent)).collect()))
            })
        });
        // Polls use the reading connection, so that they neither block a write nor wait for one.
        if self.reads_only {
            self.file.look_at_rows(work).await
        } else {
            self.file.write_rows(count, work).await
        }
    }
}

#[async_trait]
impl Entries for SqliteSession {
    async fn load(&mut self, keys: &[Key]) -> Result<Loaded, StoreError> {
        let (reading, found) = self.rows_of(keys.iter().map(Key::hash).collect()).await?;
        let found = found.into_iter().zip(keys).map(|(found, key)| found.under(key));
        Ok(Loaded { reading, found: found.collect() })
    }

    async fn insert(&mut self, rows: &[Entry], until: StoreTime) -> Result<Inserted, StoreError> {
        let entries: Arc<[Entry]> = rows.into();
        let withheld = self.file.withheld();
        let work: RowWork<Vec<Option<i64>>> = Box::new(move |connection, dictionary, reading, mode| {
            // Read within the work: opening the connection may just have detected a loss.
            let withheld = withheld.load(Ordering::SeqCst);
            let entries = Arc::clone(&entries);
            Box::pin(async move {
                if !reading.is_sound() {
                    return Err(StoreError::NotApplied(Fault::ClockBehind));
                }
                if reading.now > until || withheld {
                    return Ok(Some(vec![None; entries.len()]));
                }
                let stamped = entries.iter().cloned();
                let stamped: Vec<Entry> =
                    stamped.map(|entry| entry.stamped(reading.now, reading.token_clock())).collect();
                let Some(rows) = rows_to_write(connection, dictionary, mode, &stamped).await? else {
                    return Ok(None);
                };
                let Some(fresh) = insert(connection, mode, rows).await? else { return Ok(None) };
                let token = |entry: &Entry| fresh.contains(&entry.key.hash()).then_some(entry.token);
                Ok(Some(stamped.iter().map(token).collect()))
            })
        });
        let (reading, tokens) = self.file.write_rows(rows.len(), work).await?;
        Ok(Inserted::of_tokens(reading, tokens))
    }

    async fn complete(&mut self, completions: &[Completion]) -> Result<Vec<Option<Done>>, StoreError> {
        let count = completions.len();
        let completions: Arc<[Completion]> = completions.into();
        let work: RowWork<Vec<Option<Done>>> = Box::new(move |connection, dictionary, reading, mode| {
            let completions = Arc::clone(&completions);
            Box::pin(async move {
                let keys = completions.iter().map(|one| one.key.hash());
                let done = complete(connection, dictionary, reading, mode, completions.to_vec()).await?;
                Ok(done.map(|done| in_order(keys, done).collect()))
            })
        });
        Ok(self.file.write_rows(count, work).await?.1)
    }

    async fn replace_until(
        &mut self,
        entries: &[Entry],
        until: &[StoreTime],
    ) -> Result<Vec<bool>, StoreError> {
        let count = entries.len();
        let (entries, until): (Arc<[Entry]>, Arc<[StoreTime]>) = (entries.into(), until.into());
        let withheld = self.file.withheld();
        let work: RowWork<Vec<bool>> = Box::new(move |connection, dictionary, reading, mode| {
            // A replacement with a bound grants a claim.
            let bound = if withheld.load(Ordering::SeqCst) { StoreTime::MAX } else { reading.now };
            let (entries, until) = (Arc::clone(&entries), Arc::clone(&until));
            Box::pin(async move {
                let in_time = entries.iter().zip(&*until).filter(|(_, until)| bound <= **until);
                let in_time: Vec<Entry> = in_time.map(|(entry, _)| entry.clone()).collect();
                let Some(rows) = rows_to_write(connection, dictionary, mode, &in_time).await? else {
                    return Ok(None);
                };
                let Some(done) = replace(connection, mode, rows).await? else { return Ok(None) };
                Ok(Some(entries.iter().map(|entry| done.contains(&entry.key.hash())).collect()))
            })
        });
        Ok(self.file.write_rows(count, work).await?.1)
    }

    /// Always empty: a writer locks the whole file, and rows are not locked one by one.
    async fn locked(&mut self, _: &[Key]) -> Result<Vec<KeyHash>, StoreError> {
        Ok(Vec::new())
    }
}

/// The rows of these entries. `None` if a name in them must be learnt first, which is not possible in one trip.
async fn rows_to_write(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    mode: Mode,
    entries: &[Entry],
) -> Result<Option<Vec<Row>>, StoreError> {
    if let Mode::InTransaction = mode {
        learn_names(connection, dictionary, entries).await?;
    }
    let rows: Result<Vec<Row>, StoreError> = entries.iter().map(|entry| Row::of(entry, dictionary)).collect();
    match (rows, mode) {
        (Err(_), Mode::OneTrip(_)) => Ok(None),
        (rows, _) => rows.map(Some),
    }
}

/// The rows with these hashes, in any order.
pub(super) async fn load(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    mode: Mode,
    hashes: Vec<KeyHash>,
) -> Result<Option<Vec<(KeyHash, Stored)>>, StoreError> {
    let Some(done) = LOAD.carry_out(connection, mode, hashes, RowQuery::bind).await? else { return Ok(None) };
    let raw = Raw::all(&done.rows);
    learn_values(connection, dictionary, &raw).await?;
    Ok(Some(raw.into_iter().map(|raw| (raw.hash(), raw.stored(dictionary))).collect()))
}

/// The entries in these rows, in the same order.
pub(super) async fn stored(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    rows: &[SqliteRow],
) -> Result<Vec<Stored>, StoreError> {
    let raw = Raw::all(rows);
    learn_values(connection, dictionary, &raw).await?;
    Ok(raw.into_iter().map(|raw| raw.stored(dictionary)).collect())
}

/// Inserts the rows of first grants, whose instants and numbers are final. Returns the keys of the inserted rows.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    mode: Mode,
    rows: Vec<Row>,
) -> Result<Option<HashSet<KeyHash>>, StoreError> {
    let keys: Vec<KeyHash> = rows.iter().map(|row| row.key).collect();
    let bind = |query: RowQuery, row: Row| {
        query
            .bind(row.key)
            .bind(row.claim_id)
            .bind(row.created_at)
            .bind(row.token)
            .bind(row.lease_until)
            .bind(row.consumer)
            .bind(row.source)
            .bind(row.principal)
            .bind(row.terms)
            .bind(row.version)
            .bind(row.id)
            .bind(row.id_uuid)
            .bind(row.owner)
            .bind(row.fingerprint)
            .bind(row.traceparent)
    };
    let Some(done) = INSERT.carry_out(connection, mode, rows, bind).await? else { return Ok(None) };
    if done.changed == keys.len() as u64 {
        return Ok(Some(keys.into_iter().collect()));
    }
    if done.changed == 0 {
        return Ok(Some(HashSet::new()));
    }
    // New rows have higher rowids than all others.
    let above = done.last_rowid - i64::try_from(done.changed).unwrap_or_default();
    let fresh = added(connection, keys, above).await;
    fresh.map(Some).map_err(|error| mode.after_statement(error))
}

/// The keys whose rowids are above this one.
async fn added(
    connection: &mut SqliteConnection,
    keys: Vec<KeyHash>,
    above: i64,
) -> Result<HashSet<KeyHash>, StoreError> {
    let mut added = HashSet::with_capacity(keys.len());
    for (statement, keys) in ADDED.parts(keys) {
        let query = keys.into_iter().fold(sqlx::query(statement), |query, key| query.bind(key).bind(above));
        let found = query.fetch_all(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
        added.extend(found.iter().map(|row| row.get::<KeyHash, _>(0)));
    }
    Ok(added)
}

/// Completes claims that are in progress under their token. Returns the key and the result of each completed one.
async fn complete(
    connection: &mut SqliteConnection,
    dictionary: &Dictionary,
    reading: Reading,
    mode: Mode,
    completions: Vec<Completion>,
) -> Result<Option<Vec<(KeyHash, Done)>>, StoreError> {
    let bind = |query: RowQuery, one: Completion| {
        query
            .bind(one.key.hash())
            .bind(one.token)
            .bind(reading.now.micros())
            .bind(dictionary.terms.of(&one.terms))
            .bind(one.terms.retention.micros())
            .bind(one.result_column().map(<[u8]>::to_vec))
    };
    let done = COMPLETE.carry_out(connection, mode, completions, bind).await?;
    let done_of =
        |row: &SqliteRow| (row.get(0), Done { late: row.get(1), attempt: row.get(2), doubled: row.get(3) });
    Ok(done.map(|done| done.rows.iter().map(done_of).collect()))
}

macro_rules! bind_replaced {
    ([$query:ident, $row:ident] fixed { $($_f:tt)* } replaced { $($name:ident: $_t:ty, $_l:literal;)* }) => {
        $query$(.bind($row.$name))*
    };
}

/// Replaces rows whose version is still the expected one. Returns their keys.
pub(super) async fn replace(
    connection: &mut SqliteConnection,
    mode: Mode,
    rows: Vec<Row>,
) -> Result<Option<HashSet<KeyHash>>, StoreError> {
    let bind = |query: RowQuery, row: Row| {
        let (attention, key, version) = (row.attention(), row.key, row.version);
        entry_columns!(bind_replaced, query, row).bind(attention).bind(key).bind(version)
    };
    let done = REPLACE.carry_out(connection, mode, rows, bind).await?;
    Ok(done.map(|done| done.rows.iter().map(|row| row.get(0)).collect()))
}

pub(super) async fn delete_unreadable(
    connection: &mut SqliteConnection,
    reading: Reading,
    key: KeyHash,
    version: Option<i64>,
) -> Result<bool, StoreError> {
    let query = sqlx::query(DELETE_UNREADABLE)
        .bind(key)
        .bind(version)
        .bind(reading.token_clock())
        .bind(SETTLED.micros())
        .bind(TOKEN_MAX - 1);
    let done = query.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(done.rows_affected() == 1)
}

pub(super) async fn delete(
    connection: &mut SqliteConnection,
    reading: Reading,
    key: KeyHash,
    version: i64,
) -> Result<bool, StoreError> {
    let query =
        sqlx::query(DELETE).bind(key).bind(version).bind(reading.token_clock()).bind(SETTLED.micros());
    let done = query.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(done.rows_affected() == 1)
}

/// Deletes the message of an entry that an operator deletes: an erasure leaves no payload. Messages of entries that the purge deletes
/// are erased before.
pub(super) async fn delete_message(
    connection: &mut SqliteConnection,
    key: KeyHash,
) -> Result<(), StoreError> {
    let query = sqlx::query(INBOX_ERASE_MESSAGE).bind(key).bind(i64::MAX);
    query.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(())
}

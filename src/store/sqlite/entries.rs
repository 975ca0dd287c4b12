//! Entries by their keys.

use async_trait::async_trait;
use sqlx::Row as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::SqliteSession;
use super::errors::of_sqlx;
use super::file::Work;
use super::names::{learn_names, learn_values};
use crate::domain::{Entry, Key, KeyHash, Reading, SETTLED, StoreTime};
use crate::store::columns::{Row, columns, entry_columns, select_list};
use crate::store::dictionary::Dictionary;
use crate::store::numbers::number;
use crate::store::row::{Raw, Stored};
use crate::store::{Completion, Entries, Fault, Found, Inserted, Loaded, StoreError};

pub(super) const LOAD: &str = concat!(
    "-- ledger.load
SELECT ",
    columns!(),
    "
FROM entries e WHERE e.key = ?1"
);

pub(super) const INSERT: &str = concat!(
    "-- ledger.insert
INSERT INTO entries (
    key, claim_id, created_at, token, lease_until, consumer, source, principal, terms, attempts, version,
    state, closed_by, attention, id, id_uuid, owner, fingerprint, traceparent)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 1, ?10, ",
    number!(IN_PROGRESS),
    ", ",
    number!(OPEN),
    ", ",
    number!(IN_PROGRESS),
    ", ?11, ?12, ?13, ?14, ?15)
ON CONFLICT (key) DO NOTHING"
);

pub(super) const COMPLETE: &str = concat!(
    "-- ledger.complete
UPDATE entries
SET version = version + 1, state = ",
    number!(COMPLETED),
    ", closed_by = ",
    number!(BY_COMPLETE),
    ", attention = NULL, effect_unknown = NULL, updated_at = ?3, closed_at = NULL, result = ?6,
    retain_until = CASE WHEN terms = ?4 THEN NULL ELSE (
        SELECT CASE WHEN t.retention >= ?5 THEN NULL ELSE ?3 + ?5 END
        FROM terms t WHERE t.no = entries.terms) END
WHERE key = ?1 AND token = ?2 AND state = ",
    number!(IN_PROGRESS),
    "
RETURNING lease_until <= ?3 AS late"
);

macro_rules! replace {
    ([] fixed { $($_f:tt)* } replaced { $($name:ident: $_t:ty, $_l:literal;)* }) => {
        concat!(
            "-- ledger.replace
UPDATE entries
SET version = version + 1, ",
            $(stringify!($name), " = ?, ",)*
            "attention = ?
WHERE key = ? AND version = ? - 1"
        )
    };
}
/// Its parameters stand in the order of their names in the text.
pub(super) const REPLACE: &str = entry_columns!(replace);

/// The purge's and operators' own.
pub(super) const DELETE: &str = "\
-- ledger.delete
DELETE FROM entries WHERE key = ?1 AND version = ?2 AND max(version, token) + ?4 < ?3";

impl SqliteSession {
    /// The rows with these hashes, in their order.
    pub(super) async fn rows_of(
        &mut self,
        hashes: Vec<KeyHash>,
    ) -> Result<(Reading, Vec<Found>), StoreError> {
        let work: Work<Vec<Found>> = Box::new(move |connection, dictionary, _| {
            Box::pin(async move {
                let mut found = Vec::with_capacity(hashes.len());
                for hash in hashes {
                    let stored = load(connection, dictionary, hash).await?;
                    found.push(stored.map_or(Found::Absent, |stored| Found::from(stored.entry)));
                }
                Ok(found)
            })
        });
        self.file.write(work).await
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
        let rows = rows.to_vec();
        let work: Work<Vec<Option<i64>>> = Box::new(move |connection, dictionary, reading| {
            Box::pin(async move {
                if reading.behind() {
                    return Err(StoreError::NotApplied(Fault::ClockBehind));
                }
                learn_names(connection, dictionary, &rows).await?;
                let mut tokens = Vec::with_capacity(rows.len());
                for row in rows {
                    if reading.now > until {
                        tokens.push(None);
                        continue;
                    }
                    let row = row.stamped(reading.now, reading.token_clock());
                    let fresh = insert(connection, Row::of(&row, dictionary)?).await?;
                    tokens.push(fresh.then_some(row.token));
                }
                Ok(tokens)
            })
        });
        let (reading, tokens) = self.file.write(work).await?;
        Ok(Inserted::of_tokens(reading, tokens))
    }

    async fn complete(&mut self, completions: &[Completion]) -> Result<Vec<Option<bool>>, StoreError> {
        let completions = completions.to_vec();
        let work: Work<Vec<Option<bool>>> = Box::new(move |connection, dictionary, reading| {
            Box::pin(async move {
                let mut done = Vec::with_capacity(completions.len());
                for one in completions {
                    let query = sqlx::query(COMPLETE)
                        .bind(one.key.hash())
                        .bind(one.token)
                        .bind(reading.now.micros())
                        .bind(dictionary.terms.of(&one.terms))
                        .bind(one.terms.retention.micros())
                        .bind((!one.result.is_empty()).then(|| one.result.to_vec()));
                    let row =
                        query.fetch_optional(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
                    done.push(row.map(|row| row.get::<bool, _>(0)));
                }
                Ok(done)
            })
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn replace_until(
        &mut self,
        entries: &[Entry],
        until: &[StoreTime],
    ) -> Result<Vec<bool>, StoreError> {
        let (entries, until) = (entries.to_vec(), until.to_vec());
        let work: Work<Vec<bool>> = Box::new(move |connection, dictionary, reading| {
            Box::pin(async move {
                learn_names(connection, dictionary, &entries).await?;
                let mut done = Vec::with_capacity(entries.len());
                for (entry, until) in entries.iter().zip(until) {
                    let row = Row::of(entry, dictionary)?;
                    done.push(reading.now <= until && replace(connection, &row).await?);
                }
                Ok(done)
            })
        });
        Ok(self.file.write(work).await?.1)
    }

    /// Whoever writes holds the whole file: no row has a holder of its own.
    async fn locked(&mut self, _: &[Key]) -> Result<Vec<KeyHash>, StoreError> {
        Ok(Vec::new())
    }
}

/// The row with this hash, if there is one.
pub(super) async fn load(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    hash: KeyHash,
) -> Result<Option<Stored>, StoreError> {
    let query = sqlx::query(LOAD).bind(hash);
    let rows = query.fetch_all(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(stored(connection, dictionary, &rows).await?.pop())
}

/// The entries in these rows, in their order.
pub(super) async fn stored(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    rows: &[SqliteRow],
) -> Result<Vec<Stored>, StoreError> {
    let raw = Raw::all(rows);
    learn_values(connection, dictionary, &raw).await?;
    Ok(raw.into_iter().map(|raw| raw.stored(dictionary)).collect())
}

/// The row of a first grant, whose instants and numbers are final. Says whether there was none.
pub(super) async fn insert(connection: &mut SqliteConnection, row: Row) -> Result<bool, StoreError> {
    let query = sqlx::query(INSERT)
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
        .bind(row.traceparent);
    let done = query.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(done.rows_affected() == 1)
}

macro_rules! bind_replaced {
    ([$query:ident, $row:ident] fixed { $($_f:tt)* } replaced { $($name:ident: $_t:ty, $_l:literal;)* }) => {
        $query$(.bind($row.$name.clone()))*
    };
}

pub(super) async fn replace(connection: &mut SqliteConnection, row: &Row) -> Result<bool, StoreError> {
    let query = sqlx::query(REPLACE);
    let query = entry_columns!(bind_replaced, query, row);
    let query = query.bind(row.attention()).bind(row.key).bind(row.version);
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

//! Entries by their keys.

use async_trait::async_trait;
use sqlx::Row as _;
use sqlx::sqlite::SqliteConnection;

use super::SqliteSession;
use super::errors::of_sqlx;
use super::file::Work;
use super::names::{CONSUMER_ADD, CONSUMER_FIND, SOURCE_ADD, SOURCE_FIND, number};
use crate::domain::{Entry, Key, KeyHash, Reading, SETTLED, StoreTime};
use crate::store::columns::{Row, columns, entry_columns, select_list};
use crate::store::numbers::number;
use crate::store::row::read;
use crate::store::{Completion, Entries, Fault, Found, Inserted, Loaded, StoreError};

pub(super) const LOAD: &str = concat!(
    "-- ledger.load
SELECT ",
    columns!(),
    "
FROM entries e JOIN consumers n ON n.no = e.consumer JOIN sources s ON s.no = e.source
WHERE e.key = ?1"
);

pub(super) const INSERT: &str = concat!(
    "-- ledger.insert
INSERT INTO entries (
    key, version, token, granted_at, lease_until, grace, hold_until, retention, not_before, sweep_at,
    created_at, updated_at, retain_until, claim_id, consumer, source, policy_version, attempts,
    state, attention, cause, closed_by, on_expiry, rearmed, effect_started, prior_effect_started,
    effect_unknown, id, principal, owner, traceparent, fingerprint)
VALUES (?1, ?20, ?2, ?3, ?4, ?5, ?6, ?7, ?3, ?8, ?3 - ?3 % 1000, ?3, ?9, ?10, ?11, ?12, ?13, 1, ",
    number!(IN_PROGRESS),
    ", ",
    number!(IN_PROGRESS),
    ", ",
    number!(NO_CAUSE),
    ", ",
    number!(OPEN),
    ", ?14,
        0, 0, 0, 0, ?15, ?16, ?17, ?18, ?19)
ON CONFLICT (key) DO NOTHING"
);

pub(super) const COMPLETE: &str = concat!(
    "-- ledger.complete
UPDATE entries
SET version = version + 1, state = ",
    number!(COMPLETED),
    ", closed_by = ",
    number!(BY_COMPLETE),
    ", attention = NULL, closed_at = ?3, updated_at = ?3,
    retain_until = ?3 + max(retention, ?4), effect_unknown = 0, result = ?5
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
        let work: Work<Vec<Found>> = Box::new(move |connection, _| {
            Box::pin(async move {
                let mut found = Vec::with_capacity(hashes.len());
                for hash in hashes {
                    let query = sqlx::query(LOAD).bind(hash);
                    let row =
                        query.fetch_optional(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
                    found.push(row.as_ref().map_or(Found::Absent, |row| Found::from(read(row))));
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
        let work: Work<Vec<Option<i64>>> = Box::new(move |connection, reading| {
            Box::pin(async move {
                if reading.behind() {
                    return Err(StoreError::NotApplied(Fault::ClockBehind));
                }
                let mut tokens = Vec::with_capacity(rows.len());
                for row in rows {
                    if reading.now > until {
                        tokens.push(None);
                        continue;
                    }
                    let row = row.stamped(reading.now, reading.token_clock());
                    tokens.push(insert(connection, &Row::from(&row)).await?.then_some(row.token));
                }
                Ok(tokens)
            })
        });
        let (reading, tokens) = self.file.write(work).await?;
        Ok(Inserted { reading, tokens })
    }

    async fn complete(&mut self, completions: &[Completion]) -> Result<Vec<Option<bool>>, StoreError> {
        let completions = completions.to_vec();
        let work: Work<Vec<Option<bool>>> = Box::new(move |connection, reading| {
            Box::pin(async move {
                let mut done = Vec::with_capacity(completions.len());
                for one in completions {
                    let query = sqlx::query(COMPLETE)
                        .bind(one.key.hash())
                        .bind(one.token)
                        .bind(reading.now.micros())
                        .bind(one.retention.micros())
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
        let rows: Vec<(Row, StoreTime)> = entries.iter().map(Row::from).zip(until.iter().copied()).collect();
        let work: Work<Vec<bool>> = Box::new(move |connection, reading| {
            Box::pin(async move {
                let mut done = Vec::with_capacity(rows.len());
                for (row, until) in &rows {
                    done.push(reading.now <= *until && replace(connection, row).await?);
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

pub(super) async fn insert(connection: &mut SqliteConnection, row: &Row) -> Result<bool, StoreError> {
    let consumer = number(connection, &row.consumer, CONSUMER_ADD, CONSUMER_FIND).await?;
    let source = number(connection, &row.source, SOURCE_ADD, SOURCE_FIND).await?;
    let query = sqlx::query(INSERT)
        .bind(row.key)
        .bind(row.token)
        .bind(row.granted_at)
        .bind(row.lease_until)
        .bind(row.grace)
        .bind(row.hold_until)
        .bind(row.retention)
        .bind(row.sweep_at)
        .bind(row.retain_until)
        .bind(row.claim_id)
        .bind(consumer)
        .bind(source)
        .bind(row.policy_version)
        .bind(row.on_expiry)
        .bind(row.id.clone())
        .bind(row.principal.clone())
        .bind(row.owner.clone())
        .bind(row.traceparent.clone())
        .bind(row.fingerprint.clone())
        .bind(row.version);
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

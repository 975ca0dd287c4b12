//! Entries by their keys.

use std::collections::HashSet;
use std::sync::LazyLock;

use async_trait::async_trait;
use sqlx::Row as _;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::SqliteSession;
use super::errors::of_sqlx;
use super::file::Work;
use super::for_rows::ForRows;
use super::names::{learn_names, learn_values};
use crate::domain::{Entry, Key, KeyHash, Reading, SETTLED, StoreTime};
use crate::store::columns::{REPLACED, Row, columns, entry_columns, select_list};
use crate::store::dictionary::Dictionary;
use crate::store::numbers::number;
use crate::store::row::{Raw, Stored};
use crate::store::{Completion, Done, Entries, Fault, Found, Inserted, Loaded, StoreError, in_order};

/// How the rows of a batch find theirs: one by one, by key, whatever statistics say. Left to itself the planner reads
/// the whole table, and looks into the batch for each of its rows: with 256 rows in a batch, or two in the table when
/// it was analysed. An `UPDATE … FROM` cannot be told so, which is why rows are changed by an upsert.
macro_rules! by_key {
    () => {
        "r CROSS JOIN entries e INDEXED BY sqlite_autoindex_entries_1 ON e.key = r.key"
    };
}

pub(super) static LOAD: LazyLock<ForRows> = LazyLock::new(|| {
    let text = concat!(
        "-- ledger.load
WITH r (key) AS (VALUES {rows})
SELECT ",
        columns!(),
        "
FROM ",
        by_key!()
    );
    ForRows::new(text, 1)
});

/// `OR FAIL`: a statement that fails leaves what it has written. Its transaction is rolled back anyhow, and `SQLite` copies no
/// page beforehand that it would need to undo the statement alone, which cost a twelfth of the time of a claim.
pub(super) static INSERT: LazyLock<ForRows> = LazyLock::new(|| {
    let text = concat!(
        "-- ledger.insert
WITH r (
    key, claim_id, created_at, token, lease_until, consumer, source, principal, terms, version, id, id_uuid,
    owner, fingerprint, traceparent) AS (VALUES {rows})
INSERT OR FAIL INTO entries (
    key, claim_id, created_at, token, lease_until, consumer, source, principal, terms, attempts, version,
    state, closed_by, attention, id, id_uuid, owner, fingerprint, traceparent)
SELECT key, claim_id, created_at, token, lease_until, consumer, source, principal, terms, 1, version, ",
        number!(IN_PROGRESS),
        ", ",
        number!(OPEN),
        ", ",
        number!(IN_PROGRESS),
        ", id, id_uuid, owner, fingerprint, traceparent
FROM r
WHERE key IS NOT NULL
ON CONFLICT (key) DO NOTHING"
    );
    ForRows::new(text, 15)
});

/// Which of the keys an insert has just added. Asked only where it has not added all: to tell them with the insert would
/// cost each row a tenth.
pub(super) static ADDED: LazyLock<ForRows> = LazyLock::new(|| {
    let text = concat!(
        "-- ledger.added
WITH r (key, above) AS (VALUES {rows})
SELECT e.key
FROM ",
        by_key!(),
        "
WHERE e.rowid > r.above"
    );
    ForRows::new(text, 2)
});

pub(super) static COMPLETE: LazyLock<ForRows> = LazyLock::new(|| {
    let text = concat!(
        "-- ledger.complete
WITH r (key, token, at, terms, retention, result) AS (VALUES {rows})
INSERT INTO entries (
    key, created_at, token, lease_until, consumer, source, terms, attempts, version, state, closed_by,
    updated_at, result, retain_until)
SELECT e.key, e.created_at, e.token, e.lease_until, e.consumer, e.source, e.terms, e.attempts, e.version + 1, ",
        number!(COMPLETED),
        ", ",
        number!(BY_COMPLETE),
        ", r.at, r.result,
    CASE WHEN e.terms = r.terms THEN NULL ELSE (
        SELECT CASE WHEN t.retention >= r.retention THEN NULL ELSE r.at + r.retention END
        FROM terms t WHERE t.no = e.terms) END
FROM ",
        by_key!(),
        "
WHERE e.token = r.token AND e.state = ",
        number!(IN_PROGRESS),
        "
ON CONFLICT (key) DO UPDATE
SET version = excluded.version, state = excluded.state, closed_by = excluded.closed_by,
    updated_at = excluded.updated_at, result = excluded.result, retain_until = excluded.retain_until,
    attention = NULL, effect_unknown = NULL, closed_at = NULL
RETURNING key, lease_until <= updated_at AS late, attempts"
    );
    ForRows::new(text, 6)
});

macro_rules! replace {
    ([] fixed { $($fixed:ident: $_ft:ty, $_f:literal;)* } replaced { $($name:ident: $_t:ty, $_l:literal;)* }) => {
        concat!(
            "-- ledger.replace
WITH r (",
            $(stringify!($name), ", ",)*
            "attention, key, version) AS (VALUES {rows})
INSERT INTO entries (",
            $(stringify!($fixed), ", ",)*
            $(stringify!($name), ", ",)*
            "attention, key, version)
SELECT ",
            $("e.", stringify!($fixed), ", ",)*
            $("r.", stringify!($name), ", ",)*
            "r.attention, r.key, r.version
FROM ",
            by_key!(),
            "
WHERE e.version = r.version - 1
ON CONFLICT (key) DO UPDATE
SET ",
            $(stringify!($name), " = excluded.", stringify!($name), ", ",)*
            "attention = excluded.attention, version = excluded.version
RETURNING key"
        )
    };
}
pub(super) static REPLACE: LazyLock<ForRows> =
    LazyLock::new(|| ForRows::new(entry_columns!(replace), REPLACED.len() + 3));

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
        let count = hashes.len();
        let work: Work<Vec<Found>> = Box::new(move |connection, dictionary, _| {
            Box::pin(async move {
                let found = load(connection, dictionary, hashes.clone()).await?;
                let found = found.into_iter().map(|(key, stored)| (key, Found::from(stored.entry)));
                let found = in_order(hashes.into_iter(), found.collect());
                Ok(found.map(|found| found.unwrap_or(Found::Absent)).collect())
            })
        });
        self.file.write_rows(count, work).await
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
        let (count, rows) = (rows.len(), rows.to_vec());
        let work: Work<Vec<Option<i64>>> = Box::new(move |connection, dictionary, reading| {
            Box::pin(async move {
                if reading.behind() {
                    return Err(StoreError::NotApplied(Fault::ClockBehind));
                }
                if reading.now > until {
                    return Ok(vec![None; rows.len()]);
                }
                learn_names(connection, dictionary, &rows).await?;
                let rows = rows.into_iter().map(|row| row.stamped(reading.now, reading.token_clock()));
                let rows: Vec<Row> =
                    rows.map(|row| Row::of(&row, dictionary)).collect::<Result<_, StoreError>>()?;
                let tokens: Vec<(KeyHash, i64)> = rows.iter().map(|row| (row.key, row.token)).collect();
                let fresh = insert(connection, rows).await?;
                Ok(tokens.into_iter().map(|(key, token)| fresh.contains(&key).then_some(token)).collect())
            })
        });
        let (reading, tokens) = self.file.write_rows(count, work).await?;
        Ok(Inserted::of_tokens(reading, tokens))
    }

    async fn complete(&mut self, completions: &[Completion]) -> Result<Vec<Option<Done>>, StoreError> {
        let (count, completions) = (completions.len(), completions.to_vec());
        let work: Work<Vec<Option<Done>>> = Box::new(move |connection, dictionary, reading| {
            Box::pin(async move {
                let keys: Vec<KeyHash> = completions.iter().map(|one| one.key.hash()).collect();
                let done = complete(connection, dictionary, reading, completions).await?;
                Ok(in_order(keys.into_iter(), done).collect())
            })
        });
        Ok(self.file.write_rows(count, work).await?.1)
    }

    async fn replace_until(
        &mut self,
        entries: &[Entry],
        until: &[StoreTime],
    ) -> Result<Vec<bool>, StoreError> {
        let (count, entries, until) = (entries.len(), entries.to_vec(), until.to_vec());
        let work: Work<Vec<bool>> = Box::new(move |connection, dictionary, reading| {
            Box::pin(async move {
                learn_names(connection, dictionary, &entries).await?;
                let in_time = entries.iter().zip(until).filter(|(_, until)| reading.now <= *until);
                let rows = in_time.map(|(entry, _)| Row::of(entry, dictionary));
                let done = replace(connection, rows.collect::<Result<_, StoreError>>()?).await?;
                Ok(entries.iter().map(|entry| done.contains(&entry.key.hash())).collect())
            })
        });
        Ok(self.file.write_rows(count, work).await?.1)
    }

    /// Whoever writes holds the whole file: no row has a holder of its own.
    async fn locked(&mut self, _: &[Key]) -> Result<Vec<KeyHash>, StoreError> {
        Ok(Vec::new())
    }
}

/// The rows with these hashes, in any order.
pub(super) async fn load(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    hashes: Vec<KeyHash>,
) -> Result<Vec<(KeyHash, Stored)>, StoreError> {
    let mut rows = Vec::with_capacity(hashes.len());
    for (statement, hashes) in LOAD.parts(hashes) {
        let query = hashes.into_iter().fold(sqlx::query(statement), Query::bind);
        rows.extend(query.fetch_all(&mut *connection).await.map_err(|error| of_sqlx(&error))?);
    }
    let raw = Raw::all(&rows);
    learn_values(connection, dictionary, &raw).await?;
    Ok(raw.into_iter().map(|raw| (raw.hash(), raw.stored(dictionary))).collect())
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

/// Writes the rows of first grants, whose instants and numbers are final. The keys of those that were not there.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    rows: Vec<Row>,
) -> Result<HashSet<KeyHash>, StoreError> {
    let mut fresh = HashSet::with_capacity(rows.len());
    for (statement, rows) in INSERT.parts(rows) {
        let keys: Vec<KeyHash> = rows.iter().map(|row| row.key).collect();
        let mut query = sqlx::query(statement);
        for row in rows {
            query = query
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
        }
        let done = query.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
        let inserted = done.rows_affected();
        if inserted == keys.len() as u64 {
            fresh.extend(keys);
        } else if inserted > 0 {
            // A new row comes after the last one.
            let above = done.last_insert_rowid() - i64::try_from(inserted).unwrap_or_default();
            fresh.extend(added(connection, keys, above).await?);
        }
    }
    Ok(fresh)
}

/// Those of the keys whose rows come after this one.
async fn added(
    connection: &mut SqliteConnection,
    keys: Vec<KeyHash>,
    above: i64,
) -> Result<Vec<KeyHash>, StoreError> {
    let mut added = Vec::with_capacity(keys.len());
    for (statement, keys) in ADDED.parts(keys) {
        let query = keys.into_iter().fold(sqlx::query(statement), |query, key| query.bind(key).bind(above));
        let found = query.fetch_all(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
        added.extend(found.iter().map(|row| row.get::<KeyHash, _>(0)));
    }
    Ok(added)
}

/// Completes what is in progress under its token. For each key of those: whether the lease was over.
async fn complete(
    connection: &mut SqliteConnection,
    dictionary: &Dictionary,
    reading: Reading,
    completions: Vec<Completion>,
) -> Result<Vec<(KeyHash, Done)>, StoreError> {
    let mut all = Vec::with_capacity(completions.len());
    for (statement, completions) in COMPLETE.parts(completions) {
        let mut query = sqlx::query(statement);
        for one in completions {
            query = query
                .bind(one.key.hash())
                .bind(one.token)
                .bind(reading.now.micros())
                .bind(dictionary.terms.of(&one.terms))
                .bind(one.terms.retention.micros())
                .bind((!one.result.is_empty()).then(|| one.result.to_vec()));
        }
        let done = query.fetch_all(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
        all.extend(done.iter().map(|row| (row.get(0), Done { late: row.get(1), attempt: row.get(2) })));
    }
    Ok(all)
}

macro_rules! bind_replaced {
    ([$query:ident, $row:ident] fixed { $($_f:tt)* } replaced { $($name:ident: $_t:ty, $_l:literal;)* }) => {
        $query$(.bind($row.$name))*
    };
}

/// Writes rows over those that have the version before. The keys of those that had it.
pub(super) async fn replace(
    connection: &mut SqliteConnection,
    rows: Vec<Row>,
) -> Result<HashSet<KeyHash>, StoreError> {
    let mut replaced = HashSet::with_capacity(rows.len());
    for (statement, rows) in REPLACE.parts(rows) {
        let mut query = sqlx::query(statement);
        for row in rows {
            let (attention, key, version) = (row.attention(), row.key, row.version);
            query = entry_columns!(bind_replaced, query, row).bind(attention).bind(key).bind(version);
        }
        let done = query.fetch_all(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
        replaced.extend(done.iter().map(|row| row.get::<KeyHash, _>(0)));
    }
    Ok(replaced)
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

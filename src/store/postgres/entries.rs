//! Reads and writes entries by their keys.

use std::time::Instant;

use async_trait::async_trait;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::entry_statements::{
    COMPLETE, COMPLETE_ONE, DELETE, DELETE_UNREADABLE, INSERT, INSERT_NEW, INSERT_NEW_ONE, INSERT_ONE, LOAD,
    LOAD_ONE, LOCKED, REPLACE,
};
use super::errors::of_sqlx;
use super::{PgSession, column, no_meta, serves, shared, sparse};
use crate::domain::{Entry, Key, KeyHash, Reading, SETTLED, StoreTime, TOKEN_CLOCK_MAX, TOKEN_MAX};
use crate::store::columns::{Row, entry_columns};
use crate::store::dictionary::Dictionary;
use crate::store::row::Raw;
use crate::store::{
    Completion, Done, Entries, Fault, Found, InsertOutcome, Inserted, Loaded, StoreError, in_order,
};

macro_rules! bind_replaced {
    ([$query:ident, $rows:ident] fixed { $($_f:tt)* } replaced { $($name:ident: $_t:ty, $_l:literal;)* }) => {
        $query$(.bind(column(&$rows, |row| &row.$name)))*
    };
}

impl PgSession {
    /// The rows of entries. Numbers of new names are assigned or read first.
    pub(super) async fn rows_for(&mut self, entries: &[Entry]) -> Result<Vec<Row>, StoreError> {
        match rows_of_learnt(&self.dictionary, entries) {
            Err(_new) => {
                self.learn_names(entries).await?;
                rows_of_learnt(&self.dictionary, entries)
            }
            rows => rows,
        }
    }

    /// The rows with these hashes, in the same order. Without hashes, only a reading of the clock.
    pub(super) async fn rows_of(
        &mut self,
        hashes: Vec<KeyHash>,
    ) -> Result<(Reading, Vec<Option<Raw>>), StoreError> {
        let mark = self.mark.get();
        let query = match hashes.as_slice() {
            [] | [_] => self.query(LOAD_ONE).bind(hashes.first().copied()),
            _ => self.query(LOAD).bind(hashes.clone()),
        };
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let first = rows.first().ok_or_else(no_meta)?;
        serves(first)?;
        let reading = self.reading(first, mark)?;
        let rows = self.raw_of(&rows).await?;
        let rows = rows.into_iter().map(|row| (row.hash(), row)).collect();
        Ok((reading, in_order(hashes.into_iter(), rows).collect()))
    }
}

#[async_trait]
impl Entries for PgSession {
    async fn load(&mut self, keys: &[Key]) -> Result<Loaded, StoreError> {
        let (reading, rows) = self.rows_of(keys.iter().map(Key::hash).collect()).await?;
        let found = |(row, key): (Option<Raw>, &Key)| {
            row.map_or(Found::Absent, |row| row.under(key, &self.dictionary))
        };
        Ok(Loaded { reading, found: rows.into_iter().zip(keys).map(found).collect() })
    }

    async fn insert(&mut self, rows: &[Entry], until: StoreTime) -> Result<Inserted, StoreError> {
        let mut raw = self.rows_for(rows).await?;
        if let [entry] = rows
            && let Some(row) = raw.pop()
        {
            return self.insert_one(&entry.key, row, until).await;
        }
        let mark = self.mark.get();
        if !self.handles_conflicts() {
            match self.insert_all(INSERT_NEW, &raw, mark, until).await {
                Err(error) if is_duplicate_key(&error) => self.recent_duplicates.record(Instant::now()),
                answers => return self.all_inserted(&raw, mark, &answers.map_err(of_sqlx)?),
            }
        }
        let answers = self.insert_all(INSERT, &raw, mark, until).await.map_err(of_sqlx)?;
        self.partly_inserted(rows, mark, &answers).await
    }

    async fn complete(&mut self, completions: &[Completion]) -> Result<Vec<Option<Done>>, StoreError> {
        if let [completion] = completions {
            return Ok(vec![self.complete_one(completion).await?]);
        }
        let query = self
            .query(COMPLETE)
            .bind(column(completions, |one| one.key.hash()))
            .bind(column(completions, |one| one.token))
            .bind(column(completions, |one| self.dictionary.terms.of(&one.terms)))
            .bind(column(completions, |one| one.terms.retention.micros()))
            .bind(sparse(completions, Completion::result_column));
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let Some((count, exceptions)) = rows.split_first() else {
            return Err(StoreError::Unknown("completions without an answer".into()));
        };
        let count: i64 = count.try_get("done").map_err(of_sqlx)?;
        let usual = (usize::try_from(count) == Ok(completions.len())).then_some(USUAL);
        let exceptions: Vec<(KeyHash, Done)> = exceptions
            .iter()
            .map(|row| Ok((row.try_get("key").map_err(of_sqlx)?, done(row)?)))
            .collect::<Result<_, StoreError>>()?;
        let done = in_order(completions.iter().map(|one| one.key.hash()), exceptions);
        let done: Vec<Option<Done>> = done.map(|one| one.or(usual)).collect();
        let last = completions.iter().zip(&done).rfind(|(_, done)| done.is_some());
        self.record_completion(last.map(|(completion, _)| completion));
        Ok(done)
    }

    async fn replace_until(
        &mut self,
        entries: &[Entry],
        until: &[StoreTime],
    ) -> Result<Vec<bool>, StoreError> {
        let raw = self.rows_for(entries).await?;
        let query = self
            .query(REPLACE.as_str())
            .bind(column(&raw, |row| row.key))
            .bind(column(&raw, |row| row.version))
            .bind(column(&raw, Row::attention))
            .bind(column(until, |until| until.micros()));
        let query = entry_columns!(bind_replaced, query, raw);
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let mut done = std::collections::HashSet::with_capacity(rows.len());
        for row in &rows {
            done.insert(row.try_get::<Uuid, _>("key").map_err(of_sqlx)?);
        }
        if let Some(row) = raw.iter().rfind(|row| done.contains(&row.key)) {
            self.lost_commits.record_replace(self.server_started, row);
        }
        Ok(raw.iter().map(|row| done.contains(&row.key)).collect())
    }

    async fn locked(&mut self, keys: &[Key]) -> Result<Vec<KeyHash>, StoreError> {
        let query = self.query(LOCKED).bind(column(keys, Key::hash));
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        rows.iter().map(|row| row.try_get("key").map_err(of_sqlx)).collect()
    }
}

/// The rows of entries whose names all have known numbers.
fn rows_of_learnt(dictionary: &Dictionary, entries: &[Entry]) -> Result<Vec<Row>, StoreError> {
    // Collecting an iterator of results cannot reserve capacity, and copies the rows at each growth.
    let mut rows = Vec::with_capacity(entries.len());
    for entry in entries {
        rows.push(Row::of(entry, dictionary)?);
    }
    Ok(rows)
}

/// Parts of the calls above.
impl PgSession {
    async fn insert_all(
        &mut self,
        statement: &'static str,
        rows: &[Row],
        mark: i64,
        until: StoreTime,
    ) -> Result<Vec<PgRow>, sqlx::Error> {
        let query = self
            .query(statement)
            .bind(mark)
            .bind(until.micros())
            .bind(column(rows, |row| row.key))
            .bind(column(rows, |row| row.claim_id))
            .bind(column(rows, |row| row.token))
            .bind(shared(rows, |row| row.lease_until))
            .bind(shared(rows, |row| row.consumer))
            .bind(shared(rows, |row| row.source))
            .bind(shared(rows, |row| row.principal))
            .bind(shared(rows, |row| row.terms))
            .bind(sparse(rows, |row| row.id.as_ref()))
            .bind(sparse(rows, |row| row.id_uuid))
            .bind(shared(rows, |row| row.owner.as_ref()))
            .bind(sparse(rows, |row| row.fingerprint.as_ref()))
            .bind(sparse(rows, |row| row.traceparent.as_ref()))
            .bind(self.clock_limits.earliest.micros())
            .bind(self.clock_limits.jump_max.micros())
            .bind(TOKEN_CLOCK_MAX);
        query.fetch_all(&mut self.connection).await
    }

    /// The result of an optimistic insert: all rows were inserted, or none.
    fn all_inserted(&self, rows: &[Row], mark: i64, answers: &[PgRow]) -> Result<Inserted, StoreError> {
        let (reading, answer) = self.read_first(mark, answers)?;
        let inserted: bool = answer.try_get("inserted").map_err(of_sqlx)?;
        if !inserted {
            let outcomes = rows.iter().map(|_| InsertOutcome::UnknownConflict).collect();
            return Ok(Inserted { reading, outcomes });
        }
        let tokens = || rows.iter().map(|row| row.token + reading.token_clock());
        if let (Some(row), Some(token)) = (rows.first(), tokens().next()) {
            self.lost_commits.record_grant(self.server_started, row.key, token, reading.now.micros());
        }
        Ok(Inserted { reading, outcomes: tokens().map(InsertOutcome::Granted).collect() })
    }

    /// The result of an insert that handles conflicts: some rows were inserted, others conflict with an entry.
    async fn partly_inserted(
        &mut self,
        entries: &[Entry],
        mark: i64,
        answers: &[PgRow],
    ) -> Result<Inserted, StoreError> {
        let (reading, answer) = self.read_first(mark, answers)?;
        let keys: Option<Vec<Uuid>> = answer.try_get("fresh_keys").map_err(of_sqlx)?;
        let tokens: Option<Vec<i64>> = answer.try_get("fresh_tokens").map_err(of_sqlx)?;
        if let (Some([key, ..]), Some([token, ..])) = (keys.as_deref(), tokens.as_deref()) {
            self.lost_commits.record_grant(self.server_started, *key, *token, reading.now.micros());
        }
        // The grants are committed. If the numbers that the conflicting entries need cannot be read, these conflicts are
        // reported as unknown.
        let conflicts = if answers.len() > 1 {
            self.recent_duplicates.record(Instant::now());
            self.raw_of(answers).await.unwrap_or_default()
        } else {
            Vec::new()
        };
        // Boxed: conflicts are few, and a token is small.
        let conflicts = conflicts.into_iter().map(|row| (row.hash(), Err(Box::new(row))));
        let fresh = keys.unwrap_or_default().into_iter().zip(tokens.unwrap_or_default().into_iter().map(Ok));
        let all = in_order(entries.iter().map(|entry| entry.key.hash()), conflicts.chain(fresh).collect());
        let outcomes = all.zip(entries).map(|(row, entry)| match row {
            Some(Ok(token)) => InsertOutcome::Granted(token),
            Some(Err(found)) => InsertOutcome::Conflict(found.under(&entry.key, &self.dictionary)),
            None => InsertOutcome::UnknownConflict,
        });
        Ok(Inserted { reading, outcomes: outcomes.collect() })
    }

    /// The reading of an insert, and the row that holds it.
    fn read_first<'a>(&self, mark: i64, answers: &'a [PgRow]) -> Result<(Reading, &'a PgRow), StoreError> {
        let first = answers.first().ok_or_else(no_meta)?;
        serves(first)?;
        let reading = self.reading(first, mark)?;
        if !reading.is_sound() {
            return Err(StoreError::NotApplied(Fault::ClockBehind));
        }
        Ok((reading, first))
    }

    /// Whether the next insert handles conflicts, or is optimistic and fails on one. Within a transaction of several
    /// statements it always handles them: a failing statement would abort the transaction.
    fn handles_conflicts(&self) -> bool {
        self.connection.is_in_transaction() || !self.recent_duplicates.none_recently(Instant::now())
    }

    /// Inserts a single row.
    async fn insert_one(&mut self, key: &Key, row: Row, until: StoreTime) -> Result<Inserted, StoreError> {
        let mark = self.mark.get();
        let handles_conflicts = self.handles_conflicts();
        let query = self
            .query(if handles_conflicts { INSERT_ONE } else { INSERT_NEW_ONE })
            .bind(mark)
            .bind(until.micros())
            .bind(row.key)
            .bind(row.claim_id)
            .bind(row.token)
            .bind(row.lease_until)
            .bind(row.consumer)
            .bind(row.source)
            .bind(row.principal)
            .bind(row.terms)
            .bind(row.id)
            .bind(row.id_uuid)
            .bind(row.owner)
            .bind(row.fingerprint)
            .bind(row.traceparent)
            .bind(self.clock_limits.earliest.micros())
            .bind(self.clock_limits.jump_max.micros())
            .bind(TOKEN_CLOCK_MAX);
        let fresh = match query.fetch_optional(&mut self.connection).await {
            Err(error) if !handles_conflicts && is_duplicate_key(&error) => None,
            fresh => fresh.map_err(of_sqlx)?,
        };
        let Some(fresh) = fresh else { return self.conflict_of(key).await };
        let (now, token): (i64, i64) =
            (fresh.try_get("created_at").map_err(of_sqlx)?, fresh.try_get("token").map_err(of_sqlx)?);
        // The insert succeeded, so the clock is not behind: the mark in the database is not above the token.
        let limits = self.clock_limits;
        let reading = Reading { now: StoreTime(now), token_offset: token - row.token - now, mark, limits };
        self.mark.raise(&reading);
        self.lost_commits.record_grant(self.server_started, key.hash(), token, now);
        Ok(Inserted { reading, outcomes: vec![InsertOutcome::Granted(token)] })
    }

    /// Loads the entry that conflicts with a row. The row was not inserted, so an error of this load is `NotApplied`.
    async fn conflict_of(&mut self, key: &Key) -> Result<Inserted, StoreError> {
        let not_applied = |error| match error {
            StoreError::Unknown(text) => StoreError::NotApplied(Fault::Stale(text)),
            StoreError::NotApplied(_) => error,
        };
        let (reading, rows) = self.rows_of(vec![key.hash()]).await.map_err(not_applied)?;
        if !reading.is_sound() {
            return Err(StoreError::NotApplied(Fault::ClockBehind));
        }
        if rows.iter().any(Option::is_some) {
            self.recent_duplicates.record(Instant::now());
        }
        let conflict = |row: Raw| InsertOutcome::Conflict(row.under(key, &self.dictionary));
        let outcomes = rows.into_iter().map(|row| row.map_or(InsertOutcome::UnknownConflict, conflict));
        Ok(Inserted { reading, outcomes: outcomes.collect() })
    }

    async fn complete_one(&mut self, completion: &Completion) -> Result<Option<Done>, StoreError> {
        let query = self
            .query(COMPLETE_ONE)
            .bind(completion.key.hash())
            .bind(completion.token)
            .bind(self.dictionary.terms.of(&completion.terms))
            .bind(completion.terms.retention.micros())
            .bind(completion.result_column());
        let row = query.fetch_optional(&mut self.connection).await.map_err(of_sqlx)?;
        self.record_completion(row.as_ref().map(|_| completion));
        row.as_ref().map(done).transpose()
    }

    fn record_completion(&self, completion: Option<&Completion>) {
        if let Some(Completion { key, token, .. }) = completion {
            self.lost_commits.record_completion(self.server_started, key.hash(), *token);
        }
    }

    pub(super) async fn delete_unreadable(
        &mut self,
        key: KeyHash,
        version: Option<i64>,
    ) -> Result<bool, StoreError> {
        let query = self
            .query(DELETE_UNREADABLE)
            .bind(key)
            .bind(version)
            .bind(self.mark.get())
            .bind(SETTLED.micros())
            .bind(TOKEN_MAX - 1);
        Ok(query.fetch_optional(&mut self.connection).await.map_err(of_sqlx)?.is_some())
    }

    pub(super) async fn delete(&mut self, key: KeyHash, version: i64) -> Result<bool, StoreError> {
        let query = self.query(DELETE).bind(key).bind(version).bind(self.mark.get()).bind(SETTLED.micros());
        Ok(query.fetch_optional(&mut self.connection).await.map_err(of_sqlx)?.is_some())
    }
}

/// The result of most completions: in time, by the first attempt, reported once. The database sends only the exceptions.
const USUAL: Done = Done { late: false, attempt: 1, doubled: false };

/// The result of a completion, from its row.
fn done(row: &PgRow) -> Result<Done, StoreError> {
    let late = row.try_get("late").map_err(of_sqlx)?;
    let doubled = row.try_get::<Option<bool>, _>("doubled").map_err(of_sqlx)?.unwrap_or_default();
    Ok(Done { late, attempt: row.try_get("attempts").map_err(of_sqlx)?, doubled })
}

/// Whether an insert failed, and wrote nothing, because there is an entry under one of its keys.
fn is_duplicate_key(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}

//! Entries by their keys.

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
    /// The rows of entries, whose names are learnt where they are new.
    async fn rows_for(&mut self, entries: &[Entry]) -> Result<Vec<Row>, StoreError> {
        match rows_by(&self.dictionary, entries) {
            Err(_new) => {
                self.learn_names(entries).await?;
                rows_by(&self.dictionary, entries)
            }
            rows => rows,
        }
    }

    /// The rows with these hashes, in their order. Without a hash, it is a reading alone.
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
        if !self.looks() {
            match self.insert_all(INSERT_NEW, &raw, mark, until).await {
                Err(error) if meets_an_entry(&error) => self.quiet.met(Instant::now()),
                answers => return self.all_new(&raw, mark, &answers.map_err(of_sqlx)?),
            }
        }
        let answers = self.insert_all(INSERT, &raw, mark, until).await.map_err(of_sqlx)?;
        self.new_and_met(rows, mark, &answers).await
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
        let Some((all, told)) = rows.split_first() else {
            return Err(StoreError::Unknown("completions without an answer".into()));
        };
        let all: i64 = all.try_get("done").map_err(of_sqlx)?;
        let usual = (usize::try_from(all) == Ok(completions.len())).then_some(USUAL);
        let told: Vec<(KeyHash, Done)> = told
            .iter()
            .map(|row| Ok((row.try_get("key").map_err(of_sqlx)?, done(row)?)))
            .collect::<Result<_, StoreError>>()?;
        let done = in_order(completions.iter().map(|one| one.key.hash()), told);
        let done: Vec<Option<Done>> = done.map(|told| told.or(usual)).collect();
        let last = completions.iter().zip(&done).rfind(|(_, done)| done.is_some());
        self.note_completed(last.map(|(completion, _)| completion));
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
            self.acknowledged.replaced(self.server_started, row);
        }
        Ok(raw.iter().map(|row| done.contains(&row.key)).collect())
    }

    async fn locked(&mut self, keys: &[Key]) -> Result<Vec<KeyHash>, StoreError> {
        let query = self.query(LOCKED).bind(column(keys, Key::hash));
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        rows.iter().map(|row| row.try_get("key").map_err(of_sqlx)).collect()
    }
}

/// The rows of entries, where all their names were learnt.
fn rows_by(dictionary: &Dictionary, entries: &[Entry]) -> Result<Vec<Row>, StoreError> {
    // What is collected of results grows step by step, and copies its rows each time.
    let mut rows = Vec::with_capacity(entries.len());
    for entry in entries {
        rows.push(Row::of(entry, dictionary)?);
    }
    Ok(rows)
}

/// What the statements of entries need besides.
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

    /// All of them were inserted, or none at all.
    fn all_new(&self, rows: &[Row], mark: i64, answers: &[PgRow]) -> Result<Inserted, StoreError> {
        let (reading, answer) = self.read_first(mark, answers)?;
        let inserted: bool = answer.try_get("inserted").map_err(of_sqlx)?;
        if !inserted {
            let outcomes = rows.iter().map(|_| InsertOutcome::Unseen).collect();
            return Ok(Inserted { reading, outcomes });
        }
        let tokens = || rows.iter().map(|row| row.token + reading.token_clock());
        if let (Some(row), Some(token)) = (rows.first(), tokens().next()) {
            self.acknowledged.granted(self.server_started, row.key, token, reading.now.micros());
        }
        Ok(Inserted { reading, outcomes: tokens().map(InsertOutcome::Granted).collect() })
    }

    /// Some were inserted, and some met an entry.
    async fn new_and_met(
        &mut self,
        entries: &[Entry],
        mark: i64,
        answers: &[PgRow],
    ) -> Result<Inserted, StoreError> {
        let (reading, answer) = self.read_first(mark, answers)?;
        let keys: Option<Vec<Uuid>> = answer.try_get("fresh_keys").map_err(of_sqlx)?;
        let tokens: Option<Vec<i64>> = answer.try_get("fresh_tokens").map_err(of_sqlx)?;
        if let (Some([key, ..]), Some([token, ..])) = (keys.as_deref(), tokens.as_deref()) {
            self.acknowledged.granted(self.server_started, *key, *token, reading.now.micros());
        }
        // What was inserted is so whatever becomes of the numbers that these entries are read by: without them the
        // entries are as good as not seen.
        let met = if answers.len() > 1 {
            self.quiet.met(Instant::now());
            self.raw_of(answers).await.unwrap_or_default()
        } else {
            Vec::new()
        };
        // Boxed: there are few, and a token is small.
        let met = met.into_iter().map(|row| (row.hash(), Err(Box::new(row))));
        let fresh = keys.unwrap_or_default().into_iter().zip(tokens.unwrap_or_default().into_iter().map(Ok));
        let all = in_order(entries.iter().map(|entry| entry.key.hash()), met.chain(fresh).collect());
        let outcomes = all.zip(entries).map(|(row, entry)| match row {
            Some(Ok(token)) => InsertOutcome::Granted(token),
            Some(Err(met)) => InsertOutcome::Met(met.under(&entry.key, &self.dictionary)),
            None => InsertOutcome::Unseen,
        });
        Ok(Inserted { reading, outcomes: outcomes.collect() })
    }

    /// The reading of an insert, and the row that tells it.
    fn read_first<'a>(&self, mark: i64, answers: &'a [PgRow]) -> Result<(Reading, &'a PgRow), StoreError> {
        let first = answers.first().ok_or_else(no_meta)?;
        serves(first)?;
        let reading = self.reading(first, mark)?;
        if !reading.is_sound() {
            return Err(StoreError::NotApplied(Fault::ClockBehind));
        }
        Ok((reading, first))
    }

    /// Whether an insert looks for entries. Within a transaction of several statements it does: one that fails there ends
    /// them all.
    fn looks(&self) -> bool {
        self.connection.is_within() || !self.quiet.is_quiet(Instant::now())
    }

    /// The same of the row of one key.
    async fn insert_one(&mut self, key: &Key, row: Row, until: StoreTime) -> Result<Inserted, StoreError> {
        let mark = self.mark.get();
        let looks = self.looks();
        let query = self
            .query(if looks { INSERT_ONE } else { INSERT_NEW_ONE })
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
            Err(error) if !looks && meets_an_entry(&error) => None,
            fresh => fresh.map_err(of_sqlx)?,
        };
        let Some(fresh) = fresh else { return self.met_one(key).await };
        let (now, token): (i64, i64) =
            (fresh.try_get("created_at").map_err(of_sqlx)?, fresh.try_get("token").map_err(of_sqlx)?);
        // What is inserted is not behind: the mark that the database has written down is not above the token.
        let limits = self.clock_limits;
        let reading = Reading { now: StoreTime(now), token_offset: token - row.token - now, mark, limits };
        self.mark.raise(&reading);
        self.acknowledged.granted(self.server_started, key.hash(), token, now);
        Ok(Inserted { reading, outcomes: vec![InsertOutcome::Granted(token)] })
    }

    /// Why a row was not inserted. Whatever becomes of this look, nothing was written.
    async fn met_one(&mut self, key: &Key) -> Result<Inserted, StoreError> {
        let not_applied = |error| match error {
            StoreError::Unknown(text) => StoreError::NotApplied(Fault::Stale(text)),
            StoreError::NotApplied(_) => error,
        };
        let (reading, rows) = self.rows_of(vec![key.hash()]).await.map_err(not_applied)?;
        if !reading.is_sound() {
            return Err(StoreError::NotApplied(Fault::ClockBehind));
        }
        if rows.iter().any(Option::is_some) {
            self.quiet.met(Instant::now());
        }
        let met = |row: Raw| InsertOutcome::Met(row.under(key, &self.dictionary));
        let outcomes = rows.into_iter().map(|row| row.map_or(InsertOutcome::Unseen, met));
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
        self.note_completed(row.as_ref().map(|_| completion));
        row.as_ref().map(done).transpose()
    }

    fn note_completed(&self, completion: Option<&Completion>) {
        if let Some(Completion { key, token, .. }) = completion {
            self.acknowledged.completed(self.server_started, key.hash(), *token);
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
        let done = query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(done.rows_affected() == 1)
    }

    pub(super) async fn delete(&mut self, key: KeyHash, version: i64) -> Result<bool, StoreError> {
        let query = self.query(DELETE).bind(key).bind(version).bind(self.mark.get()).bind(SETTLED.micros());
        let done = query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(done.rows_affected() == 1)
    }
}

/// What most completions tell of their entries: in time, by the first attempt, reported once. It is not sent for each.
const USUAL: Done = Done { late: false, attempt: 1, doubled: false };

/// What a completion tells of the entry.
fn done(row: &PgRow) -> Result<Done, StoreError> {
    let late = row.try_get("late").map_err(of_sqlx)?;
    let doubled = row.try_get::<Option<bool>, _>("doubled").map_err(of_sqlx)?.unwrap_or_default();
    Ok(Done { late, attempt: row.try_get("attempts").map_err(of_sqlx)?, doubled })
}

/// Whether an insert has failed, and written nothing, since there is an entry of one of its keys.
fn meets_an_entry(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}

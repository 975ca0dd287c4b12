//! Entries by their keys.

use async_trait::async_trait;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::entry_statements::{
    COMPLETE, COMPLETE_ONE, DELETE, INSERT, INSERT_ONE, LOAD, LOAD_ONE, LOCKED, REPLACE,
};
use super::errors::of_sqlx;
use super::{PgSession, column, no_meta, pairs};
use crate::domain::{Entry, Key, KeyHash, Reading, SETTLED, StoreTime};
use crate::store::columns::{Row, entry_columns};
use crate::store::row::Raw;
use crate::store::schema::knows;
use crate::store::{
    Completion, Entries, Fault, Found, InsertOutcome, Inserted, Loaded, StoreError, in_order,
};

macro_rules! bind_replaced {
    ([$query:ident, $rows:ident] fixed { $($_f:tt)* } replaced { $($name:ident: $_t:ty, $_l:literal;)* }) => {
        $query$(.bind(column(&$rows, |row| &row.$name)))*
    };
}

impl PgSession {
    /// The rows of entries whose names are learnt.
    fn rows_for(&self, entries: &[Entry]) -> Result<Vec<Row>, StoreError> {
        entries.iter().map(|entry| Row::of(entry, &self.dictionary)).collect()
    }

    /// The rows with these hashes, in their order.
    pub(super) async fn rows_of(
        &mut self,
        hashes: Vec<KeyHash>,
    ) -> Result<(Reading, Vec<Option<Raw>>), StoreError> {
        let mark = self.mark.get();
        let query = match *hashes.as_slice() {
            [hash] => self.query(LOAD_ONE).bind(hash),
            _ => self.query(LOAD).bind(hashes.clone()),
        };
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let first = rows.first().ok_or_else(no_meta)?;
        known_level(first)?;
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
        self.learn_names(rows).await?;
        if let [row] = rows {
            return self.insert_one(row, until).await;
        }
        let mark = self.mark.get();
        let raw = self.rows_for(rows)?;
        let query = self
            .query(INSERT)
            .bind(mark)
            .bind(until.micros())
            .bind(column(&raw, |row| row.key))
            .bind(column(&raw, |row| row.claim_id))
            .bind(column(&raw, |row| row.token))
            .bind(column(&raw, |row| row.lease_until))
            .bind(column(&raw, |row| row.consumer))
            .bind(column(&raw, |row| row.source))
            .bind(column(&raw, |row| row.principal))
            .bind(column(&raw, |row| row.terms))
            .bind(column(&raw, |row| &row.id))
            .bind(column(&raw, |row| row.id_uuid))
            .bind(column(&raw, |row| &row.owner))
            .bind(column(&raw, |row| &row.fingerprint))
            .bind(column(&raw, |row| &row.traceparent));
        let answers = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let first = answers.first().ok_or_else(no_meta)?;
        known_level(first)?;
        let reading = self.reading(first, mark)?;
        if reading.behind() {
            return Err(StoreError::NotApplied(Fault::ClockBehind));
        }
        let keys: Option<Vec<Uuid>> = first.try_get("fresh_keys").map_err(of_sqlx)?;
        let tokens: Option<Vec<i64>> = first.try_get("fresh_tokens").map_err(of_sqlx)?;
        // What was inserted is so whatever becomes of the numbers that these entries are read by: without them the
        // entries are as good as not seen.
        let met = self.raw_of(&answers).await.unwrap_or_default();
        let met = met.into_iter().map(|row| (row.hash(), Err(row)));
        let fresh = keys.unwrap_or_default().into_iter().zip(tokens.unwrap_or_default().into_iter().map(Ok));
        let all = in_order(rows.iter().map(|row| row.key.hash()), met.chain(fresh).collect());
        let outcomes = all.zip(rows).map(|(row, entry)| match row {
            Some(Ok(token)) => InsertOutcome::Granted(token),
            Some(Err(met)) => InsertOutcome::Met(met.under(&entry.key, &self.dictionary)),
            None => InsertOutcome::Unseen,
        });
        Ok(Inserted { reading, outcomes: outcomes.collect() })
    }

    async fn complete(&mut self, completions: &[Completion]) -> Result<Vec<Option<bool>>, StoreError> {
        if let [completion] = completions {
            return Ok(vec![self.complete_one(completion).await?]);
        }
        let query = self
            .query(COMPLETE)
            .bind(column(completions, |one| one.key.hash()))
            .bind(column(completions, |one| one.token))
            .bind(column(completions, |one| self.dictionary.terms.of(&one.terms)))
            .bind(column(completions, |one| one.terms.retention.micros()))
            .bind(column(completions, |one| Some(&*one.result).filter(|result| !result.is_empty())));
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let done = pairs(&rows, "late")?;
        Ok(in_order(completions.iter().map(|one| one.key.hash()), done).collect())
    }

    async fn replace_until(
        &mut self,
        entries: &[Entry],
        until: &[StoreTime],
    ) -> Result<Vec<bool>, StoreError> {
        self.learn_names(entries).await?;
        let raw = self.rows_for(entries)?;
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
        Ok(raw.iter().map(|row| done.contains(&row.key)).collect())
    }

    async fn locked(&mut self, keys: &[Key]) -> Result<Vec<KeyHash>, StoreError> {
        let query = self.query(LOCKED).bind(column(keys, Key::hash));
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        rows.iter().map(|row| row.try_get("key").map_err(of_sqlx)).collect()
    }
}

/// The same of one row.
impl PgSession {
    async fn insert_one(&mut self, entry: &Entry, until: StoreTime) -> Result<Inserted, StoreError> {
        let mark = self.mark.get();
        let row = Row::of(entry, &self.dictionary)?;
        let query = self
            .query(INSERT_ONE)
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
            .bind(row.traceparent);
        let Some(fresh) = query.fetch_optional(&mut self.connection).await.map_err(of_sqlx)? else {
            return self.met_one(&entry.key).await;
        };
        let (now, token): (i64, i64) =
            (fresh.try_get("created_at").map_err(of_sqlx)?, fresh.try_get("token").map_err(of_sqlx)?);
        // What is inserted is not behind: the mark that the database has written down is not above the token.
        let reading = Reading { now: StoreTime(now), token_offset: token - row.token - now, mark };
        self.mark.raise(&reading);
        Ok(Inserted { reading, outcomes: vec![InsertOutcome::Granted(token)] })
    }

    /// Why a row was not inserted. Whatever becomes of this look, nothing was written.
    async fn met_one(&mut self, key: &Key) -> Result<Inserted, StoreError> {
        let not_applied = |error| match error {
            StoreError::Unknown(text) => StoreError::NotApplied(Fault::Stale(text)),
            StoreError::NotApplied(_) => error,
        };
        let (reading, rows) = self.rows_of(vec![key.hash()]).await.map_err(not_applied)?;
        if reading.behind() {
            return Err(StoreError::NotApplied(Fault::ClockBehind));
        }
        let met = |row: Raw| InsertOutcome::Met(row.under(key, &self.dictionary));
        let outcomes = rows.into_iter().map(|row| row.map_or(InsertOutcome::Unseen, met));
        Ok(Inserted { reading, outcomes: outcomes.collect() })
    }

    async fn complete_one(&mut self, completion: &Completion) -> Result<Option<bool>, StoreError> {
        let query = self
            .query(COMPLETE_ONE)
            .bind(completion.key.hash())
            .bind(completion.token)
            .bind(self.dictionary.terms.of(&completion.terms))
            .bind(completion.terms.retention.micros())
            .bind(Some(&*completion.result).filter(|result| !result.is_empty()));
        let row = query.fetch_optional(&mut self.connection).await.map_err(of_sqlx)?;
        row.map(|row| row.try_get("late").map_err(of_sqlx)).transpose()
    }

    pub(super) async fn delete(&mut self, key: KeyHash, version: i64) -> Result<bool, StoreError> {
        let query = self.query(DELETE).bind(key).bind(version).bind(self.mark.get()).bind(SETTLED.micros());
        let done = query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(done.rows_affected() == 1)
    }
}

/// Whether the store uses nothing that this binary does not know.
fn known_level(row: &PgRow) -> Result<(), StoreError> {
    knows(row.try_get("level").map_err(of_sqlx)?).map_err(StoreError::NotApplied)
}

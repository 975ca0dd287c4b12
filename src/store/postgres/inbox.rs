//! Messages, and handouts of them.

use std::collections::HashMap;

use async_trait::async_trait;
use bytes::Bytes;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::errors::of_sqlx;
use super::inbox_statements as sql;
use super::{PgSession, column, no_meta, serves, sparse};
use crate::common::crash;
use crate::domain::{Entry, KeyHash, Reading, StoreTime, TOKEN_CLOCK_MAX};
use crate::store::columns::{Row, entry_columns};
use crate::store::dictionary::Dictionary;
use crate::store::inbox::{
    Candidate, Choose, Due, DueCounts, DueLook, DuePlace, EntryWithMessage, Erased, HandedOut, Handout,
    Inbox, KeptMessage, MessagePlace,
};
use crate::store::{Entries as _, Fault, Inserted, StoreError, in_order};

/// A message that was stored less than this long ago is not swept: its entry may be written at this moment.
const SWEEP_MARGIN_MICROS: i64 = 60_000_000;

/// Number of entries that are read to find the oldest one that can be read.
const OLDEST: i64 = 10;

macro_rules! bind_replaced {
    ([$query:ident, $rows:ident] fixed { $($_f:tt)* } replaced { $($name:ident: $_t:ty, $_l:literal;)* }) => {
        $query$(.bind(column(&$rows, |row| &row.$name)))*
    };
}

#[async_trait]
impl Inbox for PgSession {
    async fn store_new(
        &mut self,
        rows: &[EntryWithMessage],
        until: StoreTime,
    ) -> Result<Inserted, StoreError> {
        let raw = self.rows_with_names(rows).await?;
        let mark = self.mark.get();
        let query = self
            .query(sql::INBOX_STORE)
            .bind(mark)
            .bind(until.micros())
            .bind(self.clock_limits.earliest.micros())
            .bind(self.clock_limits.jump_max.micros())
            .bind(TOKEN_CLOCK_MAX)
            .bind(column(&raw, |row| row.key))
            .bind(column(&raw, |row| row.token))
            .bind(column(&raw, |row| row.consumer))
            .bind(column(&raw, |row| row.source))
            .bind(column(&raw, |row| row.terms))
            .bind(sparse(&raw, |row| row.id.as_ref()))
            .bind(sparse(&raw, |row| row.id_uuid))
            .bind(sparse(&raw, |row| row.fingerprint.as_ref()))
            .bind(sparse(&raw, |row| row.traceparent.as_ref()))
            .bind(column(rows, |row| &*row.message));
        let answers = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let first = answers.first().ok_or_else(no_meta)?;
        serves(first)?;
        let reading = self.reading(first, mark)?;
        if !reading.is_sound() {
            return Err(StoreError::NotApplied(Fault::ClockBehind));
        }
        let mut fresh = Vec::with_capacity(answers.len());
        for row in &answers {
            let key: Option<Uuid> = row.try_get("fresh_key").map_err(of_sqlx)?;
            let token: Option<i64> = row.try_get("fresh_token").map_err(of_sqlx)?;
            fresh.extend(key.zip(token));
        }
        if let Some((key, token)) = fresh.first() {
            self.lost_commits.record_grant(self.server_started, *key, *token, reading.now.micros());
        }
        let tokens = in_order(raw.iter().map(|row| row.key), fresh);
        Ok(Inserted::of_tokens(reading, tokens.collect()))
    }

    async fn attach(
        &mut self,
        rows: &[EntryWithMessage],
        until: &[StoreTime],
    ) -> Result<Vec<bool>, StoreError> {
        let raw = self.rows_with_names(rows).await?;
        let query = self
            .query(sql::INBOX_ATTACH.as_str())
            .bind(column(&raw, |row| row.key))
            .bind(column(&raw, |row| row.version))
            .bind(column(&raw, Row::attention))
            .bind(column(until, |until| until.micros()))
            .bind(column(rows, |row| &*row.message));
        let query = entry_columns!(bind_replaced, query, raw);
        let answers = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let mut done = std::collections::HashSet::with_capacity(answers.len());
        for row in &answers {
            done.insert(row.try_get::<Uuid, _>("key").map_err(of_sqlx)?);
        }
        if let Some(row) = raw.iter().rfind(|row| done.contains(&row.key)) {
            self.lost_commits.record_replace(self.server_started, row);
        }
        Ok(raw.iter().map(|row| done.contains(&row.key)).collect())
    }

    async fn hand_out(&mut self, look: &DueLook, choose: &Choose) -> Result<HandedOut, StoreError> {
        self.connection.begin().await?;
        let outcome = self.hand_out_within_transaction(look, choose).await;
        match &outcome {
            Ok(done) if done.choice.writes.is_empty() => self.connection.rollback().await?,
            Ok(_) => {
                crash::point("before_hand_out_commit");
                self.connection.commit().await?;
            }
            Err(StoreError::NotApplied(_)) => self.connection.rollback().await?,
            Err(StoreError::Unknown(_)) => {}
        }
        if outcome.is_err() {
            // Numbers that were assigned within the transaction are gone with it.
            self.dictionary = Dictionary::default();
        }
        outcome
    }

    async fn message(&mut self, key: KeyHash) -> Result<Option<KeptMessage>, StoreError> {
        Ok(self.messages(&[(key, i64::MAX)]).await?.pop().flatten())
    }

    async fn stored_at(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<StoreTime>>, StoreError> {
        let query = self.query(sql::INBOX_STORED_AT).bind(keys.to_vec());
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let at = StoreTime(row.try_get("stored_at").map_err(of_sqlx)?);
            found.push((row.try_get::<Uuid, _>("key").map_err(of_sqlx)?, at));
        }
        Ok(in_order(keys.iter().copied(), found).collect())
    }

    async fn oldest_due(&mut self, consumer: &str) -> Result<(Reading, Option<StoreTime>), StoreError> {
        let reading = self.load(&[]).await?.reading;
        let query = self
            .query(sql::INBOX_OLDEST)
            .bind(consumer.to_owned())
            .bind(reading.now.micros())
            .bind(-1_i64)
            .bind(KeyHash::nil())
            .bind(OLDEST);
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let stored = self.entries_of(&rows).await?;
        for (row, stored) in rows.iter().zip(stored) {
            if stored.entry.is_ok() {
                return Ok((reading, Some(StoreTime(row.try_get("due_at").map_err(of_sqlx)?))));
            }
        }
        Ok((reading, None))
    }

    async fn count_due(&mut self, consumer: &str, most: i64) -> Result<DueCounts, StoreError> {
        let query = self.query(sql::INBOX_COUNT).bind(consumer.to_owned()).bind(most);
        let row = query.fetch_one(&mut self.connection).await.map_err(of_sqlx)?;
        let (due, later) = (row.try_get("due").map_err(of_sqlx)?, row.try_get("later").map_err(of_sqlx)?);
        Ok(DueCounts { due, later })
    }

    async fn message_bytes(&mut self) -> Result<i64, StoreError> {
        let row = self.query(sql::INBOX_BYTES).fetch_one(&mut self.connection).await.map_err(of_sqlx)?;
        row.try_get("bytes").map_err(of_sqlx)
    }

    async fn erase(&mut self, limit: usize) -> Result<Erased, StoreError> {
        let query = self.query(sql::INBOX_ERASE).bind(limit_of(limit));
        let row = query.fetch_one(&mut self.connection).await.map_err(of_sqlx)?;
        let count: i64 = row.try_get("count").map_err(of_sqlx)?;
        let oldest: Option<i64> = row.try_get("oldest").map_err(of_sqlx)?;
        let now: Option<i64> = row.try_get("now").map_err(of_sqlx)?;
        Ok(Erased {
            count: usize::try_from(count).unwrap_or_default(),
            oldest_due: oldest.map(StoreTime),
            now: StoreTime(now.unwrap_or_default()),
        })
    }

    async fn forget_handouts(&mut self, before: StoreTime, limit: usize) -> Result<usize, StoreError> {
        let query = self.query(sql::INBOX_FORGET).bind(before.micros()).bind(limit_of(limit));
        let done = query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
    }

    async fn sweep_messages(
        &mut self,
        after: MessagePlace,
        limit: usize,
    ) -> Result<Option<MessagePlace>, StoreError> {
        let query = self
            .query(sql::INBOX_SWEEP)
            .bind(after.at.micros())
            .bind(after.key)
            .bind(SWEEP_MARGIN_MICROS)
            .bind(limit_of(limit));
        let row = query.fetch_optional(&mut self.connection).await.map_err(of_sqlx)?;
        let place = |row: PgRow| {
            let at = StoreTime(row.try_get("stored_at").map_err(of_sqlx)?);
            Ok(MessagePlace { at, key: row.try_get("key").map_err(of_sqlx)? })
        };
        row.map(place).transpose()
    }
}

fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Parts of the calls above.
impl PgSession {
    async fn rows_with_names(&mut self, rows: &[EntryWithMessage]) -> Result<Vec<Row>, StoreError> {
        let entries: Vec<Entry> = rows.iter().map(|row| row.entry.clone()).collect();
        self.rows_for(&entries).await
    }

    async fn hand_out_within_transaction(
        &mut self,
        look: &DueLook,
        choose: &Choose,
    ) -> Result<HandedOut, StoreError> {
        let due = self.due(look).await?;
        let full = due.before.is_none() && due.candidates.len() >= look.limit;
        let choice = choose(&due);
        let Due { reading, before, candidates } = due;
        let due_count = candidates.len();
        let (entries, until): (Vec<Entry>, Vec<StoreTime>) = choice.writes.iter().cloned().unzip();
        if !entries.is_empty() && !self.replace_until(&entries, &until).await?.iter().all(|done| *done) {
            let text = "the policies by which messages were handed out are not trusted any more";
            return Err(StoreError::NotApplied(Fault::Conflict(text.into())));
        }
        let keys: Vec<KeyHash> = choice.chosen.iter().map(|chosen| chosen.key.hash()).collect();
        if before.is_none() && !keys.is_empty() {
            let query = self
                .query(sql::INBOX_HANDED_OUT)
                .bind(look.claim.claim_id)
                .bind(look.claim.consumer.clone())
                .bind(look.claim.principal.clone())
                .bind(look.claim.owner.clone())
                .bind(reading.now.micros())
                .bind(keys.clone());
            let done = query.execute(&mut self.connection).await.map_err(of_sqlx)?;
            if done.rows_affected() != 1 {
                let text = "the same call is carried out by another server";
                return Err(StoreError::NotApplied(Fault::Conflict(text.into())));
            }
        }
        let versions = choice.chosen.iter().map(|chosen| chosen.version);
        let messages = self.messages(&keys.into_iter().zip(versions).collect::<Vec<_>>()).await?;
        let next_due = if before.is_none() && due_count == 0 {
            let query =
                self.query(sql::INBOX_NEXT).bind(look.claim.consumer.clone()).bind(reading.now.micros());
            let row = query.fetch_optional(&mut self.connection).await.map_err(of_sqlx)?;
            row.map(|row| row.try_get("next_at").map(StoreTime).map_err(of_sqlx)).transpose()?
        } else {
            None
        };
        Ok(HandedOut { reading, choice, messages, full, next_due })
    }

    async fn due(&mut self, look: &DueLook) -> Result<Due, StoreError> {
        let mark = self.mark.get();
        let query = self.query(sql::INBOX_LOOK).bind(look.claim.claim_id);
        let row = query.fetch_one(&mut self.connection).await.map_err(of_sqlx)?;
        serves(&row)?;
        let reading = self.reading(&row, mark)?;
        let keys: Option<Vec<Uuid>> = row.try_get("keys").map_err(of_sqlx)?;
        let rows = if let Some(keys) = &keys {
            self.query(sql::INBOX_TAKEN).bind(keys.clone()).fetch_all(&mut self.connection).await
        } else {
            let query = self
                .query(sql::INBOX_TAKE)
                .bind(look.claim.consumer.clone())
                .bind(reading.now.micros())
                .bind(look.after.at.micros())
                .bind(look.after.key)
                .bind(limit_of(look.limit));
            query.fetch_all(&mut self.connection).await
        };
        let rows = rows.map_err(of_sqlx)?;
        let before = match keys {
            Some(keys) => Some(Handout {
                claim_id: look.claim.claim_id,
                consumer: row.try_get("consumer").map_err(of_sqlx)?,
                principal: row.try_get("principal").map_err(of_sqlx)?,
                owner: row.try_get("owner").map_err(of_sqlx)?,
                keys,
            }),
            None => None,
        };
        let stored = self.entries_of(&rows).await?;
        let mut candidates = Vec::with_capacity(rows.len());
        for (row, stored) in rows.iter().zip(stored) {
            let at: Option<i64> = row.try_get("due_at").map_err(of_sqlx)?;
            let key = row.try_get("key").map_err(of_sqlx)?;
            let bytes: Option<i32> = row.try_get("message_bytes").map_err(of_sqlx)?;
            candidates.push(Candidate {
                place: DuePlace { at: StoreTime(at.unwrap_or_default()), key },
                entry: stored.entry,
                bytes: bytes.and_then(|bytes| usize::try_from(bytes).ok()),
            });
        }
        Ok(Due { reading, before, candidates })
    }

    /// The messages of the entries of these keys, up to these versions, in the same order.
    async fn messages(&mut self, of: &[(KeyHash, i64)]) -> Result<Vec<Option<KeptMessage>>, StoreError> {
        if of.is_empty() {
            return Ok(Vec::new());
        }
        let query = self
            .query(sql::INBOX_MESSAGES)
            .bind(column(of, |(key, _)| *key))
            .bind(column(of, |(_, version)| *version));
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let mut found: HashMap<KeyHash, KeptMessage> = HashMap::with_capacity(rows.len());
        for row in &rows {
            let message: Vec<u8> = row.try_get("message").map_err(of_sqlx)?;
            let stored_at = StoreTime(row.try_get("stored_at").map_err(of_sqlx)?);
            let key = row.try_get("key").map_err(of_sqlx)?;
            found.insert(key, KeptMessage { message: Bytes::from(message), stored_at });
        }
        Ok(of.iter().map(|(key, _)| found.remove(key)).collect())
    }
}

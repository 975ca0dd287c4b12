//! Messages, and handouts of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use bytes::Bytes;
use sqlx::Row as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use uuid::Uuid;

use super::SqliteSession;
use super::entries::{replace, stored};
use super::errors::of_sqlx;
use super::file::Work;
use super::inbox_statements as sql;
use super::names::learn_names;
use super::one_trip::Mode;
use crate::common::crash;
use crate::domain::{Entry, KeyHash, Reading, StoreTime};
use crate::store::columns::Row;
use crate::store::dictionary::Dictionary;
use crate::store::inbox::{
    Candidate, Choose, Due, DueCounts, DueLook, DuePlace, EntryWithMessage, Erased, HandedOut, Handout,
    Inbox, KeptMessage, MessagePlace,
};
use crate::store::row::Stored;
use crate::store::{Fault, Inserted, StoreError};

/// Length of the hash of a key.
const HASH_BYTES: usize = 16;

#[async_trait]
impl Inbox for SqliteSession {
    async fn store_new(
        &mut self,
        rows: &[EntryWithMessage],
        until: StoreTime,
    ) -> Result<Inserted, StoreError> {
        let (rows, withheld) = (rows.to_vec(), self.file.withheld());
        let work: Work<Vec<Option<i64>>> = Box::new(move |connection, dictionary, reading| {
            Box::pin(async move {
                if !reading.is_sound() {
                    return Err(StoreError::NotApplied(Fault::ClockBehind));
                }
                if reading.now > until || withheld.load(Ordering::SeqCst) {
                    return Ok(vec![None; rows.len()]);
                }
                store_new(connection, dictionary, reading, rows).await
            })
        });
        let (reading, tokens) = self.file.write(work).await?;
        Ok(Inserted::of_tokens(reading, tokens))
    }

    async fn attach(
        &mut self,
        rows: &[EntryWithMessage],
        until: &[StoreTime],
    ) -> Result<Vec<bool>, StoreError> {
        let rows: Vec<(EntryWithMessage, StoreTime)> =
            rows.iter().cloned().zip(until.iter().copied()).collect();
        let work: Work<Vec<bool>> = Box::new(move |connection, dictionary, reading| {
            Box::pin(attach(connection, dictionary, reading, rows))
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn hand_out(&mut self, look: &DueLook, choose: &Choose) -> Result<HandedOut, StoreError> {
        let (look, choose, withheld) = (look.clone(), Arc::clone(choose), self.file.withheld());
        let work: Work<HandedOut> = Box::new(move |connection, dictionary, reading| {
            Box::pin(async move {
                // After a loss of commits nothing is handed out by a policy; repeats of earlier handouts go on.
                let bound = if withheld.load(Ordering::SeqCst) { StoreTime::MAX } else { reading.now };
                hand_out(connection, dictionary, (reading, bound), &look, &choose).await
            })
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn message(&mut self, key: KeyHash) -> Result<Option<KeptMessage>, StoreError> {
        let work: Work<Option<KeptMessage>> =
            Box::new(move |connection, _, _| Box::pin(message(connection, key)));
        Ok(self.file.look(work).await?.1)
    }

    async fn stored_at(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<StoreTime>>, StoreError> {
        let keys = keys.to_vec();
        let work: Work<Vec<Option<StoreTime>>> = Box::new(move |connection, _, _| {
            Box::pin(async move {
                let mut found = Vec::with_capacity(keys.len());
                for key in keys {
                    let query = sqlx::query(sql::INBOX_STORED_AT).bind(key);
                    let row =
                        query.fetch_optional(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
                    found.push(row.map(|row| StoreTime(row.get("stored_at"))));
                }
                Ok(found)
            })
        });
        Ok(self.file.look(work).await?.1)
    }

    async fn oldest_due(&mut self, consumer: &str) -> Result<(Reading, Option<StoreTime>), StoreError> {
        let consumer = consumer.to_owned();
        let work: Work<Option<StoreTime>> = Box::new(move |connection, dictionary, reading| {
            Box::pin(async move {
                let query = sqlx::query(sql::INBOX_OLDEST).bind(consumer).bind(reading.now.micros());
                let rows = query.fetch_all(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
                let readable = stored(connection, dictionary, &rows).await?;
                let oldest = rows.iter().zip(readable).find(|(_, stored)| stored.entry.is_ok());
                Ok(oldest.map(|(row, _)| StoreTime(row.get("due_at"))))
            })
        });
        self.file.look(work).await
    }

    async fn count_due(&mut self, consumer: &str, most: i64) -> Result<DueCounts, StoreError> {
        let consumer = consumer.to_owned();
        let work: Work<DueCounts> = Box::new(move |connection, _, reading| {
            Box::pin(async move {
                let query =
                    sqlx::query(sql::INBOX_COUNT).bind(consumer).bind(reading.now.micros()).bind(most);
                let row = query.fetch_one(connection).await.map_err(|error| of_sqlx(&error))?;
                Ok(DueCounts { due: row.get("due"), later: row.get("later") })
            })
        });
        Ok(self.file.look(work).await?.1)
    }

    async fn message_bytes(&mut self) -> Result<i64, StoreError> {
        let work: Work<i64> = Box::new(move |connection, _, _| {
            Box::pin(async move {
                let row = sqlx::query(sql::INBOX_BYTES).fetch_one(connection).await;
                Ok(row.map_err(|error| of_sqlx(&error))?.get("bytes"))
            })
        });
        Ok(self.file.look(work).await?.1)
    }

    async fn erase(&mut self, limit: usize) -> Result<Erased, StoreError> {
        let work: Work<Erased> =
            Box::new(move |connection, _, reading| Box::pin(erase(connection, reading, limit)));
        Ok(self.file.write(work).await?.1)
    }

    async fn forget_handouts(&mut self, before: StoreTime, limit: usize) -> Result<usize, StoreError> {
        let work: Work<u64> = Box::new(move |connection, _, _| {
            Box::pin(async move {
                let query = sqlx::query(sql::INBOX_FORGET).bind(before.micros()).bind(limit_of(limit));
                Ok(query.execute(connection).await.map_err(|error| of_sqlx(&error))?.rows_affected())
            })
        });
        Ok(usize::try_from(self.file.write(work).await?.1).unwrap_or(usize::MAX))
    }

    async fn sweep_messages(
        &mut self,
        after: MessagePlace,
        limit: usize,
    ) -> Result<Option<MessagePlace>, StoreError> {
        let work: Work<Option<MessagePlace>> =
            Box::new(move |connection, _, _| Box::pin(sweep(connection, after, limit)));
        Ok(self.file.write(work).await?.1)
    }
}

fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

async fn store_new(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    reading: Reading,
    rows: Vec<EntryWithMessage>,
) -> Result<Vec<Option<i64>>, StoreError> {
    let (entries, messages): (Vec<Entry>, Vec<Bytes>) = rows
        .into_iter()
        .map(|row| (row.entry.stamped(reading.now, reading.token_clock()), row.message))
        .unzip();
    learn_names(connection, dictionary, &entries).await?;
    let mut tokens = Vec::with_capacity(entries.len());
    for (entry, message) in entries.iter().zip(messages) {
        let row = Row::of(entry, dictionary)?;
        let query = sqlx::query(sql::INBOX_STORE)
            .bind(row.key)
            .bind(row.created_at)
            .bind(row.token)
            .bind(row.consumer)
            .bind(row.source)
            .bind(row.terms)
            .bind(row.version)
            .bind(row.id)
            .bind(row.id_uuid)
            .bind(row.fingerprint)
            .bind(row.traceparent);
        let done = query.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
        if done.rows_affected() == 1 {
            keep(connection, entry, message, reading.now).await?;
            tokens.push(Some(entry.token));
        } else {
            tokens.push(None);
        }
    }
    Ok(tokens)
}

/// Keeps the message of an entry that was written.
async fn keep(
    connection: &mut SqliteConnection,
    entry: &Entry,
    message: Bytes,
    now: StoreTime,
) -> Result<(), StoreError> {
    let query = sqlx::query(sql::INBOX_KEEP)
        .bind(entry.key.hash())
        .bind(entry.version)
        .bind(now.micros())
        .bind(limit_of(message.len()))
        .bind(message.to_vec());
    query.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(())
}

async fn attach(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    reading: Reading,
    rows: Vec<(EntryWithMessage, StoreTime)>,
) -> Result<Vec<bool>, StoreError> {
    let in_time: Vec<Entry> =
        rows.iter().filter(|(_, until)| reading.now <= *until).map(|(row, _)| row.entry.clone()).collect();
    let done = replaced(connection, dictionary, &in_time).await?;
    let mut attached = Vec::with_capacity(rows.len());
    for (EntryWithMessage { entry, message }, _) in rows {
        let is_done = done.contains(&entry.key.hash());
        if is_done {
            keep(connection, &entry, message, reading.now).await?;
        }
        attached.push(is_done);
    }
    Ok(attached)
}

/// Replaces entries; returns the hashes of the keys of those that were replaced.
async fn replaced(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    entries: &[Entry],
) -> Result<std::collections::HashSet<KeyHash>, StoreError> {
    learn_names(connection, dictionary, entries).await?;
    let rows: Vec<Row> =
        entries.iter().map(|entry| Row::of(entry, dictionary)).collect::<Result<_, StoreError>>()?;
    let done = replace(connection, Mode::InTransaction, rows).await?;
    Ok(done.unwrap_or_default())
}

async fn hand_out(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    (reading, bound): (Reading, StoreTime),
    look: &DueLook,
    choose: &Choose,
) -> Result<HandedOut, StoreError> {
    let due = due(connection, dictionary, reading, look).await?;
    let full = due.before.is_none() && due.candidates.len() >= look.limit;
    let choice = choose(&due);
    let aged = || {
        let text = "the policies by which messages were handed out are not trusted any more";
        StoreError::NotApplied(Fault::Conflict(text.into()))
    };
    if choice.writes.iter().any(|(_, until)| *until < bound) {
        return Err(aged());
    }
    let entries: Vec<Entry> = choice.writes.iter().map(|(entry, _)| entry.clone()).collect();
    if replaced(connection, dictionary, &entries).await?.len() != entries.len() {
        return Err(aged());
    }
    let keys: Vec<KeyHash> = choice.chosen.iter().map(|chosen| chosen.key.hash()).collect();
    if due.before.is_none() && !keys.is_empty() {
        let query = sqlx::query(sql::INBOX_HANDED_OUT)
            .bind(look.claim.claim_id)
            .bind(look.claim.consumer.clone())
            .bind(look.claim.principal.clone())
            .bind(look.claim.owner.clone())
            .bind(reading.now.micros())
            .bind(keys.iter().flat_map(|key| *key.as_bytes()).collect::<Vec<u8>>());
        query.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    }
    let mut messages = Vec::with_capacity(keys.len());
    for key in keys {
        messages.push(message(connection, key).await?);
    }
    let next_due = if due.before.is_none() && due.candidates.is_empty() {
        let query = sqlx::query(sql::INBOX_NEXT).bind(look.claim.consumer.clone()).bind(reading.now.micros());
        let row = query.fetch_optional(connection).await.map_err(|error| of_sqlx(&error))?;
        row.map(|row| StoreTime(row.get("next_at")))
    } else {
        None
    };
    crash::point("before_hand_out_commit");
    Ok(HandedOut { reading, choice, messages, full, next_due })
}

async fn due(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    reading: Reading,
    look: &DueLook,
) -> Result<Due, StoreError> {
    let query = sqlx::query(sql::INBOX_LOOK).bind(look.claim.claim_id);
    let row = query.fetch_optional(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    let before = row.map(|row| {
        let keys: Vec<u8> = row.get("keys");
        Handout {
            claim_id: look.claim.claim_id,
            consumer: row.get("consumer"),
            principal: row.get("principal"),
            owner: row.get("owner"),
            keys: keys.chunks_exact(HASH_BYTES).filter_map(|key| Uuid::from_slice(key).ok()).collect(),
        }
    });
    let mut rows: Vec<SqliteRow> = Vec::new();
    if let Some(before) = &before {
        for key in &before.keys {
            let query = sqlx::query(sql::INBOX_TAKEN).bind(*key);
            rows.extend(query.fetch_optional(&mut *connection).await.map_err(|error| of_sqlx(&error))?);
        }
    } else {
        let query = sqlx::query(sql::INBOX_TAKE)
            .bind(look.claim.consumer.clone())
            .bind(reading.now.micros())
            .bind(look.after.at.micros())
            .bind(look.after.key)
            .bind(limit_of(look.limit));
        rows = query.fetch_all(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    }
    let readable = stored(connection, dictionary, &rows).await?;
    let candidate = |(row, stored): (&SqliteRow, Stored)| Candidate {
        place: DuePlace {
            at: StoreTime(row.get::<Option<i64>, _>("due_at").unwrap_or_default()),
            key: row.get("key"),
        },
        entry: stored.entry,
        bytes: row.get::<Option<i64>, _>("message_bytes").and_then(|bytes| usize::try_from(bytes).ok()),
    };
    let candidates = rows.iter().zip(readable).map(candidate).collect();
    Ok(Due { reading, before, candidates })
}

async fn message(connection: &mut SqliteConnection, key: KeyHash) -> Result<Option<KeptMessage>, StoreError> {
    let query = sqlx::query(sql::INBOX_MESSAGE).bind(key);
    let row = query.fetch_optional(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(row.map(|row| KeptMessage {
        message: Bytes::from(row.get::<Vec<u8>, _>("message")),
        stored_at: StoreTime(row.get("stored_at")),
    }))
}

async fn erase(
    connection: &mut SqliteConnection,
    reading: Reading,
    limit: usize,
) -> Result<Erased, StoreError> {
    let query = sqlx::query(sql::INBOX_ERASABLE).bind(reading.now.micros()).bind(limit_of(limit));
    let rows = query.fetch_all(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    let mut erased = Erased { now: reading.now, ..Erased::default() };
    erased.oldest_due = rows.first().map(|row| StoreTime(row.get("erase_at")));
    for row in &rows {
        let (key, version): (KeyHash, i64) = (row.get("key"), row.get("version"));
        let query = sqlx::query(sql::INBOX_ERASE).bind(key).bind(version);
        query.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
        let query = sqlx::query(sql::INBOX_ERASE_MESSAGE).bind(key).bind(version);
        query.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
        erased.count += 1;
    }
    Ok(erased)
}

async fn sweep(
    connection: &mut SqliteConnection,
    after: MessagePlace,
    limit: usize,
) -> Result<Option<MessagePlace>, StoreError> {
    let query = sqlx::query(sql::INBOX_PAGE).bind(after.at.micros()).bind(after.key).bind(limit_of(limit));
    let rows = query.fetch_all(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    let place = |row: &SqliteRow| MessagePlace { at: StoreTime(row.get("stored_at")), key: row.get("key") };
    for row in &rows {
        let query = sqlx::query(sql::INBOX_SWEEP).bind(place(row).key);
        query.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    }
    Ok(rows.last().map(place))
}

//! Reads and changes for operators. Each change is one transaction with its audit event.

use std::collections::HashMap;

use async_trait::async_trait;
use sqlx::Row as _;
use sqlx::sqlite::SqliteConnection;

use super::SqliteSession;
use super::audit::{self, add_event};
use super::counting;
use super::entries::{delete, delete_message, delete_unreadable, insert, load, replace};
use super::errors::of_sqlx;
use super::file::Work;
use super::listing;
use super::names::learn_names;
use super::one_trip::Mode;
use super::open_entries;
use crate::domain::{
    AuditEvent, AuditListing, AuditOf, Entry, EntryFilter, ImportedEntry, KeyHash, Listed, Listing,
    OpenConsumers, OpenRange, OpenRow, PurgeStatus, PurgeWorker, Reading, StoreTime, Summary,
};
use crate::store::columns::Row;
use crate::store::dictionary::Dictionary;
use crate::store::records::{AuditRow, WorkerRow, first_event};
use crate::store::row::Stored;
use crate::store::upkeep::{HEARD_OF, WORKERS_MAX};
use crate::store::{
    EventDigests, Fault, Found, LeftAlone, OffsetRaise, Operators, PartDigests, StoreError, Write,
    WriteResult,
};

pub(super) const PURGE_PLACES: &str = "\
-- ledger.purge_places
SELECT no, name, purge_passed FROM consumers WHERE name <> ''";

/// Counts, up to a limit, the entries created after `purge_passed` that are old enough to be purged.
pub(super) const BACKLOG: &str = "\
-- ledger.backlog
SELECT count(*) AS due, min(created_at) AS oldest
FROM (SELECT created_at FROM entries
      WHERE consumer = ?1 AND created_at > ?2 AND created_at <= ?3
      ORDER BY created_at LIMIT ?4)";

pub(super) const PURGES: &str = "\
-- ledger.purges
SELECT replica, last_run_at, purged_total, purged_per_second, last_error, last_error_at
FROM purges WHERE last_run_at >= ?1
ORDER BY last_run_at DESC, replica LIMIT ?2";

pub(super) const OFFSET_RAISE: &str = "\
-- ledger.offset_raise
UPDATE meta SET token_offset = ?2 WHERE token_offset = ?1 AND ?2 > ?1";

#[async_trait]
impl Operators for SqliteSession {
    async fn load_by_hash(&mut self, hash: KeyHash) -> Result<(Reading, Found), StoreError> {
        let (reading, mut found) = self.rows_of(vec![hash]).await?;
        Ok((reading, found.pop().unwrap_or(Found::Absent)))
    }

    async fn list(&mut self, listing: &Listing) -> Result<Listed, StoreError> {
        let listing = listing.clone();
        let work: Work<Listed> = Box::new(move |connection, dictionary, reading| {
            Box::pin(listing::list(connection, dictionary, reading, listing))
        });
        Ok(self.file.look(work).await?.1)
    }

    async fn open_consumers(
        &mut self,
        after: &str,
        states: &[i16],
        doubled: bool,
        names: usize,
    ) -> Result<OpenConsumers, StoreError> {
        let (after, states) = (after.to_owned(), states.to_vec());
        let work: Work<OpenConsumers> = Box::new(move |connection, _, _| {
            Box::pin(open_entries::find_open(connection, after, states, doubled, names))
        });
        Ok(self.file.look(work).await?.1)
    }

    async fn open_rows(
        &mut self,
        range: &OpenRange,
        filter: &EntryFilter,
    ) -> Result<(Reading, Vec<OpenRow>), StoreError> {
        let (range, filter) = (range.clone(), filter.clone());
        let work: Work<Vec<OpenRow>> = Box::new(move |connection, _, reading| {
            Box::pin(open_entries::read_open(connection, reading, range, filter))
        });
        self.file.look(work).await
    }

    async fn consumers(&mut self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let after = after.to_owned();
        let work: Work<Vec<String>> = Box::new(move |connection, _, _| {
            Box::pin(counting::names_of_consumers(connection, after, limit))
        });
        Ok(self.file.look(work).await?.1)
    }

    async fn summary(
        &mut self,
        consumers: &[(String, Option<i32>)],
        most: i64,
    ) -> Result<Summary, StoreError> {
        let consumers = consumers.to_vec();
        let work: Work<Summary> = Box::new(move |connection, _, reading| {
            Box::pin(counting::count(connection, reading, consumers, most))
        });
        Ok(self.file.look(work).await?.1)
    }

    async fn purge_status(
        &mut self,
        left_alone: &LeftAlone,
        due_max: usize,
    ) -> Result<(Reading, PurgeStatus), StoreError> {
        let left_alone = left_alone.clone();
        let work: Work<PurgeStatus> = Box::new(move |connection, _, reading| {
            Box::pin(status(connection, reading, left_alone, due_max))
        });
        self.file.look(work).await
    }

    async fn change(&mut self, write: &Write, event: &AuditEvent) -> Result<WriteResult, StoreError> {
        let (write, event) = (write.clone(), event.clone());
        let work: Work<WriteResult> = Box::new(move |connection, dictionary, reading| {
            Box::pin(async move {
                let grows =
                    matches!(write, Write::Insert(_) | Write::Delete(..) | Write::DeleteUnreadable(..));
                if grows && !reading.is_sound() {
                    return Err(StoreError::NotApplied(Fault::ClockBehind));
                }
                change(connection, dictionary, reading, &write, event).await
            })
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn raise_token_offset(
        &mut self,
        raise: OffsetRaise,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        let event = event.clone();
        let work: Work<WriteResult> =
            Box::new(move |connection, _, _| Box::pin(raise_offset(connection, raise, event)));
        Ok(self.file.write(work).await?.1)
    }

    async fn write_entries(
        &mut self,
        fresh: &[ImportedEntry],
        changed: &[Entry],
        events: &[AuditEvent],
    ) -> Result<WriteResult, StoreError> {
        let (fresh, changed, events) = (fresh.to_vec(), changed.to_vec(), events.to_vec());
        let work: Work<WriteResult> = Box::new(move |connection, dictionary, reading| {
            Box::pin(async move {
                if !reading.is_sound() {
                    return Err(StoreError::NotApplied(Fault::ClockBehind));
                }
                write_entries(connection, dictionary, reading, fresh, changed, events).await
            })
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn count_changed(
        &mut self,
        consumer: &str,
        operation_id: &str,
        action: &str,
    ) -> Result<i64, StoreError> {
        let prefix = AuditEvent::id_of(consumer, &format!("{operation_id}/"));
        let action = action.to_owned();
        let work: Work<i64> =
            Box::new(move |connection, _, _| Box::pin(count_changed(connection, prefix, action)));
        Ok(self.file.look(work).await?.1)
    }

    async fn part_digests(&mut self, consumers: &[String], id: &str) -> Result<PartDigests, StoreError> {
        let part = format!("{id}/");
        let prefixes = consumers.iter().map(|consumer| AuditEvent::id_of(consumer, &part)).collect();
        let work: Work<PartDigests> =
            Box::new(move |connection, _, _| Box::pin(audit::part_digests(connection, prefixes)));
        Ok(self.file.look(work).await?.1)
    }

    async fn event_digests(&mut self, stored_ids: &[String]) -> Result<EventDigests, StoreError> {
        let ids = stored_ids.to_vec();
        let work: Work<EventDigests> =
            Box::new(move |connection, _, _| Box::pin(audit::event_digests(connection, ids)));
        Ok(self.file.look(work).await?.1)
    }

    async fn audited(&mut self, consumer: &str, request_id: &str) -> Result<Option<AuditEvent>, StoreError> {
        let (consumer, request_id) = (consumer.to_owned(), request_id.to_owned());
        let work: Work<Option<AuditEvent>> = Box::new(move |connection, _, _| {
            Box::pin(async move { audit::audited(connection, &consumer, &request_id).await })
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn audit(&mut self, listing: &AuditListing) -> Result<Vec<AuditEvent>, StoreError> {
        let listing = listing.clone();
        let work: Work<Vec<AuditEvent>> =
            Box::new(move |connection, _, _| Box::pin(list(connection, listing)));
        Ok(self.file.look(work).await?.1)
    }
}

pub(super) async fn status(
    connection: &mut SqliteConnection,
    reading: Reading,
    left_alone: LeftAlone,
    due_max: usize,
) -> Result<PurgeStatus, StoreError> {
    let (mut due, mut oldest) = (0, None::<StoreTime>);
    let places = sqlx::query(PURGE_PLACES).fetch_all(&mut *connection).await;
    for place in places.map_err(|error| of_sqlx(&error))? {
        let left_alone = left_alone.of(place.get(1));
        let query = sqlx::query_as::<_, (i64, Option<i64>)>(BACKLOG)
            .bind(place.get::<i32, _>(0))
            .bind(place.get::<i64, _>(2))
            .bind((reading.now - left_alone).micros())
            .bind(i64::try_from(due_max.saturating_sub(due)).unwrap_or(i64::MAX).max(1));
        let (count, first) = query.fetch_one(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
        due = due_max.min(due.saturating_add(usize::try_from(count).unwrap_or(0)));
        let first = first.map(|created| StoreTime(created) + left_alone);
        oldest = [oldest, first].into_iter().flatten().min();
    }
    let query =
        sqlx::query_as::<_, WorkerRow>(PURGES).bind((reading.now - HEARD_OF).micros()).bind(WORKERS_MAX);
    let workers = query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(PurgeStatus { due, oldest, workers: workers.into_iter().map(PurgeWorker::from).collect() })
}

/// Runs in a write transaction, so nothing that it reads can change until the end.
pub(super) async fn change(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    reading: Reading,
    write: &Write,
    event: AuditEvent,
) -> Result<WriteResult, StoreError> {
    if audit::repeated(connection, &event).await? {
        return Ok(WriteResult::Repeated);
    }
    if let Write::Insert(entry) | Write::Replace(entry) = write {
        learn_names(connection, dictionary, std::slice::from_ref(entry)).await?;
    }
    let written = match write {
        Write::Replace(entry) => replaced(connection, Row::of(entry, dictionary)?).await?,
        Write::Nothing => true,
        Write::Delete(key, version) => delete(connection, reading, *key, *version).await?,
        Write::DeleteUnreadable(key, version) => {
            delete_unreadable(connection, reading, *key, *version).await?
        }
        Write::Insert(entry) => {
            // The insert writes only the columns of first grants; the replacement writes the others.
            let mut entry = entry.as_ref().clone().stamped(reading.now, reading.token_clock());
            let fresh = insert(connection, Mode::InTransaction, vec![Row::of(&entry, dictionary)?]).await?;
            entry.version += 1;
            fresh.is_some_and(|fresh| !fresh.is_empty())
                && replaced(connection, Row::of(&entry, dictionary)?).await?
        }
    };
    if !written {
        return Ok(WriteResult::Lost);
    }
    if let Write::Delete(key, _) | Write::DeleteUnreadable(key, _) = write {
        delete_message(connection, *key).await?;
    }
    add_event(connection, event).await?;
    Ok(WriteResult::Done)
}

/// Replaces a row; returns whether its version was the expected one.
async fn replaced(connection: &mut SqliteConnection, row: Row) -> Result<bool, StoreError> {
    Ok(replace(connection, Mode::InTransaction, vec![row])
        .await?
        .is_some_and(|replaced| !replaced.is_empty()))
}

/// All or nothing: nothing is written before every key of `fresh` is known to be absent, and every entry of `changed` to have
/// its expected version.
pub(super) async fn write_entries(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    reading: Reading,
    fresh: Vec<ImportedEntry>,
    changed: Vec<Entry>,
    events: Vec<AuditEvent>,
) -> Result<WriteResult, StoreError> {
    for event in &events {
        if audit::repeated(connection, event).await? {
            return Ok(WriteResult::Repeated);
        }
    }
    let keys = fresh.iter().map(|entry| entry.entry().key.hash());
    let keys = keys.chain(changed.iter().map(|entry| entry.key.hash())).collect();
    let found = load(connection, dictionary, Mode::InTransaction, keys).await?.unwrap_or_default();
    let version = |(key, stored): &(KeyHash, Stored)| Some((*key, stored.entry.as_ref().ok()?.version));
    let versions: HashMap<KeyHash, i64> = found.iter().filter_map(version).collect();
    let expected = |entry: &Entry| versions.get(&entry.key.hash()) == Some(&(entry.version - 1));
    if found.len() != changed.len() || !changed.iter().all(expected) {
        return Ok(WriteResult::Lost);
    }
    let granted: Vec<Entry> = fresh.iter().map(|entry| entry.entry().clone()).collect();
    learn_names(connection, dictionary, &granted).await?;
    learn_names(connection, dictionary, &changed).await?;
    // The insert writes only the columns of first grants; the replacement writes the others.
    let (mut granted, mut whole) = (Vec::with_capacity(fresh.len()), Vec::with_capacity(fresh.len()));
    for entry in fresh {
        let mut entry = entry.stamped(reading.now, reading.token_clock());
        granted.push(Row::of(&entry, dictionary)?);
        entry.version += 1;
        whole.push(Row::of(&entry, dictionary)?);
    }
    for entry in &changed {
        whole.push(Row::of(entry, dictionary)?);
    }
    if !granted.is_empty() {
        insert(connection, Mode::InTransaction, granted).await?;
    }
    if !whole.is_empty() {
        replace(connection, Mode::InTransaction, whole).await?;
    }
    for event in events {
        add_event(connection, event).await?;
    }
    Ok(WriteResult::Done)
}

/// Runs in a write transaction: no other session writes meanwhile.
pub(super) async fn raise_offset(
    connection: &mut SqliteConnection,
    raise: OffsetRaise,
    event: AuditEvent,
) -> Result<WriteResult, StoreError> {
    if audit::repeated(connection, &event).await? {
        return Ok(WriteResult::Repeated);
    }
    let query = sqlx::query(OFFSET_RAISE).bind(raise.from).bind(raise.to);
    let done = query.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    if done.rows_affected() == 0 {
        return Ok(WriteResult::Lost);
    }
    add_event(connection, event).await?;
    Ok(WriteResult::Done)
}

pub(super) async fn count_changed(
    connection: &mut SqliteConnection,
    prefix: String,
    action: String,
) -> Result<i64, StoreError> {
    let query = sqlx::query(audit::COUNT_CHANGED).bind(prefix).bind(action);
    Ok(query.fetch_one(connection).await.map_err(|error| of_sqlx(&error))?.get(0))
}

pub(super) async fn list(
    connection: &mut SqliteConnection,
    listing: AuditListing,
) -> Result<Vec<AuditEvent>, StoreError> {
    let (at, request_id) = first_event(&listing);
    let statement = match &listing.of {
        AuditOf::All => audit::AUDIT,
        AuditOf::Consumer(_) => audit::AUDIT_OF_CONSUMER,
        AuditOf::Entry(_) => audit::AUDIT_OF_ENTRY,
        AuditOf::Operation { .. } => audit::AUDIT_OF_OPERATION,
    };
    let query = sqlx::query_as::<_, AuditRow>(statement)
        .bind(at.micros())
        .bind(request_id)
        .bind(i64::try_from(listing.limit).unwrap_or(i64::MAX));
    let query = match listing.of {
        AuditOf::All => query,
        AuditOf::Consumer(consumer) => query.bind(consumer),
        AuditOf::Entry(key) => query.bind(key),
        AuditOf::Operation { consumer, id } => query.bind(AuditEvent::id_of(&consumer, &id)),
    };
    let rows = query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(rows.into_iter().map(AuditEvent::from).collect())
}

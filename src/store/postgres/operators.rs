//! Reads and changes for operators. Each change is one transaction with its audit event.

use async_trait::async_trait;
use sqlx::Row as _;

use super::errors::of_sqlx;
use super::{PgSession, audit, column};
use crate::domain::{
    AuditEvent, AuditListing, AuditOf, Entry, EntryFilter, ImportedEntry, KeyHash, Listed, Listing,
    OpenConsumers, OpenRange, OpenRow, PurgeStatus, PurgeWorker, Reading, RequestDigest, Span, StoreTime,
    Summary,
};
use crate::store::records::{AuditRow, WorkerRow, first_event};
use crate::store::upkeep::{HEARD_OF, WORKERS_MAX};
use crate::store::{
    Entries as _, EventDigests, Found, LeftAlone, OffsetRaise, Operators, PartDigests, StoreError, Write,
    WriteResult,
};

pub(super) const PURGE_PLACES: &str = "\
-- ledger.purge_places
SELECT no, name, purge_passed FROM ledger.consumers WHERE name <> ''";

/// For each consumer, the entries that were created beyond the purge's first pass and are old enough for it: their number, and
/// how long the oldest has waited.
pub(super) const BACKLOG: &str = "\
-- ledger.backlog
WITH places AS MATERIALIZED (
    SELECT * FROM unnest($1::int[], $2::bigint[], $3::bigint[]) AS r(no, passed, until)
)
SELECT (SELECT count(*) FROM (
        SELECT 1 FROM places p CROSS JOIN LATERAL (
            SELECT 1 FROM ledger.entries e
            WHERE e.consumer = p.no AND e.created_at > p.passed AND e.created_at <= p.until
            ORDER BY e.created_at LIMIT $4) AS w
        LIMIT $4) AS counted) AS due,
    (SELECT max(p.until - f.created_at) FROM places p CROSS JOIN LATERAL (
        SELECT e.created_at FROM ledger.entries e
        WHERE e.consumer = p.no AND e.created_at > p.passed AND e.created_at <= p.until
        ORDER BY e.created_at LIMIT 1) AS f) AS waits";

pub(super) const PURGES: &str = "\
-- ledger.purges
SELECT replica, last_run_at, purged_total, purged_per_second, last_error, last_error_at
FROM ledger.purges WHERE last_run_at >= $1
ORDER BY last_run_at DESC, replica LIMIT $2";

/// Bounds the wait for the lock of [`OFFSET_LOCK`], since writers queue up behind that wait.
pub(super) const OFFSET_WAIT: &str = "\
-- ledger.offset_wait
SET LOCAL lock_timeout = '200ms'";

pub(super) const OFFSET_LOCK: &str = "\
-- ledger.offset_lock
LOCK TABLE ledger.entries IN SHARE MODE";

pub(super) const OFFSET_RAISE: &str = "\
-- ledger.offset_raise
UPDATE ledger.meta SET token_offset = $2 WHERE token_offset = $1 AND $2 > $1";

#[async_trait]
impl Operators for PgSession {
    async fn load_by_hash(&mut self, hash: KeyHash) -> Result<(Reading, Found), StoreError> {
        let (reading, mut rows) = self.rows_of(vec![hash]).await?;
        let row = rows.pop().flatten();
        Ok((reading, row.map_or(Found::Absent, |row| Found::from(row.stored(&self.dictionary).entry))))
    }

    async fn list(&mut self, listing: &Listing) -> Result<Listed, StoreError> {
        self.list_entries(listing).await
    }

    async fn open_consumers(
        &mut self,
        after: &str,
        states: &[i16],
        doubled: bool,
        names: usize,
    ) -> Result<OpenConsumers, StoreError> {
        self.find_open(after, states, doubled, names).await
    }

    async fn open_rows(
        &mut self,
        range: &OpenRange,
        filter: &EntryFilter,
    ) -> Result<(Reading, Vec<OpenRow>), StoreError> {
        self.read_open(range, filter).await
    }

    async fn consumers(&mut self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.names_of_consumers(after, limit).await
    }

    async fn summary(
        &mut self,
        consumers: &[(String, Option<i32>)],
        most: i64,
    ) -> Result<Summary, StoreError> {
        self.count(consumers, most).await
    }

    async fn purge_status(
        &mut self,
        left_alone: &LeftAlone,
        due_max: usize,
    ) -> Result<(Reading, PurgeStatus), StoreError> {
        let reading = self.load(&[]).await?.reading;
        let query = sqlx::query_as::<_, (i32, String, i64)>(PURGE_PLACES).persistent(self.persistent);
        let places = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let query = sqlx::query_as::<_, (i64, Option<i64>)>(BACKLOG)
            .persistent(self.persistent)
            .bind(column(&places, |place| place.0))
            .bind(column(&places, |place| place.2))
            .bind(column(&places, |place| (reading.now - left_alone.of(&place.1)).micros()))
            .bind(i64::try_from(due_max).unwrap_or(i64::MAX));
        let (due, waits) = query.fetch_one(&mut self.connection).await.map_err(of_sqlx)?;
        let query = sqlx::query_as::<_, WorkerRow>(PURGES)
            .persistent(self.persistent)
            .bind((reading.now - HEARD_OF).micros())
            .bind(WORKERS_MAX);
        let workers = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let status = PurgeStatus {
            due: usize::try_from(due).unwrap_or(0),
            oldest: waits.map(|waits| reading.now - Span(waits)),
            workers: workers.into_iter().map(PurgeWorker::from).collect(),
        };
        Ok((reading, status))
    }

    async fn change(&mut self, write: &Write, event: &AuditEvent) -> Result<WriteResult, StoreError> {
        // Outside of the transaction: numbers that are learnt in a transaction that is rolled back would be wrong.
        if let Write::Insert(entry) | Write::Replace(entry) = write {
            self.learn_names(std::slice::from_ref(entry)).await?;
        }
        self.connection.begin().await?;
        let outcome = self.within_transaction(write, event).await;
        self.end(outcome).await
    }

    /// No session can write entries while the offset is raised. A statement takes its locks before its snapshot: a statement
    /// that waits sees the new offset, and every statement that ran with the old one has ended.
    async fn raise_token_offset(
        &mut self,
        raise: OffsetRaise,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        self.connection.begin().await?;
        let outcome = self.raise_within_transaction(raise, event).await;
        self.end(outcome).await
    }

    async fn write_entries(
        &mut self,
        fresh: &[ImportedEntry],
        changed: &[Entry],
        events: &[AuditEvent],
    ) -> Result<WriteResult, StoreError> {
        let granted: Vec<Entry> = fresh.iter().map(|entry| entry.entry().clone()).collect();
        self.learn_names(&granted).await?;
        self.learn_names(changed).await?;
        self.connection.begin().await?;
        let outcome = self.write_within_transaction(fresh, &granted, changed, events).await;
        self.end(outcome).await
    }

    async fn count_changed(
        &mut self,
        consumer: &str,
        operation_id: &str,
        action: &str,
    ) -> Result<i64, StoreError> {
        let prefix = AuditEvent::id_of(consumer, &format!("{operation_id}/"));
        let query = self.query(audit::COUNT_CHANGED).bind(prefix).bind(action.to_owned());
        let row = query.fetch_one(&mut self.connection).await.map_err(of_sqlx)?;
        row.try_get(0).map_err(of_sqlx)
    }

    async fn part_digests(&mut self, consumers: &[String], id: &str) -> Result<PartDigests, StoreError> {
        let part = format!("{id}/");
        let prefixes = column(consumers, |consumer| AuditEvent::id_of(consumer, &part));
        let query = sqlx::query_as::<_, (Option<Vec<u8>>,)>(audit::PART_DIGESTS).persistent(self.persistent);
        let rows = query.bind(prefixes).fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(rows.into_iter().map(|(digest,)| RequestDigest::stored(&digest?)).collect())
    }

    async fn event_digests(&mut self, stored_ids: &[String]) -> Result<EventDigests, StoreError> {
        let query = sqlx::query_as::<_, (String, Option<Vec<u8>>)>(audit::EVENT_DIGESTS);
        let query = query.persistent(self.persistent).bind(stored_ids.to_vec());
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let digest = |digest: Option<Vec<u8>>| digest.as_deref().and_then(RequestDigest::stored);
        Ok(rows.into_iter().map(|(id, stored)| (id, digest(stored))).collect())
    }

    async fn audited(&mut self, consumer: &str, request_id: &str) -> Result<Option<AuditEvent>, StoreError> {
        let query = sqlx::query_as::<_, AuditRow>(audit::AUDITED)
            .persistent(self.persistent)
            .bind(AuditEvent::id_of(consumer, request_id))
            .bind(request_id.to_owned())
            .bind(consumer.to_owned());
        let row = query.fetch_optional(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(row.map(AuditEvent::from))
    }

    async fn audit(&mut self, listing: &AuditListing) -> Result<Vec<AuditEvent>, StoreError> {
        let (at, request_id) = first_event(listing);
        let statement = match &listing.of {
            AuditOf::All => audit::AUDIT,
            AuditOf::Consumer(_) => audit::AUDIT_OF_CONSUMER,
            AuditOf::Entry(_) => audit::AUDIT_OF_ENTRY,
            AuditOf::Operation { .. } => audit::AUDIT_OF_OPERATION,
        };
        let query = sqlx::query_as::<_, AuditRow>(statement)
            .persistent(self.persistent)
            .bind(at.micros())
            .bind(request_id)
            .bind(i64::try_from(listing.limit).unwrap_or(i64::MAX));
        let query = match &listing.of {
            AuditOf::All => query,
            AuditOf::Consumer(consumer) => query.bind(consumer.clone()),
            AuditOf::Entry(key) => query.bind(*key),
            AuditOf::Operation { consumer, id } => query.bind(AuditEvent::id_of(consumer, id)),
        };
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(rows.into_iter().map(AuditEvent::from).collect())
    }
}

impl PgSession {
    async fn within_transaction(
        &mut self,
        write: &Write,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        if !self.add_event(event).await? {
            return Ok(WriteResult::Repeated);
        }
        let written = match write {
            Write::Replace(entry) => self.replace(std::slice::from_ref(entry)).await? == [true],
            Write::Nothing => true,
            Write::Delete(key, version) => self.delete(*key, *version).await?,
            Write::DeleteUnreadable(key, version) => self.delete_unreadable(*key, *version).await?,
            Write::Insert(entry) => {
                // The insert writes only the columns of first grants; the replacement writes the others.
                let inserted = self.insert(std::slice::from_ref(entry), StoreTime::MAX).await?;
                match inserted.tokens().first() {
                    Some(Some(token)) => {
                        let token_clock = token.saturating_sub(entry.token);
                        let mut entry = entry.as_ref().clone().stamped(inserted.reading.now, token_clock);
                        entry.version += 1;
                        self.replace(&[entry]).await? == [true]
                    }
                    Some(None) | None => false,
                }
            }
        };
        Ok(if written { WriteResult::Done } else { WriteResult::Lost })
    }

    async fn write_within_transaction(
        &mut self,
        fresh: &[ImportedEntry],
        granted: &[Entry],
        changed: &[Entry],
        events: &[AuditEvent],
    ) -> Result<WriteResult, StoreError> {
        if !self.add_events(events).await? {
            return Ok(WriteResult::Repeated);
        }
        let mut whole = changed.to_vec();
        if !granted.is_empty() {
            // The insert writes only the columns of first grants; the replacement writes the others.
            let inserted = self.insert(granted, StoreTime::MAX).await?;
            for (entry, token) in fresh.iter().zip(inserted.tokens()) {
                let Some(token) = token else { return Ok(WriteResult::Lost) };
                let token_clock = token.saturating_sub(entry.entry().token);
                let mut entry = entry.clone().stamped(inserted.reading.now, token_clock);
                entry.version += 1;
                whole.push(entry);
            }
        }
        // By key, as in every statement that writes.
        whole.sort_by_key(|entry| entry.key.hash());
        let replaced = self.replace(&whole).await?;
        Ok(if replaced.iter().all(|done| *done) { WriteResult::Done } else { WriteResult::Lost })
    }

    async fn raise_within_transaction(
        &mut self,
        raise: OffsetRaise,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        if !self.add_event(event).await? {
            return Ok(WriteResult::Repeated);
        }
        self.plain(OFFSET_WAIT).await?;
        self.plain(OFFSET_LOCK).await?;
        let query = self.query(OFFSET_RAISE).bind(raise.from).bind(raise.to);
        let done = query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(if done.rows_affected() == 1 { WriteResult::Done } else { WriteResult::Lost })
    }
}

//! The ledger in one `SQLite` file: the embedded default.
//!
//! One process owns the file, by a lock beside it; within it one connection serves all sessions,
//! one transaction at a time; what may read much (lists, counts) has a second one, so that claims do
//! not wait for it.

mod audit;
mod connect;
mod errors;
mod file;
pub(super) mod list;
mod purge;
mod queries;
mod replicas;
mod rows;
pub(super) mod statements;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use sqlx::Row as _;

use super::row::{Row, read, readable, unreadable};
use super::{
    Clock, Completion, EffectiveRetention, Fault, Found, Inserted, Loaded, OffsetRaise, Purpose, Replica,
    Session, Store, StoreError, UNREADABLE_AGAIN, Write, WriteResult,
};
use crate::domain::{
    AuditEvent, AuditListing, Entry, ImportedEntry, Key, KeyHash, Listed, Listing, PolicyVersion,
    PurgeStatus, PurgeWorker, Reading, StoreTime, Summary,
};
use errors::of_sqlx;
use file::{SqliteFile, Work};
use rows::{insert, put_in_force, replace};
use statements as sql;

/// The ledger in one `SQLite` file.
pub struct SqliteStore {
    file: Arc<SqliteFile>,
}

impl SqliteStore {
    /// Takes possession of the file at `path`; opens it with the first session.
    ///
    /// # Errors
    /// The folder is missing or read-only, or another process owns the file.
    pub fn new(path: &Path, clock: Arc<dyn Clock>) -> Result<SqliteStore, String> {
        Ok(SqliteStore { file: Arc::new(SqliteFile::new(path, clock)?) })
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn describe(&self) -> String {
        format!("SQLite file {}", self.file.path().display())
    }

    fn sessions(&self) -> usize {
        1
    }

    async fn open(&self, _: Purpose) -> Result<Box<dyn Session>, StoreError> {
        let nothing: Work<()> = Box::new(|_, _| Box::pin(async { Ok(()) }));
        self.file.look(nothing).await?;
        Ok(Box::new(SqliteSession { file: Arc::clone(&self.file) }))
    }

    async fn migrate(&self) -> Result<usize, StoreError> {
        connect::migrate(self.file.path()).await
    }
}

struct SqliteSession {
    file: Arc<SqliteFile>,
}

#[async_trait]
impl Session for SqliteSession {
    async fn load(&mut self, keys: &[Key]) -> Result<Loaded, StoreError> {
        let keys = keys.to_vec();
        let work: Work<Vec<Found>> = Box::new(move |connection, _| {
            Box::pin(async move {
                let mut found = Vec::with_capacity(keys.len());
                for key in keys {
                    let query = sqlx::query(sql::LOAD).bind(key.hash());
                    let row =
                        query.fetch_optional(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
                    found.push(match row.as_ref().map(read) {
                        None => Found::Absent,
                        Some(Err(problem)) => Found::Unreadable(problem),
                        Some(Ok(entry)) if entry.key == key => Found::Entry(Box::new(entry)),
                        Some(Ok(_)) => Found::Collision,
                    });
                }
                Ok(found)
            })
        });
        let (reading, found) = self.file.write(work).await?;
        Ok(Loaded { reading, found })
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
                    let query = sqlx::query(sql::COMPLETE)
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

    async fn write_heartbeat(&mut self, replica: &Replica) -> Result<Reading, StoreError> {
        let replica = replica.clone();
        let work: Work<()> =
            Box::new(move |connection, reading| Box::pin(replicas::beat(connection, reading, replica)));
        Ok(self.file.write(work).await?.0)
    }

    async fn replicas_below(
        &mut self,
        format: i32,
        heard_since: StoreTime,
        limit: usize,
    ) -> Result<Vec<Replica>, StoreError> {
        let work: Work<Vec<Replica>> =
            Box::new(move |connection, _| Box::pin(replicas::below(connection, format, heard_since, limit)));
        Ok(self.file.write(work).await?.1)
    }

    async fn list(&mut self, listing: &Listing) -> Result<Listed, StoreError> {
        let listing = listing.clone();
        let work: Work<Listed> =
            Box::new(move |connection, reading| Box::pin(queries::list(connection, reading, listing)));
        Ok(self.file.look(work).await?.1)
    }

    async fn consumers(&mut self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let after = after.to_owned();
        let work: Work<Vec<String>> =
            Box::new(move |connection, _| Box::pin(queries::names_of_consumers(connection, after, limit)));
        Ok(self.file.look(work).await?.1)
    }

    async fn summary(&mut self, consumers: &[(String, i32)]) -> Result<Summary, StoreError> {
        let consumers = consumers.to_vec();
        let work: Work<Summary> =
            Box::new(move |connection, reading| Box::pin(queries::count(connection, reading, consumers)));
        Ok(self.file.look(work).await?.1)
    }

    /// Nothing to do: here every claim is in that index from its first instant on.
    async fn index_open_claims(&mut self, _limit: usize) -> Result<usize, StoreError> {
        Ok(0)
    }

    async fn due(&mut self, limit: usize) -> Result<(Reading, Vec<Entry>), StoreError> {
        let work: Work<Vec<Entry>> = Box::new(move |connection, reading| {
            Box::pin(async move {
                let query = sqlx::query(sql::DUE)
                    .bind(reading.now.micros())
                    .bind(i64::try_from(limit).unwrap_or(i64::MAX));
                let rows = query.fetch_all(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
                for (key, version) in unreadable(&rows) {
                    let again = (reading.now + UNREADABLE_AGAIN).micros();
                    let query = sqlx::query(sql::LOOK_AGAIN).bind(key).bind(version).bind(again);
                    query.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
                }
                Ok(readable(&rows))
            })
        });
        self.file.write(work).await
    }

    async fn look_again(&mut self, entries: &[(KeyHash, i64, StoreTime)]) -> Result<usize, StoreError> {
        let entries = entries.to_vec();
        let work: Work<usize> = Box::new(move |connection, _| {
            Box::pin(async move {
                let mut changed = 0;
                for (key, version, at) in entries {
                    let query = sqlx::query(sql::LOOK_AGAIN).bind(key).bind(version).bind(at.micros());
                    let done = query.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
                    changed += usize::try_from(done.rows_affected()).unwrap_or(0);
                }
                Ok(changed)
            })
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn policy_epoch(&mut self) -> Result<i64, StoreError> {
        let work: Work<i64> = Box::new(|connection, _| Box::pin(purge::policy_epoch(connection)));
        Ok(self.file.write(work).await?.1)
    }

    async fn purge(&mut self, entries: &[(KeyHash, i64)], policy_epoch: i64) -> Result<usize, StoreError> {
        let entries = entries.to_vec();
        let work: Work<usize> = Box::new(move |connection, reading| {
            Box::pin(purge::purge(connection, reading, entries, policy_epoch))
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn report_purge(&mut self, worker: &PurgeWorker) -> Result<(), StoreError> {
        let worker = worker.clone();
        let work: Work<()> = Box::new(move |connection, _| Box::pin(purge::report(connection, worker)));
        let _: () = self.file.write(work).await?.1;
        Ok(())
    }

    async fn purge_status(&mut self, due_max: usize) -> Result<(Reading, PurgeStatus), StoreError> {
        let work: Work<PurgeStatus> =
            Box::new(move |connection, reading| Box::pin(purge::status(connection, reading, due_max)));
        self.file.look(work).await
    }

    async fn change(&mut self, write: &Write, event: &AuditEvent) -> Result<WriteResult, StoreError> {
        let (write, event) = (write.clone(), event.clone());
        let work: Work<WriteResult> = Box::new(move |connection, reading| {
            Box::pin(async move {
                let grows = matches!(write, Write::Insert(_) | Write::Delete(..));
                if grows && reading.behind() {
                    return Err(StoreError::NotApplied(Fault::ClockBehind));
                }
                audit::change(connection, reading, &write, event).await
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
            Box::new(move |connection, _| Box::pin(audit::raise_offset(connection, raise, event)));
        Ok(self.file.write(work).await?.1)
    }

    async fn import(
        &mut self,
        entries: &[ImportedEntry],
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        let (entries, event) = (entries.to_vec(), event.clone());
        let work: Work<WriteResult> = Box::new(move |connection, reading| {
            Box::pin(async move {
                if reading.behind() {
                    return Err(StoreError::NotApplied(Fault::ClockBehind));
                }
                audit::import(connection, reading, entries, event).await
            })
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn count_redriven(&mut self, prefix: &str) -> Result<i64, StoreError> {
        let prefix = prefix.to_owned();
        let work: Work<i64> =
            Box::new(move |connection, _| Box::pin(audit::count_audited(connection, prefix)));
        Ok(self.file.look(work).await?.1)
    }

    async fn audited(&mut self, request_id: &str) -> Result<Option<AuditEvent>, StoreError> {
        let request_id = request_id.to_owned();
        let work: Work<Option<AuditEvent>> =
            Box::new(move |connection, _| Box::pin(audit::audited(connection, request_id)));
        Ok(self.file.write(work).await?.1)
    }

    async fn audit(&mut self, listing: &AuditListing) -> Result<Vec<AuditEvent>, StoreError> {
        let listing = listing.clone();
        let work: Work<Vec<AuditEvent>> =
            Box::new(move |connection, _| Box::pin(audit::list(connection, listing)));
        Ok(self.file.look(work).await?.1)
    }

    async fn purge_audit(&mut self, before: StoreTime, limit: usize) -> Result<usize, StoreError> {
        let work: Work<usize> =
            Box::new(move |connection, _| Box::pin(audit::forget(connection, before, limit)));
        Ok(self.file.write(work).await?.1)
    }

    async fn add_policy(
        &mut self,
        policy: &PolicyVersion,
        in_force: &EffectiveRetention,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        let (policy, in_force, event) = (policy.clone(), in_force.clone(), event.clone());
        let work: Work<WriteResult> =
            Box::new(move |connection, _| Box::pin(audit::add_policy(connection, policy, in_force, event)));
        Ok(self.file.write(work).await?.1)
    }

    async fn policies(&mut self) -> Result<Vec<PolicyVersion>, StoreError> {
        let work: Work<Vec<PolicyVersion>> =
            Box::new(move |connection, _| Box::pin(audit::policies(connection)));
        Ok(self.file.write(work).await?.1)
    }

    async fn policy_versions(
        &mut self,
        consumer: &str,
        before: i32,
        limit: usize,
    ) -> Result<Vec<PolicyVersion>, StoreError> {
        let consumer = consumer.to_owned();
        let work: Work<Vec<PolicyVersion>> = Box::new(move |connection, _| {
            Box::pin(audit::policy_versions(connection, consumer, before, limit))
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn effective_retentions(&mut self) -> Result<(Reading, Vec<EffectiveRetention>), StoreError> {
        let work: Work<Vec<EffectiveRetention>> =
            Box::new(|connection, _| Box::pin(audit::effective_retentions(connection)));
        self.file.write(work).await
    }

    async fn put_in_force(
        &mut self,
        all: &[EffectiveRetention],
        seen: Option<&[EffectiveRetention]>,
    ) -> Result<usize, StoreError> {
        let (all, seen) = (all.to_vec(), seen.map(<[EffectiveRetention]>::to_vec));
        let work: Work<usize> = Box::new(move |connection, _| {
            Box::pin(async move {
                let mut changed = 0;
                for (place, one) in all.iter().enumerate() {
                    let seen = seen.as_ref().and_then(|seen| seen.get(place));
                    changed += usize::from(put_in_force(connection, one, seen).await?);
                }
                Ok(changed)
            })
        });
        Ok(self.file.write(work).await?.1)
    }
}

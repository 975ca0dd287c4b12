//! The ledger in one `SQLite` file: the embedded default.
//!
//! One process owns the file, by a lock beside it; within it one connection serves all sessions,
//! one transaction at a time; what may read much (lists, counts) has a second one, so that claims do
//! not wait for it. Each transaction runs in a task of its own, so that a caller that goes away can
//! not leave one open.

mod audit;
mod connect;
mod errors;
mod purge;
mod queries;
pub(super) mod statements;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection as _, Row as _};
use tokio::sync::Mutex;

use super::row::{Row, read, readable, unreadable};
use super::{
    AuditEvent, AuditListing, Clock, Completion, Fault, Found, Inserted, Listed, Listing, Loaded, Mark,
    Outcome, PolicyVersion, PurgeStatus, PurgeWorker, Reading, Remembered, Session, Store, StoreError,
    Summary, UNREADABLE_AGAIN, Write,
};
use crate::domain::{Arrival, Entry, Key, KeyHash, Span, StoreTime};
use errors::{of_commit, of_sqlx};
use statements as sql;

/// The ledger in one `SQLite` file.
pub struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    mark: Mark,
    writer: Mutex<Option<SqliteConnection>>,
    reader: Mutex<Option<SqliteConnection>>,
    /// Held for as long as the store lives.
    _lock: std::fs::File,
}

impl SqliteStore {
    /// Takes possession of the file at `path`; opens it with the first session.
    ///
    /// # Errors
    /// The folder is missing or read-only, or another process owns the file.
    pub fn new(path: &Path, clock: Arc<dyn Clock>) -> Result<SqliteStore, String> {
        let lock = connect::lock(path)?;
        let shared = Shared {
            path: path.to_owned(),
            clock,
            mark: Mark::default(),
            writer: Mutex::new(None),
            reader: Mutex::new(None),
            _lock: lock,
        };
        Ok(SqliteStore { shared: Arc::new(shared) })
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn describe(&self) -> String {
        format!("SQLite file {}", self.shared.path.display())
    }

    fn sessions(&self) -> usize {
        1
    }

    async fn open(&self) -> Result<Box<dyn Session>, StoreError> {
        let session = SqliteSession { shared: Arc::clone(&self.shared) };
        let nothing: Work<()> = Box::new(|_, _| Box::pin(async { Ok(()) }));
        let (reading, ()) = session.run(Purpose::Read, nothing).await?;
        self.shared.mark.0.fetch_max(reading.mark, std::sync::atomic::Ordering::SeqCst);
        Ok(Box::new(session))
    }

    async fn migrate(&self) -> Result<usize, StoreError> {
        connect::migrate(&self.shared.path).await
    }
}

struct SqliteSession {
    shared: Arc<Shared>,
}

/// What happens within one transaction.
type Work<T> =
    Box<dyn for<'c> FnOnce(&'c mut SqliteConnection, Reading) -> BoxFuture<'c, Result<T, StoreError>> + Send>;

/// For what a transaction is begun, and so on which connection.
#[derive(Clone, Copy)]
enum Purpose {
    /// Begun as a writer, so that what it has read still holds when it writes.
    Write,
    /// Sees one state of the file, while writers go on.
    Read,
}

impl SqliteSession {
    async fn transaction<T: Send + 'static>(&self, work: Work<T>) -> Result<(Reading, T), StoreError> {
        self.run(Purpose::Write, work).await
    }

    async fn look<T: Send + 'static>(&self, work: Work<T>) -> Result<T, StoreError> {
        Ok(self.run(Purpose::Read, work).await?.1)
    }

    /// Runs one transaction in a task of its own.
    async fn run<T: Send + 'static>(
        &self,
        purpose: Purpose,
        work: Work<T>,
    ) -> Result<(Reading, T), StoreError> {
        let shared = Arc::clone(&self.shared);
        let task = tokio::spawn(async move {
            let mut slot = match purpose {
                Purpose::Write => shared.writer.lock().await,
                Purpose::Read => shared.reader.lock().await,
            };
            if slot.is_none() {
                *slot = Some(connect::open(&shared.path).await?);
            }
            let done = match slot.as_mut() {
                Some(connection) => shared.carry_out(connection, purpose, work).await,
                None => Err(StoreError::NotApplied(Fault::Unavailable("no connection".into()))),
            };
            // A full disk, say, ends a transaction behind the driver's back: after an error of
            // SQLite's nothing but a new connection is known to be clean.
            if !matches!(done, Ok(_) | Err(StoreError::NotApplied(Fault::ClockBehind))) {
                *slot = None;
            }
            done
        });
        task.await.unwrap_or_else(|error| Err(StoreError::Unknown(error.to_string())))
    }
}

impl Shared {
    async fn carry_out<T>(
        &self,
        connection: &mut SqliteConnection,
        purpose: Purpose,
        work: Work<T>,
    ) -> Result<(Reading, T), StoreError> {
        let begin = match purpose {
            Purpose::Write => "BEGIN IMMEDIATE",
            Purpose::Read => "BEGIN DEFERRED",
        };
        let mut transaction = connection.begin_with(begin).await.map_err(|error| of_sqlx(&error))?;
        let mark = self.mark.get();
        let meta =
            sqlx::query(sql::META).fetch_one(&mut *transaction).await.map_err(|error| of_sqlx(&error))?;
        let reading =
            Reading { now: self.clock.now(), token_offset: meta.get(0), mark: mark.max(meta.get(1)) };
        self.mark.raise(&reading);
        let done = work(&mut transaction, reading).await?;
        transaction.commit().await.map_err(|error| of_commit(&error))?;
        Ok((reading, done))
    }
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
        let (reading, found) = self.transaction(work).await?;
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
        let (reading, tokens) = self.transaction(work).await?;
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
        Ok(self.transaction(work).await?.1)
    }

    async fn replace(&mut self, entries: &[Entry]) -> Result<Vec<bool>, StoreError> {
        let rows: Vec<Row> = entries.iter().map(Row::from).collect();
        let work: Work<Vec<bool>> = Box::new(move |connection, _| {
            Box::pin(async move {
                let mut done = Vec::with_capacity(rows.len());
                for row in &rows {
                    done.push(replace(connection, row).await?);
                }
                Ok(done)
            })
        });
        Ok(self.transaction(work).await?.1)
    }

    async fn beat(&mut self) -> Result<Reading, StoreError> {
        let work: Work<()> = Box::new(|connection, reading| {
            Box::pin(async move {
                let query = sqlx::query(sql::BEAT).bind(reading.now.micros());
                query.execute(connection).await.map_err(|error| of_sqlx(&error))?;
                Ok(())
            })
        });
        Ok(self.transaction(work).await?.0)
    }

    async fn list(&mut self, listing: &Listing) -> Result<Listed, StoreError> {
        let listing = listing.clone();
        let work: Work<Listed> =
            Box::new(move |connection, reading| Box::pin(queries::list(connection, reading, listing)));
        self.look(work).await
    }

    async fn consumers(&mut self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let after = after.to_owned();
        let work: Work<Vec<String>> =
            Box::new(move |connection, _| Box::pin(queries::names_of_consumers(connection, after, limit)));
        self.look(work).await
    }

    async fn summary(&mut self, consumers: &[(String, i32)]) -> Result<Summary, StoreError> {
        let consumers = consumers.to_vec();
        let work: Work<Summary> =
            Box::new(move |connection, reading| Box::pin(queries::count(connection, reading, consumers)));
        self.look(work).await
    }

    /// Nothing to do: here every claim is in that index from its first instant on.
    async fn mark_open(&mut self, _limit: usize) -> Result<usize, StoreError> {
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
        self.transaction(work).await
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
        Ok(self.transaction(work).await?.1)
    }

    async fn rules(&mut self) -> Result<i64, StoreError> {
        let work: Work<i64> = Box::new(|connection, _| Box::pin(purge::rules(connection)));
        Ok(self.transaction(work).await?.1)
    }

    async fn purge(&mut self, entries: &[(KeyHash, i64)], rules: i64) -> Result<usize, StoreError> {
        let entries = entries.to_vec();
        let work: Work<usize> =
            Box::new(move |connection, reading| Box::pin(purge::purge(connection, reading, entries, rules)));
        Ok(self.transaction(work).await?.1)
    }

    async fn report_purge(&mut self, worker: &PurgeWorker) -> Result<(), StoreError> {
        let worker = worker.clone();
        let work: Work<()> = Box::new(move |connection, _| Box::pin(purge::report(connection, worker)));
        let _: () = self.transaction(work).await?.1;
        Ok(())
    }

    async fn purge_status(&mut self, due_max: usize) -> Result<(Reading, PurgeStatus), StoreError> {
        let work: Work<PurgeStatus> =
            Box::new(move |connection, reading| Box::pin(purge::status(connection, reading, due_max)));
        self.transaction(work).await
    }

    async fn change(&mut self, write: &Write, event: &AuditEvent) -> Result<Outcome, StoreError> {
        let (write, event) = (write.clone(), event.clone());
        let work: Work<Outcome> = Box::new(move |connection, reading| {
            Box::pin(async move {
                let grows = matches!(write, Write::Insert(_) | Write::Delete(..));
                if grows && reading.behind() {
                    return Err(StoreError::NotApplied(Fault::ClockBehind));
                }
                audit::change(connection, reading, &write, event).await
            })
        });
        Ok(self.transaction(work).await?.1)
    }

    async fn import(&mut self, arrivals: &[Arrival], event: &AuditEvent) -> Result<Outcome, StoreError> {
        let (arrivals, event) = (arrivals.to_vec(), event.clone());
        let work: Work<Outcome> = Box::new(move |connection, reading| {
            Box::pin(async move {
                if reading.behind() {
                    return Err(StoreError::NotApplied(Fault::ClockBehind));
                }
                audit::import(connection, reading, arrivals, event).await
            })
        });
        Ok(self.transaction(work).await?.1)
    }

    async fn audited_under(&mut self, prefix: &str) -> Result<i64, StoreError> {
        let prefix = prefix.to_owned();
        let work: Work<i64> =
            Box::new(move |connection, _| Box::pin(audit::count_audited(connection, prefix)));
        Ok(self.transaction(work).await?.1)
    }

    async fn audited(&mut self, request_id: &str) -> Result<Option<AuditEvent>, StoreError> {
        let request_id = request_id.to_owned();
        let work: Work<Option<AuditEvent>> =
            Box::new(move |connection, _| Box::pin(audit::audited(connection, request_id)));
        Ok(self.transaction(work).await?.1)
    }

    async fn audit(&mut self, listing: &AuditListing) -> Result<Vec<AuditEvent>, StoreError> {
        let listing = listing.clone();
        let work: Work<Vec<AuditEvent>> =
            Box::new(move |connection, _| Box::pin(audit::list(connection, listing)));
        self.look(work).await
    }

    async fn purge_audit(&mut self, before: StoreTime, limit: usize) -> Result<usize, StoreError> {
        let work: Work<usize> =
            Box::new(move |connection, _| Box::pin(audit::forget(connection, before, limit)));
        Ok(self.transaction(work).await?.1)
    }

    async fn add_policy(
        &mut self,
        policy: &PolicyVersion,
        in_force: &Remembered,
        event: &AuditEvent,
    ) -> Result<Outcome, StoreError> {
        let (policy, in_force, event) = (policy.clone(), in_force.clone(), event.clone());
        let work: Work<Outcome> =
            Box::new(move |connection, _| Box::pin(audit::add_policy(connection, policy, in_force, event)));
        Ok(self.transaction(work).await?.1)
    }

    async fn policies(&mut self) -> Result<Vec<PolicyVersion>, StoreError> {
        let work: Work<Vec<PolicyVersion>> =
            Box::new(move |connection, _| Box::pin(audit::policies(connection)));
        Ok(self.transaction(work).await?.1)
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
        Ok(self.transaction(work).await?.1)
    }

    async fn remembered(&mut self) -> Result<(Reading, Vec<Remembered>), StoreError> {
        let work: Work<Vec<Remembered>> = Box::new(|connection, _| Box::pin(audit::remembered(connection)));
        self.transaction(work).await
    }

    async fn remember(&mut self, all: &[Remembered]) -> Result<(), StoreError> {
        let all = all.to_vec();
        let work: Work<()> = Box::new(move |connection, _| {
            Box::pin(async move {
                for one in all {
                    remember(connection, &one).await?;
                }
                Ok(())
            })
        });
        let _: () = self.transaction(work).await?.1;
        Ok(())
    }
}

async fn remember(connection: &mut SqliteConnection, one: &Remembered) -> Result<(), StoreError> {
    number(connection, &one.consumer, sql::CONSUMER_ADD, sql::CONSUMER_FIND).await?;
    let query = sqlx::query(sql::REMEMBER)
        .bind(one.consumer.clone())
        .bind(one.retention.map(Span::micros))
        .bind(one.window_floor.micros());
    let done = query.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    if done.rows_affected() > 0 {
        purge::rules_changed(connection).await?;
    }
    Ok(())
}

/// The number of a name, given on its first use.
async fn number(
    connection: &mut SqliteConnection,
    name: &str,
    add: &'static str,
    find: &'static str,
) -> Result<i64, StoreError> {
    let found = sqlx::query(find).bind(name.to_owned()).fetch_optional(&mut *connection).await;
    if let Some(row) = found.map_err(|error| of_sqlx(&error))? {
        return Ok(row.get(0));
    }
    let added = sqlx::query(add).bind(name.to_owned()).execute(connection).await;
    Ok(added.map_err(|error| of_sqlx(&error))?.last_insert_rowid())
}

async fn insert(connection: &mut SqliteConnection, row: &Row) -> Result<bool, StoreError> {
    let consumer = number(connection, &row.consumer, sql::CONSUMER_ADD, sql::CONSUMER_FIND).await?;
    let source = number(connection, &row.source, sql::SOURCE_ADD, sql::SOURCE_FIND).await?;
    let query = sqlx::query(sql::INSERT)
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

async fn replace(connection: &mut SqliteConnection, row: &Row) -> Result<bool, StoreError> {
    let query = sqlx::query(sql::REPLACE)
        .bind(row.key)
        .bind(row.version)
        .bind(row.token)
        .bind(row.granted_at)
        .bind(row.lease_until)
        .bind(row.grace)
        .bind(row.hold_until)
        .bind(row.retention)
        .bind(row.not_before)
        .bind(row.sweep_at)
        .bind(row.updated_at)
        .bind(row.closed_at)
        .bind(row.parked_at)
        .bind(row.retain_until)
        .bind(row.claim_id)
        .bind(row.policy_version)
        .bind(row.attempts)
        .bind(row.state)
        .bind(row.cause)
        .bind(row.closed_by)
        .bind(row.on_expiry)
        .bind(row.attention())
        .bind(row.rearmed)
        .bind(row.effect_started)
        .bind(row.prior_effect_started)
        .bind(row.effect_unknown)
        .bind(row.principal.clone())
        .bind(row.owner.clone())
        .bind(row.last_error.clone())
        .bind(row.history.clone())
        .bind(row.fingerprint.clone())
        .bind(row.result.clone())
        .bind(row.checkpoint.clone());
    let done = query.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(done.rows_affected() == 1)
}

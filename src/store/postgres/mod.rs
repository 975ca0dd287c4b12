//! The ledger on Postgres, 14 to 18.

mod audit;
mod connect;
mod errors;
mod left_behind;
pub(super) mod list;
mod names;
mod purge;
mod queries;
mod replicas;
pub(super) mod statements;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row as _};
use uuid::Uuid;

use super::row::{Row, read, readable, unreadable};
use super::{
    Completion, EffectiveRetention, Fault, Found, Inserted, Loaded, Mark, OffsetRaise, Purpose, Replica,
    Session, Store, StoreError, UNREADABLE_AGAIN, Write, WriteResult, in_order,
};
use crate::domain::{
    AuditEvent, AuditListing, Entry, ImportedEntry, Key, KeyHash, Listed, Listing, PolicyVersion,
    PurgeStatus, PurgeWorker, Reading, Span, StoreTime, Summary,
};
use errors::of_sqlx;
use left_behind::{Backend, LeftBehind};
use statements as sql;

/// How to reach Postgres.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database?sslmode=verify-full&sslrootcert=…`
    pub url: String,
    /// How many sessions the ledger works with.
    pub sessions: usize,
    /// How long a statement for claims waits for a lock that somebody else holds.
    pub lock_wait: Duration,
    /// Named prepared statements. Off behind `PgBouncer` in transaction mode.
    pub prepared_statements: bool,
}

/// The ledger on Postgres.
#[derive(Debug)]
pub struct PostgresStore {
    connect: PgConnectOptions,
    sessions: usize,
    lock_wait: Duration,
    persistent: bool,
    mark: Arc<Mark>,
    /// A session was opened before.
    serving: AtomicBool,
    left_behind: Arc<LeftBehind>,
    /// Sessions for claims are opened one after the other: two that looked at the same moment would each
    /// leave a backend behind.
    opening: tokio::sync::Mutex<()>,
}

impl PostgresStore {
    /// Reads the options; connects to nothing yet.
    ///
    /// # Errors
    /// What is wrong with the URL, without its password.
    pub fn new(options: &PostgresOptions) -> Result<PostgresStore, String> {
        let connect = connect::options(&options.url)?;
        Ok(PostgresStore {
            connect,
            sessions: options.sessions,
            lock_wait: options.lock_wait,
            persistent: options.prepared_statements,
            mark: Arc::default(),
            serving: AtomicBool::new(false),
            left_behind: Arc::default(),
            opening: tokio::sync::Mutex::default(),
        })
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn describe(&self) -> String {
        connect::describe(&self.connect)
    }

    fn sessions(&self) -> usize {
        self.sessions
    }

    async fn open(&self, purpose: Purpose) -> Result<Box<dyn Session>, StoreError> {
        let claims = purpose == Purpose::Claims;
        let _one_at_a_time = if claims { Some(self.opening.lock().await) } else { None };
        let serving = self.serving.load(Ordering::SeqCst);
        let (connection, backend) = connect::open(&self.connect, purpose, self.lock_wait, serving).await?;
        let left_max = if claims { self.sessions } else { 1 };
        let connection = self.left_behind.admit(connection, purpose, left_max).await?;
        let mut session = PgSession {
            connection,
            purpose,
            backend,
            left_behind: Arc::clone(&self.left_behind),
            persistent: self.persistent,
            mark: Arc::clone(&self.mark),
            consumers: HashMap::new(),
            sources: HashMap::new(),
            marked_last: 0,
        };
        // A promoted database may have lost commits: take over what it has written down.
        let loaded = session.load(&[]).await?;
        if claims {
            connect::prove(&mut session.connection).await?;
        }
        self.mark.0.fetch_max(loaded.reading.mark, Ordering::SeqCst);
        self.serving.store(true, Ordering::SeqCst);
        Ok(Box::new(session))
    }

    async fn migrate(&self) -> Result<usize, StoreError> {
        connect::migrate(&self.connect).await
    }
}

/// One connection.
struct PgSession {
    connection: PgConnection,
    purpose: Purpose,
    backend: Backend,
    left_behind: Arc<LeftBehind>,
    persistent: bool,
    mark: Arc<Mark>,
    consumers: HashMap<String, i32>,
    sources: HashMap<String, i32>,
    /// The last consumer whose open claims were marked; 0: all were.
    marked_last: i32,
}

impl PgSession {
    fn query(&self, statement: &'static str) -> Query<'static, Postgres, PgArguments> {
        sqlx::query(statement).persistent(self.persistent)
    }

    fn reading(&self, row: &PgRow, mark: i64) -> Result<Reading, StoreError> {
        let reading = Reading {
            now: StoreTime(row.try_get("clock_now").map_err(of_sqlx)?),
            token_offset: row.try_get("token_offset").map_err(of_sqlx)?,
            mark: mark.max(row.try_get("clock_mark").map_err(of_sqlx)?),
        };
        self.mark.raise(&reading);
        Ok(reading)
    }
}

impl Drop for PgSession {
    /// The connection closes without a word, so that nothing is cancelled.
    fn drop(&mut self) {
        self.left_behind.add(self.purpose, self.backend);
    }
}

#[async_trait]
impl Session for PgSession {
    async fn load(&mut self, keys: &[Key]) -> Result<Loaded, StoreError> {
        let mark = self.mark.get();
        let hashes: Vec<Uuid> = keys.iter().map(Key::hash).collect();
        let query = self.query(sql::LOAD).bind(hashes);
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let reading = self.reading(rows.first().ok_or_else(no_meta)?, mark)?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let hash: Option<Uuid> = row.try_get("key").map_err(of_sqlx)?;
            if let Some(hash) = hash {
                found.push((hash, read(row)));
            }
        }
        let found = in_order(keys.iter().map(Key::hash), found)
            .zip(keys)
            .map(|(found, key)| match found {
                None => Found::Absent,
                Some(Err(problem)) => Found::Unreadable(problem),
                Some(Ok(entry)) if entry.key == *key => Found::Entry(Box::new(entry)),
                Some(Ok(_)) => Found::Collision,
            })
            .collect();
        Ok(Loaded { reading, found })
    }

    async fn insert(&mut self, rows: &[Entry], until: StoreTime) -> Result<Inserted, StoreError> {
        self.learn_names(rows).await?;
        let mark = self.mark.get();
        let raw: Vec<Row> = rows.iter().map(Row::from).collect();
        let numbers = |names: &HashMap<String, i32>, name: fn(&Row) -> &String| -> Vec<i32> {
            raw.iter().map(|row| names.get(name(row)).copied().unwrap_or_default()).collect()
        };
        let query = self
            .query(sql::INSERT)
            .bind(mark)
            .bind(until.micros())
            .bind(column(&raw, |row| row.key))
            .bind(column(&raw, |row| row.token))
            .bind(column(&raw, |row| row.granted_at))
            .bind(column(&raw, |row| row.lease_until))
            .bind(column(&raw, |row| row.grace))
            .bind(column(&raw, |row| row.hold_until))
            .bind(column(&raw, |row| row.retention))
            .bind(column(&raw, |row| row.sweep_at))
            .bind(column(&raw, |row| row.retain_until))
            .bind(column(&raw, |row| row.claim_id))
            .bind(numbers(&self.consumers, |row| &row.consumer))
            .bind(numbers(&self.sources, |row| &row.source))
            .bind(column(&raw, |row| row.policy_version))
            .bind(column(&raw, |row| row.on_expiry))
            .bind(column(&raw, |row| row.id.clone()))
            .bind(column(&raw, |row| row.principal.clone()))
            .bind(column(&raw, |row| row.owner.clone()))
            .bind(column(&raw, |row| row.traceparent.clone()))
            .bind(column(&raw, |row| row.fingerprint.clone()));
        let answers = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let reading = self.reading(answers.first().ok_or_else(no_meta)?, mark)?;
        if reading.behind() {
            return Err(StoreError::NotApplied(Fault::ClockBehind));
        }
        let mut fresh: Vec<(Uuid, i64)> = Vec::with_capacity(answers.len());
        for answer in &answers {
            let key: Option<Uuid> = answer.try_get("key").map_err(of_sqlx)?;
            if let Some(key) = key {
                fresh.push((key, answer.try_get("token").map_err(of_sqlx)?));
            }
        }
        let tokens = in_order(rows.iter().map(|row| row.key.hash()), fresh).collect();
        Ok(Inserted { reading, tokens })
    }

    async fn complete(&mut self, completions: &[Completion]) -> Result<Vec<Option<bool>>, StoreError> {
        let query = self
            .query(sql::COMPLETE)
            .bind(column(completions, |one| one.key.hash()))
            .bind(column(completions, |one| one.token))
            .bind(column(completions, |one| one.retention.micros()))
            .bind(column(completions, |one| (!one.result.is_empty()).then(|| one.result.to_vec())));
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let done = pairs(&rows, "late")?;
        Ok(in_order(completions.iter().map(|one| one.key.hash()), done).collect())
    }

    async fn replace_until(
        &mut self,
        entries: &[Entry],
        until: &[StoreTime],
    ) -> Result<Vec<bool>, StoreError> {
        let raw: Vec<Row> = entries.iter().map(Row::from).collect();
        let query = self
            .query(sql::REPLACE)
            .bind(column(&raw, |row| row.key))
            .bind(column(&raw, |row| row.version))
            .bind(column(&raw, |row| row.token))
            .bind(column(&raw, |row| row.granted_at))
            .bind(column(&raw, |row| row.lease_until))
            .bind(column(&raw, |row| row.grace))
            .bind(column(&raw, |row| row.hold_until))
            .bind(column(&raw, |row| row.retention))
            .bind(column(&raw, |row| row.not_before))
            .bind(column(&raw, |row| row.sweep_at))
            .bind(column(&raw, |row| row.updated_at))
            .bind(column(&raw, |row| row.closed_at))
            .bind(column(&raw, |row| row.parked_at))
            .bind(column(&raw, |row| row.retain_until))
            .bind(column(&raw, |row| row.claim_id))
            .bind(column(&raw, |row| row.policy_version))
            .bind(column(&raw, |row| row.attempts))
            .bind(column(&raw, |row| row.state))
            .bind(column(&raw, |row| row.cause))
            .bind(column(&raw, |row| row.closed_by))
            .bind(column(&raw, |row| row.on_expiry))
            .bind(column(&raw, Row::attention))
            .bind(column(&raw, |row| row.rearmed))
            .bind(column(&raw, |row| row.effect_started))
            .bind(column(&raw, |row| row.prior_effect_started))
            .bind(column(&raw, |row| row.effect_unknown))
            .bind(column(&raw, |row| row.principal.clone()))
            .bind(column(&raw, |row| row.owner.clone()))
            .bind(column(&raw, |row| row.last_error.clone()))
            .bind(column(&raw, |row| row.history.clone()))
            .bind(column(&raw, |row| row.fingerprint.clone()))
            .bind(column(&raw, |row| row.result.clone()))
            .bind(column(&raw, |row| row.checkpoint.clone()))
            .bind(column(until, |until| until.micros()));
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let mut done = std::collections::HashSet::with_capacity(rows.len());
        for row in &rows {
            done.insert(row.try_get::<Uuid, _>("key").map_err(of_sqlx)?);
        }
        Ok(raw.iter().map(|row| done.contains(&row.key)).collect())
    }

    async fn locked(&mut self, keys: &[Key]) -> Result<Vec<KeyHash>, StoreError> {
        let query = self.query(sql::LOCKED).bind(column(keys, Key::hash));
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        rows.iter().map(|row| row.try_get("key").map_err(of_sqlx)).collect()
    }

    async fn write_heartbeat(&mut self, replica: &Replica) -> Result<Reading, StoreError> {
        self.write_heartbeat(replica).await
    }

    async fn replicas_below(
        &mut self,
        format: i32,
        heard_since: StoreTime,
        limit: usize,
    ) -> Result<Vec<Replica>, StoreError> {
        self.find_replicas_below(format, heard_since, limit).await
    }

    async fn list(&mut self, listing: &Listing) -> Result<Listed, StoreError> {
        self.list_entries(listing).await
    }

    async fn consumers(&mut self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.names_of_consumers(after, limit).await
    }

    async fn summary(&mut self, consumers: &[(String, i32)]) -> Result<Summary, StoreError> {
        self.count(consumers).await
    }

    async fn index_open_claims(&mut self, limit: usize) -> Result<usize, StoreError> {
        self.mark_open_claims(limit).await
    }

    async fn due(&mut self, limit: usize) -> Result<(Reading, Vec<Entry>), StoreError> {
        let reading = self.load(&[]).await?.reading;
        let query =
            self.query(sql::DUE).bind(reading.now.micros()).bind(i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let again = reading.now + UNREADABLE_AGAIN;
        let put_off: Vec<_> =
            unreadable(&rows).into_iter().map(|(key, version)| (key, version, again)).collect();
        if !put_off.is_empty() {
            self.look_again(&put_off).await?;
        }
        Ok((reading, readable(&rows)))
    }

    async fn look_again(&mut self, entries: &[(KeyHash, i64, StoreTime)]) -> Result<usize, StoreError> {
        let query = self
            .query(sql::LOOK_AGAIN)
            .bind(column(entries, |one| one.0))
            .bind(column(entries, |one| one.1))
            .bind(column(entries, |one| one.2.micros()));
        let done = query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
    }

    async fn policy_epoch(&mut self) -> Result<i64, StoreError> {
        self.policy_epoch_now().await
    }

    async fn purge(&mut self, entries: &[(KeyHash, i64)], policy_epoch: i64) -> Result<usize, StoreError> {
        self.purge_by(entries, policy_epoch).await
    }

    async fn report_purge(&mut self, worker: &PurgeWorker) -> Result<(), StoreError> {
        self.write_purge_report(worker).await
    }

    async fn purge_status(&mut self, due_max: usize) -> Result<(Reading, PurgeStatus), StoreError> {
        self.read_purge_status(due_max).await
    }

    async fn change(&mut self, write: &Write, event: &AuditEvent) -> Result<WriteResult, StoreError> {
        self.change_in_one(write, event).await
    }

    async fn raise_token_offset(
        &mut self,
        raise: OffsetRaise,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        self.raise_offset_in_one(raise, event).await
    }

    async fn import(
        &mut self,
        entries: &[ImportedEntry],
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        self.import_in_one(entries, event).await
    }

    async fn count_redriven(&mut self, prefix: &str) -> Result<i64, StoreError> {
        self.count_audited(prefix).await
    }

    async fn audited(&mut self, request_id: &str) -> Result<Option<AuditEvent>, StoreError> {
        self.find_audited(request_id).await
    }

    async fn audit(&mut self, listing: &AuditListing) -> Result<Vec<AuditEvent>, StoreError> {
        self.list_audit(listing).await
    }

    async fn purge_audit(&mut self, before: StoreTime, limit: usize) -> Result<usize, StoreError> {
        self.forget_audit(before, limit).await
    }

    async fn add_policy(
        &mut self,
        policy: &PolicyVersion,
        in_force: &EffectiveRetention,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        self.add_policy_in_one(policy, in_force, event).await
    }

    async fn policies(&mut self) -> Result<Vec<PolicyVersion>, StoreError> {
        self.newest_policies().await
    }

    async fn policy_versions(
        &mut self,
        consumer: &str,
        before: i32,
        limit: usize,
    ) -> Result<Vec<PolicyVersion>, StoreError> {
        self.versions_of_policy(consumer, before, limit).await
    }

    async fn effective_retentions(&mut self) -> Result<(Reading, Vec<EffectiveRetention>), StoreError> {
        let reading = self.load(&[]).await?.reading;
        let rows =
            self.query(sql::EFFECTIVE_RETENTIONS).fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let mut all = Vec::with_capacity(rows.len());
        for row in &rows {
            all.push(EffectiveRetention {
                consumer: row.try_get("name").map_err(of_sqlx)?,
                retention: row.try_get::<Option<i64>, _>("retention").map_err(of_sqlx)?.map(Span),
                window_floor: StoreTime(row.try_get("window_floor").map_err(of_sqlx)?),
            });
        }
        Ok((reading, all))
    }

    async fn put_in_force(
        &mut self,
        all: &[EffectiveRetention],
        seen: Option<&[EffectiveRetention]>,
    ) -> Result<usize, StoreError> {
        self.learn_consumers(all.iter().map(|one| one.consumer.as_str())).await?;
        let before = seen.unwrap_or(all);
        let query = self
            .query(sql::PUT_IN_FORCE)
            .bind(column(all, |one| one.consumer.clone()))
            .bind(column(all, |one| one.retention.map(Span::micros)))
            .bind(column(all, |one| one.window_floor.micros()))
            .bind(column(before, |one| one.retention.map(Span::micros)))
            .bind(column(before, |one| one.window_floor.micros()))
            .bind(seen.is_none());
        let row = query.fetch_one(&mut self.connection).await.map_err(of_sqlx)?;
        let changed: i64 = row.try_get("changed").map_err(of_sqlx)?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }
}

/// One column of many rows, as Postgres takes it.
fn column<R, T>(rows: &[R], value: impl Fn(&R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

fn pairs<'r, T>(rows: &'r [PgRow], name: &str) -> Result<Vec<(Uuid, T)>, StoreError>
where
    T: sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>,
{
    rows.iter()
        .map(|row| Ok((row.try_get("key").map_err(of_sqlx)?, row.try_get(name).map_err(of_sqlx)?)))
        .collect()
}

fn no_meta() -> StoreError {
    StoreError::NotApplied(Fault::Schema("ledger.meta has no row: run `idempotency-ledger migrate`".into()))
}

//! A row as it is stored, and how it becomes an entry: one home for both dialects.

use std::cmp::Ordering;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sqlx::FromRow as _;
use uuid::Uuid;

use crate::domain::{
    Attempt, AuditEvent, Claimant, ClosedBy, Entry, Key, OnExpiry, ParkCause, PolicyVersion, PurgeWorker,
    Span, State, StoreTime,
};

/// The columns of `entries`, with consumer and source as names.
#[derive(sqlx::FromRow)]
#[allow(clippy::struct_excessive_bools, reason = "these are the columns")]
pub(super) struct Row {
    pub(super) key: Uuid,
    pub(super) version: i64,
    pub(super) token: i64,
    pub(super) granted_at: i64,
    pub(super) lease_until: i64,
    pub(super) grace: i64,
    pub(super) hold_until: i64,
    pub(super) retention: i64,
    pub(super) not_before: i64,
    pub(super) sweep_at: i64,
    pub(super) created_at: i64,
    pub(super) updated_at: i64,
    pub(super) closed_at: Option<i64>,
    pub(super) parked_at: Option<i64>,
    pub(super) retain_until: Option<i64>,
    pub(super) claim_id: Option<Uuid>,
    pub(super) consumer: String,
    pub(super) source: String,
    pub(super) policy_version: i32,
    pub(super) attempts: i32,
    pub(super) state: i16,
    pub(super) cause: i16,
    pub(super) closed_by: i16,
    pub(super) on_expiry: i16,
    pub(super) rearmed: bool,
    pub(super) effect_started: bool,
    pub(super) prior_effect_started: bool,
    pub(super) effect_unknown: bool,
    pub(super) id: String,
    pub(super) principal: Option<String>,
    pub(super) owner: Option<String>,
    pub(super) last_error: Option<String>,
    pub(super) history: Option<String>,
    pub(super) traceparent: Option<String>,
    pub(super) fingerprint: Option<Vec<u8>>,
    pub(super) result: Option<Vec<u8>>,
    pub(super) checkpoint: Option<Vec<u8>>,
}

/// The columns that every statement which reads entries selects, in no order that matters.
macro_rules! columns {
    () => {
        "e.key, e.version, e.token, e.granted_at, e.lease_until, e.grace, e.hold_until, e.retention, \
         e.not_before, e.sweep_at, e.created_at, e.updated_at, e.closed_at, e.parked_at, e.retain_until, \
         e.claim_id, n.name AS consumer, s.name AS source, e.policy_version, e.attempts, e.state, e.cause, \
         e.closed_by, e.on_expiry, e.rearmed, e.effect_started, e.prior_effect_started, e.effect_unknown, \
         e.id, e.principal, e.owner, e.last_error, e.history, e.traceparent, e.fingerprint, e.result, \
         e.checkpoint"
    };
}
pub(super) use columns;

/// The columns of `purges`.
#[derive(sqlx::FromRow)]
pub(super) struct WorkerRow {
    replica: Uuid,
    last_run_at: i64,
    purged_total: i64,
    purged_per_second: f64,
    last_error: Option<String>,
    last_error_at: Option<i64>,
}

impl From<WorkerRow> for PurgeWorker {
    fn from(row: WorkerRow) -> PurgeWorker {
        PurgeWorker {
            replica: row.replica,
            last_run_at: StoreTime(row.last_run_at),
            purged_total: row.purged_total,
            purged_per_second: row.purged_per_second,
            last_error: row.last_error,
            last_error_at: row.last_error_at.map(StoreTime),
        }
    }
}

/// A past attempt as stored: short names, since they repeat.
#[derive(Serialize, Deserialize)]
struct Past {
    n: i32,
    s: i64,
    e: i64,
    o: String,
    by: i16,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    err: String,
}

/// A value that no version of the ledger has written.
#[derive(Debug, thiserror::Error)]
#[error("entries.{column} of key {key} can not be read: {problem}")]
pub(super) struct Unreadable {
    key: Uuid,
    column: &'static str,
    problem: String,
}

impl Row {
    /// The entry, or which column of which row can not be read.
    pub(super) fn entry(self) -> Result<Entry, Unreadable> {
        let key = self.key;
        let bad = |column, problem: String| Unreadable { key, column, problem };
        let number = |column, value: i16| bad(column, format!("{value} is none of its values"));
        let state = state_of(self.state, self.cause).ok_or_else(|| match self.state {
            6 => number("cause", self.cause),
            state => number("state", state),
        })?;
        let closed_by = closed_by(self.closed_by).ok_or_else(|| number("closed_by", self.closed_by))?;
        let on_expiry = match self.on_expiry {
            1 => OnExpiry::Reclaim,
            2 => OnExpiry::Park,
            3 => OnExpiry::ParkIfStarted,
            other => return Err(number("on_expiry", other)),
        };
        let past: Vec<Past> = match &self.history {
            None => Vec::new(),
            Some(text) => serde_json::from_str(text).map_err(|error| bad("history", error.to_string()))?,
        };
        let mut history = Vec::with_capacity(past.len());
        for one in past {
            history.push(Attempt {
                attempt: one.n,
                started_at: StoreTime(one.s),
                ended_at: StoreTime(one.e),
                owner: one.o,
                outcome: self::closed_by(one.by).ok_or_else(|| number("history", one.by))?,
                error: one.err,
            });
        }
        let claimant = self.claim_id.map(|claim_id| Claimant {
            claim_id,
            principal: self.principal.unwrap_or_default(),
            owner: self.owner.unwrap_or_default(),
        });
        Ok(Entry {
            key: Key::new(&self.consumer, &self.source, &self.id),
            version: self.version,
            token: self.token,
            state,
            closed_by,
            closed_at: self.closed_at.map(StoreTime),
            parked_at: self.parked_at.map(StoreTime),
            claimant,
            granted_at: StoreTime(self.granted_at),
            lease_until: StoreTime(self.lease_until),
            grace: Span(self.grace),
            hold_until: StoreTime(self.hold_until),
            on_expiry,
            policy_version: self.policy_version,
            retention: Span(self.retention),
            rearmed: self.rearmed,
            effect_started: self.effect_started,
            prior_effect_started: self.prior_effect_started,
            effect_unknown: self.effect_unknown,
            checkpoint: Bytes::from(self.checkpoint.unwrap_or_default()),
            attempts: self.attempts,
            not_before: StoreTime(self.not_before),
            last_error: self.last_error.unwrap_or_default(),
            history,
            fingerprint: Bytes::from(self.fingerprint.unwrap_or_default()),
            result: Bytes::from(self.result.unwrap_or_default()),
            retain_until: self.retain_until.map(StoreTime),
            purge_at: StoreTime(self.sweep_at),
            created_at: StoreTime(self.created_at),
            updated_at: StoreTime(self.updated_at),
            traceparent: self.traceparent.unwrap_or_default(),
        })
    }
}

impl From<&Entry> for Row {
    fn from(entry: &Entry) -> Row {
        let (state, cause) = state_numbers(entry.state);
        let claimant = entry.claimant.as_ref();
        Row {
            key: entry.key.hash(),
            version: entry.version,
            token: entry.token,
            granted_at: entry.granted_at.0,
            lease_until: entry.lease_until.0,
            grace: entry.grace.0,
            hold_until: entry.hold_until.0,
            retention: entry.retention.0,
            not_before: entry.not_before.0,
            sweep_at: entry.purge_at.0,
            created_at: entry.created_at.0,
            updated_at: entry.updated_at.0,
            closed_at: entry.closed_at.map(|at| at.0),
            parked_at: entry.parked_at.map(|at| at.0),
            retain_until: entry.retain_until.map(|at| at.0),
            claim_id: claimant.map(|claimant| claimant.claim_id),
            consumer: entry.key.consumer().to_owned(),
            source: entry.key.source().to_owned(),
            policy_version: entry.policy_version,
            attempts: entry.attempts,
            state,
            cause,
            closed_by: closed_by_number(entry.closed_by),
            on_expiry: match entry.on_expiry {
                OnExpiry::Reclaim => 1,
                OnExpiry::Park => 2,
                OnExpiry::ParkIfStarted => 3,
            },
            rearmed: entry.rearmed,
            effect_started: entry.effect_started,
            prior_effect_started: entry.prior_effect_started,
            effect_unknown: entry.effect_unknown,
            id: entry.key.id().to_owned(),
            principal: claimant.map(|claimant| claimant.principal.clone()),
            owner: claimant.map(|claimant| claimant.owner.clone()),
            last_error: some(entry.last_error.clone()),
            history: history_text(&entry.history),
            traceparent: some(entry.traceparent.clone()),
            fingerprint: some_bytes(&entry.fingerprint),
            result: some_bytes(&entry.result),
            checkpoint: some_bytes(&entry.checkpoint),
        }
    }
}

impl Row {
    /// The state, where operators look for it: all but COMPLETED.
    pub(super) fn attention(&self) -> Option<i16> {
        (self.state != 4).then_some(self.state)
    }
}

/// The numbers of `EntryState` and `ParkCause`.
pub(super) fn state_numbers(state: State) -> (i16, i16) {
    match state {
        State::Received => (1, 0),
        State::InProgress => (2, 0),
        State::FailedRetryable => (3, 0),
        State::Completed => (4, 0),
        State::FailedTerminal => (5, 0),
        State::Parked(ParkCause::AttemptsExhausted) => (6, 1),
        State::Parked(ParkCause::LeaseExpired) => (6, 2),
        State::Parked(ParkCause::EffectUnknown) => (6, 3),
        State::Parked(ParkCause::Consumer) => (6, 4),
        State::Parked(ParkCause::Operator) => (6, 5),
    }
}

/// The state with these numbers.
pub(super) fn state_of(state: i16, cause: i16) -> Option<State> {
    Some(match (state, cause) {
        (1, 0) => State::Received,
        (2, 0) => State::InProgress,
        (3, 0) => State::FailedRetryable,
        (4, 0) => State::Completed,
        (5, 0) => State::FailedTerminal,
        (6, 1) => State::Parked(ParkCause::AttemptsExhausted),
        (6, 2) => State::Parked(ParkCause::LeaseExpired),
        (6, 3) => State::Parked(ParkCause::EffectUnknown),
        (6, 4) => State::Parked(ParkCause::Consumer),
        (6, 5) => State::Parked(ParkCause::Operator),
        _ => return None,
    })
}

fn closed_by(number: i16) -> Option<ClosedBy> {
    Some(match number {
        0 => ClosedBy::Open,
        1 => ClosedBy::Complete,
        2 => ClosedBy::FailRetryable,
        3 => ClosedBy::FailTerminal,
        4 => ClosedBy::FailPark,
        5 => ClosedBy::Release,
        6 => ClosedBy::Expiry,
        7 => ClosedBy::OperatorPark,
        8 => ClosedBy::Operator,
        _ => return None,
    })
}

/// The number of `ClosedBy`.
fn closed_by_number(closed_by: ClosedBy) -> i16 {
    match closed_by {
        ClosedBy::Open => 0,
        ClosedBy::Complete => 1,
        ClosedBy::FailRetryable => 2,
        ClosedBy::FailTerminal => 3,
        ClosedBy::FailPark => 4,
        ClosedBy::Release => 5,
        ClosedBy::Expiry => 6,
        ClosedBy::OperatorPark => 7,
        ClosedBy::Operator => 8,
    }
}

fn history_text(history: &[Attempt]) -> Option<String> {
    if history.is_empty() {
        return None;
    }
    let past: Vec<Past> = history
        .iter()
        .map(|one| Past {
            n: one.attempt,
            s: one.started_at.0,
            e: one.ended_at.0,
            o: one.owner.clone(),
            by: closed_by_number(one.outcome),
            err: one.error.clone(),
        })
        .collect();
    serde_json::to_string(&past).ok()
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn some_bytes(bytes: &Bytes) -> Option<Vec<u8>> {
    (!bytes.is_empty()).then(|| bytes.to_vec())
}

/// The entry in a row of either database, or why it can not be read.
pub(super) fn read<'r, R: sqlx::Row>(row: &'r R) -> Result<Entry, String>
where
    Row: sqlx::FromRow<'r, R>,
{
    match Row::from_row(row) {
        Ok(raw) => raw.entry().map_err(|unreadable| unreadable.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// The entries that can be read; the others are logged.
pub(super) fn readable<'r, R: sqlx::Row>(rows: &'r [R]) -> Vec<Entry>
where
    Row: sqlx::FromRow<'r, R>,
{
    let entries = rows.iter().filter_map(|row| match read(row) {
        Ok(entry) => Some(entry),
        Err(problem) => {
            tracing::error!(problem, "an entry can not be read");
            None
        }
    });
    entries.collect()
}

/// Key and version of the rows that can not be read.
pub(super) fn unreadable<'r, R: sqlx::Row>(rows: &'r [R]) -> Vec<(Uuid, i64)>
where
    Row: sqlx::FromRow<'r, R>,
{
    let bad = rows.iter().filter_map(|row| {
        let raw = Row::from_row(row).ok()?;
        let (key, version) = (raw.key, raw.version);
        raw.entry().is_err().then_some((key, version))
    });
    bad.collect()
}

/// An audit event in a row of either database.
#[derive(sqlx::FromRow)]
pub(super) struct AuditRow {
    request_id: String,
    at: i64,
    actor: String,
    action: String,
    consumer: Option<String>,
    key: Option<Uuid>,
    reason: String,
    before: Option<String>,
    after: Option<String>,
}

impl From<AuditRow> for AuditEvent {
    fn from(row: AuditRow) -> AuditEvent {
        AuditEvent {
            request_id: row.request_id,
            at: StoreTime(row.at),
            actor: row.actor,
            action: row.action,
            consumer: row.consumer.unwrap_or_default(),
            key: row.key,
            reason: row.reason,
            before: row.before,
            after: row.after,
        }
    }
}

/// A version of a policy in a row of either database.
#[derive(sqlx::FromRow)]
pub(super) struct PolicyRow {
    consumer: String,
    version: i32,
    policy: Option<String>,
    deleted: bool,
    created_at: i64,
    actor: String,
    reason: String,
}

impl From<PolicyRow> for PolicyVersion {
    fn from(row: PolicyRow) -> PolicyVersion {
        PolicyVersion {
            consumer: row.consumer,
            version: row.version,
            policy: row.policy.filter(|_| !row.deleted),
            created_at: StoreTime(row.created_at),
            actor: row.actor,
            reason: row.reason,
        }
    }
}

/// How a store's schema stands to the one that this binary's migrations end with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Schema {
    Fits,
    /// What to tell people.
    Older(String),
    Newer(String),
}

pub(super) fn schema(migrations: &sqlx::migrate::Migrator, present: i64) -> Schema {
    let known = migrations.iter().map(|migration| migration.version).max().unwrap_or(0);
    match present.cmp(&known) {
        Ordering::Equal => Schema::Fits,
        Ordering::Less => Schema::Older(format!(
            "the store's schema is version {present}, this binary needs {known}: run `idempotency-ledger migrate`"
        )),
        Ordering::Greater => Schema::Newer(format!(
            "the store's schema is version {present}, newer than this binary's {known}: run the newer binary"
        )),
    }
}

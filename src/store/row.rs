//! A row as it is stored, and how it becomes an entry: one home for both dialects.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sqlx::FromRow as _;
use uuid::Uuid;

use super::columns::Row;
use super::numbers::{self, COMPLETED, PARKED};
use crate::domain::{Attempt, Claimant, Entry, Key, Span, StoreTime};

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
#[error("entries.{column} of key {key} cannot be read: {problem}")]
pub(super) struct Unreadable {
    key: Uuid,
    column: &'static str,
    problem: String,
}

impl Row {
    /// The entry, or which column of which row cannot be read.
    pub(super) fn entry(self) -> Result<Entry, Unreadable> {
        let key = self.key;
        let bad = |column, problem: String| Unreadable { key, column, problem };
        let number = |column, value: i16| bad(column, format!("{value} is none of its values"));
        let state = numbers::state(self.state, self.cause).ok_or_else(|| match self.state {
            PARKED => number("cause", self.cause),
            state => number("state", state),
        })?;
        let closed_by =
            numbers::closed_by(self.closed_by).ok_or_else(|| number("closed_by", self.closed_by))?;
        let on_expiry =
            numbers::on_expiry(self.on_expiry).ok_or_else(|| number("on_expiry", self.on_expiry))?;
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
                outcome: numbers::closed_by(one.by).ok_or_else(|| number("history", one.by))?,
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
        let (state, cause) = numbers::of_state(entry.state);
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
            closed_by: numbers::of_closed_by(entry.closed_by),
            on_expiry: numbers::of_on_expiry(entry.on_expiry),
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
        (self.state != COMPLETED).then_some(self.state)
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
            by: numbers::of_closed_by(one.outcome),
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

/// The entry in a row of either database, or why it cannot be read.
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
            tracing::error!(problem, "an entry cannot be read");
            None
        }
    });
    entries.collect()
}

/// Key and version of the rows that cannot be read.
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

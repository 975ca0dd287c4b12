//! The stored form of an entry, and the conversion both ways, for both databases.
//!
//! A value that follows from other columns is not stored twice: a null column means the default that is defined here. So the
//! row of a claim that is granted and completed once holds its key, its claim and five instants, and nothing else.

use bytes::Bytes;
use uuid::Uuid;

use super::columns::{ReadAt, Row};
use super::dictionary::Dictionary;
use super::history;
use super::ids;
use super::numbers::{self, COMPLETED, PARKED};
use super::results::{is_marked, result_column};
use super::traceparent;
use super::unreadable::log_unreadable;
use super::{Found, StoreError};
use crate::domain::{
    Claimant, ClosedBy, Entry, Key, KeyHash, ListedRow, Namespace, State, StoreTime, UnreadableEntry,
    leaves_a_higher_one, retain_until_by_terms,
};

/// `retain_until` of an entry that is kept until a person acts, although its terms alone would let it expire.
const NEVER: i64 = i64::MAX;

/// A row of a statement: the key, and the columns or why they cannot be read.
pub(super) struct Raw {
    key: Uuid,
    row: Result<Row, UnreadableEntry>,
}

impl Raw {
    /// The rows that have a key: an outer join returns others too.
    pub(super) fn all<'r, R: sqlx::Row>(rows: &'r [R]) -> Vec<Raw>
    where
        Row: ReadAt<'r, R>,
        &'static str: sqlx::ColumnIndex<R>,
        usize: sqlx::ColumnIndex<R>,
        Option<Uuid>: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
        i64: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
    {
        let column = rows.first().and_then(|row| row.try_column("key").ok());
        let Some(place) = column.map(sqlx::Column::ordinal) else { return Vec::new() };
        let raw = |row: &'r R| {
            let key = row.try_get::<Option<Uuid>, _>(place).ok().flatten()?;
            let unreadable = |(column, error): (&'static str, sqlx::Error)| {
                let number = |name: &'static str| {
                    row.try_get::<i64, _>(sqlx::Column::ordinal(row.try_column(name).ok()?)).ok()
                };
                let problem = error.to_string();
                Unreadable { key, column, problem }.of_row(number("version"), number("token"))
            };
            Some(Raw { key, row: Row::read_at(row, place).map_err(unreadable) })
        };
        rows.iter().filter_map(raw).collect()
    }

    /// The columns; `None` if they cannot be read.
    pub(super) fn row(&self) -> Option<&Row> {
        self.row.as_ref().ok()
    }

    /// The hash of the key.
    pub(super) fn hash(&self) -> Uuid {
        self.key
    }

    /// The result of a look-up of a key with this row's hash.
    pub(super) fn under(self, key: &Key, dictionary: &Dictionary) -> Found {
        Found::from(self.row.and_then(|row| row.entry_of(Some(key), dictionary))).under(key)
    }

    /// Converts the row to an entry, with the dictionary of the connection.
    pub(super) fn stored(self, dictionary: &Dictionary) -> Stored {
        Stored { entry: self.row.and_then(|row| row.entry_of(None, dictionary)) }
    }
}

/// An entry, or why it cannot be read.
pub(super) struct Stored {
    pub(super) entry: Result<Entry, UnreadableEntry>,
}

/// The entries that can be read; the others are logged.
pub(super) fn readable(all: Vec<Stored>) -> Vec<Entry> {
    let entries = all.into_iter().filter_map(|stored| match stored.entry {
        Ok(entry) => Some(entry),
        Err(unreadable) => {
            log_unreadable(&unreadable);
            None
        }
    });
    entries.collect()
}

/// The rows of a page, including those that cannot be read.
pub(super) fn listed(places: Vec<(StoreTime, KeyHash)>, all: Vec<Stored>) -> Vec<ListedRow> {
    let row = |(place, stored): (_, Stored)| {
        if let Err(unreadable) = &stored.entry {
            log_unreadable(unreadable);
        }
        ListedRow { place, entry: stored.entry }
    };
    places.into_iter().zip(all).map(row).collect()
}

/// A value that no version of the ledger has written.
#[derive(Debug, thiserror::Error)]
#[error("entries.{column} of key {key} cannot be read: {problem}")]
pub(super) struct Unreadable {
    key: Uuid,
    column: &'static str,
    problem: String,
}

impl Unreadable {
    fn of_row(self, version: Option<i64>, token: Option<i64>) -> UnreadableEntry {
        let Unreadable { key, column, .. } = self;
        UnreadableEntry { key, column, problem: self.to_string(), version, token }
    }
}

impl Row {
    /// The entry, or the column that cannot be read. If the key equals `likely`, it is not built again.
    pub(super) fn entry_of(
        self,
        likely: Option<&Key>,
        dictionary: &Dictionary,
    ) -> Result<Entry, UnreadableEntry> {
        let (version, token) = (Some(self.version), Some(self.token));
        self.read(likely, dictionary).map_err(|unreadable| unreadable.of_row(version, token))
    }

    fn read(self, likely: Option<&Key>, dictionary: &Dictionary) -> Result<Entry, Unreadable> {
        let key = self.key;
        let bad = |column, problem: String| Unreadable { key, column, problem };
        let number = |column, value: i16| bad(column, format!("{value} is none of its values"));
        let unknown = |column, value: i32| bad(column, format!("the number {value} stands for nothing"));
        let cause = self.cause.unwrap_or_default();
        let state = numbers::state(self.state, cause).ok_or_else(|| match self.state {
            PARKED => number("cause", cause),
            state => number("state", state),
        })?;
        for (column, value) in [("token", self.token), ("version", self.version)] {
            if !leaves_a_higher_one(value) {
                return Err(bad(column, format!("{value} leaves no higher one below 2^53")));
            }
        }
        let closed_by =
            numbers::closed_by(self.closed_by).ok_or_else(|| number("closed_by", self.closed_by))?;
        let history = history::read(self.history.as_deref()).map_err(|problem| bad("history", problem))?;
        let consumer = dictionary.consumers.value(self.consumer);
        let consumer = consumer.ok_or_else(|| unknown("consumer", self.consumer))?;
        let source = dictionary.sources.value(self.source);
        let source = source.ok_or_else(|| unknown("source", self.source))?;
        let mut buffer = [0; ids::LENGTH];
        let id = ids::read(self.id.as_deref(), self.id_uuid, &mut buffer);
        let id = id.map_err(|problem| bad("id", problem))?;
        let is = |key: &&Key| key.namespace().name() == consumer && key.source() == source && key.id() == id;
        let likely = likely.filter(is);
        let terms = dictionary.terms.value(self.terms).ok_or_else(|| unknown("terms", self.terms))?;
        let principal = self.principal.map(|number| {
            dictionary.principals.value(number).cloned().ok_or_else(|| unknown("principal", number))
        });
        let principal = principal.transpose()?.unwrap_or_default();
        let claimant = self.claim_id.map(|claim_id| Claimant {
            claim_id,
            principal,
            owner: self.owner.unwrap_or_default(),
        });
        let created_at = StoreTime(self.created_at);
        let granted_at = self.granted_at.map_or(created_at, StoreTime);
        let updated_at = self.updated_at.map_or(granted_at, StoreTime);
        let changed = |at: Option<i64>| at.map_or(updated_at, StoreTime);
        let body =
            self.body.map(|body| numbers::body(body).ok_or_else(|| number("body", body))).transpose()?;
        let mut entry = Entry {
            key: likely.map_or_else(|| named(consumer, source, id), Key::clone),
            version: self.version,
            token: self.token,
            state,
            closed_by,
            closed_at: (closed_by != ClosedBy::Open).then(|| changed(self.closed_at)),
            parked_at: matches!(state, State::Parked(_)).then(|| changed(self.parked_at)),
            claimant,
            granted_at,
            lease_until: StoreTime(self.lease_until),
            grace: terms.grace,
            hold_until: granted_at + terms.max_hold,
            on_expiry: terms.on_expiry,
            policy_version: terms.policy_version,
            retention: terms.retention,
            failed_retention: terms.failed_retention,
            abandoned_retention: terms.abandoned_retention,
            rearmed: self.rearmed.unwrap_or_default(),
            effect_started: self.effect_started.unwrap_or_default(),
            prior_effect_started: self.prior_effect_started.unwrap_or_default(),
            effect_unknown: self.effect_unknown.unwrap_or_default(),
            checkpoint: Bytes::from(self.checkpoint.unwrap_or_default()),
            attempts: self.attempts,
            not_before: self.not_before.map_or(granted_at, StoreTime),
            last_error: self.last_error.unwrap_or_default(),
            history,
            superseded_completes: self.superseded_completes.unwrap_or_default(),
            doubled: self.doubled.unwrap_or_default(),
            fingerprint: Bytes::from(self.fingerprint.unwrap_or_default()),
            unpinned: closed_by == ClosedBy::Release && is_marked(self.result.as_deref()),
            result_dropped: closed_by == ClosedBy::Complete && is_marked(self.result.as_deref()),
            result: Bytes::from(self.result.unwrap_or_default()),
            body,
            erase_at: self.erase_at.map(StoreTime),
            retain_until: None,
            created_at,
            updated_at,
            traceparent: traceparent::read(self.traceparent)
                .map_err(|problem| bad("traceparent", problem))?,
        };
        entry.retain_until = match self.retain_until {
            None => retain_until_by_terms(&entry),
            Some(NEVER) => None,
            Some(at) => Some(StoreTime(at)),
        };
        Ok(entry)
    }

    /// The row of an entry whose names and terms the connection has learnt.
    pub(super) fn of(entry: &Entry, dictionary: &Dictionary) -> Result<Row, StoreError> {
        let (state, cause) = numbers::of_state(entry.state);
        let (id, id_uuid) = ids::stored(entry.key.id());
        let claimant = entry.claimant.as_ref();
        let principal = claimant.map(|claimant| dictionary.principals.known(claimant.principal.as_str()));
        Ok(Row {
            key: entry.key.hash(),
            version: entry.version,
            consumer: dictionary.consumers.known(entry.key.namespace().name())?,
            source: dictionary.sources.known(entry.key.source())?,
            id,
            id_uuid,
            created_at: entry.created_at.0,
            traceparent: traceparent::stored(&entry.traceparent),
            claim_id: claimant.map(|claimant| claimant.claim_id),
            token: entry.token,
            lease_until: entry.lease_until.0,
            terms: dictionary.terms.known(&entry.terms())?,
            attempts: entry.attempts,
            state,
            closed_by: numbers::of_closed_by(entry.closed_by),
            updated_at: unless(entry.updated_at, entry.granted_at),
            granted_at: unless(entry.granted_at, entry.created_at),
            closed_at: entry.closed_at.and_then(|at| unless(at, entry.updated_at)),
            parked_at: entry.parked_at.and_then(|at| unless(at, entry.updated_at)),
            not_before: unless(entry.not_before, entry.granted_at),
            retain_until: if entry.retain_until == retain_until_by_terms(entry) {
                None
            } else {
                Some(entry.retain_until.map_or(NEVER, |at| at.0))
            },
            next_at: entry.next_at().map(|at| at.0),
            erase_at: entry.erase_at.map(|at| at.0),
            body: entry.body.map(numbers::of_body),
            cause: (cause != 0).then_some(cause),
            rearmed: entry.rearmed.then_some(true),
            effect_started: entry.effect_started.then_some(true),
            prior_effect_started: entry.prior_effect_started.then_some(true),
            effect_unknown: entry.effect_unknown.then_some(true),
            superseded_completes: (entry.superseded_completes != 0).then_some(entry.superseded_completes),
            doubled: entry.doubled.then_some(true),
            principal: principal.transpose()?,
            owner: claimant.map(|claimant| claimant.owner.clone()),
            last_error: some(&entry.last_error),
            history: history::stored(&entry.history),
            fingerprint: some_bytes(&entry.fingerprint),
            result: result_column(&entry.result, entry.result_dropped || entry.unpinned).map(<[u8]>::to_vec),
            checkpoint: some_bytes(&entry.checkpoint),
        })
    }

    /// The column `attention`, by which operators find entries: the state, or `None` for COMPLETED.
    pub(super) fn attention(&self) -> Option<i16> {
        (self.state != COMPLETED).then_some(self.state)
    }
}

/// The key with these stored names. `namespace` is the name of the consumer, or of the consumer in a replay run.
fn named(namespace: &str, source: &str, id: &str) -> Key {
    Key::of(Namespace::stored(namespace), source.to_owned(), id.to_owned())
}

/// `None` if the instant equals the one that it follows from.
fn unless(at: StoreTime, other: StoreTime) -> Option<i64> {
    (at != other).then_some(at.0)
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn some_bytes(bytes: &Bytes) -> Option<Vec<u8>> {
    (!bytes.is_empty()).then(|| bytes.to_vec())
}

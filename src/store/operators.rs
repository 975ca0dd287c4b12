//! What operators read and change.

use std::collections::HashMap;

use async_trait::async_trait;

use super::{Found, StoreError};
use crate::domain::{
    AuditEvent, AuditListing, Entry, ImportedEntry, KeyHash, Listed, Listing, Namespace, PurgeStatus,
    Reading, RequestDigest, Span, Summary,
};

/// What operators read and change.
#[async_trait]
pub trait Operators: Send {
    /// Loads the entry whose key has this hash, whatever the key is: it is never a collision.
    async fn load_by_hash(&mut self, hash: KeyHash) -> Result<(Reading, Found), StoreError>;

    /// Lists entries, as one look shows them. Looks at a bounded number of rows, so that a page may hold
    /// less than asked for while there is more.
    async fn list(&mut self, listing: &Listing) -> Result<Listed, StoreError>;

    /// The consumers that have entries, by name, after this one.
    async fn consumers(&mut self, after: &str, limit: usize) -> Result<Vec<String>, StoreError>;

    /// Counts the entries of consumers. In each state counts are exact up to `most` entries, and beyond that they say
    /// `at_least`; except for COMPLETED, which is estimated from a sample in a large ledger. With each consumer comes the
    /// number of attempts from which an entry is near exhaustion
    /// ([`Policy::near_exhaustion_from`](crate::domain::Policy::near_exhaustion_from)).
    async fn summary(
        &mut self,
        consumers: &[(String, Option<i32>)],
        most: i64,
    ) -> Result<Summary, StoreError>;

    /// What waits for the purge's first look, counted up to `due_max`, and what the servers' purges did.
    async fn purge_status(
        &mut self,
        left_alone: &LeftAlone,
        due_max: usize,
    ) -> Result<(Reading, PurgeStatus), StoreError>;

    /// Writes an operator's change and its audit event, both or neither.
    async fn change(&mut self, write: &Write, event: &AuditEvent) -> Result<WriteResult, StoreError>;

    /// Raises `token_offset` where it is still the one before, and writes the audit event: both or neither. When
    /// it returns, every statement that began with the old one has ended: no later row of a key can have a
    /// token below that of a row which the new offset makes old enough to be forgotten.
    async fn raise_token_offset(
        &mut self,
        raise: OffsetRaise,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError>;

    /// Stores entries as completed where there is none, and their audit events, one for each consumer: either all
    /// or nothing. Slices hold at most [`ROWS_MAX`](super::ROWS_MAX) rows; entries are sorted by key, each key once,
    /// and events by consumer, each consumer once.
    async fn import(
        &mut self,
        entries: &[ImportedEntry],
        events: &[AuditEvent],
    ) -> Result<WriteResult, StoreError>;

    /// How many entries of a consumer were redriven by an operation: under request ids that are its id, a slash, and
    /// the hash of a key.
    async fn count_redriven(&mut self, consumer: &str, operation_id: &str) -> Result<i64, StoreError>;

    /// The digest of one event that a part of an operation has left, for each of these consumers that has one; `None`
    /// if a digest was not kept. At most [`ROWS_MAX`](super::ROWS_MAX) consumers.
    async fn part_digests(&mut self, consumers: &[String], id: &str) -> Result<PartDigests, StoreError>;

    /// The audit event of a consumer's request.
    async fn audited(&mut self, consumer: &str, request_id: &str) -> Result<Option<AuditEvent>, StoreError>;

    /// Lists audit events.
    async fn audit(&mut self, listing: &AuditListing) -> Result<Vec<AuditEvent>, StoreError>;
}

/// The digests that the events of parts of an operation have.
pub type PartDigests = Vec<Option<RequestDigest>>;

/// For how long after their creation the purge leaves the entries of consumers alone.
#[derive(Clone, Debug)]
pub struct LeftAlone {
    /// Those of consumers with a span of their own.
    pub own: HashMap<String, Span>,
    /// Those of all others.
    pub others: Span,
}

impl LeftAlone {
    pub(super) fn of(&self, namespace: &str) -> Span {
        let namespace = Namespace::stored(namespace);
        self.own.get(namespace.consumer()).copied().unwrap_or(self.others)
    }
}

/// What an operator's change writes.
#[derive(Clone, Debug)]
pub enum Write {
    /// The entry as it must stand then, where the version is still the one before.
    Replace(Box<Entry>),
    /// A new entry, decided as of instant zero.
    Insert(Box<Entry>),
    /// The entry goes, where its version is still this one.
    Delete(KeyHash, i64),
    /// The entry goes, which cannot be read, where its version is still this one; `None` if the version cannot be read
    /// either.
    DeleteUnreadable(KeyHash, Option<i64>),
    /// No entry changes: the event itself is what is kept.
    Nothing,
}

/// A new `token_offset`, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetRaise {
    /// What it is now.
    pub from: i64,
    /// What it is to be.
    pub to: i64,
}

/// What became of an operator's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// It is written, and so is its audit event.
    Done,
    /// The entry was changed by somebody else: nothing is written.
    Lost,
    /// The consumer's request id was used before: nothing is written.
    Repeated,
}

//! Reads and changes of operators.

use std::collections::HashMap;

use async_trait::async_trait;

use super::{Found, StoreError};
use crate::domain::{
    AuditEvent, AuditListing, Entry, EntryFilter, ImportedEntry, KeyHash, Listed, Listing, Namespace,
    OpenConsumers, OpenRange, OpenRow, PurgeStatus, Reading, RequestDigest, Span, Summary,
};

/// Reads and changes of operators.
#[async_trait]
pub trait Operators: Send {
    /// Loads the entry whose key has this hash, whatever the key is: it is never a collision.
    async fn load_by_hash(&mut self, hash: KeyHash) -> Result<(Reading, Found), StoreError>;

    /// Lists entries in one snapshot. Reads a bounded number of rows, so that a page may hold fewer entries than requested
    /// although there are more.
    async fn list(&mut self, listing: &Listing) -> Result<Listed, StoreError>;

    /// Looks at the names of this many namespaces after this one, in order, for those that have entries in one of these states
    /// other than COMPLETED, or `doubled` entries. Claims that are not in the index of open entries yet do not count.
    async fn open_consumers(
        &mut self,
        after: &str,
        states: &[i16],
        doubled: bool,
        names: usize,
    ) -> Result<OpenConsumers, StoreError>;

    /// Reads a range of the index of open entries, newest first, with the errors of the entries.
    async fn open_rows(
        &mut self,
        range: &OpenRange,
        filter: &EntryFilter,
    ) -> Result<(Reading, Vec<OpenRow>), StoreError>;

    /// Reads the names of the consumers that have entries, in order, after this one.
    async fn consumers(&mut self, after: &str, limit: usize) -> Result<Vec<String>, StoreError>;

    /// Counts the entries of consumers. In each state counts are exact up to `most` entries, and beyond that marked `at_least`;
    /// except for COMPLETED, which is estimated from a sample in a large ledger. Each consumer is given with the number of
    /// attempts from which an entry is near exhaustion
    /// ([`Policy::near_exhaustion_from`](crate::domain::Policy::near_exhaustion_from)).
    async fn summary(
        &mut self,
        consumers: &[(String, Option<i32>)],
        most: i64,
    ) -> Result<Summary, StoreError>;

    /// Counts the entries that wait for the purge's first pass, up to `due_max`, and reads the reports of the servers' purges.
    async fn purge_status(
        &mut self,
        left_alone: &LeftAlone,
        due_max: usize,
    ) -> Result<(Reading, PurgeStatus), StoreError>;

    /// Writes an operator's change and its audit event, both or neither.
    async fn change(&mut self, write: &Write, event: &AuditEvent) -> Result<WriteResult, StoreError>;

    /// Raises `token_offset` if it still has the expected value, and writes the audit event: both or neither. When it returns,
    /// every statement that began with the old offset has ended: no later row of a key can have a token below that of a row
    /// which the new offset makes old enough to be forgotten.
    async fn raise_token_offset(
        &mut self,
        raise: OffsetRaise,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError>;

    /// Stores `fresh` entries under keys without an entry, replaces the entries of `changed` where their versions are still the
    /// expected ones, and writes the audit events: all or nothing. `fresh` and `changed` together, and `events`, hold at most
    /// [`ROWS_MAX`](super::ROWS_MAX) rows; entries are sorted by key, each key once in both, and events by their stored ids,
    /// each once.
    async fn write_entries(
        &mut self,
        fresh: &[ImportedEntry],
        changed: &[Entry],
        events: &[AuditEvent],
    ) -> Result<WriteResult, StoreError>;

    /// Counts the audit events of an operation for a consumer with this action: one for each entry that it changed. The request id of such an
    /// event is the operation's id, a slash, and the hash of the entry's key; it is stored with the consumer before it.
    async fn count_changed(
        &mut self,
        consumer: &str,
        operation_id: &str,
        action: &str,
    ) -> Result<i64, StoreError>;

    /// The digest of one audit event of an operation's parts, for each of these consumers that has an event; `None` if its
    /// digest was not kept. At most [`ROWS_MAX`](super::ROWS_MAX) consumers.
    async fn part_digests(&mut self, consumers: &[String], id: &str) -> Result<PartDigests, StoreError>;

    /// The digests of those of these audit events that there are, each under its [`AuditEvent::stored_id`]; `None` if the
    /// event's digest was not kept. At most [`ROWS_MAX`](super::ROWS_MAX) ids.
    async fn event_digests(&mut self, stored_ids: &[String]) -> Result<EventDigests, StoreError>;

    /// Reads the audit event of a consumer's request.
    async fn audited(&mut self, consumer: &str, request_id: &str) -> Result<Option<AuditEvent>, StoreError>;

    /// Lists audit events.
    async fn audit(&mut self, listing: &AuditListing) -> Result<Vec<AuditEvent>, StoreError>;
}

/// The digests of audit events of an operation's parts.
pub type PartDigests = Vec<Option<RequestDigest>>;

/// The digests of audit events, by their stored ids.
pub type EventDigests = HashMap<String, Option<RequestDigest>>;

/// How long after their creation the purge leaves the entries of consumers alone.
#[derive(Clone, Debug)]
pub struct LeftAlone {
    /// The spans of consumers that do not follow the default.
    pub own: HashMap<String, Span>,
    /// The span of all other consumers.
    pub others: Span,
}

impl LeftAlone {
    pub(super) fn of(&self, namespace: &str) -> Span {
        let namespace = Namespace::stored(namespace);
        self.own.get(namespace.consumer()).copied().unwrap_or(self.others)
    }
}

/// The write of an operator's change.
#[derive(Clone, Debug)]
pub enum Write {
    /// Replace the entry, if its version is still the expected one.
    Replace(Box<Entry>),
    /// Insert a new entry, decided as of instant zero.
    Insert(Box<Entry>),
    /// Delete the entry, if its version is still this one.
    Delete(KeyHash, i64),
    /// Delete an unreadable entry, if its version is still this one; `None` if the version cannot be read either.
    DeleteUnreadable(KeyHash, Option<i64>),
    /// Change no entry: only the audit event is written.
    Nothing,
}

/// A new `token_offset`, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetRaise {
    /// The expected current offset.
    pub from: i64,
    /// The new offset.
    pub to: i64,
}

/// The result of an operator's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// The change and its audit event are written.
    Done,
    /// The entry was changed concurrently: nothing is written.
    Lost,
    /// The request id was used before for this consumer: nothing is written.
    Repeated,
}

//! Lists and counts for operators.

use super::Reading;
use crate::{Entry, KeyHash, Namespace, State, StoreTime, UnreadableEntry};

/// Which entries: those that match every field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryFilter {
    /// The consumer; empty for all, one after the other.
    pub consumer: String,
    /// The replay run; empty if live.
    pub replay_run: String,
    /// Only of this source.
    pub source: Option<String>,
    /// Only ids that begin with this.
    pub id_prefix: String,
    /// Only in these states: numbers of `EntryState`. Empty for all.
    pub states: Vec<i16>,
    /// Only parked for these causes: numbers of `ParkCause`. Empty for all.
    pub causes: Vec<i16>,
    /// Only claims whose lease and grace are over.
    pub expired: bool,
    /// Only entries of which two claims have reported the effect as done.
    pub doubled: bool,
    /// Only entries whose present or last claim has this owner; empty for all.
    pub owner: String,
    /// Only entries whose last error contains this text; empty for all.
    pub error: String,
    /// Only entries that are parked since this instant or later.
    pub parked_from: Option<StoreTime>,
    /// Only with a message in this state: a number of `MessageState`. `None` for all.
    pub message_state: Option<i16>,
    /// Only created at this instant or later.
    pub created_from: StoreTime,
    /// Only created at this instant or before.
    pub created_until: StoreTime,
}

impl EntryFilter {
    /// All entries of a consumer.
    #[must_use]
    pub fn of(consumer: &str) -> EntryFilter {
        EntryFilter {
            consumer: consumer.to_owned(),
            replay_run: String::new(),
            source: None,
            id_prefix: String::new(),
            states: Vec::new(),
            causes: Vec::new(),
            expired: false,
            doubled: false,
            owner: String::new(),
            error: String::new(),
            parked_from: None,
            message_state: None,
            created_from: StoreTime(0),
            created_until: StoreTime::MAX,
        }
    }
}

impl EntryFilter {
    /// The namespace that is listed.
    #[must_use]
    pub fn namespace(&self) -> Namespace {
        Namespace::new(&self.consumer, &self.replay_run)
    }
}

/// A page of a listing by creation.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Which entries.
    pub filter: EntryFilter,
    /// The newest first; otherwise the oldest.
    pub newest_first: bool,
    /// Only after this place, in the order of the listing.
    pub after: Option<(StoreTime, KeyHash)>,
    /// The maximum number of entries, up to 1,000.
    pub limit: usize,
}

/// A page.
#[derive(Debug)]
pub struct Listed {
    /// The reading of the store's clock.
    pub reading: Reading,
    /// The rows of the page, in the order of the listing.
    pub rows: Vec<ListedRow>,
    /// The position from which to continue; `None` if this is the last page.
    pub next: Option<(StoreTime, KeyHash)>,
}

/// A range of the index of open entries: those of one namespace in one state.
#[derive(Clone, Debug)]
pub struct OpenRange {
    /// The namespace's name in the store.
    pub namespace: String,
    /// The number of the state, which is not COMPLETED.
    pub state: i16,
    /// Only entries before this position; the newest come first. `None` for the first part of the range.
    pub before: Option<(StoreTime, KeyHash)>,
    /// The maximum number of entries that are read, up to 1,000.
    pub limit: usize,
}

/// An open entry, as it is grouped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRow {
    /// Its position in the range.
    pub place: (StoreTime, KeyHash),
    /// The number of the cause; 0 for an entry that is not parked.
    pub cause: i16,
    /// The first line of its last error, up to 200 characters.
    pub error: String,
    /// Whether it matches the filter.
    pub fits: bool,
}

/// Consumers that have open entries, among those whose names were looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenConsumers {
    /// The names in the store of the namespaces that have some, in order.
    pub open: Vec<String>,
    /// The last name that was looked at; `None` if there are no names after it.
    pub last: Option<String>,
}

/// A row of a page.
#[derive(Debug)]
pub struct ListedRow {
    /// Its position in the order of the listing.
    pub place: (StoreTime, KeyHash),
    /// Its entry, or why the entry cannot be read.
    pub entry: Result<Entry, UnreadableEntry>,
}

/// The number of a consumer's entries in one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The consumer.
    pub consumer: String,
    /// The state.
    pub state: State,
    /// The number among those that were looked at.
    pub count: i64,
    /// When the oldest of them was created; `None` if none was found among those that were looked at.
    pub oldest: Option<StoreTime>,
    /// The number of them that have at most one attempt left.
    pub near_exhaustion: i64,
    /// There are more entries than are looked at.
    pub at_least: bool,
}

/// The number of a consumer's claims that are expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    /// The consumer.
    pub consumer: String,
    /// The number of claims.
    pub count: i64,
    /// When lease and grace of the first of them ended.
    pub since: StoreTime,
}

/// Counts by consumer.
#[derive(Debug)]
pub struct Summary {
    /// The reading of the store's clock.
    pub reading: Reading,
    /// All entries that are not COMPLETED: exactly, up to the bound of the count.
    pub counts: Vec<Count>,
    /// Expired claims among these.
    pub expired: Vec<Expired>,
    /// The number of entries whose effect two claims have reported as done, exactly, by consumer; a consumer
    /// that is not listed has 0.
    pub doubled: Vec<(String, i64)>,
    /// The number of COMPLETED entries, by consumer.
    pub completed: Vec<(String, i64)>,
    /// The numbers of COMPLETED entries are estimates.
    pub estimated: bool,
    /// The number of stored names, of all consumers.
    pub names: NameCounts,
}

/// The number of stored names. A name is never forgotten, since entries and servers refer to it by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameCounts {
    /// Consumers, and consumers in a replay run.
    pub consumers: i64,
    /// Sources.
    pub sources: i64,
    /// Principals.
    pub principals: i64,
}

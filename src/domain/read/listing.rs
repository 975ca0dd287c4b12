//! What operators ask for: lists and counts.

use super::Reading;
use crate::domain::{Entry, KeyHash, Namespace, State, StoreTime, UnreadableEntry};

/// Which entries of one consumer: those that fit all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryFilter {
    /// The consumer.
    pub consumer: String,
    /// The replay run; empty: live.
    pub replay_run: String,
    /// Only of this source.
    pub source: Option<String>,
    /// Only ids that begin with this.
    pub id_prefix: String,
    /// Only in these states: numbers of `EntryState`. Empty: all.
    pub states: Vec<i16>,
    /// Only parked for these causes: numbers of `ParkCause`. Empty: all.
    pub causes: Vec<i16>,
    /// Only claims whose lease and grace are over.
    pub expired: bool,
    /// Only entries of which two claims have reported the effect as done.
    pub doubled: bool,
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
    /// The newest first; else the oldest.
    pub newest_first: bool,
    /// Only after this place, in the order of the listing.
    pub after: Option<(StoreTime, KeyHash)>,
    /// How many entries at the most, up to 1,000.
    pub limit: usize,
}

/// The page.
#[derive(Debug)]
pub struct Listed {
    /// The clock at the time.
    pub reading: Reading,
    /// What the page shows, in the order of the listing.
    pub rows: Vec<ListedRow>,
    /// Where to go on; none: there is no more.
    pub next: Option<(StoreTime, KeyHash)>,
}

/// A row of a page.
#[derive(Debug)]
pub struct ListedRow {
    /// Where it stands in the order of the listing.
    pub place: (StoreTime, KeyHash),
    /// Its entry, or why that cannot be read.
    pub entry: Result<Entry, UnreadableEntry>,
}

/// How many entries of a consumer are in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The consumer.
    pub consumer: String,
    /// The state.
    pub state: State,
    /// How many, of those that were looked at.
    pub count: i64,
    /// When the oldest of them was created; `None` if none was found among those that were looked at.
    pub oldest: Option<StoreTime>,
    /// How many of them have one attempt left at the most.
    pub near_exhaustion: i64,
    /// There are more than are looked at.
    pub at_least: bool,
}

/// How many claims of a consumer are expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    /// The consumer.
    pub consumer: String,
    /// How many.
    pub count: i64,
    /// When lease and grace of the first of them were over.
    pub since: StoreTime,
}

/// Consumers, counted.
#[derive(Debug)]
pub struct Summary {
    /// The clock at the time.
    pub reading: Reading,
    /// All that is not COMPLETED: exactly, up to the bound of the count.
    pub counts: Vec<Count>,
    /// Expired claims among these.
    pub expired: Vec<Expired>,
    /// How many have an effect that two claims have reported as done, exactly; of a consumer that is not listed, none.
    pub doubled: Vec<(String, i64)>,
    /// How many are COMPLETED.
    pub completed: Vec<(String, i64)>,
    /// The numbers of COMPLETED ones are estimates.
    pub estimated: bool,
    /// How many names are stored, of all consumers.
    pub names: NameCounts,
}

/// How many names are stored: none of them is ever forgotten, since entries and servers know them by their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameCounts {
    /// Consumers, and consumers in a replay run.
    pub consumers: i64,
    /// Sources.
    pub sources: i64,
    /// Principals.
    pub principals: i64,
}

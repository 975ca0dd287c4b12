//! Reads for operators.

use super::retry::JobResult;
use crate::domain::{
    Entry, EntryFilter, Key, KeyHash, Listed, Listing, Namespace, Reading, Reason, Rejection, Span,
    StoreTime, Summary,
};
use crate::ledger::policies::in_force::PoliciesInForce;
use crate::store::{DueCounts, Session, StoreError};

/// Ages, which the store's clock converts to instants.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ages {
    /// Created at least this long ago.
    pub min: Option<Span>,
    /// Created at most this long ago.
    pub max: Option<Span>,
    /// Parked at most this long ago.
    pub parked_max: Option<Span>,
}

impl Ages {
    /// As instants; `now` is the store's clock.
    pub(super) fn to_instants(self, filter: &mut EntryFilter, now: StoreTime) {
        filter.created_until = self.min.map_or(StoreTime::MAX, |age| now - age);
        filter.created_from = self.max.map_or(StoreTime(0), |age| now - age);
        filter.parked_from = self.parked_max.map(|age| now - age);
    }

    fn are_given(self) -> bool {
        self.min.is_some() || self.max.is_some() || self.parked_max.is_some()
    }

    /// A filter with these ages as instants.
    pub(super) async fn fixed(
        self,
        session: &mut dyn Session,
        filter: &mut EntryFilter,
    ) -> Result<(), StoreError> {
        if self.are_given() {
            let now = session.entries().load(&[]).await?.reading.now;
            self.to_instants(filter, now);
        }
        Ok(())
    }
}

/// A page of a listing, and the listing as it was carried out: with instants in place of ages.
pub type Page = (Listing, Listed);

/// Which entries are counted.
#[derive(Clone, Debug)]
pub enum CountScope {
    /// Those of this consumer, live or in one of its runs.
    One(Namespace),
    /// Those of this many namespaces, by their names in the store, after this one.
    ConsumerPage(String, usize),
}

pub(super) async fn list(session: &mut dyn Session, listing: &Listing, ages: Ages) -> JobResult<Page> {
    let mut listing = listing.clone();
    ages.fixed(session, &mut listing.filter).await?;
    let listed = session.operators().list(&listing).await?;
    Ok(Ok((listing, listed)))
}

/// Up to this many entries of each state a summary is exact: each entry may be in another page of the table. Without a bound a
/// summary of 100,000 open claims touched 300,886 pages (`tests/it/proof/rows/bounded.rs`).
pub(crate) const SUMMARY_MAX: i64 = 1_000;

pub(super) async fn count(
    session: &mut dyn Session,
    policies: &PoliciesInForce,
    whose: &CountScope,
    most: i64,
) -> JobResult<(Vec<String>, Summary)> {
    let names = match whose {
        CountScope::One(namespace) => vec![namespace.name().to_owned()],
        CountScope::ConsumerPage(after, limit) => session.operators().consumers(after, *limit).await?,
    };
    let near = |name: &str| policies.of(Namespace::stored(name).consumer()).near_exhaustion_from();
    let asked: Vec<(String, Option<i32>)> = names.iter().map(|name| (name.clone(), near(name))).collect();
    let summary = session.operators().summary(&asked, most).await?;
    Ok(Ok((names, summary)))
}

/// Which entry is sought.
#[derive(Clone, Debug)]
pub enum Sought {
    /// The one of this key.
    Key(Key),
    /// The one whose key has this hash.
    Hash(KeyHash),
}

pub(super) async fn get(session: &mut dyn Session, sought: &Sought) -> JobResult<(Reading, Entry)> {
    let (reading, entry) = match sought {
        Sought::Key(key) => {
            let mut loaded = session.entries().load(std::slice::from_ref(key)).await?;
            (loaded.reading, loaded.found.pop().map_or(Ok(None), |found| found.into_entry(key.hash())))
        }
        Sought::Hash(hash) => {
            let (reading, found) = session.operators().load_by_hash(*hash).await?;
            (reading, found.into_entry(*hash))
        }
    };
    Ok(entry.and_then(|entry| match entry {
        Some(entry) => Ok((reading, entry)),
        None => Err(Rejection::new(
            Reason::EntryNotFound,
            "this key has no entry: it was never claimed, or it was purged or deleted since",
        )),
    }))
}

/// The stored messages of a consumer: how many are due, how long the oldest has been due, and how many are handed out later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    /// Those that are due, and those that are handed out later.
    pub(crate) counts: DueCounts,
    /// For how long the oldest that can be read has been due; `None` if none is.
    pub(crate) oldest: Option<Span>,
}

pub(super) async fn backlog(
    session: &mut dyn Session,
    (consumer, most): &(String, i64),
) -> JobResult<Backlog> {
    let counts = session.inbox().count_due(consumer, *most).await?;
    let (reading, oldest) = session.inbox().oldest_due(consumer).await?;
    Ok(Ok(Backlog { counts, oldest: oldest.map(|due| reading.now - due) }))
}

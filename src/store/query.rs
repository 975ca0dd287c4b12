//! What both stores share of lists and counts.

use uuid::Uuid;

use super::numbers::{COMPLETED, IN_PROGRESS};
use crate::domain::{EntryFilter, KeyHash, Listed, Listing, StoreTime};

impl EntryFilter {
    /// Nothing COMPLETED is asked for: the index of all else finds it. Doubled effects have an index of their own.
    pub(super) fn by_attention(&self) -> bool {
        !self.doubled && !self.states.is_empty() && !self.states.contains(&COMPLETED)
    }
}

impl Listing {
    /// How many entries a statement looks at in each range of an index that it reads. Where a range has nothing but what
    /// fits, a page's worth is enough.
    pub(super) fn look_at(&self) -> i64 {
        let EntryFilter { source, id_prefix, states, causes, expired, .. } = &self.filter;
        let leaves_out = source.is_some()
            || !id_prefix.is_empty()
            || !causes.is_empty()
            || *expired
            || states.contains(&IN_PROGRESS)
            || !(states.is_empty() || self.filter.by_attention());
        if leaves_out {
            LOOKED_AT_MAX / self.filter.ranges()
        } else {
            i64::try_from(self.limit).unwrap_or(LOOKED_AT_MAX)
        }
    }
}

impl EntryFilter {
    /// How many ranges of an index are read, at most: one for each state, and one for claims that are not in the index yet.
    fn ranges(&self) -> i64 {
        let young = usize::from(self.states.contains(&IN_PROGRESS));
        let ranges = if self.by_attention() { self.states.len() + young } else { 1 };
        i64::try_from(ranges).unwrap_or(1)
    }
}

/// How many entries a statement looks at for one page, where a filter leaves most of them out. Each may stand in another page
/// of the table: 5,000 were up to 6,000 pages, and 21,000 with the terms of expired claims.
const LOOKED_AT_MAX: i64 = 1_000;
/// A ledger of so many entries at the most is counted exactly. Of a larger one about as many are the sample that
/// estimates are made from.
pub(super) const EXACT_MAX: i64 = 4_000;

impl Listing {
    /// Where to begin: beyond every entry, where nothing is said.
    pub(super) fn place(&self) -> (StoreTime, KeyHash) {
        let start = if self.newest_first {
            (StoreTime::MAX, Uuid::max())
        } else {
            (StoreTime(i64::MIN), Uuid::nil())
        };
        self.after.unwrap_or(start)
    }
}

impl Listed {
    /// Where to go on: `shown` are the places of the rows of the page, `ended` is the last place that was looked at;
    /// `None` if there was no more to look at.
    pub(super) fn place(
        listing: &Listing,
        shown: &[(StoreTime, KeyHash)],
        ended: Option<(StoreTime, KeyHash)>,
    ) -> Option<(StoreTime, KeyHash)> {
        if shown.len() >= listing.limit { shown.last().copied() } else { ended }
    }
}

/// How many entries stand for `found` ones, where a sample has looked at one part of `parts`.
#[must_use]
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "an estimate")]
pub(super) fn scaled(found: i64, parts: f64) -> i64 {
    (found as f64 * parts).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_its_part() {
        for (found, parts, all) in
            [(10, 1.0, 10), (10, 2.0, 20), (3, 1_000.0, 3_000), (0, 5.0, 0), (3, 1.5, 5)]
        {
            assert_eq!(scaled(found, parts), all, "{found} of one part in {parts}");
        }
    }
}

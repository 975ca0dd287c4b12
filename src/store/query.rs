//! What both stores share of lists and counts.

use uuid::Uuid;

use super::numbers::{COMPLETED, IN_PROGRESS};
use crate::domain::{EntryFilter, KeyHash, Listed, Listing, StoreTime};

impl EntryFilter {
    /// Nothing COMPLETED is asked for: the index of all else finds it.
    pub(super) fn by_attention(&self) -> bool {
        !self.states.is_empty() && !self.states.contains(&COMPLETED)
    }
}

impl Listing {
    /// How many entries to look at. Where the index finds nothing but what fits, a page's worth is enough.
    pub(super) fn look_at(&self) -> i64 {
        let EntryFilter { source, id_prefix, states, causes, expired, .. } = &self.filter;
        let leaves_out = source.is_some()
            || !id_prefix.is_empty()
            || !causes.is_empty()
            || *expired
            || states.contains(&IN_PROGRESS)
            || !(states.is_empty() || self.filter.by_attention());
        if leaves_out { LOOKED_AT_MAX } else { i64::try_from(self.limit).unwrap_or(LOOKED_AT_MAX) }
    }
}

/// How many entries a statement looks at for one page, where a filter leaves most of them out.
const LOOKED_AT_MAX: i64 = 5_000;
/// A ledger of so many entries at the most is counted exactly. Of a larger one, one entry more, the first by their
/// hash, are the sample that estimates are made from.
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
    /// Where to go on, from what the statement said: `shown` are the places of the rows of the page, `ended`
    /// the last row that was looked at, if as many were as one statement may.
    pub(super) fn place(
        listing: &Listing,
        shown: &[(StoreTime, KeyHash)],
        looked_at: i64,
        ended: Option<(StoreTime, KeyHash)>,
    ) -> Option<(StoreTime, KeyHash)> {
        if shown.len() >= listing.limit {
            return shown.last().copied();
        }
        ended.filter(|_| looked_at >= listing.look_at())
    }
}

/// How many entries a sample of `found` ones stands for. The sample are the first entries by their hash, and
/// hashes are spread evenly: the last one of a sample tells which share of all it is.
#[must_use]
pub(super) fn scaled(found: i64, last: KeyHash) -> i64 {
    const PARTS: u128 = 1 << 40;
    let share = (last.as_u128() >> 88) + 1;
    let scaled = u128::try_from(found).unwrap_or(0) * PARTS / share;
    i64::try_from(scaled).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_what_its_last_hash_says() {
        for (found, last, all) in [
            (10, Uuid::max(), 10),
            (10, Uuid::from_u128(u128::MAX / 2), 20),
            (3, Uuid::from_u128(u128::MAX / 1_000), 3_000),
            (0, Uuid::nil(), 0),
        ] {
            let scaled = scaled(found, last);
            assert!((scaled - all).abs() <= all / 1_000_000 + 1, "{found} up to {last}: {scaled}");
        }
    }
}

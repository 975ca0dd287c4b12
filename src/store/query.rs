//! The common part of both stores' lists and counts.

use uuid::Uuid;

use super::numbers::{COMPLETED, IN_PROGRESS};
use crate::domain::{EntryFilter, KeyHash, Listing, StoreTime};

/// Maximum number of entries that one statement reads for a page of results if its filter may exclude entries. Each entry may be
/// on a different page of the table: 5,000 entries touched up to 6,000 of them; with 1,000 a statement touches at most 2,000
/// (`tests/it/proof/rows/bounded.rs`).
const LOOKED_AT_MAX: i64 = 1_000;
/// A ledger of at most this many entries is counted exactly. In a larger one, the sample for estimates has about as many
/// entries.
pub(super) const EXACT_MAX: i64 = 4_000;

/// Whether the index `attention` can be used: the filter excludes COMPLETED. Doubled effects have a separate index.
pub(super) fn by_attention(filter: &EntryFilter) -> bool {
    !filter.doubled && !filter.states.is_empty() && !filter.states.contains(&COMPLETED)
}

/// The number of entries that a statement reads in each range of an index. If all entries of a range match, one page of
/// them is enough.
pub(super) fn look_at(listing: &Listing) -> i64 {
    let EntryFilter {
        source,
        id_prefix,
        states,
        causes,
        expired,
        owner,
        error,
        parked_from,
        message_state,
        ..
    } = &listing.filter;
    let leaves_out = source.is_some()
        || !id_prefix.is_empty()
        || !owner.is_empty()
        || !error.is_empty()
        || parked_from.is_some()
        || message_state.is_some()
        || !causes.is_empty()
        || *expired
        || states.contains(&IN_PROGRESS)
        || !(states.is_empty() || by_attention(&listing.filter));
    if leaves_out {
        LOOKED_AT_MAX / ranges(&listing.filter)
    } else {
        i64::try_from(listing.limit).unwrap_or(LOOKED_AT_MAX)
    }
}

/// The maximum number of ranges of an index that are read: one for each state, and one for claims that are not in the index
/// yet.
fn ranges(filter: &EntryFilter) -> i64 {
    let young = usize::from(filter.states.contains(&IN_PROGRESS));
    let ranges = if by_attention(filter) { filter.states.len() + young } else { 1 };
    i64::try_from(ranges).unwrap_or(1)
}

/// The position to begin at; before the first entry for the first page.
pub(super) fn first_place(listing: &Listing) -> (StoreTime, KeyHash) {
    let start =
        if listing.newest_first { (StoreTime::MAX, Uuid::max()) } else { (StoreTime(i64::MIN), Uuid::nil()) };
    listing.after.unwrap_or(start)
}

/// The position to continue at: `shown` are the positions of the rows of the page, `ended` is the last position that was
/// read, `None` if there were no more entries.
pub(super) fn next_place(
    listing: &Listing,
    shown: &[(StoreTime, KeyHash)],
    ended: Option<(StoreTime, KeyHash)>,
) -> Option<(StoreTime, KeyHash)> {
    if shown.len() >= listing.limit { shown.last().copied() } else { ended }
}

/// The estimated total, where a sample of one part in `parts` has `found` matches.
#[must_use]
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "an estimate")]
pub(super) fn scaled(found: i64, parts: f64) -> i64 {
    (found as f64 * parts).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_estimates_from_sample() {
        for (found, parts, all) in
            [(10, 1.0, 10), (10, 2.0, 20), (3, 1_000.0, 3_000), (0, 5.0, 0), (3, 1.5, 5)]
        {
            assert_eq!(scaled(found, parts), all, "{found} of one part in {parts}");
        }
    }
}

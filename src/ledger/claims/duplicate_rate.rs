//! Estimates the duplicate rate of recent claims, and decides whether to insert optimistically or to load first.

use std::sync::atomic::{AtomicU32, Ordering};

/// Weight of the past in the moving average: about this number of claims.
const CLAIMS: u32 = 512;
/// A duplicate rate of 1, as a fixed-point number.
const ALL: u32 = 1 << 16;

/// New messages are claimed cheapest by an optimistic insert. An insert that meets an entry costs more than a load, so claims
/// load first while most messages are duplicates, as in a replay.
#[derive(Debug, Default)]
pub(in crate::ledger) struct DuplicateRate {
    /// The share of recent claims that met an entry, in parts of `ALL`.
    met: AtomicU32,
}

impl DuplicateRate {
    /// Whether a claim is expected to find no entry.
    pub(super) fn expects_new(&self) -> bool {
        self.met.load(Ordering::Relaxed) <= ALL / 2
    }

    /// Records that `met` of `of` claims met an entry.
    pub(super) fn record(&self, met: usize, of: usize) {
        let weight = u32::try_from(of).unwrap_or(CLAIMS).min(CLAIMS);
        let now = u32::try_from(met.min(of) * ALL as usize / of.max(1)).unwrap_or(ALL);
        // Workers that record concurrently may overwrite each other: it is an estimate.
        let before = self.met.load(Ordering::Relaxed);
        let after = (before * (CLAIMS - weight) + now * weight) / CLAIMS;
        self.met.store(after, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_load_first_while_most_are_duplicates() {
        let rate = DuplicateRate::default();
        // The number of claims recorded together, how many of them met an entry, how often; and the expectation.
        for (of, met, times, expects_new) in [
            (1, 0, 100, true),
            (1, 1, 300, true),
            (1, 1, 100, false),
            (100, 49, 20, true),
            (100, 51, 20, false),
            (0, 0, 100, false),
            (1_000, 499, 1, true),
            (1_000, 900, 1, false),
            (10, 1, 200, true),
        ] {
            (0..times).for_each(|_| rate.record(met, of));
            assert_eq!(rate.expects_new(), expects_new, "{times} times {met} of {of}");
        }
    }
}

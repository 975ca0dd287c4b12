//! What the claims of late have met, and what is guessed of the next ones.

use std::sync::atomic::{AtomicU32, Ordering};

/// How much of the past counts: about so many claims.
const CLAIMS: u32 = 512;
/// All of them have met an entry.
const ALL: u32 = 1 << 16;

/// New messages are claimed cheapest by an insert without a look before it. An insert that meets an entry costs more than
/// a look: where most messages come again, as in a replay, claims look first.
#[derive(Debug, Default)]
pub(in crate::ledger) struct Guess {
    /// The share of claims that have met an entry, of `ALL`.
    met: AtomicU32,
}

impl Guess {
    /// A claim is guessed to find no entry.
    pub(super) fn is_new(&self) -> bool {
        self.met.load(Ordering::Relaxed) <= ALL / 2
    }

    /// So many claims have met an entry, of all that were looked at together.
    pub(super) fn note(&self, met: usize, of: usize) {
        let weight = u32::try_from(of).unwrap_or(CLAIMS).min(CLAIMS);
        let now = u32::try_from(met.min(of) * ALL as usize / of.max(1)).unwrap_or(ALL);
        // Workers that note at the same time may overwrite each other: it is a guess.
        let before = self.met.load(Ordering::Relaxed);
        let after = (before * (CLAIMS - weight) + now * weight) / CLAIMS;
        self.met.store(after, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_look_first_where_most_meet_an_entry() {
        let guess = Guess::default();
        // How many claims were looked at together, how many of them have met an entry, how often; and the guess.
        for (of, met, times, is_new) in [
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
            (0..times).for_each(|_| guess.note(met, of));
            assert_eq!(guess.is_new(), is_new, "{times} times {met} of {of}");
        }
    }
}

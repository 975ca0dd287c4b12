//! Which batches are at the store, and whether another worker should take one meanwhile. A statement costs the store
//! as much as many rows: what comes while one is under way is better sent with the next one than by a second session
//! with a few rows of its own.

use std::time::Duration;

use crate::ledger::runtime::Instant;

/// So many commands are worth a statement beside those that are under way. What begins and ends a statement costs Postgres as
/// much as some thirty rows of it: with 200 each row of a batch costs it a twentieth more, and with 400 the processors wait
/// for flushes.
pub(in crate::ledger::claims) const WORTH: usize = 250;
/// For so long commands wait for the batch that is at the store to come back. Beyond it the store is slow, or a
/// session hangs: then others must not wait for it.
pub(in crate::ledger::claims) const PATIENCE: Duration = Duration::from_millis(5);

#[derive(Debug)]
struct Batch {
    number: u64,
    left: Instant,
}

/// The batches that are at the store, each with the instant at which it left.
#[derive(Debug, Default)]
pub(in crate::ledger::claims) struct Away {
    batches: Vec<Batch>,
    last: u64,
}

impl Away {
    /// A batch leaves for the store.
    pub(in crate::ledger::claims) fn leave_at(&mut self, left: Instant) -> u64 {
        self.last += 1;
        self.batches.push(Batch { number: self.last, left });
        self.last
    }

    /// It has come back, or its worker is gone.
    pub(in crate::ledger::claims) fn back(&mut self, batch: u64) {
        self.batches.retain(|away| away.number != batch);
    }

    pub(in crate::ledger::claims) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// For how long so many commands should wait for a batch to come back; zero: another one may leave at once.
    pub(in crate::ledger::claims) fn wait(&self, commands: usize, worth: usize) -> Duration {
        if commands >= worth || self.batches.is_empty() {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let away = self.batches.iter().map(|batch| now.saturating_duration_since(batch.left));
        away.map(|away| PATIENCE.saturating_sub(away)).max().unwrap_or_default()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn another_batch_leaves_where_it_is_worth_it_or_the_first_stays_out() {
        let second = Duration::from_secs(1);
        // For how long the batches have been away, how many commands wait, and whether they wait on.
        for (away, commands, waits) in [
            (&[][..], 1, false),
            (&[Duration::ZERO], 1, true),
            (&[Duration::ZERO], WORTH - 1, true),
            (&[Duration::ZERO], WORTH, false),
            // One that hangs holds up nobody.
            (&[second], 1, false),
            (&[second, Duration::ZERO], 1, true),
            (&[second, second], 1, false),
        ] {
            let (now, mut all) = (Instant::now(), Away::default());
            for away in away {
                all.leave_at(now.checked_sub(*away).unwrap());
            }
            assert_eq!(all.wait(commands, WORTH) > Duration::ZERO, waits, "{away:?} {commands}");
            // Whoever comes back is waited for no more.
            for batch in 1..=away.len() as u64 {
                all.back(batch);
            }
            assert!(all.is_empty() && all.wait(1, WORTH) == Duration::ZERO);
        }
    }
}

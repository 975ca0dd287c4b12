//! The batches in flight to the store, and whether another worker should send one concurrently. A statement has a fixed
//! cost of about 30 rows: commands that arrive while a batch is in flight are cheaper in the next large batch than in a
//! small batch of a second session.

use std::time::Duration;

use crate::ledger::runtime::Instant;

/// Smallest batch that is sent while another one is in flight. Beginning and ending a statement costs Postgres as much as
/// about 30 rows of it. Measured on two processors, claims in batches of 100 with 8 in flight: 250 takes Postgres 0.95 and
/// 0.90 of the CPU time that 200 takes for a claim, at 0.98 and 0.99 of the rate (5 and 6 interleaved pairs of runs); 300
/// takes 0.95 at 0.96, and 400 takes 0.92 at 0.96, since the processors then wait for flushes of the log
/// (docs/performance.md, P5 and P6; `tests/prove speed`).
pub(in crate::ledger::claims) const MIN_CONCURRENT_BATCH: usize = 250;
/// How long queued commands wait for a batch in flight to return. If a batch takes longer, the store is slow or its session
/// hangs: the commands are then sent by another session.
pub(in crate::ledger::claims) const WAIT_FOR_BATCH_MAX: Duration = Duration::from_millis(5);

#[derive(Debug)]
struct Batch {
    number: u64,
    sent: Instant,
}

/// The batches in flight, each with the instant at which it was sent.
#[derive(Debug, Default)]
pub(in crate::ledger::claims) struct InFlight {
    batches: Vec<Batch>,
    last: u64,
}

impl InFlight {
    /// Adds a batch that is sent now.
    pub(in crate::ledger::claims) fn send_at(&mut self, sent: Instant) -> u64 {
        self.last += 1;
        self.batches.push(Batch { number: self.last, sent });
        self.last
    }

    /// Removes a batch that has returned, or whose worker is gone.
    pub(in crate::ledger::claims) fn returned(&mut self, batch: u64) {
        self.batches.retain(|one| one.number != batch);
    }

    pub(in crate::ledger::claims) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// How long this number of commands should wait for a batch in flight to return; zero if another batch may be sent now.
    pub(in crate::ledger::claims) fn wait(
        &self,
        commands: usize,
        min_concurrent: usize,
        now: Instant,
    ) -> Duration {
        if commands >= min_concurrent || self.batches.is_empty() {
            return Duration::ZERO;
        }
        let elapsed = self.batches.iter().map(|batch| now.saturating_duration_since(batch.sent));
        elapsed.map(|elapsed| WAIT_FOR_BATCH_MAX.saturating_sub(elapsed)).max().unwrap_or_default()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn another_batch_is_sent_where_it_is_large_or_the_first_is_late() {
        let second = Duration::from_secs(1);
        // How long ago the batches in flight were sent, how many commands wait, and whether they go on waiting.
        for (away, commands, waits) in [
            (&[][..], 1, false),
            (&[Duration::ZERO], 1, true),
            (&[Duration::ZERO], MIN_CONCURRENT_BATCH - 1, true),
            (&[Duration::ZERO], MIN_CONCURRENT_BATCH, false),
            // A batch that hangs delays no other.
            (&[second], 1, false),
            (&[second, Duration::ZERO], 1, true),
            (&[second, second], 1, false),
        ] {
            let (now, mut all) = (Instant::now(), InFlight::default());
            for away in away {
                all.send_at(now.checked_sub(*away).unwrap());
            }
            assert_eq!(
                all.wait(commands, MIN_CONCURRENT_BATCH, now) > Duration::ZERO,
                waits,
                "{away:?} {commands}"
            );
            // A batch that has returned is not waited for.
            for batch in 1..=away.len() as u64 {
                all.returned(batch);
            }
            assert!(all.is_empty() && all.wait(1, MIN_CONCURRENT_BATCH, now) == Duration::ZERO);
        }
    }
}

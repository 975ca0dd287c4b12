//! The maximum number of commands in a batch. While one consumer is active, batches are as large as `batch_max` allows:
//! they cost the store least for each command. While several consumers are active, a batch is capped at what the store
//! carries out within [`TARGET_TIME`], to bound head-of-line blocking: a claim of one consumer waits for at most one batch of
//! another consumer. The cap is measured, since it depends on the store: the marginal time of a command, which leaves out
//! the fixed cost of a statement and its commit. A fixed cap of 128 commands halved the rate of a bulk consumer where
//! commits are slow (16.7 to 8.0 thousand claims a second); with this one it keeps 0.94 of its rate, and 0.81 where
//! statements take 20 ms longer (`tests/prove neighbours`).

use std::time::Duration;

use crate::domain::Key;
use crate::ledger::runtime::Instant;

/// How long the commands of one batch may occupy the store while several consumers are active.
const TARGET_TIME: Duration = Duration::from_millis(5);
/// Smallest cap, however slow the store is: a statement costs Postgres as much as about 30 rows of it.
const CAP_MIN: usize = 32;
/// Several consumers count as active for this long after a command followed a command of another consumer.
const ACTIVE_FOR: Duration = Duration::from_secs(1);
/// Number of recent batches that are sampled. A quarter of them may be outliers, such as a batch that waited for a row lock.
const SAMPLES: usize = 31;
/// Smallest difference in size between two batches that is compared: smaller differences are noise.
const SIZE_DIFFERENCE_MIN: i64 = 16;
/// Smallest number of compared pairs: with fewer, all of them may contain the same outlier.
const PAIRS_MIN: usize = 16;
/// Marginal time of a command before any is measured, in nanoseconds: Postgres on a machine with two processors.
const ASSUMED_NANOS: i64 = 40_000;

/// Size and duration of a batch that the store has carried out.
#[derive(Clone, Copy, Debug)]
struct Sample {
    commands: i64,
    nanos: i64,
}

/// See the module.
#[derive(Debug, Default)]
pub(in crate::ledger::claims) struct BatchBound {
    /// The key of the last command, and when a command last followed a command of another consumer.
    last: Option<Key>,
    changed: Option<Instant>,
    samples: Vec<Sample>,
    /// Index of the oldest sample, which is overwritten next.
    oldest: usize,
    /// Number of commands that fit into [`TARGET_TIME`], and whether a batch was sampled since it was computed. It is computed
    /// only while several consumers are active: the slopes of 31 batches are 465 divisions under the queue's lock.
    fits: Option<usize>,
    is_stale: bool,
}

impl BatchBound {
    /// Notes that a command of this key arrived at this instant.
    pub(in crate::ledger::claims) fn arrived(&mut self, key: &Key, now: Instant) {
        match &self.last {
            Some(last) if last.namespace() == key.namespace() => {}
            last => {
                self.changed = last.as_ref().map_or(self.changed, |_| Some(now));
                self.last = Some(key.clone());
            }
        }
    }

    /// Samples a batch that the store has carried out.
    pub(in crate::ledger::claims) fn completed(&mut self, commands: usize, took: Duration) {
        let number = |value: u128| i64::try_from(value).unwrap_or(i64::MAX / 2);
        let sample = Sample { commands: number(commands as u128), nanos: number(took.as_nanos()) };
        if self.samples.len() < SAMPLES {
            self.samples.push(sample);
        } else if let Some(oldest) = self.samples.get_mut(self.oldest) {
            *oldest = sample;
            self.oldest = (self.oldest + 1) % SAMPLES;
        }
        self.is_stale = true;
    }

    /// The marginal time of a command in nanoseconds: the median of the slopes of time over commands between all pairs of
    /// samples (the Theil–Sen estimator). `None` if too few batches differ in size.
    fn marginal(&self) -> Option<i64> {
        let mut slopes = Vec::new();
        for (place, one) in self.samples.iter().enumerate() {
            for other in self.samples.iter().skip(place + 1) {
                let more = one.commands - other.commands;
                if more.abs() >= SIZE_DIFFERENCE_MIN {
                    slopes.push((one.nanos - other.nanos) / more);
                }
            }
        }
        let middle = slopes.len() / 2;
        (slopes.len() >= PAIRS_MIN).then(|| *slopes.select_nth_unstable(middle).1)
    }

    /// Caps a batch that may otherwise have `max` commands. The clock is read only where it decides.
    pub(in crate::ledger::claims) fn cap(&mut self, max: usize, now: impl FnOnce() -> Instant) -> usize {
        let is_active = |at| now().saturating_duration_since(at) < ACTIVE_FOR;
        if self.changed.is_some_and(is_active) {
            if std::mem::take(&mut self.is_stale) {
                self.fits = self.marginal().map(fits).or(self.fits);
            }
            max.min(self.fits.unwrap_or_else(|| fits(ASSUMED_NANOS)))
        } else {
            max
        }
    }
}

/// Number of commands with this marginal time that fit into a batch.
fn fits(marginal: i64) -> usize {
    let commands = TARGET_TIME.as_nanos() / u128::try_from(marginal).unwrap_or(0).max(1);
    usize::try_from(commands).unwrap_or(usize::MAX).max(CAP_MIN)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn batches_are_capped_while_several_consumers_are_active() {
        // Which consumers sent a command how many milliseconds ago; the size of an uncapped batch, and the capped size.
        for (came, max, expected) in [
            (&[][..], 1_000, 1_000),
            (&[("a", 500)][..], 1_000, 1_000),
            (&[("a", 500), ("a", 0)], 1_000, 1_000),
            (&[("a", 500), ("b", 0)], 1_000, 125),
            (&[("a", 500), ("b", 0)], 100, 100),
            (&[("a", 2_000), ("b", 900), ("b", 0)], 1_000, 125),
            // The last change of consumer was more than a second ago.
            (&[("a", 2_000), ("b", 1_100), ("b", 0)], 1_000, 1_000),
            (&[("a", 2_000), ("b", 1_100), ("b", 0), ("a", 0)], 1_000, 125),
        ] {
            let (now, mut bound) = (Instant::now(), BatchBound::default());
            for (consumer, ago) in came {
                bound.arrived(&Key::new(consumer, "s", "1"), now.checked_sub(ms(*ago)).unwrap());
            }
            assert_eq!(bound.cap(max, || now), expected, "{came:?}");
        }
    }

    #[test]
    fn the_cap_is_what_the_store_carries_out_in_time() {
        // Batches with their size and microseconds, and the cap that follows from them.
        for (what, carried, expected) in [
            ("nothing is known", &[][..], 125),
            ("one size shows no slope", &[(100, 3_000), (100, 9_000), (108, 9_000)], 125),
            ("50 us a command and 2 ms for each statement", &[(1, 2_050), (100, 7_000), (40, 4_000)], 100),
            ("5 us a command and 30 ms for each statement", &[(1, 30_000), (101, 30_500)], 1_000),
            (
                "a batch that waited for a row is an outlier",
                &[(1, 1_000), (101, 3_000), (201, 5_000), (301, 7_000), (101, 903_000)],
                250,
            ),
            ("a slow store", &[(1, 1_000), (101, 101_000)], 32),
            ("more commands took less", &[(1, 9_000), (101, 1_000)], 1_000),
        ] {
            let mut bound = BatchBound::default();
            // Five times, so that there are enough pairs.
            for (commands, microseconds) in carried.repeat(5) {
                bound.completed(commands, Duration::from_micros(microseconds));
            }
            let now = Instant::now();
            bound.arrived(&Key::new("a", "s", "1"), now);
            bound.arrived(&Key::new("b", "s", "1"), now);
            assert_eq!(bound.cap(1_000, || now), expected, "{what}");
        }
    }

    #[test]
    fn old_batches_are_forgotten() {
        let (now, mut bound) = (Instant::now(), BatchBound::default());
        bound.arrived(&Key::new("a", "s", "1"), now);
        bound.arrived(&Key::new("b", "s", "1"), now);
        bound.completed(1, ms(1));
        for (took, expected) in [(101, 32), (2, 500)] {
            for _ in 0..SAMPLES {
                bound.completed(1, ms(1));
                bound.completed(101, ms(took));
            }
            assert_eq!(bound.cap(1_000, || now), expected, "{took} ms");
        }
        assert_eq!(bound.samples.len(), SAMPLES);
    }
}

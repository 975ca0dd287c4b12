//! How many commands a batch may have. A consumer that is alone has the largest batches, which cost the store least for each
//! command. While several consumers are active, a batch has what the store carries out within [`WITHIN`]: the claim of one
//! consumer waits for the batch of another one, and no longer than that. How much that is depends on the store, so it is
//! measured: the marginal time of a command, which leaves out what each statement and its commit cost whatever they carry.

use std::time::Duration;

use crate::domain::Key;
use crate::ledger::runtime::Instant;

/// How long the commands of one batch may take the store while several consumers are active.
const WITHIN: Duration = Duration::from_millis(5);
/// A batch may have so many commands whatever they take: a statement costs Postgres as much as some thirty rows of it.
const LEAST: usize = 32;
/// For so long after one consumer came behind another one, both are active.
const ACTIVE_FOR: Duration = Duration::from_secs(1);
/// How many of the last batches are remembered. A quarter of them may be out of the ordinary, such as one that waited for a row.
const REMEMBERED: usize = 31;
/// Batches that differ by fewer commands differ by chance.
const TELLING: i64 = 16;
/// Fewer pairs of batches that differ may all have one that is out of the ordinary.
const PAIRS_LEAST: usize = 16;
/// The marginal time of a command before any was measured, in nanoseconds: that of Postgres on a machine of two processors.
const ASSUMED: i64 = 40_000;

/// A batch that the store has carried out.
#[derive(Clone, Copy, Debug)]
struct Carried {
    commands: i64,
    nanos: i64,
}

/// See the module.
#[derive(Debug, Default)]
pub(in crate::ledger::claims) struct BatchBound {
    /// The key that came last, and when it last was another consumer's than the one before.
    last: Option<Key>,
    changed: Option<Instant>,
    carried: Vec<Carried>,
    /// Which of them is forgotten next.
    oldest: usize,
    /// How many commands fit into [`WITHIN`], and whether a batch came back since that was computed. A consumer that is alone
    /// does not need it.
    fits: Option<usize>,
    is_stale: bool,
}

impl BatchBound {
    /// A command of this key comes, at this instant.
    pub(in crate::ledger::claims) fn comes(&mut self, key: &Key, now: Instant) {
        match &self.last {
            Some(last) if last.namespace() == key.namespace() => {}
            last => {
                self.changed = last.as_ref().map_or(self.changed, |_| Some(now));
                self.last = Some(key.clone());
            }
        }
    }

    /// The store has carried out a batch.
    pub(in crate::ledger::claims) fn carried(&mut self, commands: usize, took: Duration) {
        let number = |value: u128| i64::try_from(value).unwrap_or(i64::MAX / 2);
        let carried = Carried { commands: number(commands as u128), nanos: number(took.as_nanos()) };
        if self.carried.len() < REMEMBERED {
            self.carried.push(carried);
        } else if let Some(oldest) = self.carried.get_mut(self.oldest) {
            *oldest = carried;
            self.oldest = (self.oldest + 1) % REMEMBERED;
        }
        self.is_stale = true;
    }

    /// The marginal time of a command, in nanoseconds: the slope of time over commands, by the estimator of Theil and Sen, the
    /// median of the slopes of all pairs. Where all batches have one size, they say nothing of it.
    fn marginal(&self) -> Option<i64> {
        let mut slopes = Vec::new();
        for (place, one) in self.carried.iter().enumerate() {
            for other in self.carried.iter().skip(place + 1) {
                let more = one.commands - other.commands;
                if more.abs() >= TELLING {
                    slopes.push((one.nanos - other.nanos) / more);
                }
            }
        }
        let middle = slopes.len() / 2;
        (slopes.len() >= PAIRS_LEAST).then(|| *slopes.select_nth_unstable(middle).1)
    }

    /// How many commands a batch may have that otherwise may have `max`.
    pub(in crate::ledger::claims) fn of(&mut self, max: usize) -> usize {
        let is_active = |at| Instant::now().saturating_duration_since(at) < ACTIVE_FOR;
        if self.changed.is_some_and(is_active) {
            if std::mem::take(&mut self.is_stale) {
                self.fits = self.marginal().map(fits).or(self.fits);
            }
            max.min(self.fits.unwrap_or_else(|| fits(ASSUMED)))
        } else {
            max
        }
    }
}

/// How many commands of this marginal time fit into a batch.
fn fits(marginal: i64) -> usize {
    let commands = WITHIN.as_nanos() / u128::try_from(marginal).unwrap_or(0).max(1);
    usize::try_from(commands).unwrap_or(usize::MAX).max(LEAST)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_batch_is_bounded_while_several_consumers_are_active() {
        // Who came, how many milliseconds ago; how many commands a batch may have, and how many it then has.
        for (came, max, expected) in [
            (&[][..], 1_000, 1_000),
            (&[("a", 500)][..], 1_000, 1_000),
            (&[("a", 500), ("a", 0)], 1_000, 1_000),
            (&[("a", 500), ("b", 0)], 1_000, 125),
            (&[("a", 500), ("b", 0)], 100, 100),
            (&[("a", 2_000), ("b", 900), ("b", 0)], 1_000, 125),
            // The other one has not come for a second.
            (&[("a", 2_000), ("b", 1_100), ("b", 0)], 1_000, 1_000),
            (&[("a", 2_000), ("b", 1_100), ("b", 0), ("a", 0)], 1_000, 125),
        ] {
            let (now, mut bound) = (Instant::now(), BatchBound::default());
            for (consumer, ago) in came {
                bound.comes(&Key::new(consumer, "s", "1"), now.checked_sub(ms(*ago)).unwrap());
            }
            assert_eq!(bound.of(max), expected, "{came:?}");
        }
    }

    #[test]
    fn it_is_what_the_store_carries_out_in_time() {
        // Batches with so many commands that took so many microseconds, and how many commands a batch may have then.
        for (what, carried, expected) in [
            ("nothing is known", &[][..], 125),
            ("one size tells nothing", &[(100, 3_000), (100, 9_000), (108, 9_000)], 125),
            ("50 us a command beside 2 ms for each statement", &[(1, 2_050), (100, 7_000), (40, 4_000)], 100),
            ("a commit takes long, and its commands do not", &[(1, 30_000), (101, 30_500)], 1_000),
            (
                "one that waited for a row is no measure",
                &[(1, 1_000), (101, 3_000), (201, 5_000), (301, 7_000), (101, 903_000)],
                250,
            ),
            ("a slow store", &[(1, 1_000), (101, 101_000)], 32),
            ("more commands took less", &[(1, 9_000), (101, 1_000)], 1_000),
        ] {
            let mut bound = BatchBound::default();
            // Five times, so that there are pairs enough.
            for (commands, microseconds) in carried.repeat(5) {
                bound.carried(commands, Duration::from_micros(microseconds));
            }
            bound.comes(&Key::new("a", "s", "1"), Instant::now());
            bound.comes(&Key::new("b", "s", "1"), Instant::now());
            assert_eq!(bound.of(1_000), expected, "{what}");
        }
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut bound = BatchBound::default();
        bound.comes(&Key::new("a", "s", "1"), Instant::now());
        bound.comes(&Key::new("b", "s", "1"), Instant::now());
        bound.carried(1, ms(1));
        for (took, expected) in [(101, 32), (2, 500)] {
            for _ in 0..REMEMBERED {
                bound.carried(1, ms(1));
                bound.carried(101, ms(took));
            }
            assert_eq!(bound.of(1_000), expected, "{took} ms");
        }
        assert_eq!(bound.carried.len(), REMEMBERED);
    }
}

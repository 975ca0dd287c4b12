//! Whether several consumers are served at once: then batches are small, so that no consumer waits long for the batch of
//! another one, nor for what another one adds to its own.

use std::time::Duration;

use crate::domain::Key;
use crate::ledger::runtime::Instant;

/// So many commands a batch has at the most while several consumers are served, and so many are worth a batch beside one
/// that is under way. It takes an eighth of the time of one for a thousand.
const BATCH_MAX: usize = 128;
/// For so long after one consumer came behind another one, both of them are taken to be there.
const FOR: Duration = Duration::from_secs(1);

/// Who came last, and when it last was another one than before.
#[derive(Debug, Default)]
pub(super) struct Mix {
    last: Option<Key>,
    changed: Option<Instant>,
}

impl Mix {
    /// A command of this key comes, at this instant.
    pub(super) fn comes(&mut self, key: &Key, now: Instant) {
        match &self.last {
            Some(last) if last.namespace() == key.namespace() => {}
            last => {
                self.changed = last.as_ref().map_or(self.changed, |_| Some(now));
                self.last = Some(key.clone());
            }
        }
    }

    /// Whether several consumers are served.
    pub(super) fn is_mixed(&self, now: Instant) -> bool {
        self.changed.is_some_and(|at| now.saturating_duration_since(at) < FOR)
    }

    /// How many commands a batch may have that otherwise may have `max`.
    pub(super) fn batch_max(&self, max: usize) -> usize {
        if self.changed.is_some() && self.is_mixed(Instant::now()) { max.min(BATCH_MAX) } else { max }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_small_while_several_consumers_are_served() {
        // Who came, how many milliseconds ago; how many commands a batch may have, and how many it then has.
        for (came, max, expected) in [
            (&[][..], 1_000, 1_000),
            (&[("a", 500)][..], 1_000, 1_000),
            (&[("a", 500), ("a", 0)], 1_000, 1_000),
            (&[("a", 500), ("b", 0)], 1_000, 128),
            (&[("a", 500), ("b", 0)], 100, 100),
            (&[("a", 2_000), ("b", 900), ("b", 0)], 1_000, 128),
            // The other one has not come for a second.
            (&[("a", 2_000), ("b", 1_100), ("b", 0)], 1_000, 1_000),
            (&[("a", 2_000), ("b", 1_100), ("b", 0), ("a", 0)], 1_000, 128),
        ] {
            let (now, mut mix) = (Instant::now(), Mix::default());
            for (consumer, ago) in came {
                let at = now.checked_sub(Duration::from_millis(*ago)).unwrap();
                mix.comes(&Key::new(consumer, "s", "1"), at);
            }
            assert_eq!(mix.batch_max(max), expected, "{came:?}");
        }
    }
}

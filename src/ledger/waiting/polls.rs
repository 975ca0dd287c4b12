//! The schedule of the polls: when keys for which calls wait are loaded, and when their lease or backoff is over. Pure.
//!
//! A key is loaded 100 ms after its first call began to wait, and then after twice as long as before, up to a second. One
//! statement loads all keys that are due, at most a thousand. The next statement follows 100 ms later, or after the time
//! that its keys take at 5,000 a second: with many keys the interval grows.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::domain::{Key, KeyHash};
use crate::ledger::runtime::Instant;
use crate::store::ROWS_MAX;

/// Time from the start of a wait to the first load of its key, and shortest time between two statements.
pub(super) const FIRST: Duration = Duration::from_millis(100);
/// Longest time between two loads of a key.
const LAST: Duration = Duration::from_secs(1);
/// Time of one key at 5,000 loads a second.
const EACH: Duration = Duration::from_micros(200);
/// Shortest time until a lease or backoff is checked: a store clock that stands still must not keep the server busy.
const DUE_MIN: Duration = Duration::from_millis(20);

#[derive(Debug)]
struct Plan {
    key: Key,
    /// Time from the last load to the next.
    every: Duration,
    load_at: Instant,
    /// When the key may be granted without a change of the entry.
    due_at: Option<Instant>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Polls {
    plans: HashMap<KeyHash, Plan>,
    loads: BTreeSet<(Instant, KeyHash)>,
    dues: BTreeSet<(Instant, KeyHash)>,
    /// When the next statement may be sent.
    next_at: Option<Instant>,
}

impl Polls {
    /// Adds a key for which a call begins to wait.
    pub(super) fn begin(&mut self, key: &Key, now: Instant) {
        let (hash, load_at) = (key.hash(), now + FIRST);
        if let Some(plan) = self.plans.get_mut(&hash) {
            self.loads.remove(&(plan.load_at, hash));
            (plan.every, plan.load_at) = (FIRST, plan.load_at.min(load_at));
            self.loads.insert((plan.load_at, hash));
            return;
        }
        self.loads.insert((load_at, hash));
        self.plans.insert(hash, Plan { key: key.clone(), every: FIRST, load_at, due_at: None });
    }

    /// Removes a key for which no call waits any more.
    pub(super) fn end(&mut self, hash: KeyHash) {
        if let Some(plan) = self.plans.remove(&hash) {
            self.loads.remove(&(plan.load_at, hash));
            plan.due_at.map(|due_at| self.dues.remove(&(due_at, hash)));
        }
    }

    /// Records that the key may be granted after this time, if nothing changes.
    pub(super) fn is_due_after(&mut self, hash: KeyHash, time: Duration, now: Instant) {
        let Some(plan) = self.plans.get_mut(&hash) else { return };
        let due_at = now + time.max(DUE_MIN);
        if let Some(before) = plan.due_at.replace(due_at) {
            self.dues.remove(&(before, hash));
        }
        self.dues.insert((due_at, hash));
    }

    /// Makes the next statement load the key.
    pub(super) fn load_soon(&mut self, hash: KeyHash, now: Instant) {
        let Some(plan) = self.plans.get_mut(&hash) else { return };
        self.loads.remove(&(plan.load_at, hash));
        (plan.every, plan.load_at) = (FIRST, plan.load_at.min(now));
        self.loads.insert((plan.load_at, hash));
    }

    /// Removes and returns the keys whose lease or backoff is over by now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<KeyHash> {
        let mut due = Vec::new();
        while let Some((at, hash)) = self.dues.first().copied().filter(|(at, _)| *at <= now) {
            self.dues.remove(&(at, hash));
            if let Some(plan) = self.plans.get_mut(&hash) {
                plan.due_at = None;
            }
            due.push(hash);
        }
        due
    }

    /// The keys of the next statement. Empty if none is due now.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Key> {
        if self.next_at.is_some_and(|at| now < at) {
            return Vec::new();
        }
        let mut keys = Vec::new();
        while let Some((at, hash)) = self.loads.first().copied().filter(|(at, _)| *at <= now) {
            if keys.len() == ROWS_MAX {
                break;
            }
            self.loads.remove(&(at, hash));
            if let Some(plan) = self.plans.get_mut(&hash) {
                plan.every = (plan.every * 2).min(LAST);
                plan.load_at = now + plan.every;
                self.loads.insert((plan.load_at, hash));
                keys.push(plan.key.clone());
            }
        }
        if !keys.is_empty() {
            let took = EACH * u32::try_from(keys.len()).unwrap_or(u32::MAX);
            self.next_at = Some(now + took.max(FIRST));
        }
        keys
    }

    /// When something is due next. `None` if no call waits.
    pub(super) fn next(&self) -> Option<Instant> {
        let load_at = self.loads.first().map(|(at, _)| self.next_at.map_or(*at, |next| next.max(*at)));
        let due_at = self.dues.first().map(|(at, _)| *at);
        load_at.into_iter().chain(due_at).min()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn key(number: usize) -> Key {
        Key::new("c", "s", &number.to_string())
    }

    #[test]
    fn a_key_is_loaded_after_100_ms_and_then_less_often_up_to_once_a_second() {
        let (mut polls, start) = (Polls::default(), Instant::now());
        polls.begin(&key(1), start);
        let mut loads = Vec::new();
        for milli in 0..5_000 {
            if !polls.take_due(start + MILLI * milli).is_empty() {
                loads.push(milli);
            }
        }
        assert_eq!(loads, [100, 300, 700, 1_500, 2_500, 3_500, 4_500]);
        polls.end(key(1).hash());
        assert_eq!(polls.next(), None);
        assert!(polls.loads.is_empty() && polls.dues.is_empty(), "nothing is kept");
    }

    #[test]
    fn calls_that_begin_to_wait_later_do_not_put_off_the_load_of_their_key() {
        let (mut polls, start) = (Polls::default(), Instant::now());
        let mut loads = Vec::new();
        for milli in 0..1_000 {
            let now = start + MILLI * milli;
            polls.begin(&key(1), now);
            if !polls.take_due(now).is_empty() {
                loads.push(milli);
            }
        }
        assert_eq!(loads.first(), Some(&100));
        assert!(loads.len() >= 5, "a key with new calls is loaded often: {loads:?}");
    }

    #[test]
    fn many_keys_are_loaded_at_5000_a_second_in_statements_of_1000() {
        let (mut polls, start) = (Polls::default(), Instant::now());
        (0..10_000).for_each(|number| polls.begin(&key(number), start));
        let (mut keys, mut statements) = (0, 0);
        for milli in 0..4_000 {
            let loaded = polls.take_due(start + MILLI * milli).len();
            assert!(loaded <= 1_000);
            (keys, statements) = (keys + loaded, statements + usize::from(loaded > 0));
        }
        assert!((18_000..=20_000).contains(&keys), "{keys} keys in 4 s");
        assert!((18..=20).contains(&statements), "{statements} statements in 4 s");
    }

    #[test]
    fn few_keys_are_loaded_by_ten_statements_a_second_at_most() {
        let (mut polls, start) = (Polls::default(), Instant::now());
        let mut statements = 0;
        for milli in 0..1_000 {
            let now = start + MILLI * milli;
            polls.begin(&key(milli as usize), now);
            statements += usize::from(!polls.take_due(now).is_empty());
        }
        assert!((8..=10).contains(&statements), "{statements}");
    }

    #[test]
    fn a_lease_that_is_over_is_due_once_and_a_change_is_loaded_next() {
        let (mut polls, start) = (Polls::default(), Instant::now());
        polls.begin(&key(1), start);
        let hash = key(1).hash();
        polls.is_due_after(hash, MILLI * 70, start);
        polls.is_due_after(hash, MILLI * 50, start);
        assert_eq!(polls.next(), Some(start + MILLI * 50));
        assert!(polls.due(start + MILLI * 49).is_empty());
        assert_eq!(polls.due(start + MILLI * 50), [hash]);
        assert!(polls.due(start + MILLI * 90).is_empty(), "the earlier time counts no more");
        polls.is_due_after(hash, Duration::ZERO, start);
        assert_eq!(polls.next(), Some(start + DUE_MIN), "never without a pause");
        polls.load_soon(hash, start);
        assert_eq!(polls.take_due(start).len(), 1);
    }
}

//! The schedule of fetching and dropping keys: a pure function of events and instants, without a clock or a network.

use std::time::Duration;

use tokio::time::Instant;

/// The delay after the first failure; it doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The minimum time between two fetches for unknown keys: anyone can send such tokens.
const UNKNOWN_KEYS_EVERY: Duration = Duration::from_mins(1);
/// The maximum number of doublings: 2^16 s are 18 hours.
const DOUBLINGS_MAX: u32 = 16;
/// Jitter: a wait is 900 to 1100 thousandths of its nominal length, so that servers that started together do not fetch together.
const LEAST: u32 = 900;
pub(super) const SPREAD: u32 = 200;

/// The times of refreshing and dropping keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) struct Times {
    /// The time between a successful fetch and the next one.
    pub(in crate::server) refresh: Duration,
    /// How long keys stay in force after the last successful fetch. Must be longer than `refresh`, else they are dropped
    /// between two fetches.
    pub(in crate::server) keep: Duration,
}

#[cfg(test)]
impl Times {
    pub(super) const DEFAULT: Times =
        Times { refresh: Duration::from_mins(5), keep: Duration::from_hours(24) };
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Fetch,
    /// Drop the keys, which are too old.
    Drop,
    /// Wait until this instant, or until a token names an unknown key.
    Wait(Instant),
}

/// The state of one issuer's keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    times: Times,
    /// When the keys in force were fetched.
    good: Option<Instant>,
    /// The next regular fetch; `None` if it is due immediately.
    due: Option<Instant>,
    /// The number of consecutive failures.
    failures: u32,
    unknown_key: bool,
    /// The last fetch for an unknown key.
    asked_for: Option<Instant>,
}

impl Plan {
    /// A new plan; `good` is when the keys in force were fetched, if there are any.
    pub(super) fn new(times: Times, good: Option<Instant>) -> Plan {
        Plan { times, good, due: None, failures: 0, unknown_key: false, asked_for: None }
    }

    pub(super) fn next(&self, now: Instant) -> Action {
        let Some(due) = self.due else { return Action::Fetch };
        let too_old = self.good.map(|good| good + self.times.keep);
        if too_old.is_some_and(|at| at <= now) {
            return Action::Drop;
        }
        let asked = self.unknown_key.then(|| self.asked_for.map_or(now, |last| last + UNKNOWN_KEYS_EVERY));
        let fetch = asked.map_or(due, |asked| asked.min(due));
        if fetch <= now {
            return Action::Fetch;
        }
        Action::Wait(too_old.map_or(fetch, |too_old| too_old.min(fetch)))
    }

    /// Records that a token names an unknown key.
    pub(super) fn saw_unknown_key(&mut self) {
        self.unknown_key = true;
    }

    pub(super) fn knows_of_unknown_key(&self) -> bool {
        self.unknown_key
    }

    /// Records that a fetch begins. Unknown keys that are seen from now on may have been published too late for it.
    pub(super) fn begins(&mut self, now: Instant) {
        if std::mem::take(&mut self.unknown_key) {
            self.asked_for = Some(now);
        }
    }

    /// Records a successful fetch; the random `chance` is at most [`SPREAD`].
    pub(super) fn fetched(&mut self, now: Instant, chance: u32) {
        (self.good, self.failures) = (Some(now), 0);
        self.due = Some(now + about(self.times.refresh, chance));
    }

    /// Records a failed fetch; returns for how long earlier keys stay in force, if there are any.
    pub(super) fn failed(&mut self, now: Instant, chance: u32) -> Option<Duration> {
        let wait = FIRST_RETRY * 2_u32.pow(self.failures.min(DOUBLINGS_MAX));
        self.failures = self.failures.saturating_add(1);
        self.due = Some(now + about(wait.min(self.times.refresh), chance));
        self.good.map(|good| (good + self.times.keep).saturating_duration_since(now))
    }

    /// The number of failed fetches since the last successful one.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Records that the keys were dropped.
    pub(super) fn dropped(&mut self) {
        self.good = None;
    }
}

/// A wait with a jitter of ±10 %.
fn about(wait: Duration, chance: u32) -> Duration {
    wait.saturating_mul(LEAST + chance.min(SPREAD)) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The middle of the jitter: the nominal length.
    const EXACT: u32 = 100;
    const TIMES: Times = Times { refresh: Duration::from_mins(5), keep: Duration::from_secs(1_000) };

    #[derive(Clone, Copy, Debug)]
    enum Happens {
        Fetched,
        Failed,
        UnknownKey,
        Dropped,
    }
    use Happens::{Dropped, Failed, Fetched, UnknownKey};

    /// An event or action, with its second. A wait has the second at which it ends.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Does {
        Fetches,
        Drops,
        Waits(u64),
    }
    use Does::{Drops, Fetches, Waits};

    fn after(start: Instant, all: &[(u64, Happens)]) -> Plan {
        let mut plan = Plan::new(TIMES, None);
        for (second, happens) in all {
            let now = start + Duration::from_secs(*second);
            match happens {
                Fetched => {
                    plan.begins(now);
                    plan.fetched(now, EXACT);
                }
                Failed => {
                    plan.begins(now);
                    plan.failed(now, EXACT);
                }
                UnknownKey => plan.saw_unknown_key(),
                Dropped => plan.dropped(),
            }
        }
        plan
    }

    #[test]
    fn next_action_follows_from_events() {
        let start = Instant::now();
        for (happened, at, does) in [
            (&[][..], 0, Fetches),
            // After a successful fetch, the next one follows after `refresh`.
            (&[(0, Fetched)], 0, Waits(300)),
            (&[(0, Fetched)], 299, Waits(300)),
            (&[(0, Fetched)], 300, Fetches),
            // Failures at the start: retries with growing delays.
            (&[(0, Failed)], 0, Waits(1)),
            (&[(0, Failed)], 1, Fetches),
            (&[(0, Failed), (1, Failed)], 1, Waits(3)),
            (&[(0, Failed), (1, Failed), (3, Failed)], 3, Waits(7)),
            (&[(0, Failed), (1, Failed), (3, Fetched)], 3, Waits(303)),
            (&[(0, Failed), (1, Fetched), (301, Failed)], 301, Waits(302)),
            // A delay is not longer than `refresh`.
            (&[(0, Failed); 9], 0, Waits(256)),
            (&[(0, Failed); 10], 0, Waits(300)),
            (&[(0, Failed); 99], 0, Waits(300)),
            // For an unknown key: a fetch immediately, and then once a minute.
            (&[(0, Fetched), (10, UnknownKey)], 10, Fetches),
            (&[(0, Fetched), (10, UnknownKey), (10, Fetched)], 10, Waits(310)),
            (&[(0, Fetched), (10, UnknownKey), (10, Fetched), (11, UnknownKey)], 11, Waits(70)),
            (&[(0, Fetched), (10, UnknownKey), (10, Fetched), (11, UnknownKey)], 70, Fetches),
            (&[(0, Fetched), (10, UnknownKey), (10, Fetched), (305, UnknownKey)], 305, Fetches),
            // Also if the fetch for it failed: that one is retried like any other.
            (&[(0, Fetched), (10, UnknownKey), (10, Failed)], 10, Waits(11)),
            (&[(0, Fetched), (10, UnknownKey), (10, Failed), (10, UnknownKey)], 10, Waits(11)),
            (&[(0, Failed), (0, UnknownKey)], 0, Fetches),
            // The last keys stay in force for `keep`, and no longer.
            (&[(0, Fetched), (300, Failed)], 300, Waits(301)),
            (&[(0, Fetched), (990, Failed), (991, Failed), (993, Failed), (997, Failed)], 997, Waits(1_000)),
            (&[(0, Fetched), (999, Failed)], 1_000, Drops),
            (&[(0, Fetched), (999, Failed), (1_000, Dropped)], 1_000, Fetches),
            (&[(0, Fetched), (999, Failed), (1_000, Dropped), (1_000, Failed)], 1_000, Waits(1_002)),
            (&[(0, Fetched), (999, Failed), (1_000, Dropped), (1_000, Fetched)], 1_999, Fetches),
            (&[(0, Fetched), (999, Fetched)], 1_200, Waits(1_299)),
        ] {
            let does = match does {
                Fetches => Action::Fetch,
                Drops => Action::Drop,
                Waits(until) => Action::Wait(start + Duration::from_secs(until)),
            };
            let plan = after(start, happened);
            assert_eq!(plan.next(start + Duration::from_secs(at)), does, "at {at} after {happened:?}");
        }
    }

    #[test]
    fn failed_returns_for_how_long_keys_stay_in_force() {
        let start = Instant::now();
        for (happened, at, seconds) in [
            (&[][..], 0, None),
            (&[(0, Failed)], 1, None),
            (&[(0, Fetched)], 0, Some(1_000)),
            (&[(0, Fetched), (1, Failed)], 3, Some(997)),
            (&[(5, Fetched), (6, Failed)], 6, Some(999)),
            // The fetch began before the end, and failed after it.
            (&[(0, Fetched)], 1_001, Some(0)),
            (&[(0, Fetched), (1, Failed), (2, Dropped)], 3, None),
        ] {
            let failed = after(start, happened).failed(start + Duration::from_secs(at), EXACT);
            assert_eq!(failed, seconds.map(Duration::from_secs), "at {at} after {happened:?}");
        }
    }

    #[test]
    fn new_with_earlier_keys_keeps_them() {
        let start = Instant::now();
        let mut plan = Plan::new(TIMES, Some(start));
        assert_eq!(plan.next(start), Action::Fetch);
        let failed_at = start + Duration::from_millis(999_500);
        assert_eq!(plan.failed(failed_at, EXACT), Some(Duration::from_millis(500)));
        assert_eq!(plan.next(failed_at), Action::Wait(start + TIMES.keep));
        assert_eq!(plan.next(start + TIMES.keep), Action::Drop);
    }

    #[test]
    fn waits_vary_by_at_most_a_tenth() {
        let second = Duration::from_secs(1);
        for (chance, millis) in [(0, 900), (EXACT, 1_000), (SPREAD, 1_100), (u32::MAX, 1_100)] {
            assert_eq!(about(second, chance), Duration::from_millis(millis), "{chance}");
        }
    }
}

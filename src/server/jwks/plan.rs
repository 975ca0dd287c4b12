//! When keys are fetched and when they are dropped: decided from what happened and the time alone, without a clock or a
//! network.

use std::time::Duration;

use tokio::time::Instant;

/// After the first failure; then twice as long after each.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// How far apart two fetches are that unknown keys ask for: anybody can make such tokens.
const UNKNOWN_KEYS_EVERY: Duration = Duration::from_mins(1);
/// 2^16 s are most of a day.
const DOUBLINGS_MAX: u32 = 16;
/// A wait is 900 to 1100 thousandths of what it should be: servers that started at once do not fetch at once.
const LEAST: u32 = 900;
pub(super) const SPREAD: u32 = 200;

/// How long keys last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) struct Times {
    /// How long after a good fetch the next one is made.
    pub(in crate::server) refresh: Duration,
    /// How long after the last good fetch its keys stay in force: longer than `refresh`, or they come and go.
    pub(in crate::server) keep: Duration,
}

#[cfg(test)]
impl Times {
    pub(super) const DEFAULT: Times =
        Times { refresh: Duration::from_mins(5), keep: Duration::from_hours(24) };
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Fetch,
    /// The keys are too old.
    Drop,
    /// Nothing until then, unless an unknown key is seen.
    Wait(Instant),
}

/// What happened so far to one issuer's keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    times: Times,
    /// When the keys that are in force were fetched.
    good: Option<Instant>,
    /// The next fetch that nobody needs to ask for. None: at once.
    due: Option<Instant>,
    /// In a row.
    failures: u32,
    unknown_key: bool,
    /// The last fetch that an unknown key asked for.
    asked_for: Option<Instant>,
}

impl Plan {
    /// With keys that are in force already, if there are any, as if they had been fetched then.
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

    /// A token of a key that is not there.
    pub(super) fn saw_unknown_key(&mut self) {
        self.unknown_key = true;
    }

    pub(super) fn knows_of_unknown_key(&self) -> bool {
        self.unknown_key
    }

    /// A fetch begins. Unknown keys that are seen from now on may have been published too late for it.
    pub(super) fn begins(&mut self, now: Instant) {
        if std::mem::take(&mut self.unknown_key) {
            self.asked_for = Some(now);
        }
    }

    /// It ended well; the chance is below [`SPREAD`] + 1.
    pub(super) fn fetched(&mut self, now: Instant, chance: u32) {
        (self.good, self.failures) = (Some(now), 0);
        self.due = Some(now + about(self.times.refresh, chance));
    }

    /// It failed. Answers whether the keys before it are still in force.
    pub(super) fn failed(&mut self, now: Instant, chance: u32) -> bool {
        let wait = FIRST_RETRY * 2_u32.pow(self.failures.min(DOUBLINGS_MAX));
        self.failures = self.failures.saturating_add(1);
        self.due = Some(now + about(wait.min(self.times.refresh), chance));
        self.good.is_some()
    }

    /// How many fetches failed since the last good one.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// The keys are no longer in force.
    pub(super) fn dropped(&mut self) {
        self.good = None;
    }
}

/// So long, give or take a tenth.
fn about(wait: Duration, chance: u32) -> Duration {
    wait.saturating_mul(LEAST + chance.min(SPREAD)) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The middle: as long as it should be.
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

    /// What happens at which second, and what is done next at which second. A wait is until which second.
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
    fn what_is_done_next_follows_from_what_happened() {
        let start = Instant::now();
        for (happened, at, does) in [
            (&[][..], 0, Fetches),
            // A good fetch: the next one after the time that is set.
            (&[(0, Fetched)], 0, Waits(300)),
            (&[(0, Fetched)], 299, Waits(300)),
            (&[(0, Fetched)], 300, Fetches),
            // Failures at the start: again and again, ever later.
            (&[(0, Failed)], 0, Waits(1)),
            (&[(0, Failed)], 1, Fetches),
            (&[(0, Failed), (1, Failed)], 1, Waits(3)),
            (&[(0, Failed), (1, Failed), (3, Failed)], 3, Waits(7)),
            (&[(0, Failed), (1, Failed), (3, Fetched)], 3, Waits(303)),
            (&[(0, Failed), (1, Fetched), (301, Failed)], 301, Waits(302)),
            // Not later than the time that is set.
            (&[(0, Failed); 9], 0, Waits(256)),
            (&[(0, Failed); 10], 0, Waits(300)),
            (&[(0, Failed); 99], 0, Waits(300)),
            // An unknown key: at once, and then once a minute.
            (&[(0, Fetched), (10, UnknownKey)], 10, Fetches),
            (&[(0, Fetched), (10, UnknownKey), (10, Fetched)], 10, Waits(310)),
            (&[(0, Fetched), (10, UnknownKey), (10, Fetched), (11, UnknownKey)], 11, Waits(70)),
            (&[(0, Fetched), (10, UnknownKey), (10, Fetched), (11, UnknownKey)], 70, Fetches),
            (&[(0, Fetched), (10, UnknownKey), (10, Fetched), (305, UnknownKey)], 305, Fetches),
            // Also when the fetch that it asked for failed: that one is tried again, as any.
            (&[(0, Fetched), (10, UnknownKey), (10, Failed)], 10, Waits(11)),
            (&[(0, Fetched), (10, UnknownKey), (10, Failed), (10, UnknownKey)], 10, Waits(11)),
            (&[(0, Failed), (0, UnknownKey)], 0, Fetches),
            // The last good keys stay in force, and then no longer.
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
    fn keys_are_in_force_while_they_are_kept() {
        let start = Instant::now();
        for (happened, in_force) in [
            (&[][..], false),
            (&[(0, Failed)], false),
            (&[(0, Fetched)], true),
            (&[(0, Fetched), (1, Failed)], true),
            (&[(0, Fetched), (1, Failed), (2, Dropped)], false),
        ] {
            assert_eq!(after(start, happened).failed(start, EXACT), in_force, "{happened:?}");
        }
    }

    #[test]
    fn keys_from_before_are_kept_as_those_that_were_fetched() {
        let start = Instant::now();
        let mut plan = Plan::new(TIMES, Some(start));
        assert_eq!(plan.next(start), Action::Fetch);
        let failed_at = start + Duration::from_millis(999_500);
        assert!(plan.failed(failed_at, EXACT));
        assert_eq!(plan.next(failed_at), Action::Wait(start + TIMES.keep));
        assert_eq!(plan.next(start + TIMES.keep), Action::Drop);
    }

    #[test]
    fn waits_differ_by_a_tenth_at_the_most() {
        let second = Duration::from_secs(1);
        for (chance, millis) in [(0, 900), (EXACT, 1_000), (SPREAD, 1_100), (u32::MAX, 1_100)] {
            assert_eq!(about(second, chance), Duration::from_millis(millis), "{chance}");
        }
    }
}

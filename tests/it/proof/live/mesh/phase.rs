//! A phase of the run: from when to when, what it has cost the callers, and why.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::proof::history::Outcome;
use crate::proof::live::world::{World, now};

/// Errors that say what was wrong: the ledger's, Envoy's, and those of the clients' own deadlines.
const EXPLAINED: [&str; 5] = [
    "the ledger: ",
    "on the way: Unavailable: upstream ",
    "on the way: DeadlineExceeded: downstream duration timeout",
    "on the way: Cancelled: Timeout expired",
    "the client gave up",
];

pub(super) struct Phase {
    from: i64,
    calls: u64,
}

/// What it has cost.
pub(super) struct Cost {
    pub(super) calls: u64,
    pub(super) failed: u64,
    /// Of those that were answered, in microseconds.
    pub(super) p99: i64,
    slowest: i64,
    why: BTreeMap<String, u64>,
}

impl Phase {
    pub(super) fn begin(world: &World) -> Phase {
        Phase { from: now(), calls: world.calls.load(Ordering::Relaxed) }
    }

    /// Of the calls that began meanwhile.
    pub(super) fn end(self, world: &Arc<World>) -> Cost {
        let (from, to) = (self.from, now());
        let during = |at: i64| (from..to).contains(&at);
        let mut why = BTreeMap::new();
        for failure in world.failures.lock().unwrap().iter().filter(|failure| during(failure.at)) {
            *why.entry(failure.why.clone()).or_default() += 1;
        }
        let mut took = Vec::new();
        for key in world.keys() {
            let events = key.events.lock().unwrap();
            let answered =
                events.iter().filter(|event| during(event.invoked) && event.outcome != Outcome::Unknown);
            took.extend(answered.map(|event| event.returned - event.invoked));
        }
        took.sort_unstable();
        Cost {
            calls: world.calls.load(Ordering::Relaxed) - self.calls,
            failed: why.values().sum(),
            p99: took.get(took.len() * 99 / 100).copied().unwrap_or_default(),
            slowest: took.last().copied().unwrap_or_default(),
            why,
        }
    }
}

impl Cost {
    /// The first error that nobody can explain.
    pub(super) fn unexplained(&self) -> Option<&String> {
        self.why.keys().find(|why| !EXPLAINED.iter().any(|known| why.starts_with(known)))
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost { calls, failed, p99, slowest, why } = self;
        write!(
            to,
            "{failed} of {calls} calls failed, p99 {} ms, slowest {} ms",
            p99 / 1_000,
            slowest / 1_000
        )?;
        let why: Vec<String> = why.iter().map(|(why, times)| format!("{times} {why}")).collect();
        if why.is_empty() { Ok(()) } else { write!(to, " ({})", why.join("; ")) }
    }
}

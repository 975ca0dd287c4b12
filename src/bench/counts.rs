//! The counts of a running load: calls with their latencies, refusals with their reasons.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::cli::problem::Problem;

/// In microseconds: an hour. A longer latency counts as this.
const LATENCY_MAX: u64 = 3_600_000_000;
/// The number of decimal digits of a latency that are kept.
const DIGITS: u8 = 3;
/// The number of shards, so that virtual clients hardly ever wait for each other's lock.
const SHARDS: usize = 8;

/// A kind of call that is measured; with batches, the batch call of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Claim,
    Complete,
    Release,
    Renew,
}

impl CallKind {
    pub(super) const ALL: [CallKind; 4] =
        [CallKind::Claim, CallKind::Complete, CallKind::Release, CallKind::Renew];

    /// Its name on the wire; a batch call is followed by the kind of its items.
    pub(super) fn name(self, batch: u32) -> &'static str {
        match (self, batch) {
            (CallKind::Claim, 1) => "Claim",
            (CallKind::Complete, 1) => "Complete",
            (CallKind::Release, 1) => "Release",
            (CallKind::Renew, 1) => "Renew",
            (CallKind::Claim, _) => "BatchClaim",
            (CallKind::Complete | CallKind::Release | CallKind::Renew, _) => "BatchSettle",
        }
    }
}

/// A histogram of microseconds.
pub(super) type Latencies = Histogram<u64>;

/// The counts of a period of time.
#[derive(Clone, Debug)]
pub(super) struct LoadCounts {
    latencies: [Latencies; CallKind::ALL.len()],
    /// Of calls that were refused as a whole.
    pub(super) refusals: Latencies,
    /// The items that the workload counts.
    pub(super) items: u64,
    /// Entries that the ledger did not have before.
    pub(super) created: u64,
    /// By reason; items of batches one by one.
    pub(super) refused: BTreeMap<String, u64>,
}

impl LoadCounts {
    pub(super) fn new() -> Result<LoadCounts, Problem> {
        let none = Latencies::new_with_bounds(1, LATENCY_MAX, DIGITS)
            .map_err(|error| Problem::failed(format!("latencies cannot be counted: {error}")))?;
        Ok(LoadCounts {
            latencies: CallKind::ALL.map(|_| none.clone()),
            refusals: none,
            items: 0,
            created: 0,
            refused: BTreeMap::new(),
        })
    }

    pub(super) fn of(&self, call: CallKind) -> &Latencies {
        let [claim, complete, release, renew] = &self.latencies;
        match call {
            CallKind::Claim => claim,
            CallKind::Complete => complete,
            CallKind::Release => release,
            CallKind::Renew => renew,
        }
    }

    fn of_mut(&mut self, call: CallKind) -> &mut Latencies {
        let [claim, complete, release, renew] = &mut self.latencies;
        match call {
            CallKind::Claim => claim,
            CallKind::Complete => complete,
            CallKind::Release => release,
            CallKind::Renew => renew,
        }
    }

    /// Counts an answered call.
    pub(super) fn answered(&mut self, call: CallKind, took: Duration) {
        self.of_mut(call).saturating_record(micros(took));
    }

    pub(super) fn refused(&mut self, word: &str, items: u64) {
        if let Some(count) = self.refused.get_mut(word) {
            *count += items;
        } else {
            self.refused.insert(word.to_owned(), items);
        }
    }

    /// The latencies of all answered calls.
    pub(super) fn all(&self) -> Latencies {
        let mut all = self.latencies[0].clone();
        for one in &self.latencies[1..] {
            // All histograms have the same bounds.
            let _added = all.add(one);
        }
        all
    }

    pub(super) fn refused_in_all(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Moves the counts of `from` into these.
    fn take(&mut self, from: &mut LoadCounts) {
        let pairs = self.latencies.iter_mut().zip(&mut from.latencies);
        for (into, one) in pairs.chain([(&mut self.refusals, &mut from.refusals)]) {
            if !one.is_empty() {
                let _added = into.add(&*one);
                one.reset();
            }
        }
        self.items += std::mem::take(&mut from.items);
        self.created += std::mem::take(&mut from.created);
        for (word, count) in std::mem::take(&mut from.refused) {
            *self.refused.entry(word).or_default() += count;
        }
    }

    pub(super) fn add(&mut self, mut more: LoadCounts) {
        self.take(&mut more);
    }
}

fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(LATENCY_MAX).max(1)
}

/// The counts of all virtual clients.
#[derive(Debug)]
pub(super) struct Tallies {
    shards: Vec<Mutex<LoadCounts>>,
    empty: LoadCounts,
}

impl Tallies {
    pub(super) fn new() -> Result<Tallies, Problem> {
        let none = LoadCounts::new()?;
        Ok(Tallies { shards: (0..SHARDS).map(|_| Mutex::new(none.clone())).collect(), empty: none })
    }

    /// The counts of the virtual client with this number.
    pub(super) fn shard(&self, number: usize) -> MutexGuard<'_, LoadCounts> {
        self.shards[number % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counts since the last call.
    pub(super) fn take(&self) -> LoadCounts {
        let mut taken = self.empty.clone();
        for number in 0..SHARDS {
            taken.take(&mut self.shard(number));
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_returns_each_count_once() {
        let tallies = Tallies::new().unwrap();
        for number in 0..100 {
            let mut tally = tallies.shard(number);
            let call = if number < 60 { CallKind::Claim } else { CallKind::Complete };
            tally.answered(call, Duration::from_micros(1_000 * (number as u64 + 1)));
            tally.items += 1;
            tally.refused("OVERLOADED", 2);
        }
        let mut taken = tallies.take();
        assert_eq!((taken.items, taken.refused_in_all(), taken.of(CallKind::Claim).len()), (100, 200, 60));
        let p99 = taken.all().value_at_quantile(0.99);
        assert!((98_000..=100_000).contains(&p99), "{p99}");
        assert_eq!(tallies.take().all().len(), 0, "it was taken before");
        tallies.shard(3).answered(CallKind::Claim, Duration::from_hours(9));
        taken.add(tallies.take());
        assert!(taken.all().max() >= LATENCY_MAX && taken.all().len() == 101);
    }
}

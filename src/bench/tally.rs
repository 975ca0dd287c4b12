//! What is counted while the load runs: calls with their latencies, refusals with their reasons.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::cli::problem::Problem;

/// In microseconds: an hour. What takes longer counts as this.
const LATENCY_MAX: u64 = 3_600_000_000;
/// A latency is kept to so many decimal digits.
const DIGITS: u8 = 3;
/// Calls in flight share so many tallies, so that they hardly ever wait for each other.
const SHARDS: usize = 8;

/// A call that is measured; in batches, the batch call of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Claim,
    Complete,
    Release,
    Renew,
}

impl Call {
    pub(super) const ALL: [Call; 4] = [Call::Claim, Call::Complete, Call::Release, Call::Renew];

    /// Its name on the wire; with more than one item, what the batch is of stands behind.
    pub(super) fn name(self, batch: u32) -> &'static str {
        match (self, batch) {
            (Call::Claim, 1) => "Claim",
            (Call::Complete, 1) => "Complete",
            (Call::Release, 1) => "Release",
            (Call::Renew, 1) => "Renew",
            (Call::Claim, _) => "BatchClaim",
            (Call::Complete | Call::Release | Call::Renew, _) => "BatchSettle",
        }
    }
}

/// Microseconds by how often they were measured.
pub(super) type Latencies = Histogram<u64>;

/// Counts of some stretch of time.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    latencies: [Latencies; Call::ALL.len()],
    /// Of calls that were refused as a whole.
    pub(super) refusals: Latencies,
    /// What the workload counts.
    pub(super) items: u64,
    /// Entries that the ledger did not have before.
    pub(super) created: u64,
    /// By reason; items of batches one by one.
    pub(super) refused: BTreeMap<String, u64>,
}

impl Tally {
    pub(super) fn new() -> Result<Tally, Problem> {
        let none = Latencies::new_with_bounds(1, LATENCY_MAX, DIGITS)
            .map_err(|error| Problem::failed(format!("latencies cannot be counted: {error}")))?;
        Ok(Tally {
            latencies: Call::ALL.map(|_| none.clone()),
            refusals: none,
            items: 0,
            created: 0,
            refused: BTreeMap::new(),
        })
    }

    pub(super) fn of(&self, call: Call) -> &Latencies {
        let [claim, complete, release, renew] = &self.latencies;
        match call {
            Call::Claim => claim,
            Call::Complete => complete,
            Call::Release => release,
            Call::Renew => renew,
        }
    }

    fn of_mut(&mut self, call: Call) -> &mut Latencies {
        let [claim, complete, release, renew] = &mut self.latencies;
        match call {
            Call::Claim => claim,
            Call::Complete => complete,
            Call::Release => release,
            Call::Renew => renew,
        }
    }

    /// An answered call.
    pub(super) fn answered(&mut self, call: Call, took: Duration) {
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
            // All have the same bounds.
            let _added = all.add(one);
        }
        all
    }

    pub(super) fn refused_in_all(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Takes what was counted, and leaves nothing.
    fn take(&mut self, from: &mut Tally) {
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

    pub(super) fn add(&mut self, mut more: Tally) {
        self.take(&mut more);
    }
}

fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(LATENCY_MAX).max(1)
}

/// What the calls in flight count into.
#[derive(Debug)]
pub(super) struct Tallies {
    shards: Vec<Mutex<Tally>>,
    none: Tally,
}

impl Tallies {
    pub(super) fn new() -> Result<Tallies, Problem> {
        let none = Tally::new()?;
        Ok(Tallies { shards: (0..SHARDS).map(|_| Mutex::new(none.clone())).collect(), none })
    }

    /// The tally of the call in flight with this number.
    pub(super) fn shard(&self, number: usize) -> MutexGuard<'_, Tally> {
        self.shards[number % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted since the last time.
    pub(super) fn take(&self) -> Tally {
        let mut taken = self.none.clone();
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
    fn what_is_counted_is_taken_once() {
        let tallies = Tallies::new().unwrap();
        for number in 0..100 {
            let mut tally = tallies.shard(number);
            let call = if number < 60 { Call::Claim } else { Call::Complete };
            tally.answered(call, Duration::from_micros(1_000 * (number as u64 + 1)));
            tally.items += 1;
            tally.refused("OVERLOADED", 2);
        }
        let mut taken = tallies.take();
        assert_eq!((taken.items, taken.refused_in_all(), taken.of(Call::Claim).len()), (100, 200, 60));
        let p99 = taken.all().value_at_quantile(0.99);
        assert!((98_000..=100_000).contains(&p99), "{p99}");
        assert_eq!(tallies.take().all().len(), 0, "it was taken before");
        tallies.shard(3).answered(Call::Claim, Duration::from_hours(9));
        taken.add(tallies.take());
        assert!(taken.all().max() >= LATENCY_MAX && taken.all().len() == 101);
    }
}

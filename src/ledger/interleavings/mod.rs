//! Suite T5: the batcher under thousands of schedules, each decided step by step: queue, workers,
//! races, cancellation, shutdown, panics, overload, a store that fails.
//!
//! `LEDGER_PROOF_SIZE` schedules in all (1,000 by default), from the seed `LEDGER_PROOF_SEED`; half
//! of them choose at random who goes on, the others by priorities that change at few points (PCT).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod disk;
pub(super) mod rt;
mod scenarios;
mod tally;
mod world;

use std::hash::{BuildHasher as _, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Instant;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

use tally::Tally;

/// How many scenarios share the size.
const SCENARIOS: usize = 7;
/// How many changes of priority a schedule has.
const PCT_DEPTH: usize = 4;
/// A schedule that takes more steps hangs.
const STEPS_MAX: usize = 100_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`, must be a number")))
}

/// Runs a scenario under its share of the schedules; afterwards each of `must` has happened.
fn explore<F, Fut>(name: &str, must: &[&str], scenario: F)
where
    F: Fn(Arc<Tally>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let size = number("LEDGER_PROOF_SIZE").unwrap_or(1_000);
    let seed = number("LEDGER_PROOF_SEED").unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
    let half = usize::try_from(size).unwrap().div_ceil(2 * SCENARIOS);
    let started = Instant::now();
    let tally = Arc::new(Tally::default());
    let scenario = Arc::new(scenario);
    let schedules = || {
        run(RandomScheduler::new_from_seed(seed, half), &scenario, &tally)
            + run(PctScheduler::new_from_seed(seed, PCT_DEPTH, half), &scenario, &tally)
    };
    let schedules = catch_unwind(AssertUnwindSafe(schedules)).unwrap_or_else(|panic| {
        eprintln!(
            "replay: LEDGER_PROOF_SIZE={size} LEDGER_PROOF_SEED={seed} \
             cargo test --lib --features shuttle interleavings::scenarios::{name}"
        );
        resume_unwind(panic)
    });
    println!(
        "SUMMARY interleavings {name}: seed {seed}, {:.1} s: {schedules} schedules: {tally}; 0 violations",
        started.elapsed().as_secs_f64()
    );
    if schedules > 100 {
        for what in must {
            assert!(tally.of(what) > 0, "{name} proves nothing: no {what}");
        }
    }
}

fn run<F, Fut>(scheduler: impl Scheduler + 'static, scenario: &Arc<F>, tally: &Arc<Tally>) -> usize
where
    F: Fn(Arc<Tally>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    let (scenario, tally) = (Arc::clone(scenario), Arc::clone(tally));
    Runner::new(scheduler, config).run(move || shuttle::future::block_on(scenario(Arc::clone(&tally))))
}

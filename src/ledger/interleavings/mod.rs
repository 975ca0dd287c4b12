//! Suite T5: the batcher and the inbox under thousands of schedules, each decided step by step: queue, workers,
//! races, cancellation, shutdown, panics, overload, waiting calls, a store that fails.
//!
//! `LEDGER_PROOF_SIZE` schedules of the batcher (1,000 by default), from the seed `LEDGER_PROOF_SEED`; half
//! of them choose the next task at random, the others by priorities that change at few points (PCT).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod calls;
mod disk;
mod holds;
mod inbox;
mod inbox_calls;
mod inbox_rows;
mod inbox_troubles;
mod inboxes;
mod messages;
mod policies;
mod replays;
pub(super) mod runtime;
mod scenarios;
mod session;
mod tally;
mod troubles;
mod upkeep;
mod world;

use std::hash::{BuildHasher as _, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

use tally::EventCounts;

/// Number of scenarios of the batcher, which share the size. Each of the inbox has as many schedules as one of them.
const SCENARIOS: usize = 8;
/// From this number of schedules of a scenario on each of its events must happen.
const MUST_FROM: usize = 100;
/// Changes of priority in a schedule.
const PCT_DEPTH: usize = 4;
/// A schedule that takes more steps hangs.
const STEPS_MAX: usize = 100_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`, must be a number")))
}

/// The schedules of one scenario.
struct Schedules<F> {
    name: &'static str,
    scenario: F,
    tally: Arc<EventCounts>,
    size: usize,
    done: AtomicUsize,
    started: Instant,
    /// When it last reported its progress; `None` unless progress is asked for.
    said: Option<Mutex<Instant>>,
}

/// Runs a scenario under its share of the schedules; afterwards each of `must` has happened.
fn explore<F, Fut>(name: &'static str, must: &[&str], scenario: F)
where
    F: Fn(Arc<EventCounts>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let size = number("LEDGER_PROOF_SIZE").unwrap_or(1_000);
    let seed = number("LEDGER_PROOF_SEED").unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
    let half = usize::try_from(size).unwrap().div_ceil(2 * SCENARIOS);
    let started = Instant::now();
    let said = std::env::var_os("LEDGER_PROOF_PROGRESS").map(|_| Mutex::new(started));
    let (tally, done) = (Arc::default(), AtomicUsize::new(0));
    let schedules = Arc::new(Schedules { name, scenario, tally, size: 2 * half, done, started, said });
    let explored = catch_unwind(AssertUnwindSafe(|| {
        schedules.run(RandomScheduler::new_from_seed(seed, half));
        schedules.run(PctScheduler::new_from_seed(seed, PCT_DEPTH, half));
    }));
    if let Err(panic) = explored {
        eprintln!(
            "replay: LEDGER_PROOF_SIZE={size} LEDGER_PROOF_SEED={seed} cargo test --lib --features shuttle {name}"
        );
        resume_unwind(panic);
    }
    let (tally, seconds) = (&schedules.tally, started.elapsed().as_secs_f64());
    for what in must {
        let enough = schedules.size < MUST_FROM || tally.of(what) > 0;
        assert!(enough, "{name} proves nothing: no {what} in {} schedules; seed {seed}", schedules.size);
    }
    println!(
        "SUMMARY interleavings {name}: seed {seed}, {seconds:.1} s: {} schedules: {tally}; 0 violations",
        schedules.size
    );
}

impl<F, Fut> Schedules<F>
where
    F: Fn(Arc<EventCounts>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + 'static,
{
    fn run(self: &Arc<Self>, scheduler: impl Scheduler + 'static) {
        let mut config = Config::new();
        config.stack_size = 1 << 18;
        config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
        let all = Arc::clone(self);
        Runner::new(scheduler, config).run(move || {
            shuttle::future::block_on((all.scenario)(Arc::clone(&all.tally)));
            all.progress();
        });
    }

    /// Reports its progress every two seconds, if progress is asked for.
    fn progress(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(mut said) = self.said.as_ref().map(|said| said.lock().unwrap()) else { return };
        if said.elapsed() >= Duration::from_secs(2) {
            *said = Instant::now();
            let (percent, seconds) = (done * 100 / self.size, self.started.elapsed().as_secs());
            eprintln!("interleavings {}: {done} of {} ({percent} %), {seconds} s", self.name, self.size);
        }
    }
}

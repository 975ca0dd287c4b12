//! One measurement: the calls under way, the time before and while it is measured, a line a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::grants::Grants;
use super::keys::{Key, Kind, Names};
use super::machine::{Load, Usage};
use super::options::Plan;
use super::pace::{Pace, Pacer};
use super::prepare;
use super::report;
use super::slot::{Left, Slot};
use super::tally::{Tallies, Tally};
use crate::cli::client::{Client, Ledger};
use crate::cli::problem::{Exit, Problem};

/// How soon it is noticed that the load has ended early.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LINE_EVERY: Duration = Duration::from_secs(1);
/// How many of the last messages are looked at again after the run.
const LEFT_MAX: usize = 2_000;

/// What all calls share.
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) names: Names,
    pub(super) grants: Grants,
    pub(super) tallies: Tallies,
    /// The messages that are claimed again and again, where the workload has such.
    pub(super) prepared: Vec<Key>,
    stopped: AtomicBool,
    problem: Mutex<Option<Problem>>,
}

impl Shared {
    /// Ends the load, for this reason if it is the first.
    pub(super) fn stop(&self, why: Problem) {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn check(&self) -> Result<(), Problem> {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).take();
        problem.map_or(Ok(()), Err)
    }
}

/// A server, with the connections to it.
pub(super) struct Bench {
    pub(super) shared: Arc<Shared>,
    pub(super) ledgers: Vec<Ledger>,
}

/// What was measured.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) plan: Plan,
    /// For how long it was measured.
    pub(super) time: Duration,
    /// What was answered within that time.
    pub(super) items: u64,
    /// Calls that were begun within that time, those included that were answered after it.
    pub(super) tally: Tally,
    /// Entries that this measurement has left in the ledger, those of its warm-up included.
    pub(super) created: u64,
    /// Calls that the rate would have had, and for which there was no room.
    pub(super) missed: u64,
    pub(super) load: Load,
}

impl Measured {
    pub(super) fn rate(&self) -> f64 {
        approximate(self.items) / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The 99th percentile of all latencies.
    pub(super) fn p99(&self) -> Duration {
        Duration::from_micros(self.tally.all().value_at_quantile(0.99))
    }
}

/// A count as a number to calculate with; exact below 2^53.
#[allow(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
pub(super) fn approximate(count: u64) -> f64 {
    count as f64
}

impl Bench {
    /// Connects, and prepares what the workload needs.
    pub(super) async fn new(plan: Plan, client: Client) -> Result<Bench, Problem> {
        let mut ledgers = Vec::new();
        for _ in 0..plan.connections {
            ledgers.push(client.connect_ledger().await?);
        }
        let names = Names::new(plan.ids, plan.consumers);
        let prepared = prepare::keys(plan.workload, &names, &client, &mut ledgers[0]).await?;
        let hot = u32::try_from(prepared.len()).unwrap_or(0);
        let shared = Shared {
            client,
            names,
            grants: Grants::new(hot),
            tallies: Tallies::new()?,
            prepared,
            stopped: AtomicBool::new(false),
            problem: Mutex::default(),
        };
        Ok(Bench { shared: Arc::new(shared), ledgers })
    }

    /// Runs the load, and gives some of the messages that it has left.
    pub(super) async fn measure(&self, plan: Plan) -> Result<(Measured, Vec<Left>), Problem> {
        let mut slots = self.prepared(plan).await?;
        let mut measured = self.created();
        let warm = Instant::now() + plan.warm_up;
        let end = warm + plan.duration;
        let pacer = plan.rate.map(|rate| {
            let every = Duration::from_secs(1) * plan.batch / rate;
            Pacer::start(every, end)
        });
        let pace = pacer.as_ref().map_or(Pace::Closed, Pacer::pace);
        let mut running = JoinSet::new();
        for slot in slots.drain(..) {
            running.spawn(slot.run(pace.clone(), end));
        }
        self.until(warm).await?;
        measured += self.shared.tallies.take().created;
        let (began, before) = (Instant::now(), Usage::now());
        let mut tally = Tally::new()?;
        while Instant::now() < end {
            let (line_began, passed) = (Instant::now(), began.elapsed());
            self.until(end.min(line_began + LINE_EVERY)).await?;
            let second = self.shared.tallies.take();
            report::second(self.shared.client.screen, &plan, passed, line_began.elapsed(), &second);
            tally.add(second);
        }
        let (time, load, items) = (began.elapsed(), before.until_now(), tally.items);
        let missed = pacer.map_or(0, Pacer::missed);
        let mut left = Vec::new();
        while let Some(ended) = running.join_next().await {
            left.extend(ended.unwrap_or_default());
        }
        self.shared.check()?;
        tally.add(self.shared.tallies.take());
        let created = measured + tally.created;
        if tally.all().is_empty() {
            return Err(nothing(&tally));
        }
        Ok((Measured { plan, time, items, tally, created, missed, load }, left))
    }

    /// The calls that may be under way, each with what it needs.
    async fn prepared(&self, plan: Plan) -> Result<Vec<Slot>, Problem> {
        let in_flight = usize::try_from(plan.in_flight).unwrap_or(1);
        let kept = LEFT_MAX.div_ceil(in_flight);
        let mut preparing = JoinSet::new();
        for (number, ledger) in self.ledgers.iter().cycle().take(in_flight).enumerate() {
            let mut slot = Slot::new(Arc::clone(&self.shared), plan, ledger.clone(), number, kept);
            preparing.spawn(async move {
                slot.prepare().await;
                slot
            });
        }
        let mut slots = Vec::new();
        while let Some(slot) = preparing.join_next().await {
            slots.extend(slot);
        }
        self.shared.check()?;
        Ok(slots)
    }

    /// Entries that were made before any measurement.
    pub(super) fn prepared_entries(&self) -> u64 {
        let done = self.shared.prepared.iter().filter(|key| key.kind == Kind::Done).count();
        u64::try_from(done).unwrap_or(0)
    }

    fn created(&self) -> u64 {
        self.shared.tallies.take().created
    }

    /// Waits, unless the load has ended early.
    async fn until(&self, instant: Instant) -> Result<(), Problem> {
        loop {
            self.shared.check()?;
            let left = instant.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(LOOK_EVERY)).await;
        }
    }
}

/// Not one call was answered.
fn nothing(tally: &Tally) -> Problem {
    let refused: Vec<String> = tally.refused.iter().map(|(word, count)| format!("{word} {count}")).collect();
    let why = if refused.is_empty() { "nothing was answered".to_owned() } else { refused.join(", ") };
    Problem::new(Exit::Unavailable, format!("no call had an answer that counts: {why}"))
        .next("look at the server's log; with --rate, or fewer calls --in-flight, it is asked less")
}

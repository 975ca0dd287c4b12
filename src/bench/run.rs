//! One measurement: the virtual clients, the time before and while it is measured, one line per second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::counts::LoadCounts;
use super::dial::dial;
use super::keys::{MessageState, Names};
use super::link::LedgerClient;
use super::machine::Usage;
use super::measured::Measured;
use super::options::Plan;
use super::pacing::{CallPacing, Pacer};
use super::prepare;
use super::report;
use super::shared::Shared;
use super::virtual_client::{Left, VirtualClient};
use crate::cli::client::Client;
use crate::cli::problem::{Exit, Problem};

/// How often it is checked whether the load has ended early.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LINE_EVERY: Duration = Duration::from_secs(1);
/// The number of the last messages that are checked again after the run.
const LEFT_MAX: usize = 2_000;

/// A server, with the connections to it.
pub(super) struct Bench {
    pub(super) shared: Arc<Shared>,
    pub(super) ledgers: Vec<LedgerClient>,
}

impl Bench {
    /// Connects, and prepares what the workload needs.
    pub(super) async fn new(plan: Plan, client: Client) -> Result<Bench, Problem> {
        let mut ledgers = Vec::new();
        for _ in 0..plan.connections {
            ledgers.push(dial(&client).await?);
        }
        let names = Names::new(plan.ids, plan.first_consumer, plan.consumers);
        let prepared = prepare::keys(plan.workload, &names, &mut ledgers[0]).await?;
        let shared = Shared::new(&plan, client, names, prepared)?;
        Ok(Bench { shared: Arc::new(shared), ledgers })
    }

    /// Runs the load, and returns some of the messages that it has left.
    pub(super) async fn measure(&self, plan: Plan) -> Result<(Measured, Vec<Left>), Problem> {
        let mut clients = self.prepared(plan).await?;
        let mut measured = self.created();
        let warm = Instant::now() + plan.warm_up;
        let end = warm + plan.duration;
        let pacer = plan.rate.map(|rate| {
            let every = Duration::from_secs(1) * plan.batch / rate;
            Pacer::start(every, end)
        });
        let pace = pacer.as_ref().map_or(CallPacing::Closed, Pacer::pace);
        let mut running = JoinSet::new();
        for client in clients.drain(..) {
            running.spawn(client.run(pace.clone(), end));
        }
        if !plan.warm_up.is_zero() {
            self.until(warm).await?;
            measured += self.shared.tallies.take().created;
        }
        let (began, before) = (Instant::now(), Usage::now());
        let mut tally = LoadCounts::new()?;
        while Instant::now() < end {
            let (line_began, passed) = (Instant::now(), began.elapsed());
            self.until(end.min(line_began + LINE_EVERY)).await?;
            let second = self.shared.tallies.take();
            report::second(self.shared.client.output, &plan, passed, line_began.elapsed(), &second);
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

    /// The virtual clients, each with what it needs.
    async fn prepared(&self, plan: Plan) -> Result<Vec<VirtualClient>, Problem> {
        let in_flight = usize::try_from(plan.in_flight).unwrap_or(1);
        let kept = LEFT_MAX.div_ceil(in_flight);
        let mut preparing = JoinSet::new();
        for (number, ledger) in self.ledgers.iter().cycle().take(in_flight).enumerate() {
            let mut client = VirtualClient::new(Arc::clone(&self.shared), plan, ledger.clone(), number, kept);
            preparing.spawn(async move {
                client.prepare().await;
                client
            });
        }
        let mut clients = Vec::new();
        while let Some(client) = preparing.join_next().await {
            clients.extend(client);
        }
        self.shared.check()?;
        Ok(clients)
    }

    /// The entries that were made before any measurement.
    pub(super) fn prepared_entries(&self) -> u64 {
        let done = self.shared.prepared.iter().filter(|key| key.kind == MessageState::Done).count();
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

/// The problem that not one call was answered.
fn nothing(tally: &LoadCounts) -> Problem {
    let refused: Vec<String> = tally.refused.iter().map(|(word, count)| format!("{word} {count}")).collect();
    let why = if refused.is_empty() { "nothing was answered".to_owned() } else { refused.join(", ") };
    Problem::new(Exit::Unavailable, format!("no call had an answer that counts: {why}"))
        .next("look at the server's log; with --rate, or fewer calls --in-flight, it is asked less")
}

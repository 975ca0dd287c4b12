//! `bench`: measures how much load a server bears, with a client that uses only the wire, like any consumer.
//! It checks meanwhile that nothing is granted twice.

mod answers;
mod counts;
mod dial;
mod ids;
mod keys;
mod link;
mod machine;
mod measured;
mod numbers;
mod options;
mod own_server;
mod pacing;
mod prepare;
mod recheck;
mod report;
mod run;
mod safety;
mod saturation;
mod shared;
mod virtual_client;
mod workload;

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::subscriber::NoSubscriber;

use self::measured::Measured;
use self::options::Plan;
use self::own_server::OwnServer;
use self::recheck::Checked;
use self::safety::Faults;

use crate::cli::client::Client;
use crate::cli::confirm::confirm;
use crate::cli::options::Options;
use crate::cli::output::{self, Output};
use crate::cli::problem::{Exit, Problem};
use crate::cli::text::{clean, counted};

use self::options::Measurement;

/// A measurement.
#[derive(Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    measurement: Measurement,
}

impl Bench {
    /// The number of threads of the client.
    pub(crate) fn threads(&self) -> usize {
        self.measurement.threads()
    }

    /// Measures; problems go to standard error.
    pub(crate) async fn run(self) -> ExitCode {
        output::ended(self.measurement.run(self.options).await.unwrap_or_else(Problem::print)).into()
    }
}

impl Measurement {
    /// However the run ends, the server that it started ends with it.
    async fn run(self, mut options: Options) -> Result<Exit, Problem> {
        // Without a subscriber that drops them, libraries make each span for the `log` crate: that took 2.5 % of
        // the client's time.
        drop(tracing::subscriber::set_global_default(NoSubscriber::new()));
        let output = options.output.open();
        let plans = self.plans()?;
        let mut interrupted = Interrupted::new()?;
        let mut own = None;
        // A current context is not enough: a measurement must not hit a server that was not named for it.
        if options.names_no_server() {
            let server = interrupted.before(OwnServer::start()).await?;
            options.endpoint = Some(server.address.clone());
            output.note(&format!("a separate server, on SQLite in {}", clean(&server.folder())));
            own = Some(server);
        }
        let client = Client::new(&options, output)?;
        if !client.is_local() {
            let question = "Run a load against this server, which is not on this machine?";
            confirm(&client, question, self.yes)?;
        }
        let done = interrupted.before(self.measure(&plans, client, own.is_some())).await;
        let ended = own.as_mut().and_then(OwnServer::ended);
        drop(own);
        match (done, ended) {
            (Err(problem), Some(ended)) if problem.exit != Exit::Partly => Err(ended),
            (done, _) => done,
        }
    }

    async fn measure(&self, plans: &[Plan], client: Client, own: bool) -> Result<Exit, Problem> {
        let Some(first) = plans.first() else { return Ok(Exit::Done) };
        let output = client.output;
        output.note(&report::heading(first, self.steps));
        let bench = run::Bench::new(*first, client).await?;
        let (mut all, mut left) = (Vec::new(), Vec::new());
        for plan in plans {
            if self.steps {
                output.note(&counted(plan.in_flight, "call under way:", "calls under way:"));
            }
            let (measured, some) = bench.measure(*plan).await?;
            if output.json() && self.steps {
                output.line(&report::json(&measured).to_string())?;
            }
            all.push(measured);
            left = some;
        }
        let checked = if self.no_check {
            None
        } else {
            Some(recheck::check(&bench.shared, &bench.ledgers, &left).await)
        };
        let faults = bench.shared.grants.faults();
        let exceeded = if self.steps {
            tell_steps(output, &all, checked.as_ref(), &faults)?
        } else {
            tell_one(output, &all, checked.as_ref(), &faults)?
        };
        let created = all.iter().map(|one| one.created).sum::<u64>()
            + checked.map_or(0, |checked| checked.created)
            + bench.prepared_entries();
        if !own {
            output.note(&format!(
                "{} of {} stay in the ledger until their retention is over",
                counted(created, "entry", "entries"),
                bench.shared.names.consumers()
            ));
        }
        wrong(&faults)?;
        exceeded.map_or(Ok(Exit::Done), Err)
    }
}

/// Prints the steps and the one to size by; returns the problem if no step is good enough.
fn tell_steps(
    output: Output,
    all: &[Measured],
    checked: Option<&Checked>,
    faults: &Faults,
) -> Result<Option<Problem>, Problem> {
    let max = all.first().and_then(|one| one.plan.max_p99);
    let step = saturation::of(all, max);
    if output.json() {
        let knee = step.map_or(Value::Null, |step| step.plan.in_flight.into());
        let document = json!({ "knee": knee, "checked": report::checked_json(checked, faults) });
        output.line(&document.to_string())?;
    } else {
        report::steps(output, all)?;
        if let Some(step) = step {
            output.line(&saturation::describe(step))?;
        }
        checked.map_or(Ok(()), |checked| report::checked(output, checked))?;
    }
    Ok(step.is_none().then(|| too_slow(all)))
}

fn tell_one(
    output: Output,
    all: &[Measured],
    checked: Option<&Checked>,
    faults: &Faults,
) -> Result<Option<Problem>, Problem> {
    let Some(measured) = all.first() else { return Ok(None) };
    if output.json() {
        let mut document = report::json(measured);
        document["checked"] = report::checked_json(checked, faults);
        output.line(&document.to_string())?;
    } else {
        report::one(output, measured)?;
        checked.map_or(Ok(()), |checked| report::checked(output, checked))?;
    }
    let exceeded = measured.plan.max_p99.is_some_and(|max| measured.p99() > max);
    Ok(exceeded.then(|| too_slow(all)))
}

/// The 99th percentile is above the limit in each measurement.
fn too_slow(all: &[Measured]) -> Problem {
    let least = all.iter().map(Measured::p99).min().unwrap_or_default();
    let micros = u64::try_from(least.as_micros()).unwrap_or(u64::MAX);
    let max = all.first().and_then(|one| one.plan.max_p99).unwrap_or_default();
    let max = u64::try_from(max.as_micros()).unwrap_or(u64::MAX);
    Problem::failed(format!(
        "--max-p99: the 99th percentile is {}, more than {}",
        report::latency(micros),
        report::latency(max)
    ))
}

///
/// # Errors
/// The ledger gave answers that it must never give.
fn wrong(faults: &Faults) -> Result<(), Problem> {
    if faults.count == 0 {
        return Ok(());
    }
    let mut text = counted(faults.count, "wrong answer", "wrong answers");
    for description in &faults.descriptions {
        text += "\n  ";
        text += description;
    }
    Err(Problem::failed(text).next(
        "if no other client changed these entries, it is a bug of the server or of its store: report it with the server's log",
    ))
}

/// The signals of a person or of the system that end the run.
struct Interrupted([Signal; 3]);

impl Interrupted {
    fn new() -> Result<Interrupted, Problem> {
        let listen = |kind| {
            signal(kind).map_err(|error| Problem::failed(format!("signals cannot be received: {error}")))
        };
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hangup] = kinds.map(listen);
        Ok(Interrupted([interrupt?, terminate?, hangup?]))
    }

    /// Does the work, unless it is interrupted.
    async fn before<T>(&mut self, work: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
        let [interrupt, terminate, hangup] = &mut self.0;
        let interrupted = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        };
        tokio::select! {
            biased;
            () = interrupted => Err(Problem::new(Exit::Partly, "interrupted; nothing was measured to its end")),
            done = work => done,
        }
    }
}

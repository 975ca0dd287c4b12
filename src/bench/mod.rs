//! `bench`: how much a server bears, measured by a client that knows only the wire, as any consumer. It checks on the
//! way that nothing is granted twice.

mod again;
mod answers;
mod dial;
mod grants;
mod ids;
mod keys;
mod knee;
mod link;
mod machine;
mod measured;
mod numbers;
mod options;
mod own_server;
mod pace;
mod prepare;
mod report;
mod run;
mod shared;
mod slot;
mod tally;
mod workload;

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::subscriber::NoSubscriber;

use self::again::Checked;
use self::grants::Faults;
use self::measured::Measured;
use self::options::Plan;
use self::own_server::OwnServer;

use crate::cli::client::Client;
use crate::cli::confirm::confirm;
use crate::cli::options::Options;
use crate::cli::problem::{Exit, Problem};
use crate::cli::screen::{self, Screen};
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

    /// Measures; what is wrong goes to standard error.
    pub(crate) async fn run(self) -> ExitCode {
        screen::ended(self.measurement.run(self.options).await.unwrap_or_else(Problem::print)).into()
    }
}

impl Measurement {
    /// Whatever ends it, a server of its own ends with it.
    async fn run(self, mut options: Options) -> Result<Exit, Problem> {
        // Where nothing takes them, each span of a library is made for the `log` crate: a fortieth of the client's time.
        drop(tracing::subscriber::set_global_default(NoSubscriber::new()));
        let screen = options.output.screen();
        let plans = self.plans()?;
        let mut interrupted = Interrupted::new()?;
        let mut own = None;
        // A current context is not enough: nobody who measures means a server that he did not name.
        if options.names_no_server() {
            let server = interrupted.before(OwnServer::start()).await?;
            options.endpoint = Some(server.address.clone());
            screen.note(&format!("a server of its own, on SQLite in {}", clean(&server.folder())));
            own = Some(server);
        }
        let client = Client::new(&options, screen)?;
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
        let screen = client.screen;
        screen.note(&report::heading(first, self.steps));
        let bench = run::Bench::new(*first, client).await?;
        let (mut all, mut left) = (Vec::new(), Vec::new());
        for plan in plans {
            if self.steps {
                screen.note(&counted(plan.in_flight, "call under way:", "calls under way:"));
            }
            let (measured, some) = bench.measure(*plan).await?;
            if screen.json() && self.steps {
                screen.line(&report::json(&measured).to_string())?;
            }
            all.push(measured);
            left = some;
        }
        let checked =
            if self.no_check { None } else { Some(again::check(&bench.shared, &bench.ledgers, &left).await) };
        let faults = bench.shared.grants.faults();
        let exceeded = if self.steps {
            tell_steps(screen, &all, checked.as_ref(), &faults)?
        } else {
            tell_one(screen, &all, checked.as_ref(), &faults)?
        };
        let created = all.iter().map(|one| one.created).sum::<u64>()
            + checked.map_or(0, |checked| checked.created)
            + bench.prepared_entries();
        if !own {
            screen.note(&format!(
                "{} of {} stay in the ledger until their retention is over",
                counted(created, "entry", "entries"),
                bench.shared.names.consumers()
            ));
        }
        wrong(&faults)?;
        exceeded.map_or(Ok(Exit::Done), Err)
    }
}

/// The steps side by side, and the one to size by; the problem, if no step is good enough.
fn tell_steps(
    screen: Screen,
    all: &[Measured],
    checked: Option<&Checked>,
    faults: &Faults,
) -> Result<Option<Problem>, Problem> {
    let max = all.first().and_then(|one| one.plan.max_p99);
    let knee = knee::of(all, max);
    if screen.json() {
        let knee = knee.map_or(Value::Null, |knee| knee.plan.in_flight.into());
        let document = json!({ "knee": knee, "checked": report::checked_json(checked, faults) });
        screen.line(&document.to_string())?;
    } else {
        report::steps(screen, all)?;
        if let Some(knee) = knee {
            screen.line(&knee::told(knee))?;
        }
        checked.map_or(Ok(()), |checked| report::checked(screen, checked))?;
    }
    Ok(knee.is_none().then(|| too_slow(all)))
}

fn tell_one(
    screen: Screen,
    all: &[Measured],
    checked: Option<&Checked>,
    faults: &Faults,
) -> Result<Option<Problem>, Problem> {
    let Some(measured) = all.first() else { return Ok(None) };
    if screen.json() {
        let mut document = report::json(measured);
        document["checked"] = report::checked_json(checked, faults);
        screen.line(&document.to_string())?;
    } else {
        report::one(screen, measured)?;
        checked.map_or(Ok(()), |checked| report::checked(screen, checked))?;
    }
    let exceeded = measured.plan.max_p99.is_some_and(|max| measured.p99() > max);
    Ok(exceeded.then(|| too_slow(all)))
}

/// The 99th percentile is above what was asked for, in each measurement.
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

/// # Errors
/// The ledger gave answers that it must never give.
fn wrong(faults: &Faults) -> Result<(), Problem> {
    if faults.count == 0 {
        return Ok(());
    }
    let mut text = counted(faults.count, "wrong answer", "wrong answers");
    for told in &faults.told {
        text += "\n  ";
        text += told;
    }
    Err(Problem::failed(text).next(
        "if nobody else changed these entries, it is a bug of the server or of its store: report it with the server's log",
    ))
}

/// A person or the system wants it to end.
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

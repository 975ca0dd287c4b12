//! Logs: for people on a terminal, JSON by a switch. Never a payload.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tracing::{Level, Subscriber};
use tracing_subscriber::filter::{Targets, dynamic_filter_fn};
use tracing_subscriber::layer::{Filter, Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::once_a_second::Lines;

/// The exporter of traces logs a line or two of each export that fails, however many there are: one of each kind a
/// second is enough.
fn bounded<S: Subscriber>() -> impl Filter<S> {
    let written: Mutex<HashMap<&'static str, Lines>> = Mutex::default();
    dynamic_filter_fn(move |line, _| {
        if !line.target().starts_with("opentelemetry") {
            return true;
        }
        let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
        written.entry(line.name()).or_default().turn(Instant::now(), true).is_some()
    })
}

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines for people; colours only on a terminal.
    #[default]
    Text,
    /// One JSON object a line; everything else that a server says is one, too.
    Json,
}

/// What is logged, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct LogArgs {
    /// How logs are written, to standard error
    #[arg(long, env = "IDEMPOTENCY_LEDGER_LOG_FORMAT", default_value = "text")]
    pub(super) log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or a filter like `idempotency_ledger=debug`
    #[arg(
        long,
        env = "IDEMPOTENCY_LEDGER_LOG",
        default_value = "info,sqlx::postgres::notice=warn",
        value_name = "FILTER"
    )]
    log: String,
}

impl LogArgs {
    /// Starts logging to standard error.
    ///
    /// # Errors
    /// The filter is not one; everything from `info` on is logged then.
    pub(super) fn start(&self) -> Result<(), String> {
        let filter = self.log.parse::<Targets>();
        let problem = filter.as_ref().err().map(|error| format!("log: {error}; for example `info`"));
        // An empty filter would log nothing.
        let problem =
            problem.or(self.log.trim().is_empty().then(|| "log: is empty; for example `info`".into()));
        let filter = filter.unwrap_or_else(|_| Targets::new().with_default(Level::INFO));
        // A closed standard error must not end the server: what cannot be logged is lost.
        let logs = tracing_subscriber::fmt::layer().log_internal_errors(false).with_writer(std::io::stderr);
        let filtered = tracing_subscriber::registry().with(filter);
        let started = match self.log_format {
            LogFormat::Text => {
                let colours = std::io::stderr().is_terminal();
                filtered.with(logs.with_ansi(colours).with_target(false).with_filter(bounded())).try_init()
            }
            LogFormat::Json => {
                std::panic::set_hook(Box::new(|panic| {
                    tracing::error!(%panic, "a bug of the server: a task panicked");
                }));
                filtered.with(logs.json().flatten_event(true).with_filter(bounded())).try_init()
            }
        };
        started.map_err(|error| format!("log: {error}"))?;
        problem.map_or(Ok(()), Err)
    }

    /// Reports why the command ends, whatever the filter of the log.
    pub(super) fn report(&self, problem: &str) {
        match self.log_format {
            LogFormat::Text => drop(writeln!(std::io::stderr(), "error: {problem}")),
            LogFormat::Json => {
                let line = serde_json::json!({ "level": "ERROR", "message": problem });
                drop(writeln!(std::io::stderr(), "{line}"));
            }
        }
    }

    /// Prints the lines for people on standard output; in JSON the value.
    pub(super) fn print(&self, text: &str, json: &serde_json::Value) {
        // A closed standard output is no reason to end.
        let mut out = std::io::stdout();
        match self.log_format {
            LogFormat::Text => drop(writeln!(out, "{}", text.trim_end())),
            LogFormat::Json => drop(writeln!(out, "{json}")),
        }
    }
}

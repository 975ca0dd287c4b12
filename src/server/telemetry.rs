//! Logs: text or JSON. They never contain payloads.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{ErrorKind, IsTerminal as _};

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::bounded_lines::Bounded;
use super::failure::Failure;
use super::log_queue::{self, LogQueue};
use crate::common::patient_write::write_all;

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
        // An empty filter would disable the log.
        let problem =
            problem.or(self.log.trim().is_empty().then(|| "log: is empty; for example `info`".into()));
        let filter = filter.unwrap_or_else(|_| Targets::new().with_default(Level::INFO));
        // If standard error is closed, the server must not end; if it is not read, the server must not stall.
        let logs =
            tracing_subscriber::fmt::layer().log_internal_errors(false).with_writer(LogQueue::of_stderr());
        let filtered = tracing_subscriber::registry().with(filter);
        let started = match self.log_format {
            LogFormat::Text => {
                let colours = std::io::stderr().is_terminal();
                let logs = logs.with_ansi(colours).with_target(false);
                filtered.with(logs.map_event_format(|format| Bounded::new(format, false))).try_init()
            }
            LogFormat::Json => {
                let logs = logs.json().flatten_event(true);
                filtered.with(logs.map_event_format(|format| Bounded::new(format, true))).try_init()
            }
        };
        // The default panic hook writes to standard error directly, and blocks if it is not read.
        std::panic::set_hook(Box::new(|panic| {
            let backtrace = Backtrace::capture();
            let is_captured = backtrace.status() == BacktraceStatus::Captured;
            let backtrace = is_captured.then(|| tracing::field::display(backtrace));
            tracing::error!(%panic, backtrace, "a bug of the server: a task panicked");
        }));
        started.map_err(|error| format!("log: {error}"))?;
        problem.map_or(Ok(()), Err)
    }

    /// Reports why the command ends, independent of the log filter.
    pub(super) fn report(&self, problem: &str) {
        let line = match self.log_format {
            LogFormat::Text => format!("error: {problem}\n"),
            LogFormat::Json => {
                format!("{}\n", serde_json::json!({ "level": "ERROR", "message": problem }))
            }
        };
        LogQueue::of_stderr().push(line.as_bytes());
    }

    /// Prints the lines for people on standard output; in JSON the value.
    ///
    /// # Errors
    /// Standard output is full. One that is closed has no reader, and is not a reason to fail.
    pub(super) fn print(&self, text: &str, json: &serde_json::Value) -> Result<(), Failure> {
        let line = match self.log_format {
            LogFormat::Text => format!("{}\n", text.trim_end()),
            LogFormat::Json => format!("{json}\n"),
        };
        match write_all(&mut std::io::stdout(), &mut line.as_bytes()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                let text =
                    format!("standard output: {error}; the command was carried out, and its answer is lost");
                Err(Failure::Wrong(text))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// At the end of the process, waits for a bounded time until the log is written.
pub(super) fn end() {
    log_queue::flush();
}

/// The number of lines of the log that were dropped.
pub(super) fn lines_dropped() -> u64 {
    LogQueue::of_stderr().dropped()
}

//! Logs: for people on a terminal, JSON by a switch. Never a payload.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines for people; colours only on a terminal.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging to standard error.
///
/// # Errors
/// The filter is not one.
pub fn start(format: LogFormat, filter: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| format!("log: {error}"))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => logs.with_ansi(std::io::stderr().is_terminal()).with_target(false).try_init(),
        LogFormat::Json => logs.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| format!("log: {error}"))
}

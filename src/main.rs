//! The command line.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use idempotency_ledger::cli;
use idempotency_ledger::server::args::Tend;
use idempotency_ledger::server::telemetry::{self, LogFormat};

/// Gives memory back within seconds after a flood of requests: glibc's allocator kept a third of a calm
/// server's memory more, whatever its settings.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The dedup authority that services share: claim, complete, fail and release messages by gRPC.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, after_help = cli::EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// How logs of the server are written, to standard error
    #[arg(long, global = true, env = "IDEMPOTENCY_LEDGER_LOG_FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// What the server logs: error, warn, info, debug, trace, or a filter like `idempotency_ledger=debug`
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_LOG",
        default_value = "info,sqlx::postgres::notice=warn",
        value_name = "FILTER"
    )]
    log: String,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Server(Tend),
    #[command(flatten)]
    Operators(cli::Command),
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let command = match cli.command {
        Command::Operators(command) => return cli::run(command, Cli::command()).await.into(),
        Command::Server(command) => command,
    };
    let done = match telemetry::start(cli.log_format, &cli.log) {
        Ok(()) => command.run().await,
        Err(problem) => Err(vec![problem]),
    };
    let Err(problems) = done else { return ExitCode::SUCCESS };
    for problem in problems {
        eprintln!("error: {problem}");
    }
    ExitCode::FAILURE
}

//! The command line.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use idempotency_ledger::cli;
use idempotency_ledger::server::args::ServerCommand;

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
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Server(ServerCommand),
    #[command(flatten)]
    Operators(cli::Command),
}

#[tokio::main]
async fn main() -> ExitCode {
    let words = cli::options_behind_group(std::env::args_os().collect(), &Cli::command());
    match Cli::parse_from(words).command {
        Command::Operators(command) => cli::run(command, Cli::command()).await.into(),
        Command::Server(command) => command.run().await,
    }
}

//! The program's command line: the server's commands and the operators'.
//!
//! It lies in the library, so that the program itself has nothing to compile but a call.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use tokio::runtime::Builder;

use crate::cli;
use crate::server::args::ServerCommand;

/// The dedup authority that services share: claim, complete, fail and release messages by gRPC.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, after_help = cli::EXIT_CODES)]
struct CommandLine {
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

/// Carries out what the arguments of this process say.
#[must_use]
pub fn run() -> ExitCode {
    let words = cli::options_behind_group(std::env::args_os().collect(), &CommandLine::command());
    match CommandLine::parse_from(words).command {
        Command::Operators(command) => operate(command),
        Command::Server(command) => command.run(),
    }
}

fn operate(command: cli::Command) -> ExitCode {
    match Builder::new_multi_thread().worker_threads(command.threads()).enable_all().build() {
        Ok(runtime) => runtime.block_on(cli::run(command, CommandLine::command())).into(),
        Err(error) => {
            drop(writeln!(std::io::stderr(), "error: the runtime cannot start: {error}"));
            ExitCode::FAILURE
        }
    }
}

//! The program's command line: the server's commands and the operators'.
//!
//! It lies in the library, so that the program itself has nothing to compile but a call.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
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
    let parsed = match CommandLine::try_parse_from(&words) {
        Ok(parsed) => parsed,
        Err(error) => {
            drop(error.print());
            if let Some(variable) = of_variable(&error, &words, &CommandLine::command()) {
                drop(writeln!(
                    std::io::stderr(),
                    "\nThe value is that of the environment variable {variable}"
                ));
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(u8::MAX));
        }
    };
    match parsed.command {
        Command::Operators(command) => operate(command),
        Command::Server(command) => command.run(&variables(&CommandLine::command())),
    }
}

/// The variable that has the value which cannot be read, where no argument has it: the error names a flag that was not
/// given.
fn of_variable(error: &clap::Error, words: &[OsString], command: &clap::Command) -> Option<String> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = argument.split(' ').next()?;
    if words.iter().any(|word| word.to_string_lossy().split('=').next() == Some(flag)) {
        return None;
    }
    let name =
        format!("IDEMPOTENCY_LEDGER_{}", flag.trim_start_matches('-').replace('-', "_").to_uppercase());
    (variables(command).contains(&name) && std::env::var_os(&name).is_some()).then_some(name)
}

/// The variables that a command and those below it read; one of them is read by no command (see `crash`).
fn variables(command: &clap::Command) -> BTreeSet<String> {
    let own = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
    let below = command.get_subcommands().flat_map(variables);
    own.map(str::to_owned).chain(below).chain([crate::crash::VARIABLE.to_owned()]).collect()
}

fn operate(command: cli::Command) -> ExitCode {
    match Builder::new_multi_thread().worker_threads(command.threads()).enable_all().build() {
        Ok(runtime) => runtime.block_on(cli::run(command, CommandLine::command())),
        Err(error) => {
            drop(writeln!(std::io::stderr(), "error: the runtime cannot start: {error}"));
            ExitCode::FAILURE
        }
    }
}

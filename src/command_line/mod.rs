//! The program's command line: the commands of the server and of operators.
//!
//! It is part of the library, so that the program itself compiles only a call.

mod manual;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};
use tokio::runtime::Builder;

use crate::bench::Bench;
use crate::cli;
use crate::server::args::ServerCommand;
use crate::server::config::KnownVariables;
use crate::server::version;

/// The dedup authority that services share: claim, complete, fail and release messages by gRPC.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, after_help = cli::EXIT_CODES)]
struct CommandLine {
    #[command(subcommand)]
    command: ProgramCommand,
}

#[derive(Subcommand)]
enum ProgramCommand {
    #[command(flatten)]
    Server(ServerCommand),
    #[command(flatten)]
    Operators(cli::Command),
    /// Measure how much load a server bears, and check that it grants nothing twice; without --server a
    /// separate server, on a temporary SQLite file
    #[command(after_help = cli::EXIT_CODES)]
    #[allow(clippy::doc_markdown, reason = "it is also the command's help")]
    Bench(Box<Bench>),
    /// Print the version, the commit that it was built from, and the schema and the features that it knows
    Version {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write the manual pages of all commands into a folder
    #[command(after_help = "Install, for example: idempotency-ledger manual /usr/local/share/man/man1")]
    Manual {
        /// The folder; it is made if it is missing
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
}

/// Runs the command that the arguments of this process name.
#[must_use]
pub fn run() -> ExitCode {
    let words = cli::options_behind_group(std::env::args_os().collect(), &CommandLine::command());
    let parsed = match CommandLine::try_parse_from(&words) {
        Ok(parsed) => parsed,
        Err(error) => return not_parsed(&error, &words),
    };
    match parsed.command {
        // Most commands make one call at a time.
        ProgramCommand::Operators(command) => operate(1, cli::run(command, CommandLine::command())),
        ProgramCommand::Bench(bench) => operate(bench.threads(), bench.run()),
        ProgramCommand::Version { json } => printed(&version::text(json)),
        ProgramCommand::Manual { folder } => ended(manual::write(&CommandLine::command(), &folder)),
        ProgramCommand::Server(command) => {
            let all = CommandLine::command();
            let own = all.find_subcommand(command.name()).map(variables).unwrap_or_default();
            command.run(&KnownVariables { own, all: variables(&all) })
        }
    }
}

/// Prints clap's error, or the help that was asked for.
fn not_parsed(error: &clap::Error, words: &[OsString]) -> ExitCode {
    let printed = error.print();
    for variable in of_variables(error, words, &CommandLine::command()) {
        drop(writeln!(std::io::stderr(), "\n{variable}"));
    }
    let code = u8::try_from(error.exit_code()).unwrap_or(u8::MAX);
    match printed {
        Err(unwritten) if code == 0 && unwritten.kind() != std::io::ErrorKind::BrokenPipe => {
            drop(writeln!(std::io::stderr(), "error: standard output: {unwritten}"));
            ExitCode::FAILURE
        }
        Ok(()) | Err(_) => ExitCode::from(code),
    }
}

/// Names the variables whose values the error is about: it mentions flags that were not given, or no name at
/// all.
fn of_variables(error: &clap::Error, words: &[OsString], command: &clap::Command) -> Vec<String> {
    if error.kind() == ErrorKind::InvalidUtf8 {
        let is_odd = |name: &String| std::env::var_os(name).is_some_and(|value| value.to_str().is_none());
        let odd = variables(command).into_iter().filter(is_odd);
        return odd
            .map(|name| format!("The environment variable {name} has a value that is not UTF-8"))
            .collect();
    }
    let found = of_variable(error, words, command).into_iter();
    found.map(|name| format!("The value is that of the environment variable {name}")).collect()
}

/// The variable whose value cannot be parsed, where no argument has that value: the error names a flag that
/// was not given.
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

/// The variables that a command and its subcommands read; one of them is read by no command (see `crash`).
fn variables(command: &clap::Command) -> BTreeSet<String> {
    let own = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
    let below = command.get_subcommands().flat_map(variables);
    own.map(str::to_owned).chain(below).chain([crate::common::crash::VARIABLE.to_owned()]).collect()
}

/// Prints the answer of a command that makes no call.
fn printed(text: &str) -> ExitCode {
    ended(writeln!(std::io::stdout(), "{text}").map_err(|error| format!("standard output: {error}")))
}

fn ended(outcome: Result<(), String>) -> ExitCode {
    let Err(problem) = outcome else { return ExitCode::SUCCESS };
    drop(writeln!(std::io::stderr(), "error: {problem}"));
    ExitCode::FAILURE
}

fn operate(threads: usize, command: impl Future<Output = ExitCode>) -> ExitCode {
    match Builder::new_multi_thread().worker_threads(threads).enable_all().build() {
        Ok(runtime) => runtime.block_on(command),
        Err(error) => {
            drop(writeln!(std::io::stderr(), "error: the runtime cannot start: {error}"));
            ExitCode::FAILURE
        }
    }
}

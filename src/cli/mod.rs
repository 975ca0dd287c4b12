//! The operators' command line: a client of `AdminService` like any other. It uses the wire alone, and
//! nothing of the server's inside.

mod audit;
pub(crate) mod client;
mod clock;
mod completions;
pub(crate) mod confirm;
pub(crate) mod connect_options;
mod consumer;
mod contexts;
mod demo;
mod entries;
mod enums;
mod flag_order;
mod import;
mod instant_arg;
mod json;
mod once;
pub(crate) mod options;
pub(crate) mod output;
mod policy;
pub(crate) mod problem;
mod progress;
mod reconcile;
mod replay;
mod retention;
pub(crate) mod retry;
mod rights;
#[cfg(test)]
mod screens;
mod stderr;
mod step;
pub(crate) mod table;
pub(crate) mod text;
mod tokens;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use clap_complete::Shell;

use self::client::Client;
use self::options::{ContextsFile, Options, OutputArgs};
use self::problem::Problem;

pub use flag_order::options_behind_group;
pub use problem::{EXIT_CODES, Exit};

/// What operators do.
#[derive(Subcommand)]
pub enum Command {
    /// Show and change entries: what is stuck and why, and what happens to it next
    #[command(arg_required_else_help = true, after_help = EXIT_CODES)]
    Entries(Box<Entries>),
    /// Show and change the policies of consumers
    #[command(arg_required_else_help = true, after_help = EXIT_CODES)]
    Policy(Box<Policy>),
    /// Show, create and close the replay runs of consumers
    #[command(arg_required_else_help = true, after_help = EXIT_CODES)]
    Replay(Box<Replay>),
    /// Show what operators did
    #[command(arg_required_else_help = true, after_help = EXIT_CODES)]
    Audit(Box<Audit>),
    /// Show whether the purge keeps up
    #[command(arg_required_else_help = true, after_help = EXIT_CODES)]
    Retention(Box<Retention>),
    /// Show and raise the token offset, for a store whose clock was set back
    #[command(arg_required_else_help = true, after_help = EXIT_CODES)]
    Tokens(Box<Tokens>),
    #[allow(clippy::doc_markdown, reason = "it is also the command's help")]
    /// Make tokens, and show who may do what: without a server, from the files that it reads
    #[command(arg_required_else_help = true, after_help = EXIT_CODES)]
    Rights(Box<RightsOf>),
    /// Make a first claim: claim a new message, complete it, and claim it again
    #[command(after_help = EXIT_CODES)]
    Try(Box<Try>),
    #[allow(clippy::doc_markdown, reason = "it is also the command's help")]
    /// Run a command once for a message, for cron, shell and CI: `once CONSUMER SOURCE ID -- COMMAND…` claims, runs the
    /// command with IDEMPOTENCY_KEY, LEDGER_FENCING_TOKEN and LEDGER_ATTEMPT, renews meanwhile, and stores its standard
    /// output as the result; a later run prints that
    #[command(after_help = once::ONCE_CODES)]
    Once(Box<Once>),
    /// Show and change the contexts: the servers that you reach by a name
    #[command(arg_required_else_help = true, after_help = EXIT_CODES)]
    Context(Box<Context>),
    /// Print the completions of a shell
    #[command(after_help = "Install, for example: idempotency-ledger completions bash \
                            > /etc/bash_completion.d/idempotency-ledger")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the names of consumers that begin with a prefix, for the completions of a shell
    #[command(hide = true)]
    CompleteConsumers(Box<completions::CompleteConsumers>),
}

macro_rules! group {
    ($(#[$doc:meta] $name:ident: $command:ty),* $(,)?) => {
        $(
            #[$doc]
            #[derive(Args)]
            pub struct $name {
                #[command(flatten)]
                options: Options,
                #[command(subcommand)]
                command: $command,
            }
        )*
    };
}

group!(
    /// The commands about entries.
    Entries: entries::Command,
    /// The commands about policies.
    Policy: policy::Command,
    /// The commands about replay runs.
    Replay: replay::Command,
    /// The commands about the audit.
    Audit: audit::Command,
    /// The commands about the purge.
    Retention: retention::Command,
    /// The commands about tokens.
    Tokens: tokens::Command,
);

/// The commands about tokens and rights.
#[derive(Args)]
pub struct RightsOf {
    #[command(subcommand)]
    command: rights::Command,
}

/// A first claim.
#[derive(Args)]
pub struct Try {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    trial: demo::Demo,
}

/// A command that runs once.
#[derive(Args)]
pub struct Once {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    run: once::Run,
}

/// The commands about contexts, which speak to no server.
#[derive(Args)]
pub struct Context {
    #[command(flatten)]
    file: ContextsFile,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    command: contexts::Command,
}

/// Runs a command; `root` is the command line that it was parsed from. Problems go to standard error.
pub async fn run(command: Command, root: clap::Command) -> ExitCode {
    if let Command::Once(asked) = command {
        return asked.run.run(client(&asked.options)).await.into();
    }
    output::ended(carry_out(command, root).await.unwrap_or_else(Problem::print)).into()
}

async fn carry_out(command: Command, root: clap::Command) -> Result<Exit, Problem> {
    match command {
        Command::Entries(asked) => asked.command.run(client(&asked.options)?).await,
        Command::Policy(asked) => asked.command.run(client(&asked.options)?).await,
        Command::Replay(asked) => asked.command.run(client(&asked.options)?).await,
        Command::Audit(asked) => asked.command.run(client(&asked.options)?).await,
        Command::Retention(asked) => asked.command.run(client(&asked.options)?).await,
        Command::Tokens(asked) => asked.command.run(client(&asked.options)?).await,
        Command::Rights(asked) => asked.command.run(),
        Command::Try(asked) => asked.trial.run(client(&asked.options)?).await,
        Command::Once(_) => Err(Problem::failed("`once` has its own exit codes")),
        Command::Context(asked) => asked.command.run(&asked.file, asked.output.open()),
        Command::Completions { shell } => completions::completions(shell, root),
        Command::CompleteConsumers(asked) => asked.run().await,
    }
}

fn client(options: &Options) -> Result<Client, Problem> {
    Client::new(options, options.output.open())
}

//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser, Subcommand};
use idempotency_ledger::cli;
use idempotency_ledger::commands;
use idempotency_ledger::config::{Config, Settings};
use idempotency_ledger::telemetry::{self, LogFormat};

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
    Server(Served),
    #[command(flatten)]
    Operators(cli::Command),
}

/// What runs and tends a server.
#[derive(Subcommand)]
enum Served {
    /// Serve until SIGTERM. Policies are read from the file: [policy] and [consumers."NAME"]
    Serve(Settled),
    #[allow(clippy::doc_markdown, reason = "it is also the command's help")]
    /// Bring the store's schema up to this binary's version. SQLite does so by itself at the start
    Migrate(Settled),
    /// Ask a server whether it serves; exits with 0 if it does
    Health {
        /// The server
        #[arg(long, env = "IDEMPOTENCY_LEDGER_LISTEN", default_value = "127.0.0.1:50051")]
        address: String,
        /// A service's name; empty: the whole server
        #[arg(long, default_value = "")]
        service: String,
    },
}

/// Flags come before the environment, the environment before the file.
#[derive(clap::Args)]
struct Settled {
    #[allow(clippy::doc_markdown, reason = "it is also the flag's help")]
    /// A TOML file with any of these settings (as snake_case) and the policies
    #[arg(long, env = "IDEMPOTENCY_LEDGER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: Box<Settings>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let command = match cli.command {
        Command::Operators(command) => return cli::run(command, Cli::command()).await.into(),
        Command::Server(command) => command,
    };
    let done = match telemetry::start(cli.log_format, &cli.log) {
        Ok(()) => run(command).await,
        Err(problem) => Err(vec![problem]),
    };
    let Err(problems) = done else { return ExitCode::SUCCESS };
    for problem in problems {
        eprintln!("error: {problem}");
    }
    ExitCode::FAILURE
}

async fn run(command: Served) -> Result<(), Vec<String>> {
    let done = match command {
        Served::Serve(settled) => commands::serve(settled.load()?).await,
        Served::Migrate(settled) => commands::migrate(settled.load()?).await,
        Served::Health { address, service } => {
            commands::health(&address, &service, Duration::from_secs(5)).await
        }
    };
    done.map_err(|problem| vec![problem])
}

impl Settled {
    fn load(self) -> Result<Config, Vec<String>> {
        Config::load(*self.settings, self.config.as_deref())
    }
}

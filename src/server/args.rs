//! What is typed to run and tend a server.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;

use super::config::{Config, Settings};
use super::telemetry::{self, LogFormat};
use super::{health, migrate, serve};

/// What runs and tends a server.
#[derive(Subcommand)]
#[allow(rustdoc::broken_intra_doc_links, reason = "each text is also its command's help")]
pub enum ServerCommand {
    /// Serve until SIGTERM. Policies are read from the file: [policy] and [consumers."NAME"]
    Serve(ConfigArgs),
    #[allow(clippy::doc_markdown, reason = "it is also the command's help")]
    /// Bring the store's schema up to this binary's version. SQLite does so by itself at the start
    Migrate(ConfigArgs),
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
pub struct ConfigArgs {
    #[allow(clippy::doc_markdown, reason = "it is also the flag's help")]
    /// A TOML file with any of these settings (as snake_case) and the policies
    #[arg(long, env = "IDEMPOTENCY_LEDGER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: Box<Settings>,
    /// How logs are written, to standard error
    #[arg(long, env = "IDEMPOTENCY_LEDGER_LOG_FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// What is logged: error, warn, info, debug, trace, or a filter like `idempotency_ledger=debug`
    #[arg(
        long,
        env = "IDEMPOTENCY_LEDGER_LOG",
        default_value = "info,sqlx::postgres::notice=warn",
        value_name = "FILTER"
    )]
    log: String,
}

impl ServerCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// All that is wrong, each with the setting's name.
    pub async fn run(self) -> Result<(), Vec<String>> {
        let done = match self {
            ServerCommand::Serve(config) => serve::serve(config.load()?).await,
            ServerCommand::Migrate(config) => migrate::migrate(config.load()?).await,
            ServerCommand::Health { address, service } => {
                health::health(&address, &service, Duration::from_secs(5)).await
            }
        };
        done.map_err(|problem| vec![problem])
    }
}

impl ConfigArgs {
    /// Starts the logs, and checks the settings.
    fn load(self) -> Result<Config, Vec<String>> {
        telemetry::start(self.log_format, &self.log).map_err(|problem| vec![problem])?;
        Config::load(*self.settings, self.config.as_deref())
    }
}

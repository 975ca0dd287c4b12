//! What is typed to run and tend a server.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use tokio::runtime::Builder;

use super::config::{AdminListen, Config, Given, HttpListen, InForce, Settings, Typed};
use super::failure::Failure;
use super::health::{self, HealthArgs};
use super::telemetry::LogArgs;
use super::trust::Files;
use super::{memory, migrate, serve};

/// What is wrong with flags, variables or the file: as for a flag that does not exist.
const WRONGLY_CALLED: u8 = 2;
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);
/// In the place of an address, for what does not listen.
const LISTENS_NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// How long the end of a process waits for what still blocks a thread.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// What runs and tends a server.
#[derive(Subcommand)]
#[allow(rustdoc::broken_intra_doc_links, reason = "each text is also its command's help")]
pub enum ServerCommand {
    /// Serve until SIGTERM or SIGINT; with SIGHUP, files of TLS, tokens and rights are read again. Policies are read from the file: [policy] and [consumers."NAME"]
    Serve {
        /// The configuration
        #[command(flatten)]
        config: ConfigArgs,
        /// Check flags, variables and the file, print what would be in force, and exit; opens no store and no port
        #[arg(long)]
        check_config: bool,
    },
    #[allow(clippy::doc_markdown, reason = "it is also the command's help")]
    /// Bring the store's schema up to this binary's version. SQLite does so by itself at the start
    Migrate {
        /// The configuration
        #[command(flatten)]
        config: ConfigArgs,
        /// Postgres: give this role the rights that a server needs, and no others; repeat it with each migration
        #[arg(long, value_name = "ROLE")]
        grant_to: Option<String>,
    },
    /// Ask a server whether it serves; exits with 0 if it does
    Health(HealthArgs),
}

/// Flags come before the environment, the environment before the file.
#[derive(clap::Args)]
pub struct ConfigArgs {
    #[command(flatten)]
    typed: Typed,
    #[allow(clippy::doc_markdown, reason = "it is also the flag's help")]
    /// A TOML file with any of these settings (as snake_case) and the policies
    #[arg(long, env = "IDEMPOTENCY_LEDGER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    settings: Box<Settings>,
}

impl ServerCommand {
    /// Runs the command, and reports why it fails.
    #[must_use]
    pub fn run(self) -> ExitCode {
        match self {
            ServerCommand::Serve { config, check_config } => {
                let log = config.log.clone();
                let (config, in_force) = match config.load() {
                    Ok(loaded) => loaded,
                    Err(code) => return code,
                };
                let files = match Files::read(&config.identity) {
                    Ok(files) => files,
                    Err(problems) => return wrong(&log, &problems),
                };
                if check_config {
                    log.print(&in_force.to_string(), &in_force.json());
                    return ExitCode::SUCCESS;
                }
                ended(&log, on_threads(config.runtime_threads(), serve::serve(config, files, &log)))
            }
            ServerCommand::Migrate { mut config, grant_to } => {
                let log = config.log.clone();
                // It listens nowhere: an address that is refused to a server is no fault of it.
                config.settings.listen = Some(Given::Value(LISTENS_NOWHERE));
                config.settings.admin_listen = Some(Given::Value(AdminListen::default()));
                config.settings.http_listen = Some(Given::Value(HttpListen::Off));
                config.settings.admin_http_listen = Some(Given::Value(AdminListen::default()));
                match config.load() {
                    Err(code) => code,
                    Ok((config, _)) => {
                        ended(&log, on_threads(1, migrate::migrate(config, grant_to.as_deref(), &log)))
                    }
                }
            }
            ServerCommand::Health(args) => match on_threads(1, health::health(&args, HEALTH_TIMEOUT)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(problem) => {
                    drop(writeln!(std::io::stderr(), "error: {problem}"));
                    ExitCode::FAILURE
                }
            },
        }
    }
}

/// Carries out work on so many threads of its own.
fn on_threads<E: From<String>>(threads: usize, work: impl Future<Output = Result<(), E>>) -> Result<(), E> {
    let mut builder = Builder::new_multi_thread();
    // What other threads wake up, and what had no room in a thread's own queue, comes first: by default it waits for up to
    // 60 tasks of that queue, each of which may fill it up again.
    builder.worker_threads(threads).global_queue_interval(1).enable_all();
    let runtime = builder.build();
    let runtime = runtime.map_err(|error| format!("the runtime cannot start: {error}"))?;
    let done = runtime.block_on(work);
    // A look-up of a name, say, may take longer than anybody waits for it.
    runtime.shutdown_timeout(ENDS_WITHIN);
    done
}

/// Reports all that is wrong.
fn wrong(log: &LogArgs, texts: &[String]) -> ExitCode {
    for text in texts {
        log.report(text);
    }
    ExitCode::from(WRONGLY_CALLED)
}

fn ended(log: &LogArgs, done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            log.report(failure.text());
            failure.code()
        }
    }
}

impl ConfigArgs {
    /// Starts the logs, and checks everything; all that is wrong is reported.
    fn load(self) -> Result<(Config, InForce), ExitCode> {
        let wrong_log = self.log.start().err();
        // Before the first secret is read.
        memory::keep_to_itself();
        let checked = Config::check(*self.settings, self.typed, self.config.as_deref());
        let (checked, mut problems) = match checked {
            Ok(checked) => (Some(checked), Vec::new()),
            Err(problems) => (None, problems),
        };
        problems.sort_by(|one, other| one.place.cmp(&other.place));
        let texts = wrong_log.into_iter().chain(problems.iter().map(ToString::to_string));
        let texts: Vec<String> = texts.collect();
        checked.filter(|_| texts.is_empty()).ok_or_else(|| wrong(&self.log, &texts))
    }
}

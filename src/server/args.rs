//! The commands that run and maintain a server.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use clap::builder::{OsStringValueParser, TypedValueParser};
use tokio::runtime::Builder;

use super::config::{
    AdminListen, ArgumentSources, Config, Database, Given, HttpListen, InForce, KnownVariables, Settings,
    unknown_variables,
};
use super::failure::Failure;
use super::health::{self, HealthArgs};
use super::signals::Signals;
use super::telemetry::{self, LogArgs};
use super::trust::Files;
use super::{backup, memory, migrate, serve};

/// Exit code for wrong flags, variables or files: that of an unknown flag.
const WRONGLY_CALLED: u8 = 2;
/// Exit code of a server that a signal ends before it serves: success, since it did all that it was asked to do.
const ENDED_BEFORE: u8 = 0;
/// Exit code of a `migrate` or a check that a signal ends: failure, since it is incomplete.
const UNDONE: u8 = 1;
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);
/// Stands in for the address of a command that does not listen.
const LISTENS_NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// How long the end of the process waits for blocked threads.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// The commands that run and maintain a server.
#[derive(Subcommand)]
#[allow(rustdoc::broken_intra_doc_links, reason = "each text is also its command's help")]
pub enum ServerCommand {
    /// Serve until SIGTERM or SIGINT; with SIGHUP, files of TLS, tokens and rights are read again. Policies are read from the
    /// file: [policy] and [consumers."NAME"]
    Serve {
        /// The configuration
        #[command(flatten)]
        config: ConfigArgs,
        /// Check flags, variables and the file, print what would be in force, and exit; opens no store and no port
        #[arg(long)]
        check_config: bool,
        #[allow(clippy::doc_markdown, reason = "it is also the flag's help")]
        /// SQLite: if the file has lost commits, accept that what was lost is granted again; leave it out at the next start
        #[arg(long)]
        accept_loss: bool,
        #[allow(clippy::doc_markdown, reason = "it is also the flag's help")]
        /// Keep the ledger in memory, and forget it at the end: for tests of your own consumers. Standard output begins
        /// with one line of JSON: the addresses in force, which may have been asked for with port 0
        #[arg(long, conflicts_with = "accept_loss")]
        ephemeral: bool,
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
        /// Accept the store's clock though it is more than a year ahead of what it showed before: grants go on by it
        #[arg(long)]
        accept_clock: bool,
    },
    #[allow(clippy::doc_markdown, reason = "it is also the command's help")]
    /// Copy an SQLite ledger into one file, while its server may go on; `restore` puts it back
    Backup {
        /// The configuration
        #[command(flatten)]
        config: ConfigArgs,
        /// The copy
        #[arg(value_name = "COPY")]
        copy: PathBuf,
        /// Put the copy in the place of an older one
        #[arg(long)]
        replace: bool,
    },
    #[allow(clippy::doc_markdown, reason = "it is also the command's help")]
    /// Put a backup of an SQLite ledger in the place of its file, while no server runs
    Restore {
        /// The configuration
        #[command(flatten)]
        config: ConfigArgs,
        /// The copy that `backup` made
        #[arg(value_name = "COPY")]
        copy: PathBuf,
        /// Accept that what was acknowledged after the backup is lost, and may be granted again
        #[arg(long)]
        accept_loss: bool,
    },
    /// Ask a server whether it serves; exits with 0 if it does
    Health(HealthArgs),
}

/// Flags take precedence over the environment, and the environment over the file.
#[derive(clap::Args)]
pub struct ConfigArgs {
    #[command(flatten)]
    arguments: ArgumentSources,
    #[allow(clippy::doc_markdown, reason = "it is also the flag's help")]
    /// A TOML file with any of these settings (as snake_case) and the policies
    #[arg(long, env = "IDEMPOTENCY_LEDGER_CONFIG", value_name = "FILE", value_parser = path())]
    config: Option<PathBuf>,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    settings: Box<Settings>,
}

impl ServerCommand {
    /// The name by which it is called.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            ServerCommand::Serve { .. } => "serve",
            ServerCommand::Migrate { .. } => "migrate",
            ServerCommand::Backup { .. } => "backup",
            ServerCommand::Restore { .. } => "restore",
            ServerCommand::Health(_) => "health",
        }
    }

    /// Runs the command, and reports why it fails.
    #[must_use]
    pub fn run(self, variables: &KnownVariables) -> ExitCode {
        let code = self.carry_out(variables);
        telemetry::end();
        code
    }

    fn carry_out(self, variables: &KnownVariables) -> ExitCode {
        match self {
            ServerCommand::Serve { config, check_config, accept_loss, ephemeral } => {
                let log = config.log.clone();
                let reporting = log.clone();
                let signals = match Signals::received(Box::new(move |name| {
                    if check_config {
                        reporting.report(&format!(
                            "{name}: ended before the configuration was checked: run it again"
                        ));
                    } else {
                        tracing::info!("{name}: the server ends before it served");
                    }
                    telemetry::end();
                    if check_config { UNDONE } else { ENDED_BEFORE }
                })) {
                    Ok(signals) => signals,
                    Err(problem) => return ended(&log, Err(problem.into())),
                };
                let (mut config, mut in_force) = match config.load(variables) {
                    Ok(loaded) => loaded,
                    Err(code) => return code,
                };
                if ephemeral {
                    let Database::Sqlite { by_default: true, .. } = config.database else {
                        let text = "--ephemeral: the ledger is kept in memory, and database_url names another place: leave \
                                    one of them out";
                        return wrong(&log, &[text.to_owned()]);
                    };
                    config.database = Database::Memory;
                    in_force.is_in_memory("--ephemeral");
                }
                let files = match Files::read(&config.identity) {
                    Ok(files) => files,
                    Err(problems) => return wrong(&log, &problems),
                };
                if check_config {
                    return ended(&log, log.print(&in_force.to_string(), &in_force.json()));
                }
                let threads = config.runtime_threads();
                let work = serve::serve(config, files, &log, signals, accept_loss);
                ended(&log, on_threads(threads, work))
            }
            ServerCommand::Migrate { config, grant_to, accept_clock } => config.tend(
                variables,
                "ended before `migrate` was done; what was applied stays applied: run it again",
                async |config, log| migrate::migrate(config, grant_to.as_deref(), accept_clock, log).await,
            ),
            ServerCommand::Backup { config, copy, replace } => config.tend(
                variables,
                "ended before the copy was whole: run it again",
                async |config, log| backup::backup(&config, &copy, replace, log).await,
            ),
            ServerCommand::Restore { config, copy, accept_loss } => config.tend(
                variables,
                "ended before the copy was restored: run it again",
                async |config, log| backup::restore(&config, &copy, accept_loss, log).await,
            ),
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

/// Runs work on a separate runtime with this number of threads.
fn on_threads<E: From<String>>(threads: usize, work: impl Future<Output = Result<(), E>>) -> Result<(), E> {
    let mut builder = Builder::new_multi_thread();
    // The global queue is polled first. It holds tasks that were woken from outside the runtime's workers, and the overflow of
    // local queues. By default, which tokio tunes, such a task waits for up to 126 local tasks, each of which may wake more.
    builder.worker_threads(threads).global_queue_interval(1).enable_all();
    let runtime = builder.build();
    let runtime = runtime.map_err(|error| format!("the runtime cannot start: {error}"))?;
    let done = runtime.block_on(work);
    // A blocking call, such as a DNS look-up, may take longer than its caller waits.
    runtime.shutdown_timeout(ENDS_WITHIN);
    done
}

/// A path that may be empty: an empty one is reported like any other wrong setting, with the name of its variable.
fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// Reports all problems.
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
    /// Runs a command on the store that does not serve. `interrupted` describes what a signal leaves behind, and what to do.
    fn tend(
        mut self,
        variables: &KnownVariables,
        interrupted: &'static str,
        work: impl AsyncFnOnce(Config, &LogArgs) -> Result<(), Failure>,
    ) -> ExitCode {
        let log = self.log.clone();
        let reporting = log.clone();
        let received = Signals::received(Box::new(move |name| {
            reporting.report(&format!("{name}: {interrupted}"));
            telemetry::end();
            UNDONE
        }));
        if let Err(problem) = received {
            return ended(&log, Err(problem.into()));
        }
        // The command does not listen: an address that a server may not use is not an error here.
        self.settings.listen = Some(Given::Value(LISTENS_NOWHERE));
        self.settings.admin_listen = Some(Given::Value(AdminListen::default()));
        self.settings.http_listen = Some(Given::Value(HttpListen::Off));
        self.settings.admin_http_listen = Some(Given::Value(AdminListen::default()));
        match self.load(variables) {
            Err(code) => code,
            Ok((config, _)) => ended(&log, on_threads(1, work(config, &log))),
        }
    }

    /// Starts the logs, checks the configuration, and reports all problems.
    fn load(self, variables: &KnownVariables) -> Result<(Config, InForce), ExitCode> {
        let wrong_log = self.log.start().err();
        // Before the first secret is read.
        memory::keep_to_itself();
        let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for variable in unknown_variables(variables, set) {
            let (variable, nearest, is_of_others) = (variable.name, variable.nearest, variable.is_of_others);
            if is_of_others {
                tracing::warn!(
                    variable,
                    nearest,
                    "the environment has a variable that other commands of this program read; this one leaves it out"
                );
            } else {
                tracing::warn!(
                    variable,
                    nearest,
                    "the environment has a variable that is not a setting of this program; it is left out"
                );
            }
        }
        let checked = Config::check(*self.settings, self.arguments, self.config.as_deref());
        let (checked, mut problems) = match checked {
            Ok(checked) => (Some(checked), Vec::new()),
            Err(problems) => (None, problems),
        };
        problems.sort_by(|one, other| one.source.cmp(&other.source));
        let texts = wrong_log.into_iter().chain(problems.iter().map(ToString::to_string));
        let texts: Vec<String> = texts.collect();
        checked.filter(|_| texts.is_empty()).ok_or_else(|| wrong(&self.log, &texts))
    }
}

//! Configuration: flags, environment and a TOML file, in that order of precedence. Each setting is
//! declared once, in [`Settings`].

mod admin_listen;
mod checked;
mod checker;
mod database;
mod file;
mod file_path;
mod given;
mod http;
mod identity;
mod in_force;
mod issuers;
mod local_listen;
mod policies;
mod problem;
mod settings;
mod variables;

use std::num::NonZero;
use std::path::Path;
use std::thread::available_parallelism;

use self::checker::Checker;
use self::file::File;
use self::problem::ValueSources;
use crate::store::{CLOCK_LIMITS, PostgresOptions, PostgresSource, PostgresStore, Store as _, UrlSource};

pub use self::admin_listen::AdminListen;
pub use self::checked::Config;
pub use self::database::Database;
pub use self::file_path::FilePath;
pub use self::given::Given;
pub use self::http::HttpSettings;
pub use self::identity::{IdentitySettings, TlsFiles};
pub use self::in_force::InForce;
pub use self::issuers::{IssuerSettings, JwksPlace};
pub use self::local_listen::{HttpListen, LocalListen, ObserveListen};
pub use self::problem::{ArgumentSources, Problem};
pub use self::settings::Settings;
pub use self::variables::KnownVariables;
pub(super) use self::variables::unknown as unknown_variables;

impl Config {
    /// Merges flags and environment with the file, and checks everything.
    ///
    /// # Errors
    /// All problems, each with the setting's name.
    pub fn load(flags: Settings, file: Option<&Path>) -> Result<Config, Vec<String>> {
        let checked = Config::check(flags, ArgumentSources::default(), file);
        checked
            .map(|(config, _)| config)
            .map_err(|problems| problems.into_iter().map(|problem| problem.text).collect())
    }

    /// Merges flags and environment with the file, and checks everything. Opens no store and no port.
    ///
    /// # Errors
    /// All problems, each with the setting's name and the source of the value.
    pub fn check(
        flags: Settings,
        arguments: ArgumentSources,
        file: Option<&Path>,
    ) -> Result<(Config, InForce), Vec<Problem>> {
        let mut sources = ValueSources { arguments, ..ValueSources::default() };
        let mut problems = Vec::new();
        let File { settings, policy, consumers, issuers } =
            file.map_or_else(File::default, |path| file::read(path, &mut sources, &mut problems));
        let mut checker = Checker::new(sources, problems);
        let policies = policies::policies(&policy, &consumers, &mut checker);
        let config = checked::settings(&flags.or(settings), policies, &issuers, &mut checker);
        if let Database::Postgres { source } = &config.database {
            let told_by =
                if let UrlSource::File(_) = source.url { "database_url_file" } else { "database_url" };
            match PostgresStore::new(&config.postgres(source)) {
                Ok(store) => checker.shown_from("database_url", store.describe(), told_by),
                Err(wrong) => checker.wrong(wrong.setting, &wrong.text),
            }
        }
        if !checker.problems.is_empty() {
            return Err(checker.problems);
        }
        let in_force = InForce { settings: checker.in_force, policies: config.policies.clone() };
        Ok((config, in_force))
    }

    /// The number of threads that serve calls. More threads make each call more expensive, since they wake each other up, and the
    /// store needs processors too. At least two: with one, new calls and calls in flight wait for each other.
    #[must_use]
    pub fn runtime_threads(&self) -> usize {
        match self.threads {
            0 => available_parallelism().map_or(0, NonZero::get).div_ceil(2).max(2),
            threads => threads,
        }
    }

    /// The options of a Postgres store with this source.
    #[must_use]
    pub fn postgres(&self, source: &PostgresSource) -> PostgresOptions {
        PostgresOptions {
            source: source.clone(),
            schema: self.schema.clone(),
            sessions: self.sessions,
            lifetime: self.max_connection_lifetime,
            lock_wait: self.lock_wait,
            prepared_statements: self.prepared_statements,
            transaction_pooling: self.transaction_pooling,
            clock_limits: CLOCK_LIMITS,
        }
    }
}

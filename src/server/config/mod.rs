//! Configuration: flags, environment and a TOML file, in that order of precedence. Each setting is
//! declared once, here.

mod checked;
mod database;
mod policies;
mod settings;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::policy_args::PolicyArgs;

pub use self::checked::Config;
pub use self::database::{DATABASE_URL_DEFAULT, Database, database};
pub use self::settings::Settings;

/// The file: the settings, and the policies.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    policy: PolicyArgs,
    consumers: BTreeMap<String, PolicyArgs>,
    #[serde(flatten)]
    settings: toml::Table,
}

impl Config {
    /// Merges flags and environment with the file, and checks everything.
    ///
    /// # Errors
    /// All that is wrong, each with the setting's name.
    pub fn load(flags: Settings, file: Option<&Path>) -> Result<Config, Vec<String>> {
        let file = match file {
            None => File::default(),
            Some(path) => read(path).map_err(|problem| vec![problem])?,
        };
        let lower: Settings = file
            .settings
            .clone()
            .try_into()
            .map_err(|error| vec![format!("the configuration file: {error}")])?;
        let mut problems = Vec::new();
        let policies = policies::policies(&file.policy, &file.consumers, &mut problems);
        let config = checked::settings(&flags.or(lower), policies, &mut problems);
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }
}

fn read(path: &Path) -> Result<File, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("config: {}: {error}", path.display()))?;
    toml::from_str(&text).map_err(|error| format!("config: {}: {error}", path.display()))
}

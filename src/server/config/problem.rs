//! Problems of a configuration, and the sources of values.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

/// A problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The setting, or the path of a policy's field; the problem, and the limit.
    pub text: String,
    /// The source of the value: a flag, a variable, or a file and its line; `None` for a default.
    pub source: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)?;
        self.source.as_ref().map_or(Ok(()), |source| write!(to, " ({source})"))
    }
}

/// The settings that were given by flags or by the environment, each with its source.
#[derive(Clone, Debug, Default)]
pub struct ArgumentSources(BTreeMap<String, String>);

/// Reads the sources of the arguments next to it, so it must be flattened before them.
impl FromArgMatches for ArgumentSources {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ArgumentSources, clap::Error> {
        let described = |id: &str| {
            let source = matches.value_source(id)?;
            if source == ValueSource::CommandLine {
                return Some(format!("--{}", id.replace('_', "-")));
            }
            (source == ValueSource::EnvVariable).then(|| format!("IDEMPOTENCY_LEDGER_{}", id.to_uppercase()))
        };
        let ids = matches.ids().map(clap::Id::as_str);
        Ok(ArgumentSources(ids.filter_map(|id| Some((id.to_owned(), described(id)?))).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = ArgumentSources::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ArgumentSources {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

/// The source of each value.
#[derive(Debug, Default)]
pub(super) struct ValueSources {
    pub(super) arguments: ArgumentSources,
    pub(super) file: PathBuf,
    /// The lines of the file by their paths: settings, sections of policies and their fields.
    pub(super) lines: BTreeMap<String, usize>,
}

impl ValueSources {
    /// The source of the value in force of a setting or a policy's field: a flag or a variable overrides the file.
    pub(super) fn of(&self, path: &str) -> Option<String> {
        self.arguments.0.get(path).cloned().or_else(|| self.in_file(path))
    }

    /// The source in the file; for a field that is not written, its section.
    pub(super) fn in_file(&self, path: &str) -> Option<String> {
        let mut path = path;
        loop {
            if let Some(line) = self.lines.get(path) {
                return Some(format!("{}, line {line}", self.file.display()));
            }
            path = path.rsplit_once('.')?.0;
        }
    }
}

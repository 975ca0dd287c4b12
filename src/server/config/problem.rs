//! What is wrong with a configuration, and where it was written.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The setting, or the path of a policy's field; what is wrong, and the limit.
    pub text: String,
    /// Where the value was written: a flag, a variable, or a file and its line; none: it is a default.
    pub place: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)?;
        self.place.as_ref().map_or(Ok(()), |place| write!(to, " ({place})"))
    }
}

/// Which settings were given by flags, and which by the environment.
#[derive(Clone, Debug, Default)]
pub struct Typed(BTreeMap<String, String>);

/// Reads the sources of the arguments beside it, so it must be flattened before them.
impl FromArgMatches for Typed {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Typed, clap::Error> {
        let place = |id: &str| {
            let source = matches.value_source(id)?;
            if source == ValueSource::CommandLine {
                return Some(format!("--{}", id.replace('_', "-")));
            }
            (source == ValueSource::EnvVariable).then(|| format!("IDEMPOTENCY_LEDGER_{}", id.to_uppercase()))
        };
        let ids = matches.ids().map(clap::Id::as_str);
        Ok(Typed(ids.filter_map(|id| Some((id.to_owned(), place(id)?))).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Typed::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Typed {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

/// Where each value was written.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) typed: Typed,
    pub(super) file: PathBuf,
    /// The lines of the file by their paths: settings, sections of policies and their fields.
    pub(super) lines: BTreeMap<String, usize>,
}

impl Places {
    /// The place of the value that counts for a setting or a policy's field: a flag or a variable stands above the file.
    pub(super) fn of(&self, path: &str) -> Option<String> {
        self.typed.0.get(path).cloned().or_else(|| self.in_file(path))
    }

    /// The place in the file; of a field that is not written, that of its section.
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

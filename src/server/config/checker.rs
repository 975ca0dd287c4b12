//! Checks single settings, and collects the values in force and the problems.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::admin_listen::AdminListen;
use super::file_path::FilePath;
use super::given::Given;
use super::local_listen::LocalListen;
use super::problem::{Problem, ValueSources};
use crate::common::duration_arg::DurationArg;
use crate::store::SchemaName;

/// A setting as it would be in force.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shown {
    pub(super) name: String,
    pub(super) value: toml::Value,
    /// The source of the value; `None` for a default.
    pub(super) source: Option<String>,
}

pub(super) struct Checker {
    pub(super) sources: ValueSources,
    pub(super) problems: Vec<Problem>,
    pub(super) in_force: Vec<Shown>,
}

impl Checker {
    pub(super) fn new(sources: ValueSources, problems: Vec<Problem>) -> Checker {
        Checker { sources, problems, in_force: Vec::new() }
    }

    /// Adds a problem of the setting or field with this path.
    pub(super) fn wrong(&mut self, path: &str, text: &str) {
        self.problems.push(Problem { text: format!("{path}: {text}"), source: self.sources.of(path) });
    }

    pub(super) fn shown(&mut self, name: &str, value: impl Into<toml::Value>) {
        self.shown_from(name, value, name);
    }

    /// Adds a setting whose value may come from another setting.
    pub(super) fn shown_from(&mut self, name: &str, value: impl Into<toml::Value>, set_by: &str) {
        let source = self.sources.of(set_by);
        self.in_force.push(Shown { name: name.to_owned(), value: value.into(), source });
    }

    pub(super) fn number(
        &mut self,
        name: &str,
        given: Option<&Given<usize>>,
        default: usize,
        bounds: RangeInclusive<usize>,
    ) -> usize {
        let value = self.bounded(name, "is not a whole number", given, default, &bounds);
        self.shown(name, i64::try_from(value).unwrap_or(i64::MAX));
        value
    }

    pub(super) fn time(
        &mut self,
        name: &str,
        given: Option<&Given<DurationArg>>,
        default: Duration,
        bounds: RangeInclusive<Duration>,
    ) -> Duration {
        let given = given.map(|given| match given {
            Given::Value(value) => Given::Value(Duration::from(*value)),
            Given::Unreadable(text) => Given::Unreadable(text.clone()),
        });
        let kind = "is not a duration like 500ms, 30s, 15m, 24h or 7d";
        let value = self.bounded(name, kind, given.as_ref(), default, &bounds);
        self.shown(name, DurationArg::from(value).to_string());
        value
    }

    /// A time for which zero means no limit.
    pub(super) fn time_or_ever(
        &mut self,
        name: &str,
        given: Option<&Given<DurationArg>>,
        default: Duration,
        bounds: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        if let Some(Given::Value(value)) = given
            && Duration::from(*value).is_zero()
        {
            self.shown(name, value.to_string());
            return None;
        }
        Some(self.time(name, given, default, bounds)).filter(|time| !time.is_zero())
    }

    /// An optional file; it is not opened here.
    pub(super) fn file(&mut self, name: &str, given: Option<&Given<FilePath>>) -> Option<PathBuf> {
        let value = match given {
            None => FilePath(None),
            Some(Given::Value(value)) => value.clone(),
            Some(Given::Unreadable(text)) => {
                self.wrong(name, &text.parse::<FilePath>().err().unwrap_or_default());
                FilePath(None)
            }
        };
        self.shown(name, value.to_string());
        value.0
    }

    /// The name of a schema.
    pub(super) fn schema(&mut self, name: &str, given: Option<&Given<SchemaName>>) -> SchemaName {
        let value = match given {
            None => SchemaName::default(),
            Some(Given::Value(value)) => value.clone(),
            Some(Given::Unreadable(text)) => {
                let problem = text.parse::<SchemaName>().err().unwrap_or_default();
                self.wrong(name, &format!("`{text}`: {problem}"));
                SchemaName::default()
            }
        };
        self.shown(name, value.to_string());
        value
    }

    pub(super) fn switch(&mut self, name: &str, given: Option<&Given<bool>>, default: bool) -> bool {
        let value = match given {
            None => default,
            Some(Given::Value(value)) => *value,
            Some(Given::Unreadable(text)) => {
                self.wrong(name, &format!("`{text}` is neither true nor false"));
                default
            }
        };
        self.shown(name, value);
        value
    }

    pub(super) fn address(
        &mut self,
        name: &str,
        given: Option<&Given<SocketAddr>>,
        default: SocketAddr,
    ) -> SocketAddr {
        let value = match given {
            None => default,
            Some(Given::Value(value)) => *value,
            Some(Given::Unreadable(text)) => {
                self.wrong(name, &format!("`{text}` is not an address and port like {default}"));
                default
            }
        };
        self.shown(name, value.to_string());
        value
    }

    pub(super) fn admin_listen(
        &mut self,
        name: &str,
        given: Option<&Given<AdminListen>>,
    ) -> Option<SocketAddr> {
        let value = match given {
            None => AdminListen::default(),
            Some(Given::Value(value)) => *value,
            Some(Given::Unreadable(text)) => {
                self.wrong(name, &text.parse::<AdminListen>().err().unwrap_or_default());
                AdminListen::default()
            }
        };
        self.shown(name, value.to_string());
        value.0
    }

    pub(super) fn local_listen<const PORT: u16>(
        &mut self,
        name: &str,
        given: Option<&Given<LocalListen<PORT>>>,
    ) -> LocalListen<PORT> {
        let value = match given {
            None => LocalListen::<PORT>::DEFAULT,
            Some(Given::Value(value)) => *value,
            Some(Given::Unreadable(text)) => {
                self.wrong(name, &text.parse::<LocalListen<PORT>>().err().unwrap_or_default());
                LocalListen::<PORT>::DEFAULT
            }
        };
        self.shown(name, value.to_string());
        value
    }

    fn bounded<T: Copy + Debug + PartialOrd>(
        &mut self,
        name: &str,
        kind: &str,
        given: Option<&Given<T>>,
        default: T,
        bounds: &RangeInclusive<T>,
    ) -> T {
        let limits = format!("must be {:?} to {:?}", bounds.start(), bounds.end());
        match given {
            None => default,
            Some(Given::Value(value)) => {
                if !bounds.contains(value) {
                    self.wrong(name, &format!("is {value:?}, {limits}"));
                }
                *value
            }
            Some(Given::Unreadable(text)) => {
                self.wrong(name, &format!("`{text}` {kind}; {limits}"));
                default
            }
        }
    }
}

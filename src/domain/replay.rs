//! Replay runs: named namespaces of one consumer, in which its messages are processed again, or are not.

use super::{Span, StoreTime};

/// What a run is for: the consumer's policy said so when the run was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunMode {
    /// Effects must not happen again: messages are acknowledged unprocessed.
    Suppress,
    /// Messages are processed again, each once.
    Rebuild,
}

/// A replay run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayRun {
    /// The consumer.
    pub consumer: String,
    /// Its name, which the consumer never has for another run.
    pub name: String,
    /// What it is for.
    pub mode: RunMode,
    /// When it was created.
    pub created_at: StoreTime,
    /// When it is over by itself. It only ever comes nearer.
    pub ends_at: StoreTime,
    /// When an operator closed it; none: nobody has.
    pub closed_at: Option<StoreTime>,
    /// Who created it, as authenticated.
    pub actor: String,
    /// Why.
    pub reason: String,
}

impl ReplayRun {
    /// When it was, or will be, at its end. Over is for ever.
    #[must_use]
    pub fn end(&self) -> StoreTime {
        self.closed_at.map_or(self.ends_at, |closed| closed.min(self.ends_at))
    }

    /// How it stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing::Known { mode: self.mode, end: self.end() }
    }
}

/// How the run of a key stands, by what this server knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Standing {
    /// The key is of no run.
    #[default]
    Live,
    /// Nobody has registered the run.
    Unknown,
    /// It is registered.
    Known {
        /// What it is for.
        mode: RunMode,
        /// When it is at its end.
        end: StoreTime,
    },
}

impl Standing {
    /// The last instant at which something may be granted in it.
    pub(crate) fn grants_until(self) -> StoreTime {
        match self {
            Standing::Live => StoreTime::MAX,
            Standing::Unknown => StoreTime(0),
            Standing::Known { end, .. } => end - Span(1),
        }
    }
}

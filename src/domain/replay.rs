//! Replay runs: named namespaces of one consumer, in which its messages are processed again, or are
//! acknowledged unprocessed.

use super::{Span, StoreTime};

/// What a run is for, as the consumer's policy had it when the run was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunMode {
    /// Effects must not happen again: messages are acknowledged unprocessed.
    Suppress,
    /// Messages are processed again, each one time.
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
    /// When it ends by itself. It may be moved earlier, never later.
    pub ends_at: StoreTime,
    /// When an operator closed it; `None` if it is not closed.
    pub closed_at: Option<StoreTime>,
    /// The authenticated operator who created it.
    pub actor: String,
    /// The stated reason.
    pub reason: String,
}

impl ReplayRun {
    /// When it ended, or will end. A run that is over stays over.
    #[must_use]
    pub fn end(&self) -> StoreTime {
        self.closed_at.map_or(self.ends_at, |closed| closed.min(self.ends_at))
    }

    /// Its standing. A closed run has ended for every claim, whatever the clock reads: a claim may be judged by a reading that is a
    /// little older than the close, and would then be acknowledged as suppressed.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let end = if self.closed_at.is_some() { StoreTime(0) } else { self.ends_at };
        Standing::Known { mode: self.mode, end }
    }
}

/// The standing of a key's run, as far as this server knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Standing {
    /// The key is of no run.
    #[default]
    Live,
    /// The run is not registered.
    Unknown,
    /// The run is registered.
    Known {
        /// What it is for.
        mode: RunMode,
        /// When it ends.
        end: StoreTime,
    },
}

impl Standing {
    /// The last instant at which a claim may be granted in it.
    #[must_use]
    pub fn grants_until(self) -> StoreTime {
        match self {
            Standing::Live => StoreTime::MAX,
            Standing::Unknown => StoreTime(0),
            Standing::Known { end, .. } => end - Span(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ends_by_itself_or_when_it_is_closed() {
        for (closed_at, end, standing) in [(None, 900, 900), (Some(500), 500, 0), (Some(950), 900, 0)] {
            let run = ReplayRun {
                consumer: "payments".into(),
                name: "2026-q1".into(),
                mode: RunMode::Rebuild,
                created_at: StoreTime(100),
                ends_at: StoreTime(900),
                closed_at: closed_at.map(StoreTime),
                actor: "ops".into(),
                reason: "rebuild".into(),
            };
            assert_eq!(run.end(), StoreTime(end), "{closed_at:?}");
            let known = Standing::Known { mode: RunMode::Rebuild, end: StoreTime(standing) };
            assert_eq!(run.standing(), known, "{closed_at:?}");
        }
    }
}

//! Open files: each connection is one, those of the plain HTTP port too, and the store needs some.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The open files kept for the store, the logs and the listeners.
const KEPT: u64 = 32;
/// Of this number of open files the plain HTTP port may use one, within these bounds.
const OBSERVED_ONE_OF: u64 = 8;
const OBSERVED_MIN: u64 = 32;
const OBSERVED_MAX: u64 = 256;

/// How many connections fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fitting {
    /// Of clients.
    pub(crate) connections: usize,
    /// Of the plain HTTP port.
    pub(crate) observed: usize,
}

/// Raises the limit of open files to what this process may have, and says how many connections fit: never
/// more than `connections_max`.
#[must_use]
pub(crate) fn connections(connections_max: usize) -> Fitting {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of open files was not raised");
        }
    }
    let files = getrlimit(Resource::Nofile).current;
    let fitting = fitting(connections_max, files);
    if fitting.connections < connections_max {
        tracing::warn!(
            connections_max = fitting.connections,
            setting = connections_max,
            open_files = files,
            "the limit of open files allows fewer connections than connections_max: raise LimitNOFILE or `ulimit -n`"
        );
    }
    fitting
}

/// How many connections fit; none as the limit: there is none.
fn fitting(connections_max: usize, files: Option<u64>) -> Fitting {
    let files = files.unwrap_or(u64::MAX);
    let observed = (files / OBSERVED_ONE_OF).clamp(OBSERVED_MIN, OBSERVED_MAX);
    let number = |number| usize::try_from(number).unwrap_or(usize::MAX);
    let most = number(files.saturating_sub(KEPT + observed));
    Fitting { connections: connections_max.min(most.max(1)), observed: number(observed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_kept_for_the_store() {
        for (setting, files, connections, observed) in [
            (1_000, Some(100), 36, 32),
            (20, Some(100), 20, 32),
            (36, Some(100), 36, 32),
            (1_000, Some(64), 1, 32),
            (1_000, Some(3), 1, 32),
            (1_000, Some(512), 416, 64),
            (1_000, Some(1_024), 864, 128),
            (1_000, None, 1_000, 256),
            (1_000, Some(u64::MAX), 1_000, 256),
        ] {
            let fits = Fitting { connections, observed };
            assert_eq!(fitting(setting, files), fits, "{setting} of {files:?}");
        }
    }
}

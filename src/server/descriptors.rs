//! File descriptors: each connection needs one, also those of the observe listener, and the store needs some.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for the store, the logs and the listeners.
const KEPT: u64 = 32;
/// The observe listener may use one of this number of descriptors, within these bounds.
const OBSERVED_ONE_OF: u64 = 8;
const OBSERVED_MIN: u64 = 32;
const OBSERVED_MAX: u64 = 256;

/// The number of connections that fit the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fitting {
    /// Connections of clients.
    pub(crate) connections: usize,
    /// Connections of the observe listener.
    pub(crate) observed: usize,
}

/// Raises the soft limit of open files (`RLIMIT_NOFILE`) to the hard limit; returns the number of connections that fit, at most
/// `connections_max`.
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

/// The number of connections that fit; `None` means no limit of files.
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
    fn fitting_reserves_files_for_the_store() {
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

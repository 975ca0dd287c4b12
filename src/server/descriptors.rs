//! Open files: each connection is one, and the store needs some too.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is kept for the store, the logs and the listener.
const KEPT: u64 = 64;

/// Raises the limit of open files to what this process may have, and says how many connections fit: never
/// more than `connections_max`.
#[must_use]
pub(crate) fn connections(connections_max: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of open files was not raised");
        }
    }
    let files = getrlimit(Resource::Nofile).current;
    let fitting = fitting(connections_max, files);
    if fitting < connections_max {
        tracing::warn!(
            connections_max = fitting,
            setting = connections_max,
            open_files = files,
            "the limit of open files allows fewer connections than connections_max: raise LimitNOFILE or `ulimit -n`"
        );
    }
    fitting
}

/// How many connections fit; none as the limit: there is none.
fn fitting(connections_max: usize, files: Option<u64>) -> usize {
    let most =
        files.map_or(usize::MAX, |files| usize::try_from(files.saturating_sub(KEPT)).unwrap_or(usize::MAX));
    connections_max.min(most.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_kept_for_the_store() {
        for (setting, files, fits) in [
            (1_000, Some(100), 36),
            (20, Some(100), 20),
            (36, Some(100), 36),
            (1_000, Some(64), 1),
            (1_000, Some(3), 1),
            (1_000, None, 1_000),
            (1_000, Some(u64::MAX), 1_000),
        ] {
            assert_eq!(fitting(setting, files), fits, "{setting} of {files:?}");
        }
    }
}

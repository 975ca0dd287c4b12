//! The lanes of the queue: the priority of a command, and how full the queue may be when a command of it is still accepted.

use crate::domain::{Command, Settle};
use crate::metrics;

/// Priority of a command: under overload, commands that end a claim are accepted longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::ledger::claims) enum Lane {
    Close,
    Renew,
    Release,
    Claim,
    /// It begins nothing and ends nothing: under overload it is refused first.
    Lookup,
}

pub(in crate::ledger::claims) const LANES: usize = metrics::LANES.len();

/// A consumer with at most this many commands in the queue has a small backlog: it did not fill the queue.
const SMALL_BACKLOG_MAX: usize = 16;

/// The same in a queue of this size: in a small queue fewer commands fill it.
pub(in crate::ledger::claims) fn small_backlog_max(queue_max: usize) -> usize {
    (queue_max / 64).min(SMALL_BACKLOG_MAX)
}

impl Lane {
    pub(in crate::ledger::claims) fn of(command: &Command) -> Lane {
        match command {
            Command::Claim(_) => Lane::Claim,
            Command::Lookup => Lane::Lookup,
            Command::Settle(_, Settle::Complete { .. } | Settle::Fail { .. }) => Lane::Close,
            Command::Settle(_, Settle::Renew { .. }) => Lane::Renew,
            Command::Settle(_, Settle::Release { .. }) => Lane::Release,
        }
    }

    /// How much of `of` may be taken when a command of this lane is still accepted. A sixteenth is reserved for claims of
    /// consumers with a small backlog: one consumer with a large backlog does not get the claims of others refused.
    pub(in crate::ledger::claims) fn share(self, of: usize, has_small_backlog: bool) -> usize {
        let sixteenths = match self {
            Lane::Close => 16,
            Lane::Renew => 14,
            Lane::Release => 12,
            Lane::Claim if has_small_backlog => 11,
            Lane::Claim => 10,
            Lane::Lookup => 8,
        };
        of.saturating_mul(sixteenths) / 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_that_end_claims_are_accepted_longest() {
        // How much of 1,000 may be taken by consumers with a small backlog, and by all others.
        for (lane, few, many) in [
            (Lane::Lookup, 500, 500),
            (Lane::Claim, 687, 625),
            (Lane::Release, 750, 750),
            (Lane::Renew, 875, 875),
            (Lane::Close, 1_000, 1_000),
        ] {
            assert_eq!((lane.share(1_000, true), lane.share(1_000, false)), (few, many), "{lane:?}");
        }
    }
}

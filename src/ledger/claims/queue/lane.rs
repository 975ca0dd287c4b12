//! The lanes of the queue: how important a command is, and how full the queue may be when it still enters.

use crate::domain::{Command, Settle};
use crate::metrics;

/// How important a command is: under overload those that end something are kept alive the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::ledger::claims) enum Lane {
    Close,
    Renew,
    Release,
    Claim,
    /// It begins nothing and ends nothing: under overload it goes first.
    Lookup,
}

pub(in crate::ledger::claims) const LANES: usize = metrics::LANES.len();

/// Whoever has so many commands in a queue of this length, or fewer, is not the one who filled it.
pub(in crate::ledger::claims) fn few(queue_max: usize) -> usize {
    (queue_max / 64).min(16)
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

    /// So much of this may be taken when such a command still enters. A sixteenth is kept for the claims of consumers that
    /// have few of them in the queue: the flood of one consumer does not get the claims of others refused.
    pub(in crate::ledger::claims) fn share(self, of: usize, has_few: bool) -> usize {
        let sixteenths = match self {
            Lane::Close => 16,
            Lane::Renew => 14,
            Lane::Release => 12,
            Lane::Claim if has_few => 11,
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
    fn what_ends_something_finds_room_for_longer() {
        // How much of 1,000 may be taken: as whoever has few, and as all others.
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

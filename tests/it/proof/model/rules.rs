//! What servers and the store go by.

use idempotency_ledger::domain::{Command, Context, Decision, Entry, Key, decide};

use super::world::Base;

/// What a server and the store go by. The seeded bugs replace it in part.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) decide: fn(&Key, Option<&Entry>, &Command, &Context<'_>) -> Decision,
    /// What a write compares, and what a purge does.
    pub(super) write: Compare,
    pub(super) purge: Compare,
    /// A row that was decided after a look is inserted with the clock of the insert.
    pub(super) stamps: bool,
    /// A call whose first try has an unknown outcome is never refused as not applied.
    pub(super) says_unknown: bool,
}

/// How a statement tells that a row is still the one that was read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Compare {
    /// A row that was purged and made anew begins at version 1 again, but never with an old token.
    VersionAndToken,
    Version,
    Presence,
}

impl Compare {
    pub(super) fn same(self, row: Option<Base>, read: Option<Base>) -> bool {
        match (self, row, read) {
            (Compare::VersionAndToken, ..) => row == read,
            (Compare::Version, Some(row), Some(read)) => row.version == read.version,
            (Compare::Version | Compare::Presence, ..) => row.is_some() == read.is_some(),
        }
    }
}

pub(super) const RULES: Rules = Rules {
    decide,
    write: Compare::VersionAndToken,
    purge: Compare::VersionAndToken,
    stamps: true,
    says_unknown: true,
};

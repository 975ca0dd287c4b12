//! What servers and the store go by.

use idempotency_ledger::domain::{Command, Context, Decision, Entry, Key, decide};

/// What a server and the store go by. The seeded bugs replace it in part.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) decide: fn(&Key, Option<&Entry>, &Command, &Context<'_>) -> Decision,
    /// What a write compares, and what a purge does.
    pub(super) write: Compare,
    pub(super) purge: Compare,
    /// A row that was decided after a look is inserted with the clock of the insert.
    pub(super) stamps: bool,
    /// A row that is made again begins with a version that no earlier one had.
    pub(super) fresh_versions: bool,
    /// A call whose first try has an unknown outcome is never refused as not applied.
    pub(super) says_unknown: bool,
}

/// How a statement tells that a row is still the one that was read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Compare {
    Version,
    Presence,
}

impl Compare {
    /// The versions of the row that is there and of the one that was read.
    pub(super) fn same(self, row: Option<i64>, read: Option<i64>) -> bool {
        match self {
            Compare::Version => row == read,
            Compare::Presence => row.is_some() == read.is_some(),
        }
    }
}

pub(super) const RULES: Rules = Rules {
    decide,
    write: Compare::Version,
    purge: Compare::Version,
    stamps: true,
    fresh_versions: true,
    says_unknown: true,
};

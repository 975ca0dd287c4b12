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
    /// How two calls are decided together.
    pub(super) folding: Folding,
    /// A call whose first try has an unknown outcome is never refused as not applied.
    pub(super) says_unknown: bool,
    /// How a waiting Claim is answered once something has happened to its key.
    pub(super) waking: Waking,
}

/// How a waiting Claim is answered once something has happened to its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Waking {
    /// By another look.
    Looks,
    /// Once the key may be granted, `acquired`, without a round.
    TakesTheKey,
    /// Once its claim was granted the key, the token of that grant, however long ago that was.
    KeepsTheToken,
}

/// How two calls are decided together, and written once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Folding {
    /// The second one on what the first one left; both are answered after the write.
    InOrder,
    /// The second one on the row as it was read.
    OnWhatWasRead,
    /// Each change is a step of the version.
    TwoSteps,
    /// The second one is answered, though the write is lost.
    AnswersTheLost,
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
    folding: Folding::InOrder,
    says_unknown: true,
    waking: Waking::Looks,
};

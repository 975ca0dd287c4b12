//! Entries that cannot be read. See docs/contract.md, section 6.

use super::reason::{Reason, Rejection};
use super::{KeyHash, TOKEN_MAX};

/// A stored entry that cannot be read: one of its columns holds what no version of the ledger has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableEntry {
    /// The hash of its key.
    pub key: KeyHash,
    /// The first column that cannot be read.
    pub column: &'static str,
    /// For the log: table, column and key, and the cause. It may contain the text of a driver, which never
    /// leaves the server.
    pub problem: String,
    /// Its version; `None` if that column itself cannot be read.
    pub version: Option<i64>,
    /// Its token; `None` if that column itself cannot be read.
    pub token: Option<i64>,
}

impl UnreadableEntry {
    /// The answer to every call about the entry.
    #[must_use]
    pub fn rejection(&self) -> Rejection {
        Rejection::new(
            Reason::EntryUnreadable,
            format!(
                "the stored entry of this key cannot be read (column {}, key hash {}); nothing was changed: an \
                 operator must mend or delete it, see \"A damaged row\" in docs/runbooks.md",
                self.column, self.key
            ),
        )
    }
}

/// Whether a stored token or version leaves a higher one for the next change. Both are made of the store's
/// clock: a higher one, or one below zero, was never written by the ledger.
#[must_use]
pub fn leaves_a_higher_one(value: i64) -> bool {
    (0..TOKEN_MAX).contains(&value)
}

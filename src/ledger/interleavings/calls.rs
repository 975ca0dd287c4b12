//! A numbered call of the ledger.

use crate::domain::{Command, Key, Submission};

/// A command with a number, which the store finds in what it writes.
#[derive(Clone, Debug)]
pub(super) struct NumberedCall {
    pub(super) number: u64,
    pub(super) key: Key,
    pub(super) command: Command,
}

impl NumberedCall {
    pub(super) fn submission(&self) -> Submission {
        Submission::new(self.key.clone(), self.command.clone())
    }
}

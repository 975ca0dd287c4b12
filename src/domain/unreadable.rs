//! Entries that cannot be read, and how they are deleted. See docs/contract.md, section 6.

use super::reason::{Reason, Rejection};
use super::{KeyHash, Reading, TOKEN_MAX, operate, retention};

/// A stored entry that cannot be read: one of its columns holds what no version of the ledger has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableEntry {
    /// The hash of its key.
    pub key: KeyHash,
    /// The first column that cannot be read.
    pub column: &'static str,
    /// For the log: table, column and key, and why. It may hold the text of a driver, which never leaves the server.
    pub problem: String,
    /// What stands in its version; `None` if that column itself cannot be read.
    pub version: Option<i64>,
    /// What stands in its token; `None` if that column itself cannot be read.
    pub token: Option<i64>,
}

impl UnreadableEntry {
    /// What every call about the entry is answered.
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

/// Whether a stored token or version leaves a higher one for the next change. Both are made of the store's clock: one that is
/// higher, or below zero, was never written by the ledger.
#[must_use]
pub fn leaves_a_higher_one(value: i64) -> bool {
    (0..TOKEN_MAX).contains(&value)
}

/// Decides whether an entry that cannot be read may be deleted. A later token must be higher than what was handed out; a number
/// that is not a token was handed out to no client.
///
/// # Errors
/// `STATE_NOT_ALLOWED` without `force`, `STORE_CLOCK_BEHIND`, `TOO_RECENT`.
pub fn delete_unreadable(entry: &UnreadableEntry, force: bool, reading: &Reading) -> Result<(), Rejection> {
    if !force {
        return Err(Rejection::new(
            Reason::StateNotAllowed,
            "nobody can know whether the effect of an entry that cannot be read has happened: once it is deleted a \
             later delivery is new and has its effect again; nothing was changed: `force` deletes it all the same",
        ));
    }
    if reading.behind() {
        return Err(operate::clock_behind());
    }
    let token = entry.token.filter(|token| leaves_a_higher_one(*token));
    if token.is_some_and(|token| token.saturating_add(retention::SETTLED.micros()) >= reading.token_clock()) {
        return Err(operate::too_recent());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::StoreTime;

    #[test]
    fn delete_of_an_unreadable_entry_needs_force_and_an_old_token() {
        const NOW: i64 = 1_780_000_000_000_000;
        let minute = retention::SETTLED.micros();
        for (token, force, mark, reason) in [
            (Some(NOW - minute - 1), true, NOW, None),
            (Some(NOW - minute - 1), false, NOW, Some(Reason::StateNotAllowed)),
            (Some(NOW - minute), true, NOW, Some(Reason::TooRecent)),
            (Some(NOW - minute - 1), true, NOW + 1, Some(Reason::StoreClockBehind)),
            (Some(TOKEN_MAX - 1), true, NOW, Some(Reason::TooRecent)),
            (Some(TOKEN_MAX), true, NOW, None),
            (Some(i64::MAX), true, NOW, None),
            (Some(-1), true, NOW, None),
            (None, true, NOW, None),
        ] {
            let key = KeyHash::from_u128(1);
            let entry =
                UnreadableEntry { key, column: "history", problem: String::new(), version: None, token };
            let reading = Reading { now: StoreTime(NOW), token_offset: 0, mark };
            let refused = delete_unreadable(&entry, force, &reading).err().map(|rejection| rejection.reason);
            assert_eq!(refused, reason, "{token:?} {force} {mark}");
        }
    }
}

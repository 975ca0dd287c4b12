//! When an entry that cannot be read may be deleted. See docs/contract.md, section 6.

use super::clock_fault::clock_refusal;
use super::reason::{Reason, Rejection};
use super::unreadable::{UnreadableEntry, leaves_a_higher_one};
use super::{Reading, Span, operate, retention};

/// A token that is further than this ahead of the store's clock, and of every reading it has shown, was not
/// made by the ledger. Tokens of one key are ahead of the clock by a microsecond for each grant of a batch,
/// and the mark of the clock is usually about a second old.
const AHEAD_MAX: Span = Span::from_days(1);

/// Decides whether an entry that cannot be read may be deleted. A later token must be higher than every token
/// that was handed out; a number that cannot be a token was never handed out.
///
/// # Errors
/// `STATE_NOT_ALLOWED` without `force`, `STORE_CLOCK_BEHIND`, `STORE_CLOCK_AHEAD`, `TOO_RECENT`;
/// `ENTRY_UNREADABLE` where its token is damaged, and may have been handed out since.
pub fn delete_unreadable(entry: &UnreadableEntry, force: bool, reading: &Reading) -> Result<(), Rejection> {
    if !force {
        return Err(Rejection::new(
            Reason::StateNotAllowed,
            "whether the effect of an entry that cannot be read has happened is unknown: once it is deleted a \
             later delivery is new and has its effect again; nothing was changed: `force` deletes it all the same",
        ));
    }
    if let Some(rejection) = clock_refusal(reading) {
        return Err(rejection);
    }
    let token = entry.token.filter(|token| leaves_a_higher_one(*token));
    let shown = reading.token_clock().max(reading.mark);
    if let Some(token) = token.filter(|token| *token > shown.saturating_add(AHEAD_MAX.micros())) {
        return Err(Rejection::new(
            Reason::EntryUnreadable,
            format!(
                "the token of this row, {token}, is damaged: it is more than a day ahead of the store's clock and of all \
                 that it has shown; a claim may have been given the one after it, so that a later token would be lower; \
                 nothing was changed: set the column `token` right first, see \"A damaged row\" in docs/runbooks.md"
            ),
        ));
    }
    if token.is_some_and(|token| token.saturating_add(retention::SETTLED.micros()) >= reading.token_clock()) {
        return Err(operate::too_recent());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClockLimits, KeyHash, StoreTime, TOKEN_MAX};

    #[test]
    fn delete_of_an_unreadable_entry_needs_force_and_an_old_token() {
        const NOW: i64 = 1_780_000_000_000_000;
        let (minute, day) = (retention::SETTLED.micros(), AHEAD_MAX.micros());
        for (token, force, mark, reason) in [
            (Some(NOW - minute - 1), true, NOW, None),
            (Some(NOW - minute - 1), false, NOW, Some(Reason::StateNotAllowed)),
            (Some(NOW - minute), true, NOW, Some(Reason::TooRecent)),
            (Some(NOW - minute - 1), true, NOW + 1, Some(Reason::StoreClockBehind)),
            (Some(NOW + day), true, NOW, Some(Reason::TooRecent)),
            (Some(NOW + day + 1), true, NOW, Some(Reason::EntryUnreadable)),
            (Some(NOW + day + 1), false, NOW, Some(Reason::StateNotAllowed)),
            (Some(TOKEN_MAX - 1), true, NOW, Some(Reason::EntryUnreadable)),
            (Some(TOKEN_MAX), true, NOW, None),
            (Some(i64::MAX), true, NOW, None),
            (Some(-1), true, NOW, None),
            (None, true, NOW, None),
        ] {
            let key = KeyHash::from_u128(1);
            let entry =
                UnreadableEntry { key, column: "history", problem: String::new(), version: None, token };
            let reading = Reading { now: StoreTime(NOW), token_offset: 0, mark, limits: ClockLimits::NONE };
            let refused = delete_unreadable(&entry, force, &reading).err().map(|rejection| rejection.reason);
            assert_eq!(refused, reason, "{token:?} {force} {mark}");
        }
    }
}

//! The inputs of a decision besides the entry and the command, and its outcome.

use super::entry::VERSION_STEP;
use super::{Answer, Entry, Policy, Reading, StoreTime, TOKEN_MAX};

/// The inputs of a decision besides the entry and the command. A decision reads nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The rules of the key's consumer.
    pub policy: &'a Policy,
    /// The store's clock.
    pub now: StoreTime,
    /// The operator's number that is added to the clock to make tokens.
    pub token_offset: i64,
    /// The position of the command in its batch.
    pub position: i64,
    /// The store's clock runs behind what it showed before: no new token is safe.
    pub clock_behind: bool,
    /// The store's clock shows an instant before the date of the release, whatever it showed before.
    pub clock_before_release: bool,
    /// The store's clock has jumped ahead: leases, windows and retentions seem to be over although they are
    /// not.
    pub clock_ahead: bool,
}

impl<'a> Context<'a> {
    /// The context of a decision at this reading of the store's clock.
    #[must_use]
    pub fn at(reading: &Reading, policy: &'a Policy, position: i64) -> Context<'a> {
        Context {
            policy,
            now: reading.now,
            token_offset: reading.token_offset,
            position,
            clock_behind: reading.behind(),
            clock_before_release: reading.before_release(),
            clock_ahead: reading.ahead(),
        }
    }

    /// The same context with the clock at zero, for a new entry: the insert adds the store's clock.
    #[must_use]
    pub fn timeless(self) -> Context<'a> {
        Context { now: StoreTime(0), token_offset: 0, ..self }
    }

    /// The token of a new grant: the tokens of one key strictly grow.
    pub(super) fn next_token(&self, old: i64) -> i64 {
        old.saturating_add(1).max(self.token_clock().saturating_add(self.position))
    }

    /// Whether the token of a new grant would leave no higher one below 2^53: then no token is made.
    pub(super) fn tokens_are_used_up(&self, old: i64) -> bool {
        self.next_token(old) >= TOKEN_MAX
    }

    /// The version of a new row: clock + offset, in whole milliseconds.
    pub(super) fn first_version(&self) -> i64 {
        let token_clock = self.token_clock();
        token_clock - token_clock.rem_euclid(VERSION_STEP)
    }

    /// Clock + offset.
    pub(super) fn token_clock(&self) -> i64 {
        self.now.micros().saturating_add(self.token_offset)
    }
}

/// An answer, and the entry as it must stand before the answer may be given.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The answer.
    pub answer: Answer,
    /// The entry to write where the version is still the one that was read; `None` if nothing changes.
    pub write: Option<Entry>,
    /// The write is a new grant, or a parking in place of one: only the policy in force at the time of the
    /// write may decide it.
    pub grants: bool,
}

impl Decision {
    pub(super) fn read(answer: Answer) -> Decision {
        Decision { answer, write: None, grants: false }
    }

    pub(super) fn write(answer: Answer, entry: Entry) -> Decision {
        Decision { answer, write: Some(entry), grants: false }
    }

    pub(super) fn grant(answer: Answer, entry: Entry) -> Decision {
        Decision { answer, write: Some(entry), grants: true }
    }
}

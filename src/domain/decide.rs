//! The verbs: one pure function from an entry and a command to an answer and the next entry.

use bytes::Bytes;

use super::{Answer, Claimant, Entry, Key, Policy, Span, StoreTime, claim, settle};

/// What a caller asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// The right to process the message now.
    Claim(Claim),
    /// An operation with a token.
    Settle(i64, Settle),
}

impl Command {
    /// How many bytes of the caller's own it carries: what has a length, without the key.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match self {
            Command::Claim(claim) => claim.fingerprint.len() + claim.claimant.owner.len(),
            Command::Settle(_, Settle::Complete { result }) => result.len(),
            Command::Settle(_, Settle::Fail { error, .. }) => error.len(),
            Command::Settle(_, Settle::Renew { checkpoint, .. }) => checkpoint.as_ref().map_or(0, Bytes::len),
            Command::Settle(_, Settle::Release { .. }) => 0,
        }
    }
}

/// The right to process the message now.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Who asks.
    pub claimant: Claimant,
    /// For how long; none: the policy's.
    pub lease: Option<Span>,
    /// A digest of the payload; empty: none.
    pub fingerprint: Bytes,
    /// When the producer made the message.
    pub occurred_at: Option<StoreTime>,
    /// The trace context of this attempt; empty: none.
    pub traceparent: String,
}

/// What a settlement does.
#[derive(Clone, Debug, PartialEq)]
pub enum Settle {
    /// Extends the claim.
    Renew {
        /// For how long from now; none: the policy's lease.
        lease: Option<Span>,
        /// The effect is about to start.
        effect_started: bool,
        /// Progress for the next attempt.
        checkpoint: Option<Bytes>,
    },
    /// Closes the claim: done.
    Complete {
        /// What later deliveries shall be answered.
        result: Bytes,
    },
    /// Closes the claim: failed.
    Fail {
        /// What another attempt would bring.
        kind: FailureKind,
        /// What went wrong.
        error: String,
        /// When the next attempt is due; none: the policy's backoff.
        retry_after: Option<Span>,
    },
    /// Gives the claim back unused.
    Release {
        /// When the key is claimable again.
        delay: Span,
    },
}

/// What another attempt would bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// It may succeed.
    Retryable,
    /// None will ever succeed.
    Terminal,
    /// A person shall look at it.
    Park,
}

/// What surrounds a decision. Nothing else is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The rules of the key's consumer.
    pub policy: &'a Policy,
    /// The store's clock.
    pub now: StoreTime,
    /// The operator's number that is added to the clock for tokens.
    pub token_offset: i64,
    /// The place of the command in its batch.
    pub position: i64,
    /// The store's clock runs behind what it showed before: no new token is safe.
    pub clock_behind: bool,
}

/// First versions are multiples of this.
pub(super) const VERSION_STEP: i64 = 1_000;

impl Context<'_> {
    /// The token of a new grant: it strictly grows per key.
    pub(super) fn next_token(&self, old: i64) -> i64 {
        old.saturating_add(1).max(self.token_clock().saturating_add(self.position))
    }

    /// The version of a new row: clock + offset, to the millisecond, so that it does not tell the token.
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
    /// What to write where the version is still the one that was read; none: nothing changes.
    pub write: Option<Entry>,
    /// It is a new grant, or a parking in place of one: nothing but the policy that is in force when it is
    /// written may decide so.
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

/// Decides one command: contract, sections 4 and 5.
#[must_use]
pub fn decide(key: &Key, entry: Option<&Entry>, command: &Command, context: &Context<'_>) -> Decision {
    let mut decision = match command {
        Command::Claim(claim) => claim::decide(key, entry, claim, context),
        Command::Settle(token, settle) => settle::decide(entry, *token, settle, context),
    };
    if let Some(next) = &mut decision.write {
        // A key that was forgotten and is granted anew never has a version that it had before: what was
        // decided on its old row can not be written over the new one.
        next.version = entry.map_or_else(|| context.first_version(), |old| old.version + 1);
        next.updated_at = context.now;
        next.retain_until = super::retention::retain_until(next, context.policy);
    }
    decision
}

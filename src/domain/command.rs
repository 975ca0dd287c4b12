//! Commands: what a caller asks of a key.

use bytes::Bytes;

use super::{Claimant, Span, StoreTime};

/// What a caller asks of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// The right to process the message now.
    Claim(Claim),
    /// A settlement, with the token of its claim.
    Settle(i64, Settle),
    /// A read of the entry, which changes nothing.
    Lookup,
}

impl Command {
    /// The bytes of the caller's variable-length fields, without the key.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match self {
            Command::Claim(claim) => claim.fingerprint.len() + claim.claimant.owner.len(),
            Command::Settle(_, Settle::Complete { result, .. }) => result.len(),
            Command::Settle(_, Settle::Fail { error, .. }) => error.len(),
            Command::Settle(_, Settle::Renew { checkpoint, .. }) => checkpoint.as_ref().map_or(0, Bytes::len),
            Command::Settle(_, Settle::Release { .. }) | Command::Lookup => 0,
        }
    }
}

/// The right to process the message now.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Who makes the claim.
    pub claimant: Claimant,
    /// The lease that is asked for; `None` if the policy's applies.
    pub lease: Option<Span>,
    /// A digest of the payload; empty if absent.
    pub fingerprint: Bytes,
    /// When the producer made the message.
    pub occurred_at: Option<StoreTime>,
    /// The trace context of this attempt; empty if there is none.
    pub traceparent: String,
    /// The ledger hands the message out: what the policy demands of every claim was demanded of its Store.
    pub handed_out: bool,
}

/// What a settlement does.
#[derive(Clone, Debug, PartialEq)]
pub enum Settle {
    /// Extends the claim.
    Renew {
        /// The lease from now on; `None` if the policy's applies.
        lease: Option<Span>,
        /// The effect is about to start.
        effect_started: bool,
        /// Progress for the next attempt; `None` keeps the stored one.
        checkpoint: Option<Bytes>,
        /// The request had a checkpoint above its bound, which is not stored. Only the answer reports it.
        checkpoint_dropped: bool,
    },
    /// Closes the claim: done.
    Complete {
        /// What later deliveries are answered.
        result: Bytes,
        /// The result was too large and was not sent on; `result` is then empty.
        left_out: bool,
    },
    /// Closes the claim: failed.
    Fail {
        /// Whether another attempt may succeed.
        kind: FailureKind,
        /// What went wrong.
        error: String,
        /// When the next attempt is due; `None` if the policy's backoff applies.
        retry_after: Option<Span>,
    },
    /// Gives the claim back unused.
    Release {
        /// When the key is claimable again.
        delay: Span,
        /// The next request under this key may have another payload.
        unpin: bool,
    },
}

/// Whether another attempt may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// Another attempt may succeed.
    Retryable,
    /// No attempt will ever succeed.
    Terminal,
    /// A person must look at the message.
    Park,
}

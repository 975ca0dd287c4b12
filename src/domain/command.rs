//! What a caller asks for.

use bytes::Bytes;

use super::{Claimant, Span, StoreTime};

/// What a caller asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// The right to process the message now.
    Claim(Claim),
    /// An operation with a token.
    Settle(i64, Settle),
    /// A look at how the message stands, which changes nothing.
    Lookup,
}

impl Command {
    /// How many bytes of the caller's own it carries: what has a length, without the key.
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
        /// Progress for the next attempt; `None`: the old one stays.
        checkpoint: Option<Bytes>,
        /// The request had a checkpoint above its bound, which is not stored. For the answer alone.
        checkpoint_dropped: bool,
    },
    /// Closes the claim: done.
    Complete {
        /// What later deliveries shall be answered.
        result: Bytes,
        /// There was a result, and it is not sent: it was too large. Then `result` is empty.
        left_out: bool,
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
        /// The next request under this key may have another body.
        unpin: bool,
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

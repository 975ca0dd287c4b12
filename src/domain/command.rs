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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn payload_bytes_are_those_of_the_variable_fields() {
        let claimant =
            Claimant { claim_id: Uuid::nil(), principal: "not counted".into(), owner: "owner".into() };
        let claim = Claim {
            claimant,
            lease: None,
            fingerprint: Bytes::from_static(&[1; 32]),
            occurred_at: None,
            traceparent: String::new(),
            handed_out: false,
        };
        let renew = |checkpoint| Settle::Renew {
            lease: None,
            effect_started: false,
            checkpoint,
            checkpoint_dropped: false,
        };
        let fail = Settle::Fail { kind: FailureKind::Terminal, error: "broken".into(), retry_after: None };
        for (command, bytes) in [
            (Command::Claim(claim), 32 + 5),
            (
                Command::Settle(1, Settle::Complete { result: Bytes::from_static(b"done"), left_out: false }),
                4,
            ),
            (Command::Settle(1, fail), 6),
            (Command::Settle(1, renew(Some(Bytes::from_static(b"page 7!")))), 7),
            (Command::Settle(1, renew(None)), 0),
            (Command::Settle(1, Settle::Release { delay: Span::ZERO, unpin: false }), 0),
            (Command::Lookup, 0),
        ] {
            assert_eq!(command.payload_bytes(), bytes, "{command:?}");
        }
    }
}

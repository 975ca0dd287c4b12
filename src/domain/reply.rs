//! The answers of the ledger.

use bytes::Bytes;
use uuid::Uuid;

use super::{Advice, OnExpiry, ParkCause, Rejection, Span, State, StoreTime};

/// An answer or a refusal.
pub type Answer = Result<Reply, Rejection>;

/// The answer to one command.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// To Claim.
    Verdict(Verdict),
    /// To Renew.
    Renewed {
        /// What remains of the lease.
        lease: Span,
        /// The rest of `max_hold`.
        hold: Span,
        /// What happens to the claim if it expires.
        on_expiry: OnExpiry,
        /// The lease had run out.
        revived: bool,
        /// The checkpoint of the request was too large: the old one stays.
        checkpoint_dropped: bool,
    },
    /// To Complete.
    Completed {
        /// The same claim had completed it before.
        replayed: bool,
        /// The lease was over, or the claim was closed before: by a Release, a retryable or parking Fail, an expiry or an
        /// operator's park.
        late: bool,
        /// The result was too large, and was not stored.
        result_dropped: bool,
        /// The number of attempts it took.
        attempt: i32,
        /// A holder that had lost its claim has reported the same effect as done.
        doubled: bool,
    },
    /// To Fail.
    Failed {
        /// The state of the entry now.
        state: State,
        /// How long until the next attempt is due; `None` if there will be no attempt.
        retry_after: Option<Span>,
        /// The number of attempts left; `None` if unlimited.
        attempts_left: Option<i32>,
        /// Whether the same settlement had been recorded before.
        replayed: bool,
    },
    /// To Release.
    Released {
        /// The state of the entry now.
        state: State,
        /// It had been released before.
        replayed: bool,
        /// The fingerprint is not compared until the next grant, which replaces it.
        unpinned: bool,
        /// The number of claims of the entry in a row that were released, this one included, up to the number of
        /// attempts that the entry remembers.
        in_a_row: usize,
    },
    /// To Lookup. Boxed, so that the answers to claims do not grow by it.
    Found(Box<Finding>),
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are those of ledger.proto, explained there")]
pub enum Verdict {
    /// The claim is granted.
    Acquired {
        token: i64,
        attempt: i32,
        lease: Span,
        hold: Span,
        on_expiry: OnExpiry,
        replayed: bool,
        /// Granted in place of a claim whose lease and grace had run out.
        reclaimed: bool,
        effect_unknown: bool,
        prior_effect_started: bool,
        idempotency_key: Uuid,
        checkpoint: Bytes,
        last_error: String,
        attempts_left: Option<i32>,
    },
    /// The message is done.
    Completed {
        result: Bytes,
        result_expired: bool,
        result_dropped: bool,
        completed_at: StoreTime,
        attempt: i32,
        by_this_claim: bool,
        fingerprint_unverified: bool,
    },
    /// Another claim holds the key.
    InProgress { owner: String, attempt: i32, lease: Span, retry_after: Span },
    /// The next attempt is not due.
    Backoff { attempts_left: Option<i32>, last_error: String, retry_after: Span },
    /// The consumer gave the message up.
    Failed { error: String, failed_at: StoreTime },
    /// The message waits for a person.
    Parked {
        cause: ParkCause,
        error: String,
        parked_at: StoreTime,
        /// This claim parked it.
        newly: bool,
    },
    /// The id was used before with another payload.
    FingerprintMismatch { expected: Bytes, presented: Bytes },
    /// The message is older than what the ledger remembers.
    OutsideWindow { window: Span, occurred_at: StoreTime },
    /// The message's effect must not happen again: it is not processed.
    Suppressed { replay_run: String },
}

/// What a Lookup finds.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The entry's state. `None` if the key has no entry, or the run suppresses effects.
    pub state: Option<State>,
    /// The current or last attempt.
    pub attempt: i32,
    /// The verdict that a Claim by any other claimant would get for the entry as it is, without a grant or a
    /// parking. `None` if the key has no entry, or the next attempt is due.
    pub verdict: Option<Verdict>,
}

impl Reply {
    /// The same reply with the token that the insert made of the store's clock; only a grant has a token.
    #[must_use]
    pub fn with_token(mut self, granted: i64) -> Reply {
        if let Reply::Verdict(Verdict::Acquired { token, .. }) = &mut self {
            *token = granted;
        }
        self
    }
}

impl Verdict {
    /// What to do with the broker's message: docs/contract.md, section 4.
    #[must_use]
    pub fn advice(&self) -> Advice {
        match self {
            Verdict::Acquired { .. } => Advice::Process,
            Verdict::Completed { .. } | Verdict::Suppressed { .. } => Advice::Ack,
            Verdict::InProgress { .. } | Verdict::Backoff { .. } => Advice::RetryLater,
            Verdict::Failed { .. }
            | Verdict::Parked { .. }
            | Verdict::FingerprintMismatch { .. }
            | Verdict::OutsideWindow { .. } => Advice::DeadLetter,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_grant_takes_the_token_of_its_insert() {
        let released =
            Reply::Released { state: State::Received, replayed: false, unpinned: false, in_a_row: 1 };
        assert_eq!(released.clone().with_token(7), released);
        let parked = Verdict::Suppressed { replay_run: "r".into() };
        assert_eq!(Reply::Verdict(parked.clone()).with_token(7), Reply::Verdict(parked));
    }
}

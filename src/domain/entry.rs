//! The entry, its states and its claims.

use bytes::Bytes;
use uuid::Uuid;

use super::body::Body;
use super::{Key, OnExpiry, Policy, Span, StoreTime};

/// How many past attempts an entry remembers.
pub const HISTORY_MAX: usize = 10;
/// First versions are multiples of this.
pub(super) const VERSION_STEP: i64 = 1_000;

/// The state of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Known, claimable from `not_before` on.
    Received,
    /// Held under a lease.
    InProgress,
    /// Claimable from `not_before` on.
    FailedRetryable,
    /// Done.
    Completed,
    /// Given up by the consumer or by an operator.
    FailedTerminal,
    /// Waits for a person.
    Parked(ParkCause),
}

/// Why an entry waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParkCause {
    /// `max_attempts` were used.
    AttemptsExhausted,
    /// A lease ran out, and the policy forbids another attempt.
    LeaseExpired,
    /// A lease ran out after the effect had started.
    EffectUnknown,
    /// The consumer asked for it.
    Consumer,
    /// An operator asked for it.
    Operator,
}

impl State {
    /// The state's name, and the cause's where it is parked.
    #[must_use]
    pub fn words(self) -> (&'static str, Option<&'static str>) {
        match self {
            State::Received => ("RECEIVED", None),
            State::InProgress => ("IN_PROGRESS", None),
            State::FailedRetryable => ("FAILED_RETRYABLE", None),
            State::Completed => ("COMPLETED", None),
            State::FailedTerminal => ("FAILED_TERMINAL", None),
            State::Parked(ParkCause::AttemptsExhausted) => ("PARKED", Some("ATTEMPTS_EXHAUSTED")),
            State::Parked(ParkCause::LeaseExpired) => ("PARKED", Some("LEASE_EXPIRED")),
            State::Parked(ParkCause::EffectUnknown) => ("PARKED", Some("EFFECT_UNKNOWN")),
            State::Parked(ParkCause::Consumer) => ("PARKED", Some("CONSUMER")),
            State::Parked(ParkCause::Operator) => ("PARKED", Some("OPERATOR")),
        }
    }
}

/// How the last claim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClosedBy {
    /// It has not ended.
    Open,
    /// Complete.
    Complete,
    /// Fail, retryable.
    FailRetryable,
    /// Fail, terminal.
    FailTerminal,
    /// Fail, park.
    FailPark,
    /// Release.
    Release,
    /// Its lease and grace ran out, and the entry was parked.
    Expiry,
    /// An operator parked the entry while the claim was open.
    OperatorPark,
    /// An operator redrove, resolved or imported the entry; a claim that it had is forgotten.
    Operator,
    /// There was no claim yet: the message was stored.
    Store,
}

/// Who made a claim. *The same claim* means that all three fields are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claimant {
    /// The random id of the delivery.
    pub claim_id: Uuid,
    /// The authenticated identity.
    pub principal: String,
    /// The process, by the name it gave itself.
    pub owner: String,
}

/// One claim of the past.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// Its number, from 1 on.
    pub attempt: i32,
    /// When it was granted.
    pub started_at: StoreTime,
    /// When it ended.
    pub ended_at: StoreTime,
    /// Who held it.
    pub owner: String,
    /// How it ended.
    pub outcome: ClosedBy,
    /// Its error; empty if it had none.
    pub error: String,
    /// Its fencing token. `None` if the attempt was written by a version that stored no tokens of past
    /// attempts.
    pub token: Option<i64>,
    /// Its holder called Complete when the token was no longer the latest one.
    pub reported_done: bool,
}

/// The ledger's one row for a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools, reason = "each is a separate fact, stored in a separate column")]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// Clock + offset at the first grant, in whole milliseconds, plus one for each write: the version that
    /// compare-and-swap compares.
    pub version: i64,
    /// The fencing token of the current or last claim.
    pub token: i64,
    /// The state.
    pub state: State,
    /// How the last claim ended.
    pub closed_by: ClosedBy,
    /// When it ended.
    pub closed_at: Option<StoreTime>,
    /// Since when the entry is parked.
    pub parked_at: Option<StoreTime>,
    /// Who made the current or last claim; `None` once an operator's change has forgotten it.
    pub claimant: Option<Claimant>,
    /// When the current or last claim was granted.
    pub granted_at: StoreTime,
    /// When its lease ends.
    pub lease_until: StoreTime,
    /// How long after the lease the key is granted to no other claim. Fixed at the grant.
    pub grace: Span,
    /// Until when the claim may be renewed. Fixed at the grant.
    pub hold_until: StoreTime,
    /// What happens to the claim when it expires. Fixed at the grant.
    pub on_expiry: OnExpiry,
    /// The version of the policy at the grant.
    pub policy_version: i32,
    /// The policy's `retention` at the grant.
    pub retention: Span,
    /// The policy's `failed_retention` at the grant.
    pub failed_retention: Span,
    /// The policy's `abandoned_retention` at the grant.
    pub abandoned_retention: Span,
    /// The one re-arming by a repeat of the claim has been used.
    pub rearmed: bool,
    /// The holder announced that its effect is about to start.
    pub effect_started: bool,
    /// An earlier holder announced its effect.
    pub prior_effect_started: bool,
    /// A lease ran out unsettled.
    pub effect_unknown: bool,
    /// Progress for the next attempt.
    pub checkpoint: Bytes,
    /// The number of attempts used; a released attempt is given back.
    pub attempts: i32,
    /// When `Received` and `FailedRetryable` become claimable.
    pub not_before: StoreTime,
    /// The last error; empty if there is none.
    pub last_error: String,
    /// The last attempts before the current or last one, oldest first.
    pub history: Vec<Attempt>,
    /// The number of past attempts that were ever marked as reported done; the history may have forgotten
    /// some of them.
    pub superseded_completes: i32,
    /// At least two claims have reported the effect as done, one of them when its token was no longer the latest one.
    pub doubled: bool,
    /// The pinned fingerprint; empty if there is none.
    pub fingerprint: Bytes,
    /// The fingerprint is not compared, and the next grant replaces it. Only while `closed_by` is `Release`.
    pub unpinned: bool,
    /// What Complete stored.
    pub result: Bytes,
    /// Complete's result was too large, and was not stored. Only where the entry is `Completed` and `result` empty.
    pub result_dropped: bool,
    /// The state of its stored message; `None` if it was never stored.
    pub body: Option<Body>,
    /// When the message is erased; `None` if none is kept, or it is still needed.
    pub erase_at: Option<StoreTime>,
    /// Until when the entry answers at least; `None` if it is kept until a person acts.
    pub retain_until: Option<StoreTime>,
    /// When the entry was first stored.
    pub created_at: StoreTime,
    /// When it was last changed.
    pub updated_at: StoreTime,
    /// The trace context of the first attempt; empty if there is none.
    pub traceparent: String,
}

impl Entry {
    /// An entry with nothing but its key and the instant of its creation.
    pub(super) fn blank(key: &Key, policy: &Policy, now: StoreTime) -> Entry {
        Entry {
            key: key.clone(),
            version: 0,
            token: 0,
            state: State::Received,
            closed_by: ClosedBy::Open,
            closed_at: None,
            parked_at: None,
            claimant: None,
            granted_at: now,
            lease_until: now,
            grace: policy.reclaim_grace,
            hold_until: now,
            on_expiry: policy.on_expiry,
            policy_version: policy.version,
            retention: policy.retention,
            failed_retention: policy.failed_retention,
            abandoned_retention: policy.abandoned_retention,
            rearmed: false,
            effect_started: false,
            prior_effect_started: false,
            effect_unknown: false,
            checkpoint: Bytes::new(),
            attempts: 0,
            not_before: now,
            last_error: String::new(),
            history: Vec::new(),
            superseded_completes: 0,
            doubled: false,
            fingerprint: Bytes::new(),
            unpinned: false,
            result: Bytes::new(),
            result_dropped: false,
            body: None,
            erase_at: None,
            retain_until: None,
            created_at: now,
            updated_at: now,
            traceparent: String::new(),
        }
    }

    /// The bytes of what clients sent, as far as that may be large.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        let past: usize = self.history.iter().map(|attempt| attempt.error.len()).sum();
        self.result.len() + self.checkpoint.len() + self.last_error.len() + past
    }

    /// Moves the last claim, if it is known, into the history.
    pub(super) fn remember(&mut self, now: StoreTime) {
        let Some(claimant) = &self.claimant else { return };
        let (outcome, ended_at) = match self.closed_by {
            ClosedBy::Open => (ClosedBy::Expiry, self.lease_until.min(now)),
            ClosedBy::Complete
            | ClosedBy::FailRetryable
            | ClosedBy::FailTerminal
            | ClosedBy::FailPark
            | ClosedBy::Release
            | ClosedBy::Expiry
            | ClosedBy::OperatorPark
            | ClosedBy::Operator
            | ClosedBy::Store => (self.closed_by, self.closed_at.unwrap_or(now)),
        };
        let failed = matches!(outcome, ClosedBy::FailRetryable | ClosedBy::FailTerminal | ClosedBy::FailPark);
        // A released attempt was given back: the next attempt has the same number.
        let number =
            if outcome == ClosedBy::Release { self.attempts.saturating_add(1) } else { self.attempts };
        self.history.push(Attempt {
            attempt: number,
            started_at: self.granted_at,
            ended_at,
            owner: claimant.owner.clone(),
            outcome,
            error: if failed { self.last_error.clone() } else { String::new() },
            token: Some(self.token),
            reported_done: false,
        });
        let excess = self.history.len().saturating_sub(HISTORY_MAX);
        self.history.drain(..excess);
    }

    /// The entry with a mark on the past attempt that had this token: its holder reports the effect as done.
    /// `None` if no such attempt is remembered, if it ended by Complete, or if it is marked already, so that
    /// the report is not news.
    #[must_use]
    pub(super) fn reported(&self, token: i64) -> Option<Entry> {
        let is_news = |past: &Attempt| {
            past.token == Some(token) && past.outcome != ClosedBy::Complete && !past.reported_done
        };
        let place = self.history.iter().position(is_news)?;
        let mut next = self.clone();
        next.history.get_mut(place)?.reported_done = true;
        next.superseded_completes = self.superseded_completes.saturating_add(1);
        next.doubled |= self.is_reported_done();
        Some(next)
    }

    /// Whether a claim, past or present, has reported the effect as done. An operator's resolution is not a
    /// report.
    fn is_reported_done(&self) -> bool {
        self.superseded_completes > 0
            || self.closed_by == ClosedBy::Complete
            || self.history.iter().any(|past| past.outcome == ClosedBy::Complete)
    }

    /// The number of claims in a row that were given back, up to the last one.
    #[must_use]
    pub(super) fn releases_in_a_row(&self) -> usize {
        let is = |outcome| outcome == ClosedBy::Release;
        let before = || self.history.iter().rev().take_while(|attempt| is(attempt.outcome)).count();
        if is(self.closed_by) { 1 + before() } else { 0 }
    }

    /// The lease has passed.
    #[must_use]
    pub fn lease_over(&self, now: StoreTime) -> bool {
        self.lease_until <= now
    }

    /// `InProgress`, and lease and grace have passed.
    #[must_use]
    pub fn expired(&self, now: StoreTime) -> bool {
        self.state == State::InProgress && self.lease_until + self.grace <= now
    }

    /// `max_hold` since the grant is not used up.
    #[must_use]
    pub fn hold_left(&self, now: StoreTime) -> bool {
        now < self.hold_until
    }

    /// This is the very claim that the entry knows.
    #[must_use]
    pub fn is_claim_of(&self, claimant: &Claimant) -> bool {
        self.claimant.as_ref() == Some(claimant)
    }

    /// Whether an effect was announced or a lease ran out, and the outcome was not reported since.
    #[must_use]
    pub fn effect_marked(&self) -> bool {
        self.effect_started || self.prior_effect_started || self.effect_unknown
    }

    /// Whether the effect may have happened without the ledger knowing: the entry is marked so, or a claim is
    /// unsettled. Always false for a completed entry.
    #[must_use]
    pub fn effect_doubtful(&self) -> bool {
        self.state != State::Completed && (self.effect_marked() || self.unsettled())
    }

    /// Whether the entry is `RECEIVED`, and only another Store or delivery brings its message: it was stored, and is erased.
    #[must_use]
    pub fn message_erased(&self) -> bool {
        self.state == State::Received && self.body == Some(Body::Erased)
    }

    /// Whether the ledger does not know what the holder did, or still does.
    #[must_use]
    pub fn unsettled(&self) -> bool {
        matches!(self.closed_by, ClosedBy::Open | ClosedBy::Expiry | ClosedBy::OperatorPark)
    }

    /// What the store makes of a new entry that was decided as of instant zero: it adds its clock to the
    /// instants, and clock + offset to the token and the version.
    #[must_use]
    pub fn stamped(mut self, now: StoreTime, token_clock: i64) -> Entry {
        self.token = self.token.saturating_add(token_clock);
        self.version = self.version.saturating_add(token_clock - token_clock.rem_euclid(VERSION_STEP));
        let shift = |instant: StoreTime| instant + Span(now.0);
        self.granted_at = shift(self.granted_at);
        self.lease_until = shift(self.lease_until);
        self.hold_until = shift(self.hold_until);
        self.not_before = shift(self.not_before);
        self.closed_at = self.closed_at.map(shift);
        self.parked_at = self.parked_at.map(shift);
        self.retain_until = self.retain_until.map(shift);
        self.erase_at = self.erase_at.map(shift);
        self.created_at = shift(self.created_at);
        self.updated_at = shift(self.updated_at);
        self
    }
}

#[cfg(test)]
mod tests;

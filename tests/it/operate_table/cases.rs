//! Every combination of state, last claim, time, flags, change and force, and the entry of each.

use bytes::Bytes;
use idempotency_ledger::domain::{
    Action, Claimant, ClosedBy, Entry, Key, OnExpiry, ParkCause, Policy, Resolution, Span, State, StoreTime,
};
use uuid::Uuid;

use crate::harness::server::START;

pub(super) const NOW: StoreTime = START;
pub(super) const LEASE: Span = Span::from_secs(30);
pub(super) const GRACE: Span = Span::from_secs(5);
pub(super) const OFFSET: i64 = 7_000_000;
pub(super) const POSITION: i64 = 3;
/// Handed out two minutes ago, by clock + offset.
pub(super) const TOKEN: i64 = NOW.0 + OFFSET - 120_000_000;
/// `max(old + 1, microseconds of the store's clock + token_offset + position in the batch)`.
pub(super) const BUMPED: i64 = NOW.0 + OFFSET + POSITION;
pub(super) const VERSION: i64 = 41_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Was {
    Absent,
    Present(State, ClosedBy),
}

/// Where the store's clock stands with respect to the last claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// The lease runs for another second.
    Running,
    /// The lease is over; the grace ends in a microsecond.
    Grace,
    /// Lease and grace end at this very instant: they are over.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Redrive { drop_fingerprint: bool, admit: bool },
    Completed,
    FailedTerminal,
    Received,
    Park,
    Delete,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) was: Was,
    pub(super) time: Time,
    pub(super) due: bool,
    pub(super) effect_started: bool,
    pub(super) prior_effect_started: bool,
    pub(super) effect_unknown: bool,
    /// The retention at the claim was longer than any of today's.
    pub(super) longer_at_claim: bool,
    pub(super) ask: Ask,
    pub(super) force: bool,
}

/// Every state with each way in which its last claim can have ended.
pub(super) fn states() -> Vec<Was> {
    use {ClosedBy as By, ParkCause as Cause, State as S};
    let mut states = vec![
        Was::Absent,
        Was::Present(S::InProgress, By::Open),
        Was::Present(S::FailedRetryable, By::FailRetryable),
        Was::Present(S::Parked(Cause::LeaseExpired), By::Expiry),
        Was::Present(S::Parked(Cause::EffectUnknown), By::Expiry),
        Was::Present(S::Parked(Cause::Consumer), By::FailPark),
    ];
    states.extend([By::Release, By::Operator].map(|by| Was::Present(S::Received, by)));
    states.extend([By::Complete, By::Operator].map(|by| Was::Present(S::Completed, by)));
    states.extend([By::FailTerminal, By::Operator].map(|by| Was::Present(S::FailedTerminal, by)));
    for by in [By::FailRetryable, By::Release, By::Expiry] {
        states.push(Was::Present(S::Parked(Cause::AttemptsExhausted), by));
    }
    for by in [By::OperatorPark, By::Release, By::FailRetryable, By::Operator] {
        states.push(Was::Present(S::Parked(Cause::Operator), by));
    }
    states
}

pub(super) fn cases() -> Vec<Case> {
    let redrives = [(false, false), (false, true), (true, false), (true, true)]
        .map(|(drop_fingerprint, admit)| Ask::Redrive { drop_fingerprint, admit });
    let others = [Ask::Completed, Ask::FailedTerminal, Ask::Received, Ask::Park, Ask::Delete];
    let mut cases = Vec::new();
    for was in states() {
        for time in [Time::Running, Time::Grace, Time::Over] {
            for ask in redrives.into_iter().chain(others) {
                for bits in 0..64_u8 {
                    cases.push(Case {
                        was,
                        time,
                        due: bits & 1 != 0,
                        effect_started: bits & 2 != 0,
                        prior_effect_started: bits & 4 != 0,
                        effect_unknown: bits & 8 != 0,
                        longer_at_claim: bits & 16 != 0,
                        ask,
                        force: bits & 32 != 0,
                    });
                }
            }
        }
    }
    cases
}

pub(super) fn key() -> Key {
    Key::new("c", "table", "operate")
}

pub(super) fn entry(case: &Case) -> Option<Entry> {
    let Was::Present(state, closed_by) = case.was else { return None };
    let lease_until = match case.time {
        Time::Running => NOW + Span::from_secs(1),
        Time::Grace => NOW - GRACE + Span(1),
        Time::Over => NOW - GRACE,
    };
    let closed_at = (closed_by != ClosedBy::Open).then_some(lease_until - Span::from_secs(9));
    let holder = Claimant { claim_id: Uuid::from_u128(7), principal: "p".into(), owner: "w".into() };
    Some(Entry {
        key: key(),
        version: VERSION,
        token: TOKEN,
        state,
        closed_by,
        closed_at,
        parked_at: matches!(state, State::Parked(_)).then_some(NOW - Span::from_secs(2)),
        claimant: (closed_by != ClosedBy::Operator).then_some(holder),
        granted_at: lease_until - LEASE,
        lease_until,
        grace: GRACE,
        hold_until: lease_until + LEASE,
        on_expiry: OnExpiry::ParkIfStarted,
        policy_version: 4,
        retention: Span::from_days(if case.longer_at_claim { 90 } else { 7 }),
        failed_retention: Span::from_days(30),
        abandoned_retention: Span::from_days(30),
        rearmed: true,
        effect_started: case.effect_started,
        prior_effect_started: case.prior_effect_started,
        effect_unknown: case.effect_unknown,
        checkpoint: Bytes::from_static(b"half"),
        attempts: 3,
        not_before: if case.due { NOW - Span::from_secs(1) } else { NOW + Span::from_secs(60) },
        last_error: "broken".into(),
        history: Vec::new(),
        fingerprint: Bytes::from_static(b"A"),
        result: if state == State::Completed { Bytes::from_static(b"first") } else { Bytes::new() },
        unpinned: false,
        result_dropped: false,
        body: None,
        erase_at: None,
        retain_until: Some(NOW + Span::from_days(2)),
        created_at: lease_until - LEASE,
        updated_at: lease_until - Span::from_secs(9),
        traceparent: "00-first".into(),
        doubled: false,
        superseded_completes: 0,
    })
}

pub(super) fn policy() -> Policy {
    Policy {
        version: 5,
        retention: Span::from_days(9),
        failed_retention: Span::from_days(40),
        abandoned_retention: Span::from_days(50),
        ..Policy::default()
    }
}

pub(super) fn action(ask: Ask) -> Action {
    match ask {
        Ask::Redrive { drop_fingerprint, admit } => Action::Redrive { drop_fingerprint, admit },
        Ask::Completed => Action::Resolve(Resolution::Completed { result: Bytes::from_static(b"receipt 7") }),
        Ask::FailedTerminal => {
            Action::Resolve(Resolution::FailedTerminal { error: "no such account".into() })
        }
        Ask::Received => Action::Resolve(Resolution::Received),
        Ask::Park => Action::Park,
        Ask::Delete => Action::Delete,
    }
}

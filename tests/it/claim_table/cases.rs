//! Every combination that differs in something that its state has, and the entry and the call of each.

use bytes::Bytes;
use idempotency_ledger::domain::{
    Claimant, ClosedBy, Entry, FingerprintMode, Key, OnExpiry, ParkCause, Policy, Span, State, StoreTime,
};
use uuid::Uuid;

use super::{Asker, Case, GRACE, HOLD, LEASE, Prints, TOKEN, Time, Was};

/// Every combination that differs in something that its state has.
pub(super) fn cases() -> Vec<Case> {
    let waits = [Was::Received(ClosedBy::Release), Was::Received(ClosedBy::Operator), Was::FailedRetryable];
    let finals = [
        Was::Completed(ClosedBy::Complete),
        Was::Completed(ClosedBy::Operator),
        Was::FailedTerminal,
        Was::Parked(ParkCause::AttemptsExhausted),
        Was::Parked(ParkCause::LeaseExpired),
        Was::Parked(ParkCause::EffectUnknown),
        Was::Parked(ParkCause::Consumer),
        Was::Parked(ParkCause::Operator),
    ];
    let modes = [FingerprintMode::Verify, FingerprintMode::Ignore, FingerprintMode::Require];
    let prints = [Prints::None, Prints::Stored, Prints::Presented, Prints::Equal, Prints::Different];
    let expiries = [OnExpiry::Reclaim, OnExpiry::Park, OnExpiry::ParkIfStarted];
    let mut cases = Vec::new();
    let all = [Was::Absent, Was::InProgress].into_iter().chain(waits).chain(finals);
    for was in all {
        for asker in [Asker::Same, Asker::OtherClaimId, Asker::OtherOwner] {
            for time in [Time::Running, Time::Grace, Time::Expired, Time::HoldOver] {
                for bits in 0..16_u8 {
                    for on_expiry in expiries {
                        for mode in modes {
                            for prints in prints {
                                let case = Case {
                                    was,
                                    asker,
                                    time,
                                    effect_started: bits & 1 != 0,
                                    rearmed: bits & 2 != 0,
                                    exhausted: bits & 4 != 0,
                                    disabled: bits & 8 != 0,
                                    on_expiry,
                                    mode,
                                    prints,
                                };
                                if sensible(&case) {
                                    cases.push(case);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    cases
}

/// Leaves out what an entry in this state has not, so that no case is there twice.
fn sensible(case: &Case) -> bool {
    let held = case.was == Was::InProgress;
    let waits = matches!(case.was, Was::Received(_) | Was::FailedRetryable);
    let absent = case.was == Was::Absent;
    (held || !case.rearmed)
        && (held || case.on_expiry == OnExpiry::Reclaim)
        && (held || case.time == Time::Running || (waits && case.time == Time::Grace))
        && (held || waits || !case.effect_started)
        && !(case.was == Was::Received(ClosedBy::Operator) && case.asker != Asker::OtherClaimId)
        && (!absent || (case.asker == Asker::OtherClaimId && matches!(case.prints, Prints::None | Prints::Presented)))
        // Fingerprints and modes are crossed with all states, not with all flags of a held one.
        && (case.prints == Prints::None && case.mode == FingerprintMode::Verify
            || (!case.rearmed && !case.effect_started && case.on_expiry == OnExpiry::Reclaim && !case.exhausted))
}

fn holder() -> Claimant {
    Claimant {
        claim_id: Uuid::from_u128(0x1111_4111_8111_1111_1111),
        principal: "anonymous".into(),
        owner: "holder".into(),
    }
}

/// A valid claim_id of version 4, told apart by a number.
fn claim_id(number: u128) -> Uuid {
    uuid::Builder::from_random_bytes(number.to_be_bytes()).into_uuid()
}

pub(super) fn policy(case: &Case) -> Policy {
    Policy {
        reclaim_grace: GRACE,
        max_hold: HOLD,
        lease: LEASE,
        // Read at each operation; the entry keeps its own from its grant.
        on_expiry: OnExpiry::Park,
        max_attempts: i32::from(case.exhausted),
        disabled: case.disabled,
        fingerprint: case.mode,
        max_lease: Span::from_secs(900),
        ..Policy::default()
    }
}

/// A consumer for each policy.
pub(super) fn consumer(case: &Case) -> String {
    format!("{}{}{:?}", i32::from(case.exhausted), i32::from(case.disabled), case.mode)
}

pub(super) fn key(case: &Case, number: usize) -> Key {
    Key::new(&consumer(case), "table", &format!("case-{number}"))
}

/// The entry of a case, as of the instant at which it is asked for.
pub(super) fn entry(case: &Case, number: usize, now: StoreTime) -> Option<Entry> {
    let (state, closed_by) = match case.was {
        Was::Absent => return None,
        Was::Received(closed_by) => (State::Received, closed_by),
        Was::FailedRetryable => (State::FailedRetryable, ClosedBy::FailRetryable),
        Was::InProgress => (State::InProgress, ClosedBy::Open),
        Was::Completed(closed_by) => (State::Completed, closed_by),
        Was::FailedTerminal => (State::FailedTerminal, ClosedBy::FailTerminal),
        Was::Parked(cause) => (
            State::Parked(cause),
            match cause {
                ParkCause::AttemptsExhausted => ClosedBy::FailRetryable,
                ParkCause::LeaseExpired | ParkCause::EffectUnknown => ClosedBy::Expiry,
                ParkCause::Consumer => ClosedBy::FailPark,
                ParkCause::Operator => ClosedBy::OperatorPark,
            },
        ),
    };
    let granted_at = match case.time {
        Time::Running => now - Span::from_secs(1),
        Time::Grace => now - LEASE - Span::from_secs(1),
        Time::Expired => now - LEASE - GRACE - Span::from_secs(1),
        Time::HoldOver => now - HOLD - Span::from_secs(1),
    };
    let forgotten = closed_by == ClosedBy::Operator;
    let stored = matches!(case.prints, Prints::Stored | Prints::Equal | Prints::Different);
    Some(Entry {
        key: key(case, number),
        version: 1,
        token: TOKEN,
        state,
        closed_by,
        closed_at: (closed_by != ClosedBy::Open).then_some(now),
        parked_at: matches!(state, State::Parked(_)).then_some(now),
        claimant: (!forgotten).then(|| Claimant { claim_id: claim_id(1), ..holder() }),
        granted_at,
        lease_until: granted_at + LEASE,
        grace: GRACE,
        hold_until: granted_at + HOLD,
        on_expiry: case.on_expiry,
        policy_version: 1,
        retention: Span::from_days(7),
        failed_retention: Span::from_days(30),
        abandoned_retention: Span::from_days(30),
        rearmed: case.rearmed,
        effect_started: case.effect_started,
        prior_effect_started: false,
        effect_unknown: false,
        checkpoint: Bytes::from_static(b"half"),
        attempts: 1,
        not_before: if case.time == Time::Grace { now + Span::from_secs(1) } else { now },
        last_error: "broken".into(),
        history: Vec::new(),
        fingerprint: if stored { Bytes::from_static(b"A") } else { Bytes::new() },
        result: Bytes::new(),
        unpinned: false,
        result_dropped: false,
        body: None,
        erase_at: None,
        retain_until: None,
        created_at: granted_at,
        updated_at: granted_at,
        traceparent: String::new(),
        doubled: false,
        superseded_completes: 0,
    })
}

pub(super) fn asked(case: &Case) -> (Uuid, &'static str, &'static [u8]) {
    let print: &[u8] = match case.prints {
        Prints::None | Prints::Stored => b"",
        Prints::Presented | Prints::Equal => b"A",
        Prints::Different => b"B",
    };
    match case.asker {
        Asker::Same => (claim_id(1), "holder", print),
        Asker::OtherClaimId => (claim_id(2), "holder", print),
        Asker::OtherOwner => (claim_id(1), "another", print),
    }
}

//! What an entry says of the changes that it allows, beside what the changes do: each combination of state, last
//! claim, marks of the effect, lease, age and clock, each change with and without `force`.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use idempotency_ledger::domain::{
    Action, AllowedChange, Change, ChangeKind, Changed, ClockLimits, ClosedBy, Context, Entry, Key,
    ParkCause, Policy, Reading, Reason, Resolution, Span, State, StoreTime, allowed_changes, operate,
};

const STATES: [State; 10] = [
    State::Received,
    State::InProgress,
    State::FailedRetryable,
    State::Completed,
    State::FailedTerminal,
    State::Parked(ParkCause::AttemptsExhausted),
    State::Parked(ParkCause::LeaseExpired),
    State::Parked(ParkCause::EffectUnknown),
    State::Parked(ParkCause::Consumer),
    State::Parked(ParkCause::Operator),
];
const CLOSED: [ClosedBy; 9] = [
    ClosedBy::Open,
    ClosedBy::Complete,
    ClosedBy::FailRetryable,
    ClosedBy::FailTerminal,
    ClosedBy::FailPark,
    ClosedBy::Release,
    ClosedBy::Expiry,
    ClosedBy::OperatorPark,
    ClosedBy::Operator,
];
const NOW: StoreTime = StoreTime(1_780_000_000_000_000);

fn key() -> Key {
    Key::new("c", "s", "1")
}

fn context<'a>(reading: &Reading, policy: &'a Policy) -> Context<'a> {
    Context::at(reading, policy, 1)
}

/// An entry as the ledger makes one, an hour ago.
fn entry(policy: &Policy) -> Entry {
    let then =
        Reading { now: NOW - Span::from_secs(3_600), token_offset: 0, mark: 0, limits: ClockLimits::NONE };
    let admit = Change {
        expected_version: 0,
        action: Action::Redrive { drop_fingerprint: false, admit: true },
        force: false,
    };
    match operate(&key(), None, &admit, &context(&then, policy)).unwrap() {
        Changed::Entry(entry) => *entry,
        Changed::Gone => panic!("nothing was admitted"),
    }
}

/// Each change, and each resolution of Resolve.
fn actions() -> Vec<Action> {
    vec![
        Action::Redrive { drop_fingerprint: false, admit: false },
        Action::Redrive { drop_fingerprint: true, admit: true },
        Action::Resolve(Resolution::Completed { result: Bytes::from_static(b"r") }),
        Action::Resolve(Resolution::FailedTerminal { error: "e".into() }),
        Action::Resolve(Resolution::Received),
        Action::Park,
        Action::Delete,
    ]
}

/// All entries of the table.
fn entries() -> Vec<(Entry, Reading)> {
    let base = entry(&Policy::default());
    let mut all = Vec::new();
    for state in STATES {
        for closed_by in CLOSED {
            for marks in 0..8 {
                // The lease runs; it is over and the grace is not; both are over, this very microsecond.
                for lease_over_for in [-1, 0, 1_000_000] {
                    for age in [Span::from_secs(60), Span::from_secs(61)] {
                        for mark in [0, NOW.0 + 1] {
                            let entry = Entry {
                                state,
                                closed_by,
                                effect_started: marks & 1 != 0,
                                prior_effect_started: marks & 2 != 0,
                                effect_unknown: marks & 4 != 0,
                                lease_until: NOW - Span(lease_over_for),
                                grace: Span::from_secs(1),
                                token: NOW.0 - age.0,
                                version: (NOW.0 - age.0) / 1_000 * 1_000,
                                ..base.clone()
                            };
                            all.push((
                                entry,
                                Reading { now: NOW, token_offset: 0, mark, limits: ClockLimits::NONE },
                            ));
                        }
                    }
                }
            }
        }
    }
    all
}

#[test]
fn each_change_succeeds_exactly_as_the_entry_says() {
    let policy = Policy::default();
    let mut seen = BTreeMap::<(bool, bool), usize>::new();
    let mut reasons = BTreeSet::new();
    for (entry, reading) in entries() {
        let allowed = allowed_changes(&entry, &reading);
        for action in actions() {
            let says = allowed.iter().find(|allowed| allowed.kind == action.kind());
            for force in [false, true] {
                let change = Change { expected_version: entry.version, action: action.clone(), force };
                let done = operate(&key(), Some(&entry), &change, &context(&reading, &policy));
                let expected = says.is_some_and(|says| force || !says.needs_force);
                assert_eq!(
                    done.is_ok(),
                    expected,
                    "{change:?} of {entry:?} at {reading:?}: {says:?}, {done:?}"
                );
                *seen.entry((force, expected)).or_default() += 1;
                let Err(rejection) = done else { continue };
                let deletes = action == Action::Delete;
                reasons.insert(format!("{:?}", rejection.reason));
                match rejection.reason {
                    Reason::StateNotAllowed => {}
                    Reason::TooRecent => assert!(deletes && reading.mark == 0, "{rejection:?}"),
                    Reason::StoreClockBehind => assert!(deletes && reading.mark > NOW.0, "{rejection:?}"),
                    other => panic!("{other:?}: {rejection:?}"),
                }
            }
        }
    }
    assert_eq!(seen.len(), 4, "both with and without force something was allowed and refused: {seen:?}");
    assert_eq!(reasons.into_iter().collect::<Vec<_>>(), ["StateNotAllowed", "StoreClockBehind", "TooRecent"]);
}

#[test]
fn what_an_entry_says_is_the_table_of_the_contract() {
    const REDRIVE: (ChangeKind, bool) = (ChangeKind::Redrive, false);
    const RESOLVE: (ChangeKind, bool) = (ChangeKind::Resolve, false);
    const PARK: (ChangeKind, bool) = (ChangeKind::Park, false);
    const DELETE: (ChangeKind, bool) = (ChangeKind::Delete, false);
    let forced = |(kind, _): (ChangeKind, bool)| (kind, true);
    let sure = vec![REDRIVE, RESOLVE, DELETE];
    let doubtful = vec![REDRIVE, RESOLVE, forced(DELETE)];
    let at_work = vec![forced(REDRIVE), forced(RESOLVE), forced(DELETE)];
    let waits = vec![REDRIVE, RESOLVE, PARK, DELETE];
    // State, how the last claim ended, whether lease and grace are over, whether an effect was announced; whether
    // it is in doubt, and what is allowed.
    for (state, closed_by, over, announced, in_doubt, allowed) in [
        (State::Received, ClosedBy::Release, true, false, false, waits.clone()),
        (State::Received, ClosedBy::Release, false, false, false, waits.clone()),
        (State::Received, ClosedBy::Operator, true, true, true, vec![REDRIVE, RESOLVE, PARK, forced(DELETE)]),
        (State::FailedRetryable, ClosedBy::FailRetryable, false, false, false, waits),
        (State::InProgress, ClosedBy::Open, false, false, true, {
            vec![forced(REDRIVE), forced(RESOLVE), PARK, forced(DELETE)]
        }),
        (State::InProgress, ClosedBy::Open, true, false, true, vec![REDRIVE, RESOLVE, PARK, forced(DELETE)]),
        (State::Completed, ClosedBy::Complete, true, true, false, at_work.clone()),
        (State::Completed, ClosedBy::Operator, true, false, false, at_work.clone()),
        (State::FailedTerminal, ClosedBy::FailTerminal, false, false, false, sure.clone()),
        (State::FailedTerminal, ClosedBy::FailTerminal, false, true, true, doubtful.clone()),
        (State::Parked(ParkCause::Consumer), ClosedBy::FailPark, false, false, false, sure.clone()),
        (State::Parked(ParkCause::AttemptsExhausted), ClosedBy::FailRetryable, false, false, false, sure),
        (State::Parked(ParkCause::LeaseExpired), ClosedBy::Expiry, true, false, true, doubtful.clone()),
        (State::Parked(ParkCause::EffectUnknown), ClosedBy::Expiry, true, true, true, doubtful.clone()),
        (State::Parked(ParkCause::Operator), ClosedBy::OperatorPark, false, false, true, at_work),
        (State::Parked(ParkCause::Operator), ClosedBy::OperatorPark, true, false, true, doubtful),
    ] {
        let entry = Entry {
            state,
            closed_by,
            effect_started: announced,
            lease_until: if over { NOW - Span::from_secs(1) } else { NOW },
            grace: Span::from_secs(1),
            ..entry(&Policy::default())
        };
        let reading = Reading { now: NOW, token_offset: 0, mark: 0, limits: ClockLimits::NONE };
        let says = allowed_changes(&entry, &reading);
        let expected: Vec<AllowedChange> =
            allowed.into_iter().map(|(kind, needs_force)| AllowedChange { kind, needs_force }).collect();
        let asked = format!("{state:?}, {closed_by:?}, lease over: {over}, announced: {announced}");
        assert_eq!((entry.effect_doubtful(), says), (in_doubt, expected), "{asked}");
    }
}

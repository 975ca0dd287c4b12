//! What the rows do not enumerate: versions, tokens near the clock, a clock that is behind, and the entry that
//! `admit` makes.

use bytes::Bytes;
use idempotency_ledger::domain::{
    Action, Change, Changed, ClosedBy, Context, Entry, Key, Namespace, OnExpiry, Reason, Rejection, Span,
    State, operate,
};

use super::cases::{self, Ask, BUMPED, Case, NOW, OFFSET, POSITION, TOKEN, Time, VERSION, Was};
use super::{ask, context};

/// RECEIVED, due now, no attempts used, no claim; closed_by OPERATOR, so that every claim is granted.
pub(super) fn admitted() -> Entry {
    Entry {
        key: cases::key(),
        // Clock + offset, in whole milliseconds.
        version: (NOW.0 + OFFSET) / 1_000 * 1_000,
        token: BUMPED,
        state: State::Received,
        closed_by: ClosedBy::Operator,
        closed_at: Some(NOW),
        parked_at: None,
        claimant: None,
        granted_at: NOW,
        lease_until: NOW,
        grace: Span::from_secs(1),
        hold_until: NOW,
        on_expiry: OnExpiry::Reclaim,
        policy_version: 5,
        retention: Span::from_days(9),
        failed_retention: Span::from_days(40),
        abandoned_retention: Span::from_days(50),
        rearmed: false,
        effect_started: false,
        prior_effect_started: false,
        effect_unknown: false,
        checkpoint: Bytes::new(),
        attempts: 0,
        not_before: NOW,
        last_error: String::new(),
        history: Vec::new(),
        fingerprint: Bytes::new(),
        result: Bytes::new(),
        unpinned: false,
        result_dropped: false,
        body: None,
        erase_at: None,
        retain_until: Some(NOW + Span::from_days(50)),
        created_at: NOW,
        updated_at: NOW,
        traceparent: String::new(),
        doubled: false,
        superseded_completes: 0,
    }
}

fn reason(result: Result<Changed, Rejection>) -> Option<Reason> {
    result.err().map(|rejection| rejection.reason)
}

fn after(result: Result<Changed, Rejection>) -> Entry {
    match result {
        Ok(Changed::Entry(entry)) => *entry,
        other => panic!("{other:?}"),
    }
}

/// A case that nothing forbids: RECEIVED, released, no effect in doubt.
fn harmless(ask: Ask) -> Case {
    Case {
        was: Was::Present(State::Received, ClosedBy::Release),
        time: Time::Over,
        due: true,
        effect_started: false,
        prior_effect_started: false,
        effect_unknown: false,
        longer_at_claim: false,
        ask,
        force: false,
    }
}

/// Compare-and-set: another version than the one that was seen is refused before all else, force or not.
#[test]
fn every_change_needs_the_version_that_was_seen() {
    let policy = cases::policy();
    for case in cases::cases() {
        let before = cases::entry(&case);
        let others: &[i64] = if before.is_some() { &[0, VERSION - 1, VERSION + 1] } else { &[1, VERSION] };
        for expected in others {
            let admits = matches!(case.ask, Ask::Redrive { admit: true, .. });
            let want =
                if before.is_some() || admits { Reason::VersionMismatch } else { Reason::EntryNotFound };
            let got = reason(ask(&case, before.as_ref(), *expected, &context(&policy)));
            assert_eq!(got, Some(want), "expected {expected}: {case:?}");
        }
    }
}

/// Tokens strictly grow: `max(old + 1, clock + offset + position)`.
#[test]
fn a_bumped_token_is_above_the_old_one_and_the_clock() {
    let policy = cases::policy();
    let rows = [
        ("long ago", TOKEN, BUMPED),
        ("just below the clock", BUMPED - 2, BUMPED),
        ("one below", BUMPED - 1, BUMPED),
        ("at the clock", BUMPED, BUMPED + 1),
        ("ahead of the clock", BUMPED + 1_000_000, BUMPED + 1_000_001),
    ];
    let redrive = Ask::Redrive { drop_fingerprint: false, admit: false };
    for (what, old, want) in rows {
        for change in [redrive, Ask::Completed, Ask::FailedTerminal, Ask::Received] {
            let case = harmless(change);
            let before = Entry { token: old, ..cases::entry(&case).unwrap() };
            let got = after(ask(&case, Some(&before), VERSION, &context(&policy)));
            assert_eq!(got.token, want, "{what}: {change:?}");
        }
        let case = harmless(Ask::Park);
        let before = Entry { token: old, ..cases::entry(&case).unwrap() };
        assert_eq!(after(ask(&case, Some(&before), VERSION, &context(&policy))).token, old, "{what}: Park");
    }
}

/// A row whose token or version is not yet a minute below clock + offset is not deleted, by force neither: its
/// key could begin again below it.
#[test]
fn what_was_handed_out_within_a_minute_is_not_deleted() {
    let policy = cases::policy();
    let minute_ago = NOW.0 + OFFSET - 60_000_000;
    let rows = [
        ("token, more than a minute ago", minute_ago - 1, VERSION, None),
        ("token, a minute ago", minute_ago, VERSION, Some(Reason::TooRecent)),
        ("token, now", BUMPED, VERSION, Some(Reason::TooRecent)),
        ("token, ahead of the clock", BUMPED + 1_000_000, VERSION, Some(Reason::TooRecent)),
        ("version, more than a minute ago", TOKEN, minute_ago - 1, None),
        ("version, a minute ago", TOKEN, minute_ago, Some(Reason::TooRecent)),
    ];
    for (what, token, version, want) in rows {
        for force in [false, true] {
            let case = Case { force, ..harmless(Ask::Delete) };
            let before = Entry { token, version, ..cases::entry(&case).unwrap() };
            let got = ask(&case, Some(&before), version, &context(&policy));
            assert_eq!(reason(got), want, "{what}, force {force}");
        }
    }
}

/// While the clock is behind nothing begins and nothing is forgotten; what exists goes on above its own token.
#[test]
fn a_clock_that_is_behind_stops_deletes_and_admissions() {
    let policy = cases::policy();
    let behind = Context { clock_behind: true, ..context(&policy) };
    let refused = Some(Reason::StoreClockBehind);
    let rows = [
        (Ask::Delete, refused),
        (Ask::Redrive { drop_fingerprint: false, admit: false }, None),
        (Ask::Completed, None),
        (Ask::FailedTerminal, None),
        (Ask::Received, None),
        (Ask::Park, None),
    ];
    for (change, want) in rows {
        for force in [false, true] {
            let case = Case { force, ..harmless(change) };
            let before = cases::entry(&case).unwrap();
            assert_eq!(
                reason(ask(&case, Some(&before), VERSION, &behind)),
                want,
                "{change:?}, force {force}"
            );
        }
    }
    let admit = Case { was: Was::Absent, ..harmless(Ask::Redrive { drop_fingerprint: false, admit: true }) };
    assert_eq!(reason(ask(&admit, None, 0, &behind)), refused, "admit");
}

/// A run has no window, and its entries go with it.
#[test]
fn nothing_is_admitted_to_a_replay_run() {
    let policy = cases::policy();
    let live = cases::key();
    let key = Key::of(Namespace::new(live.consumer(), "r"), live.source().to_owned(), live.id().to_owned());
    let action = Action::Redrive { drop_fingerprint: false, admit: true };
    for expected_version in [0, VERSION] {
        let change = Change { expected_version, action: action.clone(), force: false };
        let refused = operate(&key, None, &change, &context(&policy));
        assert_eq!(reason(refused), Some(Reason::EntryNotFound), "expected {expected_version}");
    }
}

/// A claim that was parked stays the last claim: its history is written when it is forgotten, and names the
/// operator who ended it.
#[test]
fn a_claim_that_an_operator_parked_is_remembered_as_parked() {
    let policy = cases::policy();
    let open = Case { was: Was::Present(State::InProgress, ClosedBy::Open), ..harmless(Ask::Park) };
    let parked = after(ask(&open, cases::entry(&open).as_ref(), VERSION, &context(&policy)));
    assert!(parked.claimant.is_some() && parked.history.is_empty(), "{parked:?}");
    let later = Context { position: POSITION + 1, ..context(&policy) };
    let redrive = harmless(Ask::Redrive { drop_fingerprint: false, admit: false });
    let redriven = after(ask(&redrive, Some(&parked), VERSION + 1, &later));
    assert_eq!(redriven.history.len(), 1);
    assert_eq!((redriven.history[0].outcome, redriven.history[0].ended_at), (ClosedBy::OperatorPark, NOW));
    assert!(redriven.effect_unknown && redriven.token == BUMPED + 1 && redriven.version == VERSION + 2);
}

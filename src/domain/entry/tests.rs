use uuid::Uuid;

use super::*;

fn entry() -> Entry {
    Entry::blank(&Key::new("c", "s", "1"), &Policy::default(), StoreTime(10))
}

#[test]
fn state_has_the_name_of_the_interface() {
    for (state, words) in [
        (State::Received, ("RECEIVED", None)),
        (State::InProgress, ("IN_PROGRESS", None)),
        (State::FailedRetryable, ("FAILED_RETRYABLE", None)),
        (State::Completed, ("COMPLETED", None)),
        (State::FailedTerminal, ("FAILED_TERMINAL", None)),
        (State::Parked(ParkCause::AttemptsExhausted), ("PARKED", Some("ATTEMPTS_EXHAUSTED"))),
        (State::Parked(ParkCause::LeaseExpired), ("PARKED", Some("LEASE_EXPIRED"))),
        (State::Parked(ParkCause::EffectUnknown), ("PARKED", Some("EFFECT_UNKNOWN"))),
        (State::Parked(ParkCause::Consumer), ("PARKED", Some("CONSUMER"))),
        (State::Parked(ParkCause::Operator), ("PARKED", Some("OPERATOR"))),
    ] {
        assert_eq!(state.words(), words);
    }
}

/// Commands are folded in memory until their entry has this many bytes.
#[test]
fn payload_bytes_are_those_of_results_checkpoints_and_errors() {
    let mut one = entry();
    assert_eq!(one.payload_bytes(), 0);
    one.result = Bytes::from_static(&[1; 100]);
    one.checkpoint = Bytes::from_static(&[2; 20]);
    one.last_error = "broken".into();
    for error in ["late", "refused"] {
        one.history.push(Attempt {
            attempt: 1,
            started_at: StoreTime(1),
            ended_at: StoreTime(2),
            owner: "not counted".into(),
            outcome: ClosedBy::FailRetryable,
            error: error.into(),
            token: Some(1),
            reported_done: false,
        });
    }
    assert_eq!(one.payload_bytes(), 100 + 20 + 6 + 4 + 7);
}

/// A released attempt is given back: the number of the entry's attempts is one less by then.
#[test]
fn remembered_attempt_has_the_number_of_its_grant() {
    for (closed_by, attempts, remembered, outcome) in [
        (ClosedBy::FailRetryable, 3, 3, ClosedBy::FailRetryable),
        (ClosedBy::Release, 2, 3, ClosedBy::Release),
        (ClosedBy::Open, 3, 3, ClosedBy::Expiry),
    ] {
        let mut one = entry();
        one.claimant = Some(Claimant { claim_id: Uuid::nil(), principal: "p".into(), owner: "o".into() });
        (one.closed_by, one.attempts, one.last_error) = (closed_by, attempts, "broken".into());
        one.remember(StoreTime(20));
        let [past] = one.history.as_slice() else { panic!("{:?}", one.history) };
        assert_eq!((past.attempt, past.outcome), (remembered, outcome));
        assert_eq!(past.error == "broken", closed_by == ClosedBy::FailRetryable);
    }
}

#[test]
fn message_is_erased_only_where_another_delivery_must_bring_it() {
    for (state, body, erased) in [
        (State::Received, Some(Body::Erased), true),
        (State::Received, Some(Body::Kept), false),
        (State::Received, None, false),
        (State::Completed, Some(Body::Erased), false),
        (State::FailedRetryable, Some(Body::Erased), false),
    ] {
        let one = Entry { state, body, ..entry() };
        assert_eq!(one.message_erased(), erased, "{state:?} {body:?}");
    }
}

/// The version of a new row is clock + offset in whole milliseconds; its token has the microseconds too.
#[test]
fn stamped_entry_has_the_clock_of_its_insert() {
    let one = Entry { token: 3, version: 1_000, closed_at: Some(StoreTime(4)), ..entry() };
    let stamped = one.stamped(StoreTime(500), 1_234_567);
    assert_eq!((stamped.token, stamped.version), (1_234_570, 1_235_000));
    assert_eq!(
        (stamped.created_at, stamped.closed_at, stamped.parked_at),
        (StoreTime(510), Some(StoreTime(504)), None)
    );
}

#[test]
fn releases_in_a_row_end_at_another_outcome() {
    let past = |outcome| Attempt {
        attempt: 1,
        started_at: StoreTime(1),
        ended_at: StoreTime(2),
        owner: "o".into(),
        outcome,
        error: String::new(),
        token: Some(1),
        reported_done: false,
    };
    for (closed_by, history, in_a_row) in [
        (ClosedBy::Open, vec![ClosedBy::Release], 0),
        (ClosedBy::Release, vec![], 1),
        (ClosedBy::Release, vec![ClosedBy::Expiry, ClosedBy::Release, ClosedBy::Release], 3),
        (ClosedBy::Release, vec![ClosedBy::Release, ClosedBy::Expiry], 1),
    ] {
        let one = Entry { closed_by, history: history.into_iter().map(past).collect(), ..entry() };
        assert_eq!(one.releases_in_a_row(), in_a_row, "{closed_by:?}");
    }
}

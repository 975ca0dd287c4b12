//! The stored numbers of states and other enums: those of the protobuf files. SQL statements use these constants too.

use crate::domain::{Body, ClosedBy, OnExpiry, ParkCause, State};

/// A number as a text, for `concat!`.
macro_rules! number {
    (RECEIVED) => {
        "1"
    };
    (IN_PROGRESS) => {
        "2"
    };
    (FAILED_RETRYABLE) => {
        "3"
    };
    (COMPLETED) => {
        "4"
    };
    (FAILED_TERMINAL) => {
        "5"
    };
    (PARKED) => {
        "6"
    };
    (NO_CAUSE) => {
        "0"
    };
    (OPEN) => {
        "0"
    };
    (BY_COMPLETE) => {
        "1"
    };
    (BY_STORE) => {
        "9"
    };
    (KEPT) => {
        "1"
    };
    (ERASED) => {
        "2"
    };
}
pub(super) use number;

/// The number that a text of one digit stands for.
const fn digit(text: &str) -> i16 {
    assert!(text.len() == 1);
    (text.as_bytes()[0] - b'0') as i16
}

pub(super) const RECEIVED: i16 = digit(number!(RECEIVED));
pub(super) const IN_PROGRESS: i16 = digit(number!(IN_PROGRESS));
pub(super) const FAILED_RETRYABLE: i16 = digit(number!(FAILED_RETRYABLE));
pub(super) const COMPLETED: i16 = digit(number!(COMPLETED));
pub(super) const FAILED_TERMINAL: i16 = digit(number!(FAILED_TERMINAL));
pub(super) const PARKED: i16 = digit(number!(PARKED));
const NO_CAUSE: i16 = digit(number!(NO_CAUSE));
const OPEN: i16 = digit(number!(OPEN));
const BY_COMPLETE: i16 = digit(number!(BY_COMPLETE));
const BY_STORE: i16 = digit(number!(BY_STORE));
const KEPT: i16 = digit(number!(KEPT));
const ERASED: i16 = digit(number!(ERASED));

/// The numbers of `EntryState` and `ParkCause`.
pub(super) fn of_state(state: State) -> (i16, i16) {
    match state {
        State::Received => (RECEIVED, NO_CAUSE),
        State::InProgress => (IN_PROGRESS, NO_CAUSE),
        State::FailedRetryable => (FAILED_RETRYABLE, NO_CAUSE),
        State::Completed => (COMPLETED, NO_CAUSE),
        State::FailedTerminal => (FAILED_TERMINAL, NO_CAUSE),
        State::Parked(ParkCause::AttemptsExhausted) => (PARKED, 1),
        State::Parked(ParkCause::LeaseExpired) => (PARKED, 2),
        State::Parked(ParkCause::EffectUnknown) => (PARKED, 3),
        State::Parked(ParkCause::Consumer) => (PARKED, 4),
        State::Parked(ParkCause::Operator) => (PARKED, 5),
    }
}

/// The state with these numbers.
pub(super) fn state(state: i16, cause: i16) -> Option<State> {
    Some(match (state, cause) {
        (RECEIVED, NO_CAUSE) => State::Received,
        (IN_PROGRESS, NO_CAUSE) => State::InProgress,
        (FAILED_RETRYABLE, NO_CAUSE) => State::FailedRetryable,
        (COMPLETED, NO_CAUSE) => State::Completed,
        (FAILED_TERMINAL, NO_CAUSE) => State::FailedTerminal,
        (PARKED, 1) => State::Parked(ParkCause::AttemptsExhausted),
        (PARKED, 2) => State::Parked(ParkCause::LeaseExpired),
        (PARKED, 3) => State::Parked(ParkCause::EffectUnknown),
        (PARKED, 4) => State::Parked(ParkCause::Consumer),
        (PARKED, 5) => State::Parked(ParkCause::Operator),
        _ => return None,
    })
}

/// The number of `ClosedBy`.
pub(super) fn of_closed_by(closed_by: ClosedBy) -> i16 {
    match closed_by {
        ClosedBy::Open => OPEN,
        ClosedBy::Complete => BY_COMPLETE,
        ClosedBy::FailRetryable => 2,
        ClosedBy::FailTerminal => 3,
        ClosedBy::FailPark => 4,
        ClosedBy::Release => 5,
        ClosedBy::Expiry => 6,
        ClosedBy::OperatorPark => 7,
        ClosedBy::Operator => 8,
        ClosedBy::Store => BY_STORE,
    }
}

/// The end of a claim with this number.
pub(super) fn closed_by(number: i16) -> Option<ClosedBy> {
    Some(match number {
        OPEN => ClosedBy::Open,
        BY_COMPLETE => ClosedBy::Complete,
        2 => ClosedBy::FailRetryable,
        3 => ClosedBy::FailTerminal,
        4 => ClosedBy::FailPark,
        5 => ClosedBy::Release,
        6 => ClosedBy::Expiry,
        7 => ClosedBy::OperatorPark,
        8 => ClosedBy::Operator,
        BY_STORE => ClosedBy::Store,
        _ => return None,
    })
}

/// The number of `Body`.
pub(super) fn of_body(body: Body) -> i16 {
    match body {
        Body::Kept => KEPT,
        Body::Erased => ERASED,
    }
}

/// The `Body` with this number.
pub(super) fn body(number: i16) -> Option<Body> {
    Some(match number {
        KEPT => Body::Kept,
        ERASED => Body::Erased,
        _ => return None,
    })
}

/// The number of `OnExpiry`.
pub(super) fn of_on_expiry(on_expiry: OnExpiry) -> i16 {
    match on_expiry {
        OnExpiry::Reclaim => 1,
        OnExpiry::Park => 2,
        OnExpiry::ParkIfStarted => 3,
    }
}

/// The `OnExpiry` with this number.
pub(super) fn on_expiry(number: i16) -> Option<OnExpiry> {
    Some(match number {
        1 => OnExpiry::Reclaim,
        2 => OnExpiry::Park,
        3 => OnExpiry::ParkIfStarted,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each stored number is read as the value that is written as this number; any other number is unreadable, and never a guess.
    #[test]
    fn numbers_are_read_as_they_are_written() {
        for number in -1..=12 {
            let known = |highest| (1..=highest).contains(&number).then_some(number);
            assert_eq!(body(number).map(of_body), known(2));
            assert_eq!(on_expiry(number).map(of_on_expiry), known(3));
            let expected = (0..=9).contains(&number).then_some(number);
            assert_eq!(closed_by(number).map(of_closed_by), expected);
            for cause in -1..=7 {
                let parked = number == PARKED && (1..=5).contains(&cause);
                let other = (1..PARKED).contains(&number) && cause == NO_CAUSE;
                let expected = (parked || other).then_some((number, cause));
                assert_eq!(state(number, cause).map(of_state), expected, "{number} {cause}");
            }
        }
    }
}

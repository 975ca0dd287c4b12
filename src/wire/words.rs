//! Single values as messages: words of enums, spans, instants, keys.

use uuid::Uuid;

use crate::domain::{Advice, ClosedBy, Key, OnExpiry, ParkCause, Span, State, StoreTime};
use crate::proto;

pub(super) fn advice(advice: Advice) -> proto::Advice {
    match advice {
        Advice::Process => proto::Advice::Process,
        Advice::Ack => proto::Advice::Ack,
        Advice::RetryLater => proto::Advice::RetryLater,
        Advice::DeadLetter => proto::Advice::DeadLetter,
    }
}

pub(crate) fn state(state: State) -> proto::EntryState {
    match state {
        State::Received => proto::EntryState::Received,
        State::InProgress => proto::EntryState::InProgress,
        State::FailedRetryable => proto::EntryState::FailedRetryable,
        State::Completed => proto::EntryState::Completed,
        State::FailedTerminal => proto::EntryState::FailedTerminal,
        State::Parked(_) => proto::EntryState::Parked,
    }
}

/// Why the entry is parked, if it is.
pub(crate) fn cause(state: State) -> proto::ParkCause {
    match state {
        State::Parked(cause) => park_cause(cause),
        State::Received
        | State::InProgress
        | State::FailedRetryable
        | State::Completed
        | State::FailedTerminal => proto::ParkCause::Unspecified,
    }
}

pub(super) fn park_cause(cause: ParkCause) -> proto::ParkCause {
    match cause {
        ParkCause::AttemptsExhausted => proto::ParkCause::AttemptsExhausted,
        ParkCause::LeaseExpired => proto::ParkCause::LeaseExpired,
        ParkCause::EffectUnknown => proto::ParkCause::EffectUnknown,
        ParkCause::Consumer => proto::ParkCause::Consumer,
        ParkCause::Operator => proto::ParkCause::Operator,
    }
}

pub(super) fn closed_by(closed_by: ClosedBy) -> proto::ClosedBy {
    match closed_by {
        ClosedBy::Open => proto::ClosedBy::Unspecified,
        ClosedBy::Complete => proto::ClosedBy::Complete,
        ClosedBy::FailRetryable => proto::ClosedBy::FailRetryable,
        ClosedBy::FailTerminal => proto::ClosedBy::FailTerminal,
        ClosedBy::FailPark => proto::ClosedBy::FailPark,
        ClosedBy::Release => proto::ClosedBy::Release,
        ClosedBy::Expiry => proto::ClosedBy::Expiry,
        ClosedBy::OperatorPark => proto::ClosedBy::OperatorPark,
        ClosedBy::Operator => proto::ClosedBy::Operator,
        ClosedBy::Store => proto::ClosedBy::Store,
    }
}

/// To the millisecond: the microseconds of a grant would reveal its token.
pub(crate) fn shown(instant: StoreTime) -> prost_types::Timestamp {
    timestamp(StoreTime(instant.0 - instant.0.rem_euclid(1_000)))
}

/// How long ago; to the millisecond, for the same reason.
pub(crate) fn age(now: StoreTime, since: StoreTime) -> prost_types::Duration {
    let age = now - since;
    duration(Span(age.0 - age.0.rem_euclid(1_000)))
}

pub(crate) fn key(key: &Key) -> proto::EntryKey {
    proto::EntryKey {
        consumer: key.consumer().to_owned(),
        replay_run: key.replay_run().to_owned(),
        source: key.source().to_owned(),
        id: key.id().to_owned(),
    }
}

/// A UUID in its 36-character text form.
pub(super) fn uuid(id: Uuid) -> String {
    id.hyphenated().encode_lower(&mut Uuid::encode_buffer()).to_owned()
}

pub(crate) fn duration(span: Span) -> prost_types::Duration {
    prost_types::Duration { seconds: span.0 / 1_000_000, nanos: sub_micros(span.0 % 1_000_000) }
}

pub(crate) fn timestamp(instant: StoreTime) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: instant.0.div_euclid(1_000_000),
        nanos: sub_micros(instant.0.rem_euclid(1_000_000)),
    }
}

fn sub_micros(micros: i64) -> i32 {
    i32::try_from(micros).unwrap_or(0) * 1_000
}

pub(super) fn on_expiry(on_expiry: OnExpiry) -> proto::OnExpiry {
    match on_expiry {
        OnExpiry::Reclaim => proto::OnExpiry::Reclaim,
        OnExpiry::Park => proto::OnExpiry::Park,
        OnExpiry::ParkIfStarted => proto::OnExpiry::ParkIfStarted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_has_its_text_form() {
        let id = Uuid::from_u128(0x6BA7_B810_9DAD_41D1_80B4_00C0_4FD4_30C8);
        assert_eq!(uuid(id), "6ba7b810-9dad-41d1-80b4-00c04fd430c8");
    }

    #[test]
    fn instants_and_spans_keep_their_microseconds() {
        for (micros, seconds, nanos) in [(0, 0, 0), (1_250_007, 1, 250_007_000), (-1, -1, 999_999_000)] {
            assert_eq!(timestamp(StoreTime(micros)), prost_types::Timestamp { seconds, nanos }, "{micros}");
        }
        for (micros, seconds, nanos) in [(0, 0, 0), (1_250_007, 1, 250_007_000), (-1, 0, -1_000)] {
            assert_eq!(duration(Span(micros)), prost_types::Duration { seconds, nanos }, "{micros}");
        }
        for (micros, seconds, nanos) in [(1_250_007, 1, 250_000_000), (-1, -1, 999_000_000)] {
            assert_eq!(shown(StoreTime(micros)), prost_types::Timestamp { seconds, nanos }, "{micros}");
        }
        let second = prost_types::Duration { seconds: 1, nanos: 250_000_000 };
        assert_eq!(age(StoreTime(6_250_007), StoreTime(5_000_000)), second);
    }
}

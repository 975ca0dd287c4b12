//! Where each answer is counted: its index among the values of a label.

use crate::domain::{Answer, FailureKind, ParkCause, Reason, Reply, State, Verdict};

/// The index of a kind of Fail in `KINDS`.
pub(super) fn place(kind: FailureKind) -> usize {
    match kind {
        FailureKind::Retryable => 0,
        FailureKind::Terminal => 1,
        FailureKind::Park => 2,
    }
}

/// Whether the answer is the report of an effect that another claim has reported as done.
pub(super) fn is_doubled(answer: &Answer) -> bool {
    match answer {
        Ok(Reply::Completed { doubled, .. }) => *doubled,
        Ok(_) => false,
        Err(rejection) => rejection.doubled,
    }
}

/// The index in `CAUSES` of the cause for which this very call parks the message. An operator's parking is
/// never answered here.
pub(super) fn parked(answer: &Answer) -> Option<usize> {
    match parked_now(answer)? {
        ParkCause::AttemptsExhausted => Some(0),
        ParkCause::LeaseExpired => Some(1),
        ParkCause::EffectUnknown => Some(2),
        ParkCause::Consumer => Some(3),
        ParkCause::Operator => None,
    }
}

fn parked_now(answer: &Answer) -> Option<ParkCause> {
    match answer {
        Ok(
            Reply::Verdict(Verdict::Parked { cause, newly: true, .. })
            | Reply::Failed { state: State::Parked(cause), replayed: false, .. },
        ) => Some(*cause),
        Ok(_) | Err(_) => None,
    }
}

/// The index in `VERDICTS`.
pub(super) fn verdict(answer: &Answer) -> usize {
    match answer {
        Ok(Reply::Verdict(verdict)) => match verdict {
            Verdict::Acquired { .. } => 0,
            Verdict::Completed { .. } => 1,
            Verdict::InProgress { .. } => 2,
            Verdict::Backoff { .. } => 3,
            Verdict::Failed { .. } => 4,
            Verdict::Parked { .. } => 5,
            Verdict::FingerprintMismatch { .. } => 6,
            Verdict::OutsideWindow { .. } => 7,
            // A live claim never gets this verdict.
            Verdict::Suppressed { .. } => 8,
        },
        Err(rejection) if rejection.reason.is_failure() => 9,
        Ok(
            Reply::Renewed { .. }
            | Reply::Completed { .. }
            | Reply::Failed { .. }
            | Reply::Released { .. }
            | Reply::Found(_),
        )
        | Err(_) => 8,
    }
}

/// The index in `REPLAY_VERDICTS`.
pub(super) fn replay_verdict(answer: &Answer) -> usize {
    match answer {
        Ok(Reply::Verdict(Verdict::Acquired { .. })) => 0,
        Ok(Reply::Verdict(Verdict::Completed { .. })) => 1,
        Ok(Reply::Verdict(Verdict::Suppressed { .. })) => 2,
        Err(rejection) if rejection.reason.is_of_a_run() => 3,
        Ok(_) | Err(_) => 4,
    }
}

/// The index in `OUTCOMES`.
pub(super) fn outcome(answer: &Answer) -> usize {
    match answer {
        Ok(
            Reply::Completed { replayed: true, .. }
            | Reply::Failed { replayed: true, .. }
            | Reply::Released { replayed: true, .. },
        ) => 1,
        Ok(Reply::Completed { late: true, .. } | Reply::Renewed { revived: true, .. }) => 2,
        Ok(
            Reply::Completed { .. } | Reply::Failed { .. } | Reply::Released { .. } | Reply::Renewed { .. },
        ) => 0,
        Err(rejection) if rejection.reason == Reason::LeaseLost => 4,
        Err(rejection) if rejection.reason.is_failure() => 5,
        Ok(Reply::Verdict(_) | Reply::Found(_)) | Err(_) => 3,
    }
}

/// The index in `FOUND`.
pub(super) fn found(answer: &Answer) -> usize {
    match answer {
        Ok(Reply::Found(found)) => match found.state {
            None => 0,
            Some(State::Received) => 1,
            Some(State::InProgress) => 2,
            Some(State::FailedRetryable) => 3,
            Some(State::Completed) => 4,
            Some(State::FailedTerminal) => 5,
            Some(State::Parked(_)) => 6,
        },
        Err(rejection) if rejection.reason.is_failure() => 8,
        Ok(_) | Err(_) => 7,
    }
}

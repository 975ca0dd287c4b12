//! What answers say, and whether the store shows it.

use super::calls::NumberedCall;
use super::disk::{Inner, marks};
use crate::domain::{Answer, ClosedBy, Command, Entry, Reason, Reply, Settle, State, Verdict};

/// Checks that no answer has an error which is impossible while the store is healthy and the queue is open.
pub(super) fn assert_calm(answers: &[Answer]) {
    for answer in answers {
        let uncalm = [
            Reason::OutcomeUnknown,
            Reason::StoreUnavailable,
            Reason::Draining,
            Reason::Overloaded,
            Reason::Internal,
        ];
        assert!(!reason(answer).is_some_and(|reason| uncalm.contains(&reason)), "{answer:?}");
    }
}

pub(super) fn reason(answer: &Answer) -> Option<Reason> {
    answer.as_ref().err().map(|rejection| rejection.reason)
}

/// The token of a grant.
pub(super) fn token(answer: &Answer) -> Option<i64> {
    match answer {
        Ok(Reply::Verdict(Verdict::Acquired { token, .. })) => Some(*token),
        _ => None,
    }
}

/// Whether the store shows what the answer says, and for this call. `since`: number of rows committed before the call was made.
pub(super) fn happened(inner: &Inner, call: &NumberedCall, reply: &Reply, since: usize) -> bool {
    let mine = inner.applied.contains(&call.number);
    // Of calls that were written together the row shows the last Renew, and no Release that a Complete followed.
    let hidden = |token: i64| {
        let meanwhile = inner.commits.get(since..).unwrap_or_default().iter();
        let mut same_claim = meanwhile.filter(|row| row.key == call.key && row.token == token);
        same_claim.any(|row| marks(row).any(|number| number != call.number))
    };
    match (&call.command, reply) {
        (Command::Claim(claim), Reply::Verdict(verdict)) => match verdict {
            Verdict::Acquired { token, .. } => {
                let granted = |row: &Entry| row.token == *token && row.is_claim_of(&claim.claimant);
                mine && inner.committed(&call.key, granted)
            }
            Verdict::Completed { .. } => inner.committed(&call.key, |row| row.state == State::Completed),
            Verdict::InProgress { .. } => inner.committed(&call.key, |row| {
                row.state == State::InProgress && !row.is_claim_of(&claim.claimant)
            }),
            Verdict::Backoff { .. } => inner.committed(&call.key, |row| row.closed_by != ClosedBy::Open),
            Verdict::Failed { .. }
            | Verdict::Parked { .. }
            | Verdict::FingerprintMismatch { .. }
            | Verdict::OutsideWindow { .. }
            | Verdict::Suppressed { .. } => false,
        },
        (Command::Settle(token, settle), reply) => {
            let closed = |by: &[ClosedBy]| {
                inner.committed(&call.key, |row| row.token == *token && by.contains(&row.closed_by))
            };
            match (settle, reply) {
                (Settle::Complete { .. }, Reply::Completed { replayed, .. }) => {
                    if *replayed {
                        closed(&[ClosedBy::Complete])
                    } else {
                        mine
                    }
                }
                (Settle::Fail { .. }, Reply::Failed { replayed, .. }) => {
                    if *replayed {
                        closed(&[ClosedBy::FailRetryable, ClosedBy::Release]) || hidden(*token)
                    } else {
                        mine
                    }
                }
                (Settle::Release { .. }, Reply::Released { replayed, .. }) => {
                    if *replayed {
                        closed(&[ClosedBy::Release]) || hidden(*token)
                    } else {
                        mine || hidden(*token)
                    }
                }
                (Settle::Renew { .. }, Reply::Renewed { .. }) => mine || hidden(*token),
                _ => false,
            }
        }
        // None is sent here.
        (Command::Claim(_) | Command::Lookup, _) => false,
    }
}

/// The outcome of a call, for the counts.
pub(super) fn word(reply: &Reply) -> &'static str {
    match reply {
        Reply::Verdict(Verdict::Acquired { replayed: false, .. }) => "acquired",
        Reply::Verdict(Verdict::Acquired { replayed: true, .. }) => "acquired, replayed",
        Reply::Verdict(Verdict::Completed { .. }) => "completed",
        Reply::Verdict(Verdict::InProgress { .. }) => "in progress",
        Reply::Verdict(_) => "other verdicts",
        Reply::Completed { replayed: false, .. } => "Complete done",
        Reply::Completed { replayed: true, .. } => "Complete replayed",
        Reply::Failed { .. } => "Fail done",
        Reply::Released { .. } => "Release done",
        Reply::Renewed { .. } => "Renew done",
        Reply::Found(_) => "found",
    }
}

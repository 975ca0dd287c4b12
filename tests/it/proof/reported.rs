//! The words of the wire in those of the spec.

use idempotency_ledger::domain::{OnExpiry, State};
use idempotency_ledger::proto::{self, claim_response};
use tonic::Status;
use tonic_types::StatusExt as _;

use super::spec::Said;

/// What an entry says of itself to operators: whether its effect is in doubt, and the changes that it allows.
pub(crate) fn says(entry: &proto::Entry) -> (bool, Vec<(&'static str, bool)>) {
    let allowed = |one: &proto::AllowedChange| {
        (one.change().as_str_name().trim_start_matches("ENTRY_CHANGE_"), one.needs_force)
    };
    (entry.effect_doubtful, entry.allowed_changes.iter().map(allowed).collect())
}

fn micros(duration: Option<&prost_types::Duration>) -> i64 {
    duration.map_or(0, |span| span.seconds * 1_000_000 + i64::from(span.nanos) / 1_000)
}

fn instant(at: Option<&prost_types::Timestamp>) -> i64 {
    at.map_or(0, |at| at.seconds * 1_000_000 + i64::from(at.nanos) / 1_000)
}

fn cause(cause: proto::ParkCause) -> idempotency_ledger::domain::ParkCause {
    use idempotency_ledger::domain::ParkCause;
    match cause {
        proto::ParkCause::AttemptsExhausted => ParkCause::AttemptsExhausted,
        proto::ParkCause::LeaseExpired => ParkCause::LeaseExpired,
        proto::ParkCause::EffectUnknown => ParkCause::EffectUnknown,
        proto::ParkCause::Consumer => ParkCause::Consumer,
        proto::ParkCause::Operator => ParkCause::Operator,
        proto::ParkCause::Unspecified => panic!("a cause is missing"),
    }
}

fn expiry(on_expiry: proto::OnExpiry) -> OnExpiry {
    match on_expiry {
        proto::OnExpiry::Reclaim => OnExpiry::Reclaim,
        proto::OnExpiry::Park => OnExpiry::Park,
        proto::OnExpiry::ParkIfStarted => OnExpiry::ParkIfStarted,
        proto::OnExpiry::Unspecified => panic!("what becomes of an expired claim is missing"),
    }
}

/// Of PARKED the wire's state says no cause: the caller knows it.
fn state(state: proto::EntryState, parked: Option<State>) -> Option<State> {
    match state {
        proto::EntryState::Unspecified => None,
        proto::EntryState::Received => Some(State::Received),
        proto::EntryState::InProgress => Some(State::InProgress),
        proto::EntryState::FailedRetryable => Some(State::FailedRetryable),
        proto::EntryState::Completed => Some(State::Completed),
        proto::EntryState::FailedTerminal => Some(State::FailedTerminal),
        proto::EntryState::Parked => {
            Some(parked.unwrap_or(State::Parked(idempotency_ledger::domain::ParkCause::Operator)))
        }
    }
}

pub(crate) fn claimed(response: &proto::ClaimResponse) -> Said {
    use claim_response::Verdict;
    let retry_after = micros(response.retry_after.as_ref());
    match response.verdict.clone().expect("a verdict") {
        Verdict::Acquired(it) => Said::Acquired {
            token: it.token,
            attempt: it.attempt,
            lease: micros(it.lease.as_ref()),
            hold: micros(it.hold.as_ref()),
            on_expiry: expiry(it.on_expiry()),
            replayed: it.replayed,
            effect_unknown: it.effect_unknown,
            prior_effect_started: it.prior_effect_started,
            checkpoint: it.checkpoint.to_vec(),
            last_error: it.last_error,
            attempts_left: it.attempts_left,
        },
        Verdict::Completed(it) => Said::Completed {
            result: it.result.to_vec(),
            expired: it.result_expired,
            dropped: it.result_dropped,
            at: instant(it.completed_at.as_ref()),
            attempt: it.attempt,
            by_this_claim: it.by_this_claim,
            unverified: it.fingerprint_unverified,
        },
        Verdict::InProgress(it) => Said::InProgress {
            owner: it.owner,
            attempt: it.attempt,
            lease: micros(it.lease.as_ref()),
            retry_after,
        },
        Verdict::Backoff(it) => {
            Said::Backoff { attempts_left: it.attempts_left, last_error: it.last_error, retry_after }
        }
        Verdict::Failed(it) => Said::Failed { error: it.error, at: instant(it.failed_at.as_ref()) },
        Verdict::Parked(it) => {
            let (cause, at) = (cause(it.cause()), instant(it.parked_at.as_ref()));
            Said::Parked { cause, error: it.error, at }
        }
        Verdict::FingerprintMismatch(it) => {
            Said::Mismatch { expected: it.expected.to_vec(), presented: it.presented.to_vec() }
        }
        Verdict::OutsideWindow(it) => Said::Outside {
            window: micros(it.window.as_ref()),
            occurred_at: instant(it.occurred_at.as_ref()),
        },
        Verdict::Suppressed(it) => Said::Suppressed { run: it.replay_run },
        Verdict::Rejected(it) => rejected(&it, None),
    }
}

pub(crate) fn stored(response: &proto::StoreResponse, parked: Option<State>) -> Said {
    use proto::store_response::Verdict;
    let kept = |of, before| Said::Stored { state: state(of, parked).expect("a state"), before };
    match response.verdict.as_ref().expect("a verdict") {
        Verdict::Stored(it) => kept(it.state(), false),
        Verdict::AlreadyStored(it) => {
            assert!(it.stored_at.is_some(), "{response:?}");
            kept(it.state(), true)
        }
        Verdict::Completed(it) => Said::StoredDone { at: instant(it.completed_at.as_ref()) },
        Verdict::Failed(it) => Said::Failed { error: it.error.clone(), at: instant(it.failed_at.as_ref()) },
        Verdict::FingerprintMismatch(it) => {
            Said::Mismatch { expected: it.expected.to_vec(), presented: it.presented.to_vec() }
        }
        Verdict::OutsideWindow(it) => Said::Outside {
            window: micros(it.window.as_ref()),
            occurred_at: instant(it.occurred_at.as_ref()),
        },
        Verdict::Rejected(it) => rejected(it, parked),
    }
}

/// The claim of a message that is handed out.
pub(crate) fn handed(acquired: &proto::Acquired) -> Said {
    let verdict = Some(claim_response::Verdict::Acquired(acquired.clone()));
    claimed(&proto::ClaimResponse { verdict, ..Default::default() })
}

pub(crate) fn found(response: &proto::LookupResponse, parked: Option<State>) -> Said {
    use proto::lookup_response::Found;
    // What is found reads as the same verdict of a Claim.
    let holds = response.found.clone().map(|found| match found {
        Found::Completed(it) => claim_response::Verdict::Completed(it),
        Found::Failed(it) => claim_response::Verdict::Failed(it),
        Found::Parked(it) => claim_response::Verdict::Parked(it),
        Found::InProgress(it) => claim_response::Verdict::InProgress(it),
        Found::Backoff(it) => claim_response::Verdict::Backoff(it),
    });
    let holds = holds.map(|verdict| {
        let waits =
            matches!(verdict, claim_response::Verdict::InProgress(_) | claim_response::Verdict::Backoff(_));
        assert_eq!(response.retry_after.is_some(), waits, "{response:?}");
        let (verdict, retry_after) = (Some(verdict), response.retry_after);
        Box::new(claimed(&proto::ClaimResponse { verdict, retry_after, ..Default::default() }))
    });
    Said::Found { state: state(response.state(), parked), attempt: response.attempt, holds }
}

pub(crate) fn rejected(rejected: &proto::Rejected, parked: Option<State>) -> Said {
    let reason = rejected.reason().as_str_name().trim_start_matches("ERROR_REASON_").to_owned();
    Said::Error { reason, state: state(rejected.current_state(), parked) }
}

pub(crate) fn settled(outcome: &proto::settlement_result::Outcome, parked: Option<State>) -> Said {
    use proto::settlement_result::Outcome;
    match outcome {
        Outcome::Complete(it) => {
            Said::CompleteOk { replayed: it.replayed, late: it.late, dropped: it.result_dropped }
        }
        Outcome::Fail(it) => {
            let state = state(it.state(), parked).expect("a state");
            let waits = matches!(state, State::Received | State::FailedRetryable);
            Said::FailOk {
                state,
                retry_after: waits.then(|| micros(it.retry_after.as_ref())),
                attempts_left: it.attempts_left,
                replayed: it.replayed,
            }
        }
        Outcome::Release(it) => Said::ReleaseOk { replayed: it.replayed, unpinned: it.fingerprint_unpinned },
        Outcome::Renew(it) => Said::RenewOk {
            lease: micros(it.lease.as_ref()),
            hold: micros(it.hold.as_ref()),
            on_expiry: expiry(it.on_expiry()),
            revived: it.revived,
            dropped: it.checkpoint_dropped,
        },
        Outcome::Rejected(it) => rejected(it, parked),
    }
}

pub(crate) fn refused(status: &Status, parked: Option<State>) -> Said {
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("no ErrorInfo: {status:?}"));
    let word = info.metadata.get("current_state").cloned().unwrap_or_default();
    let known = proto::EntryState::from_str_name(&format!("ENTRY_STATE_{word}"));
    Said::Error { reason: info.reason.clone(), state: known.and_then(|known| state(known, parked)) }
}

//! The core's and the wire's words in those of the spec.

use idempotency_ledger::domain::{
    Action, Answer, Attempt, Change, Claim, Claimant, ClosedBy, Command, Entry, OnExpiry, Reply, Resolution,
    Settle, Span, State, StoreTime, Verdict,
};
use idempotency_ledger::proto::{self, claim_response};
use tonic::Status;
use tonic_types::StatusExt as _;
use uuid::Uuid;

use super::spec::{Op, Order, Past, Row, Said};

pub(crate) fn command(op: &Op) -> Command {
    match op.clone() {
        Op::Claim { who, lease, print, occurred_at } => Command::Claim(Claim {
            claimant: Claimant { claim_id: Uuid::from_u128(who.0), principal: String::new(), owner: who.1 },
            lease: lease.map(Span),
            fingerprint: print.into(),
            occurred_at: occurred_at.map(StoreTime),
            traceparent: String::new(),
        }),
        Op::Complete { token, result, too_large } => {
            Command::Settle(token, Settle::Complete { result: result.into(), left_out: too_large })
        }
        Op::Fail { token, kind, error, retry_after } => {
            Command::Settle(token, Settle::Fail { kind, error, retry_after: retry_after.map(Span) })
        }
        Op::Release { token, delay, unpin } => {
            Command::Settle(token, Settle::Release { delay: Span(delay), unpin })
        }
        Op::Renew { token, lease, started, checkpoint, too_large } => Command::Settle(
            token,
            Settle::Renew {
                lease: lease.map(Span),
                effect_started: started,
                checkpoint: checkpoint.map(Into::into),
                checkpoint_dropped: too_large,
            },
        ),
        Op::Lookup => Command::Lookup,
    }
}

pub(crate) fn change(order: &Order, expected_version: i64) -> Change {
    let (action, force) = match order.clone() {
        Order::Redrive { force, drop_fingerprint, admit } => {
            (Action::Redrive { drop_fingerprint, admit }, force)
        }
        Order::Park => (Action::Park, false),
        Order::Complete { force, result } => {
            (Action::Resolve(Resolution::Completed { result: result.into() }), force)
        }
        Order::FailTerminal { force, error } => {
            (Action::Resolve(Resolution::FailedTerminal { error }), force)
        }
        Order::NotDone { force } => (Action::Resolve(Resolution::Received), force),
        Order::Delete { force } => (Action::Delete, force),
    };
    Change { expected_version, action, force }
}

/// What an entry says of itself to operators: whether its effect is in doubt, and the changes that it allows.
pub(crate) fn says(entry: &proto::Entry) -> (bool, Vec<(&'static str, bool)>) {
    let allowed = |one: &proto::AllowedChange| {
        (one.change().as_str_name().trim_start_matches("ENTRY_CHANGE_"), one.needs_force)
    };
    (entry.effect_doubtful, entry.allowed_changes.iter().map(allowed).collect())
}

/// The row that the spec would know, had it come this far.
pub(crate) fn row(entry: &Entry) -> Row {
    Row {
        state: entry.state,
        by: entry.closed_by,
        token: entry.token,
        who: entry.claimant.as_ref().map(|who| (who.claim_id.as_u128(), who.owner.clone())),
        lease_until: entry.lease_until.0,
        grace: entry.grace.0,
        hold_until: entry.hold_until.0,
        on_expiry: entry.on_expiry,
        retention: entry.retention.0,
        rearmed: entry.rearmed,
        started: entry.effect_started,
        prior: entry.prior_effect_started,
        unknown: entry.effect_unknown,
        checkpoint: entry.checkpoint.to_vec(),
        attempts: entry.attempts,
        not_before: entry.not_before.0,
        error: entry.last_error.clone(),
        print: entry.fingerprint.to_vec(),
        unpinned: entry.unpinned,
        result: entry.result.to_vec(),
        dropped: entry.result_dropped,
        closed_at: entry.closed_at.map_or(0, |at| at.0),
        parked_at: entry.parked_at.map_or(0, |at| at.0),
        changed_at: entry.updated_at.0,
        keep_until: entry.retain_until.map(|at| at.0),
        past: entry.history.iter().map(past).collect(),
        marks: entry.superseded_completes,
        doubled: entry.doubled,
    }
}

fn past(attempt: &Attempt) -> Past {
    let completed = attempt.outcome == ClosedBy::Complete;
    Past { token: attempt.token, completed, marked: attempt.reported_done }
}

/// Whether the core's answer is an alarm: the effect was reported as done before. A repeat is none.
pub(crate) fn alarms(answer: &Answer) -> bool {
    match answer {
        Err(rejection) => rejection.doubled,
        Ok(Reply::Completed { replayed, doubled, .. }) => *doubled && !replayed,
        Ok(_) => false,
    }
}

pub(crate) fn by_core(answer: &Answer) -> Said {
    match answer.clone() {
        Err(rejection) => {
            Said::Error { reason: word(&format!("{:?}", rejection.reason)), state: rejection.state }
        }
        Ok(Reply::Renewed { lease, hold, on_expiry, revived, checkpoint_dropped: dropped }) => {
            Said::RenewOk { lease: lease.0, hold: hold.0, on_expiry, revived, dropped }
        }
        Ok(Reply::Completed { replayed, late, result_dropped: dropped, .. }) => {
            Said::CompleteOk { replayed, late, dropped }
        }
        Ok(Reply::Failed { state, retry_after, attempts_left, replayed }) => {
            Said::FailOk { state, retry_after: retry_after.map(|wait| wait.0), attempts_left, replayed }
        }
        Ok(Reply::Released { replayed, unpinned, .. }) => Said::ReleaseOk { replayed, unpinned },
        Ok(Reply::Verdict(verdict)) => told(verdict),
        Ok(Reply::Found(found)) => Said::Found {
            state: found.state,
            attempt: found.attempt,
            holds: found.verdict.map(|verdict| Box::new(told(verdict))),
        },
    }
}

fn told(verdict: Verdict) -> Said {
    match verdict {
        Verdict::Acquired {
            token,
            attempt,
            lease,
            hold,
            on_expiry,
            replayed,
            effect_unknown,
            prior_effect_started,
            checkpoint,
            last_error,
            attempts_left,
            ..
        } => Said::Acquired {
            token,
            attempt,
            lease: lease.0,
            hold: hold.0,
            on_expiry,
            replayed,
            effect_unknown,
            prior_effect_started,
            checkpoint: checkpoint.to_vec(),
            last_error,
            attempts_left,
        },
        Verdict::Completed {
            result,
            result_expired,
            completed_at,
            attempt,
            by_this_claim,
            fingerprint_unverified,
            result_dropped,
        } => Said::Completed {
            result: result.to_vec(),
            expired: result_expired,
            dropped: result_dropped,
            at: completed_at.0,
            attempt,
            by_this_claim,
            unverified: fingerprint_unverified,
        },
        Verdict::InProgress { owner, attempt, lease, retry_after } => {
            Said::InProgress { owner, attempt, lease: lease.0, retry_after: retry_after.0 }
        }
        Verdict::Backoff { attempts_left, last_error, retry_after } => {
            Said::Backoff { attempts_left, last_error, retry_after: retry_after.0 }
        }
        Verdict::Failed { error, failed_at } => Said::Failed { error, at: failed_at.0 },
        Verdict::Parked { cause, error, parked_at, newly: _ } => {
            Said::Parked { cause, error, at: parked_at.0 }
        }
        Verdict::FingerprintMismatch { expected, presented } => {
            Said::Mismatch { expected: expected.to_vec(), presented: presented.to_vec() }
        }
        Verdict::OutsideWindow { window, occurred_at } => {
            Said::Outside { window: window.0, occurred_at: occurred_at.0 }
        }
        Verdict::Suppressed { replay_run } => Said::Suppressed { run: replay_run },
    }
}

/// `LeaseLost` as `LEASE_LOST`.
pub(crate) fn word(name: &str) -> String {
    let mut word = String::new();
    for (index, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && index > 0 {
            word.push('_');
        }
        word.push(letter.to_ascii_uppercase());
    }
    word
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

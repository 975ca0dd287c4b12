//! Complete, Fail, Release, Renew: the table of docs/contract.md, section 5.

use bytes::Bytes;

use super::backoff::backoff;
use super::body::Body;
use super::command::{FailureKind, Settle};
use super::context::{Context, Decision};
use super::entry::{ClosedBy, Entry, ParkCause, State};
use super::policy::Doubt;
use super::reason::{Reason, Rejection};
use super::replay::Standing;
use super::reply::Reply;
use super::{Key, Span};

pub(super) fn decide(
    key: &Key,
    entry: Option<&Entry>,
    token: i64,
    settle: &Settle,
    context: &Context<'_>,
) -> Decision {
    let entry = match present(key, entry, token, context) {
        Ok(entry) => entry,
        Err(rejection) => return refused(entry, token, settle, rejection),
    };
    match settle {
        Settle::Complete { result, left_out } => complete(entry, result, *left_out, context),
        Settle::Fail { kind, error, retry_after } => fail(entry, *kind, error, *retry_after, context),
        Settle::Release { delay, unpin } => release(entry, *delay, *unpin, context),
        Settle::Renew { lease, effect_started, checkpoint, checkpoint_dropped } => {
            let checkpoint = (checkpoint.as_ref(), *checkpoint_dropped);
            renew(entry, *lease, *effect_started, checkpoint, context)
        }
    }
}

/// Refuses a settlement. A Complete whose claim was superseded also marks its attempt: its holder reports the effect as done,
/// although another claim has the message.
fn refused(entry: Option<&Entry>, token: i64, settle: &Settle, rejection: Rejection) -> Decision {
    let reports = rejection.reason == Reason::LeaseLost && matches!(settle, Settle::Complete { .. });
    let marked = entry.filter(|_| reports).and_then(|entry| entry.reported(token));
    match marked {
        Some(next) => Decision::write(Err(Rejection { doubled: next.doubled, ..rejection }), next),
        None => Decision::read(Err(rejection)),
    }
}

/// The entry, if the token is its latest one.
fn present<'a>(
    key: &Key,
    entry: Option<&'a Entry>,
    token: i64,
    context: &Context<'_>,
) -> Result<&'a Entry, Rejection> {
    // While a run is open, a token may belong to one of the run's claims whose settlement omits the run.
    let forgotten_run = !key.is_of_run() && context.now < context.policy.replays_until;
    // The settlement names a run that does not exist, so the name is mistyped: the token belongs to another
    // key.
    let mistyped_run = key.is_of_run() && context.policy.run == Standing::Unknown;
    let of_another_key = forgotten_run || mistyped_run;
    let clock = context.now.micros().saturating_add(context.token_offset);
    let Some(entry) = entry else {
        let rejection = Rejection::new(
            Reason::EntryNotFound,
            "this key has no entry: it was never claimed, or it was purged or deleted since, or the key was \
             sent without its replay_run",
        );
        // A token this young cannot belong to a purged entry: an insert was lost, or a person deleted the entry.
        let policy = context.policy;
        let shortest = policy.retention.min(policy.failed_retention).min(policy.abandoned_retention);
        let young = token <= clock && token > clock.saturating_sub(shortest.micros());
        return Err(rejection.alerting((young && !of_another_key).then_some(
            "a token younger than any retention has no entry: the database lost commits, or an operator deleted it",
        )));
    };
    if token < entry.token {
        return Err(Rejection::in_state(
            Reason::LeaseLost,
            entry.state,
            "this token is no longer the latest: the key was granted to another claim or changed by an \
             operator; stop, write nothing more, and follow the advice",
        ));
    }
    if token > entry.token {
        let rejection = Rejection::in_state(
            Reason::TokenFromFuture,
            entry.state,
            "this token was never issued for this key: the client mixed up keys, or the key was sent without its \
             replay_run, or the database lost commits",
        );
        return Err(rejection.alerting((token <= clock && !of_another_key).then_some(
            "a token that may have been issued is higher than the entry's: the database lost commits",
        )));
    }
    Ok(entry)
}

fn complete(entry: &Entry, result: &Bytes, left_out: bool, context: &Context<'_>) -> Decision {
    let late = match entry.closed_by {
        ClosedBy::Open => entry.lease_over(context.now),
        ClosedBy::Release
        | ClosedBy::FailRetryable
        | ClosedBy::FailPark
        | ClosedBy::Expiry
        | ClosedBy::OperatorPark => true,
        ClosedBy::Complete => {
            return Decision::read(Ok(Reply::Completed {
                replayed: true,
                late: false,
                result_dropped: entry.result_dropped,
                attempt: entry.attempts,
                doubled: entry.doubled,
            }));
        }
        ClosedBy::FailTerminal => {
            let alert = Some("a holder completes what it had failed for good");
            return Decision::read(Err(closed(entry).alerting(alert)));
        }
        ClosedBy::Operator | ClosedBy::Store => return Decision::read(Err(closed(entry))),
    };
    let mut next = entry.clone();
    if entry.closed_by == ClosedBy::Release {
        next.attempts = entry.attempts.saturating_add(1);
    }
    close(&mut next, State::Completed, ClosedBy::Complete, context);
    next.parked_at = None;
    next.effect_unknown = false;
    // A corrected request must not be answered with the result of this one.
    next.unpinned = false;
    let result_dropped = left_out || !context.policy.stores_result(result.len());
    next.result = if result_dropped { Bytes::new() } else { result.clone() };
    next.result_dropped = result_dropped;
    // The holder of a past attempt has reported the same effect.
    next.doubled |= entry.superseded_completes > 0;
    let (attempt, doubled) = (next.attempts, next.doubled);
    Decision::write(Ok(Reply::Completed { replayed: false, late, result_dropped, attempt, doubled }), next)
}

fn fail(
    entry: &Entry,
    kind: FailureKind,
    error: &str,
    retry_after: Option<Span>,
    context: &Context<'_>,
) -> Decision {
    match (entry.closed_by, kind) {
        (ClosedBy::Open, _) => {}
        (ClosedBy::Release | ClosedBy::FailRetryable, FailureKind::Retryable)
        | (ClosedBy::FailPark, FailureKind::Park)
        | (ClosedBy::FailTerminal, FailureKind::Terminal) => {
            return Decision::read(Ok(failed(entry, true, context)));
        }
        (ClosedBy::Expiry | ClosedBy::OperatorPark, _) => return keep_error(entry, error, context),
        (
            ClosedBy::Complete
            | ClosedBy::Operator
            | ClosedBy::Store
            | ClosedBy::Release
            | ClosedBy::FailRetryable
            | ClosedBy::FailPark
            | ClosedBy::FailTerminal,
            _,
        ) => return Decision::read(Err(closed(entry))),
    }
    let policy = context.policy;
    let mut next = entry.clone();
    error.clone_into(&mut next.last_error);
    match kind {
        // While the policy is in doubt nothing is parked: the next claim decides, by the policy in force then.
        FailureKind::Retryable if policy.exhausted(entry.attempts) && policy.doubt == Doubt::None => {
            close(&mut next, State::Parked(ParkCause::AttemptsExhausted), ClosedBy::FailRetryable, context);
        }
        FailureKind::Retryable => {
            close(&mut next, State::FailedRetryable, ClosedBy::FailRetryable, context);
            next.not_before = context.now + retry_after.unwrap_or_else(|| backoff(policy, entry));
        }
        FailureKind::Terminal => close(&mut next, State::FailedTerminal, ClosedBy::FailTerminal, context),
        FailureKind::Park => {
            close(&mut next, State::Parked(ParkCause::Consumer), ClosedBy::FailPark, context);
        }
    }
    Decision::write(Ok(failed(&next, false, context)), next)
}

/// A claim that was parked before its holder could report the failure: only the error is new.
fn keep_error(entry: &Entry, error: &str, context: &Context<'_>) -> Decision {
    let answer = Ok(failed(entry, true, context));
    if error.is_empty() || entry.last_error == error {
        return Decision::read(answer);
    }
    let mut next = entry.clone();
    error.clone_into(&mut next.last_error);
    Decision::write(answer, next)
}

fn release(entry: &Entry, delay: Span, unpin: bool, context: &Context<'_>) -> Decision {
    match entry.closed_by {
        ClosedBy::Open if entry.effect_started => {
            return Decision::read(Err(Rejection::in_state(
                Reason::EffectStarted,
                entry.state,
                "the effect of this claim has started, so it cannot be given back: Complete or Fail it",
            )));
        }
        ClosedBy::Open => {}
        ClosedBy::Release => {
            // A repeat that asks for more than the first Release changes nothing.
            let (state, unpinned, in_a_row) = (entry.state, entry.unpinned, entry.releases_in_a_row());
            return Decision::read(Ok(Reply::Released { state, replayed: true, unpinned, in_a_row }));
        }
        ClosedBy::Complete
        | ClosedBy::FailRetryable
        | ClosedBy::FailTerminal
        | ClosedBy::FailPark
        | ClosedBy::Expiry
        | ClosedBy::OperatorPark
        | ClosedBy::Operator
        | ClosedBy::Store => return Decision::read(Err(closed(entry))),
    }
    let mut next = entry.clone();
    close(&mut next, State::Received, ClosedBy::Release, context);
    next.attempts = entry.attempts.saturating_sub(1);
    next.not_before = context.now + delay;
    // Only where nothing is left of the request that was given back: no possible effect, no progress, no message.
    next.unpinned = unpin
        && !entry.prior_effect_started
        && !entry.effect_unknown
        && entry.checkpoint.is_empty()
        && entry.body != Some(Body::Kept);
    let (state, unpinned, in_a_row) = (next.state, next.unpinned, next.releases_in_a_row());
    Decision::write(Ok(Reply::Released { state, replayed: false, unpinned, in_a_row }), next)
}

fn renew(
    entry: &Entry,
    lease: Option<Span>,
    effect_started: bool,
    (checkpoint, checkpoint_dropped): (Option<&Bytes>, bool),
    context: &Context<'_>,
) -> Decision {
    if entry.closed_by != ClosedBy::Open {
        return Decision::read(Err(closed(entry)));
    }
    let now = context.now;
    if !entry.hold_left(now) {
        return Decision::read(Err(Rejection::in_state(
            Reason::LeaseLimitReached,
            entry.state,
            "the claim was held for as long as the policy's max_hold allows: finish, or let it go",
        )));
    }
    let revived = entry.lease_over(now);
    let asked = (now + context.policy.granted_lease(lease)).min(entry.hold_until);
    let mut next = entry.clone();
    next.lease_until = entry.lease_until.max(asked);
    next.effect_started |= effect_started;
    if let Some(checkpoint) = checkpoint {
        next.checkpoint = checkpoint.clone();
    }
    let answer = Ok(Reply::Renewed {
        lease: next.lease_until.remaining(now),
        hold: next.hold_until.remaining(now),
        on_expiry: next.on_expiry,
        revived,
        checkpoint_dropped,
    });
    if next == *entry { Decision::read(answer) } else { Decision::write(answer, next) }
}

/// Ends the claim.
fn close(next: &mut Entry, state: State, closed_by: ClosedBy, context: &Context<'_>) {
    next.state = state;
    next.closed_by = closed_by;
    next.closed_at = Some(context.now);
    next.parked_at = matches!(state, State::Parked(_)).then_some(context.now);
}

fn closed(entry: &Entry) -> Rejection {
    Rejection::in_state(
        Reason::ClaimClosed,
        entry.state,
        "the claim with this token has already ended in another way; the first settlement stays",
    )
}

fn failed(entry: &Entry, replayed: bool, context: &Context<'_>) -> Reply {
    let waits = matches!(entry.state, State::Received | State::FailedRetryable);
    Reply::Failed {
        state: entry.state,
        retry_after: waits.then(|| entry.not_before.remaining(context.now)),
        attempts_left: context.policy.attempts_left(entry.attempts),
        replayed,
    }
}

#[cfg(test)]
mod tests;

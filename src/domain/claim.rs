//! Claim: the table of docs/contract.md, section 4, row by row.

use bytes::Bytes;

use super::clock_fault::ClockFault;
use super::command::Claim;
use super::context::{Context, Decision};
use super::entry::{ClosedBy, Entry, ParkCause, State};
use super::policy::{FingerprintMode, OnExpiry};
use super::preconditions::{doubtful, held_back, lacks, refusal_by, without_entry};
use super::reason::{Reason, Rejection};
use super::replay::Standing;
use super::reply::{Reply, Verdict};
use super::{Key, Policy, Span, StoreTime};

pub(super) fn decide(key: &Key, entry: Option<&Entry>, claim: &Claim, context: &Context<'_>) -> Decision {
    if let Some(answer) = without_entry(key, claim, context.policy, context.now) {
        return Decision::read(answer);
    }
    let Some(entry) = entry else {
        return absent(key, claim, context);
    };
    if mismatch(entry, &claim.fingerprint, context.policy) {
        return verdict(Verdict::FingerprintMismatch {
            expected: entry.fingerprint.clone(),
            presented: claim.fingerprint.clone(),
        });
    }
    match entry.state {
        State::Completed => verdict(completed(entry, Some(claim), context)),
        State::FailedTerminal => verdict(failed(entry)),
        State::Parked(cause) => verdict(parked(entry, cause, false)),
        State::Received | State::FailedRetryable => claimable(entry, claim, context),
        State::InProgress => in_progress(entry, claim, context),
    }
}

fn verdict(verdict: Verdict) -> Decision {
    Decision::read(Ok(Reply::Verdict(verdict)))
}

/// Whether this fingerprint is another one than the pinned one.
pub(super) fn mismatch(entry: &Entry, presented: &Bytes, policy: &Policy) -> bool {
    policy.fingerprint != FingerprintMode::Ignore
        && !entry.unpinned
        && !entry.fingerprint.is_empty()
        && !presented.is_empty()
        && entry.fingerprint != *presented
}

/// How much of the past a message without an entry may be of, if it is older than that.
pub(super) fn outside_window(
    occurred_at: Option<StoreTime>,
    context: &Context<'_>,
) -> Option<(Span, StoreTime)> {
    let occurred_at = occurred_at?;
    let window_start = (context.now - context.policy.retention).max(context.policy.window_floor);
    (occurred_at <= window_start).then(|| (context.now - window_start, occurred_at))
}

/// No entry: the message is new, unless it is so old that its entry may have been purged.
fn absent(key: &Key, claim: &Claim, context: &Context<'_>) -> Decision {
    let policy = context.policy;
    let mut blank = Entry::blank(key, policy, context.now);
    // The window is a rule of the policy as well: while the policy is in doubt, the window is unknown.
    if let Some(reason) = doubtful(policy) {
        return not_granted(&blank, policy, reason);
    }
    // By a clock that has jumped ahead, every message would be outside the window.
    if context.clock_ahead {
        return not_granted_by(&blank, ClockFault::Ahead);
    }
    // A run replays messages that may be older than every retention: a run deduplicates in its own namespace,
    // without a window.
    let occurred_at = claim.occurred_at.filter(|_| policy.run == Standing::Live);
    if let Some((window, occurred_at)) = outside_window(occurred_at, context) {
        return verdict(Verdict::OutsideWindow { window, occurred_at });
    }
    claim.traceparent.clone_into(&mut blank.traceparent);
    grant(&blank, claim, context)
}

fn claimable(entry: &Entry, claim: &Claim, context: &Context<'_>) -> Decision {
    let closed_by_holder = matches!(entry.closed_by, ClosedBy::Release | ClosedBy::FailRetryable);
    if closed_by_holder && entry.is_claim_of(&claim.claimant) {
        return closed(entry);
    }
    match backoff(entry, context) {
        Some(waits) => verdict(waits),
        None => grant(entry, claim, context),
    }
}

/// `Backoff` while the next attempt is not due yet; `None` if it is due.
pub(super) fn backoff(entry: &Entry, context: &Context<'_>) -> Option<Verdict> {
    (context.now < entry.not_before).then(|| Verdict::Backoff {
        attempts_left: context.policy.attempts_left(entry.attempts),
        last_error: entry.last_error.clone(),
        retry_after: entry.not_before.remaining(context.now),
    })
}

fn in_progress(entry: &Entry, claim: &Claim, context: &Context<'_>) -> Decision {
    let now = context.now;
    if entry.is_claim_of(&claim.claimant) {
        if entry.effect_started {
            return closed(entry);
        }
        if !entry.lease_over(now) {
            return Decision::read(Ok(Reply::Verdict(acquired(entry, Grant::Replayed, context))));
        }
        if entry.hold_left(now) && !entry.rearmed {
            return rearm(entry, claim, context);
        }
        return closed(entry);
    }
    if !entry.expired(now) {
        return verdict(held(entry, context));
    }
    let parks = match entry.on_expiry {
        OnExpiry::Reclaim => false,
        OnExpiry::Park => true,
        OnExpiry::ParkIfStarted => entry.effect_started,
    };
    if !parks {
        let mut expired = entry.clone();
        expired.effect_unknown = true;
        return grant(&expired, claim, context);
    }
    if let Some(reason) = held_back(context.policy, context.now) {
        return not_granted(entry, context.policy, reason);
    }
    if context.clock_ahead {
        return not_granted_by(entry, ClockFault::Ahead);
    }
    let cause = if entry.effect_started { ParkCause::EffectUnknown } else { ParkCause::LeaseExpired };
    park(entry, cause, context)
}

/// A claim holds the key.
pub(super) fn held(entry: &Entry, context: &Context<'_>) -> Verdict {
    Verdict::InProgress {
        owner: entry.claimant.as_ref().map(|claimant| claimant.owner.clone()).unwrap_or_default(),
        attempt: entry.attempts,
        lease: entry.lease_until.remaining(context.now),
        retry_after: (entry.lease_until + entry.grace).remaining(context.now),
    }
}

/// The same claim is repeated after its lease and before any other claim: it gets the lease back, one time.
fn rearm(entry: &Entry, claim: &Claim, context: &Context<'_>) -> Decision {
    let mut next = entry.clone();
    next.rearmed = true;
    next.lease_until = (context.now + context.policy.granted_lease(claim.lease)).min(entry.hold_until);
    let answer = acquired(&next, Grant::Replayed, context);
    Decision::write(Ok(Reply::Verdict(answer)), next)
}

/// Grants the claim; where no attempt is left, parks the entry instead.
fn grant(entry: &Entry, claim: &Claim, context: &Context<'_>) -> Decision {
    let policy = context.policy;
    if let Some(reason) = held_back(policy, context.now) {
        return not_granted(entry, policy, reason);
    }
    if context.clock_ahead {
        return not_granted_by(entry, ClockFault::Ahead);
    }
    if policy.exhausted(entry.attempts) {
        return park(entry, ParkCause::AttemptsExhausted, context);
    }
    if let Some(fault) = ClockFault::behind(context) {
        return not_granted_by(entry, fault);
    }
    if context.tokens_are_used_up(entry.token) {
        return not_granted(entry, policy, Reason::EntryUnreadable);
    }
    let now = context.now;
    let mut next = entry.clone();
    next.remember(now);
    next.token = context.next_token(entry.token);
    next.state = State::InProgress;
    next.closed_by = ClosedBy::Open;
    next.closed_at = None;
    next.parked_at = None;
    next.claimant = Some(claim.claimant.clone());
    next.granted_at = now;
    next.hold_until = now + policy.max_hold;
    next.lease_until = (now + policy.granted_lease(claim.lease)).min(next.hold_until);
    next.grace = policy.reclaim_grace;
    next.on_expiry = policy.on_expiry;
    next.policy_version = policy.version;
    next.retention = policy.retention;
    next.failed_retention = policy.failed_retention;
    next.abandoned_retention = policy.abandoned_retention;
    next.rearmed = false;
    next.prior_effect_started |= entry.effect_started;
    next.effect_started = false;
    next.attempts = entry.attempts.saturating_add(1);
    if next.unpinned {
        next.fingerprint = Bytes::new();
        next.unpinned = false;
    }
    if policy.fingerprint != FingerprintMode::Ignore && next.fingerprint.is_empty() {
        next.fingerprint = claim.fingerprint.clone();
    }
    let expired = entry.state == State::InProgress;
    let answer = acquired(&next, if expired { Grant::Reclaimed } else { Grant::New }, context);
    Decision::grant(Ok(Reply::Verdict(answer)), next)
}

/// Parks an entry in place of granting a claim. An open claim ends as expired; its token stays valid, so that
/// its holder's Complete still counts.
fn park(entry: &Entry, cause: ParkCause, context: &Context<'_>) -> Decision {
    let mut next = entry.clone();
    if next.closed_by == ClosedBy::Open {
        next.closed_by = ClosedBy::Expiry;
        next.closed_at = Some(context.now);
        next.effect_unknown = true;
    }
    next.state = State::Parked(cause);
    next.parked_at = Some(context.now);
    Decision::grant(Ok(Reply::Verdict(parked(&next, cause, true))), next)
}

fn closed(entry: &Entry) -> Decision {
    Decision::read(Err(Rejection::in_state(
        Reason::ClaimClosed,
        entry.state,
        "the claim with this claim_id has ended: this is a delayed repeat; a new delivery uses a new claim_id",
    )))
}

/// The refusal while nothing may be granted. A key without an entry has no state to report.
fn not_granted(entry: &Entry, policy: &Policy, reason: Reason) -> Decision {
    refused(entry, refusal_by(policy, reason))
}

/// The refusal while nothing may be granted because the store's clock has this fault.
fn not_granted_by(entry: &Entry, fault: ClockFault) -> Decision {
    refused(entry, fault.refusal())
}

fn refused(entry: &Entry, rejection: Rejection) -> Decision {
    let state = (entry.version > 0).then_some(entry.state);
    Decision::read(Err(Rejection { state, ..rejection }))
}

/// What an `acquired` verdict stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grant {
    New,
    /// Granted in place of a claim that expired.
    Reclaimed,
    /// Repeated: it was granted to the same claim before.
    Replayed,
}

fn acquired(entry: &Entry, grant: Grant, context: &Context<'_>) -> Verdict {
    Verdict::Acquired {
        token: entry.token,
        attempt: entry.attempts,
        lease: entry.lease_until.remaining(context.now),
        hold: entry.hold_until.remaining(context.now),
        on_expiry: entry.on_expiry,
        replayed: grant == Grant::Replayed,
        reclaimed: grant == Grant::Reclaimed,
        effect_unknown: entry.effect_unknown,
        prior_effect_started: entry.prior_effect_started,
        idempotency_key: entry.key.idempotency_key(),
        checkpoint: entry.checkpoint.clone(),
        last_error: entry.last_error.clone(),
        attempts_left: context.policy.attempts_left(entry.attempts),
    }
}

/// The verdict on a completed message, for this claim or, without a claim, for a Lookup.
pub(super) fn completed(entry: &Entry, claim: Option<&Claim>, context: &Context<'_>) -> Verdict {
    let presented = claim.is_some_and(|claim| !claim.fingerprint.is_empty());
    let completed_at = entry.closed_at.unwrap_or(entry.updated_at);
    // By a clock that has jumped ahead, every result seems to have expired.
    let result_expired = !context.clock_ahead
        && !entry.result.is_empty()
        && completed_at + context.policy.result_retention <= context.now;
    let compared =
        context.policy.fingerprint != FingerprintMode::Ignore && !entry.fingerprint.is_empty() && presented;
    let any = !entry.fingerprint.is_empty() || presented;
    Verdict::Completed {
        result: if result_expired { Bytes::new() } else { entry.result.clone() },
        result_expired,
        result_dropped: entry.result_dropped,
        completed_at,
        attempt: entry.attempts,
        by_this_claim: claim.is_some_and(|claim| entry.is_claim_of(&claim.claimant)),
        fingerprint_unverified: any && !compared,
    }
}

/// The verdict on a message that the consumer or an operator gave up.
pub(super) fn failed(entry: &Entry) -> Verdict {
    Verdict::Failed {
        error: entry.last_error.clone(),
        failed_at: entry.closed_at.unwrap_or(entry.updated_at),
    }
}

/// The verdict on a message that waits for a person; `newly` if this claim parked it.
pub(super) fn parked(entry: &Entry, cause: ParkCause, newly: bool) -> Verdict {
    Verdict::Parked {
        cause,
        error: entry.last_error.clone(),
        parked_at: entry.parked_at.unwrap_or(entry.updated_at),
        newly,
    }
}

/// The last instant at which a claim that finds no entry is still inside the window, or its run still open.
#[must_use]
pub(super) fn inside_until(claim: &Claim, policy: &Policy) -> StoreTime {
    if policy.run != Standing::Live {
        return policy.run.grants_until();
    }
    inside_window_until(claim.occurred_at, policy)
}

/// The last instant at which a message of this age that has no entry is inside the window.
pub(super) fn inside_window_until(occurred_at: Option<StoreTime>, policy: &Policy) -> StoreTime {
    occurred_at.map_or(StoreTime::MAX, |occurred_at| occurred_at + policy.retention - Span(1))
}

/// Whether a claim may be inserted optimistically, without loading its entry first: nothing but an entry or
/// the store's clock could then give another verdict than `acquired`. `now` is a recent reading of that
/// clock; `None` means that the window is not known. The insert itself compares with the store's clock again
/// (`inside_until`); the margin keeps that comparison from failing the insert, and with it every other row
/// of the same statement.
#[must_use]
pub fn guessable(claim: &Claim, policy: &Policy, now: Option<StoreTime>) -> bool {
    const MARGIN: Span = Span::from_secs(3_600);
    let inside = match (claim.occurred_at, now) {
        // Near its end, a run is compared with the store's own clock.
        _ if policy.run != Standing::Live => now.is_some_and(|now| now + MARGIN < policy.run.grants_until()),
        (None, _) => true,
        (Some(_), None) => false,
        (Some(occurred_at), Some(now)) => {
            occurred_at > now - policy.retention + MARGIN && occurred_at > policy.window_floor
        }
    };
    inside
        && lacks(&claim.fingerprint, claim.occurred_at, policy).is_none()
        && held_back(policy, now.unwrap_or_default()).is_none()
}

#[cfg(test)]
pub(super) mod tests;

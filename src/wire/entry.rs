//! An entry as operators see it.

use uuid::Uuid;

use super::words::{cause, closed_by, duration, key, shown, state, timestamp};
use crate::domain::{
    AllowedChange, Attempt, Body, ChangeKind, Claimant, Entry, Reading, State, allowed_changes,
};
use crate::proto;

/// An entry as operators see it: without token and `claim_id`.
pub(crate) fn entry(entry: Entry, reading: &Reading) -> proto::Entry {
    let expired = entry.expired(reading.now);
    let (effect_doubtful, due_at) = (entry.effect_doubtful(), entry.next_at());
    let allowed_changes = allowed_changes(&entry, reading).into_iter().map(allowed).collect();
    let waits = matches!(entry.state, State::Received | State::FailedRetryable);
    let claimant = entry.claimant.unwrap_or(Claimant {
        claim_id: Uuid::nil(),
        principal: String::new(),
        owner: String::new(),
    });
    proto::Entry {
        key: Some(key(&entry.key)),
        state: state(entry.state).into(),
        cause: cause(entry.state).into(),
        closed_by: closed_by(entry.closed_by).into(),
        expired,
        version: entry.version,
        attempts: entry.attempts,
        owner: claimant.owner,
        principal: claimant.principal,
        granted_at: Some(shown(entry.granted_at)),
        lease_until: Some(shown(entry.lease_until)),
        hold_until: Some(shown(entry.hold_until)),
        not_before: waits.then(|| shown(entry.not_before)),
        closed_at: entry.closed_at.map(shown),
        parked_at: entry.parked_at.map(shown),
        last_error: entry.last_error,
        effect_started: entry.effect_started,
        prior_effect_started: entry.prior_effect_started,
        effect_unknown: entry.effect_unknown,
        history: entry.history.into_iter().map(attempt).collect(),
        fingerprint: entry.fingerprint,
        fingerprint_unpinned: entry.unpinned,
        result_bytes: i32::try_from(entry.result.len()).unwrap_or(i32::MAX),
        result_dropped: entry.result_dropped,
        checkpoint_bytes: i32::try_from(entry.checkpoint.len()).unwrap_or(i32::MAX),
        retain_until: entry.retain_until.map(shown),
        created_at: Some(shown(entry.created_at)),
        updated_at: Some(shown(entry.updated_at)),
        policy_version: entry.policy_version,
        retention: Some(duration(entry.retention)),
        traceparent: entry.traceparent,
        effect_doubtful,
        allowed_changes,
        superseded_completes: entry.superseded_completes,
        doubled: entry.doubled,
        message_state: message_state(entry.body).into(),
        due_at: due_at.map(shown),
        erase_at: entry.erase_at.map(shown),
    }
}

fn message_state(body: Option<Body>) -> proto::MessageState {
    match body {
        None => proto::MessageState::Unspecified,
        Some(Body::Kept) => proto::MessageState::Kept,
        Some(Body::Erased) => proto::MessageState::Erased,
    }
}

fn allowed(allowed: AllowedChange) -> proto::AllowedChange {
    let change = match allowed.kind {
        ChangeKind::Redrive => proto::EntryChange::Redrive,
        ChangeKind::Resolve => proto::EntryChange::Resolve,
        ChangeKind::Park => proto::EntryChange::Park,
        ChangeKind::Delete => proto::EntryChange::Delete,
    };
    proto::AllowedChange { change: change.into(), needs_force: allowed.needs_force }
}

fn attempt(attempt: Attempt) -> proto::Attempt {
    proto::Attempt {
        attempt: attempt.attempt,
        started_at: Some(timestamp(attempt.started_at)),
        ended_at: Some(timestamp(attempt.ended_at)),
        owner: attempt.owner,
        outcome: closed_by(attempt.outcome).into(),
        error: attempt.error,
        reported_done: attempt.reported_done,
    }
}

//! An operator's change of one entry. It and its audit event are written together, or not at all.

use super::retry::{Before, JobResult};
use crate::domain::{
    Action, AuditEvent, Change, Changed, Context, Entry, Key, Reading, Rejection, RequestDigest, Resolution,
    audit_action, operate,
};
use crate::ledger::compare_and_set::{ROUNDS_MAX, contended, done};
use crate::ledger::policies::in_force::PoliciesInForce;
use crate::ledger::refusals::{lost, used_before};
use crate::store::{Session, StoreError, Write};

/// An operator's request.
#[derive(Clone, Debug)]
pub struct ChangeRequest {
    /// The operator's id of the request, among those of the key's consumer; its repeats change nothing.
    pub request_id: String,
    /// The digest of the whole request: a repeat has the same one.
    pub digest: RequestDigest,
    /// The operator, as authenticated.
    pub actor: String,
    /// The operator's reason.
    pub reason: String,
    /// How the operator knows; empty: not stated.
    pub evidence: String,
    /// The entry.
    pub key: Key,
    /// The change.
    pub change: Change,
}

impl ChangeRequest {
    /// What the audit records of the order next to its result.
    fn kept(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut kept = serde_json::Map::new();
        kept.insert("force".into(), self.change.force.into());
        kept.insert("evidence".into(), self.evidence.as_str().into());
        if let Action::Redrive { drop_fingerprint, .. } = self.change.action {
            kept.insert("drop_fingerprint".into(), drop_fingerprint.into());
        }
        kept
    }
}

/// The result of a change.
#[derive(Clone, Debug)]
pub struct ChangeResult {
    /// The store's clock.
    pub reading: Reading,
    /// The entry afterwards; `None` if it is deleted.
    pub entry: Option<Entry>,
    /// The request had been carried out before.
    pub replayed: bool,
}

/// The compare-and-set loop: looks, decides and writes, until no other writer intervened.
pub(super) async fn change(
    session: &mut dyn Session,
    policies: &PoliciesInForce,
    order: &ChangeRequest,
    before: Before,
) -> JobResult<ChangeResult> {
    for _ in 0..ROUNDS_MAX {
        let done_before = session.operators().audited(order.key.consumer(), &order.request_id).await;
        if let Some(event) = done_before.map_err(StoreError::nothing_sent)? {
            return replay(session, order, &event, before).await.map_err(StoreError::nothing_sent);
        }
        let (reading, entry) = match look(session, &order.key).await.map_err(StoreError::nothing_sent)? {
            Ok(found) => found,
            Err(rejection) => return Ok(Err(rejection)),
        };
        let policy = policies.of(order.key.consumer());
        let mut context = Context::at(&reading, &policy, 1);
        if entry.is_none() {
            context = context.timeless();
        }
        let changed = match operate(&order.key, entry.as_ref(), &order.change, &context) {
            Ok(changed) => changed,
            Err(rejection) => return Ok(Err(rejection)),
        };
        let event = event(order, &reading, entry.as_ref(), &changed);
        let write = match (changed, &entry) {
            (Changed::Entry(next), Some(_)) => Write::Replace(next),
            (Changed::Entry(next), None) => Write::Insert(next),
            (Changed::Gone, _) => {
                Write::Delete(order.key.hash(), entry.as_ref().map_or(0, |entry| entry.version))
            }
        };
        if done(session.operators().change(&write, &event)).await? {
            tracing::info!(
                action = event.action,
                request_id = event.request_id,
                actor = event.actor,
                consumer = event.consumer,
                "an operator changed an entry"
            );
            // The change is written: an error from here on must be `Unknown`. The caller would take a refusal
            // to mean that nothing was changed.
            return match look(session, &order.key).await {
                Ok(Ok((reading, entry))) => Ok(Ok(ChangeResult { reading, entry, replayed: false })),
                Ok(Err(_)) => Ok(Err(lost())),
                Err(error) => Err(StoreError::Unknown(error.to_string())),
            };
        }
    }
    Ok(Err(contended("callers", "change this entry")))
}

async fn look(
    session: &mut dyn Session,
    key: &Key,
) -> Result<Result<(Reading, Option<Entry>), Rejection>, StoreError> {
    let mut loaded = session.entries().load(std::slice::from_ref(key)).await?;
    let entry = loaded.found.pop().map_or(Ok(None), |found| found.into_entry(key.hash()));
    Ok(entry.map(|entry| (loaded.reading, entry)))
}

/// Answers a request that was carried out before: returns its entry as it is now.
async fn replay(
    session: &mut dyn Session,
    order: &ChangeRequest,
    event: &AuditEvent,
    before: Before,
) -> JobResult<ChangeResult> {
    if !event.is_of(&order.digest) {
        return Ok(Err(used_before("request_id")));
    }
    let replayed = before == Before::NotSent;
    Ok(look(session, &order.key).await?.map(|(reading, entry)| ChangeResult { reading, entry, replayed }))
}

fn event(order: &ChangeRequest, reading: &Reading, before: Option<&Entry>, changed: &Changed) -> AuditEvent {
    let after = match changed {
        Changed::Entry(next) => summary(next, Some(order)),
        // The entry is absent; whether force was needed is checked later.
        Changed::Gone => serde_json::Value::from(order.kept()).to_string(),
    };
    AuditEvent {
        request_id: order.request_id.clone(),
        at: reading.now,
        actor: order.actor.clone(),
        action: action_word(&order.change.action).to_owned(),
        consumer: order.key.consumer().to_owned(),
        key: Some(order.key.hash()),
        reason: order.reason.clone(),
        before: before.map(|entry| summary(entry, None)),
        after: Some(after),
        digest: Some(order.digest),
    }
}

/// The action's name in the audit.
pub(super) fn action_word(action: &Action) -> &'static str {
    match action {
        Action::Redrive { .. } => audit_action::REDRIVE,
        Action::Park => audit_action::PARK,
        Action::Resolve(Resolution::Completed { .. }) => audit_action::RESOLVE_COMPLETED,
        Action::Resolve(Resolution::FailedTerminal { .. }) => audit_action::RESOLVE_FAILED_TERMINAL,
        Action::Resolve(Resolution::Received) => audit_action::RESOLVE_RECEIVED,
        Action::Delete => audit_action::DELETE,
    }
}

/// What the audit records of an entry: no payload, no token, and no name that an erasure must remove.
fn summary(entry: &Entry, order: Option<&ChangeRequest>) -> String {
    let mut summary = summary_of(entry);
    if let (Some(order), Some(map)) = (order, summary.as_object_mut()) {
        map.extend(order.kept());
    }
    summary.to_string()
}

/// What the audit records of an entry, whatever was ordered.
pub(super) fn summary_of(entry: &Entry) -> serde_json::Value {
    let (state, cause) = entry.state.words();
    serde_json::json!({
        "state": state,
        "cause": cause,
        // A new entry gets its version with its insert, after its event.
        "version": (entry.version > 0).then_some(entry.version),
        "attempts": entry.attempts,
        "effect_started": entry.effect_started,
        "prior_effect_started": entry.prior_effect_started,
        "effect_unknown": entry.effect_unknown,
    })
}

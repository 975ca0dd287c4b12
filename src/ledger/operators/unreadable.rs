//! Deleting an entry that cannot be read, by the hash of its key: audited and idempotent.

use super::retry::{Before, JobResult};
use crate::domain::{
    AuditEvent, KeyHash, Reading, Reason, Rejection, RequestDigest, UnreadableEntry, audit_action,
    delete_unreadable,
};
use crate::ledger::compare_and_set::{ROUNDS_MAX, contended, done};
use crate::ledger::refusals::used_before;
use crate::store::{Found, Session, StoreError, Write};

/// The consumer of such an entry cannot be known for certain: the ids of these requests are those of all consumers.
const CONSUMER: &str = "";

/// An operator's request.
#[derive(Clone, Debug)]
pub struct DeleteUnreadable {
    /// The operator's own id of the request, among those that concern all consumers; its repeats change nothing.
    pub request_id: String,
    /// The digest of the whole request: a repeat has the same one.
    pub digest: RequestDigest,
    /// The operator, as authenticated.
    pub actor: String,
    /// The operator's reason.
    pub reason: String,
    /// The hash of the entry's key.
    pub key: KeyHash,
    /// The operator accepts the danger.
    pub force: bool,
}

/// Returns whether the request had been carried out before.
pub(super) async fn delete(
    session: &mut dyn Session,
    order: &DeleteUnreadable,
    before: Before,
) -> JobResult<bool> {
    for _ in 0..ROUNDS_MAX {
        let made = session.operators().audited(CONSUMER, &order.request_id).await;
        if let Some(event) = made.map_err(StoreError::nothing_sent)? {
            let replayed = before == Before::NotSent;
            return Ok(if event.is_of(&order.digest) {
                Ok(replayed)
            } else {
                Err(used_before("request_id"))
            });
        }
        let found = session.operators().load_by_hash(order.key).await;
        let (reading, found) = found.map_err(StoreError::nothing_sent)?;
        let entry = match unreadable(found) {
            Ok(entry) => entry,
            Err(rejection) => return Ok(Err(rejection)),
        };
        if let Err(rejection) = delete_unreadable(&entry, order.force, &reading) {
            return Ok(Err(rejection));
        }
        let event = event(order, &reading, &entry);
        let write = Write::DeleteUnreadable(order.key, entry.version);
        if done(session.operators().change(&write, &event)).await? {
            tracing::warn!(
                problem = entry.problem,
                request_id = event.request_id,
                actor = event.actor,
                "an operator deleted an entry that cannot be read"
            );
            return Ok(Ok(false));
        }
    }
    Ok(Err(contended("callers", "change this entry")))
}

/// The entry that may be deleted by its hash: one that cannot be read.
fn unreadable(found: Found) -> Result<UnreadableEntry, Rejection> {
    match found {
        Found::Unreadable(entry) => Ok(entry),
        Found::Absent => Err(Rejection::new(Reason::EntryNotFound, "no entry has a key with this hash")),
        Found::Entry(_) | Found::Collision => Err(Rejection::new(
            Reason::StateNotAllowed,
            "this entry can be read; nothing was changed: look at it by its hash, and delete it by its key",
        )),
    }
}

fn event(order: &DeleteUnreadable, reading: &Reading, entry: &UnreadableEntry) -> AuditEvent {
    let before = serde_json::json!({ "unreadable": entry.column, "version": entry.version });
    AuditEvent {
        request_id: order.request_id.clone(),
        at: reading.now,
        actor: order.actor.clone(),
        action: audit_action::DELETE.to_owned(),
        consumer: CONSUMER.to_owned(),
        key: Some(order.key),
        reason: order.reason.clone(),
        before: Some(before.to_string()),
        after: Some(serde_json::json!({ "force": order.force, "evidence": "" }).to_string()),
        digest: Some(order.digest),
    }
}

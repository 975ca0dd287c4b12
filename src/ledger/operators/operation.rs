//! The start of an operation on many entries: recorded once, so that each later call goes on from there.

use super::change::action_word;
use super::retry::JobResult;
use crate::domain::{Action, AuditEvent, RequestDigest, StoreTime, audit_action};
use crate::ledger::compare_and_set::{ROUNDS_MAX, contended, done};
use crate::ledger::refusals::used_before;
use crate::store::{Session, StoreError, Write};

/// The audit's name of an operation on many entries; each of the entries has a separate event.
fn name(action: &Action) -> &'static str {
    match action {
        Action::Redrive { .. } => audit_action::REDRIVE_ENTRIES,
        Action::Park => audit_action::PARK_ENTRIES,
        Action::Resolve(_) => audit_action::RESOLVE_ENTRIES,
        // No RPC deletes many entries.
        Action::Delete => audit_action::DELETE,
    }
}

/// An operation on many entries, to be begun or continued.
#[derive(Clone, Debug)]
pub(super) struct StartOperation {
    /// The operator's id of the operation, among those of the consumer.
    pub(super) operation_id: String,
    /// The digest of what all calls of the operation have in common.
    pub(super) digest: RequestDigest,
    /// The operator, as authenticated.
    pub(super) actor: String,
    /// The operator's reason.
    pub(super) reason: String,
    /// The consumer.
    pub(super) consumer: String,
    /// The change of each entry.
    pub(super) action: Action,
    /// The request, for the audit.
    pub(super) asked: String,
}

/// An operation that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    /// When it began, by the store's clock.
    pub(super) at: StoreTime,
    /// Number of entries that it has changed so far.
    pub(super) done: i64,
}

/// Records that an operation begins, or finds that it has begun.
pub(super) async fn begin(session: &mut dyn Session, order: &StartOperation) -> JobResult<Operation> {
    for _ in 0..ROUNDS_MAX {
        let event = session.operators().audited(&order.consumer, &order.operation_id).await;
        if let Some(event) = event.map_err(StoreError::nothing_sent)? {
            if !event.is_of(&order.digest) {
                return Ok(Err(used_before("operation_id")));
            }
            let done = session
                .operators()
                .count_changed(&order.consumer, &order.operation_id, action_word(&order.action))
                .await;
            let done = done.map_err(StoreError::nothing_sent)?;
            return Ok(Ok(Operation { at: event.at, done }));
        }
        let reading = session.entries().load(&[]).await.map_err(StoreError::nothing_sent)?.reading;
        let event = AuditEvent {
            request_id: order.operation_id.clone(),
            at: reading.now,
            actor: order.actor.clone(),
            action: name(&order.action).to_owned(),
            consumer: order.consumer.clone(),
            key: None,
            reason: order.reason.clone(),
            before: None,
            after: Some(order.asked.clone()),
            digest: Some(order.digest),
        };
        if done(session.operators().change(&Write::Nothing, &event)).await? {
            return Ok(Ok(Operation { at: reading.now, done: 0 }));
        }
    }
    Ok(Err(contended("callers", "begin this operation")))
}

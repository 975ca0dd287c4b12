//! The beginning of an operation on many entries: written down once, so that each later call goes on from there.

use super::tries::Tried;
use crate::domain::{AuditEvent, RequestDigest, StoreTime};
use crate::ledger::refusals::used_before;
use crate::ledger::rounds::{ROUNDS_MAX, contended, done};
use crate::store::{Session, StoreError, Write};

/// The name in the audit of an operation on many entries; each of them has its own event besides.
const REDRIVE_ENTRIES: &str = "REDRIVE_ENTRIES";

/// An operation on many entries, about to begin or to go on.
#[derive(Clone, Debug)]
pub(super) struct StartOperation {
    /// The operator's id of the operation, among those of the consumer.
    pub(super) operation_id: String,
    /// The digest of what is the same in each call of the operation.
    pub(super) digest: RequestDigest,
    /// Who, as authenticated.
    pub(super) actor: String,
    /// Why.
    pub(super) reason: String,
    /// The consumer.
    pub(super) consumer: String,
    /// What was asked for, for the audit.
    pub(super) asked: String,
}

/// An operation that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    /// When, by the store's clock.
    pub(super) at: StoreTime,
    /// How many entries it has changed by now.
    pub(super) done: i64,
}

/// Writes down that an operation begins, or finds that it has.
pub(super) async fn begin(session: &mut dyn Session, order: &StartOperation) -> Tried<Operation> {
    for _ in 0..ROUNDS_MAX {
        let event = session.operators().audited(&order.consumer, &order.operation_id).await;
        if let Some(event) = event.map_err(StoreError::nothing_sent)? {
            if !event.is_of(&order.digest) {
                return Ok(Err(used_before("operation_id")));
            }
            let done = session.operators().count_redriven(&order.consumer, &order.operation_id).await;
            let done = done.map_err(StoreError::nothing_sent)?;
            return Ok(Ok(Operation { at: event.at, done }));
        }
        let reading = session.entries().load(&[]).await.map_err(StoreError::nothing_sent)?.reading;
        let event = AuditEvent {
            request_id: order.operation_id.clone(),
            at: reading.now,
            actor: order.actor.clone(),
            action: REDRIVE_ENTRIES.to_owned(),
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

//! The audit, and the transactions that write an audit event together with the change that it records.

use sqlx::Executor as _;

use super::errors::of_sqlx;
use super::{PgSession, column};
use crate::domain::AuditEvent;
use crate::store::{StoreError, WriteResult};

pub(super) const AUDIT_ADD: &str = "\
-- ledger.audit_add
INSERT INTO ledger.audit (request_id, at, actor, action, consumer, key, reason, before, after, digest)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::text[], $8::text[],
    $9::text[], $10::bytea[])
ON CONFLICT (request_id) DO NOTHING";

/// Finds an event by the current form of its id, or by the form from before request ids belonged to consumers.
pub(super) const AUDITED: &str = "\
-- ledger.audited
SELECT request_id, at, actor, action, consumer, key, reason, before, after, digest
FROM ledger.audit WHERE request_id IN ($1, $2) AND consumer = $3";

/// Counts the events of the entries that an operation changed. In their ids, the prefix is followed by the 32 digits of a hash,
/// all of which sort below the tilde.
pub(super) const COUNT_CHANGED: &str = "\
-- ledger.count_changed
SELECT count(*) FROM ledger.audit
WHERE request_id > $1 AND request_id < $1 || '~'
  AND action = $2 AND length(request_id) = length($1) + 32";

/// Reads one digest for each prefix: that of any part of the operation.
pub(super) const PART_DIGESTS: &str = "\
-- ledger.part_digests
SELECT part.digest
FROM unnest($1::text[]) AS operation(prefix) CROSS JOIN LATERAL (
    SELECT digest FROM ledger.audit
    WHERE request_id > operation.prefix AND request_id < operation.prefix || '~'
    ORDER BY request_id LIMIT 1) AS part";

/// Reads the digests of events by their stored ids.
pub(super) const EVENT_DIGESTS: &str = "\
-- ledger.event_digests
SELECT request_id, digest FROM ledger.audit WHERE request_id = ANY($1)";

pub(super) const AUDIT: &str = "\
-- ledger.audit
SELECT request_id, at, actor, action, consumer, key, reason, before, after, digest
FROM ledger.audit WHERE (at, request_id) < ($1, $2)
ORDER BY at DESC, request_id DESC LIMIT $3";

pub(super) const AUDIT_OF_CONSUMER: &str = "\
-- ledger.audit_of_consumer
SELECT request_id, at, actor, action, consumer, key, reason, before, after, digest
FROM ledger.audit WHERE consumer = $4 AND (at, request_id) < ($1, $2)
ORDER BY at DESC, request_id DESC LIMIT $3";

/// The event with the id of the operation, and those of its parts, whose ids follow a slash. As one range the query would walk
/// the events of other operations, whose ids lie between the two: `fix-2` sorts after `fix` and before `fix/`.
pub(super) const AUDIT_OF_OPERATION: &str = "\
-- ledger.audit_of_operation
SELECT request_id, at, actor, action, consumer, key, reason, before, after, digest FROM (
    SELECT * FROM (
        SELECT request_id, at, actor, action, consumer, key, reason, before, after, digest
        FROM ledger.audit WHERE request_id > $4 || '/' AND request_id < $4 || '/~' AND request_id < $2 AND at <= $1
        ORDER BY request_id DESC LIMIT $3) AS parts
    UNION ALL
    SELECT request_id, at, actor, action, consumer, key, reason, before, after, digest
    FROM ledger.audit WHERE request_id = $4 AND request_id < $2 AND at <= $1
) AS of_operation
ORDER BY request_id DESC LIMIT $3";

pub(super) const AUDIT_OF_ENTRY: &str = "\
-- ledger.audit_of_entry
SELECT request_id, at, actor, action, consumer, key, reason, before, after, digest
FROM ledger.audit WHERE key = $4 AND (at, request_id) < ($1, $2)
ORDER BY at DESC, request_id DESC LIMIT $3";

impl PgSession {
    /// Inserts the event; returns whether the request id is new. This comes first in the transaction, so that a repeat waits
    /// here for the request that it repeats.
    pub(super) async fn add_event(&mut self, event: &AuditEvent) -> Result<bool, StoreError> {
        self.add_events(std::slice::from_ref(event)).await
    }

    /// Inserts the events of one request: either all of them are new, or none is inserted.
    pub(super) async fn add_events(&mut self, events: &[AuditEvent]) -> Result<bool, StoreError> {
        let query = self
            .query(AUDIT_ADD)
            .bind(column(events, AuditEvent::stored_id))
            .bind(column(events, |event| event.at.micros()))
            .bind(column(events, |event| event.actor.clone()))
            .bind(column(events, |event| event.action.clone()))
            .bind(column(events, |event| event.consumer.clone()))
            .bind(column(events, |event| event.key))
            .bind(column(events, |event| event.reason.clone()))
            .bind(column(events, |event| event.before.clone()))
            .bind(column(events, |event| event.after.clone()))
            .bind(column(events, |event| event.digest.map(|digest| digest.bytes().to_vec())));
        let added = query.execute(&mut self.connection).await.map_err(of_sqlx)?.rows_affected();
        Ok(usize::try_from(added) == Ok(events.len()))
    }

    /// Ends the transaction: commits, or rolls back if a statement was refused, so that the session stays usable.
    pub(super) async fn end(
        &mut self,
        outcome: Result<WriteResult, StoreError>,
    ) -> Result<WriteResult, StoreError> {
        match outcome {
            Ok(WriteResult::Done) => self.connection.commit().await?,
            Ok(WriteResult::Lost | WriteResult::Repeated) | Err(StoreError::NotApplied(_)) => {
                self.connection.rollback().await?;
            }
            Err(StoreError::Unknown(_)) => {}
        }
        outcome
    }

    pub(super) async fn plain(&mut self, statement: &'static str) -> Result<(), StoreError> {
        self.connection.execute(statement).await.map_err(of_sqlx)?;
        Ok(())
    }
}

//! The audit, and the transactions in which it is written beside what it tells of.

use sqlx::Executor as _;

use super::PgSession;
use super::errors::of_sqlx;
use crate::domain::AuditEvent;
use crate::store::{StoreError, WriteResult};

pub(super) const AUDIT_ADD: &str = "\
-- ledger.audit_add
INSERT INTO ledger.audit (request_id, at, actor, action, consumer, key, reason, before, after)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (request_id) DO NOTHING";

pub(super) const AUDITED: &str = "\
-- ledger.audited
SELECT request_id, at, actor, action, consumer, key, reason, before, after
FROM ledger.audit WHERE request_id = $1";

/// What follows the prefix in the ids of an operation's entries are the 32 digits of a hash: all below the tilde.
pub(super) const COUNT_REDRIVEN: &str = "\
-- ledger.count_redriven
SELECT count(*) FROM ledger.audit
WHERE request_id > $1 AND request_id < $1 || '~'
  AND action = 'REDRIVE' AND length(request_id) = length($1) + 32";

pub(super) const AUDIT: &str = "\
-- ledger.audit
SELECT request_id, at, actor, action, consumer, key, reason, before, after
FROM ledger.audit WHERE (at, request_id) < ($1, $2)
ORDER BY at DESC, request_id DESC LIMIT $3";

pub(super) const AUDIT_OF_CONSUMER: &str = "\
-- ledger.audit_of_consumer
SELECT request_id, at, actor, action, consumer, key, reason, before, after
FROM ledger.audit WHERE consumer = $4 AND (at, request_id) < ($1, $2)
ORDER BY at DESC, request_id DESC LIMIT $3";

pub(super) const AUDIT_OF_ENTRY: &str = "\
-- ledger.audit_of_entry
SELECT request_id, at, actor, action, consumer, key, reason, before, after
FROM ledger.audit WHERE key = $4 AND (at, request_id) < ($1, $2)
ORDER BY at DESC, request_id DESC LIMIT $3";

impl PgSession {
    /// Says whether the request is new. First of all, so that a repeat waits here for the request that it
    /// repeats.
    pub(super) async fn add_event(&mut self, event: &AuditEvent) -> Result<bool, StoreError> {
        let query = self
            .query(AUDIT_ADD)
            .bind(event.request_id.clone())
            .bind(event.at.micros())
            .bind(event.actor.clone())
            .bind(event.action.clone())
            .bind(event.consumer.clone())
            .bind(event.key)
            .bind(event.reason.clone())
            .bind(event.before.clone())
            .bind(event.after.clone());
        Ok(query.execute(&mut self.connection).await.map_err(of_sqlx)?.rows_affected() == 1)
    }

    /// Ends the transaction. What was refused in it is undone here, so that the session can go on.
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

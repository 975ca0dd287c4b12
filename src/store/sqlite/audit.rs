//! The audit.

use sqlx::sqlite::SqliteConnection;

use super::errors::of_sqlx;
use crate::domain::AuditEvent;
use crate::store::StoreError;
use crate::store::records::AuditRow;

pub(super) const AUDIT_ADD: &str = "\
-- ledger.audit_add
INSERT INTO audit (request_id, at, actor, action, consumer, key, reason, before, after)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (request_id) DO NOTHING";

pub(super) const AUDITED: &str = "\
-- ledger.audited
SELECT request_id, at, actor, action, consumer, key, reason, before, after
FROM audit WHERE request_id = ?1";

/// What follows the prefix in the ids of an operation's entries are the 32 digits of a hash: all below the tilde.
pub(super) const COUNT_REDRIVEN: &str = "\
-- ledger.count_redriven
SELECT count(*) FROM audit
WHERE request_id > ?1 AND request_id < ?1 || '~'
  AND action = 'REDRIVE' AND length(request_id) = length(?1) + 32";

pub(super) const AUDIT: &str = "\
-- ledger.audit
SELECT request_id, at, actor, action, consumer, key, reason, before, after
FROM audit WHERE (at, request_id) < (?1, ?2)
ORDER BY at DESC, request_id DESC LIMIT ?3";

pub(super) const AUDIT_OF_CONSUMER: &str = "\
-- ledger.audit_of_consumer
SELECT request_id, at, actor, action, consumer, key, reason, before, after
FROM audit WHERE consumer = ?4 AND (at, request_id) < (?1, ?2)
ORDER BY at DESC, request_id DESC LIMIT ?3";

pub(super) const AUDIT_OF_ENTRY: &str = "\
-- ledger.audit_of_entry
SELECT request_id, at, actor, action, consumer, key, reason, before, after
FROM audit WHERE key = ?4 AND (at, request_id) < (?1, ?2)
ORDER BY at DESC, request_id DESC LIMIT ?3";

pub(super) async fn add_event(
    connection: &mut SqliteConnection,
    event: AuditEvent,
) -> Result<(), StoreError> {
    let query = sqlx::query(AUDIT_ADD)
        .bind(event.request_id)
        .bind(event.at.micros())
        .bind(event.actor)
        .bind(event.action)
        .bind(event.consumer)
        .bind(event.key)
        .bind(event.reason)
        .bind(event.before)
        .bind(event.after);
    query.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(())
}

pub(super) async fn audited(
    connection: &mut SqliteConnection,
    request_id: String,
) -> Result<Option<AuditEvent>, StoreError> {
    let query = sqlx::query_as::<_, AuditRow>(AUDITED).bind(request_id);
    let row = query.fetch_optional(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(row.map(AuditEvent::from))
}

//! The audit.

use sqlx::sqlite::SqliteConnection;

use super::errors::of_sqlx;
use crate::domain::{AuditEvent, RequestDigest};
use crate::store::records::AuditRow;
use crate::store::{EventDigests, PartDigests, StoreError};

pub(super) const AUDIT_ADD: &str = "\
-- ledger.audit_add
INSERT INTO audit (request_id, at, actor, action, consumer, key, reason, before, after, digest)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (request_id) DO NOTHING";

/// Finds an event by the current form of its id, or by the form from before request ids belonged to consumers.
pub(super) const AUDITED: &str = "\
-- ledger.audited
SELECT request_id, at, actor, action, consumer, key, reason, before, after, digest
FROM audit WHERE request_id IN (?1, ?2) AND consumer = ?3";

/// Counts the events of the entries that an operation changed. In their ids, the prefix is followed by the 32 digits of a hash,
/// all of which sort below the tilde.
pub(super) const COUNT_CHANGED: &str = "\
-- ledger.count_changed
SELECT count(*) FROM audit
WHERE request_id > ?1 AND request_id < ?1 || '~'
  AND action = ?2 AND length(request_id) = length(?1) + 32";

pub(super) const PART_DIGEST: &str = "\
-- ledger.part_digest
SELECT digest FROM audit WHERE request_id > ?1 AND request_id < ?1 || '~' ORDER BY request_id LIMIT 1";

/// Reads the digest of an event by its stored id.
pub(super) const EVENT_DIGEST: &str = "\
-- ledger.event_digest
SELECT digest FROM audit WHERE request_id = ?1";

pub(super) const AUDIT: &str = "\
-- ledger.audit
SELECT request_id, at, actor, action, consumer, key, reason, before, after, digest
FROM audit WHERE (at, request_id) < (?1, ?2)
ORDER BY at DESC, request_id DESC LIMIT ?3";

pub(super) const AUDIT_OF_CONSUMER: &str = "\
-- ledger.audit_of_consumer
SELECT request_id, at, actor, action, consumer, key, reason, before, after, digest
FROM audit WHERE consumer = ?4 AND (at, request_id) < (?1, ?2)
ORDER BY at DESC, request_id DESC LIMIT ?3";

/// The event with the id of the operation, and those of its parts, whose ids follow a slash. As one range the query would walk
/// the events of other operations, whose ids lie between the two: `fix-2` sorts after `fix` and before `fix/`.
pub(super) const AUDIT_OF_OPERATION: &str = "\
-- ledger.audit_of_operation
SELECT request_id, at, actor, action, consumer, key, reason, before, after, digest FROM (
    SELECT * FROM (
        SELECT request_id, at, actor, action, consumer, key, reason, before, after, digest
        FROM audit WHERE request_id > ?4 || '/' AND request_id < ?4 || '/~' AND request_id < ?2 AND at <= ?1
        ORDER BY request_id DESC LIMIT ?3) AS parts
    UNION ALL
    SELECT request_id, at, actor, action, consumer, key, reason, before, after, digest
    FROM audit WHERE request_id = ?4 AND request_id < ?2 AND at <= ?1
) AS of_operation
ORDER BY request_id DESC LIMIT ?3";

pub(super) const AUDIT_OF_ENTRY: &str = "\
-- ledger.audit_of_entry
SELECT request_id, at, actor, action, consumer, key, reason, before, after, digest
FROM audit WHERE key = ?4 AND (at, request_id) < (?1, ?2)
ORDER BY at DESC, request_id DESC LIMIT ?3";

pub(super) async fn add_event(
    connection: &mut SqliteConnection,
    event: AuditEvent,
) -> Result<(), StoreError> {
    let digest = event.digest.map(|digest| digest.bytes().to_vec());
    let query = sqlx::query(AUDIT_ADD)
        .bind(event.stored_id())
        .bind(event.at.micros())
        .bind(event.actor)
        .bind(event.action)
        .bind(event.consumer)
        .bind(event.key)
        .bind(event.reason)
        .bind(event.before)
        .bind(event.after)
        .bind(digest);
    query.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(())
}

pub(super) async fn audited(
    connection: &mut SqliteConnection,
    consumer: &str,
    request_id: &str,
) -> Result<Option<AuditEvent>, StoreError> {
    let query = sqlx::query_as::<_, AuditRow>(AUDITED)
        .bind(AuditEvent::id_of(consumer, request_id))
        .bind(request_id.to_owned())
        .bind(consumer.to_owned());
    let row = query.fetch_optional(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(row.map(AuditEvent::from))
}

pub(super) async fn part_digests(
    connection: &mut SqliteConnection,
    prefixes: Vec<String>,
) -> Result<PartDigests, StoreError> {
    let mut found = Vec::new();
    for prefix in prefixes {
        let query = sqlx::query_as::<_, (Option<Vec<u8>>,)>(PART_DIGEST).bind(prefix);
        let row = query.fetch_optional(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
        found.extend(row.map(|(digest,)| digest.as_deref().and_then(RequestDigest::stored)));
    }
    Ok(found)
}

pub(super) async fn event_digests(
    connection: &mut SqliteConnection,
    stored_ids: Vec<String>,
) -> Result<EventDigests, StoreError> {
    let mut found = EventDigests::with_capacity(stored_ids.len());
    for id in stored_ids {
        let query = sqlx::query_as::<_, (Option<Vec<u8>>,)>(EVENT_DIGEST).bind(&id);
        let row = query.fetch_optional(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
        if let Some((digest,)) = row {
            found.insert(id, digest.as_deref().and_then(RequestDigest::stored));
        }
    }
    Ok(found)
}

/// Whether the request id of an event was used before. Checked first: a repeat must not write anything.
pub(super) async fn repeated(
    connection: &mut SqliteConnection,
    event: &AuditEvent,
) -> Result<bool, StoreError> {
    Ok(audited(connection, &event.consumer, &event.request_id).await?.is_some())
}

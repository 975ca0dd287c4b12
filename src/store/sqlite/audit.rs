//! Operators' changes, each in one transaction with its audit event.

use super::errors::of_sqlx;
use super::purge;
use super::rows::{insert, number, put_in_force, replace};
use super::statements as sql;
use crate::domain::{
    AuditEvent, AuditListing, AuditOf, ImportedEntry, PolicyVersion, Reading, Span, StoreTime,
};
use crate::store::row::{AuditRow, PolicyRow, Row};
use crate::store::{EffectiveRetention, OffsetRaise, StoreError, Write, WriteResult};
use sqlx::Row as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

/// Nobody else writes meanwhile: what is found stays so until the end.
pub(super) async fn change(
    connection: &mut SqliteConnection,
    reading: Reading,
    write: &Write,
    event: AuditEvent,
) -> Result<WriteResult, StoreError> {
    if audited(connection, event.request_id.clone()).await?.is_some() {
        return Ok(WriteResult::Repeated);
    }
    let written = match write {
        Write::Replace(entry) => replace(connection, &Row::from(entry.as_ref())).await?,
        Write::Nothing => true,
        Write::Delete(key, version) => purge::delete(connection, reading, *key, *version).await?,
        Write::Insert(entry) => {
            // The insert knows only first grants; the rest of the row follows.
            let mut entry = entry.as_ref().clone().stamped(reading.now, reading.token_clock());
            let fresh = insert(connection, &Row::from(&entry)).await?;
            entry.version += 1;
            fresh && replace(connection, &Row::from(&entry)).await?
        }
    };
    if !written {
        return Ok(WriteResult::Lost);
    }
    add_event(connection, event).await?;
    Ok(WriteResult::Done)
}

/// What is not written whole is not written at all: nothing is done before every key is known to be absent.
pub(super) async fn import(
    connection: &mut SqliteConnection,
    reading: Reading,
    entries: Vec<ImportedEntry>,
    event: AuditEvent,
) -> Result<WriteResult, StoreError> {
    if audited(connection, event.request_id.clone()).await?.is_some() {
        return Ok(WriteResult::Repeated);
    }
    for entry in &entries {
        let query = sqlx::query(sql::LOAD).bind(entry.entry().key.hash());
        if query.fetch_optional(&mut *connection).await.map_err(|error| of_sqlx(&error))?.is_some() {
            return Ok(WriteResult::Lost);
        }
    }
    for entry in entries {
        // The insert knows only first grants; the rest of the row follows.
        let mut entry = entry.stamped(reading.now, reading.token_clock());
        insert(connection, &Row::from(&entry)).await?;
        entry.version += 1;
        replace(connection, &Row::from(&entry)).await?;
    }
    add_event(connection, event).await?;
    Ok(WriteResult::Done)
}

/// Nobody else writes meanwhile.
pub(super) async fn raise_offset(
    connection: &mut SqliteConnection,
    raise: OffsetRaise,
    event: AuditEvent,
) -> Result<WriteResult, StoreError> {
    if audited(connection, event.request_id.clone()).await?.is_some() {
        return Ok(WriteResult::Repeated);
    }
    let query = sqlx::query(sql::OFFSET_RAISE).bind(raise.from).bind(raise.to);
    let done = query.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    if done.rows_affected() == 0 {
        return Ok(WriteResult::Lost);
    }
    add_event(connection, event).await?;
    Ok(WriteResult::Done)
}

pub(super) async fn count_audited(
    connection: &mut SqliteConnection,
    prefix: String,
) -> Result<i64, StoreError> {
    let query = sqlx::query(sql::COUNT_REDRIVEN).bind(prefix);
    Ok(query.fetch_one(connection).await.map_err(|error| of_sqlx(&error))?.get(0))
}

async fn add_event(connection: &mut SqliteConnection, event: AuditEvent) -> Result<(), StoreError> {
    let query = sqlx::query(sql::AUDIT_ADD)
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

pub(super) async fn add_policy(
    connection: &mut SqliteConnection,
    policy: PolicyVersion,
    in_force: EffectiveRetention,
    event: AuditEvent,
) -> Result<WriteResult, StoreError> {
    if audited(connection, event.request_id.clone()).await?.is_some() {
        return Ok(WriteResult::Repeated);
    }
    number(connection, &policy.consumer, sql::CONSUMER_ADD, sql::CONSUMER_FIND).await?;
    let query = sqlx::query(sql::POLICY_ADD)
        .bind(policy.consumer)
        .bind(policy.version)
        .bind(policy.policy.clone())
        .bind(policy.policy.is_none())
        .bind(policy.created_at.micros())
        .bind(policy.actor)
        .bind(policy.reason);
    let done = query.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    if done.rows_affected() == 0 {
        return Ok(WriteResult::Lost);
    }
    put_in_force(connection, &in_force, None).await?;
    purge::raise_policy_epoch(connection).await?;
    add_event(connection, event).await?;
    Ok(WriteResult::Done)
}

pub(super) async fn effective_retentions(
    connection: &mut SqliteConnection,
) -> Result<Vec<EffectiveRetention>, StoreError> {
    let rows = sqlx::query(sql::EFFECTIVE_RETENTIONS)
        .fetch_all(connection)
        .await
        .map_err(|error| of_sqlx(&error))?;
    let one = |row: &SqliteRow| EffectiveRetention {
        consumer: row.get("name"),
        retention: row.get::<Option<i64>, _>("retention").map(Span),
        window_floor: StoreTime(row.get("window_floor")),
    };
    Ok(rows.iter().map(one).collect())
}

pub(super) async fn policies(connection: &mut SqliteConnection) -> Result<Vec<PolicyVersion>, StoreError> {
    let query = sqlx::query_as::<_, PolicyRow>(sql::POLICIES);
    let rows = query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(rows.into_iter().map(PolicyVersion::from).collect())
}

pub(super) async fn policy_versions(
    connection: &mut SqliteConnection,
    consumer: String,
    before: i32,
    limit: usize,
) -> Result<Vec<PolicyVersion>, StoreError> {
    let query = sqlx::query_as::<_, PolicyRow>(sql::POLICY_VERSIONS)
        .bind(consumer)
        .bind(before)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX));
    let rows = query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(rows.into_iter().map(PolicyVersion::from).collect())
}

pub(super) async fn audited(
    connection: &mut SqliteConnection,
    request_id: String,
) -> Result<Option<AuditEvent>, StoreError> {
    let query = sqlx::query_as::<_, AuditRow>(sql::AUDITED).bind(request_id);
    let row = query.fetch_optional(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(row.map(AuditEvent::from))
}

pub(super) async fn list(
    connection: &mut SqliteConnection,
    listing: AuditListing,
) -> Result<Vec<AuditEvent>, StoreError> {
    let (at, request_id) = listing.before.unwrap_or((StoreTime::MAX, String::new()));
    let statement = match &listing.of {
        AuditOf::All => sql::AUDIT,
        AuditOf::Consumer(_) => sql::AUDIT_OF_CONSUMER,
        AuditOf::Entry(_) => sql::AUDIT_OF_ENTRY,
    };
    let query = sqlx::query_as::<_, AuditRow>(statement)
        .bind(at.micros())
        .bind(request_id)
        .bind(i64::try_from(listing.limit).unwrap_or(i64::MAX));
    let query = match listing.of {
        AuditOf::All => query,
        AuditOf::Consumer(consumer) => query.bind(consumer),
        AuditOf::Entry(key) => query.bind(key),
    };
    let rows = query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(rows.into_iter().map(AuditEvent::from).collect())
}

pub(super) async fn forget(
    connection: &mut SqliteConnection,
    before: StoreTime,
    limit: usize,
) -> Result<usize, StoreError> {
    let query =
        sqlx::query(sql::AUDIT_PURGE).bind(before.micros()).bind(i64::try_from(limit).unwrap_or(i64::MAX));
    let done = query.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
}

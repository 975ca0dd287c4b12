//! How entries, and the names they share, are written.

use sqlx::Row as _;
use sqlx::sqlite::SqliteConnection;

use super::errors::of_sqlx;
use super::purge;
use super::statements as sql;
use crate::domain::Span;
use crate::store::row::Row;
use crate::store::{EffectiveRetention, StoreError};

/// Where it still stands there as it was seen, if that is asked; says whether it changed.
pub(super) async fn put_in_force(
    connection: &mut SqliteConnection,
    one: &EffectiveRetention,
    seen: Option<&EffectiveRetention>,
) -> Result<bool, StoreError> {
    number(connection, &one.consumer, sql::CONSUMER_ADD, sql::CONSUMER_FIND).await?;
    let query = sqlx::query(sql::PUT_IN_FORCE)
        .bind(one.consumer.clone())
        .bind(one.retention.map(Span::micros))
        .bind(one.window_floor.micros())
        .bind(seen.unwrap_or(one).retention.map(Span::micros))
        .bind(seen.unwrap_or(one).window_floor.micros())
        .bind(seen.is_none());
    let done = query.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    let changed = done.rows_affected() > 0;
    if changed {
        purge::raise_policy_epoch(connection).await?;
    }
    Ok(changed)
}

/// The number of a name, given on its first use.
pub(super) async fn number(
    connection: &mut SqliteConnection,
    name: &str,
    add: &'static str,
    find: &'static str,
) -> Result<i64, StoreError> {
    let found = sqlx::query(find).bind(name.to_owned()).fetch_optional(&mut *connection).await;
    if let Some(row) = found.map_err(|error| of_sqlx(&error))? {
        return Ok(row.get(0));
    }
    let added = sqlx::query(add).bind(name.to_owned()).execute(connection).await;
    Ok(added.map_err(|error| of_sqlx(&error))?.last_insert_rowid())
}

pub(super) async fn insert(connection: &mut SqliteConnection, row: &Row) -> Result<bool, StoreError> {
    let consumer = number(connection, &row.consumer, sql::CONSUMER_ADD, sql::CONSUMER_FIND).await?;
    let source = number(connection, &row.source, sql::SOURCE_ADD, sql::SOURCE_FIND).await?;
    let query = sqlx::query(sql::INSERT)
        .bind(row.key)
        .bind(row.token)
        .bind(row.granted_at)
        .bind(row.lease_until)
        .bind(row.grace)
        .bind(row.hold_until)
        .bind(row.retention)
        .bind(row.sweep_at)
        .bind(row.retain_until)
        .bind(row.claim_id)
        .bind(consumer)
        .bind(source)
        .bind(row.policy_version)
        .bind(row.on_expiry)
        .bind(row.id.clone())
        .bind(row.principal.clone())
        .bind(row.owner.clone())
        .bind(row.traceparent.clone())
        .bind(row.fingerprint.clone())
        .bind(row.version);
    let done = query.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(done.rows_affected() == 1)
}

pub(super) async fn replace(connection: &mut SqliteConnection, row: &Row) -> Result<bool, StoreError> {
    let query = sqlx::query(sql::REPLACE)
        .bind(row.key)
        .bind(row.version)
        .bind(row.token)
        .bind(row.granted_at)
        .bind(row.lease_until)
        .bind(row.grace)
        .bind(row.hold_until)
        .bind(row.retention)
        .bind(row.not_before)
        .bind(row.sweep_at)
        .bind(row.updated_at)
        .bind(row.closed_at)
        .bind(row.parked_at)
        .bind(row.retain_until)
        .bind(row.claim_id)
        .bind(row.policy_version)
        .bind(row.attempts)
        .bind(row.state)
        .bind(row.cause)
        .bind(row.closed_by)
        .bind(row.on_expiry)
        .bind(row.attention())
        .bind(row.rearmed)
        .bind(row.effect_started)
        .bind(row.prior_effect_started)
        .bind(row.effect_unknown)
        .bind(row.principal.clone())
        .bind(row.owner.clone())
        .bind(row.last_error.clone())
        .bind(row.history.clone())
        .bind(row.fingerprint.clone())
        .bind(row.result.clone())
        .bind(row.checkpoint.clone());
    let done = query.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(done.rows_affected() == 1)
}

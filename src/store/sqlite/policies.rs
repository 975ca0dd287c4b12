//! The policies in force, with their versions.

use async_trait::async_trait;
use sqlx::Row as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::SqliteSession;
use super::audit::{add_event, repeated};
use super::errors::of_sqlx;
use super::file::Work;
use super::names::learn_consumer;
use crate::domain::{AuditEvent, PolicyVersion, Reading, Span, StoreTime};
use crate::store::dictionary::Dictionary;
use crate::store::records::PolicyRow;
use crate::store::{EffectiveRetention, PolicyBook, Replica, StoreError, WriteResult};

pub(super) const POLICY_EPOCH: &str = "\
-- ledger.policy_epoch
SELECT policy_epoch FROM meta";

pub(super) const RAISE_POLICY_EPOCH: &str = "\
-- ledger.raise_policy_epoch
UPDATE meta SET policy_epoch = policy_epoch + 1";

pub(super) const EFFECTIVE_RETENTIONS: &str = "\
-- ledger.effective_retentions
SELECT name, retention, window_floor FROM consumers WHERE retention IS NOT NULL OR window_floor > 0";

pub(super) const PUT_IN_FORCE: &str = "\
-- ledger.put_in_force
UPDATE consumers SET retention = ?2, window_floor = max(window_floor, ?3), purge_due = 0, purge_held = 0
WHERE name = ?1 AND (?6 OR (retention IS ?4 AND window_floor = ?5))
  AND (retention IS NOT ?2 OR window_floor < ?3)";

/// Makes the consumers without their own retention due for the purge: they follow the default.
pub(super) const DUE_BY_DEFAULT: &str = "\
-- ledger.due_by_default
UPDATE consumers SET purge_due = 0, purge_held = 0 WHERE retention IS NULL";

/// Makes the replay runs of a consumer due for the purge: they follow the consumer's retention. Their names begin with the
/// consumer's name.
pub(super) const DUE_BY_CONSUMER: &str = "\
-- ledger.due_by_consumer
UPDATE consumers SET purge_due = 0, purge_held = 0 WHERE substr(name, 1, length(?1) + 1) = ?1 || char(31)";

pub(super) const POLICY_ADD: &str = "\
-- ledger.policy_add
INSERT INTO policies (consumer, version, policy, deleted, created_at, actor, reason)
SELECT n.no, ?2, ?3, ?4, ?5, ?6, ?7
FROM consumers n
WHERE n.name = ?1
  AND ?2 = 1 + coalesce((SELECT max(p.version) FROM policies p WHERE p.consumer = n.no), 0)
ON CONFLICT DO NOTHING";

pub(super) const POLICIES: &str = "\
-- ledger.policies
SELECT n.name AS consumer, p.version, p.policy, p.deleted, p.created_at, p.actor, p.reason
FROM policies p JOIN consumers n ON n.no = p.consumer
WHERE p.version = (SELECT max(q.version) FROM policies q WHERE q.consumer = p.consumer)
ORDER BY n.name";

pub(super) const POLICY_VERSIONS: &str = "\
-- ledger.policy_versions
SELECT n.name AS consumer, p.version, p.policy, p.deleted, p.created_at, p.actor, p.reason
FROM policies p JOIN consumers n ON n.no = p.consumer
WHERE n.name = ?1 AND p.version < ?2
ORDER BY p.version DESC LIMIT ?3";

pub(super) const REPLICAS_BELOW: &str = "\
-- ledger.replicas_below
SELECT replica AS id, speaks, version FROM replicas
WHERE heard_at >= ?1 AND speaks < ?2
ORDER BY speaks, replica LIMIT ?3";

/// Ends runs sooner whose consumer has a shorter retention now. A run ends before the first of its entries can be purged, and
/// never reopens. The end is never set in the past: until every server knows of it, the purge leaves the run's entries.
pub(super) const REPLAYS_SHORTEN: &str = "\
-- ledger.replays_shorten
UPDATE replay_runs SET ends_at = min(ends_at, max(?1, created_at + coalesce(
    (SELECT n.retention FROM consumers n WHERE n.name = consumer),
    (SELECT d.retention FROM consumers d WHERE d.name = ''), ends_at - created_at)))
WHERE swept_at IS NULL";

#[async_trait]
impl PolicyBook for SqliteSession {
    async fn policy_epoch(&mut self) -> Result<i64, StoreError> {
        let work: Work<i64> = Box::new(|connection, _, _| Box::pin(policy_epoch(connection)));
        Ok(self.file.write(work).await?.1)
    }

    async fn policies(&mut self) -> Result<Vec<PolicyVersion>, StoreError> {
        let work: Work<Vec<PolicyVersion>> = Box::new(move |connection, _, _| Box::pin(policies(connection)));
        Ok(self.file.write(work).await?.1)
    }

    async fn policy_versions(
        &mut self,
        consumer: &str,
        before: i32,
        limit: usize,
    ) -> Result<Vec<PolicyVersion>, StoreError> {
        let consumer = consumer.to_owned();
        let work: Work<Vec<PolicyVersion>> =
            Box::new(move |connection, _, _| Box::pin(policy_versions(connection, consumer, before, limit)));
        Ok(self.file.write(work).await?.1)
    }

    async fn add_policy(
        &mut self,
        policy: &PolicyVersion,
        in_force: &EffectiveRetention,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        let (policy, in_force, event) = (policy.clone(), in_force.clone(), event.clone());
        let work: Work<WriteResult> = Box::new(move |connection, dictionary, reading| {
            Box::pin(add_policy(connection, dictionary, policy, in_force, (event, reading.now)))
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn effective_retentions(&mut self) -> Result<(Reading, Vec<EffectiveRetention>), StoreError> {
        let work: Work<Vec<EffectiveRetention>> =
            Box::new(|connection, _, _| Box::pin(effective_retentions(connection)));
        self.file.write(work).await
    }

    async fn put_in_force(
        &mut self,
        all: &[EffectiveRetention],
        seen: Option<&[EffectiveRetention]>,
    ) -> Result<usize, StoreError> {
        let (all, seen) = (all.to_vec(), seen.map(<[EffectiveRetention]>::to_vec));
        let work: Work<usize> = Box::new(move |connection, dictionary, reading| {
            let now = reading.now;
            Box::pin(async move {
                let mut changed = 0;
                for (place, one) in all.iter().enumerate() {
                    let seen = seen.as_ref().and_then(|seen| seen.get(place));
                    changed += usize::from(put_in_force(connection, dictionary, one, seen).await?);
                }
                shorten_runs(connection, now).await?;
                Ok(changed)
            })
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn replicas_below(
        &mut self,
        format: i32,
        heard_since: StoreTime,
        limit: usize,
    ) -> Result<Vec<Replica>, StoreError> {
        let work: Work<Vec<Replica>> =
            Box::new(move |connection, _, _| Box::pin(below(connection, format, heard_since, limit)));
        Ok(self.file.write(work).await?.1)
    }
}

pub(super) async fn policy_epoch(connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    sqlx::query_scalar(POLICY_EPOCH).fetch_one(connection).await.map_err(|error| of_sqlx(&error))
}

pub(super) async fn raise_policy_epoch(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    sqlx::query(RAISE_POLICY_EPOCH).execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(())
}

/// Puts a retention in force, with `seen` only if the stored value is still that one; returns whether it changed.
pub(super) async fn put_in_force(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    one: &EffectiveRetention,
    seen: Option<&EffectiveRetention>,
) -> Result<bool, StoreError> {
    learn_consumer(connection, dictionary, &one.consumer).await?;
    let query = sqlx::query(PUT_IN_FORCE)
        .bind(one.consumer.clone())
        .bind(one.retention.map(Span::micros))
        .bind(one.window_floor.micros())
        .bind(seen.unwrap_or(one).retention.map(Span::micros))
        .bind(seen.unwrap_or(one).window_floor.micros())
        .bind(seen.is_none());
    let done = query.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    let changed = done.rows_affected() > 0;
    if changed {
        raise_policy_epoch(connection).await?;
    }
    if changed {
        let runs = sqlx::query(DUE_BY_CONSUMER).bind(one.consumer.clone()).execute(&mut *connection).await;
        runs.map_err(|error| of_sqlx(&error))?;
    }
    if changed && one.consumer.is_empty() {
        let due = sqlx::query(DUE_BY_DEFAULT).execute(connection).await;
        due.map_err(|error| of_sqlx(&error))?;
    }
    Ok(changed)
}

pub(super) async fn add_policy(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    policy: PolicyVersion,
    in_force: EffectiveRetention,
    (event, now): (AuditEvent, StoreTime),
) -> Result<WriteResult, StoreError> {
    if repeated(connection, &event).await? {
        return Ok(WriteResult::Repeated);
    }
    learn_consumer(connection, dictionary, &policy.consumer).await?;
    let query = sqlx::query(POLICY_ADD)
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
    put_in_force(connection, dictionary, &in_force, None).await?;
    raise_policy_epoch(connection).await?;
    shorten_runs(connection, now).await?;
    add_event(connection, event).await?;
    Ok(WriteResult::Done)
}

pub(super) async fn effective_retentions(
    connection: &mut SqliteConnection,
) -> Result<Vec<EffectiveRetention>, StoreError> {
    let rows =
        sqlx::query(EFFECTIVE_RETENTIONS).fetch_all(connection).await.map_err(|error| of_sqlx(&error))?;
    let one = |row: &SqliteRow| EffectiveRetention {
        consumer: row.get("name"),
        retention: row.get::<Option<i64>, _>("retention").map(Span),
        window_floor: StoreTime(row.get("window_floor")),
    };
    Ok(rows.iter().map(one).collect())
}

/// See [`REPLAYS_SHORTEN`].
async fn shorten_runs(connection: &mut SqliteConnection, now: StoreTime) -> Result<(), StoreError> {
    sqlx::query(REPLAYS_SHORTEN)
        .bind(now.micros())
        .execute(connection)
        .await
        .map_err(|error| of_sqlx(&error))?;
    Ok(())
}

pub(super) async fn policies(connection: &mut SqliteConnection) -> Result<Vec<PolicyVersion>, StoreError> {
    let query = sqlx::query_as::<_, PolicyRow>(POLICIES);
    let rows = query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(rows.into_iter().map(PolicyVersion::from).collect())
}

pub(super) async fn policy_versions(
    connection: &mut SqliteConnection,
    consumer: String,
    before: i32,
    limit: usize,
) -> Result<Vec<PolicyVersion>, StoreError> {
    let query = sqlx::query_as::<_, PolicyRow>(POLICY_VERSIONS)
        .bind(consumer)
        .bind(before)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX));
    let rows = query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(rows.into_iter().map(PolicyVersion::from).collect())
}

pub(super) async fn below(
    connection: &mut SqliteConnection,
    format: i32,
    heard_since: StoreTime,
    limit: usize,
) -> Result<Vec<Replica>, StoreError> {
    let query = sqlx::query_as::<_, Replica>(REPLICAS_BELOW)
        .bind(heard_since.micros())
        .bind(format)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX));
    query.fetch_all(connection).await.map_err(|error| of_sqlx(&error))
}

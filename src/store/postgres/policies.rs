//! The policies in force, with their versions.

use async_trait::async_trait;
use sqlx::Row as _;

use super::errors::of_sqlx;
use super::{PgSession, column, serves};
use crate::domain::{AuditEvent, PolicyVersion, Reading, Span, StoreTime};
use crate::store::records::PolicyRow;
use crate::store::{EffectiveRetention, Entries as _, PolicyBook, Replica, StoreError, WriteResult};

pub(super) const POLICY_EPOCH: &str = "\
-- ledger.policy_epoch
SELECT policy_epoch, serves_from, level FROM ledger.meta";

/// Raises the epoch of the policies. Comes after changes of `consumers` in every transaction, to avoid deadlocks.
///
/// The row stays locked until the commit, so that epochs become visible in order: a reader of one epoch sees all changes of the
/// epochs before. An epoch is never used twice, not even if a promoted database lost the commits that had used it: it is at least
/// the clock.
pub(super) const RAISE_POLICY_EPOCH: &str = "\
-- ledger.raise_policy_epoch
UPDATE ledger.meta SET policy_epoch = greatest(policy_epoch + 1, ledger.clock())";

pub(super) const EFFECTIVE_RETENTIONS: &str = "\
-- ledger.effective_retentions
SELECT name, retention, window_floor FROM ledger.consumers
WHERE retention IS NOT NULL OR window_floor > 0";

/// Puts retentions and window floors in force. Locks all consumers first, ordered by name, and then the epoch: every change of
/// policies takes the locks in this order. Ends the purge turns that follow another retention. Consumers without a retention
/// follow the default; the replay runs of a consumer, whose names begin with the consumer's name, follow the consumer's
/// retention.
pub(super) const PUT_IN_FORCE: &str = "\
-- ledger.put_in_force
WITH changed AS (
    UPDATE ledger.consumers n
    SET retention = r.retention, window_floor = greatest(n.window_floor, r.window_floor), purge_due = 0,
        purge_held = 0
    FROM (SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
                   AS u(name, retention, window_floor, seen_retention, seen_floor)
          ORDER BY name) AS r
    WHERE n.name = r.name
      AND ($6 OR (n.retention IS NOT DISTINCT FROM r.seen_retention AND n.window_floor = r.seen_floor))
      AND (n.retention IS DISTINCT FROM r.retention OR n.window_floor < r.window_floor)
    RETURNING n.no, n.name
), others AS (
    UPDATE ledger.consumers n SET purge_due = 0, purge_held = 0
    FROM changed c
    WHERE n.name <> ALL ($1)
      AND ((c.name = '' AND n.retention IS NULL) OR starts_with(n.name, c.name || chr(31)))
), counted AS MATERIALIZED (
    SELECT count(*) AS changed FROM changed
), raised AS (
    UPDATE ledger.meta SET policy_epoch = greatest(policy_epoch + 1, ledger.clock())
    FROM counted c WHERE c.changed > 0
)
SELECT changed FROM counted";

pub(super) const POLICY_ADD: &str = "\
-- ledger.policy_add
INSERT INTO ledger.policies (consumer, version, policy, deleted, created_at, actor, reason)
SELECT n.no, $2::int, $3::text, $4::boolean, $5::bigint, $6::text, $7::text
FROM ledger.consumers n
WHERE n.name = $1
  AND $2::int = 1 + coalesce((SELECT max(p.version) FROM ledger.policies p WHERE p.consumer = n.no), 0)
ON CONFLICT DO NOTHING";

pub(super) const POLICIES: &str = "\
-- ledger.policies
SELECT n.name AS consumer, p.version, p.policy, p.deleted, p.created_at, p.actor, p.reason
FROM ledger.policies p JOIN ledger.consumers n ON n.no = p.consumer
WHERE p.version = (SELECT max(q.version) FROM ledger.policies q WHERE q.consumer = p.consumer)
ORDER BY n.name";

pub(super) const POLICY_VERSIONS: &str = "\
-- ledger.policy_versions
SELECT n.name AS consumer, p.version, p.policy, p.deleted, p.created_at, p.actor, p.reason
FROM ledger.policies p JOIN ledger.consumers n ON n.no = p.consumer
WHERE n.name = $1 AND p.version < $2
ORDER BY p.version DESC LIMIT $3";

pub(super) const REPLICAS_BELOW: &str = "\
-- ledger.replicas_below
SELECT replica AS id, speaks, version FROM ledger.replicas
WHERE heard_at >= $1 AND speaks < $2
ORDER BY speaks, replica LIMIT $3";

#[async_trait]
impl PolicyBook for PgSession {
    async fn policy_epoch(&mut self) -> Result<i64, StoreError> {
        let row = self.query(POLICY_EPOCH).fetch_one(&mut self.connection).await.map_err(of_sqlx)?;
        serves(&row)?;
        row.try_get("policy_epoch").map_err(of_sqlx)
    }

    async fn policies(&mut self) -> Result<Vec<PolicyVersion>, StoreError> {
        let query = sqlx::query_as::<_, PolicyRow>(POLICIES).persistent(self.persistent);
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(rows.into_iter().map(PolicyVersion::from).collect())
    }

    async fn policy_versions(
        &mut self,
        consumer: &str,
        before: i32,
        limit: usize,
    ) -> Result<Vec<PolicyVersion>, StoreError> {
        let query = sqlx::query_as::<_, PolicyRow>(POLICY_VERSIONS)
            .persistent(self.persistent)
            .bind(consumer.to_owned())
            .bind(before)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(rows.into_iter().map(PolicyVersion::from).collect())
    }

    async fn add_policy(
        &mut self,
        policy: &PolicyVersion,
        in_force: &EffectiveRetention,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        self.learn_consumers(std::iter::once(policy.consumer.as_str())).await?;
        self.connection.begin().await?;
        let outcome = self.policy_within_transaction(policy, in_force, event).await;
        self.end(outcome).await
    }

    async fn effective_retentions(&mut self) -> Result<(Reading, Vec<EffectiveRetention>), StoreError> {
        let reading = self.load(&[]).await?.reading;
        let rows = self.query(EFFECTIVE_RETENTIONS).fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let mut all = Vec::with_capacity(rows.len());
        for row in &rows {
            all.push(EffectiveRetention {
                consumer: row.try_get("name").map_err(of_sqlx)?,
                retention: row.try_get::<Option<i64>, _>("retention").map_err(of_sqlx)?.map(Span),
                window_floor: StoreTime(row.try_get("window_floor").map_err(of_sqlx)?),
            });
        }
        Ok((reading, all))
    }

    async fn put_in_force(
        &mut self,
        all: &[EffectiveRetention],
        seen: Option<&[EffectiveRetention]>,
    ) -> Result<usize, StoreError> {
        self.learn_consumers(all.iter().map(|one| one.consumer.as_str())).await?;
        self.connection.begin().await?;
        let changed = match self.in_force_within_transaction(all, seen).await {
            Ok(changed) => self.shorten_runs().await.map(|()| changed),
            Err(error) => Err(error),
        };
        let (changed, outcome) = match changed {
            Ok(changed) => (changed, Ok(WriteResult::Done)),
            Err(error) => (0, Err(error)),
        };
        self.end(outcome).await?;
        Ok(changed)
    }

    async fn replicas_below(
        &mut self,
        format: i32,
        heard_since: StoreTime,
        limit: usize,
    ) -> Result<Vec<Replica>, StoreError> {
        let query = sqlx::query_as::<_, Replica>(REPLICAS_BELOW)
            .persistent(self.persistent)
            .bind(heard_since.micros())
            .bind(format)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX));
        query.fetch_all(&mut self.connection).await.map_err(of_sqlx)
    }
}

impl PgSession {
    async fn policy_within_transaction(
        &mut self,
        policy: &PolicyVersion,
        in_force: &EffectiveRetention,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        if !self.add_event(event).await? {
            return Ok(WriteResult::Repeated);
        }
        let query = self
            .query(POLICY_ADD)
            .bind(policy.consumer.clone())
            .bind(policy.version)
            .bind(policy.policy.clone())
            .bind(policy.policy.is_none())
            .bind(policy.created_at.micros())
            .bind(policy.actor.clone())
            .bind(policy.reason.clone());
        if query.execute(&mut self.connection).await.map_err(of_sqlx)?.rows_affected() == 0 {
            return Ok(WriteResult::Lost);
        }
        self.in_force_within_transaction(std::slice::from_ref(in_force), None).await?;
        self.raise_policy_epoch().await?;
        self.shorten_runs().await?;
        Ok(WriteResult::Done)
    }

    async fn in_force_within_transaction(
        &mut self,
        all: &[EffectiveRetention],
        seen: Option<&[EffectiveRetention]>,
    ) -> Result<usize, StoreError> {
        let before = seen.unwrap_or(all);
        let query = self
            .query(PUT_IN_FORCE)
            .bind(column(all, |one| one.consumer.clone()))
            .bind(column(all, |one| one.retention.map(Span::micros)))
            .bind(column(all, |one| one.window_floor.micros()))
            .bind(column(before, |one| one.retention.map(Span::micros)))
            .bind(column(before, |one| one.window_floor.micros()))
            .bind(seen.is_none());
        let row = query.fetch_one(&mut self.connection).await.map_err(of_sqlx)?;
        let changed: i64 = row.try_get("changed").map_err(of_sqlx)?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    pub(super) async fn raise_policy_epoch(&mut self) -> Result<(), StoreError> {
        self.query(RAISE_POLICY_EPOCH).execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(())
    }
}

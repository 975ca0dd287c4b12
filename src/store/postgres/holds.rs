//! Holds of consumers.

use async_trait::async_trait;

use super::PgSession;
use super::errors::of_sqlx;
use crate::domain::{AuditEvent, Hold};
use crate::store::holds::{HOLD_LEVEL, HoldRow};
use crate::store::{HoldBook, StoreError, WriteResult};

pub(super) const HOLDS: &str = "\
-- ledger.holds
SELECT prefix, created_at, actor, reason FROM ledger.holds ORDER BY prefix";

/// Raises epoch and level before a hold is added. The row of `meta` stays locked until the commit, so that concurrent operators
/// cannot exceed the maximum number of holds.
pub(super) const HOLD_BEGIN: &str = "\
-- ledger.hold_begin
UPDATE ledger.meta SET policy_epoch = greatest(policy_epoch + 1, ledger.clock()), level = greatest(level, $2)
WHERE policy_epoch = $1";

pub(super) const HOLD_ADD: &str = "\
-- ledger.hold_add
INSERT INTO ledger.holds (prefix, created_at, actor, reason) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";

pub(super) const HOLD_LIFT: &str = "\
-- ledger.hold_lift
DELETE FROM ledger.holds WHERE prefix = $1";

#[async_trait]
impl HoldBook for PgSession {
    async fn holds(&mut self) -> Result<Vec<Hold>, StoreError> {
        let query = sqlx::query_as::<_, HoldRow>(HOLDS).persistent(self.persistent);
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(rows.into_iter().map(Hold::from).collect())
    }

    async fn add_hold(
        &mut self,
        hold: &Hold,
        policy_epoch: i64,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        self.connection.begin().await?;
        let outcome = self.add_hold_within_transaction(hold, policy_epoch, event).await;
        self.end(outcome).await
    }

    async fn lift_hold(&mut self, prefix: &str, event: &AuditEvent) -> Result<WriteResult, StoreError> {
        self.connection.begin().await?;
        let outcome = self.lift_hold_within_transaction(prefix, event).await;
        self.end(outcome).await
    }
}

impl PgSession {
    async fn add_hold_within_transaction(
        &mut self,
        hold: &Hold,
        policy_epoch: i64,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        if !self.add_event(event).await? {
            return Ok(WriteResult::Repeated);
        }
        let begin = self.query(HOLD_BEGIN).bind(policy_epoch).bind(HOLD_LEVEL);
        if begin.execute(&mut self.connection).await.map_err(of_sqlx)?.rows_affected() == 0 {
            return Ok(WriteResult::Lost);
        }
        let add = self
            .query(HOLD_ADD)
            .bind(hold.prefix.clone())
            .bind(hold.created_at.micros())
            .bind(hold.actor.clone())
            .bind(hold.reason.clone());
        let added = add.execute(&mut self.connection).await.map_err(of_sqlx)?.rows_affected() > 0;
        Ok(if added { WriteResult::Done } else { WriteResult::Lost })
    }

    async fn lift_hold_within_transaction(
        &mut self,
        prefix: &str,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        if !self.add_event(event).await? {
            return Ok(WriteResult::Repeated);
        }
        // Before the row of the hold, to avoid a deadlock: `add_hold` locks them in this order.
        self.raise_policy_epoch().await?;
        let lift = self.query(HOLD_LIFT).bind(prefix.to_owned());
        let lifted = lift.execute(&mut self.connection).await.map_err(of_sqlx)?.rows_affected() > 0;
        Ok(if lifted { WriteResult::Done } else { WriteResult::Lost })
    }
}

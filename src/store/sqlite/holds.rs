//! Holds of consumers.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;

use super::SqliteSession;
use super::audit::{add_event, audited};
use super::errors::of_sqlx;
use super::file::Work;
use super::policies::raise_policy_epoch;
use crate::domain::{AuditEvent, Hold};
use crate::store::holds::{HOLD_LEVEL, HoldRow};
use crate::store::{HoldBook, StoreError, WriteResult};

pub(super) const HOLDS: &str = "\
-- ledger.holds
SELECT prefix, created_at, actor, reason FROM holds ORDER BY prefix";

pub(super) const HOLD_BEGIN: &str = "\
-- ledger.hold_begin
UPDATE meta SET policy_epoch = policy_epoch + 1, level = max(level, ?2)
WHERE policy_epoch = ?1 AND NOT EXISTS (SELECT 1 FROM holds WHERE prefix = ?3)";

pub(super) const HOLD_ADD: &str = "\
-- ledger.hold_add
INSERT INTO holds (prefix, created_at, actor, reason) VALUES (?1, ?2, ?3, ?4)";

pub(super) const HOLD_LIFT: &str = "\
-- ledger.hold_lift
DELETE FROM holds WHERE prefix = ?1";

#[async_trait]
impl HoldBook for SqliteSession {
    async fn holds(&mut self) -> Result<Vec<Hold>, StoreError> {
        let work: Work<Vec<Hold>> = Box::new(|connection, _, _| {
            Box::pin(async move {
                let rows = sqlx::query_as::<_, HoldRow>(HOLDS).fetch_all(connection).await;
                let rows = rows.map_err(|error| of_sqlx(&error))?;
                Ok(rows.into_iter().map(Hold::from).collect())
            })
        });
        Ok(self.file.write(work).await?.1)
    }

    async fn add_hold(
        &mut self,
        hold: &Hold,
        policy_epoch: i64,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        let (hold, event) = (hold.clone(), event.clone());
        let work: Work<WriteResult> =
            Box::new(move |connection, _, _| Box::pin(add_hold(connection, hold, policy_epoch, event)));
        Ok(self.file.write(work).await?.1)
    }

    async fn lift_hold(&mut self, prefix: &str, event: &AuditEvent) -> Result<WriteResult, StoreError> {
        let (prefix, event) = (prefix.to_owned(), event.clone());
        let work: Work<WriteResult> =
            Box::new(move |connection, _, _| Box::pin(lift_hold(connection, prefix, event)));
        Ok(self.file.write(work).await?.1)
    }
}

async fn add_hold(
    connection: &mut SqliteConnection,
    hold: Hold,
    policy_epoch: i64,
    event: AuditEvent,
) -> Result<WriteResult, StoreError> {
    if audited(connection, &event.consumer, &event.request_id).await?.is_some() {
        return Ok(WriteResult::Repeated);
    }
    let begin = sqlx::query(HOLD_BEGIN).bind(policy_epoch).bind(HOLD_LEVEL).bind(hold.prefix.clone());
    if begin.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?.rows_affected() == 0 {
        return Ok(WriteResult::Lost);
    }
    let add = sqlx::query(HOLD_ADD)
        .bind(hold.prefix)
        .bind(hold.created_at.micros())
        .bind(hold.actor)
        .bind(hold.reason);
    add.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    add_event(connection, event).await?;
    Ok(WriteResult::Done)
}

async fn lift_hold(
    connection: &mut SqliteConnection,
    prefix: String,
    event: AuditEvent,
) -> Result<WriteResult, StoreError> {
    if audited(connection, &event.consumer, &event.request_id).await?.is_some() {
        return Ok(WriteResult::Repeated);
    }
    let lift = sqlx::query(HOLD_LIFT).bind(prefix);
    if lift.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?.rows_affected() == 0 {
        return Ok(WriteResult::Lost);
    }
    raise_policy_epoch(connection).await?;
    add_event(connection, event).await?;
    Ok(WriteResult::Done)
}

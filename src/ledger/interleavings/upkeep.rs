//! Upkeep of the disk: only the clock answers.

use async_trait::async_trait;

use super::session::DiskSession;
use crate::domain::{KeyHash, PurgeWorker, Reading, Span, StoreTime};
use crate::store::{Created, PurgeTurn, Replica, StoreError, Upkeep};

#[async_trait]
impl Upkeep for DiskSession {
    async fn write_heartbeat(&mut self, _: &Replica) -> Result<Reading, StoreError> {
        self.clock().await
    }

    /// No scenario lists entries.
    async fn index_open_claims(&mut self, _: usize) -> Result<usize, StoreError> {
        Ok(0)
    }

    /// No schedule lasts as long as a retention.
    async fn take_purge_turn(&mut self, _: Span) -> Result<Option<PurgeTurn>, StoreError> {
        Ok(None)
    }

    async fn end_purge_turn(&mut self, _: &PurgeTurn, _: StoreTime) -> Result<(), StoreError> {
        unreachable!("no turn is taken")
    }

    async fn created_between(
        &mut self,
        _: &PurgeTurn,
        _: StoreTime,
        _: StoreTime,
        _: usize,
    ) -> Result<Created, StoreError> {
        unreachable!("no turn is taken")
    }

    async fn first_created_after(
        &mut self,
        _: &PurgeTurn,
        _: StoreTime,
    ) -> Result<Option<StoreTime>, StoreError> {
        unreachable!("no turn is taken")
    }

    async fn purge(&mut self, _: &[(KeyHash, i64)], _: i64) -> Result<usize, StoreError> {
        unreachable!("no turn is taken")
    }

    /// No scenario asks for the purge's report.
    async fn report_purge(&mut self, _: &PurgeWorker) -> Result<(), StoreError> {
        Ok(())
    }

    /// No scenario writes an audit event.
    async fn purge_audit(&mut self, _: StoreTime, _: usize) -> Result<usize, StoreError> {
        Ok(0)
    }
}

//! Replay runs of the disk: it has no replay runs.

use async_trait::async_trait;

use super::session::DiskSession;
use crate::domain::{AuditEvent, ReplayRun, StoreTime};
use crate::store::{ReplayBook, StoreError, WriteResult};

#[async_trait]
impl ReplayBook for DiskSession {
    async fn replay_runs(&mut self) -> Result<Vec<ReplayRun>, StoreError> {
        Ok(Vec::new())
    }

    async fn replay_run(&mut self, _: &str, _: &str) -> Result<Option<ReplayRun>, StoreError> {
        unreachable!("no operator replays")
    }

    async fn replay_runs_of(&mut self, _: &str, _: &str, _: usize) -> Result<Vec<ReplayRun>, StoreError> {
        unreachable!("no operator replays")
    }

    async fn add_replay_run(
        &mut self,
        _: &ReplayRun,
        _: i64,
        _: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        unreachable!("no operator replays")
    }

    async fn close_replay_run(
        &mut self,
        _: &str,
        _: &str,
        _: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        unreachable!("no operator replays")
    }

    async fn sweep_empty_runs(&mut self, _: StoreTime, _: StoreTime) -> Result<usize, StoreError> {
        unreachable!("no consumer replays")
    }

    async fn sweep_replay_run(&mut self, _: &str, _: &str, _: StoreTime) -> Result<(), StoreError> {
        unreachable!("no operator replays")
    }
}

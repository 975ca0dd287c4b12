//! Policies of the disk: no operator has set one.

use async_trait::async_trait;

use super::session::DiskSession;
use crate::domain::{AuditEvent, PolicyVersion, Reading, StoreTime};
use crate::store::{EffectiveRetention, PolicyBook, Replica, StoreError, WriteResult};

#[async_trait]
impl PolicyBook for DiskSession {
    async fn policy_epoch(&mut self) -> Result<i64, StoreError> {
        Ok(0)
    }

    /// The file's policies alone are in force.
    async fn policies(&mut self) -> Result<Vec<PolicyVersion>, StoreError> {
        Ok(Vec::new())
    }

    async fn policy_versions(&mut self, _: &str, _: i32, _: usize) -> Result<Vec<PolicyVersion>, StoreError> {
        unreachable!("no operator sets a policy")
    }

    async fn add_policy(
        &mut self,
        _: &PolicyVersion,
        _: &EffectiveRetention,
        _: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        unreachable!("no operator sets a policy")
    }

    async fn effective_retentions(&mut self) -> Result<(Reading, Vec<EffectiveRetention>), StoreError> {
        Ok((self.clock().await?, Vec::new()))
    }

    async fn put_in_force(
        &mut self,
        _: &[EffectiveRetention],
        _: Option<&[EffectiveRetention]>,
    ) -> Result<usize, StoreError> {
        unreachable!("no operator sets a policy")
    }

    async fn replicas_below(&mut self, _: i32, _: StoreTime, _: usize) -> Result<Vec<Replica>, StoreError> {
        unreachable!("no operator sets a policy")
    }
}

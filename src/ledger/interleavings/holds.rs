//! Holds of the disk: it has no holds.

use async_trait::async_trait;

use super::session::DiskSession;
use crate::domain::{AuditEvent, Hold};
use crate::store::{HoldBook, StoreError, WriteResult};

#[async_trait]
impl HoldBook for DiskSession {
    async fn holds(&mut self) -> Result<Vec<Hold>, StoreError> {
        Ok(Vec::new())
    }

    async fn add_hold(&mut self, _: &Hold, _: i64, _: &AuditEvent) -> Result<WriteResult, StoreError> {
        unreachable!("no operator holds a consumer")
    }

    async fn lift_hold(&mut self, _: &str, _: &AuditEvent) -> Result<WriteResult, StoreError> {
        unreachable!("no operator holds a consumer")
    }
}

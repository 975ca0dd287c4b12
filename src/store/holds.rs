//! Holds of consumers.

use async_trait::async_trait;

use super::{StoreError, WriteResult};
use crate::domain::{AuditEvent, Hold, StoreTime};
use crate::store::from_row::from_row;

/// Holds. Every change raises [`PolicyBook::policy_epoch`](super::PolicyBook::policy_epoch): holds are read with the
/// policies, and trusted for as long as they are.
#[async_trait]
pub trait HoldBook: Send {
    /// All holds in force, by prefix.
    async fn holds(&mut self) -> Result<Vec<Hold>, StoreError>;

    /// Adds a hold if the policies and holds in force are still those of this epoch, writes its audit event, and raises the
    /// level of the store to that of holds: all or nothing.
    async fn add_hold(
        &mut self,
        hold: &Hold,
        policy_epoch: i64,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError>;

    /// Ends the hold on a prefix, if one is in force, and writes the audit event: both or neither.
    async fn lift_hold(&mut self, prefix: &str, event: &AuditEvent) -> Result<WriteResult, StoreError>;
}

/// The level of the store from the first hold on: see docs/changing.md, "A feature that older binaries must not meet".
pub const HOLD_LEVEL: i32 = 4;

from_row! {
    /// A hold in a row of either database.
    pub(super) struct HoldRow {
        prefix: String,
        created_at: i64,
        actor: String,
        reason: String,
    }
}

impl From<HoldRow> for Hold {
    fn from(row: HoldRow) -> Hold {
        Hold {
            prefix: row.prefix,
            created_at: StoreTime(row.created_at),
            actor: row.actor,
            reason: row.reason,
        }
    }
}

//! The policies in force, and how they are put in force.

use async_trait::async_trait;

use super::{Replica, StoreError, WriteResult};
use crate::domain::{AuditEvent, PolicyVersion, Reading, Span, StoreTime};

/// The policies in force, with their versions.
#[async_trait]
pub trait PolicyBook: Send {
    /// The epoch of the policies in force: it grows with each change by [`PolicyBook::add_policy`] and
    /// [`PolicyBook::put_in_force`]. A caller that reads it and then the policies sees all changes up to it.
    async fn policy_epoch(&mut self) -> Result<i64, StoreError>;

    /// The newest version of every consumer's own policy, by name.
    async fn policies(&mut self) -> Result<Vec<PolicyVersion>, StoreError>;

    /// The versions of one consumer's policy, newest first, below `before`.
    async fn policy_versions(
        &mut self,
        consumer: &str,
        before: i32,
        limit: usize,
    ) -> Result<Vec<PolicyVersion>, StoreError>;

    /// Adds a version of a policy, if it is the next one; puts its retention in force, and writes its audit event: all or
    /// nothing.
    async fn add_policy(
        &mut self,
        policy: &PolicyVersion,
        in_force: &EffectiveRetention,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError>;

    /// The retentions and window floors that were last in force.
    async fn effective_retentions(&mut self) -> Result<(Reading, Vec<EffectiveRetention>), StoreError>;

    /// Puts retentions in force; a window floor never falls. With `seen`, which has one element for each, only those whose stored
    /// value is still the one seen. Returns the number that changed.
    async fn put_in_force(
        &mut self,
        all: &[EffectiveRetention],
        seen: Option<&[EffectiveRetention]>,
    ) -> Result<usize, StoreError>;

    /// Reads the replicas with a heartbeat since this instant that cannot read stored policies of this format.
    async fn replicas_below(
        &mut self,
        format: i32,
        heard_since: StoreTime,
        limit: usize,
    ) -> Result<Vec<Replica>, StoreError>;
}

/// The effective retention of a consumer (or, under the empty name, of the default policy) as it
/// was last put in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveRetention {
    /// The consumer.
    pub consumer: String,
    /// The retention; `None` if the consumer had no own policy.
    pub retention: Option<Span>,
    /// Messages made at or before this instant may have been purged.
    pub window_floor: StoreTime,
}

impl EffectiveRetention {
    /// The value for a consumer without a stored retention.
    #[must_use]
    pub fn nothing(consumer: &str) -> EffectiveRetention {
        EffectiveRetention { consumer: consumer.to_owned(), retention: None, window_floor: StoreTime(0) }
    }
}

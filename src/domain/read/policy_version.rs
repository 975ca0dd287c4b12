//! The versions of policies.

use crate::domain::StoreTime;

/// A version of a consumer's own policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyVersion {
    /// The consumer.
    pub consumer: String,
    /// From 1 on.
    pub version: i32,
    /// The policy as JSON; none: with this version it was deleted.
    pub policy: Option<String>,
    /// When it came into force, by the store's clock.
    pub created_at: StoreTime,
    /// Who brought it, as authenticated.
    pub actor: String,
    /// Why.
    pub reason: String,
}

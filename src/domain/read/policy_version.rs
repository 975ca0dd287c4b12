//! The versions of policies.

use crate::StoreTime;

/// A version of a consumer's own policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyVersion {
    /// The consumer.
    pub consumer: String,
    /// The version, from 1 on.
    pub version: i32,
    /// The policy as JSON; `None` if this version deleted it.
    pub policy: Option<String>,
    /// When it came into force, by the store's clock.
    pub created_at: StoreTime,
    /// The authenticated operator who set it.
    pub actor: String,
    /// The stated reason.
    pub reason: String,
}

//! What a policy said at a grant, as far as the entry goes by it for the rest of that claim's life.

use super::{Entry, OnExpiry, Policy, Span};

/// The terms of a grant. Most grants of a consumer have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The version of the policy.
    pub policy_version: i32,
    /// For how long after the lease nobody else is granted the key.
    pub grace: Span,
    /// For how long the claim may be held, renewals included.
    pub max_hold: Span,
    /// What becomes of the claim when it expires.
    pub on_expiry: OnExpiry,
    /// The retention of what is completed.
    pub retention: Span,
    /// The retention of what has failed for good.
    pub failed_retention: Span,
    /// The retention of what nobody claims any more.
    pub abandoned_retention: Span,
}

impl Terms {
    /// The terms of a grant by this policy.
    #[must_use]
    pub fn of(policy: &Policy) -> Terms {
        Terms {
            policy_version: policy.version,
            grace: policy.reclaim_grace,
            max_hold: policy.max_hold,
            on_expiry: policy.on_expiry,
            retention: policy.retention,
            failed_retention: policy.failed_retention,
            abandoned_retention: policy.abandoned_retention,
        }
    }
}

impl Entry {
    /// The terms of its current or last claim.
    #[must_use]
    pub fn terms(&self) -> Terms {
        Terms {
            policy_version: self.policy_version,
            grace: self.grace,
            max_hold: self.hold_until - self.granted_at,
            on_expiry: self.on_expiry,
            retention: self.retention,
            failed_retention: self.failed_retention,
            abandoned_retention: self.abandoned_retention,
        }
    }
}

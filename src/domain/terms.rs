//! The terms of a grant: what a policy said then, as far as the entry follows it for the rest of that claim's
//! life.

use super::{Entry, OnExpiry, Policy, Span};

/// The terms of a grant. Most grants of a consumer have the same terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The version of the policy.
    pub policy_version: i32,
    /// How long after the lease the key is granted to no other claim.
    pub grace: Span,
    /// For how long the claim may be held, renewals included.
    pub max_hold: Span,
    /// What happens to the claim when it expires.
    pub on_expiry: OnExpiry,
    /// The retention of completed entries.
    pub retention: Span,
    /// The retention of entries that have failed for good.
    pub failed_retention: Span,
    /// The retention of entries that no client claims any more.
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
    /// The terms of the entry's current or last claim.
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

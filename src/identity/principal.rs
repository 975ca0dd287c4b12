//! A principal and its rights.

use super::rights::{Grants, Right, Whose};

/// A principal with its rights.
#[derive(Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name.
    pub principal: Box<str>,
    /// The rights.
    pub grants: Grants,
}

impl Identity {
    /// Whether a right holds.
    #[must_use]
    pub fn may(&self, right: Right, whose: Whose<'_>) -> bool {
        self.grants.allow(right, whose)
    }
}

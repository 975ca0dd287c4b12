//! A principal and its rights.

use super::rights::{Grants, Right, Whose};

/// Whether a character has no place in a name: it ends a line, or turns its direction around, so that the name looks like
/// another one in a log.
pub(super) fn misleads(one: char) -> bool {
    let turns = matches!(one, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    one.is_control() || turns
}

/// Who calls, and what they may do.
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

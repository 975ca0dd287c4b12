//! What the log says of a row that cannot be read.

use crate::domain::UnreadableEntry;

/// Says which row cannot be read, and why.
pub(super) fn log_unreadable(unreadable: &UnreadableEntry) {
    tracing::error!(problem = unreadable.problem, "an entry cannot be read");
}

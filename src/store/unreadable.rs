//! The log line of a row that cannot be read.

use crate::common::log_limit::error_once_a_second;
use crate::domain::UnreadableEntry;

/// Logs which row cannot be read, and why.
pub(crate) fn log_unreadable(unreadable: &UnreadableEntry) {
    let problem = &unreadable.problem;
    error_once_a_second!(problem, "an entry cannot be read");
}

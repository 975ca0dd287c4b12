//! Ids of operators' requests that were not named: the command line's one home of randomness.

use uuid::Uuid;

/// An id that nobody used before.
#[allow(clippy::disallowed_methods, reason = "an operator's own id for a request; it decides nothing")]
pub(super) fn id() -> String {
    Uuid::new_v4().to_string()
}

//! Randomness: its one home. Nothing that is decided depends on it.

use uuid::Uuid;

/// An id that nobody else has.
#[allow(clippy::disallowed_methods, reason = "the one home of randomness")]
pub(crate) fn id() -> Uuid {
    Uuid::new_v4()
}

//! Randomness: its one home. Nothing that is decided depends on it.

use uuid::Uuid;

/// An id that nobody else has.
#[allow(clippy::disallowed_methods, reason = "the one home of randomness")]
pub(crate) fn id() -> Uuid {
    Uuid::new_v4()
}

/// An id that nobody else has and that begins with this machine's time, so that ids of neighbouring instants are
/// neighbours (UUID version 7).
#[allow(clippy::disallowed_methods, reason = "the one home of randomness")]
pub(crate) fn id_with_time() -> Uuid {
    Uuid::now_v7()
}

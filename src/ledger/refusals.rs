//! What the tasks of the ledger refuse with when the store, or a task itself, failed.

use crate::domain::{Reason, Rejection};
use crate::once_a_second::warn_once_a_second;
use crate::store::{Fault, StoreError};

/// The task that had the command died, or was ended, before it answered.
pub(super) fn lost() -> Rejection {
    Rejection::new(
        Reason::OutcomeUnknown,
        "the server can not say whether the call was carried out: repeat the identical request",
    )
}

pub(super) fn store_unavailable() -> Rejection {
    Rejection::new(
        Reason::StoreUnavailable,
        "the store can not be reached, or refuses writes; nothing was changed: try again later",
    )
}

/// A refusal for a read: it changes nothing, so that no outcome is unknown.
pub(super) fn read_failed(error: &StoreError) -> Rejection {
    warn_once_a_second!(%error, "the store failed");
    match error {
        StoreError::NotApplied(Fault::Locked(_)) => Rejection::new(
            Reason::Overloaded,
            "somebody holds this row in the store, and does not let go; nothing was changed: try again later",
        ),
        StoreError::NotApplied(Fault::Permanent(_)) => Rejection::new(
            Reason::Internal,
            "the store refuses this for good; nothing was changed: see the log",
        ),
        StoreError::NotApplied(
            Fault::Unavailable(_)
            | Fault::Conflict(_)
            | Fault::Stale(_)
            | Fault::ClockBehind
            | Fault::Schema(_),
        )
        | StoreError::Unknown(_) => store_unavailable(),
    }
}

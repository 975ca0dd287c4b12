//! The refusals of the ledger's tasks when the store, or a task itself, failed.

use crate::common::log_limit::warn_once_a_second;
use crate::domain::{Reason, Rejection, Violation};
use crate::store::{Fault, StoreError};

/// The task that had the command died, or was ended, before it answered.
pub(super) fn lost() -> Rejection {
    Rejection::new(
        Reason::OutcomeUnknown,
        "the server cannot say whether the call was carried out: repeat the identical request",
    )
}

pub(super) fn store_unavailable() -> Rejection {
    Rejection::new(
        Reason::StoreUnavailable,
        "the store cannot be reached, or refuses writes; nothing was changed: try again later",
    )
}

/// The refusal of a read: it changes nothing, so no outcome is unknown.
pub(super) fn read_failed(error: &StoreError) -> Rejection {
    warn_once_a_second!(%error, "the store failed");
    match error {
        StoreError::NotApplied(Fault::Locked(_)) => Rejection::new(
            Reason::Overloaded,
            "this row is locked by another session of the store; nothing was changed: try again later",
        ),
        StoreError::NotApplied(Fault::Permanent(_)) => Rejection::new(
            Reason::Internal,
            "the store refuses this for good; nothing was changed: see the log",
        ),
        StoreError::NotApplied(
            Fault::Unavailable(_)
            | Fault::TimedOut(_)
            | Fault::Conflict(_)
            | Fault::Stale(_)
            | Fault::ClockBehind
            | Fault::Schema(_)
            | Fault::Outdated(_),
        )
        | StoreError::Unknown(_) => store_unavailable(),
    }
}

pub(super) fn draining() -> Rejection {
    Rejection::new(
        Reason::Draining,
        "this server is shutting down; nothing was changed: try again, another one answers",
    )
}

/// An operator's id, `request_id` or `operation_id`, that belongs to something else.
pub(super) fn used_before(field: &str) -> Rejection {
    Rejection::invalid(vec![Violation {
        field: field.into(),
        description: "was used before for another request: each request needs a new id".into(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read changes nothing: no fault makes its outcome unknown, and only what no repeat can mend is INTERNAL.
    #[test]
    fn failed_read_is_refused_by_its_fault() {
        let text = || "the text of the database".to_owned();
        for (error, reason) in [
            (StoreError::Unknown(text()), Reason::StoreUnavailable),
            (StoreError::NotApplied(Fault::Locked(text())), Reason::Overloaded),
            (StoreError::NotApplied(Fault::Permanent(text())), Reason::Internal),
            (StoreError::NotApplied(Fault::Unavailable(text())), Reason::StoreUnavailable),
            (StoreError::NotApplied(Fault::TimedOut(text())), Reason::StoreUnavailable),
            (StoreError::NotApplied(Fault::Conflict(text())), Reason::StoreUnavailable),
            (StoreError::NotApplied(Fault::Stale(text())), Reason::StoreUnavailable),
            (StoreError::NotApplied(Fault::ClockBehind), Reason::StoreUnavailable),
            (StoreError::NotApplied(Fault::Schema(text())), Reason::StoreUnavailable),
            (StoreError::NotApplied(Fault::Outdated(text())), Reason::StoreUnavailable),
        ] {
            let refused = read_failed(&error);
            assert_eq!(refused.reason, reason, "{error:?}");
            assert!(refused.message.contains("nothing was changed"), "{refused:?}");
            assert!(!refused.message.contains("text of the database"), "{refused:?}");
        }
    }
}

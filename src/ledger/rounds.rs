//! Looking, deciding and writing, until nobody came in between.

use crate::common::crash;
use crate::domain::{Reason, Rejection};
use crate::store::{Fault, StoreError, WriteResult};

/// How often an operator's change may lose against others before it is refused.
pub(super) const ROUNDS_MAX: usize = 8;

/// Whether a write was done; else somebody came in between, with this very request or with another: look again.
///
/// # Errors
/// Those of the store.
pub(super) async fn done(
    write: impl Future<Output = Result<WriteResult, StoreError>>,
) -> Result<bool, StoreError> {
    match crash::around(write).await {
        Ok(WriteResult::Done) => Ok(true),
        Ok(WriteResult::Lost | WriteResult::Repeated) | Err(StoreError::NotApplied(Fault::Conflict(_))) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The refusal after too many rounds; `who` fights over `what`.
pub(super) fn contended(who: &str, what: &str) -> Rejection {
    Rejection::new(
        Reason::Overloaded,
        format!("too many {who} {what} at once; nothing was changed: try again later"),
    )
}

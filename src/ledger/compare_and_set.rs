//! The compare-and-set loop of an operator's change: look, decide and write, until no other writer intervened.

use crate::common::crash;
use crate::domain::{Reason, Rejection};
use crate::store::{Fault, StoreError, WriteResult};

/// How often an operator's change may lose a race before it is refused.
pub(super) const ROUNDS_MAX: usize = 8;

/// Whether a write was done; `false` if another writer intervened, with the same request or with another one: look again.
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

/// The refusal after too many rounds: too many of `who` compete for `what`.
pub(super) fn contended(who: &str, what: &str) -> Rejection {
    Rejection::new(
        Reason::Overloaded,
        format!("too many {who} {what} concurrently; nothing was changed: try again later"),
    )
}

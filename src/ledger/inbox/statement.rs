//! Sends a statement of the inbox with a timeout, and counts it.

use std::time::Duration;

use crate::common::crash;
use crate::ledger::claims::shared::Shared;
use crate::ledger::runtime::timeout;
use crate::metrics::Statement;
use crate::store::{Fault, StoreError};

/// How long a statement may take before its connection is given up: longer than the store's own statement timeout.
const WITHIN: Duration = Duration::from_secs(3);

/// Whether a session cannot be used any more after this error of a statement, or is with a store that refuses writes: a new session
/// may be with another one.
pub(super) fn ends_session(error: &StoreError) -> bool {
    matches!(error, StoreError::Unknown(_) | StoreError::NotApplied(Fault::Stale(_) | Fault::Unavailable(_)))
}

/// Carries out a statement of the inbox on this number of rows, and counts it.
pub(super) async fn within<T>(
    shared: &Shared,
    (name, rows): (Statement, usize),
    statement: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    shared.outdated.check()?;
    let sent = std::time::Instant::now();
    let done = crash::around(timeout(WITHIN, statement)).await;
    shared.metrics.work().sent(name, rows, sent.elapsed());
    let done = done.unwrap_or_else(|_| Err(StoreError::Unknown(format!("no answer within {WITHIN:?}"))));
    if let Err(error) = &done {
        shared.outdated.notice(error);
    }
    done
}

//! Sends a statement of claims and settlements with a timeout, and counts it.

use std::time::Duration;

use crate::common::crash;
use crate::ledger::claims::shared::Shared;
use crate::ledger::runtime::timeout;
use crate::metrics::Statement;
use crate::store::{Fault, StoreError};
use crate::traces::BatchSpan;

/// How long a statement may take before its connection is given up. Longer than the store's own statement timeout (2 s): where
/// that one ends a statement, it is certain that nothing was written; after this one the outcome is unknown.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(3);

/// Carries out a statement on this number of rows. Gives up a statement that is not answered, and its connection; whether it
/// was applied is unknown. A server that is behind the schema fence sends no statement.
pub(in crate::ledger::claims) async fn within<T>(
    shared: &Shared,
    batch: &BatchSpan,
    (name, rows): (Statement, usize),
    statement: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    shared.outdated.check()?;
    shared.last_response.sent();
    let mut span = batch.statement(name.name(), rows);
    let sent = std::time::Instant::now();
    let done = crash::around(timeout(STATEMENT_TIMEOUT, statement)).await;
    shared.metrics.work().sent(name, rows, sent.elapsed());
    let done = match done {
        Ok(done) => {
            match &done {
                Err(StoreError::Unknown(_)) => {}
                Err(error) => {
                    shared.last_response.answered();
                    shared.outdated.notice(error);
                }
                Ok(_) => shared.last_response.answered(),
            }
            done
        }
        Err(_) => Err(StoreError::Unknown(format!("no answer within {STATEMENT_TIMEOUT:?}"))),
    };
    if let Err(error) = &done {
        shared.metrics.work().failed(name, kind(error));
        span.failed(kind(error));
    }
    done
}

/// The label of metrics and traces.
fn kind(error: &StoreError) -> &'static str {
    match error {
        StoreError::Unknown(_) => "unknown",
        StoreError::NotApplied(fault) => match fault {
            Fault::Unavailable(_) => "unavailable",
            Fault::TimedOut(_) => "timed_out",
            Fault::Conflict(_) => "conflict",
            Fault::Locked(_) => "locked",
            Fault::Permanent(_) => "permanent",
            Fault::Stale(_) => "stale",
            Fault::ClockBehind => "clock_behind",
            Fault::Schema(_) => "schema",
            Fault::Outdated(_) => "outdated",
        },
    }
}

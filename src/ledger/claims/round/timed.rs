//! A statement of claims and settlements on its way: given up when it takes too long, and counted.

use std::time::Duration;

use crate::common::crash;
use crate::ledger::claims::shared::Shared;
use crate::ledger::runtime::timeout;
use crate::metrics::Statement;
use crate::store::{Fault, StoreError};
use crate::traces::BatchSpan;

/// How long a statement may take before its connection is given up. Longer than the server's own
/// statement timeout, which is certain.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(3);

/// Carries out a statement on so many rows. One that does not answer is given up with its connection; whether it was
/// applied is unknown. An outdated server sends none.
pub(in crate::ledger::claims) async fn within<T>(
    shared: &Shared,
    batch: &BatchSpan,
    (name, rows): (Statement, usize),
    statement: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    shared.outdated.check()?;
    shared.pulse.sent();
    let mut span = batch.statement(name.name(), rows);
    let sent = std::time::Instant::now();
    let done = crash::around(timeout(STATEMENT_TIMEOUT, statement)).await;
    shared.metrics.work().sent(name, rows, sent.elapsed());
    let done = match done {
        Ok(done) => {
            match &done {
                Err(StoreError::Unknown(_)) => {}
                Err(error) => {
                    shared.pulse.answered();
                    shared.outdated.notice(error);
                }
                Ok(_) => shared.pulse.answered(),
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

/// As metrics and traces call it.
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

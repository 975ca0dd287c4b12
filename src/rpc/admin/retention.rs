//! `GetRetentionStatus`: how the purge keeps up.

use crate::domain::{PurgeWorker, Rejection, Span};
use crate::ledger::Operators;
use crate::proto;
use crate::wire::words::{duration, timestamp};

/// The count of due entries stops here. Each may be on a page that is read to see whether it is visible: counting up to 100,000
/// touched 83,958 pages of a table of 20 million rows that was not vacuumed (`tests/prove rows`).
const DUE_MAX: usize = 10_000;

pub(super) async fn status(operators: &Operators) -> Result<proto::GetRetentionStatusResponse, Rejection> {
    let (reading, status) = operators.retention(DUE_MAX + 1).await?;
    let waits = status.oldest.map(|oldest| (reading.now - oldest).max(Span::ZERO));
    Ok(proto::GetRetentionStatusResponse {
        due: i64::try_from(status.due.min(DUE_MAX)).unwrap_or(i64::MAX),
        due_is_lower_bound: status.due > DUE_MAX,
        oldest_due_age: waits.map(duration),
        falling_behind: waits.is_some_and(|waits| waits > operators.purge_behind_after()),
        workers: status.workers.into_iter().map(worker).collect(),
        as_of: Some(timestamp(reading.now)),
    })
}

fn worker(worker: PurgeWorker) -> proto::PurgeWorker {
    proto::PurgeWorker {
        replica: worker.replica.to_string(),
        last_run_at: Some(timestamp(worker.last_run_at)),
        purged_per_second: worker.purged_per_second,
        purged_total: worker.purged_total,
        last_error: worker.last_error.unwrap_or_default(),
        last_error_at: worker.last_error_at.map(timestamp),
    }
}

//! Adds claims that have been open for a minute to the index in which operators look for entries that are not COMPLETED: on a
//! separate connection, so that neither the purge nor a long list delays it.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::ledger::runtime::{Instant, sleep, timeout};
use crate::ledger::tasks::opened;
use crate::store::{Purpose, Session, Store};

/// Interval while it keeps up.
const EVERY: Duration = Duration::from_secs(10);
/// Number of claims of one batch.
const AT_ONCE: usize = 5_000;
/// Pause after a batch, as a multiple of the time that it took.
const REST_FACTOR: u32 = 3;
const WITHIN: Duration = Duration::from_secs(30);

pub(crate) async fn run(store: Arc<dyn Store>, stop: CancellationToken) {
    let mut session: Option<Box<dyn Session>> = None;
    let mut rest = Duration::ZERO;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(rest) => {}
        }
        let started = Instant::now();
        let work = async {
            opened(&*store, Purpose::OpenClaims, &mut session)
                .await?
                .upkeep()
                .index_open_claims(AT_ONCE)
                .await
        };
        rest = match timeout(WITHIN, work).await {
            Ok(Ok(looked_at)) if looked_at >= AT_ONCE => started.elapsed() * REST_FACTOR,
            Ok(Ok(_)) => EVERY,
            failed => {
                if let Ok(Err(error)) = failed {
                    tracing::warn!(%error, "open claims could not be marked; lists and summaries take longer until they are");
                }
                session = None;
                EVERY
            }
        };
    }
}

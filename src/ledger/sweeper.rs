//! The purge: forgets entries whose retention is over, in bounded batches, throttled, on a
//! connection of its own. Several replicas may sweep at once: each deletion repeats its condition.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Shared;
use super::rt::{Instant, sleep, timeout};
use super::rules::Rules;
use crate::domain::{Sweep, sweep};
use crate::store::{Session, StoreError};

/// How the purge works.
#[derive(Clone, Copy, Debug)]
pub struct SweepOptions {
    /// How often the purge looks when nothing was due.
    pub every: Duration,
    /// How many entries it looks at in one batch.
    pub batch: usize,
    /// After a batch that took t it rests for this many times t.
    pub rest_factor: u32,
}

impl Default for SweepOptions {
    fn default() -> SweepOptions {
        SweepOptions { every: Duration::from_secs(10), batch: 500, rest_factor: 3 }
    }
}

/// How many claims are looked at in one batch, whether they are still open.
const MARKS_AT_ONCE: usize = 5_000;
const BATCH_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) async fn run(shared: Shared, options: SweepOptions, stop: CancellationToken) {
    let mut open: Option<Open> = None;
    let mut rest = Duration::ZERO;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(rest) => {}
        }
        let started = Instant::now();
        let done = timeout(BATCH_TIMEOUT, batch(&shared, &mut open, options.batch)).await;
        rest = match done {
            Ok(Ok(looked_at)) if looked_at >= options.batch => started.elapsed() * options.rest_factor,
            Ok(Ok(_)) => options.every,
            failed => {
                if let Ok(Err(error)) = failed {
                    tracing::warn!(%error, "the purge failed; it goes on later");
                }
                open = None;
                options.every
            }
        };
    }
}

/// The connection, and the rules that were read by it. They go together: another database may stand behind
/// the next one, where the same number means something else.
struct Open {
    session: Box<dyn Session>,
    rules: Rules,
}

impl Open {
    async fn new(shared: &Shared) -> Result<Open, StoreError> {
        let mut session = shared.store.open().await?;
        let rules = Rules::read(&shared.policies.file, &mut *session).await?;
        Ok(Open { session, rules })
    }
}

/// One batch; says how many entries were looked at. Claims that have been open for a minute are put where
/// operators look for them.
async fn batch(shared: &Shared, open: &mut Option<Open>, limit: usize) -> Result<usize, StoreError> {
    if open.is_none() {
        *open = Some(Open::new(shared).await?);
    }
    let Some(Open { session, rules }) = open else { return Ok(0) };
    if session.rules().await? != rules.number {
        *rules = Rules::read(&shared.policies.file, &mut **session).await?;
    }
    let (reading, entries) = session.due(limit).await?;
    let (mut over, mut later) = (Vec::new(), Vec::new());
    for entry in &entries {
        let policy = rules.of(entry.key.consumer());
        match sweep(entry, &policy, reading.now, reading.token_clock()) {
            Sweep::Purge => over.push((entry.key.hash(), entry.version)),
            Sweep::LookAgain(at) => later.push((entry.key.hash(), entry.version, at)),
        }
    }
    over.sort_unstable();
    later.sort_unstable();
    if !later.is_empty() {
        session.look_again(&later).await?;
    }
    if !over.is_empty() && !reading.behind() {
        let purged = session.purge(&over, rules.number).await?;
        tracing::info!(purged, "entries forgotten after their retention");
    }
    let marked = session.mark_open(MARKS_AT_ONCE).await?;
    // There may be more of either.
    Ok(if marked >= MARKS_AT_ONCE { limit } else { entries.len() })
}

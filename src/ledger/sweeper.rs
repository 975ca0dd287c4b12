//! The purge: forgets entries and audit events whose retention is over, in bounded batches, throttled, on a
//! connection of its own. Several replicas may sweep at once: each deletion repeats its condition.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Shared;
use super::rt::{Instant, sleep, timeout};
use super::rules::Rules;
use super::worklog::{Worklog, words};
use crate::chance;
use crate::domain::{Span, Sweep, sweep};
use crate::store::{Fault, Session, StoreError};

/// How the purge works.
#[derive(Clone, Copy, Debug)]
pub struct SweepOptions {
    /// How often the purge looks when nothing was due.
    pub every: Duration,
    /// How many entries it looks at in one batch.
    pub batch: usize,
    /// After a batch that took t it rests for this many times t.
    pub rest_factor: u32,
    /// For how long audit events are kept.
    pub audit_retention: Duration,
}

impl Default for SweepOptions {
    fn default() -> SweepOptions {
        SweepOptions {
            every: Duration::from_secs(10),
            batch: 500,
            rest_factor: 3,
            audit_retention: Duration::from_hours(365 * 24),
        }
    }
}

/// How many claims are looked at in one batch, whether they are still open.
const MARKS_AT_ONCE: usize = 5_000;
/// How many audit events go with one batch.
const AUDIT_BATCH: usize = 500;
const BATCH_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) async fn run(shared: Shared, options: SweepOptions, stop: CancellationToken) {
    let mut open: Option<Open> = None;
    let mut log = Worklog::new(chance::id(), options.every);
    let mut rest = Duration::ZERO;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(rest) => {}
        }
        let started = Instant::now();
        let done = timeout(BATCH_TIMEOUT, batch(&shared, &mut open, &mut log, &options)).await;
        let problem = match done {
            Ok(Ok(Batch::More)) => {
                rest = started.elapsed() * options.rest_factor;
                continue;
            }
            Ok(Ok(Batch::Last)) => None,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the purge failed; it goes on later");
                Some(words(&error))
            }
            Err(_) => Some("the store did not answer in time"),
        };
        if let Some(problem) = problem {
            log.failed(problem, Instant::now());
            open = None;
        }
        rest = options.every;
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

/// What is to be expected after a batch.
enum Batch {
    /// More may be due.
    More,
    /// Nothing more is due, or nothing can be done about it now.
    Last,
}

/// Claims that have been open for a minute are put where operators look for them, too.
async fn batch(
    shared: &Shared,
    open: &mut Option<Open>,
    log: &mut Worklog,
    options: &SweepOptions,
) -> Result<Batch, StoreError> {
    if open.is_none() {
        *open = Some(Open::new(shared).await?);
    }
    let Some(Open { session, rules }) = open else { return Ok(Batch::Last) };
    if session.rules().await? != rules.number {
        *rules = Rules::read(&shared.policies.file, &mut **session).await?;
    }
    let (reading, entries) = session.due(options.batch).await?;
    log.waited(entries.first().map(|entry| entry.sweep_at), reading.now);
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
    let mut done = 0;
    if !later.is_empty() {
        done += session.look_again(&later).await?;
    }
    if !over.is_empty() && reading.behind() {
        log.failed(words(&StoreError::NotApplied(Fault::ClockBehind)), Instant::now());
    } else if !over.is_empty() {
        let purged = session.purge(&over, rules.number).await?;
        tracing::info!(purged, "entries forgotten after their retention");
        log.purged(purged, Instant::now());
        done += purged;
    }
    let marked = session.mark_open(MARKS_AT_ONCE).await?;
    // No policy speaks of them, and no message comes back for them.
    let events = if reading.behind() {
        0
    } else {
        let before = reading.now - Span::from_std(options.audit_retention);
        session.purge_audit(before, AUDIT_BATCH).await?
    };
    if events > 0 {
        tracing::info!(events, "audit events forgotten after their retention");
    }
    if let Some(report) = log.report(reading.now, Instant::now()) {
        session.report_purge(&report).await?;
    }
    // Where nothing moved the same entries would only come again.
    let more =
        (entries.len() >= options.batch && done > 0) || events >= AUDIT_BATCH || marked >= MARKS_AT_ONCE;
    Ok(if more { Batch::More } else { Batch::Last })
}

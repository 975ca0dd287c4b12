//! The purge: forgets entries and audit events whose retention is over, in bounded batches, throttled, on a
//! connection of its own. Several replicas may purge at once: each deletion repeats its condition.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::purge_report::{PurgeReport, words};
use crate::domain::{Purge, Span, purge};
use crate::ledger::claims::shared::Shared;
use crate::ledger::policies::purge_view::PurgeView;
use crate::ledger::runtime::{Instant, sleep, timeout};
use crate::once_a_second::warn_once_a_second;
use crate::store::{Fault, Purpose, Session, StoreError};

/// How the purge works.
#[derive(Clone, Copy, Debug)]
pub struct PurgeOptions {
    /// How often the purge looks when nothing was due.
    pub every: Duration,
    /// How many entries it looks at in one batch.
    pub batch: usize,
    /// After a batch that took t it rests for this many times t.
    pub rest_factor: u32,
    /// For how long audit events are kept.
    pub audit_retention: Duration,
}

impl Default for PurgeOptions {
    fn default() -> PurgeOptions {
        PurgeOptions {
            every: Duration::from_secs(10),
            batch: 500,
            rest_factor: 3,
            audit_retention: Duration::from_hours(365 * 24),
        }
    }
}

/// How many audit events go with one batch.
const AUDIT_BATCH: usize = 500;
const BATCH_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn run(shared: Shared, options: PurgeOptions, stop: CancellationToken) {
    let mut open: Option<Open> = None;
    let mut log = PurgeReport::new(shared.replica.id, options.every);
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
            Ok(Ok(Outlook::More)) => {
                rest = started.elapsed() * options.rest_factor;
                continue;
            }
            Ok(Ok(Outlook::Last)) => None,
            Ok(Err(error)) => {
                warn_once_a_second!(%error, "the purge failed; it goes on later");
                Some(words(&error))
            }
            Err(_) => Some("the store did not answer in time"),
        };
        if let Some(problem) = problem {
            log.failed(problem, Instant::now());
            // Whoever asks is told now, not when it works again.
            open = match timeout(BATCH_TIMEOUT, report_failure(&shared, &mut log)).await {
                Ok(Ok(fresh)) => Some(fresh),
                Ok(Err(_)) | Err(_) => None,
            };
        }
        rest = options.every;
    }
}

/// The connection, and the policies that were read by it. They go together: another database may stand behind
/// the next one, where the same number means something else.
struct Open {
    session: Box<dyn Session>,
    view: PurgeView,
}

impl Open {
    async fn new(shared: &Shared) -> Result<Open, StoreError> {
        let mut session = shared.store.open(Purpose::Purge).await?;
        let view = PurgeView::read(&shared.policies.file, &mut *session).await?;
        Ok(Open { session, view })
    }
}

/// Tells the store what went wrong, by a new connection.
async fn report_failure(shared: &Shared, log: &mut PurgeReport) -> Result<Open, StoreError> {
    let mut open = Open::new(shared).await?;
    let now = open.session.entries().load(&[]).await?.reading.now;
    if let Some(report) = log.report(now, Instant::now()) {
        open.session.upkeep().report_purge(&report).await?;
    }
    Ok(open)
}

/// What is to be expected after a batch.
enum Outlook {
    /// More may be due.
    More,
    /// Nothing more is due, or nothing can be done about it now.
    Last,
}

async fn batch(
    shared: &Shared,
    open: &mut Option<Open>,
    log: &mut PurgeReport,
    options: &PurgeOptions,
) -> Result<Outlook, StoreError> {
    if open.is_none() {
        *open = Some(Open::new(shared).await?);
    }
    let Some(Open { session, view }) = open else { return Ok(Outlook::Last) };
    if session.policy_book().policy_epoch().await? != view.epoch {
        *view = PurgeView::read(&shared.policies.file, &mut **session).await?;
    }
    let (reading, entries) = session.upkeep().due(options.batch).await?;
    log.waited(entries.first().map(|entry| entry.purge_at), reading.now);
    let (mut over, mut later) = (Vec::new(), Vec::new());
    for entry in &entries {
        let policy = view.of(entry.key.consumer());
        match purge(entry, &policy, reading.now, reading.token_clock()) {
            Purge::Forget => over.push((entry.key.hash(), entry.version)),
            Purge::LookAgain(at) => later.push((entry.key.hash(), entry.version, at)),
        }
    }
    over.sort_unstable();
    later.sort_unstable();
    let (mut done, mut left) = (0, Vec::new());
    done += in_parts(&mut **session, &later, &mut left, |session, part| session.upkeep().look_again(part))
        .await?;
    if !over.is_empty() && reading.behind() {
        left.push(StoreError::NotApplied(Fault::ClockBehind));
    } else if !over.is_empty() {
        let epoch = view.epoch;
        let purged =
            in_parts(&mut **session, &over, &mut left, |session, part| session.upkeep().purge(part, epoch))
                .await?;
        tracing::info!(purged, "entries forgotten after their retention");
        log.purged(purged, Instant::now());
        done += purged;
    }
    if let Some(error) = left.first() {
        warn_once_a_second!(%error, entries = left.len(), "entries were left for the next round");
        log.failed(words(error), Instant::now());
    }
    // No policy speaks of them, and no message comes back for them.
    let events = if reading.behind() {
        0
    } else {
        let before = reading.now - Span::from_std(options.audit_retention);
        session.upkeep().purge_audit(before, AUDIT_BATCH).await?
    };
    if events > 0 {
        tracing::info!(events, "audit events forgotten after their retention");
    }
    if let Some(report) = log.report(reading.now, Instant::now()) {
        session.upkeep().report_purge(&report).await?;
    }
    // Where nothing moved the same entries would only come again.
    let more = (entries.len() >= options.batch && done > 0) || events >= AUDIT_BATCH;
    Ok(if more { Outlook::More } else { Outlook::Last })
}

/// Does what it can: a row that somebody holds, or that the store refuses, is found by halving, and left for
/// the next round, so that it keeps no other waiting.
async fn in_parts<T, F>(
    session: &mut dyn Session,
    rows: &[T],
    left: &mut Vec<StoreError>,
    act: F,
) -> Result<usize, StoreError>
where
    F: for<'s> Fn(&'s mut dyn Session, &'s [T]) -> BoxFuture<'s, Result<usize, StoreError>>,
{
    let (mut done, mut parts) = (0, vec![rows]);
    while let Some(part) = parts.pop() {
        if part.is_empty() {
            continue;
        }
        match act(session, part).await {
            Ok(number) => done += number,
            Err(StoreError::NotApplied(Fault::Locked(_) | Fault::Permanent(_))) if part.len() > 1 => {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second, first]);
            }
            Err(error @ StoreError::NotApplied(Fault::Locked(_) | Fault::Permanent(_))) => left.push(error),
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

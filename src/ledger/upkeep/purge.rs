//! The purge: deletes entries and audit events whose retention is over, in bounded batches, on a separate connection.
//!
//! Servers take turns, consumer by consumer. In a turn the purge goes through the consumer's entries in the order of their
//! creation, and checks each as soon as it can be over: nearly all are. The entries that it leaves (closed late, under longer
//! retention, or waiting for a person) it checks again, a batch now and then, from the first one on. Two servers in one turn
//! would do no harm: a deletion checks again that neither the entry nor the policies have changed since it was judged.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::erase::Erasure;
use super::purge_report::{PurgeReport, words};
use super::purge_turn::{Batch, Next, Stage, Turn};
use crate::common::log_limit::warn_once_a_second;
use crate::domain::{Doubt, Namespace, Span, StoreTime, is_over, is_over_with_its_run, left_alone};
use crate::ledger::claims::shared::Shared;
use crate::ledger::policies::purge_view::PurgeView;
use crate::ledger::runtime::{Instant, sleep, timeout};
use crate::store::{Created, Fault, PurgeTurn, Purpose, Session, StoreError};

/// How the purge works.
#[derive(Clone, Copy, Debug)]
pub struct PurgeOptions {
    /// How often the purge looks for consumers that are due, and how soon a consumer's next turn is due, whichever server takes
    /// it.
    pub every: Duration,
    /// Maximum number of entries of one batch.
    pub batch: usize,
    /// Pause after a batch while it keeps up, as a multiple of the time that the batch took.
    pub rest_factor: u32,
    /// How long audit events are kept.
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

/// Number of audit events that are deleted with one batch.
const AUDIT_BATCH: usize = 500;
const BATCH_TIMEOUT: Duration = Duration::from_secs(30);
/// A turn is leased for longer than a turn and its last batch can take.
const HOLD: Span = Span::from_secs(60);
/// How soon it checks again whether the policy of a consumer can be read.
const IN_DOUBT: Span = Span::from_secs(600);
/// The purge is late once an entry has waited this long: then it rests only while claims or settlements are served.
const LATE: Span = Span::from_secs(60);
/// Pause of a late purge, as a multiple of the time that its batch took. Under full load it then deletes a fifth more entries
/// than are written, and leaves claims seven tenths of their rate (docs/performance.md, P9; `tests/prove speed`).
const YIELD: f64 = 0.4;

pub(crate) async fn run(shared: Shared, options: PurgeOptions, stop: CancellationToken) {
    let log = PurgeReport::new(shared.replica.id, options.every, shared.metrics.clone());
    let mut purger = Purger { shared, options, open: None, turn: None, log, erasure: Erasure::default() };
    let mut rest = Duration::ZERO;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(rest) => {}
        }
        let (started, sent) = (Instant::now(), purger.shared.last_response.count());
        let problem = match timeout(BATCH_TIMEOUT, purger.step()).await {
            Ok(Ok(pace)) => {
                let beside_claims = purger.shared.last_response.count() > sent;
                rest = pace.rest(started.elapsed(), beside_claims, &purger.options);
                continue;
            }
            Ok(Err(error)) => {
                warn_once_a_second!(%error, "the purge failed; it goes on later");
                words(&error)
            }
            Err(_) => "the store did not answer in time",
        };
        purger.log.failed(problem, Instant::now());
        // Reports it now, and not when the purge works again.
        purger.open = match timeout(BATCH_TIMEOUT, purger.report_failure()).await {
            Ok(Ok(fresh)) => Some(fresh),
            Ok(Err(_)) | Err(_) => None,
        };
        rest = purger.options.every;
    }
}

struct Purger {
    shared: Shared,
    options: PurgeOptions,
    open: Option<Open>,
    /// The current turn: it outlives a connection that fails, and goes on where it was.
    turn: Option<(PurgeTurn, Turn)>,
    log: PurgeReport,
    erasure: Erasure,
}

/// The connection, and the policies read on it. They belong together: the next connection may lead to another database, where
/// the same epoch means something else.
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

/// How soon the next step follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStep {
    /// Entries have waited too long: immediately, or nearly so.
    Late,
    /// After a pause.
    KeepsUp,
    /// No consumer is due.
    Idle,
}

impl NextStep {
    /// The pause after a step that took this long, with or without concurrent claims and settlements.
    fn rest(self, took: Duration, beside_claims: bool, options: &PurgeOptions) -> Duration {
        match self {
            NextStep::Late if beside_claims => took.mul_f64(YIELD),
            NextStep::Late => Duration::ZERO,
            NextStep::KeepsUp => took * options.rest_factor,
            NextStep::Idle => options.every,
        }
    }
}

/// The result of deleting the entries of a batch that were over.
#[derive(Default)]
struct Forgotten {
    purged: usize,
    /// Whether some could not be deleted.
    left: bool,
}

impl Purger {
    /// Carries out one batch of a turn, or the work between two turns.
    async fn step(&mut self) -> Result<NextStep, StoreError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => Open::new(&self.shared).await?,
        };
        let Open { session, view } = &mut open;
        if session.policy_book().policy_epoch().await? != view.epoch {
            *view = PurgeView::read(&self.shared.policies.file, &mut **session).await?;
        }
        let pace = match self.turn.clone() {
            Some((taken, turn)) => self.go_on(&mut **session, view, taken, turn).await?,
            None => self.between_turns(&mut **session).await?,
        };
        self.open = Some(open);
        Ok(pace)
    }

    async fn between_turns(&mut self, session: &mut dyn Session) -> Result<NextStep, StoreError> {
        let taken = session.upkeep().take_purge_turn(HOLD).await?;
        let reading = match &taken {
            Some(taken) => taken.taken,
            None => session.entries().load(&[]).await?.reading,
        };
        self.turn = taken.map(|taken| (taken.clone(), Turn::begin(&taken)));
        // Audit events depend on no policy, and no message is granted again without them.
        let events = if reading.is_sound() {
            let before = reading.now - Span::from_std(self.options.audit_retention);
            session.upkeep().purge_audit(before, AUDIT_BATCH).await?
        } else {
            0
        };
        if events > 0 {
            tracing::info!(events, "audit events forgotten after their retention");
        }
        let erases =
            reading.is_sound() && self.erasure.step(session, &self.shared.metrics, reading.now).await?;
        if self.turn.is_none() {
            self.log.idle();
        }
        self.report(session, reading.now).await?;
        Ok(if self.turn.is_none() && events < AUDIT_BATCH && !erases {
            NextStep::Idle
        } else {
            NextStep::KeepsUp
        })
    }

    async fn go_on(
        &mut self,
        session: &mut dyn Session,
        view: &PurgeView,
        mut taken: PurgeTurn,
        mut turn: Turn,
    ) -> Result<NextStep, StoreError> {
        let started = Instant::now();
        let every = Span::from_std(self.options.every);
        let namespace = Namespace::stored(&taken.consumer);
        let policy = view.of(namespace.consumer());
        if policy.doubt != Doubt::None {
            // The policy cannot be read, so the retention of the entries is not known.
            self.end(session, &taken, taken.taken.now + IN_DOUBT).await?;
            return Ok(NextStep::KeepsUp);
        }
        let left_alone = left_alone(policy.retention);
        let (after, until) = turn.range(left_alone);
        let batch = self.options.batch;
        let found = session.upkeep().created_between(&taken, after, until, batch).await?;
        let now = found.reading.now;
        let first = turn.stage == Stage::First;
        let waits = found.entries.first().filter(|_| first);
        let waits = waits.map_or(Span::ZERO, |entry| now - (entry.created_at + left_alone));
        self.log.waited(waits);
        let next = match self.forget(session, view, &found).await? {
            None => Next::End,
            Some(Forgotten { purged, left }) => {
                let last = found.last.filter(|_| found.count >= batch);
                let kept = found.count > purged;
                turn.pass(until, Batch { last, kept, left, took: started.elapsed(), now }, every)
            }
        };
        taken.place = turn.place();
        match next {
            Next::Batch => self.turn = Some((taken, turn)),
            Next::EndInTheMiddle => self.end(session, &taken, now).await?,
            Next::End => {
                let created = session.upkeep().first_created_after(&taken, taken.place.passed).await?;
                self.sweep(session, view, &taken, &namespace, now).await?;
                self.end(session, &taken, turn.due(created, left_alone, every)).await?;
            }
        }
        self.report(session, now).await?;
        Ok(if waits > LATE { NextStep::Late } else { NextStep::KeepsUp })
    }

    /// Records that a past run has no entries any more.
    async fn sweep(
        &mut self,
        session: &mut dyn Session,
        view: &PurgeView,
        taken: &PurgeTurn,
        run: &Namespace,
        now: StoreTime,
    ) -> Result<(), StoreError> {
        let past = view.run_taken_from(run).is_some_and(|from| from <= now);
        if past && session.upkeep().first_created_after(taken, StoreTime(0)).await?.is_none() {
            session.replay_book().sweep_replay_run(run.consumer(), run.replay_run(), now).await?;
            tracing::info!(
                consumer = run.consumer(),
                replay_run = run.replay_run(),
                "a replay run has no entries any more"
            );
        }
        Ok(())
    }

    async fn end(
        &mut self,
        session: &mut dyn Session,
        taken: &PurgeTurn,
        due: StoreTime,
    ) -> Result<(), StoreError> {
        session.upkeep().end_purge_turn(taken, due).await?;
        self.turn = None;
        Ok(())
    }

    /// Deletes the entries of a batch that are over; `None` if nothing can be deleted now.
    async fn forget(
        &mut self,
        session: &mut dyn Session,
        view: &PurgeView,
        found: &Created,
    ) -> Result<Option<Forgotten>, StoreError> {
        let Created { reading, entries, .. } = found;
        let mut over: Vec<_> = entries
            .iter()
            .filter(|entry| {
                // The entry has the consumer: the turn may be one of another database, before a failover.
                let policy = view.of(entry.key.consumer());
                let (now, token_clock) = (reading.now, reading.token_clock());
                let with_run = view.run_taken_from(entry.key.namespace());
                is_over(entry, &policy, now, token_clock)
                    || with_run.is_some_and(|from| is_over_with_its_run(entry, from, now, token_clock))
            })
            .map(|entry| (entry.key.hash(), entry.version))
            .collect();
        over.sort_unstable();
        if over.is_empty() {
            return Ok(Some(Forgotten::default()));
        }
        if !reading.is_sound() {
            self.left(&StoreError::NotApplied(Fault::ClockBehind), over.len());
            return Ok(None);
        }
        let (epoch, mut left) = (view.epoch, Vec::new());
        let purged =
            in_parts(session, &over, &mut left, |session, part| session.upkeep().purge(part, epoch)).await?;
        self.log.purged(purged, Instant::now());
        if let Some(error) = left.first() {
            self.left(error, left.len());
            return Ok(Some(Forgotten { purged, left: true }));
        }
        // The entries were judged by policies that are not in force any more.
        let judged_anew = purged < over.len() && session.policy_book().policy_epoch().await? != epoch;
        Ok((!judged_anew).then_some(Forgotten { purged, left: false }))
    }

    fn left(&mut self, error: &StoreError, entries: usize) {
        warn_once_a_second!(%error, entries, "entries were left for a later round");
        self.log.failed(words(error), Instant::now());
    }

    async fn report(&mut self, session: &mut dyn Session, now: StoreTime) -> Result<(), StoreError> {
        if let Some(report) = self.log.report(now, Instant::now()) {
            session.upkeep().report_purge(&report).await?;
        }
        Ok(())
    }

    /// Reports the failure to the store, on a new connection.
    async fn report_failure(&mut self) -> Result<Open, StoreError> {
        let mut open = Open::new(&self.shared).await?;
        let now = open.session.entries().load(&[]).await?.reading.now;
        self.report(&mut *open.session, now).await?;
        Ok(open)
    }
}

/// Does as much as possible: a row that is locked, or that the store refuses, is found by halving and left for the next round,
/// so that it delays no other row.
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

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn it_rests_while_it_keeps_up_and_yields_to_claims_where_it_is_late() {
        let options = PurgeOptions::default();
        for (pace, beside_claims, rest_ms) in [
            (NextStep::Late, false, 0),
            (NextStep::Late, true, 40),
            (NextStep::KeepsUp, false, 300),
            (NextStep::KeepsUp, true, 300),
            (NextStep::Idle, true, 10_000),
        ] {
            let rest = pace.rest(Duration::from_millis(100), beside_claims, &options);
            assert_eq!(rest, Duration::from_millis(rest_ms), "{pace:?}, {beside_claims}");
        }
    }
}

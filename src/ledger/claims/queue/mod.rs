//! The queue of commands that wait for a worker, and its rules:
//!
//! | question | rule |
//! | --- | --- |
//! | what is accepted | completions and failures may take all of its commands and bytes, renewals 14 sixteenths, releases 12, claims 10 and one more for consumers with a small backlog, Lookups 8 ([`Lane::share`]) |
//! | what is refused | everything beyond (backpressure); `retry_after` is spread over the time in which the queue is served ([`RetryAfter`]) |
//! | which lane is served first | completions and failures, renewals, releases, claims, Lookups, in this order |
//! | which consumer is served first in a lane | deficit round robin between consumers ([`RoundRobin`]), each consumer's commands by age (fairness) |
//! | how large a batch is | `batch_max`; while several consumers are active, what the store carries out within 5 ms ([`BatchBound`]) |
//! | when a batch is sent | when none is in flight; when enough commands wait for a concurrent statement; when those in flight were sent 5 ms ago ([`InFlight`]) |
//! | which worker takes it | the one that worked last: its session has the warmest caches |
//! | what is retried | it is first in its consumer's backlog, whatever the bounds are |
//!
//! So a claim of a consumer with a small backlog waits for at most one batch in flight, and is in the next one.

mod batch_bound;
mod fair;
mod in_flight;
mod lane;
mod retry_after;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::common::still_counted::StillCounted;
use crate::domain::{Reason, Rejection};
use crate::ledger::claims::queue::batch_bound::BatchBound;
use crate::ledger::claims::queue::fair::RoundRobin;
use crate::ledger::claims::queue::in_flight::{InFlight, MIN_CONCURRENT_BATCH};
use crate::ledger::claims::queue::lane::{LANES, Lane, small_backlog_max};
use crate::ledger::claims::queue::retry_after::RetryAfter;
use crate::ledger::claims::request::KeyQueue;
use crate::ledger::refusals::store_unavailable;
use crate::ledger::runtime::{Instant, Mutex, MutexGuard, pause};

#[derive(Default)]
struct Waiting {
    lanes: [RoundRobin; LANES],
    /// Number of waiting commands, by lane.
    by_lane: [usize; LANES],
    /// Number of waiting commands in all lanes.
    commands: usize,
    closed: bool,
    /// The batches in flight to the store.
    in_flight: InFlight,
    retry_after: RetryAfter,
    bound: BatchBound,
    /// A worker was notified, and has not looked yet: no other worker is notified.
    notified_worker: bool,
    /// This server is behind the schema fence: it accepts nothing, for good.
    outdated: bool,
}

impl Waiting {
    /// Whether each consumer has a small backlog in this lane, these commands included.
    fn has_small_backlog(&self, lane: Lane, key_queues: &[KeyQueue], few: usize) -> bool {
        let more: usize = key_queues.iter().map(KeyQueue::len).sum();
        let all =
            |lane: &RoundRobin| key_queues.iter().all(|key_queue| lane.waiting(&key_queue.key) + more <= few);
        self.lanes.get(lane as usize).is_some_and(all)
    }

    /// Takes the next batch; `Err` has the time for which the commands wait for a batch in flight to return. `min_concurrent` is
    /// the size of a batch that is sent while another one is in flight.
    fn next(&mut self, max: usize, min_concurrent: usize, now: Instant) -> Result<Vec<KeyQueue>, Duration> {
        let wait = self.in_flight.wait(self.commands, self.bound.cap(min_concurrent, || now), now);
        if wait.is_zero() || self.closed { Ok(self.take(max, now)) } else { Err(wait) }
    }

    fn take(&mut self, max: usize, now: Instant) -> Vec<KeyQueue> {
        let max = self.bound.cap(max, || now);
        let (mut key_queues, mut commands) = (Vec::with_capacity(max.min(self.commands)), 0);
        for (lane, waits) in self.lanes.iter_mut().zip(&mut self.by_lane) {
            while commands < max {
                let Some(key_queue) = lane.pop() else { break };
                commands += key_queue.len();
                *waits -= key_queue.len();
                key_queues.push(key_queue);
            }
        }
        // Claims that are retried have waited for something else than the queue.
        let mut claims =
            key_queues.iter().rev().skip_while(|key_queue| Lane::of(&key_queue.head.command) == Lane::Lookup);
        if let Some(last) =
            claims.next().filter(|last| Lane::of(&last.head.command) == Lane::Claim && !last.must_load)
        {
            self.retry_after.taken_after(now.saturating_duration_since(last.since));
        }
        self.commands -= commands;
        key_queues
    }
}

/// How often a closed queue is checked for being empty.
const EMPTY_YET: Duration = Duration::from_millis(20);

pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    ready: Notify,
    closed: CancellationToken,
    commands_max: usize,
    /// Bytes of all commands that are not answered.
    bytes: Arc<AtomicUsize>,
    bytes_max: usize,
    /// Smallest batch that is sent while another one is in flight, while one consumer is active.
    min_concurrent: usize,
}

/// A batch in flight to the store, until this is dropped.
pub(in crate::ledger::claims) struct InFlightBatch<'a> {
    queue: Option<&'a Queue>,
    batch: u64,
}

impl InFlightBatch<'_> {
    /// Records that the batch has returned, and that its worker takes the next one.
    pub(in crate::ledger::claims) fn returned(mut self) {
        if let Some(queue) = self.queue.take() {
            queue.waiting().in_flight.returned(self.batch);
        }
    }
}

impl Drop for InFlightBatch<'_> {
    /// Records that the batch has returned, and notifies another worker, since its own worker does not take the next batch.
    fn drop(&mut self) {
        if let Some(queue) = self.queue {
            queue.waiting().in_flight.returned(self.batch);
            queue.ready.notify_one();
        }
    }
}

/// The result of a worker's look at the queue.
enum Taken {
    Batch(Vec<KeyQueue>, u64),
    /// Nothing waits, or what waits is left until a batch in flight returns; look again after this time at the latest.
    Wait(Option<Duration>),
    /// Nothing waits, and nothing more is accepted.
    Ended,
}

impl Queue {
    pub(crate) fn new(commands_max: usize, bytes_max: usize, batch_max: usize) -> Queue {
        let waiting = Waiting::default();
        let (ready, closed) = (Notify::new(), CancellationToken::new());
        let (bytes, min_concurrent) = (Arc::default(), MIN_CONCURRENT_BATCH.min(batch_max));
        Queue { waiting: Mutex::new(waiting), ready, closed, commands_max, bytes, bytes_max, min_concurrent }
    }

    /// Notes the commands and bytes that are counted.
    pub(crate) fn still_counted(&self, left: &mut StillCounted) {
        let waiting = self.waiting();
        left.note("commands in the queue", waiting.commands);
        left.note("commands in lanes", waiting.by_lane.iter().sum());
        drop(waiting);
        left.note("bytes of commands", self.bytes.load(Ordering::SeqCst));
    }

    /// Accepts one per-key queue.
    pub(crate) fn push(&self, key_queue: KeyQueue) -> Result<(), Rejection> {
        let mut waiting = self.admit(std::slice::from_ref(&key_queue))?;
        let before = waiting.commands;
        self.enqueue(&mut waiting, key_queue);
        self.notify_worker(waiting, before);
        Ok(())
    }

    /// Accepts one per-key queue, or refuses each of its commands.
    pub(crate) fn push_or_refuse(&self, key_queue: KeyQueue) {
        match self.admit(std::slice::from_ref(&key_queue)) {
            Ok(mut waiting) => {
                let before = waiting.commands;
                self.enqueue(&mut waiting, key_queue);
                self.notify_worker(waiting, before);
            }
            Err(refused) => key_queue.answer_all(&refused),
        }
    }

    /// Accepts all per-key queues, or none of them.
    pub(crate) fn push_all(&self, key_queues: Vec<KeyQueue>) -> Result<(), Rejection> {
        if key_queues.is_empty() {
            return Ok(());
        }
        let mut waiting = self.admit(&key_queues)?;
        let before = waiting.commands;
        for key_queue in key_queues {
            self.enqueue(&mut waiting, key_queue);
        }
        self.notify_worker(waiting, before);
        Ok(())
    }

    /// Notifies a worker where there is something new for it: a batch that may be sent now, or the first command, for which it
    /// must watch the time. It is the worker that worked last, whose session has the warmest caches: with two workers
    /// alternating, each claim of a single client cost Postgres a fifth more. `before`: number of commands that waited already.
    fn notify_worker(&self, mut waiting: MutexGuard<'_, Waiting>, before: usize) {
        let least = waiting.bound.cap(self.min_concurrent, Instant::now);
        let is_worth_it = before < least && waiting.commands >= least;
        let notify = !waiting.notified_worker && (before == 0 || is_worth_it || waiting.in_flight.is_empty());
        waiting.notified_worker |= notify;
        drop(waiting);
        if notify {
            self.ready.notify_last();
        }
    }

    /// Checks the queue's bounds for all commands of these per-key queues, with the share of the highest-priority lane among their
    /// first commands. Refuses them also while the queue is closed, or the schema fence has stopped this server.
    fn admit(&self, key_queues: &[KeyQueue]) -> Result<MutexGuard<'_, Waiting>, Rejection> {
        let lane =
            key_queues.iter().map(|key_queue| Lane::of(&key_queue.head.command)).min().unwrap_or(Lane::Close);
        let commands: usize = key_queues.iter().map(KeyQueue::len).sum();
        let bytes: usize = key_queues.iter().map(KeyQueue::bytes).sum();
        let mut waiting = self.waiting();
        if waiting.outdated {
            return Err(store_unavailable());
        }
        if waiting.closed {
            return Err(Rejection::new(
                Reason::Draining,
                "this server is shutting down; nothing was changed: try again, another one answers",
            ));
        }
        // Into an empty queue a batch of Lookups is accepted up to the share of claims.
        let lane = if lane == Lane::Lookup && waiting.commands == 0 { Lane::Claim } else { lane };
        let small = |waiting: &Waiting| {
            waiting.has_small_backlog(lane, key_queues, small_backlog_max(self.commands_max))
        };
        self.check_bounds(&mut waiting, lane, commands, bytes, small)?;
        Ok(waiting)
    }

    /// Refuses a batch of this number of claims, before they are decoded, if the queue would refuse it whichever consumers the
    /// claims are of and however few bytes they have. A closed queue refuses decoded claims, with another reason.
    pub(crate) fn room_for_claims(&self, commands: usize) -> Result<(), Rejection> {
        let mut waiting = self.waiting();
        if commands == 0 || waiting.outdated || waiting.closed {
            return Ok(());
        }
        let small = |_: &Waiting| commands <= small_backlog_max(self.commands_max);
        self.check_bounds(&mut waiting, Lane::Claim, commands, 0, small)
    }

    /// Checks the bounds for this number of commands and bytes. `small`: whether they are of consumers with a small backlog.
    fn check_bounds(
        &self,
        waiting: &mut Waiting,
        lane: Lane,
        commands: usize,
        bytes: usize,
        small: impl FnOnce(&Waiting) -> bool,
    ) -> Result<(), Rejection> {
        let held = self.bytes.load(Ordering::SeqCst) + bytes;
        let wait = waiting.commands + commands;
        let is_room =
            |few| held <= lane.share(self.bytes_max, few) && wait <= lane.share(self.commands_max, few);
        if is_room(false) || is_room(true) && small(waiting) {
            return Ok(());
        }
        let why = "too many calls wait already; nothing was changed: try again later, with fewer concurrent commands";
        let retry = &mut waiting.retry_after;
        let retry_after = if lane >= Lane::Claim { retry.claim() } else { retry.settlement() };
        Err(Rejection { retry_after: Some(retry_after), ..Rejection::new(Reason::Overloaded, why) })
    }

    fn enqueue(&self, waiting: &mut Waiting, mut key_queue: KeyQueue) {
        waiting.commands += key_queue.len();
        waiting.bound.arrived(&key_queue.key, key_queue.since);
        key_queue.count_bytes(&self.bytes);
        let place = Queue::lane(&key_queue);
        if let (Some(lane), Some(waits)) = (waiting.lanes.get_mut(place), waiting.by_lane.get_mut(place)) {
            *waits += key_queue.len();
            lane.push_back(key_queue);
        }
    }

    /// Takes back commands that were accepted before: they are first in their backlog, whatever the bounds are.
    pub(in crate::ledger::claims) fn requeue(&self, key_queues: Vec<KeyQueue>) {
        if key_queues.is_empty() {
            return;
        }
        let mut waiting = self.waiting();
        for key_queue in key_queues.into_iter().rev() {
            let waiting = &mut *waiting;
            waiting.commands += key_queue.len();
            let lane = Lane::of(&key_queue.head.command) as usize;
            if let (Some(lane), Some(waits)) = (waiting.lanes.get_mut(lane), waiting.by_lane.get_mut(lane)) {
                *waits += key_queue.len();
                lane.push_front(key_queue);
            }
        }
        drop(waiting);
        self.ready.notify_one();
    }

    /// Resolves once nothing more is accepted, and nothing waits.
    pub(in crate::ledger::claims) async fn ended(&self) {
        self.closed.cancelled().await;
        while self.waiting().commands > 0 {
            pause(EMPTY_YET).await;
        }
    }

    /// Waits until a batch may be sent, and takes it: per-key queues with up to `max` commands, and the further commands of the
    /// last one. `None` once the queue is closed and empty.
    pub(in crate::ledger::claims) async fn pull(
        &self,
        max: usize,
    ) -> Option<(Vec<KeyQueue>, InFlightBatch<'_>)> {
        loop {
            let notified = self.ready.notified();
            match self.take(max, Instant::now()) {
                Taken::Batch(key_queues, batch) => {
                    return Some((key_queues, InFlightBatch { queue: Some(self), batch }));
                }
                Taken::Wait(None) => notified.await,
                Taken::Wait(Some(wait)) => tokio::select! {
                    biased;
                    () = notified => {}
                    () = pause(wait) => {}
                },
                Taken::Ended => {
                    self.ready.notify_one();
                    return None;
                }
            }
        }
    }

    /// Takes per-key queues with up to `max` commands, the most important first, to fill up a batch.
    pub(in crate::ledger::claims) fn try_pull(&self, max: usize) -> Vec<KeyQueue> {
        self.waiting().take(max, Instant::now())
    }

    /// Takes a batch and checks for the end under one lock: with a separate check the last worker would leave behind what is
    /// pushed between the two.
    fn take(&self, max: usize, now: Instant) -> Taken {
        let mut waiting = self.waiting();
        waiting.notified_worker = false;
        if waiting.commands == 0 {
            return if waiting.closed { Taken::Ended } else { Taken::Wait(None) };
        }
        let key_queues = match waiting.next(max, self.min_concurrent, now) {
            Ok(key_queues) => key_queues,
            Err(wait) => return Taken::Wait(Some(wait)),
        };
        let batch = waiting.in_flight.send_at(now);
        if waiting.commands > 0 {
            self.notify_worker(waiting, 0);
        }
        Taken::Batch(key_queues, batch)
    }

    /// Samples the size and duration of a batch that the store has carried out.
    pub(in crate::ledger::claims) fn completed(&self, commands: usize, took: Duration) {
        self.waiting().bound.completed(commands, took);
    }

    /// Number of waiting commands in each lane, and bytes of all commands that are not answered.
    pub(crate) fn depth(&self) -> ([usize; LANES], usize) {
        (self.waiting().by_lane, self.bytes.load(Ordering::Relaxed))
    }

    /// The index of the lane in which a per-key queue waits.
    pub(in crate::ledger::claims) fn lane(key_queue: &KeyQueue) -> usize {
        Lane::of(&key_queue.head.command) as usize
    }

    /// Accepts nothing more.
    pub(crate) fn close(&self) {
        self.waiting().closed = true;
        self.closed.cancel();
        self.ready.notify_one();
    }

    /// Accepts nothing more, since this server is behind the schema fence: the workers refuse what waits.
    pub(crate) fn outdated(&self) {
        self.waiting().outdated = true;
        self.close();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;

//! A worker: one session, one task, one batch at a time. While its batch is in flight the next one gathers in the queue,
//! without a timer.

use std::time::Duration;

use futures_util::FutureExt as _;

use super::queue::{InFlightBatch, Queue};
use super::shared::Shared;
use crate::common::crash;
use crate::common::log_limit::warn_once_a_second;
use crate::domain::{Key, KeyHash, Rejection};
use crate::ledger::claims::locked_rows::row_locked;
use crate::ledger::claims::request::KeyQueue;
use crate::ledger::claims::round::timed::within;
use crate::ledger::claims::round::{Leftover, Round};
use crate::ledger::refusals::{lost, store_unavailable};
use crate::ledger::runtime::{Instant, sleep, timeout, yield_now};
use crate::metrics::Statement;
use crate::store::{Fault, Purpose, Session, StoreError};
use crate::traces::BatchSpan;

/// Backoff of a worker that failed to open a session: first and maximum.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// How long calls wait while no worker has a session; then they are refused immediately.
const NO_SESSION_MAX: Duration = Duration::from_secs(1);
/// How long opening a session may take, whatever the store does meanwhile.
const OPEN_WITHIN: Duration = Duration::from_secs(12);
/// After a batch of at least this many commands, other commands are about to enter the queue: the worker yields once before
/// it takes the next batch. The store then needs a twentieth less for each claim, since batches are larger.
const YIELD_AFTER: usize = 64;

/// Runs a worker, and restarts it if it panics. Its callers then get `OUTCOME_UNKNOWN`, since their answers are dropped with
/// it.
pub(crate) async fn supervise(shared: Shared, number: usize, batch_max: usize) {
    loop {
        let run = std::panic::AssertUnwindSafe(run(&shared, batch_max)).catch_unwind().await;
        if run.is_ok() {
            return;
        }
        tracing::error!(worker = number, "a worker died of a bug and is started again");
        sleep(BACKOFF_MIN).await;
    }
}

/// Opens a session before there is work for it. A worker without one leaves the commands to others while another worker has one.
async fn run(shared: &Shared, batch_max: usize) {
    while let Some(session) = next_session(shared, batch_max).await {
        if work(shared, session, batch_max).await == WorkerEnd::Queue {
            break;
        }
    }
    refuse_locked_out(shared.locked_rows.drain());
}

/// Opens a session; `None` once the queue is closed and empty.
async fn next_session(shared: &Shared, batch_max: usize) -> Option<Box<dyn Session>> {
    let mut opening = std::pin::pin!(open(shared));
    loop {
        tokio::select! {
            biased;
            session = &mut opening => return Some(session),
            () = shared.queue.ended() => return None,
            _keys = shared.locked_rows.check_due() => requeue_free(shared, None),
            key_queues = unserved(shared, batch_max) => refuse(key_queues?),
        }
    }
}

/// Opens a session, with any number of attempts.
async fn open(shared: &Shared) -> Box<dyn Session> {
    let mut backoff = BACKOFF_MIN;
    loop {
        match timeout(OPEN_WITHIN, shared.store.open(Purpose::Claims)).await {
            Ok(Ok(session)) => {
                // Opening a session includes a write.
                shared.last_response.answered();
                return session;
            }
            Ok(Err(StoreError::NotApplied(fault @ Fault::Schema(_)))) => {
                tracing::error!(%fault, "the store cannot be used");
            }
            Ok(Err(error)) => {
                warn_once_a_second!(%error, "the store cannot be opened");
                if matches!(error, StoreError::Unknown(_)) {
                    // The connection was established, and broke: the store is starting up, or about to.
                    backoff = BACKOFF_MIN;
                }
            }
            Err(_) => warn_once_a_second!(within = ?OPEN_WITHIN, "the store does not answer"),
        }
        shared.live_workers.back_off(backoff).await;
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}

/// Commands that no worker could serve for a while; `None` once the queue is closed and empty.
async fn unserved(shared: &Shared, batch_max: usize) -> Option<Vec<KeyQueue>> {
    loop {
        shared.live_workers.none_for(NO_SESSION_MAX).await;
        tokio::select! {
            biased;
            () = shared.live_workers.any() => {}
            key_queues = shared.queue.pull(batch_max) => return key_queues.map(|(key_queues, _)| key_queues),
        }
    }
}

/// Why a worker stops.
#[derive(PartialEq, Eq)]
enum WorkerEnd {
    /// Its session cannot be used any more.
    Session,
    /// The queue is closed and empty.
    Queue,
}

async fn work(shared: &Shared, mut session: Box<dyn Session>, batch_max: usize) -> WorkerEnd {
    let _live = shared.live_workers.add();
    let mut carried: Vec<KeyQueue> = Vec::new();
    let mut in_flight: Option<InFlightBatch<'_>> = None;
    let mut took = 0;
    loop {
        let fresh = if carried.is_empty() {
            if let Some(batch) = in_flight.take() {
                if took >= YIELD_AFTER {
                    yield_now().await;
                }
                batch.returned();
            }
            let pulled = tokio::select! {
                biased;
                keys = shared.locked_rows.check_due() => {
                    let Some(still) = check_locked(shared, session.as_mut(), &keys).await else { return WorkerEnd::Session };
                    requeue_free(shared, Some(&still));
                    continue;
                }
                key_queues = shared.queue.pull(batch_max) => key_queues,
            };
            let Some((key_queues, batch)) = pulled else { return WorkerEnd::Queue };
            in_flight = Some(batch);
            key_queues
        } else {
            // They had a round already: new commands fill up the batch.
            let commands: usize = carried.iter().map(KeyQueue::len).sum();
            shared.queue.try_pull(batch_max.saturating_sub(commands))
        };
        note_waits(shared, &fresh);
        let (batch, next) = one_per_key(std::mem::take(&mut carried), fresh);
        carried = next;
        took = batch.iter().map(KeyQueue::len).sum();
        shared.metrics.work().took(took);
        crash::point("after_seal");
        let began = Instant::now();
        let Leftover { again, broken } = Round::new(shared, session.as_mut(), batch_max).run(batch).await;
        shared.queue.completed(took, began.elapsed());
        carried.extend(again);
        if broken {
            // Closes the connection without a word to the server: a cancel request could turn a wait for a standby into a
            // false success. A worker with a session takes the work.
            drop(session);
            drop(in_flight);
            shared.queue.requeue(carried);
            return WorkerEnd::Session;
        }
    }
}

/// Records how long commands waited: once for the commands of one call, which arrived together.
fn note_waits(shared: &Shared, fresh: &[KeyQueue]) {
    let (now, mut last) = (Instant::now(), None);
    let waits = fresh.iter().filter_map(|key_queue| {
        let one = (Queue::lane(key_queue), key_queue.since);
        let is_another = last.replace(one) != Some(one);
        is_another.then(|| (one.0, now.saturating_duration_since(one.1)))
    });
    shared.metrics.work().waited(waits);
}

/// Checks which of these rows are still locked. `None` if the session cannot be used any more.
async fn check_locked(shared: &Shared, session: &mut dyn Session, keys: &[Key]) -> Option<Vec<KeyHash>> {
    let (sent, locked) = ((Statement::Locked, keys.len()), session.entries().locked(keys));
    // This statement belongs to no batch.
    match within(shared, &BatchSpan::default(), sent, locked).await {
        Ok(still) => Some(still),
        Err(error) => {
            warn_once_a_second!(%error, rows = keys.len(), "the check for locked rows failed");
            requeue_free(shared, None);
            None
        }
    }
}

/// Requeues the commands whose locked row is free.
fn requeue_free(shared: &Shared, still: Option<&[KeyHash]>) {
    let (free, late) = shared.locked_rows.checked(still);
    shared.queue.requeue(free);
    refuse_locked_out(late);
}

fn refuse_locked_out(key_queues: Vec<KeyQueue>) {
    refuse_all(key_queues, &row_locked());
}

/// Refuses commands that no worker could serve: a command that was never sent is certainly not applied.
fn refuse(key_queues: Vec<KeyQueue>) {
    refuse_all(key_queues, &store_unavailable());
}

fn refuse_all(key_queues: Vec<KeyQueue>, rejection: &Rejection) {
    for key_queue in key_queues {
        let mut rest = Some(key_queue);
        while let Some(key_queue) = rest {
            let rejection = if key_queue.head.unknown > 0 { lost() } else { rejection.clone() };
            rest = key_queue.answer(Err(rejection));
        }
    }
}

/// The per-key queues of one batch: each key once, without commands whose callers have gone away. Commands for the same key
/// are appended to one per-key queue. Another key with the same hash is left for the next batch.
fn one_per_key(carried: Vec<KeyQueue>, fresh: Vec<KeyQueue>) -> (Vec<KeyQueue>, Vec<KeyQueue>) {
    let mut all: Vec<KeyQueue> = Vec::with_capacity(carried.len() + fresh.len());
    all.extend(carried.into_iter().chain(fresh).filter_map(KeyQueue::without_abandoned));
    // Stable: commands for one key keep their order.
    all.sort_by_cached_key(|key_queue| key_queue.key.hash());
    let mut batch: Vec<KeyQueue> = Vec::with_capacity(all.len());
    let mut next = Vec::new();
    for key_queue in all {
        match batch.last_mut() {
            Some(last) if last.key == key_queue.key => last.append(key_queue),
            Some(last) if last.key.hash() == key_queue.key.hash() => next.push(key_queue),
            Some(_) | None => batch.push(key_queue),
        }
    }
    (batch, next)
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::super::answers::AnswerTo;
    use super::*;
    use crate::domain::{Command, Key, Settle, Span};
    use crate::ledger::claims::request::Request;
    use crate::traces::CallSpan;

    #[test]
    fn batch_has_each_key_once_with_its_commands_in_order() {
        let mut waiting = Vec::new();
        let mut number = 0;
        let mut key_queue = |id: &str, commands: usize| {
            let mut request = || {
                let (reply, answer) = oneshot::channel();
                waiting.push(answer);
                number += 1;
                let release = Command::Settle(number, Settle::Release { delay: Span::ZERO, unpin: false });
                Request::new(release, AnswerTo::Call(reply), CallSpan::default())
            };
            let mut key_queue = KeyQueue::new(Key::new("c", "s", id), request(), Instant::now());
            (1..commands).for_each(|_| key_queue.push(request()));
            key_queue
        };
        let carried = vec![key_queue("hot", 2), key_queue("a", 1)];
        let mut fresh = vec![key_queue("hot", 1), key_queue("b", 1), key_queue("hot", 2)];
        let (reply, gone) = oneshot::channel();
        drop(gone);
        let settle = Command::Settle(0, Settle::Release { delay: Span::ZERO, unpin: false });
        fresh.push(KeyQueue::new(
            Key::new("c", "s", "gone"),
            Request::new(settle, AnswerTo::Call(reply), CallSpan::default()),
            Instant::now(),
        ));
        let (batch, next) = one_per_key(carried, fresh);
        assert!(next.is_empty());
        let token = |request: &Request| match &request.command {
            Command::Settle(token, _) => *token,
            Command::Claim(_) | Command::Lookup => 0,
        };
        let mut seen: Vec<(&str, Vec<i64>)> = batch
            .iter()
            .map(|key_queue| (key_queue.key.id(), key_queue.requests().map(token).collect()))
            .collect();
        seen.sort();
        assert_eq!(seen, [("a", vec![3]), ("b", vec![5]), ("hot", vec![1, 2, 4, 6, 7])]);
        assert!(batch.is_sorted_by_key(|key_queue| key_queue.key.hash()));
    }
}

//! A worker: one session, one task, one batch at a time. While a batch is at the store the next
//! one gathers; there is no timer.

use std::time::Duration;

use futures_util::FutureExt as _;

use super::queue::{AtStore, Queue};
use super::shared::Shared;
use crate::common::crash;
use crate::common::log_limit::warn_once_a_second;
use crate::domain::{Key, KeyHash, Rejection};
use crate::ledger::claims::locked_rows::row_held;
use crate::ledger::claims::request::Chain;
use crate::ledger::claims::round::timed::within;
use crate::ledger::claims::round::{Leftover, Round};
use crate::ledger::refusals::{lost, store_unavailable};
use crate::ledger::runtime::{Instant, sleep, timeout, yield_now};
use crate::metrics::Statement;
use crate::store::{Fault, Purpose, Session, StoreError};
use crate::traces::BatchSpan;

/// How long a worker rests after it failed to open a session, at first and at most.
const REST_MIN: Duration = Duration::from_millis(250);
const REST_MAX: Duration = Duration::from_secs(5);
/// For how long calls wait for the first session; then they are refused at once.
const HELD_FOR: Duration = Duration::from_secs(1);
/// How long opening a session may take, whatever the store does meanwhile.
const OPEN_WITHIN: Duration = Duration::from_secs(12);
/// A batch of so many commands is followed by others that are about to enter the queue: a worker lets them enter before it
/// takes the next batch. Each claim costs the store a twentieth less then.
const MANY: usize = 64;

/// Runs a worker, and starts it again when it dies. Those who waited for it are answered
/// `OUTCOME_UNKNOWN`, since their answers are dropped with it.
pub(crate) async fn supervise(shared: Shared, number: usize, batch_max: usize) {
    loop {
        let run = std::panic::AssertUnwindSafe(run(&shared, batch_max)).catch_unwind().await;
        if run.is_ok() {
            return;
        }
        tracing::error!(worker = number, "a worker died of a bug and is started again");
        sleep(REST_MIN).await;
    }
}

/// A session is opened before there is work for it. A worker without one takes no work while another has one.
async fn run(shared: &Shared, batch_max: usize) {
    while let Some(session) = opened(shared, batch_max).await {
        if work(shared, session, batch_max).await == Ended::Queue {
            break;
        }
    }
    refuse_held(shared.locked.end());
}

/// A session; none once the queue is closed and empty.
async fn opened(shared: &Shared, batch_max: usize) -> Option<Box<dyn Session>> {
    let mut opening = std::pin::pin!(open(shared));
    loop {
        tokio::select! {
            biased;
            session = &mut opening => return Some(session),
            () = shared.queue.ended() => return None,
            _keys = shared.locked.look_due() => go_on(shared, None),
            chains = unserved(shared, batch_max) => refuse(chains?),
        }
    }
}

/// Opens a session, however often it takes.
async fn open(shared: &Shared) -> Box<dyn Session> {
    let mut rest = REST_MIN;
    loop {
        match timeout(OPEN_WITHIN, shared.store.open(Purpose::Claims)).await {
            Ok(Ok(session)) => {
                // It has carried out a write of its own.
                shared.pulse.answered();
                return session;
            }
            Ok(Err(StoreError::NotApplied(fault @ Fault::Schema(_)))) => {
                tracing::error!(%fault, "the store cannot be used");
            }
            Ok(Err(error)) => {
                warn_once_a_second!(%error, "the store cannot be opened");
                if matches!(error, StoreError::Unknown(_)) {
                    // The connection was there, and broke: the store is on its way up, or about to be.
                    rest = REST_MIN;
                }
            }
            Err(_) => warn_once_a_second!(within = ?OPEN_WITHIN, "the store does not answer"),
        }
        shared.crew.rest(rest).await;
        rest = (rest * 2).min(REST_MAX);
    }
}

/// Units that no worker could serve for a while; none once the queue is closed and empty.
async fn unserved(shared: &Shared, batch_max: usize) -> Option<Vec<Chain>> {
    loop {
        shared.crew.none_for(HELD_FOR).await;
        tokio::select! {
            biased;
            () = shared.crew.any() => {}
            chains = shared.queue.pull(batch_max) => return chains.map(|(chains, _)| chains),
        }
    }
}

/// Why a worker does no more work.
#[derive(PartialEq, Eq)]
enum Ended {
    /// Its session cannot be used any more.
    Session,
    /// The queue is closed and empty.
    Queue,
}

async fn work(shared: &Shared, mut session: Box<dyn Session>, batch_max: usize) -> Ended {
    let _at_work = shared.crew.at_work();
    let mut carried: Vec<Chain> = Vec::new();
    let mut at_store: Option<AtStore<'_>> = None;
    let mut took = 0;
    loop {
        let fresh = if carried.is_empty() {
            if let Some(batch) = at_store.take() {
                if took >= MANY {
                    yield_now().await;
                }
                batch.back();
            }
            let pulled = tokio::select! {
                biased;
                keys = shared.locked.look_due() => {
                    let Some(still) = look(shared, session.as_mut(), &keys).await else { return Ended::Session };
                    go_on(shared, Some(&still));
                    continue;
                }
                chains = shared.queue.pull(batch_max) => chains,
            };
            let Some((chains, batch)) = pulled else { return Ended::Queue };
            at_store = Some(batch);
            chains
        } else {
            // They have had a round already: what comes with them fills up the batch.
            let commands: usize = carried.iter().map(Chain::len).sum();
            shared.queue.try_pull(batch_max.saturating_sub(commands))
        };
        note_waits(shared, &fresh);
        let (batch, next) = one_per_key(std::mem::take(&mut carried), fresh);
        carried = next;
        took = batch.iter().map(Chain::len).sum();
        shared.metrics.work().took(took);
        crash::point("after_seal");
        let began = Instant::now();
        let Leftover { again, broken } = Round::new(shared, session.as_mut(), batch_max).run(batch).await;
        shared.queue.carried_out(took, began.elapsed());
        carried.extend(again);
        if broken {
            // The connection is closed without a word to the server: a cancel request could turn
            // a wait for a standby into a false success. Whoever has a session takes the work.
            drop(session);
            drop(at_store);
            shared.queue.give_back(carried);
            return Ended::Session;
        }
    }
}

/// Counts how long commands waited: those of one call, which came together, once.
fn note_waits(shared: &Shared, fresh: &[Chain]) {
    let (now, mut last) = (Instant::now(), None);
    let waits = fresh.iter().filter_map(|chain| {
        let one = (Queue::lane(chain), chain.since);
        let is_another = last.replace(one) != Some(one);
        is_another.then(|| (one.0, now.saturating_duration_since(one.1)))
    });
    shared.metrics.work().waited(waits);
}

/// Which of the rows are still held; none: the session cannot be used any more.
async fn look(shared: &Shared, session: &mut dyn Session, keys: &[Key]) -> Option<Vec<KeyHash>> {
    let (sent, locked) = ((Statement::Locked, keys.len()), session.entries().locked(keys));
    // It belongs to no batch.
    match within(shared, &BatchSpan::default(), sent, locked).await {
        Ok(still) => Some(still),
        Err(error) => {
            warn_once_a_second!(%error, rows = keys.len(), "nobody can look whether rows are still held");
            go_on(shared, None);
            None
        }
    }
}

/// What waited for a row, and may go on.
fn go_on(shared: &Shared, still: Option<&[KeyHash]>) {
    let (free, late) = shared.locked.looked(still);
    shared.queue.give_back(free);
    refuse_held(late);
}

fn refuse_held(chains: Vec<Chain>) {
    refuse_all(chains, &row_held());
}

/// There is no session: whatever was never sent is certainly not applied.
fn refuse(chains: Vec<Chain>) {
    refuse_all(chains, &store_unavailable());
}

fn refuse_all(chains: Vec<Chain>, rejection: &Rejection) {
    for chain in chains {
        let mut rest = Some(chain);
        while let Some(chain) = rest {
            let rejection = if chain.head.unknown > 0 { lost() } else { rejection.clone() };
            rest = chain.answer(Err(rejection));
        }
    }
}

/// The chains of one batch: each key once, and nobody who has gone away. Whoever waits for the same key joins the
/// chain of that key. Another key with the same hash comes next.
fn one_per_key(carried: Vec<Chain>, fresh: Vec<Chain>) -> (Vec<Chain>, Vec<Chain>) {
    let mut all: Vec<Chain> = Vec::with_capacity(carried.len() + fresh.len());
    all.extend(carried.into_iter().chain(fresh).filter_map(Chain::without_abandoned));
    // What waits for one key stays in its order.
    all.sort_by_cached_key(|chain| chain.key.hash());
    let mut batch: Vec<Chain> = Vec::with_capacity(all.len());
    let mut next = Vec::new();
    for chain in all {
        match batch.last_mut() {
            Some(last) if last.key == chain.key => last.join(chain),
            Some(last) if last.key.hash() == chain.key.hash() => next.push(chain),
            Some(_) | None => batch.push(chain),
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
    fn a_batch_has_each_key_once_and_whoever_waits_for_it_in_order() {
        let mut waiting = Vec::new();
        let mut number = 0;
        let mut chain = |id: &str, commands: usize| {
            let mut request = || {
                let (reply, answer) = oneshot::channel();
                waiting.push(answer);
                number += 1;
                let release = Command::Settle(number, Settle::Release { delay: Span::ZERO, unpin: false });
                Request::new(release, AnswerTo::Call(reply), CallSpan::default())
            };
            let mut chain = Chain::new(Key::new("c", "s", id), request(), Instant::now());
            (1..commands).for_each(|_| chain.push(request()));
            chain
        };
        let carried = vec![chain("hot", 2), chain("a", 1)];
        let mut fresh = vec![chain("hot", 1), chain("b", 1), chain("hot", 2)];
        let (reply, gone) = oneshot::channel();
        drop(gone);
        let settle = Command::Settle(0, Settle::Release { delay: Span::ZERO, unpin: false });
        fresh.push(Chain::new(
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
        let mut seen: Vec<(&str, Vec<i64>)> =
            batch.iter().map(|chain| (chain.key.id(), chain.requests().map(token).collect())).collect();
        seen.sort();
        assert_eq!(seen, [("a", vec![3]), ("b", vec![5]), ("hot", vec![1, 2, 4, 6, 7])]);
        assert!(batch.is_sorted_by_key(|chain| chain.key.hash()));
    }
}

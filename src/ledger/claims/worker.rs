//! A worker: one session, one task, one batch at a time. While a batch is at the store the next
//! one gathers; there is no timer.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::FutureExt as _;

use super::batch::{self, Batch, Outcome};
use super::locked::row_held;
use super::queue::Unit;
use super::shared::Shared;
use crate::crash;
use crate::domain::{Key, KeyHash, Rejection};
use crate::ledger::refusals::{lost, store_unavailable};
use crate::ledger::runtime::{sleep, timeout};
use crate::once_a_second::warn_once_a_second;
use crate::store::{Fault, Purpose, Session, StoreError};

/// How long a worker rests after it failed to open a session, at first and at most.
const REST_MIN: Duration = Duration::from_millis(250);
const REST_MAX: Duration = Duration::from_secs(5);
/// For how long calls wait for the first session; then they are refused at once.
const HELD_FOR: Duration = Duration::from_secs(1);
/// How many batches' worth of units may wait in a worker for others of the same key.
const CARRIED_BATCHES_MAX: usize = 4;
/// How long opening a session may take, whatever the store does meanwhile.
const OPEN_WITHIN: Duration = Duration::from_secs(12);

/// Runs a worker, and starts it anew when it dies. Those who waited for it are answered
/// `OUTCOME_UNKNOWN`, since their answers are dropped with it.
pub(crate) async fn supervise(shared: Shared, number: usize, batch_max: usize) {
    loop {
        let run = std::panic::AssertUnwindSafe(run(&shared, batch_max)).catch_unwind().await;
        if run.is_ok() {
            return;
        }
        tracing::error!(worker = number, "a worker died of a bug and is started anew");
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
            units = unserved(shared, batch_max) => refuse(units?),
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
                tracing::error!(%fault, "the store can not be used");
            }
            Ok(Err(error)) => {
                warn_once_a_second!(%error, "the store can not be opened");
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
async fn unserved(shared: &Shared, batch_max: usize) -> Option<Vec<Unit>> {
    loop {
        shared.crew.none_for(HELD_FOR).await;
        tokio::select! {
            biased;
            () = shared.crew.any() => {}
            units = shared.queue.pull(batch_max) => return units,
        }
    }
}

/// Why a worker does no more work.
#[derive(PartialEq, Eq)]
enum Ended {
    /// Its session can not be used any more.
    Session,
    /// The queue is closed and empty.
    Queue,
}

async fn work(shared: &Shared, mut session: Box<dyn Session>, batch_max: usize) -> Ended {
    let _at_work = shared.crew.at_work();
    let mut carried: Vec<Unit> = Vec::new();
    loop {
        let fresh = if carried.is_empty() {
            let pulled = tokio::select! {
                biased;
                keys = shared.locked.look_due() => {
                    let Some(still) = look(shared, session.as_mut(), &keys).await else { return Ended::Session };
                    go_on(shared, Some(&still));
                    continue;
                }
                units = shared.queue.pull(batch_max) => units,
            };
            let Some(units) = pulled else { return Ended::Queue };
            units
        } else {
            // Many calls for one key wait for each other, but must not keep the others out.
            let half =
                if carried.len() < batch_max * CARRIED_BATCHES_MAX { batch_max.div_ceil(2) } else { 0 };
            shared.queue.try_pull(batch_max.saturating_sub(carried.len()).max(half))
        };
        let (batch, next) = one_per_key(std::mem::take(&mut carried), fresh, batch_max);
        carried = next;
        crash::point("after_seal");
        let Outcome { again, broken } = Batch::new(shared, session.as_mut()).run(batch).await;
        carried.extend(again);
        if broken {
            // The connection is closed without a word to the server: a cancel request could turn
            // a wait for a standby into a false success. Whoever has a session takes the work.
            drop(session);
            shared.queue.give_back(carried);
            return Ended::Session;
        }
    }
}

/// Which of the rows are still held; none: the session can not be used any more.
async fn look(shared: &Shared, session: &mut dyn Session, keys: &[Key]) -> Option<Vec<KeyHash>> {
    match batch::within(shared, session.locked(keys)).await {
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

fn refuse_held(units: Vec<Unit>) {
    refuse_all(units, &row_held());
}

/// There is no session: whatever was never sent is certainly not applied.
fn refuse(units: Vec<Unit>) {
    refuse_all(units, &store_unavailable());
}

fn refuse_all(units: Vec<Unit>, rejection: &Rejection) {
    for unit in units {
        let mut rest = Some(unit);
        while let Some(unit) = rest {
            let rejection = if unit.unknown > 0 { lost() } else { rejection.clone() };
            rest = unit.answer(Err(rejection));
        }
    }
}

/// The units of one batch: at most `max`, each key once, nobody who has gone away. The others come next.
fn one_per_key(carried: Vec<Unit>, fresh: Vec<Unit>, max: usize) -> (Vec<Unit>, Vec<Unit>) {
    let mut keys = HashSet::with_capacity(carried.len() + fresh.len());
    let mut batch = Vec::with_capacity(carried.len() + fresh.len());
    let mut next = Vec::new();
    for unit in carried.into_iter().chain(fresh) {
        if unit.abandoned() {
            continue;
        }
        if batch.len() < max && keys.insert(unit.key.hash()) {
            batch.push(unit);
        } else {
            next.push(unit);
        }
    }
    batch.sort_by_key(|unit| unit.key.hash());
    (batch, next)
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::super::queue::Step;
    use super::*;
    use crate::domain::{Command, Key, Settle, Span};

    #[test]
    fn a_batch_has_each_key_once_and_no_more_than_its_size() {
        let mut waiting = Vec::new();
        let mut unit = |id: &str| {
            let (reply, answer) = oneshot::channel();
            waiting.push(answer);
            let command = Command::Settle(1, Settle::Release { delay: Span::ZERO });
            Unit::new(Key::new("c", "s", id), Step { command, reply })
        };
        let carried = vec![unit("hot"), unit("hot"), unit("a")];
        let fresh = vec![unit("hot"), unit("b"), unit("c")];
        let (batch, next) = one_per_key(carried, fresh, 3);
        let ids = |units: &[Unit]| units.iter().map(|unit| unit.key.id().to_owned()).collect::<Vec<_>>();
        let mut once = ids(&batch);
        once.sort();
        assert_eq!(
            (once, ids(&next)),
            (vec!["a".into(), "b".into(), "hot".into()], vec!["hot".into(), "hot".into(), "c".into()])
        );
        assert!(batch.is_sorted_by_key(|unit| unit.key.hash()));
    }
}

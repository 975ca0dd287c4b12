//! A worker: one session, one task, one batch at a time. While a batch is at the store the next
//! one gathers; there is no timer.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::FutureExt as _;

use super::batch::{Batch, Outcome};
use super::queue::Unit;
use super::rt::{Instant, sleep, timeout};
use super::{Shared, lost, store_unavailable};
use crate::crash;
use crate::store::{Fault, Session, StoreError};

/// How long a worker waits after it failed to open a session; meanwhile callers are refused at
/// once.
const REOPEN_AFTER: Duration = Duration::from_millis(250);
/// How many batches' worth of units may wait in a worker for others of the same key.
const CARRIED_BATCHES_MAX: usize = 4;
/// How long opening a session may take, whatever the store does meanwhile.
const OPEN_WITHIN: Duration = Duration::from_secs(12);

/// Runs a worker, and starts it anew when it dies. Those who waited for it are answered
/// `OUTCOME_UNKNOWN`, since their answers are dropped with it.
pub(super) async fn supervise(shared: Shared, number: usize, batch_max: usize) {
    loop {
        let run = std::panic::AssertUnwindSafe(run(&shared, batch_max)).catch_unwind().await;
        if run.is_ok() {
            return;
        }
        tracing::error!(worker = number, "a worker died of a bug and is started anew");
        sleep(REOPEN_AFTER).await;
    }
}

async fn run(shared: &Shared, batch_max: usize) {
    let mut session: Option<Box<dyn Session>> = None;
    let mut reopen_at = Instant::now();
    let mut carried: Vec<Unit> = Vec::new();
    loop {
        let fresh = if carried.is_empty() {
            match shared.queue.pull(batch_max).await {
                Some(units) => units,
                None => return,
            }
        } else {
            // Many calls for one key wait for each other, but must not keep the others out.
            let half =
                if carried.len() < batch_max * CARRIED_BATCHES_MAX { batch_max.div_ceil(2) } else { 0 };
            shared.queue.try_pull(batch_max.saturating_sub(carried.len()).max(half))
        };
        let (batch, next) = one_per_key(std::mem::take(&mut carried), fresh, batch_max);
        carried = next;
        if session.is_none() && Instant::now() >= reopen_at {
            session = open(shared).await;
            reopen_at = Instant::now() + REOPEN_AFTER;
        }
        let Some(opened) = session.as_mut() else {
            refuse(batch);
            continue;
        };
        crash::point("after_seal");
        let Outcome { again, broken } = Batch::new(shared, opened.as_mut()).run(batch).await;
        carried.extend(again);
        if broken {
            // The connection is closed without a word to the server: a cancel request could turn
            // a wait for a standby into a false success.
            session = None;
            reopen_at = Instant::now();
        }
    }
}

async fn open(shared: &Shared) -> Option<Box<dyn Session>> {
    match timeout(OPEN_WITHIN, shared.store.open()).await {
        Ok(Ok(session)) => return Some(session),
        Ok(Err(StoreError::NotApplied(fault @ Fault::Schema(_)))) => {
            tracing::error!(%fault, "the store can not be used");
        }
        Ok(Err(error)) => tracing::warn!(%error, "the store can not be opened"),
        Err(_) => tracing::warn!(within = ?OPEN_WITHIN, "the store does not answer"),
    }
    None
}

/// There is no session: whatever was never sent is certainly not applied.
fn refuse(batch: Vec<Unit>) {
    for unit in batch {
        let mut rest = Some(unit);
        while let Some(unit) = rest {
            let rejection = if unit.unknown > 0 { lost() } else { store_unavailable() };
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

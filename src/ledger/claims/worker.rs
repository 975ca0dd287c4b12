//! A worker: one session, one task, one batch at a time. While a batch is at the store the next
//! one gathers; there is no timer.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::FutureExt as _;

use super::batch::{self, Leftover, Round};
use super::locked::row_held;
use super::queue::Chain;
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
/// How many batches' worth of chains may wait in a worker for others of the same key.
const CARRIED_BATCHES_MAX: usize = 4;
/// How long opening a session may take, whatever the store does meanwhile.
const OPEN_WITHIN: Duration = Duration::from_secs(12);

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
            chains = shared.queue.pull(batch_max) => return chains,
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
    loop {
        let fresh = if carried.is_empty() {
            let pulled = tokio::select! {
                biased;
                keys = shared.locked.look_due() => {
                    let Some(still) = look(shared, session.as_mut(), &keys).await else { return Ended::Session };
                    go_on(shared, Some(&still));
                    continue;
                }
                chains = shared.queue.pull(batch_max) => chains,
            };
            let Some(chains) = pulled else { return Ended::Queue };
            chains
        } else {
            // Many calls for one key wait for each other, but must not keep the others out.
            let half =
                if carried.len() < batch_max * CARRIED_BATCHES_MAX { batch_max.div_ceil(2) } else { 0 };
            shared.queue.try_pull(batch_max.saturating_sub(carried.len()).max(half))
        };
        let (batch, next) = one_per_key(std::mem::take(&mut carried), fresh, batch_max);
        carried = next;
        crash::point("after_seal");
        let Leftover { again, broken } = Round::new(shared, session.as_mut()).run(batch).await;
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

/// Which of the rows are still held; none: the session cannot be used any more.
async fn look(shared: &Shared, session: &mut dyn Session, keys: &[Key]) -> Option<Vec<KeyHash>> {
    match batch::within(shared, session.entries().locked(keys)).await {
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
            let rejection = if chain.unknown > 0 { lost() } else { rejection.clone() };
            rest = chain.answer(Err(rejection));
        }
    }
}

/// The chains of one batch: at most `max`, each key once, nobody who has gone away. The others come next.
fn one_per_key(carried: Vec<Chain>, fresh: Vec<Chain>, max: usize) -> (Vec<Chain>, Vec<Chain>) {
    let mut keys = HashSet::with_capacity(carried.len() + fresh.len());
    let mut batch = Vec::with_capacity(carried.len() + fresh.len());
    let mut next = Vec::new();
    for chain in carried.into_iter().chain(fresh) {
        if chain.abandoned() {
            continue;
        }
        if batch.len() < max && keys.insert(chain.key.hash()) {
            batch.push(chain);
        } else {
            next.push(chain);
        }
    }
    batch.sort_by_key(|chain| chain.key.hash());
    (batch, next)
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::super::queue::Request;
    use super::*;
    use crate::domain::{Command, Key, Settle, Span};

    #[test]
    fn a_batch_has_each_key_once_and_no_more_than_its_size() {
        let mut waiting = Vec::new();
        let mut chain = |id: &str| {
            let (reply, answer) = oneshot::channel();
            waiting.push(answer);
            let command = Command::Settle(1, Settle::Release { delay: Span::ZERO });
            Chain::new(Key::new("c", "s", id), Request { command, reply })
        };
        let carried = vec![chain("hot"), chain("hot"), chain("a")];
        let fresh = vec![chain("hot"), chain("b"), chain("c")];
        let (batch, next) = one_per_key(carried, fresh, 3);
        let ids = |chains: &[Chain]| chains.iter().map(|chain| chain.key.id().to_owned()).collect::<Vec<_>>();
        let mut once = ids(&batch);
        once.sort();
        assert_eq!(
            (once, ids(&next)),
            (vec!["a".into(), "b".into(), "hot".into()], vec!["hot".into(), "hot".into(), "c".into()])
        );
        assert!(batch.is_sorted_by_key(|chain| chain.key.hash()));
    }
}

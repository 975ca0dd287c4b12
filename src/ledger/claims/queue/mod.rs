//! The queue of commands that wait for a worker, and its rules:
//!
//! | question | rule |
//! | --- | --- |
//! | what finds room | completions and failures may take all of its commands and bytes, renewals 14 sixteenths, releases 12, claims 10 and one more for consumers with a small backlog, look-ups 8 ([`Lane::share`]) |
//! | what is refused | everything beyond; `retry_after` is spread over what the queue takes to go by ([`Later`]) |
//! | what is served first | the lanes in this order: completions and failures, renewals, releases, claims, look-ups |
//! | who is served first in a lane | consumers by deficit round robin ([`RoundRobin`]), each by age |
//! | how large a batch is | as large as one may be; while several consumers are active, what the store carries out within 5 ms ([`BatchBound`]) |
//! | when a batch leaves | where none is at the store; where so much waits that it is worth a statement of its own; where those at the store have been away for 5 ms ([`Away`]) |
//! | which worker takes it | the one that was at work last: its session is the warmest |
//! | what comes back | first in its consumer's backlog, whatever the bounds say |
//!
//! So a claim of a consumer with a small backlog waits for one batch that is at the store, at the most, and is in the next one.

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

use crate::domain::{Reason, Rejection};
use crate::ledger::claims::queue::batch_bound::BatchBound;
use crate::ledger::claims::queue::fair::RoundRobin;
use crate::ledger::claims::queue::in_flight::{Away, WORTH};
use crate::ledger::claims::queue::lane::{LANES, Lane, few};
use crate::ledger::claims::queue::retry_after::Later;
use crate::ledger::claims::request::Chain;
use crate::ledger::refusals::store_unavailable;
use crate::ledger::runtime::{Instant, Mutex, MutexGuard, pause};

#[derive(Default)]
struct Waiting {
    lanes: [RoundRobin; LANES],
    /// Commands that wait, by lane.
    by_lane: [usize; LANES],
    /// Commands that wait, in all lanes.
    commands: usize,
    closed: bool,
    /// The batches that are at the store.
    away: Away,
    later: Later,
    bound: BatchBound,
    /// A worker was called, and has not come yet: no other one is called.
    called: bool,
    /// Nobody is served any more, which is not for a moment.
    outdated: bool,
}

impl Waiting {
    /// Whether with all of these nobody of them has more than a few in a lane.
    fn has_few(&self, lane: Lane, chains: &[Chain], few: usize) -> bool {
        let more: usize = chains.iter().map(Chain::len).sum();
        let all = |lane: &RoundRobin| chains.iter().all(|chain| lane.waiting(&chain.key) + more <= few);
        self.lanes.get(lane as usize).is_some_and(all)
    }

    /// The next batch; or for how long it waits for another one to come back. So many commands are worth a batch beside
    /// others.
    fn next(&mut self, max: usize, worth: usize) -> Result<Vec<Chain>, Duration> {
        let wait = self.away.wait(self.commands, self.bound.of(worth));
        if wait.is_zero() || self.closed { Ok(self.take(max)) } else { Err(wait) }
    }

    fn take(&mut self, max: usize) -> Vec<Chain> {
        let max = self.bound.of(max);
        let (mut chains, mut commands) = (Vec::with_capacity(max.min(self.commands)), 0);
        for (lane, waits) in self.lanes.iter_mut().zip(&mut self.by_lane) {
            while commands < max {
                let Some(chain) = lane.pop() else { break };
                commands += chain.len();
                *waits -= chain.len();
                chains.push(chain);
            }
        }
        // What comes a second time has waited for something else.
        let mut claims =
            chains.iter().rev().skip_while(|chain| Lane::of(&chain.head.command) == Lane::Lookup);
        if let Some(last) =
            claims.next().filter(|last| Lane::of(&last.head.command) == Lane::Claim && !last.must_load)
        {
            self.later.taken_after(last.since.elapsed());
        }
        self.commands -= commands;
        chains
    }
}

/// How often a queue that was closed is asked whether it is empty.
const EMPTY_YET: Duration = Duration::from_millis(20);

pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    ready: Notify,
    closed: CancellationToken,
    commands_max: usize,
    /// Bytes of all chains that are not answered.
    bytes: Arc<AtomicUsize>,
    bytes_max: usize,
    /// So many commands are worth a batch beside one that is at the store, while one consumer is served.
    worth: usize,
}

/// A batch that is at the store, until this is dropped.
pub(in crate::ledger::claims) struct AtStore<'a> {
    queue: Option<&'a Queue>,
    batch: u64,
}

impl AtStore<'_> {
    /// It has come back, and its worker takes the next one.
    pub(in crate::ledger::claims) fn back(mut self) {
        if let Some(queue) = self.queue.take() {
            queue.waiting().away.back(self.batch);
        }
    }
}

impl Drop for AtStore<'_> {
    /// Its worker does not take the next one: another one does.
    fn drop(&mut self) {
        if let Some(queue) = self.queue {
            queue.waiting().away.back(self.batch);
            queue.ready.notify_one();
        }
    }
}

/// What a worker finds in the queue.
enum Taken {
    Chains(Vec<Chain>, u64),
    /// Nothing waits, or what waits is left for a batch to come back; at the latest for so long.
    Later(Option<Duration>),
    /// Nothing waits, and nothing more is taken.
    Ended,
}

impl Queue {
    pub(crate) fn new(commands_max: usize, bytes_max: usize, batch_max: usize) -> Queue {
        let waiting = Waiting::default();
        let (ready, closed) = (Notify::new(), CancellationToken::new());
        let (bytes, worth) = (Arc::default(), WORTH.min(batch_max));
        Queue { waiting: Mutex::new(waiting), ready, closed, commands_max, bytes, bytes_max, worth }
    }

    /// Takes one chain.
    pub(crate) fn push(&self, chain: Chain) -> Result<(), Rejection> {
        let mut waiting = self.admit(std::slice::from_ref(&chain))?;
        let before = waiting.commands;
        self.enter(&mut waiting, chain);
        self.call(waiting, before);
        Ok(())
    }

    /// Takes one chain, or refuses each of its commands.
    pub(crate) fn push_or_refuse(&self, chain: Chain) {
        match self.admit(std::slice::from_ref(&chain)) {
            Ok(mut waiting) => {
                let before = waiting.commands;
                self.enter(&mut waiting, chain);
                self.call(waiting, before);
            }
            Err(refused) => chain.answer_all(&refused),
        }
    }

    /// Takes all chains, or none.
    pub(crate) fn push_all(&self, chains: Vec<Chain>) -> Result<(), Rejection> {
        if chains.is_empty() {
            return Ok(());
        }
        let mut waiting = self.admit(&chains)?;
        let before = waiting.commands;
        for chain in chains {
            self.enter(&mut waiting, chain);
        }
        self.call(waiting, before);
        Ok(())
    }

    /// Calls a worker where there is something new for it: a batch that may leave at once, or the first command for
    /// which it must watch the time. It is the one that was at work last, whose session is the warmest: where two took
    /// turns, each claim of a lonely client cost Postgres a fifth more. `before`: so many commands waited already.
    fn call(&self, mut waiting: MutexGuard<'_, Waiting>, before: usize) {
        let least = waiting.bound.of(self.worth);
        let worth = before < least && waiting.commands >= least;
        let call = !waiting.called && (before == 0 || worth || waiting.away.is_empty());
        waiting.called |= call;
        drop(waiting);
        if call {
            self.ready.notify_last();
        }
    }

    /// Whether there is room for all of these, as the most important of them finds it.
    fn admit(&self, chains: &[Chain]) -> Result<MutexGuard<'_, Waiting>, Rejection> {
        let lane = chains.iter().map(|chain| Lane::of(&chain.head.command)).min().unwrap_or(Lane::Close);
        let commands: usize = chains.iter().map(Chain::len).sum();
        let bytes: usize = chains.iter().map(Chain::bytes).sum();
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
        // A batch of look-ups that is as large as a batch of claims may be finds room in an empty queue, as they do.
        let lane = if lane == Lane::Lookup && waiting.commands == 0 { Lane::Claim } else { lane };
        let small = |waiting: &Waiting| waiting.has_few(lane, chains, few(self.commands_max));
        self.room(&mut waiting, lane, commands, bytes, small)?;
        Ok(waiting)
    }

    /// Refuses this many claims if there is no room for them, of whichever consumers they are and however few bytes they
    /// have: before any of them is known. A closed queue refuses claims that are known, with another error.
    pub(crate) fn room_for_claims(&self, commands: usize) -> Result<(), Rejection> {
        let mut waiting = self.waiting();
        if commands == 0 || waiting.outdated || waiting.closed {
            return Ok(());
        }
        let small = |_: &Waiting| commands <= few(self.commands_max);
        self.room(&mut waiting, Lane::Claim, commands, 0, small)
    }

    /// Whether there is room for this many commands and bytes. `small` tells whether they are of consumers with a small backlog.
    fn room(
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
        let why = "too many calls wait already; nothing was changed: try again later, with fewer at once";
        let later = &mut waiting.later;
        let retry_after = if lane >= Lane::Claim { later.claim() } else { later.settlement() };
        Err(Rejection { retry_after: Some(retry_after), ..Rejection::new(Reason::Overloaded, why) })
    }

    fn enter(&self, waiting: &mut Waiting, mut chain: Chain) {
        waiting.commands += chain.len();
        waiting.bound.comes(&chain.key, chain.since);
        chain.hold(&self.bytes);
        let place = Queue::lane(&chain);
        if let (Some(lane), Some(waits)) = (waiting.lanes.get_mut(place), waiting.by_lane.get_mut(place)) {
            *waits += chain.len();
            lane.push_back(chain);
        }
    }

    /// Takes back chains that were accepted before: they come first, whatever the bounds say.
    pub(in crate::ledger::claims) fn give_back(&self, chains: Vec<Chain>) {
        if chains.is_empty() {
            return;
        }
        let mut waiting = self.waiting();
        for chain in chains.into_iter().rev() {
            let waiting = &mut *waiting;
            waiting.commands += chain.len();
            let lane = Lane::of(&chain.head.command) as usize;
            if let (Some(lane), Some(waits)) = (waiting.lanes.get_mut(lane), waiting.by_lane.get_mut(lane)) {
                *waits += chain.len();
                lane.push_front(chain);
            }
        }
        drop(waiting);
        self.ready.notify_one();
    }

    /// Resolves once nothing more is taken, and nothing waits.
    pub(in crate::ledger::claims) async fn ended(&self) {
        self.closed.cancelled().await;
        while self.waiting().commands > 0 {
            pause(EMPTY_YET).await;
        }
    }

    /// Waits until a batch may leave for the store, and takes it: chains with up to `max` commands, and those of the last
    /// chain beyond. None once the queue is closed and empty.
    pub(in crate::ledger::claims) async fn pull(&self, max: usize) -> Option<(Vec<Chain>, AtStore<'_>)> {
        loop {
            let notified = self.ready.notified();
            match self.take(max) {
                Taken::Chains(chains, batch) => {
                    return Some((chains, AtStore { queue: Some(self), batch }));
                }
                Taken::Later(None) => notified.await,
                Taken::Later(Some(wait)) => tokio::select! {
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

    /// Takes chains with up to `max` commands, the most important first, to fill up a batch.
    pub(in crate::ledger::claims) fn try_pull(&self, max: usize) -> Vec<Chain> {
        self.waiting().take(max)
    }

    /// Whether the queue was closed is looked at in the very moment in which chains are taken. With a second look
    /// for that, the last worker would leave behind what is pushed between the two.
    fn take(&self, max: usize) -> Taken {
        let mut waiting = self.waiting();
        waiting.called = false;
        if waiting.commands == 0 {
            return if waiting.closed { Taken::Ended } else { Taken::Later(None) };
        }
        let chains = match waiting.next(max, self.worth) {
            Ok(chains) => chains,
            Err(wait) => return Taken::Later(Some(wait)),
        };
        let batch = waiting.away.leave_at(Instant::now());
        if waiting.commands > 0 {
            self.call(waiting, 0);
        }
        Taken::Chains(chains, batch)
    }

    /// The store has carried out a batch of so many commands.
    pub(in crate::ledger::claims) fn carried_out(&self, commands: usize, took: Duration) {
        self.waiting().bound.carried(commands, took);
    }

    /// How many commands wait in each lane, and the bytes of all that are not answered.
    pub(crate) fn depth(&self) -> ([usize; LANES], usize) {
        (self.waiting().by_lane, self.bytes.load(Ordering::Relaxed))
    }

    /// The lane that a chain waits in, by its place.
    pub(in crate::ledger::claims) fn lane(chain: &Chain) -> usize {
        Lane::of(&chain.head.command) as usize
    }

    /// Takes nothing more.
    pub(crate) fn close(&self) {
        self.waiting().closed = true;
        self.closed.cancel();
        self.ready.notify_one();
    }

    /// Takes nothing more, since the store does not serve this server: what waits is refused by the workers.
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

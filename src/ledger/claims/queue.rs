//! The queue of commands that wait for a worker: bounded in commands and in bytes, and refusing claims
//! long before it refuses a completion. What ends something comes before what begins something; among the same kind
//! consumers take turns.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::away::{Away, WORTH};
use super::chain::Chain;
use super::later::Later;
use super::turns::Turns;
use crate::domain::{Command, Reason, Rejection, Settle};
use crate::ledger::refusals::store_unavailable;
use crate::ledger::runtime::{Mutex, MutexGuard, pause};
use crate::metrics;

/// How important a command is: under overload those that end something are kept alive the longest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Close,
    Renew,
    Release,
    Claim,
}

const LANES: usize = metrics::LANES.len();

impl Lane {
    fn of(command: &Command) -> Lane {
        match command {
            Command::Claim(_) => Lane::Claim,
            Command::Settle(_, Settle::Complete { .. } | Settle::Fail { .. }) => Lane::Close,
            Command::Settle(_, Settle::Renew { .. }) => Lane::Renew,
            Command::Settle(_, Settle::Release { .. }) => Lane::Release,
        }
    }

    /// The share of the queue, in eighths, that may be full when such a command still enters.
    fn eighths(self) -> usize {
        match self {
            Lane::Close => 8,
            Lane::Renew => 7,
            Lane::Release => 6,
            Lane::Claim => 5,
        }
    }
}

#[derive(Default)]
struct Waiting {
    lanes: [Turns; LANES],
    /// Commands that wait, by lane.
    by_lane: [usize; LANES],
    /// Commands that wait, in all lanes.
    commands: usize,
    closed: bool,
    /// The batches that are at the store.
    away: Away,
    later: Later,
    /// A worker was called, and has not come yet: no other one is called.
    called: bool,
    /// Nobody is served any more, which is not for a moment.
    outdated: bool,
}

impl Waiting {
    fn take(&mut self, max: usize) -> Vec<Chain> {
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
        if let Some(last) =
            chains.last().filter(|last| Lane::of(&last.head.command) == Lane::Claim && !last.must_load)
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
    /// So many commands are worth a batch beside one that is at the store.
    worth: usize,
}

/// A batch that is at the store, until this is dropped.
pub(super) struct AtStore<'a> {
    queue: Option<&'a Queue>,
    batch: u64,
}

impl AtStore<'_> {
    /// It has come back, and its worker takes the next one.
    pub(super) fn back(mut self) {
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
        let mut waiting = self.admit(Lane::of(&chain.head.command), chain.len(), chain.bytes())?;
        let before = waiting.commands;
        self.enter(&mut waiting, chain);
        self.call(waiting, before);
        Ok(())
    }

    /// Takes all chains, or none.
    pub(crate) fn push_all(&self, chains: Vec<Chain>) -> Result<(), Rejection> {
        let Some(lane) = chains.iter().map(|chain| Lane::of(&chain.head.command)).min() else {
            return Ok(());
        };
        let commands = chains.iter().map(Chain::len).sum();
        let bytes = chains.iter().map(Chain::bytes).sum();
        let mut waiting = self.admit(lane, commands, bytes)?;
        let before = waiting.commands;
        for chain in chains {
            self.enter(&mut waiting, chain);
        }
        self.call(waiting, before);
        Ok(())
    }

    /// Calls a worker where there is something new for it: a batch that may leave at once, or the first command for
    /// which it must watch the time. `before`: so many commands waited already.
    fn call(&self, mut waiting: MutexGuard<'_, Waiting>, before: usize) {
        let worth = before < self.worth && waiting.commands >= self.worth;
        let call = !waiting.called && (before == 0 || worth || waiting.away.is_empty());
        waiting.called |= call;
        drop(waiting);
        if call {
            self.ready.notify_one();
        }
    }

    /// Whether there is room for so much, of which `lane` is the most important.
    fn admit(&self, lane: Lane, commands: usize, bytes: usize) -> Result<MutexGuard<'_, Waiting>, Rejection> {
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
        let held = self.bytes.load(Ordering::SeqCst);
        let too_full = held + bytes > self.bytes_max / 8 * lane.eighths();
        if too_full || waiting.commands + commands > self.commands_max * lane.eighths() / 8 {
            let why = "too many calls wait already; nothing was changed: try again later, with fewer at once";
            let later = &mut waiting.later;
            let retry_after = if lane == Lane::Claim { later.claim() } else { later.settlement() };
            let retry_after = Some(retry_after);
            return Err(Rejection { retry_after, ..Rejection::new(Reason::Overloaded, why) });
        }
        Ok(waiting)
    }

    fn enter(&self, waiting: &mut Waiting, mut chain: Chain) {
        waiting.commands += chain.len();
        chain.hold(&self.bytes);
        let lane = Lane::of(&chain.head.command) as usize;
        if let (Some(turns), Some(waits)) = (waiting.lanes.get_mut(lane), waiting.by_lane.get_mut(lane)) {
            *waits += chain.len();
            turns.push_back(chain);
        }
    }

    /// Takes back chains that were accepted before: they come first, whatever the bounds say.
    pub(super) fn give_back(&self, chains: Vec<Chain>) {
        if chains.is_empty() {
            return;
        }
        let mut waiting = self.waiting();
        for chain in chains.into_iter().rev() {
            let waiting = &mut *waiting;
            waiting.commands += chain.len();
            let lane = Lane::of(&chain.head.command) as usize;
            if let (Some(turns), Some(waits)) = (waiting.lanes.get_mut(lane), waiting.by_lane.get_mut(lane)) {
                *waits += chain.len();
                turns.push_front(chain);
            }
        }
        drop(waiting);
        self.ready.notify_one();
    }

    /// Resolves once nothing more is taken, and nothing waits.
    pub(super) async fn ended(&self) {
        self.closed.cancelled().await;
        while self.waiting().commands > 0 {
            pause(EMPTY_YET).await;
        }
    }

    /// Waits until a batch may leave for the store, and takes it: chains with up to `max` commands, and those of the last
    /// chain beyond. None once the queue is closed and empty.
    pub(super) async fn pull(&self, max: usize) -> Option<(Vec<Chain>, AtStore<'_>)> {
        loop {
            let notified = self.ready.notified();
            match self.take(max) {
                Taken::Chains(chains, batch) => return Some((chains, AtStore { queue: Some(self), batch })),
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
    pub(super) fn try_pull(&self, max: usize) -> Vec<Chain> {
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
        let wait = waiting.away.wait(waiting.commands, self.worth);
        if wait > Duration::ZERO && !waiting.closed {
            return Taken::Later(Some(wait));
        }
        let chains = waiting.take(max);
        let batch = waiting.away.leave();
        if waiting.commands > 0 {
            self.call(waiting, 0);
        }
        Taken::Chains(chains, batch)
    }

    /// How many commands wait in each lane, and the bytes of all that are not answered.
    pub(crate) fn depth(&self) -> ([usize; LANES], usize) {
        (self.waiting().by_lane, self.bytes.load(Ordering::Relaxed))
    }

    /// The lane that a chain waits in, by its place.
    pub(super) fn lane(chain: &Chain) -> usize {
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
mod tests {
    use bytes::Bytes;
    use tokio::sync::oneshot;

    use super::super::chain::Request;
    use super::*;
    use crate::domain::{Claim, Claimant, FailureKind, Key, Span};
    use crate::ledger::runtime::Instant;
    use crate::traces::CallSpan;

    fn claim() -> Command {
        let claimant =
            Claimant { claim_id: uuid::Uuid::nil(), principal: String::new(), owner: String::new() };
        Command::Claim(Claim {
            claimant,
            lease: None,
            fingerprint: Bytes::new(),
            occurred_at: None,
            traceparent: String::new(),
        })
    }

    /// Nobody waits for its answer, of which the queue knows nothing.
    fn chain(id: usize, command: Command, since: Instant) -> Chain {
        let request = Request::new(command, oneshot::channel().0, CallSpan::default());
        Chain::new(Key::new("c", "s", &id.to_string()), request, since)
    }

    #[test]
    fn what_ends_something_is_served_before_what_begins_it() {
        let queue = Queue::new(100, 1 << 20, 100);
        let settles = [
            Settle::Release { delay: Span::ZERO },
            Settle::Renew { lease: None, effect_started: false, checkpoint: None },
            Settle::Complete { result: Bytes::new() },
            Settle::Fail { kind: FailureKind::Retryable, error: String::new(), retry_after: None },
        ];
        let commands = std::iter::once(claim()).chain(settles.map(|settle| Command::Settle(1, settle)));
        for (number, command) in commands.enumerate() {
            assert!(queue.push(chain(number, command, Instant::now())).is_ok());
        }
        let mut served = Vec::new();
        while let Some(chain) = queue.try_pull(1).pop() {
            served.push(chain.key.id().to_owned());
        }
        assert_eq!(served, ["3", "4", "2", "1", "0"], "Complete and Fail, Renew, Release, Claim");
    }

    #[test]
    fn whoever_is_refused_comes_again_once_the_queue_has_gone_by() {
        let queue = Queue::new(16, 1 << 20, 100);
        let renew =
            || Command::Settle(1, Settle::Renew { lease: None, effect_started: false, checkpoint: None });
        let told =
            |chain| queue.push(chain).err().map(|refused| refused.retry_after.unwrap().micros() / 1_000);
        // How long the last batch had waited, and after which time at the least the next claims come again.
        for (waited, least) in [(0, 250), (400, 400), (0, 250)] {
            let now = Instant::now();
            let since = now.checked_sub(Duration::from_millis(waited)).unwrap();
            // Claims take five eighths of 16.
            assert!((0..10).all(|number| queue.push(chain(number, claim(), since)).is_ok()));
            let Taken::Chains(chains, batch) = queue.take(100) else { panic!("nothing waits") };
            assert_eq!(chains.len(), 10);
            queue.waiting().away.back(batch);
            let claims: Vec<i64> = (0..18).filter_map(|number| told(chain(number, claim(), now))).collect();
            let fits = |told: &i64| (least..2 * least + 100).contains(told);
            assert!(claims.len() == 8 && claims.iter().all(fits), "after {waited} ms: {claims:?} ms");
            // Renewals take seven, and for them there is room as soon as a batch leaves.
            let renews: Vec<i64> = (0..12).filter_map(|number| told(chain(number, renew(), now))).collect();
            let fits = |told: &i64| (250..500).contains(told);
            assert!(renews.len() == 8 && renews.iter().all(fits), "after {waited} ms: {renews:?} ms");
            drop(queue.try_pull(100));
        }
    }
}

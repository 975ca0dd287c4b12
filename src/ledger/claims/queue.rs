//! The queue of commands that wait for a worker: bounded in commands and in bytes, and refusing claims
//! long before it refuses a completion.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::chain::Chain;
use crate::domain::{Command, Reason, Rejection, Settle};
use crate::ledger::runtime::{Mutex, MutexGuard, pause};

/// How important a command is: under overload those that end something are kept alive the longest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Close,
    Renew,
    Release,
    Claim,
}

const LANES: usize = 4;

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

struct Waiting {
    lanes: [VecDeque<Chain>; LANES],
    /// Commands that wait, in all lanes.
    commands: usize,
    closed: bool,
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
}

impl Queue {
    pub(crate) fn new(commands_max: usize, bytes_max: usize) -> Queue {
        let waiting = Waiting { lanes: Default::default(), commands: 0, closed: false };
        let (ready, closed) = (Notify::new(), CancellationToken::new());
        Queue { waiting: Mutex::new(waiting), ready, closed, commands_max, bytes: Arc::default(), bytes_max }
    }

    /// Takes one chain.
    pub(crate) fn push(&self, chain: Chain) -> Result<(), Rejection> {
        let mut waiting = self.admit(Lane::of(&chain.head.command), chain.len(), chain.bytes())?;
        self.enter(&mut waiting, chain);
        drop(waiting);
        self.ready.notify_one();
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
        for chain in chains {
            self.enter(&mut waiting, chain);
        }
        drop(waiting);
        self.ready.notify_one();
        Ok(())
    }

    /// Whether there is room for so much, of which `lane` is the most important.
    fn admit(&self, lane: Lane, commands: usize, bytes: usize) -> Result<MutexGuard<'_, Waiting>, Rejection> {
        let waiting = self.waiting();
        if waiting.closed {
            return Err(Rejection::new(
                Reason::Draining,
                "this server is shutting down; nothing was changed: try again, another one answers",
            ));
        }
        let held = self.bytes.load(Ordering::SeqCst);
        let too_full = held + bytes > self.bytes_max / 8 * lane.eighths();
        if too_full || waiting.commands + commands > self.commands_max * lane.eighths() / 8 {
            return Err(Rejection::new(
                Reason::Overloaded,
                "too many calls wait already; nothing was changed: try again later, with fewer at once",
            ));
        }
        Ok(waiting)
    }

    fn enter(&self, waiting: &mut Waiting, mut chain: Chain) {
        waiting.commands += chain.len();
        chain.hold(&self.bytes);
        let lane = Lane::of(&chain.head.command);
        if let Some(lane) = waiting.lanes.get_mut(lane as usize) {
            lane.push_back(chain);
        }
    }

    /// Takes back chains that were accepted before: they come first, whatever the bounds say.
    pub(super) fn give_back(&self, chains: Vec<Chain>) {
        if chains.is_empty() {
            return;
        }
        let mut waiting = self.waiting();
        for chain in chains.into_iter().rev() {
            waiting.commands += chain.len();
            let lane = Lane::of(&chain.head.command);
            if let Some(lane) = waiting.lanes.get_mut(lane as usize) {
                lane.push_front(chain);
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

    /// Waits for chains, and takes some with up to `max` commands, but for the rest of the last one; none once the queue is closed and empty.
    pub(super) async fn pull(&self, max: usize) -> Option<Vec<Chain>> {
        loop {
            let notified = self.ready.notified();
            let (chains, closed) = self.take(max);
            if !chains.is_empty() {
                return Some(chains);
            }
            if closed {
                self.ready.notify_one();
                return None;
            }
            notified.await;
        }
    }

    /// Takes chains with up to `max` commands, the most important first.
    pub(super) fn try_pull(&self, max: usize) -> Vec<Chain> {
        self.take(max).0
    }

    /// Takes chains, and says whether the queue was closed at that very moment. With a second look
    /// for that, the last worker would leave behind what is pushed between the two.
    fn take(&self, max: usize) -> (Vec<Chain>, bool) {
        let mut waiting = self.waiting();
        let (mut chains, mut commands) = (Vec::new(), 0);
        for lane in 0..LANES {
            while commands < max {
                let Some(chain) = waiting.lanes.get_mut(lane).and_then(VecDeque::pop_front) else { break };
                commands += chain.len();
                waiting.commands -= chain.len();
                chains.push(chain);
            }
        }
        if waiting.commands > 0 {
            self.ready.notify_one();
        }
        (chains, waiting.closed)
    }

    /// Takes nothing more.
    pub(crate) fn close(&self) {
        self.waiting().closed = true;
        self.closed.cancel();
        self.ready.notify_one();
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

    #[test]
    fn what_ends_something_is_served_before_what_begins_it() {
        let queue = Queue::new(100, 1 << 20);
        let mut waiting = Vec::new();
        let settles = [
            Settle::Release { delay: Span::ZERO },
            Settle::Renew { lease: None, effect_started: false, checkpoint: None },
            Settle::Complete { result: Bytes::new() },
            Settle::Fail { kind: FailureKind::Retryable, error: String::new(), retry_after: None },
        ];
        let commands = std::iter::once(claim()).chain(settles.map(|settle| Command::Settle(1, settle)));
        for (number, command) in commands.enumerate() {
            let (reply, answer) = oneshot::channel();
            waiting.push(answer);
            let key = Key::new("c", "s", &number.to_string());
            assert!(queue.push(Chain::new(key, Request::new(command, reply))).is_ok());
        }
        let mut served = Vec::new();
        while let Some(chain) = queue.try_pull(1).pop() {
            served.push(chain.key.id().to_owned());
        }
        assert_eq!(served, ["3", "4", "2", "1", "0"], "Complete and Fail, Renew, Release, Claim");
    }
}

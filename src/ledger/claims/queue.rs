//! The queue of commands that wait for a worker: bounded in commands and in bytes, and refusing claims
//! long before it refuses a completion.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::domain::{Answer, Command, Key, Reason, Rejection, Settle};
use crate::ledger::runtime::{Mutex, MutexGuard, pause};

/// One command and whom to answer.
pub(crate) struct Step {
    pub(crate) command: Command,
    pub(crate) reply: oneshot::Sender<Answer>,
}

/// Commands of one call for one key, to be carried out one after the other.
pub(crate) struct Unit {
    pub(super) key: Key,
    pub(super) head: Step,
    pub(crate) later: VecDeque<Step>,
    /// How often the head lost a race.
    pub(super) rounds: u32,
    /// How often it is unknown whether the head was applied.
    pub(super) unknown: u32,
    /// The head's guess was wrong: load first.
    pub(super) look: bool,
    /// Its call consists of this one command: no other answer waits for it.
    pub(crate) alone: bool,
    /// Its bytes, once it is in the queue and until its last command is answered.
    held: Option<Held>,
}

/// Bytes that count towards the queue's, wherever their unit is: what a worker has taken is in memory too.
struct Held {
    bytes: usize,
    of: Arc<AtomicUsize>,
}

impl Held {
    fn new(bytes: usize, of: &Arc<AtomicUsize>) -> Held {
        of.fetch_add(bytes, Ordering::SeqCst);
        Held { bytes, of: Arc::clone(of) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

impl Unit {
    pub(crate) fn new(key: Key, head: Step) -> Unit {
        Unit {
            key,
            head,
            later: VecDeque::new(),
            rounds: 0,
            unknown: 0,
            look: false,
            alone: false,
            held: None,
        }
    }

    /// The caller has gone away before anything was sent to the store.
    pub(super) fn abandoned(&self) -> bool {
        self.unknown == 0 && self.head.reply.is_closed()
    }

    /// Answers the head; what is left goes on with the next command.
    pub(super) fn answer(mut self, answer: Answer) -> Option<Unit> {
        let next = self.later.pop_front();
        let _gone = self.head.reply.send(answer);
        Some(Unit { head: next?, rounds: 0, unknown: 0, look: true, ..self })
    }

    fn len(&self) -> usize {
        1 + self.later.len()
    }

    fn bytes(&self) -> usize {
        let steps = std::iter::once(&self.head).chain(&self.later);
        self.key.bytes() + steps.map(|step| step.command.payload_bytes()).sum::<usize>()
    }
}

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
    lanes: [VecDeque<Unit>; LANES],
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
    /// Bytes of all units that are not answered.
    bytes: Arc<AtomicUsize>,
    bytes_max: usize,
}

impl Queue {
    pub(crate) fn new(commands_max: usize, bytes_max: usize) -> Queue {
        let waiting = Waiting { lanes: Default::default(), commands: 0, closed: false };
        let (ready, closed) = (Notify::new(), CancellationToken::new());
        Queue { waiting: Mutex::new(waiting), ready, closed, commands_max, bytes: Arc::default(), bytes_max }
    }

    /// Takes all units, or none.
    pub(crate) fn push(&self, units: Vec<Unit>) -> Result<(), Rejection> {
        let Some(lane) = units.iter().map(|unit| Lane::of(&unit.head.command)).min() else {
            return Ok(());
        };
        let commands: usize = units.iter().map(Unit::len).sum();
        let bytes: usize = units.iter().map(Unit::bytes).sum();
        let mut waiting = self.waiting();
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
        waiting.commands += commands;
        for mut unit in units {
            unit.held = Some(Held::new(unit.bytes(), &self.bytes));
            let lane = Lane::of(&unit.head.command);
            if let Some(lane) = waiting.lanes.get_mut(lane as usize) {
                lane.push_back(unit);
            }
        }
        drop(waiting);
        self.ready.notify_one();
        Ok(())
    }

    /// Takes back units that were accepted before: they come first, whatever the bounds say.
    pub(super) fn give_back(&self, units: Vec<Unit>) {
        if units.is_empty() {
            return;
        }
        let mut waiting = self.waiting();
        for unit in units.into_iter().rev() {
            waiting.commands += unit.len();
            let lane = Lane::of(&unit.head.command);
            if let Some(lane) = waiting.lanes.get_mut(lane as usize) {
                lane.push_front(unit);
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

    /// Waits for units, and takes up to `max` of them; none once the queue is closed and empty.
    pub(super) async fn pull(&self, max: usize) -> Option<Vec<Unit>> {
        loop {
            let notified = self.ready.notified();
            let (units, closed) = self.take(max);
            if !units.is_empty() {
                return Some(units);
            }
            if closed {
                self.ready.notify_one();
                return None;
            }
            notified.await;
        }
    }

    /// Takes up to `max` of the units that wait, the most important first.
    pub(super) fn try_pull(&self, max: usize) -> Vec<Unit> {
        self.take(max).0
    }

    /// Takes units, and says whether the queue was closed at that very moment. With a second look
    /// for that, the last worker would leave behind what is pushed between the two.
    fn take(&self, max: usize) -> (Vec<Unit>, bool) {
        let mut waiting = self.waiting();
        let mut units = Vec::new();
        for lane in 0..LANES {
            while units.len() < max {
                let Some(unit) = waiting.lanes.get_mut(lane).and_then(VecDeque::pop_front) else { break };
                waiting.commands -= unit.len();
                units.push(unit);
            }
        }
        if waiting.commands > 0 {
            self.ready.notify_one();
        }
        (units, waiting.closed)
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

    use super::*;
    use crate::domain::{Claim, Claimant, FailureKind, Span};

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
            assert!(queue.push(vec![Unit::new(key, Step { command, reply })]).is_ok());
        }
        let mut served = Vec::new();
        while let Some(unit) = queue.try_pull(1).pop() {
            served.push(unit.key.id().to_owned());
        }
        assert_eq!(served, ["3", "4", "2", "1", "0"], "Complete and Fail, Renew, Release, Claim");
    }
}

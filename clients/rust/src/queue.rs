//! The messages of a worker that wait, and those that run.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::{
    calls::span,
    hold::{Hold, Keeping},
    inbox::StoredMessage,
    inflight::Entered,
    key::Key,
    telemetry::Parent,
};

/// Of a `ClaimNext`: a request to stop is obeyed after it.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Messages that each handler has at hand at most: other workers may be free for the rest.
const AHEAD: usize = 10;
/// Messages that one `ClaimNext` may hand out.
const ONE_CALL: usize = 1000;
/// A message whose lease ran out twice in a row is handed out alone: it may kill the process that runs it.
const SUSPECT_ATTEMPT: i32 = 3;

/// A message that this process was handed out, and that is renewed.
pub(crate) struct Item {
    pub(crate) hold: Arc<Hold>,
    pub(crate) message: StoredMessage,
    pub(crate) parent: Parent,
    pub(crate) held: (Option<Keeping>, Entered),
}

/// Guarded by its worker.
pub(crate) struct WorkQueue {
    concurrency: usize,
    lease: Duration,
    /// With whether it is a suspect.
    waiting: VecDeque<(Item, bool)>,
    /// By name, whether it is a suspect.
    running: HashMap<Key, bool>,
    took: Option<Duration>,
}

impl WorkQueue {
    pub(crate) fn new(concurrency: usize, lease: Duration) -> Self {
        Self { concurrency, lease, waiting: VecDeque::new(), running: HashMap::new(), took: None }
    }

    /// How many messages to ask for now; 0 while enough wait, and while a suspect waits or runs.
    pub(crate) fn room(&self) -> usize {
        let suspect = self.suspect().is_some() || self.running.values().any(|alone| *alone);
        if self.waiting.len() >= self.concurrency || suspect {
            return 0;
        }
        // All leases of a handout begin with it: it is at most what half of a lease suffices for.
        let half = |took: Duration| self.lease.as_micros() / (2 * took.as_micros().max(1000));
        let ahead = self.took.map_or(1, half).clamp(1, AHEAD as u128);
        let most = self.concurrency * usize::try_from(ahead).unwrap_or(1);
        most.saturating_sub(self.waiting.len() + self.running.len()).min(ONE_CALL)
    }

    /// The claim of a suspect that waits to run alone. `None` also where that claim is lost: such a message ends without a
    /// handler, so that it may begin next to others.
    pub(crate) fn suspect(&self) -> Option<Arc<Hold>> {
        self.waiting.iter().find(|waits| holds_up(waits)).map(|(item, _)| Arc::clone(&item.hold))
    }

    /// How long a `ClaimNext` may wait: a quarter of the lease, which counts from before the call.
    pub(crate) fn wait(&self) -> Duration {
        LONGEST_WAIT.min(self.lease / 4)
    }

    pub(crate) fn add(&mut self, items: Vec<Item>) {
        let one = items.len() == 1;
        for item in items {
            let granted = &item.hold.granted;
            self.lease = span(granted.lease.as_ref());
            let alone = one && granted.effect_unknown && granted.attempt >= SUSPECT_ATTEMPT;
            self.waiting.push_back((item, alone));
        }
    }

    /// The next message to run, which counts as running from now on. `None` while none may begin.
    pub(crate) fn next(&mut self) -> Option<Item> {
        if self.running.len() >= self.concurrency || self.running.values().any(|alone| *alone) {
            return None;
        }
        // A handler of an earlier attempt, whose lease was lost, may still run here.
        let free = |waits: &(Item, bool)| holds_up(waits) || !self.running.contains_key(&waits.0.message.key);
        let at = self.waiting.iter().position(free)?;
        let alone = holds_up(&self.waiting[at]);
        if alone && !self.running.is_empty() {
            return None;
        }
        let (item, _) = self.waiting.remove(at)?;
        self.running.insert(item.message.key.clone(), alone);
        Some(item)
    }

    /// Its handler has ended after this time.
    pub(crate) fn ended(&mut self, key: &Key, took: Duration) {
        self.running.remove(key);
        let slower = self.took.map(|known| known.mul_f64(0.9) + took.mul_f64(0.1));
        self.took = Some(slower.map_or(took, |slower| slower.max(took)));
    }

    pub(crate) fn idle(&self) -> bool {
        self.running.is_empty()
    }

    /// The messages that have not begun; none of them begins any more.
    pub(crate) fn drain(&mut self) -> Vec<Item> {
        self.waiting.drain(..).map(|(item, _)| item).collect()
    }
}

fn holds_up((item, alone): &(Item, bool)) -> bool {
    *alone && item.hold.lost().is_none()
}

//! Commands for one key that wait together: those of one call stay in their order, and those of other calls join
//! behind them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::answers::AnswerTo;
use crate::domain::{Answer, Command, Key, Rejection};
use crate::ledger::runtime::Instant;
use crate::traces::CallSpan;

/// One command and whom to answer.
pub(crate) struct Request {
    pub(super) command: Command,
    pub(super) to: AnswerTo,
    pub(super) span: CallSpan,
    /// How often it lost a race.
    pub(super) rounds: u32,
    /// How often it is unknown whether it was applied.
    pub(super) unknown: u32,
    /// Where that is unknown: the version of the entry that its change would have replaced; none: it was inserted.
    pub(super) over: Option<i64>,
    /// A try of it whose outcome is unknown found the lease over, and renewed it.
    pub(super) revived: bool,
    /// It was refused by a decision that leaves a mark: its answer, whatever becomes of the write of the mark.
    pub(super) refused: Option<Rejection>,
    /// Its bytes, once it is in the queue and until it is answered.
    held: Option<Held>,
}

/// Bytes that count towards the queue's, wherever their request is: what a worker has taken is in memory too.
struct Held {
    bytes: usize,
    of: Arc<AtomicUsize>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

impl Request {
    pub(crate) fn new(command: Command, to: AnswerTo, span: CallSpan) -> Request {
        let (rounds, unknown, over, revived) = (0, 0, None, false);
        Request { command, to, span, rounds, unknown, over, revived, refused: None, held: None }
    }

    /// The caller has gone away before anything was sent to the store.
    fn abandoned(&self) -> bool {
        self.unknown == 0 && self.to.is_closed()
    }
}

/// Commands for one key, to be carried out one after the other.
pub(crate) struct Chain {
    pub(super) key: Key,
    /// Elsewhere, since a chain moves from one list to the next a dozen times before it is answered.
    pub(super) head: Box<Request>,
    pub(super) later: VecDeque<Request>,
    /// The head's guess was wrong, or the head has none: load first.
    pub(super) must_load: bool,
    /// How many of its commands are decided together, at the most; zero: as many as a batch takes.
    pub(super) together: usize,
    /// When the first of them came.
    pub(super) since: Instant,
}

impl Chain {
    pub(crate) fn new(key: Key, head: Request, since: Instant) -> Chain {
        Chain { key, head: Box::new(head), later: VecDeque::new(), must_load: false, together: 0, since }
    }

    /// It is known that its key has an entry, so that no insert is tried before the load.
    pub(crate) fn loads_first(self) -> Chain {
        Chain { must_load: true, ..self }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// The next command of the same call.
    pub(crate) fn push(&mut self, request: Request) {
        self.later.push_back(request);
    }

    /// Commands of other calls for the same key come after these.
    pub(super) fn join(&mut self, other: Chain) {
        self.later.push_back(*other.head);
        self.later.extend(other.later);
    }

    pub(super) fn len(&self) -> usize {
        1 + self.later.len()
    }

    /// Whether none of its commands can change the entry.
    pub(super) fn only_looks(&self) -> bool {
        self.requests().all(|request| matches!(request.command, Command::Lookup))
    }

    /// The bytes of one of its commands: the key counts for each, since each call brought its own.
    fn bytes_of(&self, request: &Request) -> usize {
        self.key.bytes() + request.command.payload_bytes()
    }

    pub(super) fn bytes(&self) -> usize {
        self.requests().map(|request| self.bytes_of(request)).sum()
    }

    /// Counts its bytes towards these until each command is answered.
    pub(super) fn hold(&mut self, of: &Arc<AtomicUsize>) {
        of.fetch_add(self.bytes(), Ordering::SeqCst);
        let key = self.key.bytes();
        for request in self.requests_mut() {
            let bytes = key + request.command.payload_bytes();
            request.held = Some(Held { bytes, of: Arc::clone(of) });
        }
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = &Request> {
        std::iter::once(&*self.head).chain(&self.later)
    }

    pub(super) fn requests_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        std::iter::once(&mut *self.head).chain(&mut self.later)
    }

    /// Answers the head; what is left goes on with the next command.
    pub(super) fn answer(mut self, answer: Answer) -> Option<Chain> {
        let next = self.later.pop_front();
        self.head.to.send(answer);
        Some(Chain { head: Box::new(next?), must_load: true, ..self })
    }

    /// Refuses all of its commands, of which none was sent.
    pub(super) fn answer_all(self, refused: &Rejection) {
        let mut rest = Some(self);
        while let Some(chain) = rest {
            rest = chain.answer(Err(refused.clone()));
        }
    }

    /// What is left without those whose callers went away before anything was sent to the store.
    pub(super) fn without_abandoned(self) -> Option<Chain> {
        if self.requests().any(Request::abandoned) {
            return self.split(|request| !request.abandoned()).0;
        }
        Some(self)
    }

    /// Parts it in two: those of which something is true, and the others. Each keeps its order.
    pub(super) fn split(self, is: impl Fn(&Request) -> bool) -> (Option<Chain>, Option<Chain>) {
        let Chain { key, head, later, must_load, together, since } = self;
        let (ours, others): (VecDeque<Request>, VecDeque<Request>) =
            std::iter::once(*head).chain(later).partition(is);
        let chain = |mut requests: VecDeque<Request>| {
            let head = Box::new(requests.pop_front()?);
            Some(Chain { key: key.clone(), head, later: requests, must_load, together, since })
        };
        (chain(ours), chain(others))
    }
}

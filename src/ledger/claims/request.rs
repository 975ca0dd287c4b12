//! The per-key queue: commands for one key that wait together. The commands of one call keep their order, and those of other
//! calls are appended.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::answers::AnswerTo;
use crate::domain::{Answer, Command, Key, Rejection};
use crate::ledger::runtime::Instant;
use crate::traces::CallSpan;

/// One command, and where its answer is sent.
pub(crate) struct Request {
    pub(super) command: Command,
    pub(super) to: AnswerTo,
    pub(super) span: CallSpan,
    /// How often it lost a race.
    pub(super) rounds: u32,
    /// How often its outcome was unknown.
    pub(super) unknown: u32,
    /// If the outcome is unknown: the version of the entry that its change would have replaced; `None` if it was inserted.
    pub(super) replaced_version: Option<i64>,
    /// An earlier try with unknown outcome found the lease over, and renewed it.
    pub(super) revived: bool,
    /// The refusal by a decision that leaves a mark on the entry: it stands, whether or not the mark is written.
    pub(super) refused: Option<Rejection>,
    /// The bytes of the command, from when it is queued until it is answered.
    counted: Option<CountedBytes>,
}

/// Bytes that count towards the bound of the queue, also while a worker has the request: it is in memory too.
struct CountedBytes {
    bytes: usize,
    of: Arc<AtomicUsize>,
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

impl Request {
    pub(crate) fn new(command: Command, to: AnswerTo, span: CallSpan) -> Request {
        let (rounds, unknown, replaced_version, revived) = (0, 0, None, false);
        Request {
            command,
            to,
            span,
            rounds,
            unknown,
            replaced_version,
            revived,
            refused: None,
            counted: None,
        }
    }

    /// The caller has gone away before anything was sent to the store.
    fn abandoned(&self) -> bool {
        self.unknown == 0 && self.to.is_closed()
    }
}

/// Commands for one key, carried out in order.
pub(crate) struct KeyQueue {
    pub(super) key: Key,
    /// Boxed, since a per-key queue moves a dozen times between lists before it is answered.
    pub(super) head: Box<Request>,
    pub(super) later: VecDeque<Request>,
    /// The optimistic path failed for the head, or the head does not have one: load first.
    pub(super) must_load: bool,
    /// Maximum number of its commands that are decided together; zero: as many as a batch may have.
    pub(super) together: usize,
    /// When the first command arrived: the queue measures its wait from here.
    pub(super) since: Instant,
}

impl KeyQueue {
    pub(crate) fn new(key: Key, head: Request, since: Instant) -> KeyQueue {
        KeyQueue { key, head: Box::new(head), later: VecDeque::new(), must_load: false, together: 0, since }
    }

    /// Marks that the key is known to have an entry: the commands load it first, without an optimistic insert.
    pub(crate) fn loads_first(self) -> KeyQueue {
        KeyQueue { must_load: true, ..self }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// Appends the next command of the same call.
    pub(crate) fn push(&mut self, request: Request) {
        self.later.push_back(request);
    }

    /// Appends commands of other calls for the same key.
    pub(super) fn append(&mut self, other: KeyQueue) {
        self.later.push_back(*other.head);
        self.later.extend(other.later);
    }

    pub(super) fn len(&self) -> usize {
        1 + self.later.len()
    }

    /// Whether all commands are Lookups, which cannot change the entry.
    pub(super) fn only_looks(&self) -> bool {
        self.requests().all(|request| matches!(request.command, Command::Lookup))
    }

    /// Bytes of one command: the key counts for each, since each call brought a copy.
    fn bytes_of(&self, request: &Request) -> usize {
        self.key.bytes() + request.command.payload_bytes()
    }

    pub(super) fn bytes(&self) -> usize {
        self.requests().map(|request| self.bytes_of(request)).sum()
    }

    /// Counts its bytes towards this counter until each command is answered.
    pub(super) fn count_bytes(&mut self, of: &Arc<AtomicUsize>) {
        of.fetch_add(self.bytes(), Ordering::SeqCst);
        let key = self.key.bytes();
        for request in self.requests_mut() {
            let bytes = key + request.command.payload_bytes();
            request.counted = Some(CountedBytes { bytes, of: Arc::clone(of) });
        }
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = &Request> {
        std::iter::once(&*self.head).chain(&self.later)
    }

    pub(super) fn requests_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        std::iter::once(&mut *self.head).chain(&mut self.later)
    }

    /// Answers the head; returns the rest, which goes on with the next command.
    pub(super) fn answer(mut self, answer: Answer) -> Option<KeyQueue> {
        let next = self.later.pop_front();
        self.head.to.send(answer);
        Some(KeyQueue { head: Box::new(next?), must_load: true, ..self })
    }

    /// Refuses all commands, none of which was sent.
    pub(super) fn answer_all(self, refused: &Rejection) {
        let mut rest = Some(self);
        while let Some(key_queue) = rest {
            rest = key_queue.answer(Err(refused.clone()));
        }
    }

    /// The rest, without commands whose callers went away before anything was sent to the store.
    pub(super) fn without_abandoned(self) -> Option<KeyQueue> {
        if self.requests().any(Request::abandoned) {
            return self.split(|request| !request.abandoned()).0;
        }
        Some(self)
    }

    /// Splits into the commands that match, and the others. Each keeps its order.
    pub(super) fn split(self, is: impl Fn(&Request) -> bool) -> (Option<KeyQueue>, Option<KeyQueue>) {
        let KeyQueue { key, head, later, must_load, together, since } = self;
        let (ours, others): (VecDeque<Request>, VecDeque<Request>) =
            std::iter::once(*head).chain(later).partition(is);
        let key_queue = |mut requests: VecDeque<Request>| {
            let head = Box::new(requests.pop_front()?);
            Some(KeyQueue { key: key.clone(), head, later: requests, must_load, together, since })
        };
        (key_queue(ours), key_queue(others))
    }
}

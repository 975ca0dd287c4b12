//! Calls of the inbox, and the invariants of every answer.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use shuttle::future::yield_now;
use uuid::Uuid;

use super::disk::{Inner, POISON};
use super::runtime::{call_clock, pass};
use super::world::{CONSUMERS, World};
use crate::domain::{
    Body, Entry, HandOutBounds, Handed, Key, NextAnswer, NextRequest, Reason, Rejection, Span, State, Store,
    StoreRequest, StoreVerdict, Stored, Verdict,
};
use crate::ledger::{WaitEnds, WaitingCaller};
use crate::store::KeptMessage;

/// How long a call may take after its wait.
const TO_DEADLINE: Duration = Duration::from_hours(1);
/// Nothing is granted with less than this left of the call's deadline.
const LEFT_MIN: Duration = Duration::from_secs(1);

/// A Store with a number, which the store finds in its message.
#[derive(Clone, Debug)]
pub(super) struct NumberedStore {
    pub(super) number: u64,
    key: Key,
}

/// A `ClaimNext`, whose number is its `claim_id`.
#[derive(Clone, Debug)]
pub(super) struct NumberedNext {
    pub(super) number: u64,
    wanted: usize,
    wait: Duration,
    /// Two servers carry it out at the same time.
    pub(super) is_doubled: bool,
}

impl NumberedNext {
    pub(super) fn claim_id(&self) -> Uuid {
        Uuid::from_u128(self.number.into())
    }

    fn request(&self, consumer: &str) -> NextRequest {
        NextRequest {
            consumer: consumer.to_owned(),
            claim_id: self.claim_id(),
            principal: String::new(),
            owner: String::new(),
            lease: None,
            bounds: HandOutBounds { messages: self.wanted, bytes: usize::MAX },
            traceparent: String::new(),
        }
    }
}

/// The connection of a waiting call: it has a place for each.
#[derive(Default)]
pub(super) struct CallConnection {
    /// How often the call was about to look again.
    pub(super) looks: AtomicUsize,
}

impl WaitingCaller for CallConnection {
    type Permit = ();

    fn principal(&self) -> Option<&str> {
        Some("worker")
    }

    fn place(&self) -> Option<()> {
        Some(())
    }

    fn rests(&self) {}

    fn judged(&self) -> Result<(), Rejection> {
        Ok(())
    }

    fn looks(&self) -> Result<(), Rejection> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// The token of a message that is handed out.
pub(super) fn token_of(handed: &Handed) -> i64 {
    let Verdict::Acquired { token, .. } = handed.verdict else {
        panic!("{:?} was handed out as {:?}", handed.key, handed.verdict);
    };
    token
}

/// Checks what was handed out: each message was stored, is held by this claim, and belongs to the only handout of this claim.
fn check_handed_out(inner: &Inner, call: &NumberedNext, messages: &[Handed]) {
    let mut keys = HashSet::new();
    assert!(messages.len() <= call.wanted, "{} messages for {call:?}", messages.len());
    let handout = inner.messages.handout(call.claim_id());
    let handout = handout.unwrap_or_else(|| panic!("{call:?} was answered before the commit"));
    for handed in messages {
        let (key, token) = (&handed.key, token_of(handed));
        assert!(keys.insert(key.hash()), "{key:?} was handed out twice to {call:?}");
        assert!(handout.keys.contains(&key.hash()), "{call:?} has another handout: {handout:?}");
        let claim = |row: &Entry| row.claimant.as_ref().map(|claimant| claimant.claim_id);
        let is_held = |row: &Entry| row.token == token && claim(row) == Some(call.claim_id());
        assert!(inner.committed(key, is_held), "{key:?} is not held by {call:?}");
        let message = KeptMessage { message: handed.message.clone(), stored_at: handed.stored_at };
        assert!(inner.messages.were_stored(key, &message), "{message:?} was never stored under {key:?}");
    }
}

impl World {
    /// A new message.
    pub(super) fn message(&self, key: &Key) -> NumberedStore {
        NumberedStore { number: self.number(), key: key.clone() }
    }

    /// A new call for messages.
    pub(super) fn next_call(&self, wanted: usize, wait: Duration) -> NumberedNext {
        NumberedNext { number: self.number(), wanted, wait, is_doubled: false }
    }

    /// Stores messages together, and checks each answer.
    pub(super) async fn store(&self, stores: &[NumberedStore]) -> Vec<Stored> {
        let request = |one: &NumberedStore| StoreRequest {
            key: one.key.clone(),
            store: Store { fingerprint: Bytes::new(), occurred_at: None, traceparent: String::new() },
            message: Bytes::from(one.number.to_string()),
            event_type: String::new(),
        };
        let answers = self.ledger.store_all(stores.iter().map(request).collect()).await;
        let answers = answers.unwrap_or_else(|rejection| vec![Err(rejection); stores.len()]);
        assert_eq!(answers.len(), stores.len(), "each Store is answered once");
        for (store, answer) in stores.iter().zip(&answers) {
            self.check_store(store, answer);
        }
        answers
    }

    fn check_store(&self, call: &NumberedStore, answer: &Stored) {
        let inner = self.disk.inner();
        let wrong = |what: &str| panic!("{what}: {call:?} was answered {answer:?}");
        let kept = || inner.committed(&call.key, |row| row.body == Some(Body::Kept));
        let is_unknown = matches!(answer, Err(Rejection { reason: Reason::OutcomeUnknown, .. }));
        if inner.died.contains(&call.number) && !is_unknown {
            wrong("the task died over it");
        }
        let (verdict, stored_at) = match answer {
            Ok(answered) => answered,
            Err(rejection) => {
                if !is_unknown {
                    self.check_refused(&inner, call.number, rejection, call.key.id());
                }
                return self.tally.count(&format!("Store: {:?}", rejection.reason));
            }
        };
        let (word, is_true) = match verdict {
            StoreVerdict::Stored { state: State::InProgress } => {
                ("stored while it is held", inner.applied.contains(&call.number))
            }
            StoreVerdict::Stored { .. } => ("stored", inner.applied.contains(&call.number)),
            StoreVerdict::AlreadyStored { .. } => ("already stored", kept() && stored_at.is_some()),
            StoreVerdict::Completed { .. } => (
                "stored after its completion",
                inner.committed(&call.key, |row| row.state == State::Completed),
            ),
            StoreVerdict::Failed { .. }
            | StoreVerdict::FingerprintMismatch { .. }
            | StoreVerdict::OutsideWindow { .. } => ("other", false),
        };
        if !is_true {
            wrong("the store shows nothing of it");
        }
        self.tally.count(word);
        self.acknowledged.lock().unwrap().insert(call.key.clone());
    }

    /// A call that was refused has changed nothing.
    fn check_refused(&self, inner: &Inner, number: u64, rejection: &Rejection, id: &str) {
        assert!(!inner.applied.contains(&number), "{number} was applied: {rejection:?}");
        let spread = rejection.reason == Reason::Internal && !id.starts_with(POISON);
        assert!(!spread, "a neighbour's poison spread to {number}");
        self.refused.lock().unwrap().insert(number);
    }

    /// Asks for messages of the first consumer.
    pub(super) async fn next(&self, call: &NumberedNext) -> Result<NextAnswer, Rejection> {
        self.next_of(CONSUMERS[0], call).await
    }

    /// Asks for messages of a consumer.
    pub(super) async fn next_of(&self, consumer: &str, call: &NumberedNext) -> Result<NextAnswer, Rejection> {
        self.next_through(&CallConnection::default(), consumer, call).await
    }

    /// Asks for messages, and checks the answer. A call may be repeated, one time after the other.
    pub(super) async fn next_through(
        &self,
        connection: &CallConnection,
        consumer: &str,
        call: &NumberedNext,
    ) -> Result<NextAnswer, Rejection> {
        let (was_applied, is_repeat) = {
            let inner = self.disk.inner();
            (inner.applied.contains(&call.number), inner.messages.handout(call.claim_id()).is_some())
        };
        self.refused.lock().unwrap().remove(&call.number);
        let at = call_clock() + call.wait;
        let ends = WaitEnds { at, deadline: at + TO_DEADLINE };
        let answer = self.ledger.claim_next(&call.request(consumer), ends, connection).await;
        let inner = self.disk.inner();
        match &answer {
            Ok(NextAnswer { messages, retry_after }) if messages.is_empty() => {
                assert!(retry_after.is_some(), "nothing, and no time of the next call: {call:?}");
                let had_time = call_clock() < ends.deadline - LEFT_MIN;
                assert!(!(is_repeat && had_time), "a repeat was answered nothing: {call:?}");
                self.tally.count("nothing to hand out");
            }
            Ok(NextAnswer { messages, .. }) => {
                check_handed_out(&inner, call, messages);
                let several = if messages.len() > 1 { "several handed out" } else { "handed out" };
                self.tally.count(if is_repeat { "handed out again" } else { several });
            }
            Err(Rejection { reason: Reason::OutcomeUnknown, .. }) => {
                self.tally.count("ClaimNext: OutcomeUnknown");
            }
            Err(rejection) => {
                if rejection.reason == Reason::ClaimClosed {
                    let was_handed_out = inner.messages.handout(call.claim_id()).is_some();
                    assert!(was_handed_out, "a new claim is closed: {call:?}");
                } else if !was_applied && !call.is_doubled {
                    self.check_refused(&inner, call.number, rejection, "");
                }
                self.tally.count(&format!("ClaimNext: {:?}", rejection.reason));
            }
        }
        answer
    }

    /// The store is healthy, and all that could be held back is due: each message that was acknowledged is handed out, and
    /// completed, or was completed before.
    pub(super) async fn deliver_all(&self) {
        const ROUNDS_MAX: usize = 20;
        {
            let mut inner = self.disk.inner();
            (inner.manners.one_in, inner.manners.expiry_one_in) = (0, 0);
        }
        for _ in 0..ROUNDS_MAX {
            // Longer than a lease, and than the cursor goes on without a return to the start.
            self.disk.inner().pass(Span::from_secs(86_400));
            pass(Duration::from_mins(2));
            for consumer in CONSUMERS {
                self.complete_due(consumer).await;
            }
            if self.left_over().is_empty() {
                return;
            }
        }
        panic!("acknowledged, and neither completed nor handed out: {:?}", self.left_over());
    }

    /// Completes all messages of a consumer that are due.
    async fn complete_due(&self, consumer: &str) {
        let next = || self.next_call(10, Duration::ZERO);
        while let Ok(NextAnswer { messages, .. }) = self.next_of(consumer, &next()).await
            && !messages.is_empty()
        {
            let completions: Vec<_> =
                messages.iter().map(|handed| self.complete(&handed.key, token_of(handed))).collect();
            drop(self.submit(&completions).await);
        }
    }

    /// The keys that were acknowledged and are not completed.
    fn left_over(&self) -> Vec<Key> {
        let inner = self.disk.inner();
        let completed =
            |key: &&Key| inner.rows.get(&key.hash()).is_some_and(|row| row.state == State::Completed);
        let acknowledged = self.acknowledged.lock().unwrap();
        acknowledged.iter().filter(|key| !completed(key)).cloned().collect()
    }

    /// Whether a message waits to be handed out.
    pub(super) fn is_due(&self) -> bool {
        let mut inner = self.disk.inner();
        let now = inner.reading(&self.tally).now;
        !inner.due(CONSUMERS[0], now).is_empty()
    }

    /// Another server erases the messages that are due for it.
    pub(super) fn erase(&self) {
        let mut inner = self.disk.inner();
        let now = inner.reading(&self.tally).now;
        inner.erase(now, &self.tally);
    }

    /// Whether the ledger counts this now.
    pub(super) fn still_counts(&self, what: &str) -> bool {
        self.ledger.still_counted().to_string().contains(what)
    }

    /// Waits until the ledger counts this.
    pub(super) async fn counts(&self, what: &str) {
        while !self.still_counts(what) {
            yield_now().await;
        }
    }

    /// All calls have ended: none of them is counted any more.
    pub(super) fn counts_nothing(&self) {
        let left = self.ledger.still_counted();
        assert!(left.is_empty(), "still counted: {left}");
    }
}

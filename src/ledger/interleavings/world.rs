//! What the scenarios share: a ledger over the store in memory, numbered calls, and the
//! invariants of every answer.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::poll_immediate;
use shuttle::future::{JoinHandle, spawn, yield_now};
use shuttle::rand::{Rng as _, thread_rng};
use uuid::Uuid;

use super::disk::{Disk, Inner, Manners, POISON, marks};
use super::session::DiskStore;
use super::tally::EventCounts;
use crate::domain::{
    Answer, Claim, Claimant, ClosedBy, Command, Entry, FailureKind, Key, Policy, Reason, Rejection, Reply,
    Settle, Span, State, Submission, Verdict,
};
use crate::ledger::{InForce, InboxOptions, Ledger, LedgerOptions, Policies, PurgeOptions, WaitBounds};
use crate::metrics::Metrics;
use crate::traces::CallSpan;

/// One schedule's ledger, and what its callers saw.
#[derive(Clone)]
pub(super) struct World {
    pub(super) disk: Arc<Disk>,
    pub(super) tally: Arc<EventCounts>,
    pub(super) ledger: Ledger,
    calls: Arc<AtomicU64>,
    /// The calls that were answered "certainly not applied".
    refused: Arc<Mutex<HashSet<u64>>>,
}

/// A command with a number, which the store finds in what it writes.
#[derive(Clone, Debug)]
pub(super) struct NumberedCall {
    pub(super) number: u64,
    pub(super) key: Key,
    pub(super) command: Command,
}

impl NumberedCall {
    fn submission(&self) -> Submission {
        Submission::new(self.key.clone(), self.command.clone())
    }
}

pub(super) fn key(id: impl std::fmt::Display) -> Key {
    Key::new("payments", "shop", &id.to_string())
}

impl World {
    pub(super) fn new(
        tally: Arc<EventCounts>,
        manners: Manners,
        queue_max: usize,
        batch_max: usize,
    ) -> World {
        let disk = Disk::new(manners, batch_max, Arc::clone(&tally));
        let policy = Policy { max_attempts: 0, ..Policy::default() };
        let policies = Policies::new(policy, std::collections::BTreeMap::new());
        let purge = PurgeOptions::default();
        let options = LedgerOptions {
            queue_max,
            queue_bytes_max: usize::MAX,
            batch_max,
            registered_only: false,
            window_required: false,
            log_error_texts: false,
            policies_trusted_for: Duration::MAX,
            count_every: Duration::MAX,
            purge,
            waits: WaitBounds::default(),
            inbox: InboxOptions {
                sessions: 0,
                bytes_max: u64::MAX,
                queue_max: 1,
                queue_bytes_max: 1,
                waits: WaitBounds::default(),
            },
        };
        let ledger = Ledger::start(
            Arc::new(DiskStore(Arc::clone(&disk))),
            policies.clone(),
            InForce::unread(policies),
            options,
            Metrics::unseen().expect("metrics"),
        );
        World { disk, tally, ledger, calls: Arc::new(AtomicU64::new(1)), refused: Arc::default() }
    }

    pub(super) fn call(&self, key: &Key, command: impl FnOnce(u64) -> Command) -> NumberedCall {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        NumberedCall { number, key: key.clone(), command: command(number) }
    }

    /// A new delivery.
    pub(super) fn claim(&self, key: &Key) -> NumberedCall {
        self.call(key, |number| {
            let claim_id = Uuid::from_u128(number.into());
            let claimant = Claimant { claim_id, principal: String::new(), owner: String::new() };
            let (fingerprint, traceparent) = (Bytes::new(), String::new());
            Command::Claim(Claim {
                claimant,
                lease: None,
                fingerprint,
                occurred_at: None,
                traceparent,
                handed_out: false,
            })
        })
    }

    pub(super) fn complete(&self, key: &Key, token: i64) -> NumberedCall {
        let result = |number: u64| Bytes::from(number.to_string());
        self.call(key, |number| {
            Command::Settle(token, Settle::Complete { result: result(number), left_out: false })
        })
    }

    pub(super) fn renew(&self, key: &Key, token: i64) -> NumberedCall {
        self.call(key, |number| {
            let checkpoint = Some(Bytes::from(number.to_string()));
            Command::Settle(
                token,
                Settle::Renew { lease: None, effect_started: false, checkpoint, checkpoint_dropped: false },
            )
        })
    }

    pub(super) fn release(&self, key: &Key, token: i64) -> NumberedCall {
        let delay = |number| Span(i64::try_from(number).unwrap());
        self.call(key, |number| {
            Command::Settle(token, Settle::Release { delay: delay(number), unpin: false })
        })
    }

    /// Some settlement.
    pub(super) fn settle(&self, key: &Key, token: i64) -> NumberedCall {
        match thread_rng().gen_range(0..5) {
            0 | 1 => self.complete(key, token),
            2 => self.renew(key, token),
            3 => self.release(key, token),
            _ => self.call(key, |number| {
                let (error, retry_after) = (number.to_string(), Some(Span::ZERO));
                Command::Settle(token, Settle::Fail { kind: FailureKind::Retryable, error, retry_after })
            }),
        }
    }

    /// Submits calls together, and checks each answer at the moment it comes.
    pub(super) async fn submit(&self, calls: &[NumberedCall]) -> Vec<Answer> {
        let since = self.disk.inner().commits.len();
        let answers = match calls {
            [one] => vec![self.ledger.submit(one.submission(), CallSpan::default()).await],
            many => {
                let submissions = many.iter().map(NumberedCall::submission).collect();
                let refused = |rejection: Rejection| vec![Err(rejection); many.len()];
                self.ledger.submit_all(submissions, CallSpan::default()).await.unwrap_or_else(refused)
            }
        };
        assert_eq!(answers.len(), calls.len(), "each call is answered once");
        for (call, answer) in calls.iter().zip(&answers) {
            self.check(call, answer, since);
        }
        answers
    }

    /// Submits a call, and goes away after this number of steps; `None` if it did not wait for the answer.
    pub(super) async fn submit_briefly(&self, call: &NumberedCall, steps: u32) -> Option<Answer> {
        let calls = std::slice::from_ref(call);
        let mut answers = pin!(self.submit(calls));
        for step in 0..=steps {
            if let Some(mut answers) = poll_immediate(answers.as_mut()).await {
                return answers.pop();
            }
            if step < steps {
                yield_now().await;
            }
        }
        None
    }

    /// Submits a call: its answer, if it came immediately. One that waits is counted, and must end well.
    async fn submit_once(&self, call: &NumberedCall, waiting: &AtomicUsize) -> Option<Answer> {
        let calls = std::slice::from_ref(call);
        let mut answers = pin!(self.submit(calls));
        if let Some(mut answers) = poll_immediate(answers.as_mut()).await {
            return answers.pop();
        }
        waiting.fetch_add(1, Ordering::Relaxed);
        assert_calm(&answers.await);
        None
    }

    /// `since`: number of rows committed before the call was made.
    fn check(&self, call: &NumberedCall, answer: &Answer, since: usize) {
        let inner = self.disk.inner();
        let wrong = |what: &str| panic!("{what}: {call:?} was answered {answer:?}");
        if inner.died.contains(&call.number) && reason(answer) != Some(Reason::OutcomeUnknown) {
            wrong("the worker died over it");
        }
        match answer {
            Ok(reply) => {
                if !happened(&inner, call, reply, since) {
                    wrong("the store shows nothing of it");
                }
                self.tally.count(word(reply));
            }
            Err(rejection) if rejection.reason == Reason::OutcomeUnknown => {
                self.tally.count("OUTCOME_UNKNOWN");
            }
            Err(rejection) => {
                if inner.applied.contains(&call.number) {
                    wrong("it was applied");
                }
                let poisoned = call.key.id().starts_with(POISON);
                if rejection.reason == Reason::Internal && !poisoned {
                    wrong("a neighbour's poison spread");
                }
                self.refused.lock().unwrap().insert(call.number);
                self.tally.count(&format!("{:?}", rejection.reason));
            }
        }
    }

    /// Stops the ledger, and checks what the store shows in the end.
    pub(super) async fn finish(&self) {
        self.ledger.stop().await;
        let inner = self.disk.inner();
        assert!(inner.violations.is_empty(), "{:?}", inner.violations);
        let refused = self.refused.lock().unwrap();
        let late: Vec<_> = refused.intersection(&inner.applied).collect();
        assert!(late.is_empty(), "refused as certainly not applied, and applied later: {late:?}");
        let mut last: HashMap<&Key, &Entry> = HashMap::new();
        let mut holders = HashMap::new();
        for row in &inner.commits {
            if let Some(before) = last.insert(&row.key, row) {
                assert_eq!(row.version, before.version + 1, "a write was lost: {before:?}, then {row:?}");
                assert!(row.token >= before.token, "a token fell: {before:?}, then {row:?}");
            }
            let claim = row.claimant.as_ref().map(|claimant| claimant.claim_id);
            let holder = *holders.entry((&row.key, row.token)).or_insert(claim);
            assert_eq!(holder, claim, "a token belongs to two claims");
        }
    }
}

/// Checks that no answer has an error which is impossible while the store is healthy and the queue is open.
pub(super) fn assert_calm(answers: &[Answer]) {
    for answer in answers {
        let uncalm = [
            Reason::OutcomeUnknown,
            Reason::StoreUnavailable,
            Reason::Draining,
            Reason::Overloaded,
            Reason::Internal,
        ];
        assert!(!reason(answer).is_some_and(|reason| uncalm.contains(&reason)), "{answer:?}");
    }
}

pub(super) fn reason(answer: &Answer) -> Option<Reason> {
    answer.as_ref().err().map(|rejection| rejection.reason)
}

/// The token of a grant.
pub(super) fn token(answer: &Answer) -> Option<i64> {
    match answer {
        Ok(Reply::Verdict(Verdict::Acquired { token, .. })) => Some(*token),
        _ => None,
    }
}

/// Whether the store shows what the answer says, and for this call.
fn happened(inner: &Inner, call: &NumberedCall, reply: &Reply, since: usize) -> bool {
    let mine = inner.applied.contains(&call.number);
    // Of calls that were written together the row shows the last Renew, and no Release that a Complete followed.
    let hidden = |token: i64| {
        let meanwhile = inner.commits.get(since..).unwrap_or_default().iter();
        let mut same_claim = meanwhile.filter(|row| row.key == call.key && row.token == token);
        same_claim.any(|row| marks(row).any(|number| number != call.number))
    };
    match (&call.command, reply) {
        (Command::Claim(claim), Reply::Verdict(verdict)) => match verdict {
            Verdict::Acquired { token, .. } => {
                let granted = |row: &Entry| row.token == *token && row.is_claim_of(&claim.claimant);
                mine && inner.committed(&call.key, granted)
            }
            Verdict::Completed { .. } => inner.committed(&call.key, |row| row.state == State::Completed),
            Verdict::InProgress { .. } => inner.committed(&call.key, |row| {
                row.state == State::InProgress && !row.is_claim_of(&claim.claimant)
            }),
            Verdict::Backoff { .. } => inner.committed(&call.key, |row| row.closed_by != ClosedBy::Open),
            Verdict::Failed { .. }
            | Verdict::Parked { .. }
            | Verdict::FingerprintMismatch { .. }
            | Verdict::OutsideWindow { .. }
            | Verdict::Suppressed { .. } => false,
        },
        (Command::Settle(token, settle), reply) => {
            let closed = |by: &[ClosedBy]| {
                inner.committed(&call.key, |row| row.token == *token && by.contains(&row.closed_by))
            };
            match (settle, reply) {
                (Settle::Complete { .. }, Reply::Completed { replayed, .. }) => {
                    if *replayed {
                        closed(&[ClosedBy::Complete])
                    } else {
                        mine
                    }
                }
                (Settle::Fail { .. }, Reply::Failed { replayed, .. }) => {
                    if *replayed {
                        closed(&[ClosedBy::FailRetryable, ClosedBy::Release]) || hidden(*token)
                    } else {
                        mine
                    }
                }
                (Settle::Release { .. }, Reply::Released { replayed, .. }) => {
                    if *replayed {
                        closed(&[ClosedBy::Release]) || hidden(*token)
                    } else {
                        mine || hidden(*token)
                    }
                }
                (Settle::Renew { .. }, Reply::Renewed { .. }) => mine || hidden(*token),
                _ => false,
            }
        }
        // None is sent here.
        (Command::Claim(_) | Command::Lookup, _) => false,
    }
}

/// The outcome of a call, for the counts.
pub(super) fn word(reply: &Reply) -> &'static str {
    match reply {
        Reply::Verdict(Verdict::Acquired { replayed: false, .. }) => "acquired",
        Reply::Verdict(Verdict::Acquired { replayed: true, .. }) => "acquired, replayed",
        Reply::Verdict(Verdict::Completed { .. }) => "completed",
        Reply::Verdict(Verdict::InProgress { .. }) => "in progress",
        Reply::Verdict(_) => "other verdicts",
        Reply::Completed { replayed: false, .. } => "Complete done",
        Reply::Completed { replayed: true, .. } => "Complete replayed",
        Reply::Failed { .. } => "Fail done",
        Reply::Released { .. } => "Release done",
        Reply::Renewed { .. } => "Renew done",
        Reply::Found(_) => "found",
    }
}

/// Calls that were pushed at the same time, each by a separate task.
pub(super) struct Pushed {
    tasks: Vec<JoinHandle<()>>,
    waiting: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
}

impl Pushed {
    pub(super) fn start(world: &World, calls: impl Iterator<Item = NumberedCall>) -> Pushed {
        let (waiting, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let push = |call| {
            let (world, waiting, refused) = (world.clone(), Arc::clone(&waiting), Arc::clone(&refused));
            spawn(async move {
                if let Some(answer) = world.submit_once(&call, &waiting).await {
                    assert_eq!(reason(&answer), Some(Reason::Overloaded), "answered immediately: {answer:?}");
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        Pushed { tasks: calls.map(push).collect(), waiting, refused }
    }

    /// Number of waiting calls, once each has been refused or waits.
    pub(super) async fn waiting(&self) -> usize {
        loop {
            let waiting = self.waiting.load(Ordering::Relaxed);
            if waiting + self.refused.load(Ordering::Relaxed) == self.tasks.len() {
                return waiting;
            }
            yield_now().await;
        }
    }

    pub(super) async fn answered(self) {
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

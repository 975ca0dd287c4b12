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

use super::answers::{assert_calm, happened, reason, word};
use super::calls::NumberedCall;
use super::disk::{Disk, Manners, POISON};
use super::session::DiskStore;
use super::tally::EventCounts;
use crate::domain::{
    Answer, Claim, Claimant, Command, Entry, FailureKind, Key, Policy, Reason, Rejection, Settle, Span,
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
    queue_max: usize,
    calls: Arc<AtomicU64>,
    /// The calls that were answered "certainly not applied".
    pub(super) refused: Arc<Mutex<HashSet<u64>>>,
    /// The keys whose Store was acknowledged.
    pub(super) acknowledged: Arc<Mutex<HashSet<Key>>>,
}

/// The consumers. Most calls are of the first one.
pub(super) const CONSUMERS: [&str; 2] = ["payments", "orders"];

pub(super) fn key(id: impl std::fmt::Display) -> Key {
    key_of(CONSUMERS[0], id)
}

pub(super) fn key_of(consumer: &str, id: impl std::fmt::Display) -> Key {
    Key::new(consumer, "shop", &id.to_string())
}

/// Starts a ledger over this store.
fn start(disk: &Arc<Disk>, queue_max: usize) -> Ledger {
    let (Manners { inbox, .. }, batch_max) = {
        let inner = disk.inner();
        (inner.manners, inner.batch_max)
    };
    let backlog_max_age = Span::from_secs(45);
    let policy = Policy { max_attempts: 0, inbox: inbox > 0, backlog_max_age, ..Policy::default() };
    let policies = Policies::new(policy, std::collections::BTreeMap::new());
    let options = LedgerOptions {
        queue_max,
        queue_bytes_max: usize::MAX,
        batch_max,
        registered_only: false,
        window_required: false,
        log_error_texts: false,
        policies_trusted_for: Duration::MAX,
        count_every: Duration::MAX,
        purge: PurgeOptions::default(),
        waits: WaitBounds::default(),
        inbox: InboxOptions {
            sessions: inbox,
            bytes_max: u64::MAX,
            queue_max,
            queue_bytes_max: usize::MAX,
            waits: WaitBounds::default(),
        },
    };
    Ledger::start(
        Arc::new(DiskStore(Arc::clone(disk))),
        policies.clone(),
        InForce::unread(policies),
        options,
        Metrics::unseen().expect("metrics"),
    )
}

impl World {
    pub(super) fn new(
        tally: Arc<EventCounts>,
        manners: Manners,
        queue_max: usize,
        batch_max: usize,
    ) -> World {
        let disk = Disk::new(manners, batch_max, Arc::clone(&tally));
        let ledger = start(&disk, queue_max);
        let (calls, refused) = (Arc::new(AtomicU64::new(1)), Arc::default());
        World { disk, tally, ledger, queue_max, calls, refused, acknowledged: Arc::default() }
    }

    /// Another server with the same store.
    pub(super) fn another(&self) -> World {
        World { ledger: start(&self.disk, self.queue_max), ..self.clone() }
    }

    /// The number of the next call.
    pub(super) fn number(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn call(&self, key: &Key, command: impl FnOnce(u64) -> Command) -> NumberedCall {
        let number = self.number();
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
            _ => self.fail(key, token),
        }
    }

    /// The key can be claimed again immediately.
    pub(super) fn fail(&self, key: &Key, token: i64) -> NumberedCall {
        self.call(key, |number| {
            let (error, retry_after) = (number.to_string(), Some(Span::ZERO));
            Command::Settle(token, Settle::Fail { kind: FailureKind::Retryable, error, retry_after })
        })
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
        briefly(self.submit(calls), steps).await?.pop()
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
        let gone = inner.rows.values().filter(|row| !inner.messages.are_kept_for(row));
        let gone: Vec<&Entry> = gone.collect();
        assert!(gone.is_empty(), "KEPT, and the message is gone: {gone:?}");
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

/// Waits for a call's answer during this number of steps, and goes away; `None` if the answer did not come.
pub(super) async fn briefly<T>(call: impl Future<Output = T>, steps: u32) -> Option<T> {
    let mut call = pin!(call);
    for step in 0..=steps {
        if let Some(answer) = poll_immediate(call.as_mut()).await {
            return Some(answer);
        }
        if step < steps {
            yield_now().await;
        }
    }
    None
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

//! The imperative shell around `domain`: gathers commands into batches, loads their entries, lets the domain decide, commits,
//! and decides again what lost a race. It answers only after the commit.
//!
//! # The way of a command
//!
//! 1. It waits in the queue, in the lane of its kind: commands that end a claim are served before claims. In a lane consumers
//!    are served by deficit round robin, so that the backlog of one delays the others by at most one batch.
//! 2. A worker takes what waits as one batch. While a batch is in flight the next one gathers: a second worker sends it
//!    concurrently only if it is large enough for a separate statement, or if the first one is late.
//! 3. Commands for one key become one per-key queue of the batch, in the order in which they arrived.
//! 4. The first command of a per-key queue may be written optimistically: one statement, without a load. All others, and those
//!    that met a conflict, take the way of load–decide–write: one load; each command is decided in memory, on the entry as
//!    the commands before it left it; one write of the result; then all are answered. Commands before the first change
//!    only read, and are answered immediately. Commands that follow a first grant, and only read, need no load.
//! 5. If the write finds another version, the decisions are void, and the per-key queue is decided again. If its outcome is
//!    unknown, it is unknown only for the commands whose changes it carried.

mod answer_log;
mod changes;
mod claims;
mod compare_and_set;
mod inbox;
mod instrumented_store;
#[cfg(all(test, feature = "shuttle"))]
mod interleavings;
mod noted;
mod operators;
mod options;
mod policies;
mod refusals;
mod runtime;
mod schema_fence;
mod submit_all;
mod submit_waiting;
mod tasks;
mod upkeep;
mod waiting;

use std::sync::{Arc, OnceLock};

use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::answer_log::{AnswerLog, Subject};
use self::changes::Changes;
use self::claims::admission::Quotas;
use self::claims::answers::AnswerTo;
use self::claims::queue::Queue;
use self::claims::shared::Shared;
use self::inbox::Inbox;
use self::instrumented_store::InstrumentedStore;
use self::operators::handle::OperatorParts;
use self::policies::in_force::{PoliciesInForce, Snapshot};
use self::refusals::lost;
use self::schema_fence::SchemaFence;
use self::tasks::supervised;
use self::waiting::{Poller, Room};
use crate::common::random;
use crate::common::still_counted::StillCounted;
use crate::domain::{Answer, Command, Reason, Rejection, Submission};
use crate::ledger::claims::live_workers::LiveWorkers;
use crate::ledger::claims::request::{KeyQueue, Request};
use crate::ledger::claims::store_clock::RecentClock;
use crate::metrics::{self, Metrics};
use crate::store::{LEVEL, Replica, Store};
use crate::traces::CallSpan;

pub use self::inbox::InboxOptions;
pub use self::operators::bulk::{BulkEvent, BulkOrder, BulkOutcome, BulkProgress, change_all};
pub use self::operators::change::{ChangeRequest, ChangeResult};
pub use self::operators::handle::Operators;
pub use self::operators::import::{ImportOrder, ImportOutcome, ImportOutcomes};
pub use self::operators::long::{OpenOperation, WorkPermit};
pub use self::operators::open_entries::{EntryGroups, GroupCount, GroupKey, OpenPage, OpenPosition};
pub(crate) use self::operators::read::SUMMARY_MAX;
pub use self::operators::read::{Ages, CountScope, Page, Sought};
pub use self::operators::reconcile::{ReconcileOrder, ReconcileOutcomes, ReconcileRow};
pub use self::operators::token_offset::{OffsetOrder, TokenClock};
pub use self::operators::unreadable::DeleteUnreadable;
pub use self::options::LedgerOptions;
pub use self::policies::holds::{HoldChange, HoldOrder, HoldResult};
pub use self::policies::in_force::{InForce, adopt};
pub use self::policies::replays::{RunChange, RunOrder, RunResult};
pub use self::policies::set::{PolicyOrder, PolicyResult, audited_policy};
pub use self::policies::table::Policies;
pub use self::upkeep::purge::PurgeOptions;
pub use self::waiting::Bounds as WaitBounds;
pub(crate) use self::waiting::{LEFT_MIN, WaitEnds, WaitingCaller};

/// What counting and logging need of a command that is not answered yet.
struct Unanswered {
    subject: Subject,
    counted: metrics::PendingCommand,
}

/// The handle: cheap to clone, shared by all requests.
#[derive(Clone)]
pub struct Ledger {
    inner: Arc<Inner>,
}

struct Inner {
    queue: Arc<Queue>,
    room: Arc<Room>,
    inbox: Arc<Inbox>,
    policies: Arc<PoliciesInForce>,
    quotas: Quotas,
    registered_only: bool,
    operators: Operators,
    healthy: watch::Receiver<bool>,
    clock: Arc<RecentClock>,
    live_workers: Arc<LiveWorkers>,
    store: Arc<dyn Store>,
    metrics: Metrics,
    answer_log: AnswerLog,
    outdated: SchemaFence,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Ledger {
    /// Starts the workers, the probe, the purge, the reader and the operators' task. `file` are the policies
    /// of the configuration, `in_force` what [`adopt`] made of them.
    #[must_use]
    pub fn start(
        store: Arc<dyn Store>,
        file: Policies,
        in_force: InForce,
        options: LedgerOptions,
        metrics: Metrics,
    ) -> Ledger {
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let shared = Shared {
            policies: Arc::new(PoliciesInForce::new(
                file,
                in_force,
                options.policies_trusted_for,
                options.window_required,
            )),
            queue: Arc::new(Queue::new(options.queue_max, options.queue_bytes_max, options.batch_max)),
            clock: Arc::default(),
            duplicate_rate: Arc::default(),
            live_workers: Arc::default(),
            locked_rows: Arc::default(),
            last_response: Arc::default(),
            changes: Arc::new(Changes::default()),
            metrics: metrics.clone(),
            outdated: SchemaFence::default(),
            replica: Replica {
                id: random::id(),
                speaks: LEVEL,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            store: Arc::new(InstrumentedStore::new(store, metrics.clone())),
        };
        for number in 0..shared.store.sessions() {
            runtime::spawn(&tasks, claims::worker::supervise(shared.clone(), number, options.batch_max));
        }
        let (report, healthy) = watch::channel(false);
        runtime::spawn(&tasks, upkeep::probe::run(shared.clone(), report, stop.clone()));
        let inbox = Inbox::new(&shared, options.inbox);
        let (queue, outdated, ended) = (Arc::clone(&shared.queue), shared.outdated.clone(), stop.clone());
        let refusing = Arc::clone(&inbox);
        runtime::spawn(&tasks, async move {
            tokio::select! {
                () = ended.cancelled() => {}
                _why = outdated.noticed() => {
                    queue.outdated();
                    refusing.outdated();
                }
            }
        });
        let (purging, ended) = (shared.clone(), stop.clone());
        let purge = move || upkeep::purge::run(purging.clone(), options.purge, ended.clone());
        let outdated = &shared.outdated;
        runtime::spawn(&tasks, outdated.clone().until(supervised("the purge", purge)));
        let (store, ended) = (Arc::clone(&shared.store), stop.clone());
        let mark = move || upkeep::open_index::run(Arc::clone(&store), ended.clone());
        runtime::spawn(&tasks, outdated.clone().until(supervised("the marking of open claims", mark)));
        let policies = Arc::clone(&shared.policies);
        let parts = OperatorParts {
            store: &shared.store,
            policies,
            changes: &shared.changes,
            metrics: &metrics,
            outdated,
        };
        let operators = Operators::start(parts, options.purge.every, &tasks, &stop);
        let (counting, counted, ended) = (operators.clone(), metrics.clone(), stop.clone());
        let count = move || {
            let (operators, metrics) = (counting.clone(), counted.clone());
            operators::count_entries::run(operators, metrics, options.count_every, ended.clone())
        };
        if metrics.are_seen() {
            let counting = supervised("the counting of entries", count);
            runtime::spawn(&tasks, shared.outdated.clone().until(counting));
        }
        for number in (0..).take(options.inbox.sessions) {
            let inbox = Arc::clone(&inbox);
            let work = move || inbox::run(Arc::clone(&inbox), number);
            runtime::spawn(&tasks, shared.outdated.clone().until(supervised("a session of the inbox", work)));
        }
        let room = Room::new(options.waits, &shared.changes);
        let poller = Poller::new(&room, &shared.store, &shared.outdated, &metrics);
        let (outdated, ended) = (&shared.outdated, stop.clone());
        let poll = move || poller.clone().run(ended.clone());
        runtime::spawn(
            &tasks,
            outdated.clone().until(supervised("the poller of keys that are waited for", poll)),
        );
        tasks.close();
        let inner = Inner {
            queue: shared.queue,
            room,
            inbox,
            policies: shared.policies,
            quotas: Quotas::default(),
            registered_only: options.registered_only,
            operators,
            healthy,
            clock: shared.clock,
            live_workers: shared.live_workers,
            store: shared.store,
            metrics,
            answer_log: AnswerLog::new(options.log_error_texts),
            outdated: shared.outdated,
            stop,
            tasks,
        };
        Ledger { inner: Arc::new(inner) }
    }

    /// Carries out the one command of the call that has this span. The command is queued when this returns: a future that owned
    /// it would reserve space for it until its end, in each function on the way, and would be moved with all of it.
    ///
    /// # Errors
    /// The refusal of the core, of the queue or of the store.
    pub(crate) fn submit(&self, mut submission: Submission, span: CallSpan) -> impl Future<Output = Answer> {
        span.about(&submission.key, &submission.event_type);
        let asked = self.unanswered(&mut metrics::Before::default(), &mut submission);
        let pushed = self.pushed(submission, span.clone());
        async move {
            let answer = match pushed {
                Ok(answer) => answer.await.unwrap_or_else(|_| Err(lost())),
                Err(rejection) => Err(rejection),
            };
            if span.is_recorded() {
                span.answered(asked.counted.word(&answer), answer_log::attempt(&answer));
                answer.as_ref().err().into_iter().for_each(|rejection| span.refused(rejection.reason));
            }
            self.note(asked, &answer, &OnceLock::new());
            answer
        }
    }

    /// Queues a command; returns the receiver of its answer.
    fn pushed(&self, submission: Submission, span: CallSpan) -> Result<oneshot::Receiver<Answer>, Rejection> {
        self.admit(&submission, &OnceLock::new())?;
        let Submission { key, command, .. } = submission;
        let (caller, answer) = oneshot::channel();
        let request = Request::new(command, AnswerTo::Call(caller), span);
        self.inner.queue.push(KeyQueue::new(key, request, runtime::Instant::now()))?;
        Ok(answer)
    }

    fn unanswered(&self, before: &mut metrics::Before, submission: &mut Submission) -> Unanswered {
        let Submission { key, command, event_type, trace_id, wait: _, corrected: _ } = submission;
        let counted = self.inner.metrics.received(before, key, event_type, command);
        let (event_type, error) = (std::mem::take(event_type), self.inner.answer_log.error_of(command));
        Unanswered { subject: Subject { key: key.clone(), event_type, trace_id: *trace_id, error }, counted }
    }

    /// Counts an answer, and logs it if an operator may want to know. The clock is read once for a call.
    fn note(
        &self,
        Unanswered { subject, counted }: Unanswered,
        answer: &Answer,
        clock: &OnceLock<Option<i64>>,
    ) {
        let token_clock = || *clock.get_or_init(|| self.inner.clock.token_clock());
        let answered = metrics::Answered {
            answer,
            token_clock: if counted.settles() { token_clock() } else { None },
            has_policy: &|| self.inner.policies.registered(subject.key.consumer()),
        };
        self.inner.metrics.answered(counted, &answered);
        self.note_dropped(answer);
        self.inner.answer_log.note(&subject, answer);
    }

    /// Whether the queue has space for this many claims of any consumer.
    ///
    /// # Errors
    /// `OVERLOADED`: the queue would refuse them, whichever consumers they are of.
    pub(crate) fn room_for_claims(&self, claims: usize) -> Result<(), Rejection> {
        self.inner.queue.room_for_claims(claims)
    }

    /// Settlements need neither registration nor quota: the holder of a claim may end it. Lookups are not counted by the quota.
    /// The policies are looked up once for a call.
    fn admit(
        &self,
        Submission { key, command, .. }: &Submission,
        policies: &OnceLock<Arc<Snapshot>>,
    ) -> Result<(), Rejection> {
        if matches!(command, Command::Settle(..)) {
            return Ok(());
        }
        let policies = self.registered(key.consumer(), policies)?;
        let (name, policy) = (key.namespace().name(), policies.of(key.consumer()));
        if matches!(command, Command::Lookup) { Ok(()) } else { self.inner.quotas.admit(name, &policy) }
    }

    /// The policies, if the consumer is registered or need not be.
    fn registered<'p>(
        &self,
        consumer: &str,
        policies: &'p OnceLock<Arc<Snapshot>>,
    ) -> Result<&'p Snapshot, Rejection> {
        let policies = policies.get_or_init(|| self.inner.policies.snapshot());
        if self.inner.registered_only && !policies.registered(consumer) {
            return Err(Rejection::new(
                Reason::UnknownConsumer,
                "this server serves only consumers that have a policy, and this one does not have one: register it",
            ));
        }
        Ok(policies)
    }

    /// The metrics of this server; gauges such as the queue's depth are updated first.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        let (lanes, bytes) = self.inner.queue.depth();
        self.inner.metrics.work().waits(lanes, bytes);
        let (policies_age, policies_unreadable, holds) = self.inner.policies.freshness();
        self.inner.metrics.upkeep().now(&metrics::Now {
            sessions: self.inner.live_workers.count(),
            sessions_wanted: self.inner.store.sessions(),
            left_behind: self.inner.store.left_behind(),
            losses: self.inner.store.losses(),
            policies_age,
            policies_unreadable,
            holds,
        });
        &self.inner.metrics
    }

    /// The operators' reads and changes.
    #[must_use]
    pub fn operators(&self) -> &Operators {
        &self.inner.operators
    }

    /// Whether the store answers; the receiver sees changes.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<bool> {
        self.inner.healthy.clone()
    }

    /// Resolves with the reason once this binary is behind the schema fence. Nothing is written from then on, and every call is
    /// refused with `STORE_UNAVAILABLE`.
    pub async fn outdated(&self) -> String {
        self.inner.outdated.noticed().await
    }

    /// Ends what may take long: imports, bulk redrives, and waiting calls. Everything else goes on.
    pub fn drain(&self) {
        self.inner.operators.drain();
        self.inner.room.drain();
        self.inner.inbox.drain();
    }

    /// Returns the counts of calls that are not zero, after all calls have been answered.
    pub(crate) fn still_counted(&self) -> StillCounted {
        let mut left = StillCounted::default();
        self.inner.queue.still_counted(&mut left);
        self.inner.room.still_counted(&mut left);
        self.inner.inbox.still_counted(&mut left);
        self.inner.operators.still_counted(&mut left);
        left
    }

    /// Accepts nothing more, finishes what was accepted, and ends.
    pub async fn stop(&self) {
        self.inner.queue.close();
        self.inner.inbox.close();
        self.inner.stop.cancel();
        self.inner.tasks.wait().await;
    }
}

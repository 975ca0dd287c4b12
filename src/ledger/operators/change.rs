//! Operators' changes and the audit, on a session of their own: one at a time, each with its audit
//! event or not at all.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::desk::{Before, Desk, Reply, Tried, nothing_sent};
use super::import::{self, Fates, ImportOrder};
use super::token_offset::{self, OffsetOrder, TokenClock};
use crate::crash;
use crate::domain::{
    Action, AuditEvent, AuditListing, Change, Changed, Context, Entry, Key, PolicyVersion, PurgeStatus,
    Reading, Reason, Rejection, Resolution, StoreTime, Violation, operate,
};
use crate::ledger::policies::in_force::Live;
use crate::ledger::policies::set::{self, PolicyOrder};
use crate::ledger::policies::table::Policies;
use crate::ledger::refusals::{lost, store_unavailable};
use crate::ledger::runtime::spawn;
use crate::ledger::shared::supervised;
use crate::store::{Fault, Found, Loaded, Outcome, Purpose, Session, Store, StoreError, Write};

/// How many changes may wait.
const WAITING_MAX: usize = 64;
/// The name in the audit of an operation on many entries; each of them has its own event besides.
const REDRIVE_ENTRIES: &str = "REDRIVE_ENTRIES";
/// How often a change may lose against claims before it is refused.
pub(super) const ROUNDS_MAX: usize = 8;

/// An operator's request.
#[derive(Clone, Debug)]
pub struct Order {
    /// The operator's own id of the request; its repeats change nothing.
    pub request_id: String,
    /// Who, as authenticated.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// How the operator knows; empty: not said.
    pub evidence: String,
    /// The entry.
    pub key: Key,
    /// What.
    pub change: Change,
}

impl Order {
    /// Whether the event is of this very order, as far as the audit keeps it: not what the entry was then, nor
    /// a result.
    fn made(&self, event: &AuditEvent) -> bool {
        let kept = event.after.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let kept: serde_json::Map<String, serde_json::Value> = kept.unwrap_or_default();
        let same = self.kept().iter().all(|(name, value)| kept.is_empty() || kept.get(name) == Some(value));
        same && event.key == Some(self.key.hash()) && event.action == action_word(&self.change.action)
    }

    /// What the audit keeps of the order beside what came out of it.
    fn kept(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut kept = serde_json::Map::new();
        kept.insert("force".into(), self.change.force.into());
        kept.insert("evidence".into(), self.evidence.as_str().into());
        if let Action::Redrive { drop_fingerprint, .. } = self.change.action {
            kept.insert("drop_fingerprint".into(), drop_fingerprint.into());
        }
        kept
    }
}

/// What became of it.
#[derive(Clone, Debug)]
pub struct Carried {
    /// The clock at the time.
    pub reading: Reading,
    /// The entry as it is now; none once it is deleted.
    pub entry: Option<Entry>,
    /// The request had been carried out before.
    pub replayed: bool,
}

/// An operation on many entries, about to begin or to go on.
#[derive(Clone, Debug)]
pub(super) struct Begin {
    /// The operator's id of the operation.
    pub(super) operation_id: String,
    /// Who, as authenticated.
    pub(super) actor: String,
    /// Why.
    pub(super) reason: String,
    /// The consumer.
    pub(super) consumer: String,
    /// What was asked for: the same in each call of the operation.
    pub(super) asked: String,
}

/// An operation that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Began {
    /// When, by the store's clock.
    pub(super) at: StoreTime,
    /// How many entries it has changed by now.
    pub(super) done: i64,
}

enum Job {
    Begin(Box<Begin>, Reply<Began>),
    Import(Box<ImportOrder>, Reply<Fates>),
    Change(Box<Order>, Reply<Carried>),
    Audit(AuditListing, Reply<Vec<AuditEvent>>),
    Policy(Box<PolicyOrder>, Reply<(Arc<Policies>, bool)>),
    Offset(OffsetOrder, Reply<TokenClock>),
    Policies(Reply<Arc<Policies>>),
    Versions(String, i32, usize, Reply<Vec<PolicyVersion>>),
    Retention(usize, Reply<(Reading, PurgeStatus)>),
}

pub(crate) struct Operator {
    jobs: mpsc::Sender<Job>,
}

impl Operator {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        policies: Arc<Live>,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Operator {
        let (jobs, waiting) = mpsc::channel(WAITING_MAX);
        let waiting = Arc::new(tokio::sync::Mutex::new(waiting));
        let work = move || run(Arc::clone(&store), Arc::clone(&policies), Arc::clone(&waiting), stop.clone());
        spawn(tasks, supervised("the operators' task", work));
        Operator { jobs }
    }

    pub(crate) async fn change(&self, order: Order) -> Result<Carried, Rejection> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Change(Box::new(order), reply))?;
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    pub(super) async fn begin(&self, begin: Begin) -> Result<Began, Rejection> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Begin(Box::new(begin), reply))?;
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    pub(crate) async fn import(&self, order: ImportOrder) -> Result<Fates, Rejection> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Import(Box::new(order), reply))?;
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    pub(crate) async fn audit(&self, listing: AuditListing) -> Result<Vec<AuditEvent>, Rejection> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Audit(listing, reply))?;
        answer.await.unwrap_or_else(|_| Err(store_unavailable()))
    }

    pub(crate) async fn set_policy(&self, order: PolicyOrder) -> Result<(Arc<Policies>, bool), Rejection> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Policy(Box::new(order), reply))?;
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    pub(crate) async fn raise_token_offset(&self, order: OffsetOrder) -> Result<TokenClock, Rejection> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Offset(order, reply))?;
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    pub(crate) async fn policies(&self) -> Result<Arc<Policies>, Rejection> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Policies(reply))?;
        answer.await.unwrap_or_else(|_| Err(store_unavailable()))
    }

    pub(crate) async fn versions(
        &self,
        consumer: String,
        before: i32,
        limit: usize,
    ) -> Result<Vec<PolicyVersion>, Rejection> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Versions(consumer, before, limit, reply))?;
        answer.await.unwrap_or_else(|_| Err(store_unavailable()))
    }

    pub(crate) async fn retention(&self, due_max: usize) -> Result<(Reading, PurgeStatus), Rejection> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Retention(due_max, reply))?;
        answer.await.unwrap_or_else(|_| Err(store_unavailable()))
    }

    fn send(&self, job: Job) -> Result<(), Rejection> {
        self.jobs.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Rejection::new(
                Reason::Overloaded,
                "too many operators' requests wait already: try again later",
            ),
            mpsc::error::TrySendError::Closed(_) => Rejection::new(
                Reason::Draining,
                "this server is shutting down; nothing was changed: try again, another one answers",
            ),
        })
    }
}

async fn run(
    store: Arc<dyn Store>,
    policies: Arc<Live>,
    waiting: Arc<tokio::sync::Mutex<mpsc::Receiver<Job>>>,
    stop: CancellationToken,
) {
    let mut waiting = waiting.lock().await;
    let mut desk = Desk::new(store, Purpose::Changes);
    loop {
        let job = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            job = waiting.recv() => match job {
                Some(job) => job,
                None => return,
            },
        };
        carry_out(&mut desk, &policies, job).await;
    }
}

async fn carry_out(desk: &mut Desk, policies: &Arc<Live>, job: Job) {
    let policies = Arc::clone(policies);
    match job {
        Job::Change(order, reply) => {
            desk.change(reply, &(policies, *order), |session, (policies, order), before| {
                Box::pin(change(session, policies, order, before))
            })
            .await;
        }
        Job::Begin(order, reply) => {
            desk.change(reply, &*order, |session, order, _| Box::pin(begin(session, order))).await;
        }
        Job::Import(order, reply) => {
            let asked = (policies, *order, import::Sent::default());
            desk.change(reply, &asked, |session, (policies, order, sent), _| {
                Box::pin(import::carry_out(session, policies, order, sent))
            })
            .await;
        }
        Job::Policy(order, reply) => {
            desk.change(reply, &(policies, *order), |session, (policies, order), before| {
                Box::pin(async move {
                    let set = set::set(session, policies, order).await?;
                    Ok(set.map(|(now, replayed)| (now, replayed && before == Before::NotSent)))
                })
            })
            .await;
        }
        Job::Offset(order, reply) => {
            desk.change(reply, &order, |session, order, before| {
                Box::pin(token_offset::raise(session, order, before))
            })
            .await;
        }
        Job::Audit(listing, reply) => {
            desk.read(reply, &listing, |session, listing| {
                Box::pin(async move { Ok(Ok(session.audit(listing).await?)) })
            })
            .await;
        }
        Job::Policies(reply) => {
            desk.read(reply, &policies, |session, policies| {
                Box::pin(async move { Ok(Ok(policies.refresh(session).await?.policies())) })
            })
            .await;
        }
        Job::Retention(due_max, reply) => {
            desk.read(reply, &due_max, |session, due_max| {
                Box::pin(async move { Ok(Ok(session.purge_status(*due_max).await?)) })
            })
            .await;
        }
        Job::Versions(consumer, before, limit, reply) => {
            desk.read(reply, &(consumer, before, limit), |session, (consumer, before, limit)| {
                Box::pin(async move { Ok(Ok(session.policy_versions(consumer, *before, *limit).await?)) })
            })
            .await;
        }
    }
}

/// Writes down that an operation begins, or finds that it has.
async fn begin(session: &mut dyn Session, order: &Begin) -> Tried<Began> {
    for _ in 0..ROUNDS_MAX {
        if let Some(event) = session.audited(&order.operation_id).await.map_err(nothing_sent)? {
            let same = event.consumer == order.consumer && event.after.as_deref() == Some(&order.asked);
            if event.action != REDRIVE_ENTRIES || !same {
                return Ok(Err(used_before("operation_id")));
            }
            let done = session.audited_under(&format!("{}/", order.operation_id)).await;
            let done = done.map_err(nothing_sent)?;
            return Ok(Ok(Began { at: event.at, done }));
        }
        let reading = session.load(&[]).await.map_err(nothing_sent)?.reading;
        let event = AuditEvent {
            request_id: order.operation_id.clone(),
            at: reading.now,
            actor: order.actor.clone(),
            action: REDRIVE_ENTRIES.to_owned(),
            consumer: order.consumer.clone(),
            key: None,
            reason: order.reason.clone(),
            before: None,
            after: Some(order.asked.clone()),
        };
        match crash::around(session.change(&Write::Nothing, &event)).await {
            Ok(Outcome::Done) => return Ok(Ok(Began { at: reading.now, done: 0 })),
            // Another call of the operation came in between: look again.
            Ok(Outcome::Lost | Outcome::Repeated) | Err(StoreError::NotApplied(Fault::Conflict(_))) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Err(Rejection::new(
        Reason::Overloaded,
        "too many callers begin this operation; nothing was changed: try again later",
    )))
}

pub(super) fn used_before(field: &str) -> Rejection {
    Rejection::invalid(vec![Violation {
        field: field.into(),
        description: "was used before for another request: each request has an id of its own".into(),
    }])
}

/// Looks, decides and writes, until nobody came in between.
async fn change(session: &mut dyn Session, policies: &Live, order: &Order, before: Before) -> Tried<Carried> {
    for _ in 0..ROUNDS_MAX {
        if let Some(event) = session.audited(&order.request_id).await.map_err(nothing_sent)? {
            return replay(session, order, &event, before).await.map_err(nothing_sent);
        }
        let (reading, entry) = match look(session, &order.key).await.map_err(nothing_sent)? {
            Ok(found) => found,
            Err(rejection) => return Ok(Err(rejection)),
        };
        let policy = policies.of(order.key.consumer());
        let context = |now, token_offset| Context {
            policy: &policy,
            now,
            token_offset,
            position: 1,
            clock_behind: reading.behind(),
        };
        // A new entry takes the clock of its insert.
        let context = match &entry {
            Some(_) => context(reading.now, reading.token_offset),
            None => context(StoreTime(0), 0),
        };
        let changed = match operate(&order.key, entry.as_ref(), &order.change, &context) {
            Ok(changed) => changed,
            Err(rejection) => return Ok(Err(rejection)),
        };
        let event = event(order, &reading, entry.as_ref(), &changed);
        let write = match (changed, &entry) {
            (Changed::Entry(next), Some(_)) => Write::Replace(next),
            (Changed::Entry(next), None) => Write::Insert(next),
            (Changed::Gone, _) => {
                Write::Delete(order.key.hash(), entry.as_ref().map_or(0, |entry| entry.version))
            }
        };
        match crash::around(session.change(&write, &event)).await {
            Ok(Outcome::Done) => {
                tracing::info!(
                    action = event.action,
                    request_id = event.request_id,
                    actor = event.actor,
                    consumer = event.consumer,
                    "an operator changed an entry"
                );
                // It is done: whatever fails from here on, nobody may be told that it was not.
                return match look(session, &order.key).await {
                    Ok(Ok((reading, entry))) => Ok(Ok(Carried { reading, entry, replayed: false })),
                    Ok(Err(_)) => Ok(Err(lost())),
                    Err(error) => Err(StoreError::Unknown(error.to_string())),
                };
            }
            // Somebody came in between, with this very request or with another change: look again.
            Ok(Outcome::Lost | Outcome::Repeated) | Err(StoreError::NotApplied(Fault::Conflict(_))) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Err(Rejection::new(
        Reason::Overloaded,
        "too many callers fight over this entry; nothing was changed: try again later",
    )))
}

async fn look(
    session: &mut dyn Session,
    key: &Key,
) -> Result<Result<(Reading, Option<Entry>), Rejection>, StoreError> {
    let Loaded { reading, mut found } = session.load(std::slice::from_ref(key)).await?;
    Ok(match found.pop() {
        Some(Found::Entry(entry)) => Ok((reading, Some(*entry))),
        Some(Found::Absent) | None => Ok((reading, None)),
        Some(Found::Collision) => {
            Err(Rejection::new(Reason::KeyCollision, "another key has the same 128-bit hash"))
        }
        Some(Found::Unreadable(problem)) => {
            tracing::error!(problem, "an entry can not be read");
            Err(Rejection::new(Reason::EntryUnreadable, "the stored entry of this key can not be read"))
        }
    })
}

/// The request was carried out before: its entry as it is now.
async fn replay(
    session: &mut dyn Session,
    order: &Order,
    event: &AuditEvent,
    before: Before,
) -> Tried<Carried> {
    if !order.made(event) {
        return Ok(Err(used_before("request_id")));
    }
    let replayed = before == Before::NotSent;
    Ok(look(session, &order.key).await?.map(|(reading, entry)| Carried { reading, entry, replayed }))
}

fn event(order: &Order, reading: &Reading, before: Option<&Entry>, changed: &Changed) -> AuditEvent {
    let after = match changed {
        Changed::Entry(next) => Some(summary(next, Some(order))),
        Changed::Gone => None,
    };
    AuditEvent {
        request_id: order.request_id.clone(),
        at: reading.now,
        actor: order.actor.clone(),
        action: action_word(&order.change.action).to_owned(),
        consumer: order.key.consumer().to_owned(),
        key: Some(order.key.hash()),
        reason: order.reason.clone(),
        before: before.map(|entry| summary(entry, None)),
        after,
    }
}

/// The action's name in the audit.
fn action_word(action: &Action) -> &'static str {
    match action {
        Action::Redrive { .. } => "REDRIVE",
        Action::Park => "PARK",
        Action::Resolve(Resolution::Completed { .. }) => "RESOLVE_COMPLETED",
        Action::Resolve(Resolution::FailedTerminal { .. }) => "RESOLVE_FAILED_TERMINAL",
        Action::Resolve(Resolution::Received) => "RESOLVE_RECEIVED",
        Action::Delete => "DELETE",
    }
}

/// What the audit keeps of an entry: no payload, no token, no name that an erasure should take along.
fn summary(entry: &Entry, order: Option<&Order>) -> String {
    let (state, cause) = entry.state.words();
    let mut summary = serde_json::json!({
        "state": state,
        "cause": cause,
        // A new entry gets its version with its insert, after its event.
        "version": (entry.version > 0).then_some(entry.version),
        "attempts": entry.attempts,
        "effect_started": entry.effect_started,
        "prior_effect_started": entry.prior_effect_started,
        "effect_unknown": entry.effect_unknown,
    });
    if let (Some(order), Some(map)) = (order, summary.as_object_mut()) {
        map.extend(order.kept());
    }
    summary.to_string()
}

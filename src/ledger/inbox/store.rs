//! Carries out a batch of Stores: inserts what seems new, and loads, decides and writes the rest.

use std::collections::HashSet;
use std::sync::Arc;

use super::Inbox;
use super::jobs::StoreJob;
use super::statement::{ends_session, within};
use crate::common::crash;
use crate::common::log_limit::error_once_a_second;
use crate::domain::{
    Context, Doubt, Entry, Key, KeyHash, Policy, Reading, Reason, Rejection, StoreRequest, StoreTime,
    StoreVerdict, Stored, store, store_absent, store_refused,
};
use crate::ledger::compare_and_set::contended;
use crate::ledger::policies::in_force::Snapshot;
use crate::ledger::refusals::{lost, read_failed};
use crate::metrics::Statement;
use crate::store::{EntryWithMessage, Fault, InsertOutcome, Loaded, Session, StoreError};

/// How often a Store may lose a race before it is refused.
const ROUNDS_MAX: usize = 16;
/// How often the statements of one batch may be halved: enough to find one row among a thousand, twice. A locked row takes
/// `lock_wait` each time.
const HALVINGS_MAX: usize = 20;

/// A Store that is not answered yet.
struct Pending {
    job: StoreJob,
    rounds: usize,
}

impl Pending {
    fn answer(self, answer: Stored) {
        let _gone = self.job.answer.send(answer);
    }
}

/// One batch on one session.
pub(super) struct StoreBatch<'a> {
    inbox: &'a Inbox,
    session: &'a mut dyn Session,
    policies: Arc<Snapshot>,
    /// Those that need another round.
    again: Vec<Pending>,
    /// The session cannot be used any more.
    broken: bool,
    /// How often statements may still be halved.
    halvings: usize,
}

impl<'a> StoreBatch<'a> {
    pub(super) fn new(inbox: &'a Inbox, session: &'a mut dyn Session) -> StoreBatch<'a> {
        let policies = inbox.shared.policies.snapshot();
        StoreBatch { inbox, session, policies, again: Vec::new(), broken: false, halvings: HALVINGS_MAX }
    }

    /// Answers all of them; returns whether the session can still be used.
    pub(super) async fn run(mut self, jobs: Vec<StoreJob>) -> bool {
        self.look_at_backlogs(&jobs).await;
        let mut pending: Vec<Pending> = jobs
            .into_iter()
            .map(|job| Pending { job, rounds: 0 })
            .filter(|one| !one.job.answer.is_closed())
            .collect();
        while !pending.is_empty() {
            let (now, later) = one_per_key(pending);
            self.again.extend(later);
            self.round(now).await;
            pending = Vec::new();
            for mut one in std::mem::take(&mut self.again) {
                one.rounds += 1;
                if self.broken {
                    one.answer(Err(read_failed(&StoreError::NotApplied(Fault::Unavailable(
                        "the session broke".into(),
                    )))));
                } else if one.rounds > ROUNDS_MAX {
                    one.answer(Err(contended("callers", "store messages under this key")));
                } else {
                    pending.push(one);
                }
            }
        }
        !self.broken
    }

    /// A bound that could not be read is not judged: what was read before counts.
    async fn look_at_backlogs(&mut self, jobs: &[StoreJob]) {
        let mut consumers: Vec<&str> = jobs.iter().map(|job| job.request.key.consumer()).collect();
        consumers.sort_unstable();
        consumers.dedup();
        for consumer in consumers {
            if !self.policies.of(consumer).inbox || self.broken {
                continue;
            }
            let (inbox, session) = (self.inbox, &mut *self.session);
            let look = within(
                &inbox.shared,
                (Statement::Load, 1),
                inbox.backlog.look(session, consumer, inbox.shared.metrics.inbox()),
            )
            .await;
            if let Err(error) = look {
                self.broken = ends_session(&error);
                tracing::warn!(%error, consumer, "the backlog of stored messages could not be read");
            }
        }
    }

    /// The policy of a consumer at this reading of the store's clock.
    fn policy(&self, consumer: &str, reading: Option<&Reading>) -> Arc<Policy> {
        let policy = self.policies.of(consumer);
        let (trusted, now) = match reading {
            Some(reading) => (self.policies.trusted(reading.now), reading.now),
            None => (self.policies.fresh(), StoreTime(0)),
        };
        let doubt = if self.inbox.shared.store.withholds_grants() {
            Doubt::Lost
        } else if trusted {
            policy.doubt
        } else {
            Doubt::Stale
        };
        let backlog_full = self.inbox.backlog.is_full(consumer, &policy, now);
        Arc::new(Policy {
            doubt: if policy.doubt == Doubt::None { doubt } else { policy.doubt },
            backlog_full,
            ..Policy::clone(&policy)
        })
    }

    async fn round(&mut self, pending: Vec<Pending>) {
        let (mut new, mut known) = (Vec::new(), Vec::new());
        let mut until = self.policies.trusted_until;
        for (one, position) in pending.into_iter().zip(1..) {
            let policy = self.policy(one.job.request.key.consumer(), None);
            // A bound on the backlog depends on the store's clock, and on whether the key has an entry.
            let policy = Policy { backlog_full: false, ..Policy::clone(&policy) };
            let StoreRequest { key, store, .. } = &one.job.request;
            if one.rounds > 0 || policy.doubt != Doubt::None {
                known.push(one);
                continue;
            }
            // Before the bound on the backlog: a refusal by the policy alone reads no entry.
            if let Some(rejection) = store_refused(store, &policy) {
                one.answer(Err(rejection));
                continue;
            }
            if self.may_be_full(key.consumer()) {
                known.push(one);
                continue;
            }
            let (decision, valid_until) = store_absent(key, store, &policy, position);
            match decision.write {
                Some(entry) => {
                    until = until.min(valid_until);
                    new.push((one, entry));
                }
                None => known.push(one),
            }
        }
        known.extend(self.insert(new, until).await);
        // Those that lost a race stand behind those that were not inserted, whatever their keys are.
        known.sort_by_key(|one| one.job.request.key.hash());
        self.load_and_decide(known).await;
    }

    /// Whether the backlog seems to be full: then nothing is inserted before a decision by the store's clock.
    fn may_be_full(&self, consumer: &str) -> bool {
        let now = self.inbox.shared.clock.by_now().unwrap_or_default();
        self.inbox.backlog.is_full(consumer, &self.policies.of(consumer), now)
    }

    /// Inserts entries of keys that seem to be new; returns the Stores whose key has an entry, or may have.
    async fn insert(&mut self, new: Vec<(Pending, Entry)>, until: StoreTime) -> Vec<Pending> {
        let (mut known, mut work) = (Vec::new(), vec![new]);
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.broken {
                known.extend(part.into_iter().map(|(one, _)| one));
                continue;
            }
            let rows: Vec<EntryWithMessage> =
                part.iter().map(|(one, entry)| with_message(one, entry.clone())).collect();
            let sent = (Statement::StoreMessages, rows.len());
            let inserted =
                within(&self.inbox.shared, sent, self.session.inbox().store_new(&rows, until)).await;
            match inserted {
                Ok(inserted) => {
                    self.inbox.shared.clock.note(&inserted.reading);
                    for ((one, entry), outcome) in part.into_iter().zip(inserted.outcomes) {
                        match outcome {
                            InsertOutcome::Granted(_) => {
                                self.stored(&entry.key);
                                one.answer(Ok((StoreVerdict::Stored { state: entry.state }, None)));
                            }
                            InsertOutcome::Conflict(_) | InsertOutcome::UnknownConflict => known.push(one),
                        }
                    }
                }
                // Decided by the clock, after a load.
                Err(StoreError::NotApplied(Fault::ClockBehind)) => {
                    known.extend(part.into_iter().map(|(one, _)| one));
                }
                Err(error) if self.may_halve(&error, part.len()) => {
                    let half = part.split_off(part.len() / 2);
                    work.extend([half, part]);
                }
                Err(error) => self.failed(part.into_iter().map(|(one, _)| one), &error),
            }
        }
        known
    }

    async fn load_and_decide(&mut self, known: Vec<Pending>) {
        if known.is_empty() {
            return;
        }
        if self.broken {
            return self.again.extend(known);
        }
        let keys: Vec<Key> = known.iter().map(|one| one.job.request.key.clone()).collect();
        let sent = (Statement::Load, keys.len());
        let loaded = within(&self.inbox.shared, sent, self.session.entries().load(&keys)).await;
        let Loaded { reading, found } = match loaded {
            Ok(loaded) => loaded,
            Err(error) => return self.not_read(known, &error),
        };
        self.inbox.shared.clock.note(&reading);
        if !self.policies.trusted(reading.now) {
            let reread = self.inbox.shared.policies.reread(&mut *self.session, reading.now);
            match within(&self.inbox.shared, (Statement::Policies, 1), reread).await {
                Ok(Some(fresh)) => self.policies = fresh,
                Ok(None) => {}
                Err(error) => return self.not_read(known, &error),
            }
        }
        let (mut new, mut attached, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let mut until = self.policies.trusted_until;
        for ((one, found), position) in known.into_iter().zip(found).zip(1..) {
            let StoreRequest { key, store: command, .. } = &one.job.request;
            let policy = self.policy(key.consumer(), Some(&reading));
            let entry = match found.into_entry(key.hash()) {
                Ok(entry) => entry,
                Err(rejection) => {
                    let rejection = store_refused(command, &policy).unwrap_or(rejection);
                    one.answer(Err(rejection));
                    continue;
                }
            };
            let decision = store(key, entry.as_ref(), command, &Context::at(&reading, &policy, position));
            match (decision.write, decision.answer) {
                (Some(_), _) if entry.is_none() => {
                    // A new row takes the clock of its insert, not that of this load.
                    let (timeless, valid_until) = store_absent(key, command, &policy, position);
                    until = until.min(valid_until);
                    match timeless.write {
                        Some(entry) => new.push((one, entry)),
                        None => self.again.push(one),
                    }
                }
                (Some(next), answer) => attached.push((one, next, answer)),
                (None, Ok(verdict @ StoreVerdict::AlreadyStored { .. })) => kept.push((one, verdict)),
                (None, answer) => one.answer(answer.map(|verdict| (verdict, None))),
            }
        }
        self.attach(attached).await;
        let lost = self.insert(new, until).await;
        self.again.extend(lost);
        self.already_stored(kept).await;
    }

    async fn attach(&mut self, attached: Vec<(Pending, Entry, Result<StoreVerdict, Rejection>)>) {
        let mut work = vec![attached];
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.broken {
                self.again.extend(part.into_iter().map(|(one, ..)| one));
                continue;
            }
            let rows: Vec<EntryWithMessage> =
                part.iter().map(|(one, entry, _)| with_message(one, entry.clone())).collect();
            let until = vec![self.policies.trusted_until; rows.len()];
            let sent = (Statement::AttachMessages, rows.len());
            let done = within(&self.inbox.shared, sent, self.session.inbox().attach(&rows, &until)).await;
            match done {
                Ok(done) => {
                    for ((one, entry, answer), done) in part.into_iter().zip(done) {
                        if done {
                            self.stored(&entry.key);
                            one.answer(answer.map(|verdict| (verdict, None)));
                        } else {
                            self.again.push(one);
                        }
                    }
                }
                Err(error) if self.may_halve(&error, part.len()) => {
                    let half = part.split_off(part.len() / 2);
                    work.extend([half, part]);
                }
                Err(error) => self.failed(part.into_iter().map(|(one, ..)| one), &error),
            }
        }
    }

    /// Answers Stores whose message is kept already. A message that is gone by now was erased: looks again.
    async fn already_stored(&mut self, kept: Vec<(Pending, StoreVerdict)>) {
        if kept.is_empty() || self.broken {
            return self.again.extend(kept.into_iter().map(|(one, _)| one));
        }
        let keys: Vec<KeyHash> = kept.iter().map(|(one, _)| one.job.request.key.hash()).collect();
        let sent = (Statement::Load, keys.len());
        match within(&self.inbox.shared, sent, self.session.inbox().stored_at(&keys)).await {
            Ok(instants) => {
                for ((one, verdict), stored_at) in kept.into_iter().zip(instants) {
                    match stored_at {
                        Some(at) => one.answer(Ok((verdict, Some(at)))),
                        None => self.again.push(one),
                    }
                }
            }
            Err(error) => self.not_read(kept.into_iter().map(|(one, _)| one).collect(), &error),
        }
    }

    /// Whether a statement with this many rows is halved after this error: one row may have failed it for all.
    fn may_halve(&mut self, error: &StoreError, rows: usize) -> bool {
        let is_of_one_row = matches!(
            error,
            StoreError::NotApplied(Fault::Permanent(_) | Fault::TimedOut(_) | Fault::Locked(_))
        );
        let may = is_of_one_row && rows > 1 && self.halvings > 0;
        self.halvings -= usize::from(may);
        may
    }

    /// A message is durable: a worker of its consumer may take it.
    fn stored(&self, key: &Key) {
        crash::point("after_stored");
        self.inbox.lines.stored(key.consumer());
    }

    /// Answers the Stores of a read that failed: nothing was written.
    fn not_read(&mut self, all: Vec<Pending>, error: &StoreError) {
        self.broken |= ends_session(error);
        let rejection = read_failed(error);
        for one in all {
            one.answer(Err(rejection.clone()));
        }
    }

    /// Answers the Stores of a write that failed.
    fn failed(&mut self, all: impl Iterator<Item = Pending>, error: &StoreError) {
        self.broken |= ends_session(error);
        match error {
            StoreError::Unknown(_) => {
                all.for_each(|one| one.answer(Err(lost())));
            }
            StoreError::NotApplied(Fault::Conflict(_)) => self.again.extend(all),
            StoreError::NotApplied(Fault::Permanent(text)) => {
                error_once_a_second!(error = text, "the store refuses a message for good");
                let text =
                    "the store refuses this message for good; nothing was changed: see the server's log";
                all.for_each(|one| one.answer(Err(Rejection::new(Reason::Internal, text))));
            }
            StoreError::NotApplied(_) => {
                let rejection = read_failed(error);
                all.for_each(|one| one.answer(Err(rejection.clone())));
            }
        }
    }
}

fn with_message(one: &Pending, entry: Entry) -> EntryWithMessage {
    EntryWithMessage { entry, message: one.job.request.message.clone() }
}

/// The first Store of each key, sorted by key; and the others, for the next round.
fn one_per_key(mut all: Vec<Pending>) -> (Vec<Pending>, Vec<Pending>) {
    all.sort_by_key(|one| one.job.request.key.hash());
    let (mut first, mut later): (Vec<Pending>, Vec<Pending>) = (Vec::with_capacity(all.len()), Vec::new());
    let mut seen = HashSet::with_capacity(all.len());
    for one in all {
        let list = if seen.insert(one.job.request.key.hash()) { &mut first } else { &mut later };
        list.push(one);
    }
    (first, later)
}

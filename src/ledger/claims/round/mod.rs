//! One round of one batch: optimistic inserts and completions, then load–decide–write for all other commands. See
//! docs/contract.md, section 12.

mod decide;
mod failures;
mod replay_run;
mod rows;
pub(super) mod timed;

use std::sync::Arc;
use std::time::Instant;

use super::shared::Shared;
use crate::common::log_limit::LogLimitByKind;
use crate::domain::{
    Alert, Answer, Command, Decision, Entry, Policy, Reading, Rejection, Reply, Settle, StoreTime, Terms,
    decide_absent, guessable,
};
use crate::ledger::claims::request::{KeyQueue, Request};
use crate::ledger::claims::round::rows::{PendingRow, StatementRows};
use crate::ledger::claims::round::timed::within;
use crate::ledger::policies::in_force::Snapshot;
use crate::ledger::refusals::lost;
use crate::metrics::Statement;
use crate::store::{Completion, Done, Fault, Found, InsertOutcome, Inserted, Loaded, Session, StoreError};
use crate::traces::BatchSpan;

/// The remainder of a batch.
pub(in crate::ledger::claims) struct Leftover {
    /// Commands that need another round.
    pub(in crate::ledger::claims) again: Vec<KeyQueue>,
    /// The session cannot be used any more.
    pub(in crate::ledger::claims) broken: bool,
}

/// The first grants that an insert did not insert.
#[derive(Default)]
pub(in crate::ledger::claims) struct NotInserted {
    /// Conflicts whose entry the insert returned.
    pub(in crate::ledger::claims) conflicts: Vec<KeyQueue>,
    /// These entries, and the clock of the insert.
    pub(in crate::ledger::claims) loaded: Option<Loaded>,
    /// All others: the entry was not seen, or the clock allowed no grant.
    pub(in crate::ledger::claims) unknown_conflicts: Vec<KeyQueue>,
    /// Number of grants that were inserted.
    pub(in crate::ledger::claims) granted: usize,
}

pub(in crate::ledger::claims) struct Round<'a> {
    pub(in crate::ledger::claims) shared: &'a Shared,
    pub(in crate::ledger::claims) session: &'a mut dyn Session,
    /// Maximum number of commands of one key that are decided together.
    pub(in crate::ledger::claims) together_max: usize,
    /// The policies by which this batch decides.
    pub(in crate::ledger::claims) policies: Arc<Snapshot>,
    pub(in crate::ledger::claims) leftover: Leftover,
    /// How often a statement waited in vain for a row lock.
    pub(in crate::ledger::claims) lock_waits: u32,
    /// How often a statement timed out.
    pub(in crate::ledger::claims) timeouts: u32,
    /// Empty unless a call of the batch is traced.
    pub(in crate::ledger::claims) span: BatchSpan,
}

impl<'a> Round<'a> {
    pub(in crate::ledger::claims) fn new(
        shared: &'a Shared,
        session: &'a mut dyn Session,
        together_max: usize,
    ) -> Round<'a> {
        let policies = shared.policies.snapshot();
        let leftover = Leftover { again: Vec::new(), broken: false };
        let span = BatchSpan::default();
        Round { shared, session, together_max, policies, leftover, lock_waits: 0, timeouts: 0, span }
    }

    /// Runs one round. The per-key queues are sorted by key, and each key is there once.
    pub(in crate::ledger::claims) async fn run(mut self, key_queues: Vec<KeyQueue>) -> Leftover {
        let calls = key_queues.iter().flat_map(KeyQueue::requests).map(|request| &request.span);
        self.span = BatchSpan::of(calls, || self.shared.store.database());
        let mut fresh = StatementRows::with_capacity(key_queues.len());
        let mut until = StoreTime::MAX;
        let mut completions = StatementRows::default();
        let mut loads = Vec::new();
        let now = self.shared.clock.now();
        let trusted = self.policies.trusted(now.unwrap_or_default()) && !self.shared.store.withholds_grants();
        let guess = trusted && self.shared.duplicate_rate.expects_new();
        for (key_queue, position) in key_queues.into_iter().zip(1..) {
            // A load does not wait for a row lock. Lookups are answered in this round: in the next one they could be behind
            // other claims of the same key again.
            let is_locked = self.shared.locked_rows.is_locked(key_queue.key.hash());
            let rest = if is_locked { self.defer_locked(key_queue) } else { Some(key_queue) };
            let Some(key_queue) = rest else { continue };
            // Keys outside of replay runs pay nothing for this.
            let rest = if key_queue.key.is_of_run() {
                self.answered_by_its_run(key_queue).await
            } else {
                Some(key_queue)
            };
            let Some(key_queue) = rest else { continue };
            let policy = self.policies.of_key(&key_queue.key);
            match &key_queue.head.command {
                Command::Claim(claim) if !key_queue.must_load && guess && guessable(claim, &policy, now) => {
                    until = until.min(self.first_grant(key_queue, &policy, position, &mut fresh));
                }
                Command::Settle(token, Settle::Complete { result, left_out }) if !key_queue.must_load => {
                    let result_dropped = *left_out || !policy.stores_result(result.len());
                    let row = Completion {
                        key: key_queue.key.clone(),
                        token: *token,
                        result: if result_dropped { bytes::Bytes::new() } else { result.clone() },
                        result_dropped,
                        terms: Terms::of(&policy),
                    };
                    completions.push(PendingRow::undecided(key_queue), row);
                }
                Command::Claim(_) | Command::Settle(..) | Command::Lookup => loads.push(key_queue),
            }
        }
        self.insert_optimistically(fresh, until, &mut loads).await;
        self.complete_optimistically(completions, &mut loads).await;
        loads.sort_by_key(|key_queue| key_queue.key.hash());
        self.load_and_decide(loads).await;
        self.leftover
    }

    /// Optimistic insert: one insert of all claims that are expected to find no entry. A conflicting claim is decided on the
    /// entry that the insert returned, and its change is written only if the entry is still the same version. A claim whose
    /// conflicting entry the insert did not see loads it.
    async fn insert_optimistically(
        &mut self,
        grants: StatementRows<Entry>,
        until: StoreTime,
        loads: &mut Vec<KeyQueue>,
    ) {
        let mut work = vec![grants];
        while let Some(part) = work.pop() {
            let NotInserted { conflicts, loaded, unknown_conflicts, granted } =
                self.insert(part, until, &mut work).await;
            self.shared.duplicate_rate.record(
                conflicts.len() + unknown_conflicts.len(),
                conflicts.len() + unknown_conflicts.len() + granted,
            );
            loads.extend(unknown_conflicts.into_iter().map(must_load));
            if let Some(loaded) = loaded {
                self.decide_and_write(conflicts, loaded).await;
            }
        }
    }

    /// Inserts first grants of keys without an entry, decided at instant zero. Returns those that met an entry, or a clock at
    /// which nothing may be granted.
    pub(in crate::ledger::claims) async fn insert(
        &mut self,
        mut part: StatementRows<Entry>,
        until: StoreTime,
        work: &mut Vec<StatementRows<Entry>>,
    ) -> NotInserted {
        let mut not_inserted = NotInserted::default();
        if part.is_empty() || self.defer_if_broken(&mut part) {
            return not_inserted;
        }
        let sent = (Statement::Insert, part.rows.len());
        let insert = self.session.entries().insert(&part.rows, until);
        match within(self.shared, &self.span, sent, insert).await {
            Ok(Inserted { reading, outcomes }) => {
                self.shared.clock.note(&reading);
                let mut found: Vec<Found> = Vec::new();
                for ((pending, row), outcome) in part.pending.into_iter().zip(part.rows).zip(outcomes) {
                    match outcome {
                        InsertOutcome::Granted(token) => {
                            not_inserted.granted += 1;
                            self.granted(pending, row, token, &reading);
                        }
                        InsertOutcome::Conflict(entry) => {
                            not_inserted.conflicts.push(pending.key_queue);
                            found.push(entry);
                        }
                        InsertOutcome::UnknownConflict => {
                            not_inserted.unknown_conflicts.push(pending.key_queue);
                        }
                    }
                }
                not_inserted.loaded = (!found.is_empty()).then_some(Loaded { reading, found });
            }
            Err(StoreError::NotApplied(Fault::ClockBehind)) => {
                not_inserted.unknown_conflicts = part.key_queues().collect();
            }
            Err(error) => self.failed(part, error, work).await,
        }
        not_inserted
    }

    /// Answers the claim of a first grant that is durable, and goes on with the commands behind the claim.
    fn granted(&mut self, pending: PendingRow, row: Entry, token: i64, reading: &Reading) {
        let answer = pending.answer.map(|answer| answer.map(|reply| reply.with_token(token)));
        // Before the answer is sent.
        self.shared.changes.changed(&row.key);
        if let Some(rest) = answered(pending.key_queue, answer) {
            let granted = Entry { token, ..row.stamped(reading.now, reading.token_clock()) };
            self.follow(rest, &granted, reading);
        }
    }

    /// Optimistic completion: one update of all completions that are expected to find their claim open. The commands behind one
    /// of them load the entry first.
    async fn complete_optimistically(
        &mut self,
        completions: StatementRows<Completion>,
        loads: &mut Vec<KeyQueue>,
    ) {
        let mut work = completions.split_by_size(|completion| completion.result.len());
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.defer_if_broken(&mut part) {
                continue;
            }
            let sent = (Statement::Complete, part.rows.len());
            let complete = self.session.entries().complete(&part.rows);
            match within(self.shared, &self.span, sent, complete).await {
                Ok(done) => {
                    for ((pending, row), done) in part.pending.into_iter().zip(part.rows).zip(done) {
                        match done {
                            Some(Done { late, attempt, doubled }) => {
                                self.shared.changes.completed(&row.key);
                                let (replayed, result_dropped) = (false, row.result_dropped);
                                let reply =
                                    Reply::Completed { replayed, late, result_dropped, attempt, doubled };
                                loads.extend(answered(pending.key_queue, Some(Ok(reply))));
                            }
                            None => loads.push(must_load(pending.key_queue)),
                        }
                    }
                }
                Err(error) => self.failed(part, error, &mut work).await,
            }
        }
    }

    /// Decides for an absent key with the clock at zero. Returns until when the grant may be inserted.
    pub(in crate::ledger::claims) fn first_grant(
        &mut self,
        key_queue: KeyQueue,
        policy: &Policy,
        position: i64,
        grants: &mut StatementRows<Entry>,
    ) -> StoreTime {
        let (Decision { answer, write, .. }, until) =
            decide_absent(&key_queue.key, &key_queue.head.command, policy, position);
        let until = until.min(self.policies.trusted_until);
        match write {
            Some(row) => {
                grants.push(PendingRow { answer: Some(answer), ..PendingRow::undecided(key_queue) }, row);
            }
            None => self.answer_head(key_queue, answer),
        }
        until
    }

    /// Answers the head; the rest goes on in another round.
    pub(in crate::ledger::claims) fn answer_head(&mut self, key_queue: KeyQueue, answer: Answer) {
        let rest = answered(key_queue, Some(answer));
        self.leftover.again.extend(rest);
    }
}

/// Answers the head, returns the rest, and logs what an operator should look into. Where it is unknown whether an earlier
/// try was applied, no answer may say that the call was certainly not applied.
pub(in crate::ledger::claims) fn answered(
    mut key_queue: KeyQueue,
    answer: Option<Answer>,
) -> Option<KeyQueue> {
    let answer = answer.unwrap_or_else(|| Err(lost()));
    if let Some(refused) = key_queue.head.refused.take() {
        // The claim is lost in any case, whether the mark was written, was not, or that is unknown.
        let decided = matches!(&answer, Err(rejection) if rejection.reason == refused.reason);
        return key_queue.answer(if decided { answer } else { Err(refused) });
    }
    let second_try = key_queue.head.unknown > 0;
    let mut answer = answer.map_err(|rejection| {
        if let Some(alert) = rejection.alert {
            alerted(&key_queue, alert);
        }
        let Rejection { alert, doubled, .. } = rejection;
        if second_try { Rejection { alert, doubled, ..lost() } } else { rejection }
    });
    match &mut answer {
        // A second try finds the lease that the first try renewed.
        Ok(Reply::Renewed { revived, .. }) => *revived |= key_queue.head.revived,
        // A repeat by the caller is not another report; a second try by the server replaces the first one.
        Ok(Reply::Completed { replayed, doubled, .. }) => *doubled &= second_try || !*replayed,
        Ok(_) | Err(_) => {}
    }
    key_queue.answer(answer)
}

/// Answers the requests that are already refused and only wait for the write of their marks; returns the others.
pub(in crate::ledger::claims) fn without_refused(key_queue: KeyQueue) -> Option<KeyQueue> {
    let is_refused = |request: &Request| request.refused.is_some();
    if !key_queue.requests().any(is_refused) {
        return Some(key_queue);
    }
    let (refused, others) = key_queue.split(is_refused);
    if let Some(key_queue) = refused {
        answer_each(key_queue, |_| Err(lost()));
    }
    others
}

/// One log line a second for each reason: a batch may have a thousand alerts, and the metric counts each of them.
fn alerted(key_queue: &KeyQueue, alert: Alert) {
    static WRITTEN: LogLimitByKind = LogLimitByKind::new();
    if let Some(held_back) = WRITTEN.permit(alert.reason.word(), Instant::now()) {
        let (consumer, key, held_back) = (key_queue.key.consumer(), key_queue.key.hash(), held_back.logged());
        tracing::error!(reason = %alert.reason, consumer, %key, held_back, "{}", alert.text);
    }
}

/// Refuses all commands.
pub(in crate::ledger::claims) fn refuse(key_queue: KeyQueue, rejection: &Rejection) {
    answer_each(key_queue, |_| Err(rejection.clone()));
}

/// Answers all commands, each separately.
pub(in crate::ledger::claims) fn answer_each(key_queue: KeyQueue, answer: impl Fn(&Command) -> Answer) {
    let mut rest = Some(key_queue);
    while let Some(key_queue) = rest {
        let answer = answer(&key_queue.head.command);
        rest = answered(key_queue, Some(answer));
    }
}

fn must_load(mut key_queue: KeyQueue) -> KeyQueue {
    key_queue.must_load = true;
    key_queue
}

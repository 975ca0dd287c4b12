//! The outcome of a statement that failed: its commands are answered, retried in halves, or left for another round.

use crate::common::log_limit::{error_once_a_second, warn_once_a_second};
use crate::domain::{Command, Key, Reason, Rejection};
use crate::ledger::claims::locked_rows::row_locked;
use crate::ledger::claims::request::{KeyQueue, Request};
use crate::ledger::claims::round::rows::{PendingRow, StatementRows};
use crate::ledger::claims::round::timed::within;
use crate::ledger::claims::round::{Round, refuse, without_refused};
use crate::ledger::refusals::{lost, store_unavailable};
use crate::metrics::Statement;
use crate::store::{Fault, StoreError};

/// How often a command may lose a race against other writers, or be left unsent, before it is refused.
const ROUNDS_MAX: u32 = 32;
/// How often a command whose outcome is unknown is tried again, on a new connection.
const UNKNOWN_MAX: u32 = 1;
/// How often a statement of one round may time out, before the rest of it is refused. Once: where the store does not
/// respond, callers must learn it soon.
const TIMEOUTS_MAX: u32 = 1;
/// How often one round may wait in vain for a row lock: enough to find one locked row among a thousand by halving, where
/// the lock is not visible.
const LOCK_WAITS_MAX: u32 = 12;

impl Round<'_> {
    /// Leaves these commands for another round if the session broke earlier in this one: they were not sent.
    pub(in crate::ledger::claims) fn defer_if_broken<T>(&mut self, part: &mut StatementRows<T>) -> bool {
        if self.leftover.broken {
            self.leftover.again.extend(std::mem::take(part).key_queues().filter_map(without_refused));
        }
        self.leftover.broken
    }

    /// Handles the failure of a statement that had all of these rows.
    pub(in crate::ledger::claims) async fn failed<T: Send + Sync>(
        &mut self,
        mut part: StatementRows<T>,
        error: StoreError,
        work: &mut Vec<StatementRows<T>>,
    ) {
        match error {
            StoreError::Unknown(text) => {
                warn_once_a_second!(
                    error = text,
                    commands = part.len(),
                    "the outcome of a statement is unknown"
                );
                self.leftover.broken = true;
                part.pending.into_iter().for_each(|pending| self.unknown(pending));
            }
            // One row fails the statement for all: halve it until that row is alone.
            StoreError::NotApplied(Fault::Permanent(_)) if part.len() > 1 => {
                let half = part.split_off(part.len() / 2);
                work.push(half);
                work.push(part);
            }
            StoreError::NotApplied(Fault::Permanent(text)) => {
                part.pending.into_iter().for_each(|pending| self.failed_alone(pending, &text));
            }
            StoreError::NotApplied(Fault::Locked(text)) => {
                warn_once_a_second!(error = text, "another session has locked the row of an entry");
                self.part_locked(part, work).await;
            }
            StoreError::NotApplied(Fault::Conflict(text)) => {
                tracing::debug!(error = text, "a statement lost against another one");
                part.pending.into_iter().for_each(|pending| self.lost_race(pending));
            }
            StoreError::NotApplied(Fault::ClockBehind) => {
                part.pending.into_iter().for_each(|pending| self.lost_race(pending));
            }
            // Certainly not applied: retry on a new session.
            StoreError::NotApplied(Fault::Stale(text)) => self.retry_unsent(part, &text),
            // The statement timed out: split it in two and retry each half once.
            StoreError::NotApplied(Fault::TimedOut(text))
                if part.len() > 1 && self.timeouts < TIMEOUTS_MAX =>
            {
                warn_once_a_second!(error = text, commands = part.len(), "a statement timed out");
                self.timeouts += 1;
                work.push(part.split_off(part.len() / 2));
                work.push(part);
            }
            StoreError::NotApplied(
                fault @ (Fault::Unavailable(_) | Fault::TimedOut(_) | Fault::Schema(_) | Fault::Outdated(_)),
            ) => self.refused(part, work, &fault),
        }
    }

    /// Decides the commands of this row again, since it is unknown whether their changes were applied: those that changed
    /// something as a second try, the others as after a lost race.
    fn unknown(&mut self, mut pending: PendingRow) {
        let replaced_version = pending.replaced_version;
        for (request, wrote, revives) in pending.decided() {
            if wrote {
                request.unknown += 1;
                request.replaced_version = replaced_version;
                request.revived |= revives;
            } else {
                request.rounds += 1;
            }
        }
        pending.key_queue.must_load = true;
        let key_queue = without_refused(pending.key_queue);
        let gave_up = |request: &Request| request.unknown > UNKNOWN_MAX;
        if let Some(key_queue) = key_queue.and_then(|key_queue| refuse_where(key_queue, gave_up, &lost())) {
            self.again(key_queue);
        }
    }

    /// Handles a row that fails its statement alone. If the row has several commands, fewer are decided together until the
    /// command at fault is alone; that one is refused.
    fn failed_alone(&mut self, pending: PendingRow, text: &str) {
        let mut key_queue = pending.key_queue;
        let decided = 1 + pending.later.len();
        if decided > 1 {
            (key_queue.together, key_queue.must_load) = (decided / 2, true);
            return self.leftover.again.push(key_queue);
        }
        error_once_a_second!(error = text, "the store refuses a command for good");
        key_queue.together = 0;
        let text = "the store refuses this command for good; nothing was changed";
        self.answer_head(key_queue, Err(Rejection::new(Reason::Internal, text)));
    }

    /// Handles a statement that the store refuses: refuses its commands and those of the remaining parts of the same statement,
    /// and ends the session.
    pub(in crate::ledger::claims) fn refused<T>(
        &mut self,
        part: StatementRows<T>,
        work: &mut Vec<StatementRows<T>>,
        fault: &Fault,
    ) {
        warn_once_a_second!(%fault, commands = part.len(), "the store refuses a statement");
        self.leftover.broken = true;
        for key_queue in part.key_queues().chain(work.drain(..).flat_map(StatementRows::key_queues)) {
            refuse(key_queue, &store_unavailable());
        }
    }

    /// Handles a statement that waited in vain for a row lock: leaves out the locked rows, and sends the others in one statement.
    async fn part_locked<T: Send + Sync>(
        &mut self,
        mut part: StatementRows<T>,
        work: &mut Vec<StatementRows<T>>,
    ) {
        self.lock_waits += 1;
        let keys: Vec<Key> = part.pending.iter().map(|pending| pending.key_queue.key.clone()).collect();
        let (sent, locked) = ((Statement::Locked, keys.len()), self.session.entries().locked(&keys));
        let locked = match within(self.shared, &self.span, sent, locked).await {
            Ok(locked) => locked,
            Err(StoreError::NotApplied(
                fault @ (Fault::Unavailable(_) | Fault::TimedOut(_) | Fault::Schema(_) | Fault::Outdated(_)),
            )) => {
                return self.refused(part, work, &fault);
            }
            Err(StoreError::NotApplied(Fault::Stale(text)) | StoreError::Unknown(text)) => {
                return self.retry_unsent(part, &text);
            }
            Err(StoreError::NotApplied(fault)) => {
                tracing::debug!(%fault, "the check for locked rows failed");
                Vec::new()
            }
        };
        if !locked.is_empty() && self.lock_waits < LOCK_WAITS_MAX {
            let is_locked = |key: &Key| locked.contains(&key.hash());
            self.shared.locked_rows.remember(keys.iter().filter(|key| is_locked(key)), false);
            let (locked, free) = part.partition(|key_queue| is_locked(&key_queue.key));
            work.push(free);
            locked.key_queues().for_each(|key_queue| self.refuse_locked(key_queue));
        } else if part.len() > 1 && self.lock_waits < LOCK_WAITS_MAX {
            // A row that another session is inserting is not visible: halve until it is alone.
            work.push(part.split_off(part.len() / 2));
            work.push(part);
        } else {
            self.shared.locked_rows.remember(keys.iter(), true);
            part.key_queues().for_each(|key_queue| self.refuse_locked(key_queue));
        }
    }

    /// Handles commands whose row another session has locked: settlements that end a claim wait until the row is free, claims and
    /// renewals are refused. A Complete that only waits for the write of its mark is answered without the mark. Returns the
    /// Lookups, which read committed data.
    pub(in crate::ledger::claims) fn defer_locked(&mut self, key_queue: KeyQueue) -> Option<KeyQueue> {
        let (lookups, writers) = key_queue.split(|request| matches!(request.command, Command::Lookup));
        let refused = writers
            .and_then(without_refused)
            .and_then(|key_queue| self.shared.locked_rows.enqueue(key_queue));
        if let Some(key_queue) = refused {
            refuse(key_queue, &row_locked());
        }
        lookups
    }

    /// As [`Round::defer_locked`], for a statement that met the locked row: its Lookups are answered in the next round.
    fn refuse_locked(&mut self, key_queue: KeyQueue) {
        let is_of_lookups = key_queue.only_looks();
        match self.defer_locked(key_queue) {
            // A load that waits for a row lock would be retried without end.
            Some(lookups) if is_of_lookups => refuse(lookups, &row_locked()),
            lookups => self.leftover.again.extend(lookups),
        }
    }

    /// Leaves these commands for another session: this one cannot be used any more, and none of the commands was applied.
    pub(in crate::ledger::claims) fn retry_unsent<T>(&mut self, part: StatementRows<T>, text: &str) {
        warn_once_a_second!(
            error = text,
            commands = part.len(),
            "a session is given up; nothing of its statement was applied"
        );
        self.leftover.broken = true;
        for mut key_queue in part.key_queues().filter_map(without_refused) {
            key_queue.requests_mut().for_each(|request| request.rounds += 1);
            let gave_up = |request: &Request| request.rounds > ROUNDS_MAX;
            if let Some(key_queue) = refuse_where(key_queue, gave_up, &store_unavailable()) {
                self.leftover.again.push(KeyQueue { must_load: true, ..key_queue });
            }
        }
    }

    /// Decides these commands again, a bounded number of times: another writer changed the entry in between, so the decisions are
    /// void.
    pub(in crate::ledger::claims) fn lost_race(&mut self, mut pending: PendingRow) {
        pending.decided().for_each(|(request, ..)| request.rounds += 1);
        self.again(pending.key_queue);
    }

    /// Leaves the commands for another round, except those that lost too often.
    fn again(&mut self, key_queue: KeyQueue) {
        let rejection = Rejection::new(
            Reason::Overloaded,
            "too many callers fight over this key; nothing was changed: try again later",
        );
        if let Some(key_queue) = refuse_where(key_queue, |request| request.rounds > ROUNDS_MAX, &rejection) {
            self.leftover.again.push(KeyQueue { must_load: true, ..key_queue });
        }
    }
}

/// Refuses the commands that match, and returns the others.
fn refuse_where(
    key_queue: KeyQueue,
    is: impl Fn(&Request) -> bool,
    rejection: &Rejection,
) -> Option<KeyQueue> {
    if !key_queue.requests().any(&is) {
        return Some(key_queue);
    }
    let (refused, others) = key_queue.split(is);
    if let Some(key_queue) = refused {
        refuse(key_queue, rejection);
    }
    others
}

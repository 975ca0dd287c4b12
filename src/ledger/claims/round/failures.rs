//! What becomes of the chains of a statement that failed: answered, halved, or left for another round.

use crate::common::log_limit::{error_once_a_second, warn_once_a_second};
use crate::domain::{Command, Key, Reason, Rejection};
use crate::ledger::claims::locked_rows::row_held;
use crate::ledger::claims::request::{Chain, Request};
use crate::ledger::claims::round::rows::{Part, Pending};
use crate::ledger::claims::round::timed::within;
use crate::ledger::claims::round::{Round, refuse, without_refused};
use crate::ledger::refusals::{lost, store_unavailable};
use crate::metrics::Statement;
use crate::store::{Fault, StoreError};

/// How often a command may lose against others before it is refused.
const ROUNDS_MAX: u32 = 32;
/// How often a command whose outcome is unknown is tried again, on a new connection.
const UNKNOWN_MAX: u32 = 1;
/// How often a statement of one round may take too long, before what is left of it is refused. Once: where the
/// store stands still, callers must hear of it soon.
const TIMEOUTS_MAX: u32 = 1;
/// How often one round may wait in vain for rows that somebody holds: enough to find one among a thousand by
/// halving, where it cannot be seen.
const LOCK_WAITS_MAX: u32 = 12;

impl Round<'_> {
    /// The session broke earlier in this round: these chains were not sent, and come again.
    pub(in crate::ledger::claims) fn set_aside<T>(&mut self, part: &mut Part<T>) -> bool {
        if self.leftover.broken {
            self.leftover.again.extend(std::mem::take(part).chains().filter_map(without_refused));
        }
        self.leftover.broken
    }

    /// A statement failed with all these chains in it.
    pub(in crate::ledger::claims) async fn failed<T: Send + Sync>(
        &mut self,
        mut part: Part<T>,
        error: StoreError,
        work: &mut Vec<Part<T>>,
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
            // One row spoils the statement for all: halve it until that one stands alone.
            StoreError::NotApplied(Fault::Permanent(_)) if part.len() > 1 => {
                let half = part.split_off(part.len() / 2);
                work.push(half);
                work.push(part);
            }
            StoreError::NotApplied(Fault::Permanent(text)) => {
                part.pending.into_iter().for_each(|pending| self.spoiled(pending, &text));
            }
            StoreError::NotApplied(Fault::Locked(text)) => {
                warn_once_a_second!(error = text, "somebody holds the row of an entry");
                self.part_locked(part, work).await;
            }
            StoreError::NotApplied(Fault::Conflict(text)) => {
                tracing::debug!(error = text, "a statement lost against another one");
                part.pending.into_iter().for_each(|pending| self.lost_race(pending));
            }
            StoreError::NotApplied(Fault::ClockBehind) => {
                part.pending.into_iter().for_each(|pending| self.lost_race(pending));
            }
            // Certainly not applied: they come again, on a new session.
            StoreError::NotApplied(Fault::Stale(text)) => self.unsent(part, &text),
            // Too much for one statement, or for the store at this moment: it is tried in halves.
            StoreError::NotApplied(Fault::TimedOut(text))
                if part.len() > 1 && self.timeouts < TIMEOUTS_MAX =>
            {
                warn_once_a_second!(error = text, commands = part.len(), "a statement took too long");
                self.timeouts += 1;
                work.push(part.split_off(part.len() / 2));
                work.push(part);
            }
            StoreError::NotApplied(
                fault @ (Fault::Unavailable(_) | Fault::TimedOut(_) | Fault::Schema(_) | Fault::Outdated(_)),
            ) => self.refused(part, work, &fault),
        }
    }

    /// It is unknown whether the changes of a chain were applied. Who changed nothing is decided again, like those who
    /// lost a race.
    fn unknown(&mut self, mut pending: Pending) {
        let over = pending.over;
        for (request, wrote, revives) in pending.decided() {
            if wrote {
                request.unknown += 1;
                request.over = over;
                request.revived |= revives;
            } else {
                request.rounds += 1;
            }
        }
        pending.chain.must_load = true;
        let chain = without_refused(pending.chain);
        let gave_up = |request: &Request| request.unknown > UNKNOWN_MAX;
        if let Some(chain) = chain.and_then(|chain| refuse_where(chain, gave_up, &lost())) {
            self.again(chain);
        }
    }

    /// The row of one chain spoils its statement. Where several commands are in it, fewer are decided together until
    /// the one stands alone that is at fault.
    fn spoiled(&mut self, pending: Pending, text: &str) {
        let mut chain = pending.chain;
        let decided = 1 + pending.later.len();
        if decided > 1 {
            (chain.together, chain.must_load) = (decided / 2, true);
            return self.leftover.again.push(chain);
        }
        error_once_a_second!(error = text, "the store refuses a command for good");
        chain.together = 0;
        let text = "the store refuses this command for good; nothing was changed";
        self.deliver(chain, Err(Rejection::new(Reason::Internal, text)));
    }

    /// The store refuses a statement, with it the parts that wait for the same one, and whatever comes after it
    /// on this session.
    pub(in crate::ledger::claims) fn refused<T>(
        &mut self,
        part: Part<T>,
        work: &mut Vec<Part<T>>,
        fault: &Fault,
    ) {
        warn_once_a_second!(%fault, commands = part.len(), "the store refuses a statement");
        self.leftover.broken = true;
        for chain in part.chains().chain(work.drain(..).flat_map(Part::chains)) {
            refuse(chain, &store_unavailable());
        }
    }

    /// Somebody holds one of these rows, or several. Those are left out; the others go on in one statement.
    async fn part_locked<T: Send + Sync>(&mut self, mut part: Part<T>, work: &mut Vec<Part<T>>) {
        self.lock_waits += 1;
        let keys: Vec<Key> = part.pending.iter().map(|pending| pending.chain.key.clone()).collect();
        let (sent, locked) = ((Statement::Locked, keys.len()), self.session.entries().locked(&keys));
        let held = match within(self.shared, &self.span, sent, locked).await {
            Ok(held) => held,
            Err(StoreError::NotApplied(
                fault @ (Fault::Unavailable(_) | Fault::TimedOut(_) | Fault::Schema(_) | Fault::Outdated(_)),
            )) => {
                return self.refused(part, work, &fault);
            }
            Err(StoreError::NotApplied(Fault::Stale(text)) | StoreError::Unknown(text)) => {
                return self.unsent(part, &text);
            }
            Err(StoreError::NotApplied(fault)) => {
                tracing::debug!(%fault, "held rows cannot be looked for");
                Vec::new()
            }
        };
        if !held.is_empty() && self.lock_waits < LOCK_WAITS_MAX {
            let is_held = |key: &Key| held.contains(&key.hash());
            self.shared.locked.remember(keys.iter().filter(|key| is_held(key)), false);
            let (held, free) = part.partition(|chain| is_held(&chain.key));
            work.push(free);
            held.chains().for_each(|chain| self.refuse_locked(chain));
        } else if part.len() > 1 && self.lock_waits < LOCK_WAITS_MAX {
            // What somebody is about to insert cannot be seen: halve until it stands alone.
            work.push(part.split_off(part.len() / 2));
            work.push(part);
        } else {
            self.shared.locked.remember(keys.iter(), true);
            part.chains().for_each(|chain| self.refuse_locked(chain));
        }
    }

    /// Another session holds its row: settlements that end a claim wait until the row is free, claims and renewals are
    /// refused. A Complete that only waits for its mark is answered without the mark. Returns the Lookups of the
    /// chain, which read what is committed.
    pub(in crate::ledger::claims) fn hold_out(&mut self, chain: Chain) -> Option<Chain> {
        let (lookups, writers) = chain.split(|request| matches!(request.command, Command::Lookup));
        let refused = writers.and_then(without_refused).and_then(|chain| self.shared.locked.take(chain));
        if let Some(chain) = refused {
            refuse(chain, &row_held());
        }
        lookups
    }

    /// As [`Round::hold_out`], of a chain whose statement met the row: its Lookups are answered in the next round.
    fn refuse_locked(&mut self, chain: Chain) {
        let is_of_lookups = chain.only_looks();
        match self.hold_out(chain) {
            // A load that waits for a row would come again without end.
            Some(lookups) if is_of_lookups => refuse(lookups, &row_held()),
            lookups => self.leftover.again.extend(lookups),
        }
    }

    /// The session is of no use any more, and nothing of these chains was applied.
    pub(in crate::ledger::claims) fn unsent<T>(&mut self, part: Part<T>, text: &str) {
        warn_once_a_second!(
            error = text,
            commands = part.len(),
            "a session is given up; nothing of its statement was applied"
        );
        self.leftover.broken = true;
        for mut chain in part.chains().filter_map(without_refused) {
            chain.requests_mut().for_each(|request| request.rounds += 1);
            let gave_up = |request: &Request| request.rounds > ROUNDS_MAX;
            if let Some(chain) = refuse_where(chain, gave_up, &store_unavailable()) {
                self.leftover.again.push(Chain { must_load: true, ..chain });
            }
        }
    }

    /// Somebody else changed the entry in between: nothing that was decided counts. Once more, within bounds.
    pub(in crate::ledger::claims) fn lost_race(&mut self, mut pending: Pending) {
        pending.decided().for_each(|(request, ..)| request.rounds += 1);
        self.again(pending.chain);
    }

    /// Once more, but for those who have lost too often.
    fn again(&mut self, chain: Chain) {
        let rejection = Rejection::new(
            Reason::Overloaded,
            "too many callers fight over this key; nothing was changed: try again later",
        );
        if let Some(chain) = refuse_where(chain, |request| request.rounds > ROUNDS_MAX, &rejection) {
            self.leftover.again.push(Chain { must_load: true, ..chain });
        }
    }
}

/// Refuses some of a chain, and gives back the others.
fn refuse_where(chain: Chain, is: impl Fn(&Request) -> bool, rejection: &Rejection) -> Option<Chain> {
    if !chain.requests().any(&is) {
        return Some(chain);
    }
    let (refused, others) = chain.split(is);
    if let Some(chain) = refused {
        refuse(chain, rejection);
    }
    others
}

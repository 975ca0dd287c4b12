//! What becomes of the chains of a statement that failed: answered, halved, or left for another round.

use super::batch::{Pending, Round, within};
use super::locked::row_held;
use super::queue::Chain;
use crate::domain::{Key, Reason, Rejection};
use crate::ledger::refusals::{lost, store_unavailable};
use crate::once_a_second::warn_once_a_second;
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
    pub(super) fn set_aside<T>(&mut self, part: &mut Vec<Pending<T>>) -> bool {
        if self.leftover.broken {
            self.leftover.again.extend(part.drain(..).map(|pending| pending.chain));
        }
        self.leftover.broken
    }

    /// A statement failed with all these chains in it.
    pub(super) async fn failed<T: Send>(
        &mut self,
        mut part: Vec<Pending<T>>,
        error: StoreError,
        work: &mut Vec<Vec<Pending<T>>>,
    ) {
        match error {
            StoreError::Unknown(text) => {
                warn_once_a_second!(
                    error = text,
                    commands = part.len(),
                    "the outcome of a statement is unknown"
                );
                self.leftover.broken = true;
                for Pending { mut chain, .. } in part {
                    chain.unknown += 1;
                    chain.must_load = true;
                    if chain.unknown > UNKNOWN_MAX {
                        self.deliver(chain, Err(lost()));
                    } else {
                        self.leftover.again.push(chain);
                    }
                }
            }
            // One row spoils the statement for all: halve it until that one stands alone.
            StoreError::NotApplied(Fault::Permanent(_)) if part.len() > 1 => {
                let half = part.split_off(part.len() / 2);
                work.push(half);
                work.push(part);
            }
            StoreError::NotApplied(Fault::Permanent(text)) => {
                tracing::error!(error = text, "the store refuses a command for good");
                let rejection = Rejection::new(
                    Reason::Internal,
                    "the store refuses this command for good; nothing was changed",
                );
                for pending in part {
                    self.deliver(pending.chain, Err(rejection.clone()));
                }
            }
            StoreError::NotApplied(Fault::Locked(text)) => {
                warn_once_a_second!(error = text, "somebody holds the row of an entry");
                self.part_locked(part, work).await;
            }
            StoreError::NotApplied(Fault::Conflict(text)) => {
                tracing::debug!(error = text, "a statement lost against another one");
                for pending in part {
                    self.lost_race(pending.chain);
                }
            }
            StoreError::NotApplied(Fault::ClockBehind) => {
                for pending in part {
                    self.lost_race(pending.chain);
                }
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
                fault @ (Fault::Unavailable(_) | Fault::TimedOut(_) | Fault::Schema(_)),
            ) => self.refused(part, work, &fault),
        }
    }

    /// The store refuses a statement, with it the parts that wait for the same one, and whatever comes after it
    /// on this session.
    pub(super) fn refused<T>(
        &mut self,
        part: Vec<Pending<T>>,
        work: &mut Vec<Vec<Pending<T>>>,
        fault: &Fault,
    ) {
        warn_once_a_second!(%fault, commands = part.len(), "the store refuses a statement");
        self.leftover.broken = true;
        for pending in part.into_iter().chain(work.drain(..).flatten()) {
            self.deliver(pending.chain, Err(store_unavailable()));
        }
    }

    /// Somebody holds one of these rows, or several. Those are left out; the others go on in one statement.
    async fn part_locked<T: Send>(&mut self, mut part: Vec<Pending<T>>, work: &mut Vec<Vec<Pending<T>>>) {
        self.lock_waits += 1;
        let keys: Vec<Key> = part.iter().map(|pending| pending.chain.key.clone()).collect();
        let held = match within(self.shared, self.session.entries().locked(&keys)).await {
            Ok(held) => held,
            Err(StoreError::NotApplied(
                fault @ (Fault::Unavailable(_) | Fault::TimedOut(_) | Fault::Schema(_)),
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
            let (held, free): (Vec<_>, Vec<_>) =
                part.into_iter().partition(|pending| is_held(&pending.chain.key));
            work.push(free);
            for pending in held {
                self.hold_out(pending.chain);
            }
        } else if part.len() > 1 && self.lock_waits < LOCK_WAITS_MAX {
            // What somebody is about to insert cannot be seen: halve until it stands alone.
            work.push(part.split_off(part.len() / 2));
            work.push(part);
        } else {
            self.shared.locked.remember(keys.iter(), true);
            for pending in part {
                self.hold_out(pending.chain);
            }
        }
    }

    /// Somebody holds its row: what ends a claim waits until it is free, the others are refused.
    pub(super) fn hold_out(&mut self, chain: Chain) {
        if let Some(chain) = self.shared.locked.take(chain) {
            self.deliver(chain, Err(row_held()));
        }
    }

    /// The session is of no use any more, and nothing of these chains was applied.
    pub(super) fn unsent<T>(&mut self, part: Vec<Pending<T>>, text: &str) {
        warn_once_a_second!(
            error = text,
            commands = part.len(),
            "a session is given up; nothing of its statement was applied"
        );
        self.leftover.broken = true;
        for Pending { mut chain, .. } in part {
            chain.rounds += 1;
            chain.must_load = true;
            if chain.rounds > ROUNDS_MAX {
                self.deliver(chain, Err(store_unavailable()));
            } else {
                self.leftover.again.push(chain);
            }
        }
    }

    /// Somebody else changed the entry in between: once more, within bounds.
    pub(super) fn lost_race(&mut self, mut chain: Chain) {
        chain.rounds += 1;
        chain.must_load = true;
        if chain.rounds > ROUNDS_MAX {
            let rejection = Rejection::new(
                Reason::Overloaded,
                "too many callers fight over this key; nothing was changed: try again later",
            );
            self.deliver(chain, Err(rejection));
        } else {
            self.leftover.again.push(chain);
        }
    }
}

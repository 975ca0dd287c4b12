//! One round of one batch: two guesses, a load, decisions, writes. Contract, section 12.

use std::sync::Arc;
use std::time::Duration;

use super::locked::row_held;
use super::queue::Unit;
use super::shared::Shared;
use crate::crash;
use crate::domain::{
    Answer, Claim, Command, Context, Decision, Doubt, Entry, Key, Policy, Reading, Reason, Rejection, Reply,
    Settle, StoreTime, Verdict, decide, guessable, inside_until,
};
use crate::ledger::policies::in_force::Snapshot;
use crate::ledger::refusals::{lost, store_unavailable};
use crate::ledger::runtime::timeout;
use crate::once_a_second::warn_once_a_second;
use crate::store::{Completion, Fault, Found, Session, StoreError};

/// How often a command may lose against others before it is refused.
const ROUNDS_MAX: u32 = 32;
/// How often a command whose outcome is unknown is tried again, on a new connection.
const UNKNOWN_MAX: u32 = 1;
/// How long a statement may take before its connection is given up. Longer than the server's own
/// statement timeout, which is certain.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(3);
/// How often one round may wait in vain for rows that somebody holds: enough to find one among a thousand by
/// halving, where it cannot be seen.
const LOCK_WAITS_MAX: u32 = 12;

/// What is left of a batch.
pub(super) struct Outcome {
    /// Units that need another round.
    pub(super) again: Vec<Unit>,
    /// The session can not be used any more.
    pub(super) broken: bool,
}

pub(super) struct Batch<'a> {
    shared: &'a Shared,
    session: &'a mut dyn Session,
    /// What this batch decides by.
    policies: Arc<Snapshot>,
    outcome: Outcome,
    /// How often a statement has waited in vain for a row.
    lock_waits: u32,
}

/// A unit with a guess, or with a decision, that waits for its statement.
struct Pending<T> {
    unit: Unit,
    answer: Answer,
    row: T,
}

/// An entry as it must stand then, and until when it may be written.
struct Replacement {
    entry: Entry,
    until: StoreTime,
}

impl<'a> Batch<'a> {
    pub(super) fn new(shared: &'a Shared, session: &'a mut dyn Session) -> Batch<'a> {
        let policies = shared.policies.snapshot();
        let outcome = Outcome { again: Vec::new(), broken: false };
        Batch { shared, session, policies, outcome, lock_waits: 0 }
    }

    /// One round. The units are sorted by key, each key once.
    pub(super) async fn run(mut self, units: Vec<Unit>) -> Outcome {
        let mut fresh = Vec::new();
        let mut until = StoreTime::MAX;
        let mut completions = Vec::new();
        let mut looks = Vec::new();
        let now = self.shared.clock.now();
        let trusted = self.policies.trusted(now.unwrap_or_default());
        for (unit, position) in units.into_iter().zip(1..) {
            if self.shared.locked.holds(unit.key.hash()) {
                self.hold_out(unit);
                continue;
            }
            let policy = self.policies.of(unit.key.consumer());
            match &unit.head.command {
                Command::Claim(claim) if !unit.look && trusted && guessable(claim, &policy, now) => {
                    let (grant, until_then) = self.first_grant(unit, position);
                    until = until.min(until_then);
                    fresh.extend(grant);
                }
                Command::Settle(token, Settle::Complete { result }) if !unit.look => {
                    let row = Completion {
                        key: unit.key.clone(),
                        token: *token,
                        result: result.clone(),
                        retention: policy.retention,
                    };
                    completions.push(Pending { unit, answer: Err(lost()), row });
                }
                Command::Claim(_) | Command::Settle(..) => looks.push(unit),
            }
        }
        looks.extend(self.insert(fresh, until).await.into_iter().map(looking));
        self.guess_completions(completions, &mut looks).await;
        looks.sort_by_key(|unit| unit.key.hash());
        self.look(looks).await;
        self.outcome
    }

    /// First grants, as of instant zero, of keys that have no entry: one insert. Gives back those who
    /// met an entry, or a clock at which nothing may be granted.
    async fn insert(&mut self, grants: Vec<Pending<Entry>>, until: StoreTime) -> Vec<Unit> {
        let (mut work, mut losers) = (vec![grants], Vec::new());
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.set_aside(&mut part) {
                continue;
            }
            let rows: Vec<Entry> = part.iter().map(|pending| pending.row.clone()).collect();
            match within(self.shared, self.session.insert(&rows, until)).await {
                Ok(inserted) => {
                    self.shared.clock.note(&inserted.reading);
                    for (pending, token) in part.into_iter().zip(inserted.tokens) {
                        match token {
                            Some(token) => self.deliver(pending.unit, with_token(pending.answer, token)),
                            None => losers.push(pending.unit),
                        }
                    }
                }
                Err(StoreError::NotApplied(Fault::ClockBehind)) => {
                    losers.extend(part.into_iter().map(|pending| pending.unit));
                }
                Err(error) => self.failed(part, error, &mut work).await,
            }
        }
        losers
    }

    /// Completions that are guessed to find their claim open: one update.
    async fn guess_completions(&mut self, completions: Vec<Pending<Completion>>, looks: &mut Vec<Unit>) {
        let mut work = vec![completions];
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.set_aside(&mut part) {
                continue;
            }
            let rows: Vec<Completion> = part.iter().map(|pending| pending.row.clone()).collect();
            match within(self.shared, self.session.complete(&rows)).await {
                Ok(done) => {
                    for (pending, late) in part.into_iter().zip(done) {
                        match late {
                            Some(late) => {
                                self.deliver(pending.unit, Ok(Reply::Completed { replayed: false, late }));
                            }
                            None => looks.push(looking(pending.unit)),
                        }
                    }
                }
                Err(error) => self.failed(part, error, &mut work).await,
            }
        }
    }

    /// Everything else, and every guess that was wrong: load, decide, write.
    async fn look(&mut self, units: Vec<Unit>) {
        let asking: Vec<Pending<()>> =
            units.into_iter().map(|unit| Pending { unit, answer: Err(lost()), row: () }).collect();
        let mut work = vec![asking];
        let (mut grants, mut until, mut replaces) = (Vec::new(), StoreTime::MAX, Vec::new());
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.set_aside(&mut part) {
                continue;
            }
            let keys: Vec<Key> = part.iter().map(|pending| pending.unit.key.clone()).collect();
            match within(self.shared, self.session.load(&keys)).await {
                Ok(loaded) => {
                    self.shared.clock.note(&loaded.reading);
                    if let Err(error) = self.renew_policies(&part, &loaded.reading).await {
                        self.unsent(part, &error.to_string());
                        continue;
                    }
                    for ((pending, found), position) in part.into_iter().zip(loaded.found).zip(1..) {
                        let unit = pending.unit;
                        let Decision { answer, write, grants: granting } =
                            self.decide(&unit, &found, &loaded.reading, position);
                        match (write, &found) {
                            (None, _) => self.deliver(unit, answer),
                            // It was applied, and its lease is over: to arm it once more is for the caller to ask.
                            (Some(_), Found::Entry(entry)) if granted_before(&unit, entry) => {
                                self.deliver(unit, Err(lost()));
                            }
                            (Some(entry), Found::Entry(_)) => {
                                let until =
                                    if granting { self.policies.trusted_until } else { StoreTime::MAX };
                                replaces.push(Pending { unit, answer, row: Replacement { entry, until } });
                            }
                            // A new row takes the clock of its insert, not the one of this look: were
                            // it late, its token could be lower than that of a row that came and went.
                            (Some(_), _) => {
                                let (grant, until_then) = self.first_grant(unit, position);
                                until = until.min(until_then);
                                grants.extend(grant);
                            }
                        }
                    }
                }
                // A load changes nothing: what is unknown is only its answer.
                Err(StoreError::Unknown(text)) => self.unsent(part, &text),
                Err(error) => self.failed(part, error, &mut work).await,
            }
        }
        for unit in self.insert(grants, until).await {
            self.lost_race(unit);
        }
        self.write_changed(replaces).await;
    }

    /// Claims that find the policies too old have them read at once: a hold is then seen, and all else goes on.
    /// Where they cannot be read the claims are refused that would be granted.
    ///
    /// # Errors
    /// The session broke.
    async fn renew_policies(&mut self, part: &[Pending<()>], reading: &Reading) -> Result<(), StoreError> {
        let claims = part.iter().any(|pending| matches!(pending.unit.head.command, Command::Claim(_)));
        if claims && !self.policies.trusted(reading.now) {
            let reread = self.shared.policies.reread(&mut *self.session, reading.now);
            let read = within(self.shared, reread).await?;
            self.policies = read.unwrap_or_else(|| Arc::clone(&self.policies));
        }
        Ok(())
    }

    /// What the core decides, as of instant zero, on a claim that finds no entry; and the last instant at
    /// which it does.
    fn first_grant(&mut self, unit: Unit, position: i64) -> (Option<Pending<Entry>>, StoreTime) {
        let policy = self.policies.of(unit.key.consumer());
        let context =
            Context { policy: &policy, now: StoreTime(0), token_offset: 0, position, clock_behind: false };
        let (command, until) = match &unit.head.command {
            Command::Claim(claim) => {
                // Zero is no instant at which a message's age could be told.
                let timeless = Claim { occurred_at: None, ..claim.clone() };
                (Command::Claim(timeless), inside_until(claim, &policy).min(self.policies.trusted_until))
            }
            settlement @ Command::Settle(..) => (settlement.clone(), StoreTime::MAX),
        };
        let Decision { answer, write, .. } = decide(&unit.key, None, &command, &context);
        let Some(row) = write else {
            self.deliver(unit, answer);
            return (None, until);
        };
        (Some(Pending { unit, answer, row }), until)
    }

    fn decide(&self, unit: &Unit, found: &Found, reading: &Reading, position: i64) -> Decision {
        let entry = match found.entry(&unit.key) {
            Ok(entry) => entry,
            Err(rejection) => return refused(rejection),
        };
        let mut policy = self.policies.of(unit.key.consumer());
        // Settlements are decided by the rules that were read last, however old they are.
        let claims = matches!(unit.head.command, Command::Claim(_));
        if claims && !self.policies.trusted(reading.now) && policy.doubt == Doubt::None {
            policy = Arc::new(Policy { doubt: Doubt::Stale, ..Policy::clone(&policy) });
        }
        let context = Context::at(reading, &policy, position);
        decide(&unit.key, entry, &unit.head.command, &context)
    }

    async fn write_changed(&mut self, replaces: Vec<Pending<Replacement>>) {
        let mut work = vec![replaces];
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.set_aside(&mut part) {
                continue;
            }
            let rows: Vec<Entry> = part.iter().map(|pending| pending.row.entry.clone()).collect();
            let until: Vec<StoreTime> = part.iter().map(|pending| pending.row.until).collect();
            match within(self.shared, self.session.replace_until(&rows, &until)).await {
                Ok(done) => {
                    for (pending, done) in part.into_iter().zip(done) {
                        if done {
                            self.deliver(pending.unit, pending.answer);
                        } else {
                            self.lost_race(pending.unit);
                        }
                    }
                }
                Err(error) => self.failed(part, error, &mut work).await,
            }
        }
    }

    /// The session broke earlier in this round: these units were not sent, and come again.
    fn set_aside<T>(&mut self, part: &mut Vec<Pending<T>>) -> bool {
        if self.outcome.broken {
            self.outcome.again.extend(part.drain(..).map(|pending| pending.unit));
        }
        self.outcome.broken
    }

    /// A statement failed with all these units in it.
    async fn failed<T: Send>(
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
                self.outcome.broken = true;
                for Pending { mut unit, .. } in part {
                    unit.unknown += 1;
                    unit.look = true;
                    if unit.unknown > UNKNOWN_MAX {
                        self.deliver(unit, Err(lost()));
                    } else {
                        self.outcome.again.push(unit);
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
                    self.deliver(pending.unit, Err(rejection.clone()));
                }
            }
            StoreError::NotApplied(Fault::Locked(text)) => {
                warn_once_a_second!(error = text, "somebody holds the row of an entry");
                self.part_locked(part, work).await;
            }
            StoreError::NotApplied(Fault::Conflict(text)) => {
                tracing::debug!(error = text, "a statement lost against another one");
                for pending in part {
                    self.lost_race(pending.unit);
                }
            }
            StoreError::NotApplied(Fault::ClockBehind) => {
                for pending in part {
                    self.lost_race(pending.unit);
                }
            }
            // Certainly not applied: they come again, on a new session.
            StoreError::NotApplied(Fault::Stale(text)) => self.unsent(part, &text),
            StoreError::NotApplied(fault @ (Fault::Unavailable(_) | Fault::Schema(_))) => {
                self.refused(part, &fault);
            }
        }
    }

    /// The store refuses a statement, and whatever comes after it on this session.
    fn refused<T>(&mut self, part: Vec<Pending<T>>, fault: &Fault) {
        warn_once_a_second!(%fault, commands = part.len(), "the store refuses a statement");
        self.outcome.broken = true;
        for pending in part {
            self.deliver(pending.unit, Err(store_unavailable()));
        }
    }

    /// Somebody holds one of these rows, or several. Those are left out; the others go on in one statement.
    async fn part_locked<T: Send>(&mut self, mut part: Vec<Pending<T>>, work: &mut Vec<Vec<Pending<T>>>) {
        self.lock_waits += 1;
        let keys: Vec<Key> = part.iter().map(|pending| pending.unit.key.clone()).collect();
        let held = match within(self.shared, self.session.locked(&keys)).await {
            Ok(held) => held,
            Err(StoreError::NotApplied(fault @ (Fault::Unavailable(_) | Fault::Schema(_)))) => {
                return self.refused(part, &fault);
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
                part.into_iter().partition(|pending| is_held(&pending.unit.key));
            work.push(free);
            for pending in held {
                self.hold_out(pending.unit);
            }
        } else if part.len() > 1 && self.lock_waits < LOCK_WAITS_MAX {
            // What somebody is about to insert cannot be seen: halve until it stands alone.
            work.push(part.split_off(part.len() / 2));
            work.push(part);
        } else {
            self.shared.locked.remember(keys.iter(), true);
            for pending in part {
                self.hold_out(pending.unit);
            }
        }
    }

    /// Somebody holds its row: what ends a claim waits until it is free, the others are refused.
    fn hold_out(&mut self, unit: Unit) {
        if let Some(unit) = self.shared.locked.take(unit) {
            self.deliver(unit, Err(row_held()));
        }
    }

    /// The session is of no use any more, and nothing of these units was applied.
    fn unsent<T>(&mut self, part: Vec<Pending<T>>, text: &str) {
        warn_once_a_second!(
            error = text,
            commands = part.len(),
            "a session is given up; nothing of its statement was applied"
        );
        self.outcome.broken = true;
        for Pending { mut unit, .. } in part {
            unit.rounds += 1;
            unit.look = true;
            if unit.rounds > ROUNDS_MAX {
                self.deliver(unit, Err(store_unavailable()));
            } else {
                self.outcome.again.push(unit);
            }
        }
    }

    /// Somebody else changed the entry in between: once more, within bounds.
    fn lost_race(&mut self, mut unit: Unit) {
        unit.rounds += 1;
        unit.look = true;
        if unit.rounds > ROUNDS_MAX {
            let rejection = Rejection::new(
                Reason::Overloaded,
                "too many callers fight over this key; nothing was changed: try again later",
            );
            self.deliver(unit, Err(rejection));
        } else {
            self.outcome.again.push(unit);
        }
    }

    /// Answers. Where it is unknown whether an earlier try was applied, no answer may say that the
    /// call was certainly not applied.
    fn deliver(&mut self, unit: Unit, answer: Answer) {
        let answer = match answer {
            Err(rejection) if unit.unknown > 0 => Err(lost().alerting(rejection.alert)),
            answer => answer,
        };
        self.outcome.again.extend(unit.answer(answer));
    }
}

/// A claim of unknown outcome finds that it was granted: one call takes effect once.
fn granted_before(unit: &Unit, entry: &Entry) -> bool {
    match &unit.head.command {
        Command::Claim(claim) => unit.unknown > 0 && entry.is_claim_of(&claim.claimant),
        Command::Settle(..) => false,
    }
}

fn looking(mut unit: Unit) -> Unit {
    unit.look = true;
    unit
}

fn refused(rejection: Rejection) -> Decision {
    Decision { answer: Err(rejection), write: None, grants: false }
}

fn with_token(mut answer: Answer, granted: i64) -> Answer {
    if let Ok(Reply::Verdict(Verdict::Acquired { token, .. })) = &mut answer {
        *token = granted;
    }
    answer
}

/// A statement that does not answer is given up with its connection; whether it was applied is
/// unknown.
pub(super) async fn within<T>(
    shared: &Shared,
    statement: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    shared.pulse.sent();
    match crash::around(timeout(STATEMENT_TIMEOUT, statement)).await {
        Ok(done) => {
            if !matches!(done, Err(StoreError::Unknown(_))) {
                shared.pulse.answered();
            }
            done
        }
        Err(_) => Err(StoreError::Unknown(format!("no answer within {STATEMENT_TIMEOUT:?}"))),
    }
}

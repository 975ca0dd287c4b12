//! One round of one batch: two guesses, a load, decisions, writes. Contract, section 12.

use std::time::Duration;

use super::queue::Unit;
use super::rt::timeout;
use super::{Shared, lost, store_unavailable};
use crate::crash;
use crate::domain::{
    Answer, Claim, Command, Context, Decision, Entry, GUESS_MARGIN, Key, Policy, Reason, Rejection, Reply,
    Settle, StoreTime, Verdict, decide, guessable,
};
use crate::store::{Base, Completion, Fault, Found, Reading, Session, StoreError};

/// How often a command may lose against others before it is refused.
const ROUNDS_MAX: u32 = 32;
/// How often a command whose outcome is unknown is tried again, on a new connection.
const UNKNOWN_MAX: u32 = 1;
/// How long a statement may take before its connection is given up. Longer than the server's own
/// statement timeout, which is certain.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(15);

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
    outcome: Outcome,
}

/// A unit with a guess, or with a decision, that waits for its statement.
struct Pending<T> {
    unit: Unit,
    answer: Answer,
    row: T,
}

impl<'a> Batch<'a> {
    pub(super) fn new(shared: &'a Shared, session: &'a mut dyn Session) -> Batch<'a> {
        Batch { shared, session, outcome: Outcome { again: Vec::new(), broken: false } }
    }

    /// One round. The units are sorted by key, each key once.
    pub(super) async fn run(mut self, units: Vec<Unit>) -> Outcome {
        let mut fresh = Vec::new();
        let mut completions = Vec::new();
        let mut looks = Vec::new();
        let now = self.shared.clock.now();
        for (unit, position) in units.into_iter().zip(1..) {
            let policy = self.shared.policies.of(unit.key.consumer());
            match &unit.head.command {
                Command::Claim(claim) if !unit.look && guessable(claim, &policy, now) => {
                    match guess_absent(&unit.key, claim, &policy, position) {
                        Some((answer, row)) => fresh.push(Pending { unit, answer, row }),
                        None => looks.push(unit),
                    }
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
        let until = now.map_or(StoreTime::MAX, |now| now + GUESS_MARGIN);
        self.guess_inserts(fresh, until, &mut looks).await;
        self.guess_completions(completions, &mut looks).await;
        looks.sort_by_key(|unit| unit.key.hash());
        self.look(looks).await;
        self.outcome
    }

    /// Claims that are guessed to find no entry: one insert.
    async fn guess_inserts(&mut self, fresh: Vec<Pending<Entry>>, until: StoreTime, looks: &mut Vec<Unit>) {
        let mut work = vec![fresh];
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.set_aside(&mut part) {
                continue;
            }
            let rows: Vec<Entry> = part.iter().map(|pending| pending.row.clone()).collect();
            match within(self.session.insert(&rows, Base::Clock { until })).await {
                Ok(inserted) => {
                    self.shared.clock.note(&inserted.reading);
                    for (pending, token) in part.into_iter().zip(inserted.tokens) {
                        match token {
                            Some(token) => self.deliver(pending.unit, with_token(pending.answer, token)),
                            None => looks.push(looking(pending.unit)),
                        }
                    }
                }
                // Verdicts that need no new token still work: look.
                Err(StoreError::NotApplied(Fault::ClockBehind)) => {
                    looks.extend(part.into_iter().map(|pending| looking(pending.unit)));
                }
                Err(error) => self.failed(part, error, &mut work),
            }
        }
    }

    /// Completions that are guessed to find their claim open: one update.
    async fn guess_completions(&mut self, completions: Vec<Pending<Completion>>, looks: &mut Vec<Unit>) {
        let mut work = vec![completions];
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.set_aside(&mut part) {
                continue;
            }
            let rows: Vec<Completion> = part.iter().map(|pending| pending.row.clone()).collect();
            match within(self.session.complete(&rows)).await {
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
                Err(error) => self.failed(part, error, &mut work),
            }
        }
    }

    /// Everything else, and every guess that was wrong: load, decide, write.
    async fn look(&mut self, units: Vec<Unit>) {
        let asking: Vec<Pending<()>> =
            units.into_iter().map(|unit| Pending { unit, answer: Err(lost()), row: () }).collect();
        let mut work = vec![asking];
        let (mut inserts, mut replaces) = (Vec::new(), Vec::new());
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.set_aside(&mut part) {
                continue;
            }
            let keys: Vec<Key> = part.iter().map(|pending| pending.unit.key.clone()).collect();
            match within(self.session.load(&keys)).await {
                Ok(loaded) => {
                    self.shared.clock.note(&loaded.reading);
                    for ((pending, found), position) in part.into_iter().zip(loaded.found).zip(1..) {
                        let unit = pending.unit;
                        let present = matches!(found, Found::Entry(_));
                        let decision = self.decide(&unit, &found, &loaded.reading, position);
                        match decision.write {
                            None => self.deliver(unit, decision.answer),
                            Some(row) => {
                                let pending = Pending { unit, answer: decision.answer, row };
                                if present { &mut replaces } else { &mut inserts }.push(pending);
                            }
                        }
                    }
                }
                // A load changes nothing: what is unknown is only its answer.
                Err(StoreError::Unknown(text)) => self.unsent(part, &text),
                Err(error) => self.failed(part, error, &mut work),
            }
        }
        self.write_new(inserts).await;
        self.write_changed(replaces).await;
    }

    fn decide(&self, unit: &Unit, found: &Found, reading: &Reading, position: i64) -> Decision {
        let entry = match found {
            Found::Absent => None,
            Found::Entry(entry) => Some(&**entry),
            Found::Collision => {
                tracing::error!(key = %unit.key.hash(), "two keys have the same hash");
                return refused(Rejection::new(
                    Reason::KeyCollision,
                    "another key has the same 128-bit hash; this message can not be tracked: use another id",
                ));
            }
            Found::Unreadable(problem) => {
                tracing::error!(problem, "an entry can not be read");
                return refused(Rejection::new(
                    Reason::EntryUnreadable,
                    "the stored entry of this key can not be read; an operator must look at it",
                ));
            }
        };
        let policy = self.shared.policies.of(unit.key.consumer());
        let context = Context {
            policy: &policy,
            now: reading.now,
            token_offset: reading.token_offset,
            position,
            clock_behind: reading.behind(),
        };
        decide(&unit.key, entry, &unit.head.command, &context)
    }

    async fn write_new(&mut self, inserts: Vec<Pending<Entry>>) {
        let mut work = vec![inserts];
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.set_aside(&mut part) {
                continue;
            }
            let rows: Vec<Entry> = part.iter().map(|pending| pending.row.clone()).collect();
            match within(self.session.insert(&rows, Base::Zero)).await {
                Ok(inserted) => {
                    for (pending, token) in part.into_iter().zip(inserted.tokens) {
                        if token.is_some() {
                            self.deliver(pending.unit, pending.answer);
                        } else {
                            self.lost_race(pending.unit);
                        }
                    }
                }
                Err(StoreError::NotApplied(Fault::ClockBehind)) => {
                    for pending in part {
                        self.lost_race(pending.unit);
                    }
                }
                Err(error) => self.failed(part, error, &mut work),
            }
        }
    }

    async fn write_changed(&mut self, replaces: Vec<Pending<Entry>>) {
        let mut work = vec![replaces];
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.set_aside(&mut part) {
                continue;
            }
            let rows: Vec<Entry> = part.iter().map(|pending| pending.row.clone()).collect();
            match within(self.session.replace(&rows)).await {
                Ok(done) => {
                    for (pending, done) in part.into_iter().zip(done) {
                        if done {
                            self.deliver(pending.unit, pending.answer);
                        } else {
                            self.lost_race(pending.unit);
                        }
                    }
                }
                Err(error) => self.failed(part, error, &mut work),
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
    fn failed<T>(&mut self, mut part: Vec<Pending<T>>, error: StoreError, work: &mut Vec<Vec<Pending<T>>>) {
        match error {
            StoreError::Unknown(text) => {
                tracing::warn!(error = text, commands = part.len(), "the outcome of a statement is unknown");
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
            StoreError::NotApplied(Fault::Permanent(text)) => {
                if part.len() > 1 {
                    let half = part.split_off(part.len() / 2);
                    work.push(half);
                    work.push(part);
                } else {
                    tracing::error!(error = text, "the store refuses a command for good");
                    let rejection = Rejection::new(
                        Reason::Internal,
                        "the store refuses this command for good; nothing was changed",
                    );
                    for pending in part {
                        self.deliver(pending.unit, Err(rejection.clone()));
                    }
                }
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
            StoreError::NotApplied(fault @ (Fault::Unavailable(_) | Fault::Schema(_))) => {
                tracing::warn!(%fault, commands = part.len(), "the store refuses a statement");
                self.outcome.broken = true;
                for pending in part {
                    self.deliver(pending.unit, Err(store_unavailable()));
                }
            }
        }
    }

    /// The connection broke over a load: nothing of it was applied.
    fn unsent(&mut self, part: Vec<Pending<()>>, text: &str) {
        tracing::warn!(error = text, commands = part.len(), "the connection broke over a load");
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
        let answer = if unit.unknown > 0 && answer.is_err() { Err(lost()) } else { answer };
        self.outcome.again.extend(unit.answer(answer));
    }
}

fn looking(mut unit: Unit) -> Unit {
    unit.look = true;
    unit
}

fn refused(rejection: Rejection) -> Decision {
    Decision { answer: Err(rejection), write: None }
}

/// What the core decides as of instant zero: offsets, to which the statement adds its clock.
fn guess_absent(key: &Key, claim: &Claim, policy: &Policy, position: i64) -> Option<(Answer, Entry)> {
    let context = Context { policy, now: StoreTime(0), token_offset: 0, position, clock_behind: false };
    // The window was looked at by `guessable`, with a recent reading of the clock.
    let timeless = Claim { occurred_at: None, ..claim.clone() };
    let decision = decide(key, None, &Command::Claim(timeless), &context);
    decision.write.map(|row| (decision.answer, row))
}

fn with_token(mut answer: Answer, granted: i64) -> Answer {
    if let Ok(Reply::Verdict(Verdict::Acquired { token, .. })) = &mut answer {
        *token = granted;
    }
    answer
}

/// A statement that does not answer is given up with its connection; whether it was applied is
/// unknown.
async fn within<T>(statement: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    crash::point("before_send");
    crash::point_soon("after_send");
    let done = timeout(STATEMENT_TIMEOUT, statement).await;
    crash::point("after_commit");
    match done {
        Ok(done) => done,
        Err(_) => Err(StoreError::Unknown(format!("no answer within {STATEMENT_TIMEOUT:?}"))),
    }
}

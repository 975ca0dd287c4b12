//! One round of one batch: two guesses, a load, decisions, writes. Contract, section 12.

use std::sync::Arc;
use std::time::Duration;

use super::locked::row_held;
use super::queue::Chain;
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
pub(super) struct Leftover {
    /// Units that need another round.
    pub(super) again: Vec<Chain>,
    /// The session can not be used any more.
    pub(super) broken: bool,
}

pub(super) struct Round<'a> {
    shared: &'a Shared,
    session: &'a mut dyn Session,
    /// What this batch decides by.
    policies: Arc<Snapshot>,
    leftover: Leftover,
    /// How often a statement has waited in vain for a row.
    lock_waits: u32,
}

/// A chain with a guess, or with a decision, that waits for its statement.
struct Pending<T> {
    chain: Chain,
    answer: Answer,
    row: T,
}

/// An entry as it must stand then, and until when it may be written.
struct Replacement {
    entry: Entry,
    until: StoreTime,
}

impl<'a> Round<'a> {
    pub(super) fn new(shared: &'a Shared, session: &'a mut dyn Session) -> Round<'a> {
        let policies = shared.policies.snapshot();
        let leftover = Leftover { again: Vec::new(), broken: false };
        Round { shared, session, policies, leftover, lock_waits: 0 }
    }

    /// One round. The chains are sorted by key, each key once.
    pub(super) async fn run(mut self, chains: Vec<Chain>) -> Leftover {
        let mut fresh = Vec::new();
        let mut until = StoreTime::MAX;
        let mut completions = Vec::new();
        let mut loads = Vec::new();
        let now = self.shared.clock.now();
        let trusted = self.policies.trusted(now.unwrap_or_default());
        for (chain, position) in chains.into_iter().zip(1..) {
            if self.shared.locked.holds(chain.key.hash()) {
                self.hold_out(chain);
                continue;
            }
            let policy = self.policies.of(chain.key.consumer());
            match &chain.head.command {
                Command::Claim(claim) if !chain.must_load && trusted && guessable(claim, &policy, now) => {
                    let (grant, until_then) = self.first_grant(chain, position);
                    until = until.min(until_then);
                    fresh.extend(grant);
                }
                Command::Settle(token, Settle::Complete { result }) if !chain.must_load => {
                    let row = Completion {
                        key: chain.key.clone(),
                        token: *token,
                        result: result.clone(),
                        retention: policy.retention,
                    };
                    completions.push(Pending { chain, answer: Err(lost()), row });
                }
                Command::Claim(_) | Command::Settle(..) => loads.push(chain),
            }
        }
        loads.extend(self.insert(fresh, until).await.into_iter().map(must_load));
        self.guess_completions(completions, &mut loads).await;
        loads.sort_by_key(|chain| chain.key.hash());
        self.load_and_decide(loads).await;
        self.leftover
    }

    /// First grants, as of instant zero, of keys that have no entry: one insert. Gives back those who
    /// met an entry, or a clock at which nothing may be granted.
    async fn insert(&mut self, grants: Vec<Pending<Entry>>, until: StoreTime) -> Vec<Chain> {
        let (mut work, mut losers) = (vec![grants], Vec::new());
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.set_aside(&mut part) {
                continue;
            }
            let rows: Vec<Entry> = part.iter().map(|pending| pending.row.clone()).collect();
            match within(self.shared, self.session.entries().insert(&rows, until)).await {
                Ok(inserted) => {
                    self.shared.clock.note(&inserted.reading);
                    for (pending, token) in part.into_iter().zip(inserted.tokens) {
                        match token {
                            Some(token) => self.deliver(pending.chain, with_token(pending.answer, token)),
                            None => losers.push(pending.chain),
                        }
                    }
                }
                Err(StoreError::NotApplied(Fault::ClockBehind)) => {
                    losers.extend(part.into_iter().map(|pending| pending.chain));
                }
                Err(error) => self.failed(part, error, &mut work).await,
            }
        }
        losers
    }

    /// Completions that are guessed to find their claim open: one update.
    async fn guess_completions(&mut self, completions: Vec<Pending<Completion>>, loads: &mut Vec<Chain>) {
        let mut work = vec![completions];
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.set_aside(&mut part) {
                continue;
            }
            let rows: Vec<Completion> = part.iter().map(|pending| pending.row.clone()).collect();
            match within(self.shared, self.session.entries().complete(&rows)).await {
                Ok(done) => {
                    for (pending, late) in part.into_iter().zip(done) {
                        match late {
                            Some(late) => {
                                self.deliver(pending.chain, Ok(Reply::Completed { replayed: false, late }));
                            }
                            None => loads.push(must_load(pending.chain)),
                        }
                    }
                }
                Err(error) => self.failed(part, error, &mut work).await,
            }
        }
    }

    /// Everything else, and every guess that was wrong: load, decide, write.
    async fn load_and_decide(&mut self, chains: Vec<Chain>) {
        let asking: Vec<Pending<()>> =
            chains.into_iter().map(|chain| Pending { chain, answer: Err(lost()), row: () }).collect();
        let mut work = vec![asking];
        let (mut grants, mut until, mut replaces) = (Vec::new(), StoreTime::MAX, Vec::new());
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.set_aside(&mut part) {
                continue;
            }
            let keys: Vec<Key> = part.iter().map(|pending| pending.chain.key.clone()).collect();
            match within(self.shared, self.session.entries().load(&keys)).await {
                Ok(loaded) => {
                    self.shared.clock.note(&loaded.reading);
                    if let Err(error) = self.renew_policies(&part, &loaded.reading).await {
                        self.unsent(part, &error.to_string());
                        continue;
                    }
                    for ((pending, found), position) in part.into_iter().zip(loaded.found).zip(1..) {
                        let chain = pending.chain;
                        let Decision { answer, write, grants: granting } =
                            self.decide(&chain, &found, &loaded.reading, position);
                        match (write, &found) {
                            (None, _) => self.deliver(chain, answer),
                            // It was applied, and its lease is over: to arm it once more is for the caller to ask.
                            (Some(_), Found::Entry(entry)) if granted_before(&chain, entry) => {
                                self.deliver(chain, Err(lost()));
                            }
                            (Some(entry), Found::Entry(_)) => {
                                let until =
                                    if granting { self.policies.trusted_until } else { StoreTime::MAX };
                                replaces.push(Pending { chain, answer, row: Replacement { entry, until } });
                            }
                            // A new row takes the clock of its insert, not the one of this look: were
                            // it late, its token could be lower than that of a row that came and went.
                            (Some(_), _) => {
                                let (grant, until_then) = self.first_grant(chain, position);
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
        for chain in self.insert(grants, until).await {
            self.lost_race(chain);
        }
        self.write_changed(replaces).await;
    }

    /// Claims that find the policies too old have them read at once: a hold is then seen, and all else goes on.
    /// Where they cannot be read the claims are refused that would be granted.
    ///
    /// # Errors
    /// The session broke.
    async fn renew_policies(&mut self, part: &[Pending<()>], reading: &Reading) -> Result<(), StoreError> {
        let claims = part.iter().any(|pending| matches!(pending.chain.head.command, Command::Claim(_)));
        if claims && !self.policies.trusted(reading.now) {
            let reread = self.shared.policies.reread(&mut *self.session, reading.now);
            let read = within(self.shared, reread).await?;
            self.policies = read.unwrap_or_else(|| Arc::clone(&self.policies));
        }
        Ok(())
    }

    /// What the core decides, as of instant zero, on a claim that finds no entry; and the last instant at
    /// which it does.
    fn first_grant(&mut self, chain: Chain, position: i64) -> (Option<Pending<Entry>>, StoreTime) {
        let policy = self.policies.of(chain.key.consumer());
        let context =
            Context { policy: &policy, now: StoreTime(0), token_offset: 0, position, clock_behind: false };
        let (command, until) = match &chain.head.command {
            Command::Claim(claim) => {
                // Zero is no instant at which a message's age could be told.
                let timeless = Claim { occurred_at: None, ..claim.clone() };
                (Command::Claim(timeless), inside_until(claim, &policy).min(self.policies.trusted_until))
            }
            settlement @ Command::Settle(..) => (settlement.clone(), StoreTime::MAX),
        };
        let Decision { answer, write, .. } = decide(&chain.key, None, &command, &context);
        let Some(row) = write else {
            self.deliver(chain, answer);
            return (None, until);
        };
        (Some(Pending { chain, answer, row }), until)
    }

    fn decide(&self, chain: &Chain, found: &Found, reading: &Reading, position: i64) -> Decision {
        let entry = match found.entry(&chain.key) {
            Ok(entry) => entry,
            Err(rejection) => return refused(rejection),
        };
        let mut policy = self.policies.of(chain.key.consumer());
        // Settlements are decided by the rules that were read last, however old they are.
        let claims = matches!(chain.head.command, Command::Claim(_));
        if claims && !self.policies.trusted(reading.now) && policy.doubt == Doubt::None {
            policy = Arc::new(Policy { doubt: Doubt::Stale, ..Policy::clone(&policy) });
        }
        let context = Context::at(reading, &policy, position);
        decide(&chain.key, entry, &chain.head.command, &context)
    }

    async fn write_changed(&mut self, replaces: Vec<Pending<Replacement>>) {
        let mut work = vec![replaces];
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.set_aside(&mut part) {
                continue;
            }
            let rows: Vec<Entry> = part.iter().map(|pending| pending.row.entry.clone()).collect();
            let until: Vec<StoreTime> = part.iter().map(|pending| pending.row.until).collect();
            match within(self.shared, self.session.entries().replace_until(&rows, &until)).await {
                Ok(done) => {
                    for (pending, done) in part.into_iter().zip(done) {
                        if done {
                            self.deliver(pending.chain, pending.answer);
                        } else {
                            self.lost_race(pending.chain);
                        }
                    }
                }
                Err(error) => self.failed(part, error, &mut work).await,
            }
        }
    }

    /// The session broke earlier in this round: these chains were not sent, and come again.
    fn set_aside<T>(&mut self, part: &mut Vec<Pending<T>>) -> bool {
        if self.leftover.broken {
            self.leftover.again.extend(part.drain(..).map(|pending| pending.chain));
        }
        self.leftover.broken
    }

    /// A statement failed with all these chains in it.
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
            StoreError::NotApplied(fault @ (Fault::Unavailable(_) | Fault::Schema(_))) => {
                self.refused(part, &fault);
            }
        }
    }

    /// The store refuses a statement, and whatever comes after it on this session.
    fn refused<T>(&mut self, part: Vec<Pending<T>>, fault: &Fault) {
        warn_once_a_second!(%fault, commands = part.len(), "the store refuses a statement");
        self.leftover.broken = true;
        for pending in part {
            self.deliver(pending.chain, Err(store_unavailable()));
        }
    }

    /// Somebody holds one of these rows, or several. Those are left out; the others go on in one statement.
    async fn part_locked<T: Send>(&mut self, mut part: Vec<Pending<T>>, work: &mut Vec<Vec<Pending<T>>>) {
        self.lock_waits += 1;
        let keys: Vec<Key> = part.iter().map(|pending| pending.chain.key.clone()).collect();
        let held = match within(self.shared, self.session.entries().locked(&keys)).await {
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
    fn hold_out(&mut self, chain: Chain) {
        if let Some(chain) = self.shared.locked.take(chain) {
            self.deliver(chain, Err(row_held()));
        }
    }

    /// The session is of no use any more, and nothing of these chains was applied.
    fn unsent<T>(&mut self, part: Vec<Pending<T>>, text: &str) {
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
    fn lost_race(&mut self, mut chain: Chain) {
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

    /// Answers. Where it is unknown whether an earlier try was applied, no answer may say that the
    /// call was certainly not applied.
    fn deliver(&mut self, chain: Chain, answer: Answer) {
        let answer = match answer {
            Err(rejection) if chain.unknown > 0 => Err(lost().alerting(rejection.alert)),
            answer => answer,
        };
        self.leftover.again.extend(chain.answer(answer));
    }
}

/// A claim of unknown outcome finds that it was granted: one call takes effect once.
fn granted_before(chain: &Chain, entry: &Entry) -> bool {
    match &chain.head.command {
        Command::Claim(claim) => chain.unknown > 0 && entry.is_claim_of(&claim.claimant),
        Command::Settle(..) => false,
    }
}

fn must_load(mut chain: Chain) -> Chain {
    chain.must_load = true;
    chain
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

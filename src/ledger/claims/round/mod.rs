//! One round of one batch: two guesses, a load, decisions, writes. See docs/contract.md, section 12.

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
use crate::ledger::claims::request::{Chain, Request};
use crate::ledger::claims::round::rows::{Part, Pending};
use crate::ledger::claims::round::timed::within;
use crate::ledger::policies::in_force::Snapshot;
use crate::ledger::refusals::lost;
use crate::metrics::Statement;
use crate::store::{Completion, Done, Fault, Found, InsertOutcome, Inserted, Loaded, Session, StoreError};
use crate::traces::BatchSpan;

/// What is left of a batch.
pub(in crate::ledger::claims) struct Leftover {
    /// Chains that need another round.
    pub(in crate::ledger::claims) again: Vec<Chain>,
    /// The session cannot be used any more.
    pub(in crate::ledger::claims) broken: bool,
}

/// Whose first grant was not inserted.
#[derive(Default)]
pub(in crate::ledger::claims) struct Losers {
    /// Those who met an entry that the insert gave back.
    pub(in crate::ledger::claims) met: Vec<Chain>,
    /// The entries, and the clock of the insert.
    pub(in crate::ledger::claims) loaded: Option<Loaded>,
    /// All others.
    pub(in crate::ledger::claims) unseen: Vec<Chain>,
    /// So many were inserted.
    pub(in crate::ledger::claims) granted: usize,
}

pub(in crate::ledger::claims) struct Round<'a> {
    pub(in crate::ledger::claims) shared: &'a Shared,
    pub(in crate::ledger::claims) session: &'a mut dyn Session,
    /// How many commands of one key are decided together, at the most.
    pub(in crate::ledger::claims) together_max: usize,
    /// What this batch decides by.
    pub(in crate::ledger::claims) policies: Arc<Snapshot>,
    pub(in crate::ledger::claims) leftover: Leftover,
    /// How often a statement has waited in vain for a row.
    pub(in crate::ledger::claims) lock_waits: u32,
    /// How often a statement took too long.
    pub(in crate::ledger::claims) timeouts: u32,
    /// Empty where no call of the batch is recorded.
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

    /// One round. The chains are sorted by key, each key once.
    pub(in crate::ledger::claims) async fn run(mut self, chains: Vec<Chain>) -> Leftover {
        let calls = chains.iter().flat_map(Chain::requests).map(|request| &request.span);
        self.span = BatchSpan::of(calls, || self.shared.store.database());
        let mut fresh = Part::with_capacity(chains.len());
        let mut until = StoreTime::MAX;
        let mut completions = Part::default();
        let mut loads = Vec::new();
        let now = self.shared.clock.now();
        let trusted = self.policies.trusted(now.unwrap_or_default()) && !self.shared.store.withholds_grants();
        let guess = trusted && self.shared.guess.is_new();
        for (chain, position) in chains.into_iter().zip(1..) {
            // A load does not wait for a locked row. Lookups are answered in this round: in another one they would stand
            // behind other claims of the same key again.
            let is_held = self.shared.locked.holds(chain.key.hash());
            let rest = if is_held { self.hold_out(chain) } else { Some(chain) };
            let Some(chain) = rest else { continue };
            // What is live pays nothing for runs.
            let rest =
                if chain.key.is_of_run() { self.answered_by_its_run(chain).await } else { Some(chain) };
            let Some(chain) = rest else { continue };
            let policy = self.policies.of_key(&chain.key);
            match &chain.head.command {
                Command::Claim(claim) if !chain.must_load && guess && guessable(claim, &policy, now) => {
                    until = until.min(self.first_grant(chain, &policy, position, &mut fresh));
                }
                Command::Settle(token, Settle::Complete { result, left_out }) if !chain.must_load => {
                    let result_dropped = *left_out || !policy.stores_result(result.len());
                    let row = Completion {
                        key: chain.key.clone(),
                        token: *token,
                        result: if result_dropped { bytes::Bytes::new() } else { result.clone() },
                        result_dropped,
                        terms: Terms::of(&policy),
                    };
                    completions.push(Pending::undecided(chain), row);
                }
                Command::Claim(_) | Command::Settle(..) | Command::Lookup => loads.push(chain),
            }
        }
        self.guess_grants(fresh, until, &mut loads).await;
        self.guess_completions(completions, &mut loads).await;
        loads.sort_by_key(|chain| chain.key.hash());
        self.load_and_decide(loads).await;
        self.leftover
    }

    /// Claims that are guessed to find no entry: one insert. Whoever meets an entry is decided on it as the insert
    /// gave it back: what must be written then is written only where the entry is still the same. Whoever meets one
    /// that the insert did not see loads it.
    async fn guess_grants(&mut self, grants: Part<Entry>, until: StoreTime, loads: &mut Vec<Chain>) {
        let mut work = vec![grants];
        while let Some(part) = work.pop() {
            let Losers { met, loaded, unseen, granted } = self.insert(part, until, &mut work).await;
            self.shared.guess.note(met.len() + unseen.len(), met.len() + unseen.len() + granted);
            loads.extend(unseen.into_iter().map(must_load));
            if let Some(loaded) = loaded {
                self.decide_and_write(met, loaded).await;
            }
        }
    }

    /// First grants, as of instant zero, of keys that have no entry. Gives back those who met an entry, or a clock at
    /// which nothing may be granted.
    pub(in crate::ledger::claims) async fn insert(
        &mut self,
        mut part: Part<Entry>,
        until: StoreTime,
        work: &mut Vec<Part<Entry>>,
    ) -> Losers {
        let mut losers = Losers::default();
        if part.is_empty() || self.set_aside(&mut part) {
            return losers;
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
                            losers.granted += 1;
                            self.granted(pending, row, token, &reading);
                        }
                        InsertOutcome::Met(entry) => {
                            losers.met.push(pending.chain);
                            found.push(entry);
                        }
                        InsertOutcome::Unseen => losers.unseen.push(pending.chain),
                    }
                }
                losers.loaded = (!found.is_empty()).then_some(Loaded { reading, found });
            }
            Err(StoreError::NotApplied(Fault::ClockBehind)) => losers.unseen = part.chains().collect(),
            Err(error) => self.failed(part, error, work).await,
        }
        losers
    }

    /// A first grant is durable: its claim is answered, and whoever comes behind it goes on.
    fn granted(&mut self, pending: Pending, row: Entry, token: i64, reading: &Reading) {
        let answer = pending.answer.map(|answer| answer.map(|reply| reply.with_token(token)));
        // Reported before the answer is sent.
        self.shared.changes.changed(&row.key);
        if let Some(rest) = answered(pending.chain, answer) {
            let granted = Entry { token, ..row.stamped(reading.now, reading.token_clock()) };
            self.follow(rest, &granted, reading);
        }
    }

    /// Completions that are guessed to find their claim open: one update. Whoever comes behind one of them loads the
    /// entry first.
    async fn guess_completions(&mut self, completions: Part<Completion>, loads: &mut Vec<Chain>) {
        let mut work = completions.in_parts(|completion| completion.result.len());
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.set_aside(&mut part) {
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
                                loads.extend(answered(pending.chain, Some(Ok(reply))));
                            }
                            None => loads.push(must_load(pending.chain)),
                        }
                    }
                }
                Err(error) => self.failed(part, error, &mut work).await,
            }
        }
    }

    /// Decides for an absent key with the clock at zero, and says until when the grant may be inserted.
    pub(in crate::ledger::claims) fn first_grant(
        &mut self,
        chain: Chain,
        policy: &Policy,
        position: i64,
        grants: &mut Part<Entry>,
    ) -> StoreTime {
        let (Decision { answer, write, .. }, until) =
            decide_absent(&chain.key, &chain.head.command, policy, position);
        let until = until.min(self.policies.trusted_until);
        match write {
            Some(row) => grants.push(Pending { answer: Some(answer), ..Pending::undecided(chain) }, row),
            None => self.deliver(chain, answer),
        }
        until
    }

    /// Answers the head; what is left goes on in another round.
    pub(in crate::ledger::claims) fn deliver(&mut self, chain: Chain, answer: Answer) {
        let rest = answered(chain, Some(answer));
        self.leftover.again.extend(rest);
    }
}

/// Answers the head, gives back what is left, and logs what a person should look into. Where it is unknown whether
/// an earlier try was applied, no answer may say that the call was certainly not applied.
pub(in crate::ledger::claims) fn answered(mut chain: Chain, answer: Option<Answer>) -> Option<Chain> {
    let answer = answer.unwrap_or_else(|| Err(lost()));
    if let Some(refused) = chain.head.refused.take() {
        // Whether the mark was written or not, or that is unknown: the claim is lost in any case.
        let decided = matches!(&answer, Err(rejection) if rejection.reason == refused.reason);
        return chain.answer(if decided { answer } else { Err(refused) });
    }
    let second_try = chain.head.unknown > 0;
    let mut answer = answer.map_err(|rejection| {
        if let Some(alert) = rejection.alert {
            alerted(&chain, alert);
        }
        let Rejection { alert, doubled, .. } = rejection;
        if second_try { Rejection { alert, doubled, ..lost() } } else { rejection }
    });
    match &mut answer {
        // A second try finds the lease that the first one renewed.
        Ok(Reply::Renewed { revived, .. }) => *revived |= chain.head.revived,
        // A repeat by the caller is not another report; a second try by the server stands for the first one.
        Ok(Reply::Completed { replayed, doubled, .. }) => *doubled &= second_try || !*replayed,
        Ok(_) | Err(_) => {}
    }
    chain.answer(answer)
}

/// Answers the requests that are refused already and wait only for the write of their marks; gives back the others.
pub(in crate::ledger::claims) fn without_refused(chain: Chain) -> Option<Chain> {
    let is_refused = |request: &Request| request.refused.is_some();
    if !chain.requests().any(is_refused) {
        return Some(chain);
    }
    let (refused, others) = chain.split(is_refused);
    if let Some(chain) = refused {
        answer_each(chain, |_| Err(lost()));
    }
    others
}

/// A line a second of each reason: a batch may have a thousand of them, and the metric counts each.
fn alerted(chain: &Chain, alert: Alert) {
    static WRITTEN: LogLimitByKind = LogLimitByKind::new();
    if let Some(held_back) = WRITTEN.permit(alert.reason.word(), Instant::now()) {
        let (consumer, key, held_back) = (chain.key.consumer(), chain.key.hash(), held_back.logged());
        tracing::error!(reason = %alert.reason, consumer, %key, held_back, "{}", alert.text);
    }
}

/// Refuses all of a chain.
pub(in crate::ledger::claims) fn refuse(chain: Chain, rejection: &Rejection) {
    answer_each(chain, |_| Err(rejection.clone()));
}

/// Answers all of a chain, each command by itself.
pub(in crate::ledger::claims) fn answer_each(chain: Chain, answer: impl Fn(&Command) -> Answer) {
    let mut rest = Some(chain);
    while let Some(chain) = rest {
        let answer = answer(&chain.head.command);
        rest = answered(chain, Some(answer));
    }
}

fn must_load(mut chain: Chain) -> Chain {
    chain.must_load = true;
    chain
}

//! One round of one batch: two guesses, a load, decisions, writes. See docs/contract.md, section 12.

use std::sync::Arc;
use std::time::Duration;

use super::queue::Chain;
use super::shared::Shared;
use crate::crash;
use crate::domain::{
    Answer, Command, Context, Decision, Doubt, Entry, Key, Policy, Reading, Rejection, Reply, Settle,
    StoreTime, Terms, decide, decide_absent, guessable,
};
use crate::ledger::policies::in_force::Snapshot;
use crate::ledger::refusals::lost;
use crate::ledger::runtime::timeout;
use crate::store::{Completion, Fault, Found, Loaded, Session, StoreError};

/// How long a statement may take before its connection is given up. Longer than the server's own
/// statement timeout, which is certain.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(3);
/// How many bytes of payload one statement writes, unless a single row has more.
const STATEMENT_BYTES_MAX: usize = 4 << 20;

/// What is left of a batch.
pub(super) struct Leftover {
    /// Chains that need another round.
    pub(super) again: Vec<Chain>,
    /// The session cannot be used any more.
    pub(super) broken: bool,
}

pub(super) struct Round<'a> {
    pub(super) shared: &'a Shared,
    pub(super) session: &'a mut dyn Session,
    /// What this batch decides by.
    policies: Arc<Snapshot>,
    pub(super) leftover: Leftover,
    /// How often a statement has waited in vain for a row.
    pub(super) lock_waits: u32,
    /// How often a statement took too long.
    pub(super) timeouts: u32,
}

/// A chain with a guess, or with a decision, that waits for its statement.
pub(super) struct Pending<T> {
    pub(super) chain: Chain,
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
        Round { shared, session, policies, leftover, lock_waits: 0, timeouts: 0 }
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
                        terms: Terms::of(&policy),
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
                            Some(token) => self
                                .deliver(pending.chain, pending.answer.map(|reply| reply.with_token(token))),
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
        let mut work = in_parts(completions, |pending| pending.row.result.len());
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
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.set_aside(&mut part) {
                continue;
            }
            let keys: Vec<Key> = part.iter().map(|pending| pending.chain.key.clone()).collect();
            match within(self.shared, self.session.entries().load(&keys)).await {
                Ok(loaded) => self.decide_and_write(part, loaded).await,
                // A load changes nothing: what is unknown is only its answer.
                Err(StoreError::Unknown(text)) => self.unsent(part, &text),
                Err(error) => self.failed(part, error, &mut work).await,
            }
        }
    }

    /// What was decided is written at once: it counts from the clock of its load.
    async fn decide_and_write(&mut self, part: Vec<Pending<()>>, loaded: Loaded) {
        self.shared.clock.note(&loaded.reading);
        if let Err(error) = self.renew_policies(&part, &loaded.reading).await {
            return self.unsent(part, &error.to_string());
        }
        let (mut grants, mut until, mut replaces) = (Vec::new(), StoreTime::MAX, Vec::new());
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
                    let until = if granting { self.policies.trusted_until } else { StoreTime::MAX };
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

    /// Decides for an absent key with the clock at zero, and says until when the grant may be inserted.
    fn first_grant(&mut self, chain: Chain, position: i64) -> (Option<Pending<Entry>>, StoreTime) {
        let policy = self.policies.of(chain.key.consumer());
        let (Decision { answer, write, .. }, until) =
            decide_absent(&chain.key, &chain.head.command, &policy, position);
        let until = until.min(self.policies.trusted_until);
        let Some(row) = write else {
            self.deliver(chain, answer);
            return (None, until);
        };
        (Some(Pending { chain, answer, row }), until)
    }

    fn decide(&self, chain: &Chain, found: &Found, reading: &Reading, position: i64) -> Decision {
        let entry = match found.entry(chain.key.hash()) {
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
        let mut work = in_parts(replaces, |pending| pending.row.entry.payload_bytes());
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
                // What was decided gets older with each try: it is refused, and not tried in halves.
                Err(StoreError::NotApplied(fault @ Fault::TimedOut(_))) => {
                    self.refused(part, &mut work, &fault);
                }
                Err(error) => self.failed(part, error, &mut work).await,
            }
        }
    }

    /// Answers, and logs what a person should look into. Where it is unknown whether an earlier try was applied,
    /// no answer may say that the call was certainly not applied.
    pub(super) fn deliver(&mut self, chain: Chain, answer: Answer) {
        let answer = answer.map_err(|rejection| {
            if let Some(alert) = rejection.alert {
                let (consumer, key) = (chain.key.consumer(), chain.key.hash());
                tracing::error!(reason = %rejection.reason, consumer, %key, "{alert}");
            }
            if chain.unknown > 0 { lost() } else { rejection }
        });
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

/// Parts that are small enough for one statement, which must end in time. The last part comes first.
fn in_parts<T>(all: Vec<T>, bytes: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let (mut parts, mut part, mut held) = (Vec::new(), Vec::new(), 0);
    for one in all {
        let more = bytes(&one);
        if held + more > STATEMENT_BYTES_MAX && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
            held = 0;
        }
        held += more;
        part.push(one);
    }
    parts.push(part);
    parts.reverse();
    parts
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_has_as_many_rows_as_its_bytes_allow() {
        const HALF: usize = STATEMENT_BYTES_MAX / 2;
        for (rows, parts) in [
            (vec![], vec![vec![]]),
            (vec![0; 3], vec![vec![0; 3]]),
            (vec![HALF, HALF, 1], vec![vec![1], vec![HALF, HALF]]),
            (vec![3 * HALF, 1, HALF, HALF], vec![vec![HALF], vec![1, HALF], vec![3 * HALF]]),
        ] {
            assert_eq!(in_parts(rows.clone(), |bytes| *bytes), parts, "{rows:?}");
        }
    }
}

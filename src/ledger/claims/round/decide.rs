//! Everything that is no guess, and every guess that was wrong: load, decide, write. The commands that wait for one key
//! are decided together, in memory, and written once ([`Fold`]).

use std::sync::Arc;

use crate::domain::{
    Command, Context, Decision, Doubt, Entry, Fold, Folded, Key, Policy, Reading, StoreTime, without_entry,
};
use crate::ledger::claims::request::{Chain, Request};
use crate::ledger::claims::round::rows::{Part, Pending};
use crate::ledger::claims::round::timed::within;
use crate::ledger::claims::round::{Losers, Round, answer_each, answered};
use crate::ledger::refusals::lost;
use crate::metrics::Statement;
use crate::store::{Fault, Found, Loaded, StoreError};

/// What was decided on a chain, in the order of its commands.
struct Decided {
    folded: Vec<Folded>,
    /// The entry as they leave it, and whether a grant is among what they changed.
    write: Option<(Entry, bool)>,
    /// The next command is granted a key that has no entry.
    first_grant: bool,
}

/// By which policy the commands of one chain are decided.
struct Rules {
    settles: Arc<Policy>,
    claims: Arc<Policy>,
}

impl Round<'_> {
    pub(in crate::ledger::claims) async fn load_and_decide(&mut self, chains: Vec<Chain>) {
        let mut all = Part::default();
        for chain in chains {
            let key = chain.key.clone();
            all.push(Pending::undecided(chain), key);
        }
        let mut work: Vec<Part<Key>> = vec![all];
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.set_aside(&mut part) {
                continue;
            }
            let sent = (Statement::Load, part.rows.len());
            let load = self.session.entries().load(&part.rows);
            match within(self.shared, &self.span, sent, load).await {
                Ok(loaded) => {
                    let chains: Vec<Chain> = part.chains().collect();
                    self.note_claims(&chains, &loaded);
                    self.decide_and_write(chains, loaded).await;
                }
                // A load changes nothing: what is unknown is only its answer.
                Err(StoreError::Unknown(text)) => self.unsent(part, &text),
                Err(error) => self.failed(part, error, &mut work).await,
            }
        }
    }

    /// Which of the claims that looked first have met an entry.
    fn note_claims(&self, chains: &[Chain], loaded: &Loaded) {
        let is_claim = |chain: &Chain| !chain.must_load && matches!(chain.head.command, Command::Claim(_));
        let claims = chains.iter().zip(&loaded.found).filter(|(chain, _)| is_claim(chain));
        let found: Vec<bool> = claims.map(|(_, found)| !matches!(found, Found::Absent)).collect();
        self.shared.guess.note(found.iter().filter(|met| **met).count(), found.len());
    }

    /// What was decided is written at once: it counts from the clock of its load.
    pub(in crate::ledger::claims) async fn decide_and_write(&mut self, chains: Vec<Chain>, loaded: Loaded) {
        self.shared.clock.note(&loaded.reading);
        if let Err(error) = self.renew_policies(&chains, &loaded.reading).await {
            let mut part = Part::default();
            for chain in chains {
                part.push(Pending::undecided(chain), ());
            }
            return self.unsent(part, &error.to_string());
        }
        let (mut grants, mut until, mut replaces) = (Part::default(), StoreTime::MAX, Part::default());
        for ((mut chain, found), position) in chains.into_iter().zip(loaded.found).zip(1..) {
            let (over, decided) = match found.entry(chain.key.hash()) {
                Ok(entry) => {
                    let over = entry.map(|entry| entry.version);
                    (over, self.decide(&chain, entry, &loaded.reading, position))
                }
                Err(rejection) => {
                    let (policy, key) = (self.rules(&chain.key, &loaded.reading).claims, chain.key.clone());
                    answer_each(chain, |command| {
                        let before = without_entry(&key, command, &policy, loaded.reading.now);
                        before.unwrap_or_else(|| Err(rejection.clone()))
                    });
                    continue;
                }
            };
            let Decided { folded, write, first_grant } = decided;
            keep_refusals(&mut chain, &folded);
            let Some((chain, answer, later)) = answer_reads(chain, folded) else { continue };
            match (write, answer) {
                (Some((entry, granting)), Some(answer)) => {
                    let run = self.policies.of_key(&chain.key).run;
                    let granting_until = self.policies.trusted_until.min(run.grants_until());
                    let until = if granting { granting_until } else { StoreTime::MAX };
                    let answer = Some(answer.answer);
                    replaces.push(Pending { chain, answer, later, until, over }, entry);
                }
                // A new row takes the clock of its insert, not the one of this look: were
                // it late, its token could be lower than that of a row that came and went.
                (None, None) if first_grant => {
                    let policy = self.policies.of_key(&chain.key);
                    until = until.min(self.first_grant(chain, &policy, position, &mut grants));
                }
                (_, _) => self.leftover.again.push(chain),
            }
        }
        let mut work = vec![grants];
        while let Some(part) = work.pop() {
            let Losers { met, unseen, .. } = self.insert(part, until, &mut work).await;
            met.into_iter().chain(unseen).for_each(|chain| self.lost_race(Pending::undecided(chain)));
        }
        self.write_changed(replaces, loaded.reading.now).await;
    }

    /// Claims that find the policies too old have them read immediately: a hold is then seen, and all else goes on. So do
    /// Lookups: a run is then known.
    /// Where they cannot be read the claims are refused that would be granted.
    ///
    /// # Errors
    /// The session broke.
    async fn renew_policies(&mut self, chains: &[Chain], reading: &Reading) -> Result<(), StoreError> {
        let mut requests = chains.iter().flat_map(Chain::requests);
        let asks = requests.any(|request| matches!(request.command, Command::Claim(_) | Command::Lookup));
        if asks && !self.policies.trusted(reading.now) {
            let reread = self.shared.policies.reread(&mut *self.session, reading.now);
            let read = within(self.shared, &self.span, (Statement::Policies, 1), reread).await?;
            self.policies = read.unwrap_or_else(|| Arc::clone(&self.policies));
        }
        Ok(())
    }

    /// Settlements are decided by the rules that were read last, however old they are.
    fn rules(&self, key: &Key, reading: &Reading) -> Rules {
        let settles = self.policies.of_key(key);
        let mut claims = Arc::clone(&settles);
        let doubt = if self.shared.store.withholds_grants() {
            Doubt::Lost
        } else if self.policies.trusted(reading.now) {
            Doubt::None
        } else {
            Doubt::Stale
        };
        if doubt != Doubt::None && settles.doubt == Doubt::None {
            claims = Arc::new(Policy { doubt, ..Policy::clone(&settles) });
        }
        Rules { settles, claims }
    }

    /// How many commands of a chain are decided together.
    fn together(&self, chain: &Chain) -> usize {
        if chain.together > 0 { chain.together.min(self.together_max) } else { self.together_max }
    }

    /// Decides the commands of a chain one after the other, each on what the ones before it left.
    fn decide(&self, chain: &Chain, entry: Option<&Entry>, reading: &Reading, position: i64) -> Decided {
        let rules = self.rules(&chain.key, reading);
        let mut fold = Fold::new(&chain.key, entry);
        let mut folded = Vec::new();
        for request in chain.requests().take(self.together(chain)) {
            let decision = decide(&fold, request, &rules, reading, position);
            if decision.write.is_some() && may_be_granted_before(request, entry) {
                // Its lease is over, or others came after it: to claim once more is for the caller to ask.
                folded.push(Folded { answer: Err(lost()), wrote: false });
                continue;
            }
            if decision.write.is_some() && fold.entry().is_none() {
                return Decided { folded, write: None, first_grant: true };
            }
            folded.push(fold.keep(decision));
        }
        Decided { folded, write: fold.into_write(), first_grant: false }
    }

    /// Those that come behind a grant which was inserted a moment ago: the row is known, so that no load is needed
    /// for whoever only reads it. The first one that would change the row, and whoever comes after it, loads it.
    pub(in crate::ledger::claims) fn follow(&mut self, chain: Chain, granted: &Entry, reading: &Reading) {
        let rules = self.rules(&chain.key, reading);
        let mut left = self.together(&chain).saturating_sub(1);
        let mut rest = Some(chain);
        while let Some(chain) = rest.take() {
            if left == 0 {
                return self.leftover.again.push(chain);
            }
            left -= 1;
            let fold = Fold::new(&granted.key, Some(granted));
            let decision = decide(&fold, &chain.head, &rules, reading, 1);
            if decision.write.is_some() {
                return self.leftover.again.push(chain);
            }
            rest = answered(chain, Some(decision.answer));
        }
    }

    /// `now`: when they were decided.
    async fn write_changed(&mut self, replaces: Part<Entry>, now: StoreTime) {
        let mut work = replaces.in_parts(Entry::payload_bytes);
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.set_aside(&mut part) {
                continue;
            }
            let until: Vec<StoreTime> = part.pending.iter().map(|pending| pending.until).collect();
            let sent = (Statement::Replace, part.rows.len());
            let replace = self.session.entries().replace_until(&part.rows, &until);
            match within(self.shared, &self.span, sent, replace).await {
                Ok(done) => {
                    for ((pending, entry), done) in part.pending.into_iter().zip(&part.rows).zip(done) {
                        if done {
                            self.shared.changes.written(entry, now);
                            self.answer_all(pending);
                        } else {
                            self.lost_race(pending);
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

    /// The write is durable: everybody whose command was decided is answered.
    fn answer_all(&mut self, pending: Pending) {
        let later = pending.later.into_iter().map(|folded| folded.answer);
        let mut rest = Some(Chain { together: 0, ..pending.chain });
        for answer in std::iter::once(pending.answer).chain(later.map(Some)) {
            let Some(chain) = rest.take() else { return };
            rest = answered(chain, answer);
        }
        self.leftover.again.extend(rest);
    }
}

/// What is refused and leaves a mark is answered so whatever becomes of the write of the mark. Not so where an earlier try
/// of the same command may have been applied.
fn keep_refusals(chain: &mut Chain, folded: &[Folded]) {
    for (request, folded) in chain.requests_mut().zip(folded) {
        if let (true, 0, Err(rejection)) = (folded.wrote, request.unknown, &folded.answer) {
            request.refused = Some(rejection.clone());
        }
    }
}

/// Answers those who come before the first change: they only read what is durable. Gives back the others, with what
/// was decided on the head and on those behind it.
fn answer_reads(mut chain: Chain, folded: Vec<Folded>) -> Option<(Chain, Option<Folded>, Vec<Folded>)> {
    let mut folded = folded.into_iter();
    for one in folded.by_ref() {
        if one.wrote {
            return Some((chain, Some(one), folded.collect()));
        }
        chain = answered(chain, Some(one.answer))?;
    }
    Some((chain, None, Vec::new()))
}

fn decide(fold: &Fold<'_>, request: &Request, rules: &Rules, reading: &Reading, position: i64) -> Decision {
    let policy = match request.command {
        Command::Claim(_) => {
            if let Some(entry) = fold.entry() {
                request.span.link_first(&entry.traceparent);
            }
            &rules.claims
        }
        Command::Settle(..) => &rules.settles,
        Command::Lookup => &rules.claims,
    };
    fold.decide(&request.command, &Context::at(reading, policy, position))
}

/// A claim of unknown outcome finds that it was granted, or that the entry is not the one any more which its grant would
/// have replaced: claims before the last one are forgotten. One call takes effect once.
fn may_be_granted_before(request: &Request, entry: Option<&Entry>) -> bool {
    match &request.command {
        Command::Claim(_) => request.unknown > 0 && entry.map(|entry| entry.version) != request.over,
        Command::Settle(..) | Command::Lookup => false,
    }
}

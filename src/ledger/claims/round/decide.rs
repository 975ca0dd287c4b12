//! Load–decide–write: the path of every command that is not written optimistically, and of every optimistic write that met
//! a conflict. The commands that wait for one key are decided together, in memory, and written once ([`Fold`]).

use std::sync::Arc;

use crate::domain::{
    Command, Context, Decision, Doubt, Entry, Fold, Folded, Key, Policy, Reading, StoreTime, without_entry,
};
use crate::ledger::claims::request::{KeyQueue, Request};
use crate::ledger::claims::round::rows::{PendingRow, StatementRows};
use crate::ledger::claims::round::timed::within;
use crate::ledger::claims::round::{NotInserted, Round, answer_each, answered};
use crate::ledger::refusals::lost;
use crate::metrics::Statement;
use crate::store::{Fault, Found, Loaded, StoreError};

/// The decisions on a per-key queue, in the order of its commands.
struct Decided {
    folded: Vec<Folded>,
    /// The entry after these commands, and whether one of them is a grant, or a parking in place of one.
    write: Option<(Entry, bool)>,
    /// The next command is granted, on a key without an entry.
    first_grant: bool,
}

/// The policies by which the commands of one per-key queue are decided.
struct Rules {
    settles: Arc<Policy>,
    claims: Arc<Policy>,
}

impl Round<'_> {
    pub(in crate::ledger::claims) async fn load_and_decide(&mut self, key_queues: Vec<KeyQueue>) {
        let mut all = StatementRows::default();
        for key_queue in key_queues {
            let key = key_queue.key.clone();
            all.push(PendingRow::undecided(key_queue), key);
        }
        let mut work: Vec<StatementRows<Key>> = vec![all];
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.defer_if_broken(&mut part) {
                continue;
            }
            let sent = (Statement::Load, part.rows.len());
            let load = self.session.entries().load(&part.rows);
            match within(self.shared, &self.span, sent, load).await {
                Ok(loaded) => {
                    let key_queues: Vec<KeyQueue> = part.key_queues().collect();
                    self.note_claims(&key_queues, &loaded);
                    self.decide_and_write(key_queues, loaded).await;
                }
                // A load changes nothing: only its answer is unknown.
                Err(StoreError::Unknown(text)) => self.retry_unsent(part, &text),
                Err(error) => self.failed(part, error, &mut work).await,
            }
        }
    }

    /// Records how many of the claims that loaded first found an entry.
    fn note_claims(&self, key_queues: &[KeyQueue], loaded: &Loaded) {
        let is_claim = |key_queue: &KeyQueue| {
            !key_queue.must_load && matches!(key_queue.head.command, Command::Claim(_))
        };
        let claims = key_queues.iter().zip(&loaded.found).filter(|(key_queue, _)| is_claim(key_queue));
        let found: Vec<bool> = claims.map(|(_, found)| !matches!(found, Found::Absent)).collect();
        self.shared.duplicate_rate.record(found.iter().filter(|met| **met).count(), found.len());
    }

    /// Decides, and writes immediately: a decision counts from the store's clock of its load.
    pub(in crate::ledger::claims) async fn decide_and_write(
        &mut self,
        key_queues: Vec<KeyQueue>,
        loaded: Loaded,
    ) {
        self.shared.clock.note(&loaded.reading);
        if let Err(error) = self.renew_policies(&key_queues, &loaded.reading).await {
            let mut part = StatementRows::default();
            for key_queue in key_queues {
                part.push(PendingRow::undecided(key_queue), ());
            }
            return self.retry_unsent(part, &error.to_string());
        }
        let (mut grants, mut until, mut replaces) =
            (StatementRows::default(), StoreTime::MAX, StatementRows::default());
        for ((mut key_queue, found), position) in key_queues.into_iter().zip(loaded.found).zip(1..) {
            let (replaced_version, decided) = match found.entry(key_queue.key.hash()) {
                Ok(entry) => {
                    let replaced_version = entry.map(|entry| entry.version);
                    (replaced_version, self.decide(&key_queue, entry, &loaded.reading, position))
                }
                Err(rejection) => {
                    let (policy, key) =
                        (self.rules(&key_queue.key, &loaded.reading).claims, key_queue.key.clone());
                    answer_each(key_queue, |command| {
                        let before = without_entry(&key, command, &policy, loaded.reading.now);
                        before.unwrap_or_else(|| Err(rejection.clone()))
                    });
                    continue;
                }
            };
            let Decided { folded, write, first_grant } = decided;
            keep_refusals(&mut key_queue, &folded);
            let Some((key_queue, answer, later)) = answer_reads(key_queue, folded) else { continue };
            match (write, answer) {
                (Some((entry, granting)), Some(answer)) => {
                    let run = self.policies.of_key(&key_queue.key).run;
                    let granting_until = self.policies.trusted_until.min(run.grants_until());
                    let until = if granting { granting_until } else { StoreTime::MAX };
                    let answer = Some(answer.answer);
                    replaces.push(PendingRow { key_queue, answer, later, until, replaced_version }, entry);
                }
                // A new row takes the clock of its insert, not that of this load: with an earlier clock its token could be
                // lower than that of a row that was inserted and deleted in between.
                (None, None) if first_grant => {
                    let policy = self.policies.of_key(&key_queue.key);
                    until = until.min(self.first_grant(key_queue, &policy, position, &mut grants));
                }
                (_, _) => self.leftover.again.push(key_queue),
            }
        }
        let mut work = vec![grants];
        while let Some(part) = work.pop() {
            let NotInserted { conflicts, unknown_conflicts, .. } = self.insert(part, until, &mut work).await;
            conflicts
                .into_iter()
                .chain(unknown_conflicts)
                .for_each(|key_queue| self.lost_race(PendingRow::undecided(key_queue)));
        }
        self.write_changed(replaces, loaded.reading.now).await;
    }

    /// Reads the policies now where claims or Lookups find them too old: claims then see a hold, and Lookups see a replay
    /// run. Where the policies cannot be read, claims that would be granted are refused.
    ///
    /// # Errors
    /// The session broke.
    async fn renew_policies(&mut self, key_queues: &[KeyQueue], reading: &Reading) -> Result<(), StoreError> {
        let mut requests = key_queues.iter().flat_map(KeyQueue::requests);
        let asks = requests.any(|request| matches!(request.command, Command::Claim(_) | Command::Lookup));
        if asks && !self.policies.trusted(reading.now) {
            let reread = self.shared.policies.reread(&mut *self.session, reading.now);
            let read = within(self.shared, &self.span, (Statement::Policies, 1), reread).await?;
            self.policies = read.unwrap_or_else(|| Arc::clone(&self.policies));
        }
        Ok(())
    }

    /// Settlements are decided by the policies that were read last, however old they are.
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

    /// Maximum number of commands of a per-key queue that are decided together.
    fn together(&self, key_queue: &KeyQueue) -> usize {
        if key_queue.together > 0 { key_queue.together.min(self.together_max) } else { self.together_max }
    }

    /// Decides the commands of a per-key queue in order, each on the entry as the previous ones left it.
    fn decide(
        &self,
        key_queue: &KeyQueue,
        entry: Option<&Entry>,
        reading: &Reading,
        position: i64,
    ) -> Decided {
        let rules = self.rules(&key_queue.key, reading);
        let mut fold = Fold::new(&key_queue.key, entry);
        let mut folded = Vec::new();
        for request in key_queue.requests().take(self.together(key_queue)) {
            let decision = decide(&fold, request, &rules, reading, position);
            if decision.write.is_some() && may_be_granted_before(request, entry) {
                // Its lease is over, or other claims followed: only the caller can claim again.
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

    /// Answers the commands behind a grant that was inserted a moment ago: its row is known, so commands that only read it
    /// need no load. The first command that would change the row, and all commands behind it, go to the next round.
    pub(in crate::ledger::claims) fn follow(
        &mut self,
        key_queue: KeyQueue,
        granted: &Entry,
        reading: &Reading,
    ) {
        let rules = self.rules(&key_queue.key, reading);
        let mut left = self.together(&key_queue).saturating_sub(1);
        let mut rest = Some(key_queue);
        while let Some(key_queue) = rest.take() {
            if left == 0 {
                return self.leftover.again.push(key_queue);
            }
            left -= 1;
            let fold = Fold::new(&granted.key, Some(granted));
            let decision = decide(&fold, &key_queue.head, &rules, reading, 1);
            if decision.write.is_some() {
                return self.leftover.again.push(key_queue);
            }
            rest = answered(key_queue, Some(decision.answer));
        }
    }

    /// Writes the changed entries. `now`: the clock at which they were decided.
    async fn write_changed(&mut self, replaces: StatementRows<Entry>, now: StoreTime) {
        let mut work = replaces.split_by_size(Entry::payload_bytes);
        while let Some(mut part) = work.pop() {
            if part.is_empty() || self.defer_if_broken(&mut part) {
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
                // A decision gets older with each try: it is refused, and not retried in halves.
                Err(StoreError::NotApplied(fault @ Fault::TimedOut(_))) => {
                    self.refused(part, &mut work, &fault);
                }
                Err(error) => self.failed(part, error, &mut work).await,
            }
        }
    }

    /// Answers each command that was decided: the write is durable.
    fn answer_all(&mut self, pending: PendingRow) {
        let later = pending.later.into_iter().map(|folded| folded.answer);
        let mut rest = Some(KeyQueue { together: 0, ..pending.key_queue });
        for answer in std::iter::once(pending.answer).chain(later.map(Some)) {
            let Some(key_queue) = rest.take() else { return };
            rest = answered(key_queue, answer);
        }
        self.leftover.again.extend(rest);
    }
}

/// A refusal that leaves a mark on the entry stands, whether or not the mark is written; except where an earlier try of the
/// same command may have been applied.
fn keep_refusals(key_queue: &mut KeyQueue, folded: &[Folded]) {
    for (request, folded) in key_queue.requests_mut().zip(folded) {
        if let (true, 0, Err(rejection)) = (folded.wrote, request.unknown, &folded.answer) {
            request.refused = Some(rejection.clone());
        }
    }
}

/// Answers the commands before the first one that writes: they only read what is durable. Returns the unanswered commands, with
/// the decision on the first of them and the decisions on the others.
fn answer_reads(
    mut key_queue: KeyQueue,
    folded: Vec<Folded>,
) -> Option<(KeyQueue, Option<Folded>, Vec<Folded>)> {
    let mut folded = folded.into_iter();
    for one in folded.by_ref() {
        if one.wrote {
            return Some((key_queue, Some(one), folded.collect()));
        }
        key_queue = answered(key_queue, Some(one.answer))?;
    }
    Some((key_queue, None, Vec::new()))
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

/// Whether an earlier try of this claim may have been granted: its outcome is unknown, and the entry is no longer the version
/// that the grant would have replaced. An entry does not remember claims before its last one, and one call takes effect once.
fn may_be_granted_before(request: &Request, entry: Option<&Entry>) -> bool {
    match &request.command {
        Command::Claim(_) => {
            request.unknown > 0 && entry.map(|entry| entry.version) != request.replaced_version
        }
        Command::Settle(..) | Command::Lookup => false,
    }
}

//! Looks of `ClaimNext`, as in `ledger::inbox` and the stores: one transaction that begins with the handout of its claim, takes
//! and locks the row if it is due, decides, writes by version, and reads the message. And workers: a plain claim, and settlements.
//! Each of these is one step: races of that kind are the first model's.

use std::sync::Arc;

use idempotency_ledger::domain::{
    Claim, Command, Entry, FailureKind, Reason, Reply, Settle, Span, Verdict, decide, decide_absent, hand_out,
};

use super::events::Event;
use super::one_inbox::{ONE, OneInbox, due, due_entry, next_claim, reading, shortened};
use super::promises::Promise;
use super::rules::Reading as When;
use super::world::{Decided, Look, Op, PLAIN, Worker, World};

impl OneInbox {
    pub(super) fn take(&self, world: &mut World, number: usize) -> Option<()> {
        let claim = self.scenario.looks[number];
        if world.handouts[claim] && self.rules.looks_back {
            return self.look_back(world, number);
        }
        let row = due(world)?;
        // A row that is locked is skipped, and so is one without its message.
        if !self.is_free(world) || world.message.is_none() {
            return None;
        }
        let chosen = hand_out(&[due_entry(&row)], &next_claim(claim), ONE, &self.policy, &reading(world.now));
        let (next, token) = match (chosen.grants.into_iter().next(), chosen.parked.into_iter().next()) {
            (Some(grant), _) => (grant.write, token_of(&grant.verdict)),
            (None, Some(parked)) => (Some(parked), None),
            (None, None) => return None,
        };
        let peeked = if let Look::Peeked(peeked) = world.looks[number] { peeked } else { None };
        let next = next.map(|next| Arc::new(shortened(next)));
        let (base, kept) = (row.version, world.memory.kept);
        world.looks[number] = Look::Decided(Decided { again: false, base, next, token, kept, peeked });
        Some(())
    }

    /// A repeat: it is answered what the claim still holds of its handout. It locks nothing.
    fn look_back(&self, world: &mut World, number: usize) -> Option<()> {
        let claim = next_claim(self.scenario.looks[number]);
        let row = world.row.clone().filter(|_| world.message.is_some());
        let entries: Vec<_> = row.iter().map(|row| due_entry(row)).collect();
        let held = (self.rules.again)(&entries, &claim, &self.policy, &reading(world.now)).into_iter().next();
        let Some((row, grant)) = row.clone().zip(held) else {
            self.note(Event::RepeatClosed);
            world.looks[number] = Look::Done;
            return Some(());
        };
        world.memory.must(Promise::AnnouncedIsNotRepeated, !row.effect_started);
        world.looks[number] = Look::Decided(Decided {
            again: true,
            base: row.version,
            next: grant.write.map(|next| Arc::new(shortened(next))),
            token: token_of(&grant.verdict),
            kept: world.memory.kept,
            peeked: None,
        });
        Some(())
    }

    /// `answered`: the worker gets the answer.
    pub(super) fn commit(&self, world: &mut World, number: usize, answered: bool) -> Option<()> {
        let Look::Decided(decided) = std::mem::take(&mut world.looks[number]) else { return None };
        let claim = self.scenario.looks[number];
        if let Some(next) = &decided.next {
            let compares = self.rules.commit_compares || decided.again;
            let row = world.row.clone().filter(|row| row.version == decided.base || !compares);
            let Some(row) = row else {
                self.note(Event::CommitLost);
                return Some(());
            };
            self.note_commit(&decided, &row);
            world.memory.wrote(Some(&row), next);
            if decided.token.is_some() {
                world.memory.granted(claim, next, world.now);
            }
            world.row = Some(Arc::clone(next));
        }
        world.looks[number] = Look::Done;
        let Some(token) = decided.token else { return Some(()) };
        world.handouts[claim] = true;
        world.memory.answered(claim, token);
        // The life whose message the worker must get.
        let kept = if decided.again { decided.kept } else { world.memory.kept };
        let body = match self.rules.reading {
            When::After => {
                world.looks[number] = Look::Unread { token, kept };
                return Some(());
            }
            When::Before if !decided.again => decided.peeked,
            When::Before | When::InTheTransaction => {
                let last = decided.next.as_ref().map_or(decided.base, |next| next.version);
                let is_of_it = |generation: i64| generation <= last || !self.rules.repeat_compares;
                world.message.filter(|message| is_of_it(message.generation)).map(|message| message.payload)
            }
        };
        if decided.again {
            self.note(if body.is_some() { Event::Repeated } else { Event::RepeatEmpty });
        }
        world.memory.read((decided.again, kept), body);
        self.answer(world, claim, token, answered && body.is_some());
        Some(())
    }

    pub(super) fn read_late(&self, world: &mut World, number: usize) -> Option<()> {
        let Look::Unread { token, kept } = std::mem::take(&mut world.looks[number]) else { return None };
        world.looks[number] = Look::Done;
        world.memory.read((false, kept), world.message.map(|message| message.payload));
        self.answer(world, self.scenario.looks[number], token, true);
        Some(())
    }

    fn answer(&self, world: &mut World, claim: usize, token: i64, answered: bool) {
        if answered && world.workers[claim] == Worker::Waits {
            world.workers[claim] = Worker::Holds(token);
        }
    }

    fn note_commit(&self, decided: &Decided, before: &Entry) {
        self.note(match decided.token {
            None => Event::Parked,
            Some(_) if decided.again => Event::Rearmed,
            Some(_) => Event::HandedOut,
        });
        if before.claimant.is_some() && !decided.again && decided.token.is_some() {
            self.note(Event::Reclaimed);
        }
    }

    /// The plain claim, where it is granted the key.
    pub(super) fn claim(&self, world: &mut World) -> Option<()> {
        let command = Command::Claim(Claim { handed_out: false, ..next_claim(PLAIN) });
        let decision = match &world.row {
            Some(row) => decide(&self.key, Some(row), &command, &self.context(world.now)),
            None => decide_absent(&self.key, &command, &self.policy, 1).0,
        };
        let next = match &world.row {
            Some(_) => decision.write?,
            None => decision.write?.stamped(world.now, world.now.0),
        };
        if world.row.as_deref().is_some_and(super::rules::keeps) {
            self.note(Event::ClaimedStored);
        }
        let granted = matches!(decision.answer, Ok(Reply::Verdict(Verdict::Acquired { .. })));
        let next = self.replace(world, next);
        world.workers[PLAIN] = Worker::Gone;
        if granted {
            world.memory.granted(PLAIN, &next, world.now);
            world.workers[PLAIN] = Worker::Holds(next.token);
        }
        Some(())
    }

    pub(super) fn settle(&self, world: &mut World, number: usize, op: Op) -> Option<()> {
        let Worker::Holds(token) = world.workers[number] else { return None };
        let fail = |kind| Settle::Fail { kind, error: String::new(), retry_after: Some(Span::ZERO) };
        let settle = match op {
            Op::Announce => Settle::Renew {
                lease: None,
                effect_started: true,
                checkpoint: None,
                checkpoint_dropped: false,
            },
            Op::Release => Settle::Release { delay: Span::ZERO, unpin: false },
            Op::Complete => Settle::Complete { result: Default::default(), left_out: false },
            Op::Retry => fail(FailureKind::Retryable),
            Op::GiveUp => fail(FailureKind::Terminal),
        };
        let command = Command::Settle(token, settle);
        let decision = decide(&self.key, world.row.as_deref(), &command, &self.context(world.now));
        if decision.answer.is_err_and(|rejection| rejection.reason == Reason::LeaseLost) {
            self.note(Event::LeaseLost);
        }
        let mut next = decision.write?;
        if op == Op::Complete && !self.rules.complete_decides {
            next.erase_at = None;
        }
        let next = self.replace(world, next);
        if op == Op::Announce {
            return Some(());
        }
        world.memory.settled(&next);
        world.workers[number] = Worker::Gone;
        Some(())
    }

    fn replace(&self, world: &mut World, next: Entry) -> Arc<Entry> {
        let next = Arc::new(shortened(next));
        world.memory.wrote(world.row.as_deref(), &next);
        world.row = Some(Arc::clone(&next));
        next
    }
}

fn token_of(verdict: &Verdict) -> Option<i64> {
    if let Verdict::Acquired { token, .. } = verdict { Some(*token) } else { None }
}

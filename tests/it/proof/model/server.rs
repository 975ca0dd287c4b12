//! What the servers and the store do, as in `ledger::batch`: a guess in one statement, or a look, a
//! decision, and a write where the row is still the one that was loaded.

use std::sync::Arc;

use idempotency_ledger::domain::{
    Attempt, Claim, Claimant, ClosedBy, Command, Context, Decision, Entry, Settle, Span, State, StoreTime,
    is_over,
};
use uuid::Uuid;

use super::events::Event;
use super::one_key::OneKey;
use super::world::{Action, Call, Decided, Op, Said, World};

impl OneKey {
    pub(super) fn server_actions(&self, world: &World, number: usize, actions: &mut Vec<Action>) {
        for (place, call) in world.deliveries[number].calls.iter().enumerate() {
            if let Some(decided) = &call.decided {
                actions.push(Action::Write(number, place));
                let unsure = world.spent.unknowns < self.bounds.unknowns && !call.unknown;
                if unsure && self.unchanged(world, decided) {
                    actions.push(Action::WriteUnknown(number, place));
                }
            } else if call.behind.is_none() {
                actions.push(Action::Load(number, place));
                if self.guess_holds(world, call) {
                    actions.push(Action::Guess(number, place));
                }
                self.waiting_actions(world, call, (number, place), actions);
            }
        }
    }

    /// Only a right guess is a step: a wrong one changes nothing. It gives back what a look finds at that moment, or a
    /// look follows.
    fn guess_holds(&self, world: &World, call: &Call) -> bool {
        let row = world.row.as_deref();
        !call.unknown
            && !call.rests
            && match call.op {
                Op::Claim => row.is_none(),
                Op::Complete => {
                    row.is_some_and(|row| row.token == call.token && row.state == State::InProgress)
                }
                Op::Renew | Op::Start | Op::Fail(_) | Op::Release => false,
            }
    }

    pub(super) fn guess(&self, world: &mut World, number: usize, place: usize) {
        let call = &world.deliveries[number].calls[place];
        let command = self.command(number, call);
        let looked = self.decide(world.row.as_deref(), &command, world.now);
        let (next, said) = if let Some(row) = &world.row {
            (Arc::new(trimmed(self.completed(row, world.now))), Said::Settled)
        } else {
            let decision = self.decide(None, &command, StoreTime(0));
            self.stamped(&decision.write.expect("a claim of an absent entry is granted"), world.now)
        };
        world.memory.guessed(looked.write.map(trimmed).as_ref() == Some(&*next));
        self.commit(world, number, place, next, said);
        self.answer(world, number, place, said);
    }

    /// The statement behind Complete's guess.
    fn completed(&self, row: &Entry, now: StoreTime) -> Entry {
        if row.lease_over(now) {
            self.note(Event::LateComplete);
        }
        Entry {
            version: row.version + 1,
            state: State::Completed,
            closed_by: ClosedBy::Complete,
            doubled: row.doubled || row.superseded_completes > 0,
            closed_at: Some(now),
            updated_at: now,
            retain_until: Some(now + row.retention.max(self.policy.retention)),
            effect_unknown: false,
            ..row.clone()
        }
    }

    pub(super) fn load(&self, world: &mut World, number: usize, place: usize) {
        let call = &world.deliveries[number].calls[place];
        let row = world.row.clone();
        let decision = self.decide(row.as_deref(), &self.command(number, call), world.now);
        self.note_decision(call, row.as_deref(), &decision);
        world.memory.decided(number, call, row.as_deref(), &decision);
        let said = Said::of(&decision.answer);
        match decision.write {
            None => self.answer(world, number, place, said),
            Some(next) => {
                let base = row.as_deref().map(|row| row.version);
                world.deliveries[number].calls[place].decided =
                    Some(Decided { base, next: Arc::new(trimmed(next)), said, second: None });
            }
        }
    }

    pub(super) fn write(&self, world: &mut World, number: usize, place: usize, known: bool) {
        let call = &mut world.deliveries[number].calls[place];
        let Some(mut decided) = call.decided.take() else { return };
        if !self.unchanged(world, &decided) {
            self.note(Event::LostRace);
            self.fold_lost(world, decided);
            return;
        }
        if decided.base.is_none() && self.rules.stamps {
            (decided.next, decided.said) = self.stamped(&decided.next, world.now);
        }
        if let Some(second) = decided.second {
            return self.write_both(world, (number, place), (decided.next, decided.said), &second, known);
        }
        self.commit(world, number, place, decided.next, decided.said);
        self.written(world, number, place, decided.said, known);
    }

    /// The server learns that a call's write is done, or does not.
    pub(super) fn written(&self, world: &mut World, number: usize, place: usize, said: Said, known: bool) {
        if known {
            self.answer(world, number, place, said);
        } else {
            world.spent.unknowns += 1;
            world.deliveries[number].calls[place].unknown = true;
        }
    }

    /// Whether the row is still the one that was loaded.
    fn unchanged(&self, world: &World, decided: &Decided) -> bool {
        let row = world.row.as_deref().map(|row| row.version);
        self.rules.write.same(row, decided.base)
    }

    pub(super) fn commit(
        &self,
        world: &mut World,
        number: usize,
        place: usize,
        next: Arc<Entry>,
        said: Said,
    ) {
        let call = &world.deliveries[number].calls[place];
        let before = world.row.take();
        if next.doubled {
            self.note(Event::Doubled);
        }
        if let (Said::Refused(_), Some(before)) = (said, before.as_deref()) {
            self.note(Event::Marked);
            world.memory.marked(call, before, &next);
        } else {
            self.note_commit(&world.memory, before.as_deref(), &next);
            world.memory.committed(number, call, (before.as_deref(), &next), said, world.now);
        }
        if let Said::Acquired(token) = said {
            self.wakes(&mut world.deliveries[number], token);
        }
        world.row = Some(next);
    }

    /// The server is done with a call, and tells whoever still waits.
    pub(super) fn answer(&self, world: &mut World, number: usize, place: usize, said: Said) {
        let mut call = world.deliveries[number].calls.remove(place);
        if let Said::Refused(_) = said
            && call.unknown
        {
            self.note(Event::UnknownOutcome);
            call.unknown = self.rules.says_unknown;
            world.memory.refused(!self.rules.says_unknown);
        }
        if call.awaited {
            self.receive(world, number, &call, said);
        }
    }

    /// A new row, to whose instants and token the insert adds the store's clock: however late it comes,
    /// no token of an earlier row of the key is higher.
    fn stamped(&self, row: &Entry, now: StoreTime) -> (Arc<Entry>, Said) {
        let passed = now - row.updated_at;
        let mut row = trimmed(row.clone().stamped(StoreTime(passed.0), passed.0));
        if !self.rules.fresh_versions {
            row.version = 1;
        }
        let said = Said::Acquired(row.token);
        (Arc::new(row), said)
    }

    pub(super) fn decide(&self, row: Option<&Entry>, command: &Command, now: StoreTime) -> Decision {
        let policy = &self.policy;
        let context = Context {
            policy,
            now,
            token_offset: 0,
            position: 1,
            clock_behind: false,
            clock_before_release: false,
            clock_ahead: false,
        };
        (self.rules.decide)(&self.key, row, command, &context)
    }

    pub(super) fn command(&self, number: usize, call: &Call) -> Command {
        let renew = |effect_started| Settle::Renew {
            lease: None,
            effect_started,
            checkpoint: None,
            checkpoint_dropped: false,
        };
        let settle = match call.op {
            Op::Claim => return Command::Claim(claim(number)),
            Op::Renew => renew(false),
            Op::Start => renew(true),
            Op::Complete => Settle::Complete { result: Default::default(), left_out: false },
            Op::Fail(kind) => Settle::Fail { kind, error: String::new(), retry_after: None },
            Op::Release => Settle::Release { delay: Span::ZERO, unpin: false },
        };
        Command::Settle(call.token, settle)
    }

    /// The row may be forgotten.
    pub(super) fn due(&self, world: &World) -> bool {
        let token_clock = world.now.0;
        let due = |row: &Entry| is_over(row, &self.policy, world.now, token_clock);
        world.row.as_deref().is_some_and(due)
    }

    /// The purge deletes what is still as it was judged, with a token that the clock has passed.
    pub(super) fn purge(&self, world: &mut World, place: usize) {
        let judged = world.purges.remove(place);
        let Some(row) = &world.row else { return };
        if row.token.max(row.version) < world.now.0 && self.rules.purge.same(Some(row.version), Some(judged))
        {
            let due = self.due(world);
            world.memory.purged(&row.clone(), due);
            world.row = None;
            self.note(Event::Purged);
        }
    }
}

/// The first two deliveries are in the hands of one process.
pub(super) fn claim(number: usize) -> Claim {
    let owner = if number < 2 { "here" } else { "there" };
    let claim_id = Uuid::from_u128(number as u128 + 1);
    Claim {
        claimant: Claimant { claim_id, principal: String::new(), owner: owner.into() },
        lease: None,
        fingerprint: Default::default(),
        occurred_at: None,
        traceparent: String::new(),
        handed_out: false,
    }
}

/// A row without what no decision looks at: rows that differ only in that are the same state. Of a past attempt a
/// superseded Complete looks at the token, at the mark, and at whether it ended by COMPLETE.
pub(super) fn trimmed(mut row: Entry) -> Entry {
    for past in &mut row.history {
        let outcome = if past.outcome == ClosedBy::Complete { ClosedBy::Complete } else { ClosedBy::Expiry };
        *past = Attempt {
            attempt: 0,
            started_at: StoreTime(0),
            ended_at: StoreTime(0),
            owner: String::new(),
            outcome,
            error: String::new(),
            token: past.token,
            reported_done: past.reported_done,
        };
    }
    row.parked_at = None;
    for instant in [&mut row.created_at, &mut row.granted_at] {
        *instant = StoreTime(0);
    }
    row
}

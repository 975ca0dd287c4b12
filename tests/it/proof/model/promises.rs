//! What the ledger promises, checked at each step: docs/contract.md, section 9.

use idempotency_ledger::domain::{Attempt, ClosedBy, Decision, Entry, State, StoreTime};

use super::world::{Call, DELIVERIES, Op, Said};

/// A promise that a step can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Promise {
    TokensGrow,
    TokenOfOneClaim,
    NoGrantWhenDone,
    FinalStatesStay,
    CompletedIsCommitted,
    OnlyTheLatestTokenSettles,
    OneHolder,
    Fence,
    EffectOnce,
    AnnouncedEffectOnce,
    RefusedChangesNothing,
    RepeatsAreReplayed,
    DoubtIsKept,
    GuessesAreDecisions,
    Retained,
    OneStep,
    MarksAlone,
    DoublesAreSeen,
}

/// What the checks remember of the past, and no more: each fact multiplies the states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Memory {
    /// The highest token of the key, ever.
    high: i64,
    /// How many grants there were.
    grants: u8,
    /// The last grant to each delivery: token and number.
    granted: [(i64, u8); DELIVERIES],
    /// Until when nobody else may be granted the key: lease and grace.
    reserved: [StoreTime; DELIVERIES],
    /// Completed, and neither redriven nor purged since.
    done: bool,
    /// The settlement that closed the last claim, while its repeats must be answered OK.
    settled: Option<(Op, i64)>,
    /// How often the effect ran; two stands for more.
    effects: u8,
    /// What the fenced provider has seen: the highest token, and the latest grant.
    fence: (i64, u8),
    /// A lease ran out while it was held.
    expired: bool,
    /// A second effect is excused: by an operator, by the purge of what is settled, or by a holder that
    /// contradicted itself.
    excused: bool,
    /// Those that were broken, a bit each.
    broken: u32,
    /// The tokens whose Completes have reported the message done.
    reported: [i64; DELIVERIES],
}

impl Memory {
    pub(super) fn keeps(&self, promise: Promise) -> bool {
        self.broken & (1 << promise as u32) == 0
    }

    /// How many grants there were.
    pub(super) fn grants(&self) -> u8 {
        self.grants
    }

    /// The number of the last grant to a delivery.
    pub(super) fn grant_of(&self, delivery: usize) -> u8 {
        self.granted[delivery].1
    }

    fn must(&mut self, promise: Promise, kept: bool) {
        self.broken |= u32::from(!kept) << promise as u32;
    }

    /// A server decided on what it loaded.
    pub(super) fn decided(&mut self, delivery: usize, call: &Call, row: Option<&Entry>, decision: &Decision) {
        let refused = decision.answer.is_err();
        let is_mark = |next: &Entry| {
            let counts = |row: &Entry| next.superseded_completes == row.superseded_completes + 1;
            call.op == Op::Complete && row.is_some_and(|row| counts(row) && *row == without_marks(next, row))
        };
        let changes = decision.write.as_ref().is_some_and(|next| !is_mark(next));
        self.must(Promise::RefusedChangesNothing, !refused || !changes);
        if self.settled == Some((call.op, call.token)) {
            self.must(Promise::RepeatsAreReplayed, !refused && decision.write.is_none());
        }
        if decision.write.is_none() {
            self.answered(delivery, call, row, Said::of(&decision.answer));
        }
    }

    /// A call is answered: it was decided without a write, or is written.
    fn answered(&mut self, delivery: usize, call: &Call, row: Option<&Entry>, said: Said) {
        match said {
            Said::Acquired(token) => {
                let own = self.granted[delivery].0 == token;
                self.must(Promise::TokenOfOneClaim, own);
                let held = row.is_some_and(|row| row.state == State::InProgress && row.token == token);
                self.must(Promise::NoGrantWhenDone, held && !self.done);
            }
            Said::Completed => self.must(Promise::CompletedIsCommitted, self.done),
            Said::Settled => {
                let latest = row.is_some_and(|row| row.token == call.token) && call.token == self.high;
                self.must(Promise::OnlyTheLatestTokenSettles, latest);
            }
            Said::NotNow | Said::Refused(_) => {}
        }
    }

    /// A write replaces the row that was read.
    pub(super) fn replaces(&mut self, read: i64, next: i64) {
        self.must(Promise::OneStep, next == read + 1);
    }

    /// A call that was decided behind another one is answered; it changed nothing.
    pub(super) fn followed(&mut self, delivery: usize, call: &Call, row: &Entry, said: Said) {
        self.answered(delivery, call, Some(row), said);
    }

    /// The mark of a superseded Complete was committed.
    pub(super) fn marked(&mut self, call: &Call, before: &Entry, after: &Entry) {
        let marks = |row: &Entry| row.history.iter().filter(|past| past.reported_done).count();
        let is_own = |past: &&Attempt| past.token == Some(call.token) && past.reported_done;
        let own = after.history.iter().find(is_own).is_some_and(|past| past.outcome != ClosedBy::Complete);
        let once = marks(after) == marks(before) + 1
            && after.superseded_completes == before.superseded_completes + 1
            && after.version == before.version + 1;
        let alone = *before == without_marks(after, before);
        self.must(Promise::MarksAlone, call.op == Op::Complete && own && once && alone);
        self.reports(call.token, after);
    }

    /// A Complete with this token was applied, or has left its mark.
    fn reports(&mut self, token: i64, after: &Entry) {
        if !self.reported.contains(&token)
            && let Some(free) = self.reported.iter_mut().find(|known| **known == 0)
        {
            *free = token;
        }
        let doubled = self.reported.iter().filter(|known| **known != 0).count() > 1;
        self.must(Promise::DoublesAreSeen, self.excused || after.doubled == doubled);
    }

    /// A call's write was committed.
    pub(super) fn committed(
        &mut self,
        delivery: usize,
        call: &Call,
        (before, after): (Option<&Entry>, &Entry),
        said: Said,
        now: StoreTime,
    ) {
        let granted = before.is_none_or(|before| before.token != after.token);
        if granted || call.op == Op::Claim && matches!(after.state, State::Parked(_)) {
            let free = (0..DELIVERIES).all(|other| other == delivery || self.reserved[other] <= now);
            self.must(Promise::OneHolder, free);
        }
        if granted {
            self.grant(delivery, before, after);
        }
        if let Some(before) = before {
            self.changed(call, before, after);
        }
        if after.state == State::InProgress {
            self.reserved[delivery] = after.lease_until + after.grace;
        } else {
            self.reserved = Default::default();
        }
        let closed = before.is_some_and(|before| before.closed_by != after.closed_by);
        if closed && matches!(call.op, Op::Complete | Op::Fail(_) | Op::Release) {
            self.settled = Some((call.op, call.token));
        }
        self.done |= after.state == State::Completed;
        if call.op == Op::Complete {
            self.reports(call.token, after);
        }
        // A write can come so late that its lease is over already.
        self.clock(Some(after), now);
        self.answered(delivery, call, Some(after), said);
    }

    fn grant(&mut self, delivery: usize, before: Option<&Entry>, after: &Entry) {
        self.must(Promise::TokensGrow, after.token > self.high);
        let open = before.is_some_and(|before| before.closed_by == ClosedBy::Open);
        self.must(Promise::DoubtIsKept, !open || after.effect_unknown);
        self.high = after.token;
        self.grants += 1;
        self.granted[delivery] = (after.token, self.grants);
        self.settled = None;
    }

    fn changed(&mut self, call: &Call, before: &Entry, after: &Entry) {
        let same = before.token == after.token;
        self.must(Promise::TokenOfOneClaim, !same || before.claimant == after.claimant);
        let completes = call.op == Op::Complete && call.token == before.token;
        let stays = before.state == after.state;
        match before.state {
            State::Completed | State::FailedTerminal => self.must(Promise::FinalStatesStay, stays),
            State::Parked(_) => self.must(Promise::FinalStatesStay, stays || completes),
            State::Received | State::InProgress | State::FailedRetryable => {}
        }
        if after.state == State::Completed {
            self.must(Promise::OnlyTheLatestTokenSettles, stays || completes);
        } else {
            self.must(Promise::DoubtIsKept, !before.effect_unknown || after.effect_unknown);
        }
    }

    /// A guess was right: it must do what a look would have done.
    pub(super) fn guessed(&mut self, same: bool) {
        self.must(Promise::GuessesAreDecisions, same);
    }

    /// A call that was applied must not be refused as if it had not been.
    pub(super) fn refused(&mut self, applied: bool) {
        self.must(Promise::RefusedChangesNothing, !applied);
    }

    pub(super) fn clock(&mut self, row: Option<&Entry>, now: StoreTime) {
        self.expired |= row.is_some_and(|row| row.state == State::InProgress && row.lease_over(now));
        for until in self.reserved.iter_mut().filter(|until| **until <= now) {
            *until = StoreTime::default();
        }
    }

    /// A holder went on after it had asked to be rid of its claim.
    pub(super) fn contradicted(&mut self) {
        self.excused = true;
    }

    /// The purge deletes the row. Only what was settled for good may be forgotten with an effect.
    pub(super) fn purged(&mut self, row: &Entry, due: bool) {
        self.must(Promise::Retained, due);
        self.excused |= matches!(row.state, State::Completed | State::FailedTerminal);
        self.anew();
    }

    /// An operator has the row waiting.
    pub(super) fn parked(&mut self) {
        self.settled = None;
    }

    /// An operator deletes the row.
    pub(super) fn deleted(&mut self) {
        self.excused = true;
        self.anew();
    }

    /// An operator has the message processed again.
    pub(super) fn redriven(&mut self, after: &Entry) {
        self.must(Promise::TokensGrow, after.token > self.high);
        self.high = after.token;
        self.excused = true;
        self.anew();
    }

    /// What was granted and settled counts no more.
    fn anew(&mut self) {
        self.reserved = Default::default();
        self.done = false;
        self.settled = None;
        self.reported = Default::default();
    }

    /// A holder runs the effect at a provider that refuses all but the highest token it has seen.
    /// Says whether it was accepted.
    pub(super) fn effect(&mut self, (token, number): (i64, u8), announced: bool) -> bool {
        let (high, latest) = self.fence;
        let accepted = token >= high;
        self.must(Promise::Fence, accepted == (number >= latest));
        if accepted {
            self.fence = (token, number);
        }
        self.effects = (self.effects + 1).min(2);
        let once = self.effects == 1 || self.excused;
        self.must(Promise::EffectOnce, once || self.expired);
        self.must(Promise::AnnouncedEffectOnce, once || !announced);
        accepted
    }
}

/// A row with the marks, and the version, of another one.
fn without_marks(row: &Entry, other: &Entry) -> Entry {
    let history = row
        .history
        .iter()
        .zip(&other.history)
        .map(|(past, other)| Attempt { reported_done: other.reported_done, ..past.clone() });
    Entry {
        version: other.version,
        superseded_completes: other.superseded_completes,
        doubled: other.doubled,
        history: history.collect(),
        ..row.clone()
    }
}

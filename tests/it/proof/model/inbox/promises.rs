//! What the inbox promises: docs/contract.md, sections 9 and 15. Some of it is seen in a state, and the rest at a step.

use idempotency_ledger::domain::{Body, Entry, State, StoreTime, hand_out};

use super::super::super::{by_core, spec};
use super::one_inbox::{ONE, OneInbox, due_entry, next_claim, reading};
use super::rules::keeps;
use super::scenarios::LEAP;
use super::world::{CLAIMS, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Promise {
    KeptUntilTheEnd,
    EntryHasItsMessage,
    OpenIsNeverOver,
    HandedOutInTheEnd,
    NothingIsLeftOver,
    DueByTheContract,
    AcknowledgedOnProof,
    OneLiveClaim,
    MessageOfThisLife,
    RepeatsAreReplayed,
    AnnouncedIsNotRepeated,
    StoresAreWritten,
    StoreChangesNothingElse,
    TokensGrow,
    FinalStatesStay,
}

/// What the checks remember of the past, and no more: each fact multiplies the states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Memory {
    /// The highest token of the key, ever.
    high: i64,
    /// The message that this life of the key keeps, as Store and operators have it. `None` if it keeps none.
    pub(super) kept: Option<u8>,
    /// COMPLETED or FAILED_TERMINAL, and neither changed by an operator nor purged since.
    ended: Option<State>,
    /// Until when no other claim may be granted the key: lease and grace.
    reserved: [StoreTime; CLAIMS],
    /// The token that each claim was handed out; 0 if none was.
    handed: [i64; CLAIMS],
    /// Those that were broken at a step, a bit each.
    broken: u32,
}

impl Memory {
    pub(super) fn must(&mut self, promise: Promise, kept: bool) {
        self.broken |= u32::from(!kept) << promise as u32;
    }

    /// The ledger owes the message to its consumer.
    fn owes(&self) -> bool {
        self.kept.is_some() && self.ended.is_none()
    }

    /// A row is written, by a call of a client.
    pub(super) fn wrote(&mut self, before: Option<&Entry>, after: &Entry) {
        let same = before.is_some_and(|before| before.token == after.token);
        self.must(Promise::TokensGrow, if same { after.token == self.high } else { after.token > self.high });
        self.high = self.high.max(after.token);
        self.must(Promise::FinalStatesStay, self.ended.is_none_or(|ended| ended == after.state));
        self.ends(after);
    }

    fn ends(&mut self, after: &Entry) {
        if matches!(after.state, State::Completed | State::FailedTerminal) {
            self.ended = Some(after.state);
        }
    }

    /// A worker has settled its claim.
    pub(super) fn settled(&mut self, after: &Entry) {
        if after.state != State::InProgress {
            self.reserved = Default::default();
        }
    }

    /// A Store has written the message with the entry.
    pub(super) fn stored(&mut self, payload: u8) {
        self.kept = Some(payload);
    }

    /// A Store has attached the message to an entry.
    pub(super) fn attached(&mut self, before: &Entry, after: &Entry) {
        let same = Entry {
            version: after.version,
            body: after.body,
            erase_at: after.erase_at,
            retain_until: after.retain_until,
            updated_at: after.updated_at,
            fingerprint: after.fingerprint.clone(),
            unpinned: after.unpinned,
            ..before.clone()
        };
        self.must(Promise::StoreChangesNothingElse, same == *after);
    }

    /// A claim is granted the row, or re-armed.
    pub(super) fn granted(&mut self, claim: usize, after: &Entry, now: StoreTime) {
        let free = (0..CLAIMS).all(|other| other == claim || self.reserved[other] <= now);
        self.must(Promise::OneLiveClaim, free);
        self.reserved[claim] = after.lease_until + after.grace;
        self.clock(now);
    }

    /// A look has read a message for its answer.
    pub(super) fn read(&mut self, (again, kept): (bool, Option<u8>), body: Option<u8>) {
        // A repeat whose message has ended meanwhile is answered without it.
        self.must(Promise::MessageOfThisLife, body == kept || again && body.is_none());
    }

    /// A claim is answered that it holds the row.
    pub(super) fn answered(&mut self, claim: usize, token: i64) {
        self.must(Promise::RepeatsAreReplayed, [0, token].contains(&self.handed[claim]));
        self.handed[claim] = token;
    }

    /// An operator has changed the row. `None` if it is deleted.
    pub(super) fn changed(&mut self, after: Option<&Entry>, drops: bool) {
        self.ended = None;
        self.reserved = Default::default();
        if drops {
            self.kept = None;
        }
        if let Some(after) = after {
            self.must(Promise::TokensGrow, after.token >= self.high);
            self.high = self.high.max(after.token);
            self.ends(after);
        }
    }

    /// The erasure has marked the row. What is still owed stays owed.
    pub(super) fn erased(&mut self) {
        if !self.owes() {
            self.kept = None;
        }
    }

    /// The purge has deleted the row. What is still owed stays owed.
    pub(super) fn purged(&mut self) {
        if !self.owes() {
            (self.kept, self.ended) = (None, None);
        }
        self.reserved = Default::default();
    }

    pub(super) fn clock(&mut self, now: StoreTime) {
        for until in self.reserved.iter_mut().filter(|until| **until <= now) {
            *until = StoreTime::default();
        }
    }
}

impl OneInbox {
    pub(super) fn keeps(&self, promise: Promise, world: &World) -> bool {
        let (memory, row) = (&world.memory, world.row.as_deref());
        match promise {
            Promise::KeptUntilTheEnd => !memory.owes() || row.is_some_and(keeps),
            Promise::EntryHasItsMessage => row.is_none_or(|row| !keeps(row) || has_its_message(row, world)),
            Promise::OpenIsNeverOver => {
                let over = |row: &Entry| (self.rules.is_over)(row, &self.policy, world.now + LEAP);
                !(memory.owes() && row.is_some_and(over))
            }
            Promise::HandedOutInTheEnd => {
                row.is_none_or(|row| !memory.owes() || self.is_handed_out(row, world.now + LEAP))
            }
            Promise::NothingIsLeftOver => !self.leaves_a_message(world, world.now + LEAP),
            Promise::DueByTheContract => {
                row.is_none_or(|row| row.next_at().map(|at| at.0) == spec::next_at(&by_core::row(row)))
            }
            Promise::AcknowledgedOnProof
            | Promise::OneLiveClaim
            | Promise::MessageOfThisLife
            | Promise::RepeatsAreReplayed
            | Promise::AnnouncedIsNotRepeated
            | Promise::StoresAreWritten
            | Promise::StoreChangesNothingElse
            | Promise::TokensGrow
            | Promise::FinalStatesStay => memory.broken & (1 << promise as u32) == 0,
        }
    }

    /// Whether a later look would hand out the row, or park it for good.
    fn is_handed_out(&self, row: &Entry, later: StoreTime) -> bool {
        let looked = hand_out(&[due_entry(row)], &next_claim(CLAIMS), ONE, &self.policy, &reading(later));
        let due = row.next_at().is_some_and(|at| at <= later);
        matches!(row.state, State::Parked(_)) || due && looked.grants.len() + looked.parked.len() == 1
    }

    /// Whether a message that no entry needs would still be there after the erasure and the collector have run.
    fn leaves_a_message(&self, world: &World, later: StoreTime) -> bool {
        let Some(row) = world.row.as_deref() else {
            return world.message.is_some() && !(self.rules.keeps_none)(None);
        };
        let erased = row.erase_at.is_some_and(|at| at <= later).then(|| marked(row));
        let row = erased.as_ref().unwrap_or(row);
        let is_needed = keeps(row) && world.memory.ended.is_none();
        world.message.is_some() && !is_needed && !(self.rules.keeps_none)(Some(row))
    }
}

/// Whether a Store of this message may be acknowledged: the message is done, or is kept, and no other one in its place.
pub(super) fn may_acknowledge(world: &World, payload: u8) -> bool {
    world.row.as_deref().is_some_and(|row| match row.state {
        State::Completed => true,
        State::FailedTerminal => false,
        State::Received | State::InProgress | State::FailedRetryable | State::Parked(_) => {
            keeps(row) && has_its_message(row, world) && world.memory.kept == Some(payload)
        }
    })
}

/// The row as the erasure marks it.
pub(super) fn marked(row: &Entry) -> Entry {
    Entry { body: Some(Body::Erased), erase_at: None, version: row.version + 1, ..row.clone() }
}

/// The message is the one of this life of the key.
fn has_its_message(row: &Entry, world: &World) -> bool {
    world.message.is_some_and(|message| {
        Some(message.payload) == world.memory.kept && message.generation <= row.version
    })
}

//! What servers, the store and the work in the background follow. The seeded bugs replace a part of it.

use idempotency_ledger::domain::{
    Body, Claim, ClosedBy, Context, DueEntry, Entry, Grant, Key, Policy, Reading as Clock, State, Store,
    StoreDecision, StoreTime, hand_out_again, is_over, retain_until_by_terms, store,
};

/// Each field is a rule that a seeded bug breaks.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) store: fn(&Key, Option<&Entry>, &Store, &Context<'_>) -> StoreDecision,
    pub(super) is_over: fn(&Entry, &Policy, StoreTime) -> bool,
    pub(super) again: fn(&[DueEntry<'_>], &Claim, &Policy, &Clock) -> Vec<Grant>,
    /// A message is written over one of an earlier life of the key (`ON CONFLICT`).
    pub(super) replaces_messages: bool,
    /// An entry is written together with its message.
    pub(super) together: bool,
    /// A new row has the clock of its insert.
    pub(super) stamps: bool,
    /// A message is attached where the row has the version that was loaded.
    pub(super) attach_compares: bool,
    /// A look locks the row that it takes.
    pub(super) locks: bool,
    /// A look writes where the row has the version that was taken.
    pub(super) commit_compares: bool,
    /// When a look reads the message.
    pub(super) reading: Reading,
    /// A look begins with the handout of its claim.
    pub(super) looks_back: bool,
    /// A repeat, which locks nothing, reads a message of the life that it was decided on alone.
    pub(super) repeat_compares: bool,
    /// A Complete decides when the message is erased.
    pub(super) complete_decides: bool,
    pub(super) dropping: Dropping,
    /// The erasure deletes a message that is older than the version that it has marked.
    pub(super) erasure_compares: bool,
    /// The collector deletes the generation that it has found.
    pub(super) collector_compares: bool,
    /// Which entries keep no message, for the collector.
    pub(super) keeps_none: fn(Option<&Entry>) -> bool,
}

/// When a look reads the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// In the transaction that writes the row.
    InTheTransaction,
    /// Before it takes the row.
    Before,
    /// After it has committed.
    After,
}

/// What a Redrive that drops the fingerprint does to the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dropping {
    /// The entry does not keep it any more; the collector deletes it.
    Flag,
    /// Nothing.
    Nothing,
    /// It is deleted, and the entry still keeps it.
    Message,
}

pub(super) const RULES: Rules = Rules {
    store,
    is_over: over,
    again: hand_out_again,
    replaces_messages: true,
    together: true,
    stamps: true,
    attach_compares: true,
    locks: true,
    commit_compares: true,
    reading: Reading::InTheTransaction,
    looks_back: true,
    repeat_compares: true,
    complete_decides: true,
    dropping: Dropping::Flag,
    erasure_compares: true,
    collector_compares: true,
    keeps_none,
};

pub(super) fn keeps(row: &Entry) -> bool {
    row.body == Some(Body::Kept)
}

fn keeps_none(row: Option<&Entry>) -> bool {
    !row.is_some_and(keeps)
}

fn over(row: &Entry, policy: &Policy, now: StoreTime) -> bool {
    is_over(row, policy, now, now.0)
}

/// Seeded: the purge does not look at the message.
pub(super) fn over_without_its_message(row: &Entry, policy: &Policy, now: StoreTime) -> bool {
    let mut plain = Entry { body: None, ..row.clone() };
    plain.retain_until = retain_until_by_terms(&plain);
    over(&plain, policy, now)
}

/// Seeded: the collector looks at entries that are gone.
pub(super) fn gone(row: Option<&Entry>) -> bool {
    row.is_none()
}

fn misread(
    key: &Key,
    row: Option<&Entry>,
    message: &Store,
    context: &Context<'_>,
    change: fn(&mut Entry),
) -> StoreDecision {
    let mut row = row.cloned();
    if let Some(row) = &mut row {
        change(row);
    }
    store(key, row.as_ref(), message, context)
}

/// Seeded: what was given up is answered as if it were done.
pub(super) fn given_up_is_done(
    key: &Key,
    row: Option<&Entry>,
    message: &Store,
    context: &Context<'_>,
) -> StoreDecision {
    misread(key, row, message, context, |row| {
        if row.state == State::FailedTerminal {
            row.state = State::Completed;
        }
    })
}

/// Seeded: an entry without a message is answered as if it kept one.
pub(super) fn known_is_kept(
    key: &Key,
    row: Option<&Entry>,
    message: &Store,
    context: &Context<'_>,
) -> StoreDecision {
    misread(key, row, message, context, |row| row.body = Some(Body::Kept))
}

/// Seeded: a message that comes again makes its entry due.
pub(super) fn attach_reopens(
    key: &Key,
    row: Option<&Entry>,
    message: &Store,
    context: &Context<'_>,
) -> StoreDecision {
    misread(key, row, message, context, |row| {
        if row.state == State::InProgress && row.body.is_none() {
            (row.state, row.closed_by) = (State::Received, ClosedBy::Store);
        }
    })
}

/// Seeded: a message that is attached leaves the entry without a fingerprint.
pub(super) fn attach_pins_nothing(
    key: &Key,
    row: Option<&Entry>,
    message: &Store,
    context: &Context<'_>,
) -> StoreDecision {
    let mut decision = store(key, row, message, context);
    if let (Some(row), Some(next)) = (row, &mut decision.write) {
        next.fingerprint = row.fingerprint.clone();
    }
    decision
}

/// Seeded: a repeat does not look at what was announced.
pub(super) fn again_announced(
    due: &[DueEntry<'_>],
    claim: &Claim,
    policy: &Policy,
    clock: &Clock,
) -> Vec<Grant> {
    let quiet = |due: &DueEntry<'_>| Entry { effect_started: false, ..due.entry.clone() };
    let quiet: Vec<Entry> = due.iter().map(quiet).collect();
    let quiet: Vec<DueEntry<'_>> = quiet.iter().map(|entry| DueEntry { entry, bytes: 1 }).collect();
    hand_out_again(&quiet, claim, policy, clock)
}

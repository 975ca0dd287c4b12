//! Imports: messages that were processed before the ledger was there, or whose entries the ledger lost.

use bytes::Bytes;

use super::clock_fault::ClockFault;
use super::context::Context;
use super::entry::{ClosedBy, Entry, ParkCause, State};
use super::reason::{Reason, Rejection};
use super::{FingerprintMode, Key, StoreTime};

/// A message that was processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// When it was processed; `None` if that is now.
    pub completed_at: Option<StoreTime>,
    /// What later deliveries are answered.
    pub result: Bytes,
    /// The digest of its payload; empty if absent.
    pub fingerprint: Bytes,
}

/// What an import makes of one message.
#[derive(Clone, Debug, PartialEq)]
pub enum Imported {
    /// A new entry, decided as of instant zero except for the instants of its completion.
    Stored(Box<ImportedEntry>),
    /// It is COMPLETED already, and stays as it is.
    AlreadyCompleted,
    /// Its retention is over already: it would be purged immediately.
    RetentionOver,
}

/// An entry that is stored without a claim: as COMPLETED, or as PARKED where its effect may have happened.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedEntry {
    entry: Entry,
    closed_at: StoreTime,
    /// `None` if the entry is kept until a person acts.
    retain_until: Option<StoreTime>,
}

impl ImportedEntry {
    /// An entry of an effect that may have happened: it waits for a person.
    pub(super) fn in_doubt(key: &Key, fingerprint: &Bytes, context: &Context<'_>) -> ImportedEntry {
        let mut entry = blank(key, fingerprint, context);
        entry.state = State::Parked(ParkCause::EffectUnknown);
        entry.parked_at = Some(entry.created_at);
        entry.effect_unknown = true;
        ImportedEntry { entry, closed_at: context.now, retain_until: None }
    }

    /// As the store first inserts it: as of instant zero.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The entry as it must be stored, by the clock of its insert.
    #[must_use]
    pub fn stamped(self, now: StoreTime, token_clock: i64) -> Entry {
        let mut entry = self.entry.stamped(now, token_clock);
        entry.closed_at = Some(self.closed_at);
        entry.retain_until = self.retain_until;
        entry
    }
}

/// Decides an import: existing entries are never changed. The entry takes the clock of its insert; `now` is a
/// reading before it.
///
/// # Errors
/// `STATE_NOT_ALLOWED`, `STORE_CLOCK_BEHIND`.
pub fn import(
    key: &Key,
    entry: Option<&Entry>,
    import: &Import,
    context: &Context<'_>,
) -> Result<Imported, Rejection> {
    match entry {
        None => {}
        Some(entry) if entry.state == State::Completed => return Ok(Imported::AlreadyCompleted),
        Some(entry) => {
            return Err(Rejection::in_state(
                Reason::StateNotAllowed,
                entry.state,
                "there is an entry that is not COMPLETED, and an import changes none; resolve it, if its effect \
                 happened",
            ));
        }
    }
    if let Some(fault) = ClockFault::of_context(context) {
        return Err(fault.refusal());
    }
    let completed_at = import.completed_at.unwrap_or(context.now).min(context.now);
    let retain_until = completed_at + context.policy.retention;
    if retain_until <= context.now {
        return Ok(Imported::RetentionOver);
    }
    let mut entry = blank(key, &import.fingerprint, context);
    entry.state = State::Completed;
    entry.result = import.result.clone();
    let retain_until = Some(retain_until);
    Ok(Imported::Stored(Box::new(ImportedEntry { entry, closed_at: completed_at, retain_until })))
}

/// A new entry as of instant zero, closed by an operator.
fn blank(key: &Key, fingerprint: &Bytes, context: &Context<'_>) -> Entry {
    let zero = context.timeless();
    let mut entry = Entry::blank(key, context.policy, zero.now);
    entry.token = zero.next_token(0);
    entry.version = zero.first_version();
    entry.closed_by = ClosedBy::Operator;
    if context.policy.fingerprint != FingerprintMode::Ignore {
        entry.fingerprint = fingerprint.clone();
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClockLimits, Policy, Reading, Span};

    /// An entry is made only by a sound clock: its retention would end at a wrong instant. An existing entry is answered by any clock.
    #[test]
    fn import_by_a_faulty_clock_is_refused() {
        let (key, policy) = (Key::new("c", "s", "1"), Policy::default());
        let reading = Reading { now: StoreTime(1), token_offset: 0, mark: 0, limits: ClockLimits::NONE };
        let sound = Context::at(&reading, &policy, 1);
        let done = Entry { state: State::Completed, ..Entry::blank(&key, &policy, StoreTime(1)) };
        let new = Import { completed_at: None, result: Bytes::new(), fingerprint: Bytes::new() };
        for (context, reason) in [
            (sound, None),
            (Context { clock_behind: true, ..sound }, Some(Reason::StoreClockBehind)),
            (Context { clock_before_release: true, ..sound }, Some(Reason::StoreClockBehind)),
            (Context { clock_ahead: true, ..sound }, Some(Reason::StoreClockAhead)),
        ] {
            let imported = import(&key, None, &new, &context);
            assert_eq!(imported.err().map(|refused| refused.reason), reason, "{context:?}");
            assert_eq!(import(&key, Some(&done), &new, &context), Ok(Imported::AlreadyCompleted));
        }
    }

    #[test]
    fn import_of_a_key_with_an_entry_changes_nothing() {
        let (policy, now) = (Policy::default(), StoreTime(1_780_000_000_000_000));
        let reading = Reading { now, token_offset: 0, mark: 0, limits: ClockLimits::NONE };
        let context = Context::at(&reading, &policy, 1);
        let key = Key::new("payments", "shop", "order-1");
        let of = |completed_at| Import { completed_at, result: Bytes::new(), fingerprint: Bytes::new() };
        let entry = |state| Entry { state, ..Entry::blank(&key, &policy, now) };
        for state in
            [State::Received, State::InProgress, State::FailedTerminal, State::Parked(ParkCause::Operator)]
        {
            let refused = import(&key, Some(&entry(state)), &of(None), &context).unwrap_err();
            assert_eq!((refused.reason, refused.state), (Reason::StateNotAllowed, Some(state)));
        }
        let completed = import(&key, Some(&entry(State::Completed)), &of(None), &context);
        assert_eq!(completed, Ok(Imported::AlreadyCompleted));
        // Without an entry: until its retention is over.
        for (at, stored) in
            [(now, true), (now - policy.retention + Span(1), true), (now - policy.retention, false)]
        {
            let found = import(&key, None, &of(Some(at)), &context).unwrap();
            assert_eq!(matches!(found, Imported::Stored(_)), stored, "{at:?}");
        }
    }
}

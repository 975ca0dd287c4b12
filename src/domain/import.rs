//! Imports: messages that were processed before the ledger was there, or whose entries the ledger lost.

use bytes::Bytes;

use super::clock_fault::ClockFault;
use super::context::Context;
use super::entry::{ClosedBy, Entry, State};
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

/// An entry that is stored as COMPLETED without a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedEntry {
    entry: Entry,
    completed_at: StoreTime,
    retain_until: StoreTime,
}

impl ImportedEntry {
    /// As the store first inserts it: as of instant zero.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The entry as it must be stored, by the clock of its insert.
    #[must_use]
    pub fn stamped(self, now: StoreTime, token_clock: i64) -> Entry {
        let mut entry = self.entry.stamped(now, token_clock);
        entry.closed_at = Some(self.completed_at);
        entry.retain_until = Some(self.retain_until);
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
    let zero = Context { now: StoreTime(0), token_offset: 0, ..*context };
    let mut next = Entry::blank(key, context.policy, zero.now);
    next.token = zero.next_token(0);
    next.version = zero.first_version();
    next.state = State::Completed;
    next.closed_by = ClosedBy::Operator;
    next.result = import.result.clone();
    if context.policy.fingerprint != FingerprintMode::Ignore {
        next.fingerprint = import.fingerprint.clone();
    }
    Ok(Imported::Stored(Box::new(ImportedEntry { entry: next, completed_at, retain_until })))
}

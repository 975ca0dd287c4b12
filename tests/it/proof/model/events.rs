//! What happens in the model: a search that never comes across it proves nothing of it.

use std::sync::atomic::Ordering;

use idempotency_ledger::domain::{Decision, Entry, ParkCause, Reason, Reply, State, Verdict};

use super::one_key::OneKey;
use super::promises::Memory;
use super::world::{Call, Op};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Reclaim,
    LateComplete,
    ReplayedClaim,
    ReplayedSettlement,
    Rearmed,
    Revived,
    LeaseLost,
    Backoff,
    Parked,
    Exhausted,
    LostRace,
    UnknownOutcome,
    Fenced,
    Redriven,
    ParkedByHand,
    Deleted,
    Purged,
    GrantAfterPurge,
    Folded,
    FoldLost,
    FoldUnknown,
    Marked,
    Doubled,
    /// A Claim that waited is granted the key.
    Waited,
    /// It is answered that the message is completed.
    WaitedForCompletion,
}

impl OneKey {
    pub(super) fn note(&self, event: Event) {
        self.seen.fetch_or(1 << event as u32, Ordering::Relaxed);
    }

    pub(super) fn saw(&self, event: Event) -> bool {
        self.seen.load(Ordering::Relaxed) & (1 << event as u32) != 0
    }

    pub(super) fn note_decision(&self, call: &Call, row: Option<&Entry>, decision: &Decision) {
        let written = decision.write.is_some();
        if call.rests {
            match &decision.answer {
                Ok(Reply::Verdict(Verdict::Acquired { .. })) => self.note(Event::Waited),
                Ok(Reply::Verdict(Verdict::Completed { .. })) => self.note(Event::WaitedForCompletion),
                Ok(_) | Err(_) => {}
            }
        }
        match &decision.answer {
            Ok(Reply::Verdict(Verdict::Acquired { replayed: true, .. })) => {
                self.note(if written { Event::Rearmed } else { Event::ReplayedClaim });
            }
            Ok(Reply::Verdict(Verdict::Backoff { .. })) => self.note(Event::Backoff),
            Ok(Reply::Renewed { revived: true, .. }) => self.note(Event::Revived),
            Ok(Reply::Completed { late: true, .. }) => self.note(Event::LateComplete),
            Ok(_) if row.is_some() && !written && call.op != Op::Claim => {
                self.note(Event::ReplayedSettlement)
            }
            Err(rejection) if rejection.reason == Reason::LeaseLost => self.note(Event::LeaseLost),
            Ok(_) | Err(_) => {}
        }
    }

    pub(super) fn note_commit(&self, memory: &Memory, before: Option<&Entry>, after: &Entry) {
        match before {
            Some(before) if before.token != after.token && before.state == State::InProgress => {
                self.note(Event::Reclaim);
            }
            None if memory.grants() > 0 => self.note(Event::GrantAfterPurge),
            _ => {}
        }
        if let State::Parked(cause) = after.state {
            self.note(if cause == ParkCause::AttemptsExhausted { Event::Exhausted } else { Event::Parked });
        }
    }
}

//! Reconciling: effects that happened while the ledger could not be reached, by the table of docs/contract.md,
//! section 6.

use bytes::Bytes;
use uuid::Uuid;

use super::claim::mismatch;
use super::clock_fault::ClockFault;
use super::context::Context;
use super::entry::{ClosedBy, Entry, ParkCause, State};
use super::import::{Import, Imported, ImportedEntry, import};
use super::operate::{at_work, changed, completed};
use super::preconditions::refusal;
use super::reason::{Reason, Rejection, Violation};
use super::{Key, Span, StoreTime};

/// What a row proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// A row of a guard table: it was committed together with the effect, and the table has one row for a key.
    Guard,
    /// The beginning and the end of an effect, from a spool.
    Spool,
    /// The beginning of an effect without its end, from a spool: the effect may have happened.
    Unfinished,
}

/// An effect that happened, or may have happened, without a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectRow {
    /// When it happened; of an unfinished one, when it began. A row is identified by its key and this instant.
    pub at: StoreTime,
    /// What the row proves.
    pub evidence: Evidence,
    /// What later deliveries are answered.
    pub result: Bytes,
    /// The digest of its payload; empty if absent.
    pub fingerprint: Bytes,
}

/// Whether the audit has an event of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audited {
    /// It has no such event.
    New,
    /// It has the event of the same row.
    Same,
    /// It has the event of a row with this key and instant whose other fields differ.
    Other,
}

/// The outcome of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReconcileOutcome {
    /// There was no entry: it is stored as `COMPLETED`.
    Completed,
    /// The entry was open: it is resolved as `COMPLETED`.
    Resolved,
    /// The effect may have happened: the entry is `PARKED`, whether there was one or not.
    Parked,
    /// The entry is `COMPLETED`, and a guard allows one effect: there is nothing to do.
    Confirmed,
    /// The entry was completed by something else: the effect may have happened twice.
    Doubled,
    /// Its holder may be at work.
    NotNow {
        /// When lease and grace are over.
        retry_after: Span,
    },
    /// The entry is `FAILED_TERMINAL`: one of the two is wrong.
    Contradicts,
    /// The entry has another fingerprint: another message, or another payload.
    Mismatch,
    /// The row was reconciled before.
    Known,
    /// The key has no entry, and the retention of one would be over already.
    RetentionOver,
}

/// What must be written, together with the event of the row.
#[derive(Clone, Debug, PartialEq)]
pub enum ReconcileWrite {
    /// Nothing, and no event: the entry stays as it is.
    Nothing,
    /// The event alone.
    Event,
    /// A new entry.
    New(Box<ImportedEntry>),
    /// The entry as it must be stored.
    Changed(Box<Entry>),
}

/// The outcome of a row, and what must be written before it may be reported.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconciled {
    /// The outcome.
    pub outcome: ReconcileOutcome,
    /// What must be written.
    pub write: ReconcileWrite,
}

impl EffectRow {
    /// The id, in the audit, of the event of a row of this key: the `UUIDv5` of its instant, in microseconds, in the
    /// namespace of the key's `idempotency_key`.
    #[must_use]
    pub fn request_id(&self, key: &Key) -> String {
        let id = Uuid::new_v5(&key.idempotency_key(), self.at.micros().to_string().as_bytes());
        format!("reconcile/{id}")
    }
}

/// Decides a row. A new entry takes the clock of its insert; `now` is a reading before it.
///
/// # Errors
/// `INVALID_FIELD`, `STORE_CLOCK_BEHIND`, `STORE_CLOCK_AHEAD`, `ENTRY_UNREADABLE`.
pub fn reconcile(
    key: &Key,
    entry: Option<&Entry>,
    row: &EffectRow,
    audited: Audited,
    context: &Context<'_>,
) -> Result<Reconciled, Rejection> {
    if key.is_of_run() {
        return Err(wrong("key.replay_run", "is set: effects without a claim happen live, never in a run"));
    }
    match audited {
        Audited::New => {}
        Audited::Same => return Ok(unchanged(ReconcileOutcome::Known)),
        Audited::Other => {
            return Err(wrong(
                "at",
                "is that of another row of this key, which was reconciled before and differs in result, fingerprint or \
                 evidence; nothing was changed: look at its audit event",
            ));
        }
    }
    // By a wrong clock a lease may seem over that is not.
    if let Some(fault) = ClockFault::of_context(context) {
        return Err(fault.refusal());
    }
    let Some(entry) = entry else { return absent(key, row, context) };
    if mismatch(entry, &row.fingerprint, context.policy) {
        return Ok(unchanged(ReconcileOutcome::Mismatch));
    }
    if at_work(entry, context.now) {
        let retry_after = entry.lease_until + entry.grace - context.now;
        return Ok(unchanged(ReconcileOutcome::NotNow { retry_after }));
    }
    match (entry.state, row.evidence) {
        (State::Completed, Evidence::Guard) => Ok(unchanged(ReconcileOutcome::Confirmed)),
        (State::Completed, Evidence::Spool | Evidence::Unfinished) => Ok(doubled(entry)),
        (State::FailedTerminal, _) => Ok(unchanged(ReconcileOutcome::Contradicts)),
        (
            State::Received | State::InProgress | State::FailedRetryable | State::Parked(_),
            Evidence::Unfinished,
        ) => Ok(Reconciled {
            outcome: ReconcileOutcome::Parked,
            write: ReconcileWrite::Changed(Box::new(changed(parked(entry, context), entry, context))),
        }),
        (
            State::Received | State::InProgress | State::FailedRetryable | State::Parked(_),
            Evidence::Guard | Evidence::Spool,
        ) => {
            if context.tokens_are_used_up(entry.token) {
                return Err(refusal(Reason::EntryUnreadable));
            }
            let resolved = changed(completed(entry, &row.result, context), entry, context);
            Ok(Reconciled {
                outcome: ReconcileOutcome::Resolved,
                write: ReconcileWrite::Changed(Box::new(resolved)),
            })
        }
    }
}

fn absent(key: &Key, row: &EffectRow, context: &Context<'_>) -> Result<Reconciled, Rejection> {
    let stored = |outcome, entry| Reconciled { outcome, write: ReconcileWrite::New(entry) };
    if row.evidence == Evidence::Unfinished {
        let entry = ImportedEntry::in_doubt(key, &row.fingerprint, context);
        return Ok(stored(ReconcileOutcome::Parked, Box::new(entry)));
    }
    let done = Import {
        completed_at: Some(row.at),
        result: row.result.clone(),
        fingerprint: row.fingerprint.clone(),
    };
    Ok(match import(key, None, &done, context)? {
        Imported::Stored(entry) => stored(ReconcileOutcome::Completed, entry),
        Imported::AlreadyCompleted | Imported::RetentionOver => unchanged(ReconcileOutcome::RetentionOver),
    })
}

/// The entry waits for a person. The token stays, so that a holder's Complete still counts.
fn parked(entry: &Entry, context: &Context<'_>) -> Entry {
    let mut next = entry.clone();
    let since = entry.parked_at.filter(|_| matches!(entry.state, State::Parked(_)));
    next.state = State::Parked(ParkCause::EffectUnknown);
    next.parked_at = since.or(Some(context.now));
    next.effect_unknown = true;
    if entry.closed_by == ClosedBy::Open {
        next.closed_by = ClosedBy::OperatorPark;
        next.closed_at = Some(context.now);
    }
    next
}

/// As a mark of a superseded Complete: it adds one to the version, and changes nothing but the flag.
fn doubled(entry: &Entry) -> Reconciled {
    let marked = || Entry { doubled: true, version: entry.version + 1, ..entry.clone() };
    let write =
        if entry.doubled { ReconcileWrite::Event } else { ReconcileWrite::Changed(Box::new(marked())) };
    Reconciled { outcome: ReconcileOutcome::Doubled, write }
}

fn unchanged(outcome: ReconcileOutcome) -> Reconciled {
    Reconciled { outcome, write: ReconcileWrite::Nothing }
}

fn wrong(field: &str, description: &str) -> Rejection {
    Rejection::invalid(vec![Violation { field: field.into(), description: description.into() }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClockLimits, Policy, Reading};

    fn row(at: i64) -> EffectRow {
        EffectRow {
            at: StoreTime(at),
            evidence: Evidence::Guard,
            result: Bytes::new(),
            fingerprint: Bytes::new(),
        }
    }

    /// Operators find the event of a row by its id: it is a stored format.
    #[test]
    fn request_id_is_that_of_key_and_instant() {
        let id = |id: &str, at| row(at).request_id(&Key::new("payments", "shop", id));
        assert_eq!(id("order-1", 7), "reconcile/453560c1-af68-5372-8eb3-e55953e7927c");
        assert_ne!(id("order-1", 8), id("order-1", 7));
        assert_ne!(id("order-2", 7), id("order-1", 7));
    }

    #[test]
    fn row_of_a_claim_at_work_waits_for_lease_and_grace() {
        let policy = Policy { reclaim_grace: Span(300), ..Policy::default() };
        let key = Key::new("payments", "shop", "order-1");
        let now = StoreTime(1_780_000_000_000_000);
        let mut entry = Entry::blank(&key, &policy, now);
        (entry.state, entry.lease_until, entry.version) = (State::InProgress, now + Span(2_000), 1);
        for (later, outcome) in [
            (0, ReconcileOutcome::NotNow { retry_after: Span(2_300) }),
            (2_299, ReconcileOutcome::NotNow { retry_after: Span(1) }),
            (2_300, ReconcileOutcome::Resolved),
        ] {
            let reading =
                Reading { now: now + Span(later), token_offset: 0, mark: 0, limits: ClockLimits::NONE };
            let context = Context::at(&reading, &policy, 1);
            let found = reconcile(&key, Some(&entry), &row(7), Audited::New, &context).unwrap();
            assert_eq!(found.outcome, outcome, "{later}");
        }
    }
}

//! An import's messages: what is absent is stored as COMPLETED, with one audit event for all of them.

use std::sync::PoisonError;

use uuid::Uuid;

use super::tries::Tried;
use crate::domain::{
    AuditEvent, Context, Import, Imported, ImportedEntry, Key, Reading, Reason, Rejection, import,
};
use crate::ledger::policies::in_force::PoliciesInForce;
use crate::ledger::rounds::{ROUNDS_MAX, contended, done};
use crate::ledger::runtime::Mutex;
use crate::store::{Fault, Found, Session, StoreError};

/// A part of an import.
#[derive(Clone, Debug)]
pub struct ImportOrder {
    /// The operator's id of the import.
    pub operation_id: String,
    /// Who, as authenticated.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// The messages, each key once; at most [`crate::store::ROWS_MAX`].
    pub rows: Vec<(Key, Import)>,
}

/// What became of one message of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportOutcome {
    /// It is stored.
    Stored,
    /// It was there already.
    AlreadyCompleted,
    /// It would be forgotten at once.
    RetentionOver,
}

/// The fate of each message, in their order.
pub type ImportOutcomes = Vec<Result<ImportOutcome, Rejection>>;

/// The id of the event that was sent last, and the outcomes that come true if it is found: it tells a second try
/// whether the first one was applied.
#[derive(Default)]
pub(super) struct Sent(Mutex<Option<(String, ImportOutcomes)>>);

impl Sent {
    fn note(&self, request_id: &str, outcomes: &ImportOutcomes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((request_id.to_owned(), outcomes.clone()));
    }

    fn noted(&self) -> Option<(String, ImportOutcomes)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Looks, decides and writes, until nobody came in between.
pub(super) async fn carry_out(
    session: &mut dyn Session,
    policies: &PoliciesInForce,
    order: &ImportOrder,
    sent: &Sent,
) -> Tried<ImportOutcomes> {
    if let Some((request_id, outcomes)) = sent.noted()
        && session.operators().audited(&request_id).await.map_err(StoreError::nothing_sent)?.is_some()
    {
        return Ok(Ok(outcomes));
    }
    let keys: Vec<Key> = order.rows.iter().map(|(key, _)| key.clone()).collect();
    for _ in 0..ROUNDS_MAX {
        let loaded = session.entries().load(&keys).await.map_err(StoreError::nothing_sent)?;
        if loaded.reading.behind() && loaded.found.iter().any(|found| matches!(found, Found::Absent)) {
            return Ok(Err(clock_behind()));
        }
        let mut entries = Vec::new();
        let outcomes: ImportOutcomes = order
            .rows
            .iter()
            .zip(loaded.found)
            .map(|((key, row), found)| {
                let position = i64::try_from(entries.len()).unwrap_or(0) + 1;
                let imported = decide(policies, &loaded.reading, position, key, row, found)?;
                Ok(match imported {
                    Imported::Stored(entry) => {
                        entries.push(*entry);
                        ImportOutcome::Stored
                    }
                    Imported::AlreadyCompleted => ImportOutcome::AlreadyCompleted,
                    Imported::RetentionOver => ImportOutcome::RetentionOver,
                })
            })
            .collect();
        if entries.is_empty() {
            return Ok(Ok(outcomes));
        }
        // By key, as every statement that writes.
        entries.sort_by_key(|entry| entry.entry().key.hash());
        let event = event(order, &loaded.reading, &entries);
        sent.note(&event.request_id, &outcomes);
        match done(session.operators().import(&entries, &event)).await {
            Ok(true) => {
                tracing::info!(
                    stored = entries.len(),
                    request_id = event.request_id,
                    actor = event.actor,
                    "entries were imported"
                );
                return Ok(Ok(outcomes));
            }
            // Somebody claimed one of them in between.
            Ok(false) => {}
            Err(StoreError::NotApplied(Fault::ClockBehind)) => return Ok(Err(clock_behind())),
            Err(error) => return Err(error),
        }
    }
    Ok(Err(contended("callers", "claim what is imported")))
}

fn clock_behind() -> Rejection {
    Rejection::new(
        Reason::StoreClockBehind,
        "the store's clock runs behind what it showed before; nothing was stored: wait until it has caught up",
    )
}

fn decide(
    policies: &PoliciesInForce,
    reading: &Reading,
    position: i64,
    key: &Key,
    row: &Import,
    found: Found,
) -> Result<Imported, Rejection> {
    let entry = found.into_entry(key.hash())?;
    let policy = policies.of(key.consumer());
    let context = Context::at(reading, &policy, position);
    import(key, entry.as_ref(), row, &context)
}

/// One event for all that one message of an import stores. Its id tells them apart: what is repeated stores
/// nothing, and needs no event.
fn event(order: &ImportOrder, reading: &Reading, entries: &[ImportedEntry]) -> AuditEvent {
    let mut hashes = Vec::with_capacity(16 * entries.len());
    for entry in entries {
        hashes.extend_from_slice(entry.entry().key.hash().as_bytes());
    }
    let rows = Uuid::new_v5(&Uuid::NAMESPACE_OID, &hashes);
    let first = entries.first().map_or("", |entry| entry.entry().key.consumer());
    let one = entries.iter().all(|entry| entry.entry().key.consumer() == first);
    let after = serde_json::json!({
        "state": "COMPLETED",
        "operation_id": order.operation_id,
        "stored": entries.len(),
    });
    AuditEvent {
        request_id: format!("{}/{:x}-{}", order.operation_id, reading.now.micros(), rows.simple()),
        at: reading.now,
        actor: order.actor.clone(),
        action: "IMPORT_ENTRIES".to_owned(),
        consumer: if one { first.to_owned() } else { String::new() },
        key: None,
        reason: order.reason.clone(),
        before: None,
        after: Some(after.to_string()),
    }
}

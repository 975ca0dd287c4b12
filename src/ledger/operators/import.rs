//! The messages of an import: those without an entry are stored as COMPLETED, with one audit event for each consumer.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::retry::JobResult;
use super::sent::Sent;
use crate::domain::{
    AuditEvent, Context, Import, Imported, ImportedEntry, Key, KeyHash, Reading, Rejection, RequestDigest,
    audit_action, clock_refusal, import,
};
use crate::ledger::compare_and_set::{ROUNDS_MAX, contended, done};
use crate::ledger::policies::in_force::PoliciesInForce;
use crate::ledger::refusals::used_before;
use crate::store::{Fault, Found, Session, StoreError};

/// The bytes of a key's hash.
const HASH_BYTES: usize = size_of::<KeyHash>();

/// A part of an import.
#[derive(Clone, Debug)]
pub struct ImportOrder {
    /// The operator's id of the import.
    pub operation_id: String,
    /// The digest of what all messages of the import have in common.
    pub digest: RequestDigest,
    /// The operator, as authenticated.
    pub actor: String,
    /// The operator's reason.
    pub reason: String,
    /// The messages, each key once; at most [`crate::store::ROWS_MAX`].
    pub rows: Vec<(Key, Import)>,
}

/// The outcome of one message of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportOutcome {
    /// It is stored.
    Stored,
    /// It had an entry already.
    AlreadyCompleted,
    /// Its retention would be over immediately.
    RetentionOver,
}

/// The outcome of each message, in order.
pub type ImportOutcomes = Vec<Result<ImportOutcome, Rejection>>;

/// The compare-and-set loop: looks, decides and writes, until no other writer intervened.
pub(super) async fn carry_out(
    session: &mut dyn Session,
    policies: &PoliciesInForce,
    order: &ImportOrder,
    sent: &Sent<ImportOutcomes>,
) -> JobResult<ImportOutcomes> {
    if let Some(outcomes) = sent.applied(session).await? {
        return Ok(Ok(outcomes));
    }
    let consumers: BTreeSet<&str> = order.rows.iter().map(|(key, _)| key.consumer()).collect();
    let consumers: Vec<String> = consumers.into_iter().map(str::to_owned).collect();
    let before = session.operators().part_digests(&consumers, &order.operation_id).await;
    if before.map_err(StoreError::nothing_sent)?.iter().any(|digest| *digest != Some(order.digest)) {
        return Ok(Err(used_before("operation_id")));
    }
    let keys: Vec<Key> = order.rows.iter().map(|(key, _)| key.clone()).collect();
    for _ in 0..ROUNDS_MAX {
        let loaded = session.entries().load(&keys).await.map_err(StoreError::nothing_sent)?;
        if let Some(rejection) = clock_refusal(&loaded.reading)
            && loaded.found.iter().any(|found| matches!(found, Found::Absent))
        {
            return Ok(Err(rejection));
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
        // By key, as in every statement that writes.
        entries.sort_by_key(|entry| entry.entry().key.hash());
        let events = events(order, &loaded.reading, &entries);
        sent.note(&events, &outcomes);
        match done(session.operators().write_entries(&entries, &[], &events)).await {
            Ok(true) => {
                tracing::info!(
                    stored = entries.len(),
                    consumers = events.len(),
                    operation_id = order.operation_id,
                    actor = order.actor,
                    "entries were imported"
                );
                return Ok(Ok(outcomes));
            }
            // Another caller claimed one of them in between; or the clock is wrong, and the next look shows in which way.
            Ok(false) | Err(StoreError::NotApplied(Fault::ClockBehind)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Err(contended("callers", "claim what is imported")))
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

/// One event for all that one message of an import stores for a consumer, so that the operators of each consumer see what
/// became theirs, and nothing else. Its id separates the messages: a repeated message stores nothing, and needs no event.
fn events(order: &ImportOrder, reading: &Reading, entries: &[ImportedEntry]) -> Vec<AuditEvent> {
    let mut stored: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for entry in entries {
        let key = &entry.entry().key;
        stored.entry(key.consumer()).or_default().extend_from_slice(key.hash().as_bytes());
    }
    let event = |(consumer, hashes): (&str, Vec<u8>)| {
        let rows = Uuid::new_v5(&Uuid::NAMESPACE_OID, &hashes);
        let after = serde_json::json!({
            "state": "COMPLETED",
            "operation_id": order.operation_id,
            "stored": hashes.len() / HASH_BYTES,
        });
        AuditEvent {
            request_id: format!("{}/{:x}-{}", order.operation_id, reading.now.micros(), rows.simple()),
            at: reading.now,
            actor: order.actor.clone(),
            action: audit_action::IMPORT_ENTRIES.to_owned(),
            consumer: consumer.to_owned(),
            key: None,
            reason: order.reason.clone(),
            before: None,
            after: Some(after.to_string()),
            digest: Some(order.digest),
        }
    };
    stored.into_iter().map(event).collect()
}

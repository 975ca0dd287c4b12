//! An import's messages: what is absent is stored as COMPLETED, with one audit event for all of them.

use std::sync::PoisonError;

use uuid::Uuid;

use super::tries::Tried;
use crate::domain::{
    Arrival, AuditEvent, Context, Import, Imported, Key, Reading, Reason, Rejection, import,
};
use crate::ledger::policies::in_force::Live;
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
pub enum Fate {
    /// It is stored.
    Stored,
    /// It was there already.
    AlreadyCompleted,
    /// It would be forgotten at once.
    RetentionOver,
}

/// The fate of each message, in their order.
pub type Fates = Vec<Result<Fate, Rejection>>;

/// The id of the event that was sent last, and the fates that come true if it is found: it tells a second try
/// whether the first one was applied.
#[derive(Default)]
pub(super) struct Sent(Mutex<Option<(String, Fates)>>);

impl Sent {
    fn note(&self, request_id: &str, fates: &Fates) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((request_id.to_owned(), fates.clone()));
    }

    fn noted(&self) -> Option<(String, Fates)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Looks, decides and writes, until nobody came in between.
pub(super) async fn carry_out(
    session: &mut dyn Session,
    policies: &Live,
    order: &ImportOrder,
    sent: &Sent,
) -> Tried<Fates> {
    if let Some((request_id, fates)) = sent.noted()
        && session.audited(&request_id).await.map_err(StoreError::nothing_sent)?.is_some()
    {
        return Ok(Ok(fates));
    }
    let keys: Vec<Key> = order.rows.iter().map(|(key, _)| key.clone()).collect();
    for _ in 0..ROUNDS_MAX {
        let loaded = session.load(&keys).await.map_err(StoreError::nothing_sent)?;
        if loaded.reading.behind() && loaded.found.iter().any(|found| matches!(found, Found::Absent)) {
            return Ok(Err(clock_behind()));
        }
        let mut arrivals = Vec::new();
        let fates: Fates = order
            .rows
            .iter()
            .zip(loaded.found)
            .map(|((key, row), found)| {
                let position = i64::try_from(arrivals.len()).unwrap_or(0) + 1;
                let imported = decide(policies, &loaded.reading, position, key, row, found)?;
                Ok(match imported {
                    Imported::Stored(arrival) => {
                        arrivals.push(*arrival);
                        Fate::Stored
                    }
                    Imported::AlreadyCompleted => Fate::AlreadyCompleted,
                    Imported::RetentionOver => Fate::RetentionOver,
                })
            })
            .collect();
        if arrivals.is_empty() {
            return Ok(Ok(fates));
        }
        // By key, as every statement that writes.
        arrivals.sort_by_key(|arrival| arrival.entry().key.hash());
        let event = event(order, &loaded.reading, &arrivals);
        sent.note(&event.request_id, &fates);
        match done(session.import(&arrivals, &event)).await {
            Ok(true) => {
                tracing::info!(
                    stored = arrivals.len(),
                    request_id = event.request_id,
                    actor = event.actor,
                    "entries were imported"
                );
                return Ok(Ok(fates));
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
    policies: &Live,
    reading: &Reading,
    position: i64,
    key: &Key,
    row: &Import,
    found: Found,
) -> Result<Imported, Rejection> {
    let entry = found.into_entry(key)?;
    let policy = policies.of(key.consumer());
    let context = Context::at(reading, &policy, position);
    import(key, entry.as_ref(), row, &context)
}

/// One event for all that one message of an import stores. Its id tells them apart: what is repeated stores
/// nothing, and needs no event.
fn event(order: &ImportOrder, reading: &Reading, arrivals: &[Arrival]) -> AuditEvent {
    let mut hashes = Vec::with_capacity(16 * arrivals.len());
    for arrival in arrivals {
        hashes.extend_from_slice(arrival.entry().key.hash().as_bytes());
    }
    let rows = Uuid::new_v5(&Uuid::NAMESPACE_OID, &hashes);
    let first = arrivals.first().map_or("", |arrival| arrival.entry().key.consumer());
    let one = arrivals.iter().all(|arrival| arrival.entry().key.consumer() == first);
    let after = serde_json::json!({
        "state": "COMPLETED",
        "operation_id": order.operation_id,
        "stored": arrivals.len(),
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

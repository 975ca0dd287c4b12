//! Effects that happened while the ledger could not be reached: all rows of a part are decided on their entries as loaded, and
//! written together, each with its audit event.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::change::summary_of;
use super::handle::Operators;
use super::retry::JobResult;
use super::sent::Sent;
use crate::domain::{
    AuditEvent, Audited, Context, EffectRow, Entry, Evidence, ImportedEntry, Key, KeyHash, Reading, Reason,
    ReconcileOutcome, ReconcileWrite, Reconciled, Rejection, RequestDigest, audit_action, clock_refusal,
    reconcile,
};
use crate::ledger::compare_and_set::{ROUNDS_MAX, contended, done};
use crate::ledger::policies::in_force::PoliciesInForce;
use crate::metrics::Metrics;
use crate::store::{EventDigests, Fault, Session, StoreError};

/// A row of an operator's request.
#[derive(Clone, Debug)]
pub struct ReconcileRow {
    /// The key.
    pub key: Key,
    /// The digest of the row: a row with the same key and instant and another digest is another row.
    pub digest: RequestDigest,
    /// The effect.
    pub effect: EffectRow,
}

/// A part of the rows of a guard table or a spool.
#[derive(Clone, Debug)]
pub struct ReconcileOrder {
    /// The operator, as authenticated.
    pub actor: String,
    /// The operator's reason.
    pub reason: String,
    /// Change nothing.
    pub dry_run: bool,
    /// The rows, each key once; at most [`crate::store::ROWS_MAX`].
    pub rows: Vec<ReconcileRow>,
}

/// The outcome of each row, in order.
pub type ReconcileOutcomes = Vec<Result<ReconcileOutcome, Rejection>>;

impl Operators {
    /// Brings in effects that happened without a claim, or decides them and changes nothing.
    ///
    /// # Errors
    /// `STORE_CLOCK_BEHIND`, `STORE_CLOCK_AHEAD`, and those of the store; single rows are refused in the answer.
    pub async fn reconcile(&self, order: ReconcileOrder) -> Result<ReconcileOutcomes, Rejection> {
        let inner = &self.inner;
        let work = ReconcileWork {
            policies: Arc::clone(&inner.policies),
            metrics: inner.metrics.clone(),
            order,
            sent: Sent::default(),
            alerted: AtomicBool::new(false),
        };
        if work.order.dry_run {
            let decide =
                inner.reads.read(&self.principal, work, |session, work| Box::pin(carry_out(session, work)));
            return decide.await;
        }
        let keys = work.order.rows.iter().map(|row| row.key.clone()).collect();
        let asked = (work, inner.changes.report_at_end(keys));
        let change = inner
            .change_task
            .change(&self.principal, asked, |session, (work, _), _| Box::pin(carry_out(session, work)));
        change.await
    }
}

/// A request, with all that its job needs. The job goes on if its caller disconnects.
pub(super) struct ReconcileWork {
    policies: Arc<PoliciesInForce>,
    metrics: Metrics,
    order: ReconcileOrder,
    sent: Sent<ReconcileOutcomes>,
    alerted: AtomicBool,
}

impl ReconcileWork {
    /// Counts the effects that may have happened twice, and logs one of them, once for the order. The job calls it, not the caller's
    /// future, and also where the outcome of the write is unknown: a repeat by the caller is answered `KNOWN`, without an alert.
    fn alert(&self, outcomes: &ReconcileOutcomes) {
        if self.alerted.swap(true, Ordering::Relaxed) {
            return;
        }
        let doubled = |outcome: &Result<_, _>| matches!(outcome, Ok(ReconcileOutcome::Doubled));
        let rows = self.order.rows.iter().zip(outcomes);
        let doubled: Vec<&Key> =
            rows.filter(|(_, outcome)| doubled(outcome)).map(|(row, _)| &row.key).collect();
        for key in &doubled {
            self.metrics.doubled(key.consumer(), self.policies.registered(key.consumer()));
        }
        if let Some(first) = doubled.first() {
            tracing::error!(
                event = "doubled",
                consumer = first.consumer(),
                key = %first.hash(),
                rows = doubled.len(),
                "a spool has effects of messages that were completed by something else: they may have happened twice"
            );
        }
    }
}

/// The writes for the rows of a part.
#[derive(Default)]
struct Writes {
    fresh: Vec<ImportedEntry>,
    changed: Vec<Entry>,
    events: Vec<AuditEvent>,
}

/// The compare-and-set loop: looks, decides and writes, until no other writer intervened.
pub(super) async fn carry_out(
    session: &mut dyn Session,
    work: &ReconcileWork,
) -> JobResult<ReconcileOutcomes> {
    let ReconcileWork { policies, order, sent, .. } = work;
    if let Some(outcomes) = sent.applied(session).await? {
        work.alert(&outcomes);
        return Ok(Ok(outcomes));
    }
    let keys: Vec<Key> = order.rows.iter().map(|row| row.key.clone()).collect();
    let ids: Vec<String> = order.rows.iter().map(stored_id).collect();
    let mut locked = HashSet::new();
    for _ in 0..ROUNDS_MAX {
        // Before the entries: what another call reconciles in between is decided again, since its version is another one.
        let known = session.operators().event_digests(&ids).await.map_err(StoreError::nothing_sent)?;
        let loaded = session.entries().load(&keys).await.map_err(StoreError::nothing_sent)?;
        // A row that was reconciled before is KNOWN by any clock, and whatever became of its entry.
        let is_new = |(row, id): (&ReconcileRow, &String)| audited(&known, id, row) == Audited::New;
        if let Some(rejection) = clock_refusal(&loaded.reading)
            && order.rows.iter().zip(&ids).any(is_new)
        {
            return Ok(Err(rejection));
        }
        let mut writes = Writes::default();
        let rows = order.rows.iter().zip(&ids).zip(loaded.found);
        let outcomes: ReconcileOutcomes = rows
            .map(|((row, id), found)| {
                if locked.contains(&row.key.hash()) {
                    return Err(row_locked());
                }
                let audited = audited(&known, id, row);
                let entry = match audited {
                    Audited::New => found.into_entry(row.key.hash())?,
                    Audited::Same | Audited::Other => None,
                };
                let position = i64::try_from(writes.fresh.len()).unwrap_or(0) + 1;
                let policy = policies.of(row.key.consumer());
                let context = Context::at(&loaded.reading, &policy, position);
                let decided = reconcile(&row.key, entry.as_ref(), &row.effect, audited, &context)?;
                let outcome = decided.outcome;
                writes.add(order, row, &loaded.reading, entry.as_ref(), decided);
                Ok(outcome)
            })
            .collect();
        if order.dry_run || writes.events.is_empty() {
            return Ok(Ok(outcomes));
        }
        writes.sort();
        sent.note(&writes.events, &outcomes);
        let Writes { fresh, changed, events } = &writes;
        match done(session.operators().write_entries(fresh, changed, events)).await {
            Ok(true) => {
                tracing::info!(
                    stored = fresh.len(),
                    changed = changed.len(),
                    actor = order.actor,
                    "effects without claims were reconciled"
                );
                work.alert(&outcomes);
                return Ok(Ok(outcomes));
            }
            // Another caller changed one of them in between; or the clock is wrong, and the next look shows in which way.
            Ok(false) | Err(StoreError::NotApplied(Fault::ClockBehind)) => {}
            // One row that another session holds must not stop the others.
            Err(StoreError::NotApplied(Fault::Locked(_))) => {
                let held = session.entries().locked(&keys).await.map_err(StoreError::nothing_sent)?;
                locked.extend(held);
            }
            Err(StoreError::NotApplied(fault)) => return Err(StoreError::NotApplied(fault)),
            Err(unknown) => {
                work.alert(&outcomes);
                return Err(unknown);
            }
        }
    }
    Ok(Err(contended("callers", "change what is reconciled")))
}

fn stored_id(row: &ReconcileRow) -> String {
    AuditEvent::id_of(row.key.consumer(), &row.effect.request_id(&row.key))
}

/// Whether the audit has the event of the row.
fn audited(known: &EventDigests, id: &str, row: &ReconcileRow) -> Audited {
    match known.get(id) {
        None => Audited::New,
        Some(digest) if *digest == Some(row.digest) => Audited::Same,
        Some(_) => Audited::Other,
    }
}

fn row_locked() -> Rejection {
    Rejection::new(
        Reason::Overloaded,
        "this row is locked by another session of the store; nothing of it was changed: try again later",
    )
}

impl Writes {
    fn add(
        &mut self,
        order: &ReconcileOrder,
        row: &ReconcileRow,
        reading: &Reading,
        before: Option<&Entry>,
        Reconciled { outcome, write }: Reconciled,
    ) {
        let after = match &write {
            ReconcileWrite::Nothing => return,
            ReconcileWrite::Event => before,
            ReconcileWrite::New(entry) => Some(entry.entry()),
            ReconcileWrite::Changed(entry) => Some(&**entry),
        };
        self.events.extend(action(outcome).map(|action| AuditEvent {
            request_id: row.effect.request_id(&row.key),
            at: reading.now,
            actor: order.actor.clone(),
            action: action.to_owned(),
            consumer: row.key.consumer().to_owned(),
            key: Some(row.key.hash()),
            reason: order.reason.clone(),
            before: before.map(|entry| summary_of(entry).to_string()),
            after: after.map(|entry| with_row(summary_of(entry), row).to_string()),
            digest: Some(row.digest),
        }));
        match write {
            ReconcileWrite::Nothing | ReconcileWrite::Event => {}
            ReconcileWrite::New(entry) => self.fresh.push(*entry),
            ReconcileWrite::Changed(entry) => self.changed.push(*entry),
        }
    }

    /// By key, as in every statement that writes; events by their ids, for the same reason.
    fn sort(&mut self) {
        let hash = |entry: &Entry| -> KeyHash { entry.key.hash() };
        self.fresh.sort_by_key(|entry| hash(entry.entry()));
        self.changed.sort_by_key(hash);
        self.events.sort_by_cached_key(AuditEvent::stored_id);
    }
}

/// The action's name in the audit; `None` if the outcome changes nothing.
fn action(outcome: ReconcileOutcome) -> Option<&'static str> {
    match outcome {
        ReconcileOutcome::Completed | ReconcileOutcome::Resolved => Some(audit_action::RECONCILE_COMPLETED),
        ReconcileOutcome::Parked => Some(audit_action::RECONCILE_PARKED),
        ReconcileOutcome::Doubled => Some(audit_action::RECONCILE_DOUBLED),
        ReconcileOutcome::Confirmed
        | ReconcileOutcome::NotNow { .. }
        | ReconcileOutcome::Contradicts
        | ReconcileOutcome::Mismatch
        | ReconcileOutcome::Known
        | ReconcileOutcome::RetentionOver => None,
    }
}

/// The audit has the instant and the evidence of the row next to the state of its entry.
fn with_row(mut summary: serde_json::Value, row: &ReconcileRow) -> serde_json::Value {
    let evidence = match row.effect.evidence {
        Evidence::Guard => "GUARD",
        Evidence::Spool => "SPOOL",
        Evidence::Unfinished => "SPOOL_UNFINISHED",
    };
    if let Some(map) = summary.as_object_mut() {
        map.insert("evidence".into(), evidence.into());
        map.insert("effect_at_us".into(), row.effect.at.micros().into());
    }
    summary
}

//! Rows of other tables than `entries`, of either database: audit events, versions of policies, reports of purges.

use uuid::Uuid;

use super::from_row::from_row;
use crate::domain::{
    AuditEvent, AuditListing, AuditOf, PolicyVersion, PurgeWorker, RequestDigest, StoreTime,
};

from_row! {
    /// The columns of `purges`.
    pub(super) struct WorkerRow {
        replica: Uuid,
        last_run_at: i64,
        purged_total: i64,
        purged_per_second: f64,
        last_error: Option<String>,
        last_error_at: Option<i64>,
    }
}

impl From<WorkerRow> for PurgeWorker {
    fn from(row: WorkerRow) -> PurgeWorker {
        PurgeWorker {
            replica: row.replica,
            last_run_at: StoreTime(row.last_run_at),
            purged_total: row.purged_total,
            purged_per_second: row.purged_per_second,
            last_error: row.last_error,
            last_error_at: row.last_error_at.map(StoreTime),
        }
    }
}

/// The position before which a page of the audit begins: an instant, and the id of an event in the store. The events of an
/// operation are listed by their ids alone.
pub(super) fn first_event(listing: &AuditListing) -> (StoreTime, String) {
    match (&listing.of, &listing.before) {
        (AuditOf::Operation { consumer, id }, None) => {
            (StoreTime::MAX, AuditEvent::id_of(consumer, &format!("{id}/~")))
        }
        (AuditOf::Operation { .. }, Some((_, id))) => (StoreTime::MAX, id.clone()),
        (AuditOf::All | AuditOf::Consumer(_) | AuditOf::Entry(_), Some(place)) => place.clone(),
        (AuditOf::All | AuditOf::Consumer(_) | AuditOf::Entry(_), None) => (StoreTime::MAX, String::new()),
    }
}

from_row! {
    /// An audit event in a row of either database.
    pub(super) struct AuditRow {
        request_id: String,
        at: i64,
        actor: String,
        action: String,
        consumer: Option<String>,
        key: Option<Uuid>,
        reason: String,
        before: Option<String>,
        after: Option<String>,
        digest: Option<Vec<u8>>,
    }
}

impl From<AuditRow> for AuditEvent {
    fn from(row: AuditRow) -> AuditEvent {
        AuditEvent {
            request_id: AuditEvent::request_id_of(&row.request_id).to_owned(),
            at: StoreTime(row.at),
            actor: row.actor,
            action: row.action,
            consumer: row.consumer.unwrap_or_default(),
            key: row.key,
            reason: row.reason,
            before: row.before,
            after: row.after,
            digest: row.digest.as_deref().and_then(RequestDigest::stored),
        }
    }
}

from_row! {
    /// A version of a policy in a row of either database.
    pub(super) struct PolicyRow {
        consumer: String,
        version: i32,
        policy: Option<String>,
        deleted: bool,
        created_at: i64,
        actor: String,
        reason: String,
    }
}

impl From<PolicyRow> for PolicyVersion {
    fn from(row: PolicyRow) -> PolicyVersion {
        PolicyVersion {
            consumer: row.consumer,
            version: row.version,
            policy: row.policy.filter(|_| !row.deleted),
            created_at: StoreTime(row.created_at),
            actor: row.actor,
            reason: row.reason,
        }
    }
}

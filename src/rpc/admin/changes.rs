//! Operators' changes of one entry, as messages.

use crate::domain::{Action, Change, Key, Rejection, RequestDigest, Resolution};
use crate::ledger::{ChangeRequest, DeleteUnreadable};
use crate::proto;
use crate::wire::digest::digest;
use crate::wire::fields::{FieldChecks, Limits};

const REQUEST_ID_MAX: usize = 128;
const REASON_MAX: usize = 1_024;

/// The fields that every change has.
struct Common<'a> {
    key: Option<&'a proto::EntryKey>,
    request_id: &'a str,
    expected_version: i64,
    reason: &'a str,
    force: bool,
    digest: RequestDigest,
}

macro_rules! common {
    ($rpc:literal, $request:ident, $force:expr) => {
        Common {
            key: $request.key.as_ref(),
            request_id: &$request.request_id,
            expected_version: $request.expected_version,
            reason: &$request.reason,
            force: $force,
            digest: digest($rpc, $request),
        }
    };
}

/// Checks the fields that every change has, and makes the order.
fn order(
    mut fields: FieldChecks<'_>,
    common: &Common<'_>,
    actor: &str,
    evidence: &str,
    action: Action,
) -> Result<ChangeRequest, Rejection> {
    let key = fields.key(common.key);
    fields.request_id("request_id", common.request_id, REQUEST_ID_MAX);
    fields.name("reason", common.reason, REASON_MAX);
    let admits = matches!(action, Action::Redrive { admit: true, .. });
    if common.expected_version < i64::from(!admits) {
        fields.wrong(
            "expected_version",
            format!("is {}, must be the version of the entry that you looked at", common.expected_version),
        );
    }
    let evidence = fields.error(evidence);
    fields.finish(|| ChangeRequest {
        request_id: common.request_id.to_owned(),
        digest: common.digest,
        actor: actor.to_owned(),
        reason: common.reason.to_owned(),
        evidence,
        // Without a key there is a violation, so that the placeholder is never used.
        key: key.unwrap_or_else(|| Key::new("", "", "")),
        change: Change { expected_version: common.expected_version, action, force: common.force },
    })
}

pub(super) fn redrive(
    request: &proto::RedriveEntryRequest,
    actor: &str,
    limits: &Limits,
) -> Result<ChangeRequest, Rejection> {
    let common = common!("RedriveEntry", request, request.force);
    let action = Action::Redrive { drop_fingerprint: request.drop_fingerprint, admit: request.admit };
    order(FieldChecks::new(limits), &common, actor, "", action)
}

pub(super) fn park(
    request: &proto::ParkEntryRequest,
    actor: &str,
    limits: &Limits,
) -> Result<ChangeRequest, Rejection> {
    let common = common!("ParkEntry", request, false);
    order(FieldChecks::new(limits), &common, actor, "", Action::Park)
}

pub(super) fn resolve(
    request: &proto::ResolveEntryRequest,
    actor: &str,
    limits: &Limits,
) -> Result<ChangeRequest, Rejection> {
    let common = common!("ResolveEntry", request, request.force);
    let mut fields = FieldChecks::new(limits);
    fields.bytes("result", &request.result, limits.result);
    let resolution = match request.state() {
        proto::EntryState::Completed => Resolution::Completed { result: request.result.clone() },
        proto::EntryState::FailedTerminal => {
            Resolution::FailedTerminal { error: fields.error(&request.evidence) }
        }
        proto::EntryState::Received => Resolution::Received,
        proto::EntryState::Unspecified
        | proto::EntryState::InProgress
        | proto::EntryState::FailedRetryable
        | proto::EntryState::Parked => {
            fields.wrong("state", "must be COMPLETED, FAILED_TERMINAL or RECEIVED");
            Resolution::Received
        }
    };
    if !request.result.is_empty() && request.state() != proto::EntryState::Completed {
        fields.wrong("result", "belongs to COMPLETED only");
    }
    order(fields, &common, actor, &request.evidence, Action::Resolve(resolution))
}

pub(super) fn delete(
    request: &proto::DeleteEntryRequest,
    actor: &str,
    limits: &Limits,
) -> Result<ChangeRequest, Rejection> {
    let common = common!("DeleteEntry", request, request.force);
    order(FieldChecks::new(limits), &common, actor, "", Action::Delete)
}

/// A Delete of an entry that cannot be read, by the hash of its key.
pub(super) fn delete_unreadable(
    request: &proto::DeleteEntryRequest,
    actor: &str,
    limits: &Limits,
) -> Result<DeleteUnreadable, Rejection> {
    let mut fields = FieldChecks::new(limits);
    if request.key.is_some() {
        fields.wrong("key_hash", "is set together with key: name the entry by one of them");
    }
    let key = fields.key_hash("key_hash", &request.key_hash);
    fields.request_id("request_id", &request.request_id, REQUEST_ID_MAX);
    fields.name("reason", &request.reason, REASON_MAX);
    if request.expected_version != 0 {
        fields.wrong(
            "expected_version",
            "is set together with key_hash: an entry that cannot be read has no version that you looked at",
        );
    }
    fields.finish(|| DeleteUnreadable {
        request_id: request.request_id.clone(),
        digest: digest("DeleteEntry", request),
        actor: actor.to_owned(),
        reason: request.reason.clone(),
        // Without a hash there is a violation, so that the placeholder is never used.
        key: key.unwrap_or_default(),
        force: request.force,
    })
}

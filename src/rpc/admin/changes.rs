//! Operators' changes and the audit, as messages.

use prost::Message as _;
use uuid::Uuid;

use super::entries::PAGE_BYTES;
use super::page_token::{self, Pages};
use crate::domain::{
    Action, AuditEvent, AuditListing, AuditOf, Change, Key, KeyHash, Rejection, RequestDigest, Resolution,
    StoreTime,
};
use crate::ledger::{ChangeRequest, DeleteUnreadable};
use crate::proto;
use crate::wire::digest::digest;
use crate::wire::fields::{FieldChecks, Limits};
use crate::wire::words;

const REQUEST_ID_MAX: usize = 128;
const REASON_MAX: usize = 1_024;
const PAGE_DEFAULT: usize = 100;
const PAGE_MAX: usize = 1_000;

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

/// A page of the audit: the query for the store, and the position of the next page.
pub(super) struct AuditQuery {
    pub(super) listing: AuditListing,
    pages: Pages,
}

pub(super) fn audit(
    request: &proto::ListAuditEventsRequest,
    limits: &Limits,
) -> Result<AuditQuery, Rejection> {
    let mut fields = FieldChecks::new(limits);
    fields.text("consumer", &request.consumer, limits.consumer);
    let key = match &request.key {
        None => None,
        Some(key) => fields.key(Some(key)).map(|key| key.hash()),
    };
    let elsewhere = |key: &proto::EntryKey| !request.consumer.is_empty() && request.consumer != key.consumer;
    if request.key.as_ref().is_some_and(elsewhere) {
        fields.wrong("consumer", "is not that of the key: leave it out");
    }
    let limit = fields.page_size(request.page_size, PAGE_DEFAULT, PAGE_MAX);
    let asked = proto::ListAuditEventsRequest { page_size: 0, page_token: String::new(), ..request.clone() };
    let pages = Pages::of("ListAuditEvents", &asked);
    let before = pages.place(&mut fields, &request.page_token, audit_place);
    let of = match (key, request.consumer.as_str()) {
        (Some(key), _) => AuditOf::Entry(key),
        (None, "") => AuditOf::All,
        (None, consumer) => AuditOf::Consumer(consumer.to_owned()),
    };
    fields.finish(|| AuditQuery { listing: AuditListing { of, before, limit }, pages })
}

/// The instant of an event, and the id under which the store has it.
fn audit_place(place: &[u8]) -> Option<(StoreTime, String)> {
    let (at, id) = place.split_first_chunk()?;
    Some((StoreTime(i64::from_be_bytes(*at)), page_token::name(id)?))
}

impl AuditQuery {
    pub(super) fn page(self, events: Vec<AuditEvent>) -> proto::ListAuditEventsResponse {
        let mut more = events.len() == self.listing.limit;
        let mut page = proto::ListAuditEventsResponse::default();
        let mut bytes = 0;
        for one in events {
            if bytes >= PAGE_BYTES {
                more = true;
                break;
            }
            let place = [&one.at.micros().to_be_bytes()[..], one.stored_id().as_bytes()].concat();
            page.next_page_token = self.pages.token(&place);
            let one = event(one);
            bytes += one.encoded_len();
            page.events.push(one);
        }
        if !more {
            page.next_page_token.clear();
        }
        page
    }
}

fn event(event: AuditEvent) -> proto::AuditEvent {
    proto::AuditEvent {
        request_id: event.request_id,
        at: Some(words::timestamp(event.at)),
        actor: event.actor,
        action: event.action,
        consumer: event.consumer,
        key_hash: event.key.map_or(String::new(), |key: KeyHash| Uuid::to_string(&key)),
        reason: event.reason,
        before_json: event.before.unwrap_or_default(),
        after_json: event.after.unwrap_or_default(),
    }
}

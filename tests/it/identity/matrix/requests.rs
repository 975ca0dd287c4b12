//! One sound request of each RPC, and what its answer says of each item.

use std::time::Duration;

use idempotency_ledger::domain::Key;
use idempotency_ledger::proto;
use idempotency_ledger::proto::claim_response::Verdict;
use idempotency_ledger::proto::lookup_result::Outcome as Looked;
use idempotency_ledger::proto::settlement::Action;
use idempotency_ledger::proto::settlement_result::Outcome;
use idempotency_ledger::proto::store_response::Verdict as Stored;
use prost::Message;
use tonic_health::pb::HealthCheckRequest;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;

use super::rpcs::{Method, Way};
use super::wire::Answer;
use crate::harness::details::refusal;
use crate::identity::{fresh, word};

/// The other tenant, after whose consumer a replay run is named.
pub(super) const OTHER: &str = "team-b";

/// What a call asks for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) consumer: String,
    /// The id of a message.
    pub(super) id: String,
    pub(super) way: Way,
}

impl Asked {
    pub(super) fn new(consumer: &str, id: &str, way: Way) -> Asked {
        Asked { consumer: consumer.to_owned(), id: id.to_owned(), way }
    }

    fn run(&self) -> String {
        if self.way == Way::InRun { OTHER.to_owned() } else { String::new() }
    }

    fn key(&self) -> Option<proto::EntryKey> {
        let (consumer, replay_run) = (self.consumer.clone(), self.run());
        Some(proto::EntryKey { consumer, source: "tests".into(), id: self.id.clone(), replay_run })
    }

    fn filter(&self) -> Option<proto::EntryFilter> {
        let (consumer, replay_run) = (self.consumer.clone(), self.run());
        Some(proto::EntryFilter { consumer, replay_run, ..Default::default() })
    }

    fn claim(&self) -> proto::ClaimRequest {
        proto::ClaimRequest { key: self.key(), owner: "worker".into(), ..Default::default() }
    }

    fn lookup(&self) -> proto::LookupRequest {
        proto::LookupRequest { key: self.key(), wait: None }
    }

    fn store(&self) -> proto::StoreRequest {
        let message = Some(proto::Message { payload: b"payload".to_vec().into(), ..Default::default() });
        proto::StoreRequest { key: self.key(), message, ..Default::default() }
    }

    fn complete(&self) -> proto::CompleteRequest {
        proto::CompleteRequest { key: self.key(), token: 1, ..Default::default() }
    }
}

/// A batch of items, of an RPC that takes one.
pub(super) fn batch(method: &Method, items: &[Asked]) -> Option<Vec<u8>> {
    let settle = |asked: &Asked| proto::Settlement { action: Some(Action::Complete(asked.complete())) };
    let import = |asked: &Asked| proto::ImportedEntry { key: asked.key(), ..Default::default() };
    let effect = |asked: &Asked| proto::ReconcileRow {
        key: asked.key(),
        at: Some(prost_types::Timestamp { seconds: 1_780_000_000, nanos: 0 }),
        evidence: proto::EffectEvidence::Guard.into(),
        ..Default::default()
    };
    Some(match method.name.as_str() {
        "BatchClaim" => {
            proto::BatchClaimRequest { requests: items.iter().map(Asked::claim).collect() }.encode_to_vec()
        }
        "BatchLookup" => {
            proto::BatchLookupRequest { requests: items.iter().map(Asked::lookup).collect() }.encode_to_vec()
        }
        "BatchSettle" => {
            proto::BatchSettleRequest { settlements: items.iter().map(settle).collect() }.encode_to_vec()
        }
        "BatchStore" => {
            proto::BatchStoreRequest { requests: items.iter().map(Asked::store).collect() }.encode_to_vec()
        }
        "ImportEntries" => proto::ImportEntriesRequest {
            operation_id: fresh(),
            reason: "because".into(),
            entries: items.iter().map(import).collect(),
        }
        .encode_to_vec(),
        "ReconcileEntries" => proto::ReconcileEntriesRequest {
            reason: "because".into(),
            dry_run: items.iter().any(|asked| asked.way == Way::DryRun),
            rows: items.iter().map(effect).collect(),
        }
        .encode_to_vec(),
        _ => return None,
    })
}

/// A call that the server would carry out for a caller who may do everything.
pub(super) fn request(method: &Method, asked: &Asked) -> Vec<u8> {
    if let Some(batch) = batch(method, std::slice::from_ref(asked)) {
        return batch;
    }
    let (key, filter, consumer) = (asked.key(), asked.filter(), asked.consumer.clone());
    let (request_id, reason, way) = (fresh(), "because".to_owned(), asked.way);
    let seconds = |seconds| prost_types::Duration::try_from(Duration::from_secs(seconds)).ok();
    let (expected_version, token) = (1, 1);
    match method.name.as_str() {
        "Claim" => asked.claim().encode_to_vec(),
        "Lookup" => asked.lookup().encode_to_vec(),
        "Store" => asked.store().encode_to_vec(),
        "ClaimNext" => {
            proto::ClaimNextRequest { consumer, claim_id: fresh(), ..Default::default() }.encode_to_vec()
        }
        "GetMessage" => proto::GetMessageRequest { key, reason }.encode_to_vec(),
        "Renew" => proto::RenewRequest { key, token, ..Default::default() }.encode_to_vec(),
        "Complete" => asked.complete().encode_to_vec(),
        "Fail" => proto::FailRequest { key, token, ..Default::default() }.encode_to_vec(),
        "Release" => proto::ReleaseRequest {
            key,
            token,
            delay: None,
            unpin_fingerprint: false,
            event_type: String::new(),
        }
        .encode_to_vec(),
        "GetEntry" if way == Way::ByHash => {
            let key_hash = Key::new(&consumer, "tests", &asked.id).hash().to_string();
            proto::GetEntryRequest { key: None, key_hash }.encode_to_vec()
        }
        "GetEntry" => proto::GetEntryRequest { key, key_hash: String::new() }.encode_to_vec(),
        "ListEntries" => proto::ListEntriesRequest { filter, ..Default::default() }.encode_to_vec(),
        "GroupEntries" => proto::GroupEntriesRequest { filter, maximum: 0 }.encode_to_vec(),
        "SummarizeEntries" => {
            proto::SummarizeEntriesRequest { consumer, ..Default::default() }.encode_to_vec()
        }
        "RedriveEntry" => {
            proto::RedriveEntryRequest { key, request_id, expected_version, reason, ..Default::default() }
                .encode_to_vec()
        }
        "ParkEntry" => proto::ParkEntryRequest { key, request_id, expected_version, reason }.encode_to_vec(),
        "ResolveEntry" => proto::ResolveEntryRequest {
            key,
            request_id,
            expected_version,
            reason,
            state: proto::EntryState::Completed.into(),
            ..Default::default()
        }
        .encode_to_vec(),
        "DeleteEntry" => {
            // The key of a request is in its place, or the hash of a key that no entry has.
            let (key, expected_version, key_hash) = match way {
                Way::ByHash => (None, 0, uuid::Uuid::nil().to_string()),
                _ => (key, expected_version, String::new()),
            };
            let force = way == Way::ByHash;
            proto::DeleteEntryRequest { key, request_id, expected_version, reason, force, key_hash }
                .encode_to_vec()
        }
        "RedriveEntries" => {
            // Few entries are in this state, and a bulk redrive has a bounded rate.
            let states = vec![proto::EntryState::Parked.into()];
            proto::RedriveEntriesRequest {
                filter: filter.map(|filter| proto::EntryFilter { states, ..filter }),
                operation_id: request_id,
                reason,
                dry_run: way == Way::DryRun,
                ..Default::default()
            }
            .encode_to_vec()
        }
        "ParkEntries" => {
            let states = vec![proto::EntryState::FailedRetryable.into()];
            proto::ParkEntriesRequest {
                filter: filter.map(|filter| proto::EntryFilter { states, ..filter }),
                operation_id: request_id,
                reason,
                dry_run: way == Way::DryRun,
                ..Default::default()
            }
            .encode_to_vec()
        }
        "ResolveEntries" => {
            let states = vec![proto::EntryState::Parked.into()];
            proto::ResolveEntriesRequest {
                filter: filter.map(|filter| proto::EntryFilter { states, ..filter }),
                operation_id: request_id,
                reason,
                dry_run: way == Way::DryRun,
                state: proto::EntryState::Completed.into(),
                ..Default::default()
            }
            .encode_to_vec()
        }
        "GetPolicy" => proto::GetPolicyRequest { consumer }.encode_to_vec(),
        "ListPolicies" => proto::ListPoliciesRequest::default().encode_to_vec(),
        "SetPolicy" => proto::SetPolicyRequest {
            consumer,
            request_id,
            reason,
            policy: Some(proto::Policy { max_attempts: Some(5), ..Default::default() }),
            validate_only: way == Way::ValidateOnly,
            ..Default::default()
        }
        .encode_to_vec(),
        "DeletePolicy" => {
            proto::DeletePolicyRequest { consumer, request_id, expected_version: 1, reason }.encode_to_vec()
        }
        "ListPolicyVersions" => {
            proto::ListPolicyVersionsRequest { consumer, ..Default::default() }.encode_to_vec()
        }
        "ListAuditEvents" if way == Way::ByKey => {
            proto::ListAuditEventsRequest { key, ..Default::default() }.encode_to_vec()
        }
        "ListAuditEvents" => proto::ListAuditEventsRequest { consumer, ..Default::default() }.encode_to_vec(),
        "GetRetentionStatus" => proto::GetRetentionStatusRequest {}.encode_to_vec(),
        "CreateReplayRun" => {
            let replay_run = OTHER.to_owned();
            proto::CreateReplayRunRequest { consumer, replay_run, request_id, reason, ends_in: None }
                .encode_to_vec()
        }
        "CloseReplayRun" => {
            let replay_run = OTHER.to_owned();
            proto::CloseReplayRunRequest { consumer, replay_run, request_id, reason }.encode_to_vec()
        }
        "ListReplayRuns" => proto::ListReplayRunsRequest { consumer, ..Default::default() }.encode_to_vec(),
        "HoldConsumers" => {
            proto::HoldConsumersRequest { prefix: consumer, all: false, request_id, reason }.encode_to_vec()
        }
        "ResumeConsumers" => {
            proto::ResumeConsumersRequest { prefix: consumer, all: false, request_id, reason }.encode_to_vec()
        }
        "ListHolds" => proto::ListHoldsRequest { prefix: consumer }.encode_to_vec(),
        "RaiseTokenOffset" => {
            let validate_only = way == Way::ValidateOnly;
            let token_offset = if validate_only { None } else { seconds(1) };
            let expected_token_offset = None;
            proto::RaiseTokenOffsetRequest {
                request_id,
                reason,
                token_offset,
                expected_token_offset,
                validate_only,
            }
            .encode_to_vec()
        }
        "Check" | "Watch" => HealthCheckRequest { service: "liveness".into() }.encode_to_vec(),
        // The messages of both versions have the same numbers.
        "ServerReflectionInfo" => ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        }
        .encode_to_vec(),
        _ => panic!("{} is asked by no test", method.path()),
    }
}

/// What became of each item, as its reason and text; empty where it was not refused. A call that is not a batch has one
/// item, and a refusal of the whole call is that of its first item.
pub(super) fn items(method: &Method, answer: &Answer) -> Vec<(String, String)> {
    if let Some(status) = &answer.status {
        return vec![(refusal(status).reason, status.message().to_owned())];
    }
    let said = |rejected: Option<&proto::Rejected>| {
        rejected.map_or_else(Default::default, |rejected| (word(rejected), rejected.message.clone()))
    };
    let bytes = answer.messages.first().map_or(&[][..], Vec::as_slice);
    match method.name.as_str() {
        "BatchClaim" => {
            let answer = proto::BatchClaimResponse::decode(bytes).unwrap();
            let of = |response: &proto::ClaimResponse| match &response.verdict {
                Some(Verdict::Rejected(rejected)) => said(Some(rejected)),
                _ => said(None),
            };
            answer.responses.iter().map(of).collect()
        }
        "BatchLookup" => {
            let answer = proto::BatchLookupResponse::decode(bytes).unwrap();
            let of = |result: &proto::LookupResult| match &result.outcome {
                Some(Looked::Rejected(rejected)) => said(Some(rejected)),
                _ => said(None),
            };
            answer.responses.iter().map(of).collect()
        }
        "BatchStore" => {
            let answer = proto::BatchStoreResponse::decode(bytes).unwrap();
            let of = |response: &proto::StoreResponse| match &response.verdict {
                Some(Stored::Rejected(rejected)) => said(Some(rejected)),
                _ => said(None),
            };
            answer.responses.iter().map(of).collect()
        }
        "BatchSettle" => {
            let answer = proto::BatchSettleResponse::decode(bytes).unwrap();
            let of = |result: &proto::SettlementResult| match &result.outcome {
                Some(Outcome::Rejected(rejected)) => said(Some(rejected)),
                _ => said(None),
            };
            answer.results.iter().map(of).collect()
        }
        "ImportEntries" => {
            let answer = proto::ImportEntriesResponse::decode(bytes).unwrap();
            let known = answer.stored + answer.already_completed + answer.retention_over;
            let mut items = vec![said(None); usize::try_from(known).unwrap() + answer.rejections.len()];
            for rejection in &answer.rejections {
                items[usize::try_from(rejection.index).unwrap()] = said(rejection.rejected.as_ref());
            }
            items
        }
        "ReconcileEntries" => {
            let answer = proto::ReconcileEntriesResponse::decode(bytes).unwrap();
            answer.results.iter().map(|result| said(result.rejected.as_ref())).collect()
        }
        _ => vec![said(None)],
    }
}

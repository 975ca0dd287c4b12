//! One call of each RPC, and why it was refused.

use std::time::Duration;

use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::claim_response::Verdict;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::lookup_result::Outcome as Looked;
use idempotency_ledger::proto::settlement::Action;
use idempotency_ledger::proto::settlement_result::Outcome;
use idempotency_ledger::proto::store_response::Verdict as Stored;
use idempotency_ledger::proto::{self, Settlement};
use tonic::Status;
use tonic::transport::Channel;

use super::{by, fresh, why, word};
use crate::harness::details::{claim, key};

/// Where a call asks for something else than its RPC usually does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Usual,
    /// It only looks.
    ValidateOnly,
    /// It names no consumer, where it could.
    All,
    /// It names an entry by the hash of its key.
    ByHash,
    /// Its keys, or its filter, are of a replay run that is called like another consumer.
    InRun,
}

/// Asks as the holder of a token; the reason of the refusal, or none. The call has this deadline, but for a stream.
pub(super) async fn ask(
    channel: Channel,
    deadline: Duration,
    token: &str,
    rpc: &str,
    consumer: &str,
    way: Way,
) -> String {
    let mut ledger = LedgerServiceClient::new(channel.clone());
    let mut admin = AdminServiceClient::new(channel);
    let replay_run = match (way, consumer) {
        (Way::InRun, "mine") => "other".to_owned(),
        (Way::InRun, _) => "mine".to_owned(),
        _ => String::new(),
    };
    let key = key(consumer, "1").map(|key| proto::EntryKey { replay_run: replay_run.clone(), ..key });
    let claim = || proto::ClaimRequest { key: key.clone(), ..claim(consumer, "1") };
    let id = fresh();
    let reason = "because".to_owned();
    let named = if way == Way::All { String::new() } else { consumer.to_owned() };
    let validate_only = way == Way::ValidateOnly;
    let filter = Some(proto::EntryFilter {
        consumer: named.clone(),
        states: vec![proto::EntryState::Parked.into()],
        replay_run: replay_run.clone(),
        ..Default::default()
    });
    let complete = proto::CompleteRequest {
        key: key.clone(),
        token: 1,
        result: Vec::new().into(),
        result_left_out: false,
        event_type: String::new(),
    };
    let message = Some(proto::Message { payload: b"payload".to_vec().into(), ..Default::default() });
    let store = proto::StoreRequest { key: key.clone(), message, ..Default::default() };
    let settle = Settlement { action: Some(Action::Complete(complete.clone())) };
    macro_rules! send {
        ($client:ident.$rpc:ident($message:expr)) => {{
            let mut request = by(token, $message);
            request.set_timeout(deadline);
            $client.$rpc(request).await
        }};
    }
    match rpc {
        "Claim" => why(send!(ledger.claim(claim()))),
        "BatchClaim" => {
            let batch = proto::BatchClaimRequest { requests: vec![claim()] };
            let answer = send!(ledger.batch_claim(batch));
            item(answer.map(|answer| match answer.into_inner().responses.swap_remove(0).verdict {
                Some(Verdict::Rejected(rejected)) => Some(rejected),
                _ => None,
            }))
        }
        "Lookup" => why(send!(ledger.lookup(proto::LookupRequest { key, wait: None }))),
        "BatchLookup" => {
            let batch =
                proto::BatchLookupRequest { requests: vec![proto::LookupRequest { key, wait: None }] };
            let answer = send!(ledger.batch_lookup(batch));
            item(answer.map(|answer| match answer.into_inner().responses.swap_remove(0).outcome {
                Some(Looked::Rejected(rejected)) => Some(rejected),
                _ => None,
            }))
        }
        "Store" => why(send!(ledger.store(store))),
        "BatchStore" => {
            let answer = send!(ledger.batch_store(proto::BatchStoreRequest { requests: vec![store] }));
            item(answer.map(|answer| match answer.into_inner().responses.swap_remove(0).verdict {
                Some(Stored::Rejected(rejected)) => Some(rejected),
                _ => None,
            }))
        }
        "ClaimNext" => {
            let request =
                proto::ClaimNextRequest { consumer: consumer.to_owned(), claim_id: id, ..Default::default() };
            why(send!(ledger.claim_next(request)))
        }
        "GetMessage" => why(send!(admin.get_message(proto::GetMessageRequest { key, reason }))),
        "Complete" => why(send!(ledger.complete(complete))),
        "Fail" => why(send!(ledger.fail(proto::FailRequest { key, token: 1, ..Default::default() }))),
        "Release" => why(send!(ledger.release(proto::ReleaseRequest {
            key,
            token: 1,
            delay: None,
            unpin_fingerprint: false,
            event_type: String::new()
        }))),
        "Renew" => why(send!(ledger.renew(proto::RenewRequest { key, token: 1, ..Default::default() }))),
        "BatchSettle" => {
            let answer = send!(ledger.batch_settle(proto::BatchSettleRequest { settlements: vec![settle] }));
            item(answer.map(|answer| match answer.into_inner().results.swap_remove(0).outcome {
                Some(Outcome::Rejected(rejected)) => Some(rejected),
                _ => None,
            }))
        }
        "GetEntry" if way == Way::ByHash => {
            why(send!(admin.get_entry(proto::GetEntryRequest { key: None, key_hash: id })))
        }
        "GetEntry" => why(send!(admin.get_entry(proto::GetEntryRequest { key, key_hash: String::new() }))),
        "ListEntries" => {
            why(send!(admin.list_entries(proto::ListEntriesRequest { filter, ..Default::default() })))
        }
        "GroupEntries" => why(send!(admin.group_entries(proto::GroupEntriesRequest { filter, maximum: 0 }))),
        "SummarizeEntries" => {
            let request =
                proto::SummarizeEntriesRequest { consumer: named, replay_run, ..Default::default() };
            why(send!(admin.summarize_entries(request)))
        }
        "GetPolicy" => why(send!(admin.get_policy(proto::GetPolicyRequest { consumer: named }))),
        "ListPolicies" => why(send!(admin.list_policies(proto::ListPoliciesRequest::default()))),
        "ListPolicyVersions" => {
            let request = proto::ListPolicyVersionsRequest { consumer: named, ..Default::default() };
            why(send!(admin.list_policy_versions(request)))
        }
        "ListAuditEvents" => {
            let request = proto::ListAuditEventsRequest { consumer: named, ..Default::default() };
            why(send!(admin.list_audit_events(request)))
        }
        "GetRetentionStatus" => why(send!(admin.get_retention_status(proto::GetRetentionStatusRequest {}))),
        "RedriveEntry" => why(send!(admin.redrive_entry(proto::RedriveEntryRequest {
            key,
            request_id: id,
            expected_version: 1,
            reason,
            ..Default::default()
        }))),
        "ParkEntry" => why(send!(admin.park_entry(proto::ParkEntryRequest {
            key,
            request_id: id,
            expected_version: 1,
            reason,
        }))),
        "ResolveEntry" => why(send!(admin.resolve_entry(proto::ResolveEntryRequest {
            key,
            request_id: id,
            expected_version: 1,
            reason,
            state: proto::EntryState::Completed.into(),
            ..Default::default()
        }))),
        "DeleteEntry" => why(send!(admin.delete_entry(proto::DeleteEntryRequest {
            key,
            request_id: id,
            expected_version: 1,
            reason,
            ..Default::default()
        }))),
        "RedriveEntries" => {
            let request =
                proto::RedriveEntriesRequest { filter, operation_id: id, reason, ..Default::default() };
            match send!(admin.redrive_entries(request)) {
                Ok(answer) => why(answer.into_inner().message().await.map(tonic::Response::new)),
                Err(status) => why::<()>(Err(status)),
            }
        }
        "ParkEntries" => {
            let states = vec![proto::EntryState::FailedRetryable.into()];
            let filter = filter.map(|filter| proto::EntryFilter { states, ..filter });
            let request =
                proto::ParkEntriesRequest { filter, operation_id: id, reason, ..Default::default() };
            match send!(admin.park_entries(request)) {
                Ok(answer) => why(answer.into_inner().message().await.map(tonic::Response::new)),
                Err(status) => why::<()>(Err(status)),
            }
        }
        "ResolveEntries" => {
            let state = proto::EntryState::Completed.into();
            let request = proto::ResolveEntriesRequest {
                filter,
                operation_id: id,
                reason,
                state,
                ..Default::default()
            };
            match send!(admin.resolve_entries(request)) {
                Ok(answer) => why(answer.into_inner().message().await.map(tonic::Response::new)),
                Err(status) => why::<()>(Err(status)),
            }
        }
        "ImportEntries" => {
            let entries = vec![proto::ImportedEntry { key, ..Default::default() }];
            let message = proto::ImportEntriesRequest { operation_id: id, reason, entries };
            match send!(admin.import_entries(tokio_stream(message))) {
                Ok(answer) => item(answer.into_inner().message().await.map(|told| {
                    told.unwrap().rejections.into_iter().next().and_then(|rejection| rejection.rejected)
                })),
                Err(status) => why::<()>(Err(status)),
            }
        }
        "ReconcileEntries" => {
            let row = proto::ReconcileRow {
                key,
                at: Some(prost_types::Timestamp { seconds: 1_780_000_000, nanos: 0 }),
                evidence: proto::EffectEvidence::Guard.into(),
                ..Default::default()
            };
            let request = proto::ReconcileEntriesRequest { reason, dry_run: false, rows: vec![row] };
            item(send!(admin.reconcile_entries(request)).map(|answer| {
                answer.into_inner().results.into_iter().next().and_then(|result| result.rejected)
            }))
        }
        "SetPolicy" => {
            let policy = proto::Policy { max_attempts: Some(5), ..Default::default() };
            why(send!(admin.set_policy(proto::SetPolicyRequest {
                consumer: named,
                request_id: id,
                reason,
                policy: Some(policy),
                validate_only,
                ..Default::default()
            })))
        }
        "DeletePolicy" => why(send!(admin.delete_policy(proto::DeletePolicyRequest {
            consumer: named,
            request_id: id,
            expected_version: 1,
            reason,
        }))),
        "RaiseTokenOffset" => why(send!(admin.raise_token_offset(proto::RaiseTokenOffsetRequest {
            request_id: id,
            reason,
            token_offset: (!validate_only).then_some(prost_types::Duration { seconds: 1, nanos: 0 }),
            expected_token_offset: None,
            validate_only,
        }))),
        "CreateReplayRun" => why(send!(admin.create_replay_run(proto::CreateReplayRunRequest {
            consumer: consumer.to_owned(),
            replay_run: "r".into(),
            request_id: id,
            reason,
            ends_in: None,
        }))),
        "CloseReplayRun" => why(send!(admin.close_replay_run(proto::CloseReplayRunRequest {
            consumer: consumer.to_owned(),
            replay_run: "r".into(),
            request_id: id,
            reason,
        }))),
        "HoldConsumers" => why(send!(admin.hold_consumers(proto::HoldConsumersRequest {
            all: named.is_empty(),
            prefix: named,
            request_id: id,
            reason,
        }))),
        "ResumeConsumers" => why(send!(admin.resume_consumers(proto::ResumeConsumersRequest {
            all: named.is_empty(),
            prefix: named,
            request_id: id,
            reason,
        }))),
        "ListHolds" => why(send!(admin.list_holds(proto::ListHoldsRequest { prefix: named }))),
        "ListReplayRuns" => why(send!(admin.list_replay_runs(proto::ListReplayRunsRequest {
            consumer: consumer.to_owned(),
            ..Default::default()
        }))),
        other => panic!("{other} is asked by no test"),
    }
}

fn tokio_stream<T>(message: T) -> impl futures_util::Stream<Item = T> {
    futures_util::stream::iter([message])
}

fn item(answer: Result<Option<proto::Rejected>, Status>) -> String {
    match answer {
        Ok(rejected) => rejected.map_or(String::new(), |rejected| word(&rejected)),
        Err(status) => why::<()>(Err(status)),
    }
}

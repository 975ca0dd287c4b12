//! Sound requests of the methods, from which mangled ones are made.

use idempotency_ledger::proto::{self, settlement::Action};
use prost::Message;

use crate::harness::details::{acquired, claim, key};
use crate::harness::server::TestServer;

/// A message with every field.
pub(super) fn stored_message(id: &str) -> proto::StoreRequest {
    let message = proto::Message {
        payload: b"some bytes".to_vec().into(),
        headers: vec![proto::Header { name: "trace".into(), value: b"1".to_vec().into() }],
        topic: "orders".into(),
        partition: Some(3),
        offset: Some(44),
        message_key: b"customer 7".to_vec().into(),
        event_type: "paid".into(),
        event_version: "2".into(),
        content_type: "application/json".into(),
    };
    proto::StoreRequest {
        key: key("c", id),
        message: Some(message),
        fingerprint: b"some bytes".to_vec().into(),
        occurred_at: Some(prost_types::Timestamp { seconds: 1_780_000_000, nanos: 7 }),
    }
}

/// The methods, each with messages that it takes.
pub(super) async fn methods(server: &mut TestServer) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let token = acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner()).token;
    let second = Some(prost_types::Duration { seconds: 1, nanos: 5 });
    let (key, bytes) = (key("c", "1"), bytes::Bytes::from_static(b"some bytes"));
    let claim = proto::ClaimRequest {
        claim_id: "9b2e3a6c-53a1-4c6f-8e07-0b8a3f1d2c4e".into(),
        lease: second,
        fingerprint: bytes.clone(),
        occurred_at: Some(prost_types::Timestamp { seconds: 1_780_000_000, nanos: 7 }),
        wait: second,
        ..claim("c", "2")
    };
    let renew = proto::RenewRequest {
        key: key.clone(),
        token,
        lease: second,
        effect_started: true,
        checkpoint: Some(bytes.clone()),
    };
    let complete = proto::CompleteRequest {
        key: key.clone(),
        token,
        result: bytes.clone(),
        result_left_out: true,
        event_type: String::new(),
    };
    let fail = proto::FailRequest {
        key: key.clone(),
        token,
        kind: 3,
        error: "why".into(),
        retry_after: second,
        event_type: "paid".into(),
    };
    let release = proto::ReleaseRequest {
        key: key.clone(),
        token,
        delay: second,
        unpin_fingerprint: false,
        event_type: String::new(),
    };
    let actions = [
        Action::Renew(renew.clone()),
        Action::Complete(complete.clone()),
        Action::Fail(fail.clone()),
        Action::Release(release.clone()),
    ];
    let settlements = actions.map(|action| proto::Settlement { action: Some(action) }).to_vec();
    let list = proto::ListEntriesRequest {
        filter: Some(proto::EntryFilter { consumer: "c".into(), ..Default::default() }),
        page_size: 3,
        ..Default::default()
    };
    let audit = proto::ListAuditEventsRequest { consumer: "c".into(), page_size: 2, ..Default::default() };
    let policy = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: "policy".into(),
        reason: "why".into(),
        policy: Some(proto::Policy { lease: second, max_attempts: Some(3), ..Default::default() }),
        ..Default::default()
    };
    let single = proto::RedriveEntryRequest {
        key: key.clone(),
        request_id: "single".into(),
        reason: "why".into(),
        expected_version: 1,
        ..Default::default()
    };
    let parked = proto::EntryFilter {
        consumer: "c".into(),
        source: "tests".into(),
        id_prefix: "1".into(),
        states: vec![proto::EntryState::Parked.into()],
        causes: vec![proto::ParkCause::Consumer.into()],
        min_age: second,
        owner: "worker".into(),
        error_contains: "poison".into(),
        parked_max_age: second,
        inbox: proto::MessageState::Kept.into(),
        ..Default::default()
    };
    let group = proto::GroupEntriesRequest { filter: Some(parked.clone()), maximum: 3 };
    let many = proto::RedriveEntriesRequest {
        filter: Some(parked),
        operation_id: "many".into(),
        reason: "why".into(),
        rate: 1_000,
        ..Default::default()
    };
    let failed = vec![proto::EntryState::FailedRetryable.into()];
    let park_many = proto::ParkEntriesRequest {
        filter: many.filter.clone().map(|filter| proto::EntryFilter {
            states: failed,
            causes: Vec::new(),
            ..filter
        }),
        operation_id: "park many".into(),
        reason: "why".into(),
        rate: 1_000,
        ..Default::default()
    };
    let resolve_many = proto::ResolveEntriesRequest {
        filter: many.filter.clone(),
        operation_id: "resolve many".into(),
        reason: "why".into(),
        rate: 1_000,
        state: proto::EntryState::FailedTerminal.into(),
        evidence: "seen".into(),
        ..Default::default()
    };
    let in_run = |key: &Option<proto::EntryKey>| {
        key.clone().map(|key| proto::EntryKey { replay_run: "r.1_A-z".into(), ..key })
    };
    let replayed = proto::ClaimRequest { key: in_run(&claim.key), ..claim.clone() };
    let settled = proto::CompleteRequest { key: in_run(&key), ..complete.clone() };
    let looks = [key.clone(), in_run(&key)].map(|key| proto::LookupRequest { key, wait: second });
    let create = proto::CreateReplayRunRequest {
        consumer: "c".into(),
        replay_run: "r.1_A-z".into(),
        request_id: "create".into(),
        reason: "why".into(),
        ends_in: Some(prost_types::Duration { seconds: 3_600, nanos: 0 }),
    };
    let close = proto::CloseReplayRunRequest {
        consumer: "c".into(),
        replay_run: "s".into(),
        request_id: "close".into(),
        reason: "why".into(),
    };
    let runs = proto::ListReplayRunsRequest { consumer: "c".into(), page_size: 1, page_token: "a".into() };
    // Not of the consumers that all else is about.
    let hold = proto::HoldConsumersRequest {
        prefix: "held-".into(),
        all: false,
        request_id: "hold".into(),
        reason: "why".into(),
    };
    let proto::HoldConsumersRequest { prefix, all, reason, .. } = hold.clone();
    let resume = proto::ResumeConsumersRequest { prefix, all, request_id: "resume".into(), reason };
    let holds = proto::ListHoldsRequest { prefix: "held".into() };
    // There are runs to claim in, to close and to list.
    let rebuild =
        proto::Policy { replay: proto::ReplayMode::Rebuild.into(), inbox: Some(true), ..Default::default() };
    let request_id = "rebuild".into();
    let allow = proto::SetPolicyRequest { policy: Some(rebuild), request_id, ..policy.clone() };
    server.admin.set_policy(allow).await.unwrap();
    server.admin.create_replay_run(create.clone()).await.unwrap();
    let other = proto::CreateReplayRunRequest {
        replay_run: "s".into(),
        request_id: "other".into(),
        ..create.clone()
    };
    server.admin.create_replay_run(other).await.unwrap();
    let effect = proto::ReconcileRow {
        key: key.clone(),
        at: Some(prost_types::Timestamp { seconds: 1_780_000_000, nanos: 5_000 }),
        evidence: proto::EffectEvidence::Spool.into(),
        result: bytes.clone(),
        fingerprint: b"print".to_vec().into(),
    };
    let reconcile =
        proto::ReconcileEntriesRequest { reason: "why".into(), dry_run: false, rows: vec![effect] };
    let row = proto::ImportedEntry { key: key.clone(), result: bytes, ..Default::default() };
    let import = proto::ImportEntriesRequest {
        operation_id: "import".into(),
        reason: "why".into(),
        entries: vec![row],
    };
    let stores = ["1", "kept"].map(stored_message);
    for store in stores.clone() {
        server.client.store(store).await.unwrap();
    }
    let next = proto::ClaimNextRequest {
        consumer: "c".into(),
        claim_id: "5b0c3a1e-8d54-4f0a-9e3c-2f6d7b1a4c3d".into(),
        owner: "worker".into(),
        lease: second,
        max: 2,
        bytes_max: 1_000,
        wait: second,
    };
    let read = proto::GetMessageRequest { key: stores[1].key.clone(), reason: "why".into() };
    vec![
        ("LedgerService/Store", stores.iter().map(Message::encode_to_vec).collect()),
        (
            "LedgerService/BatchStore",
            vec![proto::BatchStoreRequest { requests: stores.to_vec() }.encode_to_vec()],
        ),
        ("LedgerService/ClaimNext", vec![next.encode_to_vec()]),
        ("AdminService/GetMessage", vec![read.encode_to_vec()]),
        ("LedgerService/Claim", vec![claim.encode_to_vec(), replayed.encode_to_vec()]),
        ("LedgerService/Renew", vec![renew.encode_to_vec()]),
        ("LedgerService/Complete", vec![complete.encode_to_vec(), settled.encode_to_vec()]),
        ("LedgerService/Fail", vec![fail.encode_to_vec()]),
        ("LedgerService/Release", vec![release.encode_to_vec()]),
        (
            "LedgerService/BatchClaim",
            vec![proto::BatchClaimRequest { requests: vec![claim.clone(), replayed, claim] }.encode_to_vec()],
        ),
        ("LedgerService/Lookup", looks.iter().map(Message::encode_to_vec).collect()),
        (
            "LedgerService/BatchLookup",
            vec![proto::BatchLookupRequest { requests: looks.to_vec() }.encode_to_vec()],
        ),
        ("LedgerService/BatchSettle", vec![proto::BatchSettleRequest { settlements }.encode_to_vec()]),
        ("AdminService/GetEntry", vec![proto::GetEntryRequest { key, ..Default::default() }.encode_to_vec()]),
        ("AdminService/ListEntries", vec![list.encode_to_vec()]),
        ("AdminService/GroupEntries", vec![group.encode_to_vec()]),
        ("AdminService/SummarizeEntries", vec![proto::SummarizeEntriesRequest::default().encode_to_vec()]),
        ("AdminService/ListAuditEvents", vec![audit.encode_to_vec()]),
        ("AdminService/SetPolicy", vec![policy.encode_to_vec()]),
        ("AdminService/RedriveEntry", vec![single.encode_to_vec()]),
        ("AdminService/RedriveEntries", vec![many.encode_to_vec()]),
        ("AdminService/ParkEntries", vec![park_many.encode_to_vec()]),
        ("AdminService/ResolveEntries", vec![resolve_many.encode_to_vec()]),
        ("AdminService/ImportEntries", vec![import.encode_to_vec()]),
        ("AdminService/ReconcileEntries", vec![reconcile.encode_to_vec()]),
        ("AdminService/CreateReplayRun", vec![create.encode_to_vec()]),
        ("AdminService/CloseReplayRun", vec![close.encode_to_vec()]),
        ("AdminService/ListReplayRuns", vec![runs.encode_to_vec()]),
        ("AdminService/HoldConsumers", vec![hold.encode_to_vec()]),
        ("AdminService/ResumeConsumers", vec![resume.encode_to_vec()]),
        ("AdminService/ListHolds", vec![holds.encode_to_vec()]),
    ]
}

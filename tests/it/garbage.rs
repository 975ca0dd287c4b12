//! Bytes that are no message: texts that are no UTF-8, cut and mangled messages and frames. Each is
//! refused as bad input, with the field's name where there is one, and changes nothing.

use idempotency_ledger::domain::Key;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::{self, settlement::Action};
use prost::Message;
use tonic::codec::CompressionEncoding;
use tonic::{Code, Status};
use tower::{Service as _, ServiceExt as _};

use crate::harness::details::{acquired, claim, fields, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::raw::{channel, send};
use crate::harness::server::{Kind, TestServer};

on_both_stores!(
    messages_that_can_not_be_read_are_refused_by_field,
    frames_that_can_not_be_read_are_refused,
    a_compressed_message_is_measured_unpacked,
    page_tokens_with_bytes_that_no_store_takes_are_refused,
);

const GOOD: &str = "good-text";

/// The message, in which the one text `GOOD` is no UTF-8 any more.
fn spoilt(message: &impl Message) -> Vec<u8> {
    let mut bytes = message.encode_to_vec();
    let at = bytes.windows(GOOD.len()).position(|window| window == GOOD.as_bytes()).unwrap();
    bytes[at + 3] = 0xff;
    bytes
}

async fn messages_that_can_not_be_read_are_refused_by_field(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let token = acquired(&server.client.claim(claim("c", "held")).await.unwrap().into_inner()).token;
    let before = server.entry(&Key::new("c", "tests", "held")).await;
    let channel = channel(&server).await;

    let good = || key("c", GOOD);
    let owner = proto::ClaimRequest { owner: GOOD.into(), ..claim("c", "owner") };
    let requests = vec![claim("c", "neighbour"), claim("c", GOOD)];
    let complete = proto::CompleteRequest { key: good(), token, ..Default::default() };
    let error = proto::FailRequest { key: key("c", "held"), token, error: GOOD.into(), ..Default::default() };
    let settlements = vec![
        proto::Settlement {
            action: Some(Action::Complete(proto::CompleteRequest {
                key: key("c", "held"),
                token,
                ..Default::default()
            })),
        },
        proto::Settlement { action: Some(Action::Fail(proto::FailRequest { key: good(), ..error.clone() })) },
    ];
    let consumer = proto::ListEntriesRequest {
        filter: Some(proto::EntryFilter { consumer: GOOD.into(), ..Default::default() }),
        ..Default::default()
    };
    let many = proto::RedriveEntriesRequest { filter: consumer.filter.clone(), ..Default::default() };
    let park = proto::ParkEntriesRequest { filter: consumer.filter.clone(), ..Default::default() };
    let resolve = proto::ResolveEntriesRequest { filter: consumer.filter.clone(), ..Default::default() };
    let group = proto::GroupEntriesRequest { filter: consumer.filter.clone(), maximum: 0 };
    let row = proto::ImportedEntry { key: good(), ..Default::default() };
    let import = proto::ImportEntriesRequest { entries: vec![row], ..Default::default() };
    let effect = proto::ReconcileRow { key: good(), ..Default::default() };
    let reconcile = proto::ReconcileEntriesRequest { rows: vec![effect], ..Default::default() };
    let replayed =
        |run: &str| key("c", "replayed").map(|key| proto::EntryKey { replay_run: run.into(), ..key });
    let in_run = proto::ClaimRequest { key: replayed(GOOD), ..claim("c", "replayed") };
    let release = proto::ReleaseRequest {
        key: replayed(GOOD),
        token,
        delay: None,
        unpin_fingerprint: false,
        event_type: String::new(),
    };
    let look = |key| proto::LookupRequest { key, ..Default::default() };
    let looks = vec![look(key("c", "neighbour")), look(good())];
    let requests_in_run = vec![claim("c", "neighbour"), in_run.clone()];
    let of_run = proto::ListEntriesRequest {
        filter: Some(proto::EntryFilter { replay_run: GOOD.into(), ..Default::default() }),
        ..Default::default()
    };
    let create = |consumer: &str, run: &str, reason: &str| proto::CreateReplayRunRequest {
        consumer: consumer.into(),
        replay_run: run.into(),
        reason: reason.into(),
        request_id: "r".into(),
        ends_in: None,
    };
    let close = |run: &str, request_id: &str| proto::CloseReplayRunRequest {
        consumer: "c".into(),
        replay_run: run.into(),
        reason: "why".into(),
        request_id: request_id.into(),
    };
    let runs = |consumer: &str, page_token: &str| proto::ListReplayRunsRequest {
        consumer: consumer.into(),
        page_token: page_token.into(),
        ..Default::default()
    };
    let hold = |prefix: &str, reason: &str| proto::HoldConsumersRequest {
        prefix: prefix.into(),
        reason: reason.into(),
        request_id: "r".into(),
        all: false,
    };
    let resume = proto::ResumeConsumersRequest { prefix: GOOD.into(), ..Default::default() };
    let holds = proto::ListHoldsRequest { prefix: GOOD.into() };
    let mut cut = claim("c", "cut").encode_to_vec();
    cut.pop();
    // Field 23 is a message, and has a number here.
    let wrong_wait = [claim("c", "cut").encode_to_vec(), vec![0xb8, 1, 7]].concat();
    // A field of a number that nobody knows is no fault; one of a wrong type is.
    let wrong_type = vec![(1 << 3), 7];

    let rows = [
        ("LedgerService/Claim", vec![0xff; 40], "request", "RETRY_LATER"),
        ("LedgerService/Claim", b"{\"key\": {}}".to_vec(), "request", "RETRY_LATER"),
        ("LedgerService/Claim", cut, "owner", "RETRY_LATER"),
        ("LedgerService/Claim", wrong_type, "key", "RETRY_LATER"),
        ("LedgerService/Claim", wrong_wait, "wait", "RETRY_LATER"),
        ("LedgerService/Claim", spoilt(&claim("c", GOOD)), "key.id", "DEAD_LETTER"),
        ("LedgerService/Claim", spoilt(&claim(GOOD, "1")), "key.consumer", "RETRY_LATER"),
        ("LedgerService/Claim", spoilt(&owner), "owner", "RETRY_LATER"),
        ("LedgerService/Complete", spoilt(&complete), "key.id", "DEAD_LETTER"),
        ("LedgerService/Fail", spoilt(&error), "error", "RETRY_LATER"),
        // Of a batch nobody can say which message it was: no other may be dead-lettered for it.
        (
            "LedgerService/BatchClaim",
            spoilt(&proto::BatchClaimRequest { requests }),
            "requests.key.id",
            "RETRY_LATER",
        ),
        (
            "LedgerService/BatchSettle",
            spoilt(&proto::BatchSettleRequest { settlements }),
            "settlements.action.key.id",
            "RETRY_LATER",
        ),
        (
            "AdminService/GetEntry",
            spoilt(&proto::GetEntryRequest { key: good(), ..Default::default() }),
            "key.id",
            "DEAD_LETTER",
        ),
        ("LedgerService/Lookup", spoilt(&look(good())), "key.id", "DEAD_LETTER"),
        ("LedgerService/Lookup", spoilt(&look(key(GOOD, "1"))), "key.consumer", "RETRY_LATER"),
        ("LedgerService/Lookup", spoilt(&look(replayed(GOOD))), "key.replay_run", "RETRY_LATER"),
        ("LedgerService/Lookup", b"{\"key\": {}}".to_vec(), "request", "RETRY_LATER"),
        (
            "LedgerService/BatchLookup",
            spoilt(&proto::BatchLookupRequest { requests: looks }),
            "requests.key.id",
            "RETRY_LATER",
        ),
        ("AdminService/ListEntries", spoilt(&consumer), "filter.consumer", "RETRY_LATER"),
        ("AdminService/GroupEntries", spoilt(&group), "filter.consumer", "RETRY_LATER"),
        ("AdminService/RedriveEntries", spoilt(&many), "filter.consumer", "RETRY_LATER"),
        ("AdminService/ParkEntries", spoilt(&park), "filter.consumer", "RETRY_LATER"),
        ("AdminService/ResolveEntries", spoilt(&resolve), "filter.consumer", "RETRY_LATER"),
        ("AdminService/ImportEntries", spoilt(&import), "entries.key.id", "RETRY_LATER"),
        ("AdminService/ReconcileEntries", spoilt(&reconcile), "rows.key.id", "RETRY_LATER"),
        ("LedgerService/Claim", spoilt(&in_run), "key.replay_run", "RETRY_LATER"),
        ("LedgerService/Release", spoilt(&release), "key.replay_run", "RETRY_LATER"),
        (
            "LedgerService/BatchClaim",
            spoilt(&proto::BatchClaimRequest { requests: requests_in_run }),
            "requests.key.replay_run",
            "RETRY_LATER",
        ),
        (
            "AdminService/GetEntry",
            spoilt(&proto::GetEntryRequest { key: replayed(GOOD), ..Default::default() }),
            "key.replay_run",
            "RETRY_LATER",
        ),
        ("AdminService/ListEntries", spoilt(&of_run), "filter.replay_run", "RETRY_LATER"),
        ("AdminService/CreateReplayRun", spoilt(&create(GOOD, "r", "why")), "consumer", "RETRY_LATER"),
        ("AdminService/CreateReplayRun", spoilt(&create("c", GOOD, "why")), "replay_run", "RETRY_LATER"),
        ("AdminService/CreateReplayRun", spoilt(&create("c", "r", GOOD)), "reason", "RETRY_LATER"),
        ("AdminService/CloseReplayRun", spoilt(&close(GOOD, "r")), "replay_run", "RETRY_LATER"),
        ("AdminService/CloseReplayRun", spoilt(&close("r", GOOD)), "request_id", "RETRY_LATER"),
        ("AdminService/ListReplayRuns", spoilt(&runs(GOOD, "")), "consumer", "RETRY_LATER"),
        ("AdminService/HoldConsumers", spoilt(&hold(GOOD, "why")), "prefix", "RETRY_LATER"),
        ("AdminService/HoldConsumers", spoilt(&hold("p", GOOD)), "reason", "RETRY_LATER"),
        ("AdminService/ResumeConsumers", spoilt(&resume), "prefix", "RETRY_LATER"),
        ("AdminService/ListHolds", spoilt(&holds), "prefix", "RETRY_LATER"),
        ("AdminService/ListReplayRuns", spoilt(&runs("c", GOOD)), "page_token", "RETRY_LATER"),
    ];
    for (method, bytes, field, advice) in rows {
        let status = send(&channel, method, bytes).await.unwrap_err();
        let refused = refusal(&status);
        assert_eq!(
            (refused.code, refused.reason.as_str(), refused.advice.as_str()),
            (Code::InvalidArgument, "INVALID_FIELD", advice),
            "{method} {field}: {status:?}"
        );
        assert_eq!(fields(&status), [field], "{method}: {status:?}");
    }
    assert_eq!(server.entry(&Key::new("c", "tests", "held")).await, before, "nothing was changed");
    for id in ["neighbour", "owner", "cut", "1", GOOD] {
        assert_eq!(server.entry(&Key::new("c", "tests", id)).await, None, "{id}");
    }
    // What a newer client sends besides is no fault.
    let mut newer = claim("c", "newer").encode_to_vec();
    newer.extend([0xc0, 0x3e, 7]);
    send(&channel, "LedgerService/Claim", newer).await.unwrap();
    assert!(server.entry(&Key::new("c", "tests", "newer")).await.is_some());
    server.stop().await;
}

/// A gRPC frame: its flag, the length that it claims to have, and its content.
fn frame(flag: u8, length: usize, content: &[u8]) -> String {
    let mut bytes = vec![flag];
    bytes.extend(u32::try_from(length).unwrap().to_be_bytes());
    bytes.extend(content);
    String::from_utf8(bytes).unwrap()
}

async fn frames_that_can_not_be_read_are_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    let channel = channel(&server).await;
    let message = claim("c", "framed").encode_to_vec();
    let length = message.len();
    let rows = [
        ("no frame", "identity", String::new(), "INVALID_FIELD"),
        ("half a header", "identity", "\0\0".into(), "INVALID_FIELD"),
        ("an unknown flag", "identity", frame(7, length, &message), "INVALID_FIELD"),
        ("cut short", "identity", frame(0, length + 9, &message), "INVALID_FIELD"),
        ("compressed by nothing", "identity", frame(1, length, &message), "INVALID_FIELD"),
        ("no gzip", "gzip", frame(1, length, &message), "INVALID_FIELD"),
        ("larger than any request", "identity", frame(0, 0x7f7f_7f7f, &message), "TOO_LARGE"),
    ];
    for (what, encoding, body, reason) in rows {
        let mut channel = channel.clone();
        let request = http::Request::post(format!(
            "http://{}/idempotency.ledger.v1.LedgerService/Claim",
            server.address()
        ))
        .header("content-type", "application/grpc")
        .header("grpc-encoding", encoding)
        .body(tonic::body::Body::new(body))
        .unwrap();
        let answer = channel.ready().await.unwrap().call(request).await.unwrap();
        let status =
            Status::from_header_map(answer.headers()).unwrap_or_else(|| panic!("{what}: {answer:?}"));
        assert_eq!(status.code(), Code::InvalidArgument, "{what}: {status:?}");
        let refused = refusal(&status);
        assert_eq!((refused.reason.as_str(), refused.advice.as_str()), (reason, "RETRY_LATER"), "{what}");
        assert_eq!(server.entry(&Key::new("c", "tests", "framed")).await, None, "{what}");
    }
    server.stop().await;
}

async fn a_compressed_message_is_measured_unpacked(kind: Kind) {
    let server = TestServer::start(kind).await;
    let mut client =
        LedgerServiceClient::new(channel(&server).await).send_compressed(CompressionEncoding::Gzip);
    acquired(&client.claim(claim("c", "small")).await.unwrap().into_inner());
    // Some 60 KiB on the wire.
    let bomb = proto::ClaimRequest { fingerprint: vec![0; 64 << 20].into(), ..claim("c", "bomb") };
    let status = client.claim(bomb).await.unwrap_err();
    let refused = refusal(&status);
    assert_eq!((refused.code, refused.reason.as_str()), (Code::InvalidArgument, "TOO_LARGE"));
    assert!(status.message().contains("3670016 bytes"), "the limit is named: {}", status.message());
    assert_eq!(server.entry(&Key::new("c", "tests", "bomb")).await, None);
    server.stop().await;
}

/// A page token is a text of the client's: what stands in it reaches the store only where it can.
async fn page_tokens_with_bytes_that_no_store_takes_are_refused(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for request_id in ["one", "two"] {
        let policy = proto::Policy { max_attempts: Some(3), ..Default::default() };
        let version = i32::from(request_id == "two");
        let request = proto::SetPolicyRequest {
            consumer: "c".into(),
            request_id: request_id.into(),
            reason: "why".into(),
            expected_version: version,
            policy: Some(policy),
            ..Default::default()
        };
        server.admin.set_policy(request).await.unwrap();
    }
    let list = |page_token: String| proto::ListAuditEventsRequest {
        consumer: "c".into(),
        page_size: 1,
        page_token,
        ..Default::default()
    };
    let page = server.admin.list_audit_events(list(String::new())).await.unwrap().into_inner();
    let sound = page.next_page_token;
    assert_eq!(
        server.admin.list_audit_events(list(sound.clone())).await.unwrap().into_inner().events.len(),
        1
    );
    for token in [format!("{sound}\0"), format!("{sound}\u{1b}"), format!("{sound}{}", "x".repeat(300))] {
        let status = server.admin.list_audit_events(list(token.clone())).await.unwrap_err();
        let refused = refusal(&status);
        assert_eq!(
            (refused.code, refused.reason.as_str()),
            (Code::InvalidArgument, "INVALID_FIELD"),
            "{token:?}"
        );
        assert_eq!(fields(&status), ["page_token"], "{token:?}");
    }
    // That of runs is the name of a run.
    let policy = proto::Policy { replay: proto::ReplayMode::Rebuild.into(), ..Default::default() };
    let request = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: "three".into(),
        reason: "why".into(),
        expected_version: 2,
        policy: Some(policy),
        ..Default::default()
    };
    server.admin.set_policy(request).await.unwrap();
    for run in ["a", "b"] {
        let request = proto::CreateReplayRunRequest {
            consumer: "c".into(),
            replay_run: run.into(),
            request_id: run.into(),
            reason: "why".into(),
            ends_in: None,
        };
        server.admin.create_replay_run(request).await.unwrap();
    }
    let list =
        |page_token: String| proto::ListReplayRunsRequest { consumer: "c".into(), page_size: 1, page_token };
    let page = server.admin.list_replay_runs(list(String::new())).await.unwrap().into_inner();
    let sound = page.next_page_token;
    assert_eq!(server.admin.list_replay_runs(list(sound.clone())).await.unwrap().into_inner().runs.len(), 1);
    for token in [format!("{sound}\0"), format!("{sound}\u{1b}"), format!("{sound}{}", "x".repeat(300))] {
        let status = server.admin.list_replay_runs(list(token.clone())).await.unwrap_err();
        let refused = refusal(&status);
        assert_eq!(
            (refused.code, refused.reason.as_str()),
            (Code::InvalidArgument, "INVALID_FIELD"),
            "{token:?}"
        );
        assert_eq!(fields(&status), ["page_token"], "{token:?}");
    }
    server.stop().await;
}

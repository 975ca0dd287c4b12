//! Answers stay within what clients take, whatever was asked and however the server is configured: an error's
//! trailers below 6 KiB, a batch's answer below `batch_bytes_max`.

use std::collections::HashSet;

use bytes::Bytes;
use idempotency_ledger::domain::{ClosedBy, Entry, Key, Policy, Span, State};
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::lookup_result::Outcome as Looked;
use idempotency_ledger::proto::settlement::Action;
use idempotency_ledger::proto::settlement_result::Outcome;
use idempotency_ledger::proto::{self, claim_response::Verdict};
use idempotency_ledger::rpc::Limits;
use prost::Message as _;
use prost_types::FieldMask;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::harness::details::{acquired, claim, completed, fields, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(
    an_error_of_any_request_fits_what_clients_take,
    a_batch_of_refused_items_fits,
    a_batch_of_grants_at_the_largest_limits_fits_and_grants_all,
    texts_are_cut_only_where_a_batch_is_too_large,
);

const MARK: &str = "… [truncated]";
const BATCH_BYTES: usize = 3_670_016;

/// As it comes: with the limits that tonic has by itself, or with a smaller one for all header fields together.
async fn channel(server: &TestServer, header_bytes_max: Option<u32>) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address())).unwrap();
    let endpoint = match header_bytes_max {
        Some(max) => endpoint.http2_max_header_list_size(max),
        None => endpoint,
    };
    endpoint.connect().await.unwrap()
}

/// What the trailers of an error cost, as they were sent: HTTP/2 counts 32 bytes for each field besides.
fn sent(status: &Status) -> usize {
    let response: http::Response<()> = status.clone().into_http();
    response.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum()
}

async fn an_error_of_any_request_fits_what_clients_take(kind: Kind) {
    let server = TestServer::start(kind).await;
    let masks = [
        vec!["no_such_field".to_owned(); 100],
        (0..100).map(|number| format!("field_{number}_").repeat(2_500)).collect(),
        vec![String::new(); 1_000_000],
        vec!["\u{7f}é ".repeat(500_000)],
    ];
    for header_bytes_max in [None, Some(16 << 10), Some(8 << 10)] {
        let channel = channel(&server, header_bytes_max).await;
        let mut admin = AdminServiceClient::new(channel.clone());
        for paths in &masks {
            let (count, request) = (
                paths.len(),
                proto::SetPolicyRequest {
                    consumer: "c".into(),
                    request_id: "r".into(),
                    reason: "a test".into(),
                    policy: Some(proto::Policy { disabled: Some(true), ..Default::default() }),
                    update_mask: Some(FieldMask { paths: paths.clone() }),
                    ..Default::default()
                },
            );
            let status = admin.set_policy(request).await.unwrap_err();
            let refused = refusal(&status);
            assert_eq!((refused.code, refused.reason.as_str()), (Code::InvalidArgument, "INVALID_FIELD"));
            assert!(sent(&status) < 6 << 10, "{} bytes of trailers", sent(&status));
            let listed = fields(&status);
            assert!(
                !listed.is_empty() && listed.iter().all(|field| field == "update_mask" || field == "policy")
            );
            if count >= 100 {
                let info = status.get_error_details().error_info().cloned().unwrap();
                let left_out: usize = info.metadata["violations_omitted"].parse().unwrap();
                // That the policy then sets nothing is one fault more.
                assert_eq!(left_out + listed.len(), count + 1);
                let end = format!("; {left_out} more faults are not listed");
                assert!(status.message().ends_with(&end), "{}", status.message());
            }
        }
        // Every field of a claim, as wrong and as long as can be.
        let long = "\u{1}".repeat(500_000);
        let request = proto::ClaimRequest {
            key: Some(proto::EntryKey {
                consumer: long.clone(),
                source: long.clone(),
                id: long.clone(),
                ..Default::default()
            }),
            claim_id: long.clone(),
            owner: long,
            lease: Some(prost_types::Duration { seconds: -1, nanos: 7 }),
            ..Default::default()
        };
        let status = LedgerServiceClient::new(channel).claim(request).await.unwrap_err();
        assert_eq!(refusal(&status).reason, "INVALID_FIELD");
        assert!(sent(&status) < 6 << 10);
        assert_eq!(fields(&status).iter().collect::<HashSet<_>>().len(), 6, "{status:?}");
    }
    server.stop().await;
}

async fn a_batch_of_refused_items_fits(kind: Kind) {
    for (batch_bytes, whole) in [(BATCH_BYTES, true), (65_536, false)] {
        let limits = Limits { batch_bytes, ..Limits::default() };
        let server = TestServer::start_with(kind, Setup { limits, ..Setup::default() }).await;
        let mut client = LedgerServiceClient::new(channel(&server, None).await);
        let bad = proto::ClaimRequest {
            key: Some(proto::EntryKey { consumer: "\u{1}".into(), ..Default::default() }),
            claim_id: "7".into(),
            owner: "\u{1}".into(),
            ..Default::default()
        };
        let requests = vec![proto::ClaimRequest { claim_id: String::new(), ..bad }; 1_000];
        let answer = client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap().into_inner();
        assert!(answer.encoded_len() <= batch_bytes, "{} bytes", answer.encoded_len());
        assert_eq!(answer.responses.len(), 1_000);
        for (number, response) in answer.responses.iter().enumerate() {
            let Some(Verdict::Rejected(rejected)) = &response.verdict else { panic!("{response:?}") };
            assert_eq!(rejected.reason(), proto::ErrorReason::InvalidField);
            let paths: Vec<_> = rejected.field_violations.iter().map(|one| one.field.as_str()).collect();
            let path = |field: &str| format!("requests[{number}].{field}");
            let all = ["key.consumer", "key.source", "key.id", "owner"].map(path);
            assert!(if whole { paths == all } else { paths.is_empty() }, "{paths:?}");
        }
        let key = Some(proto::EntryKey { consumer: "\u{1}".into(), ..Default::default() });
        let requests = vec![proto::LookupRequest { key, ..Default::default() }; 1_000];
        let answer = client.batch_lookup(proto::BatchLookupRequest { requests }).await.unwrap().into_inner();
        assert!(answer.encoded_len() <= batch_bytes, "{} bytes", answer.encoded_len());
        assert_eq!(answer.responses.len(), 1_000);
        for (number, response) in answer.responses.iter().enumerate() {
            let Some(Looked::Rejected(rejected)) = &response.outcome else { panic!("{response:?}") };
            assert_eq!(rejected.reason(), proto::ErrorReason::InvalidField);
            let paths: Vec<_> = rejected.field_violations.iter().map(|one| one.field.as_str()).collect();
            let all =
                ["key.consumer", "key.source", "key.id"].map(|field| format!("requests[{number}].{field}"));
            assert!(if whole { paths == all } else { paths.len() < 3 }, "{paths:?}");
        }
        let settlements = vec![proto::Settlement { action: None }; 1_000];
        let answer =
            client.batch_settle(proto::BatchSettleRequest { settlements }).await.unwrap().into_inner();
        assert!(answer.encoded_len() <= batch_bytes, "{} bytes", answer.encoded_len());
        assert_eq!(answer.results.len(), 1_000);
        for result in answer.results {
            let Some(Outcome::Rejected(rejected)) = result.outcome else { panic!("{result:?}") };
            assert_eq!(
                (rejected.reason(), rejected.advice()),
                (proto::ErrorReason::InvalidField, proto::Advice::RetryLater)
            );
        }
        server.stop().await;
    }
}

/// Entries whose last attempt failed, with an error and, some of them, a checkpoint of these sizes.
async fn failed(
    server: &TestServer,
    error: impl Fn(usize) -> usize,
    checkpoint: impl Fn(usize) -> usize,
) -> Vec<String> {
    let mut template = server.client.clone().claim(claim("c", "template")).await.unwrap().into_inner();
    acquired(&template);
    template.verdict = None;
    let template = server.entry(&Key::new("c", "tests", "template")).await.unwrap();
    let ids: Vec<String> = (0..1_000).map(|number| format!("m{number}")).collect();
    let entries: Vec<Entry> = ids
        .iter()
        .enumerate()
        .map(|(number, id)| Entry {
            key: Key::new("c", "tests", id),
            token: template.token + 1 + number as i64,
            state: State::FailedRetryable,
            closed_by: ClosedBy::FailRetryable,
            closed_at: Some(template.granted_at),
            not_before: template.granted_at,
            last_error: "e".repeat(error(number)),
            checkpoint: Bytes::from(vec![7; checkpoint(number)]),
            ..template.clone()
        })
        .collect();
    for part in entries.chunks(100) {
        server.put(part).await;
    }
    server.advance(Span::from_secs(60)).await;
    ids
}

async fn a_batch_of_grants_at_the_largest_limits_fits_and_grants_all(kind: Kind) {
    let limits = Limits { error: 65_536, checkpoint: 1 << 20, ..Limits::default() };
    let server = TestServer::start_with(kind, Setup { limits, ..Setup::default() }).await;
    // A third of them with the longest errors, which are more than five times what fits.
    let error = |number: usize| if number.is_multiple_of(3) { 65_536 } else { 3_000 };
    let ids = failed(&server, error, |number| if number.is_multiple_of(100) { 1 << 20 } else { 3 }).await;
    let mut client = LedgerServiceClient::new(channel(&server, None).await);
    let requests = ids.iter().map(|id| claim("c", id)).collect();
    let answer = client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap().into_inner();
    let bytes = answer.encoded_len();
    assert!((BATCH_BYTES * 9 / 10..=BATCH_BYTES).contains(&bytes), "{bytes} bytes");
    let mut tokens = HashSet::new();
    for (number, response) in answer.responses.iter().enumerate() {
        let held = acquired(response);
        assert!(tokens.insert(held.token), "a token for each");
        assert!(held.checkpoint_omitted && held.checkpoint.is_empty(), "checkpoints go before errors");
        let (length, cut) = (held.last_error.len(), held.last_error.ends_with(MARK));
        assert!(
            if error(number) == 3_000 { length == 3_000 && !cut } else { length > 3_000 && cut },
            "{length}"
        );
    }
    // Not one of the leases is stuck.
    let settlements = ids.iter().zip(&answer.responses).map(|(id, held)| proto::Settlement {
        action: Some(Action::Complete(proto::CompleteRequest {
            key: key("c", id),
            token: acquired(held).token,
            result: Bytes::from(vec![7; 3_500]),
            result_left_out: false,
            event_type: String::new(),
        })),
    });
    let settlements: Vec<_> = settlements.collect();
    for part in settlements.chunks(500) {
        let answer = client.batch_settle(proto::BatchSettleRequest { settlements: part.to_vec() }).await;
        for result in answer.unwrap().into_inner().results {
            assert!(matches!(result.outcome, Some(Outcome::Complete(_))), "{result:?}");
        }
    }
    let requests = ids.iter().map(|id| claim("c", id)).collect();
    let answer = client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap().into_inner();
    assert!(answer.encoded_len() <= BATCH_BYTES);
    for response in &answer.responses {
        let done = completed(response);
        assert!(!done.result_omitted && done.result.len() == 3_500, "what fits is not left out");
    }
    server.stop().await;
}

async fn texts_are_cut_only_where_a_batch_is_too_large(kind: Kind) {
    let limits = Limits { error: 65_536, batch_bytes: 400_000, ..Limits::default() };
    let policy = Policy { max_attempts: 0, ..Policy::default() };
    let server = TestServer::start_with(kind, Setup { limits, ..Setup::default() }.with("c", policy)).await;
    let ids = failed(&server, |_| 60_000, |_| 0).await;
    let mut client = LedgerServiceClient::new(channel(&server, None).await);
    for (count, whole) in [(1, true), (6, true), (7, false), (50, false)] {
        let requests: Vec<_> = ids.iter().take(count).map(|id| claim("c", id)).collect();
        let settlements = requests.clone();
        let answer = client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap().into_inner();
        assert!(answer.encoded_len() <= 400_000);
        for (request, response) in settlements.into_iter().zip(&answer.responses) {
            let held = acquired(response);
            assert_eq!(held.last_error.len() == 60_000, whole, "{count}");
            assert_eq!(held.last_error.ends_with(MARK), !whole, "{count}");
            let release = proto::ReleaseRequest {
                key: request.key,
                token: held.token,
                delay: None,
                unpin_fingerprint: false,
                event_type: String::new(),
            };
            client.release(release).await.unwrap();
        }
    }
    server.stop().await;
}

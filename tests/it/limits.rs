//! Bad input: every limit at its edge, every malformed field; what is wrong is named with its
//! limit, and nothing is changed.

mod batches;

use bytes::Bytes;
use idempotency_ledger::domain::{Key, Policy};
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::settlement::Action;
use idempotency_ledger::proto::settlement_result::Outcome;
use idempotency_ledger::proto::{self, claim_response::Verdict};
use prost_types::{Duration, Timestamp};
use tonic::Code;
use tonic::transport::Channel;

use crate::harness::details::{acquired, claim, fields, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::raw;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(
    claims_at_the_edge_are_accepted,
    malformed_claims_are_refused_by_field,
    malformed_settlements_are_refused_by_field,
    malformed_reads_are_refused_by_field,
    only_a_bad_key_is_dead_lettered,
    a_long_error_is_truncated_with_a_mark,
    connections_beyond_the_limit_wait,
    an_unregistered_consumer_is_refused_where_registration_is_demanded,
    an_unknown_method_is_refused_with_a_reason,
    every_content_type_but_grpc_is_refused,
);

/// A way to spoil a claim, and what is then wrong.
type Spoilt = (fn(&mut proto::ClaimRequest), &'static [&'static str]);

fn edit(request: &mut proto::ClaimRequest) -> &mut proto::EntryKey {
    request.key.as_mut().unwrap()
}

const UUID_V1: &str = "c232ab00-9414-11ec-b3c8-9f6bdeced846";
const UUID_V4: &str = "9b2e3a6c-53a1-4c6f-8e07-0b8a3f1d2c4e";
const UUID_V7: &str = "0190a5c8-7e2b-7c3d-8f4a-5b6c7d8e9f00";

async fn claims_at_the_edge_are_accepted(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let rows: Vec<(&str, fn(&mut proto::ClaimRequest))> = vec![
        ("consumer of 128 bytes", |r| edit(r).consumer = "c".repeat(128)),
        ("source of 256 bytes", |r| edit(r).source = "s".repeat(256)),
        ("id of 512 bytes", |r| edit(r).id = "i".repeat(512)),
        ("id of 512 bytes in 256 letters", |r| edit(r).id = "\u{e9}".repeat(256)),
        ("owner of 128 bytes", |r| r.owner = "o".repeat(128)),
        ("no owner", |r| r.owner = String::new()),
        ("a label beyond its bound", |r| r.event_type = "t".repeat(1_000)),
        ("a label with control characters", |r| r.event_type = "a\nb".into()),
        ("fingerprint of 64 bytes", |r| r.fingerprint = Bytes::from(vec![0; 64])),
        ("claim_id of version 4", |r| r.claim_id = UUID_V4.into()),
        ("claim_id of version 7, in capitals", |r| r.claim_id = UUID_V7.to_uppercase()),
        ("a lease of zero", |r| r.lease = Some(Duration { seconds: 0, nanos: 0 })),
        ("a lease of a century", |r| r.lease = Some(Duration { seconds: 3_155_760_000, nanos: 0 })),
        ("made in the year 9999", |r| {
            r.occurred_at = Some(Timestamp { seconds: 253_402_300_799, nanos: 999_999_999 })
        }),
    ];
    for (number, (what, change)) in rows.into_iter().enumerate() {
        let mut request = claim("c", &format!("edge-{number}"));
        change(&mut request);
        let answer = server.client.claim(request).await;
        acquired(&answer.unwrap_or_else(|status| panic!("{what}: {status:?}")).into_inner());
    }
    server.stop().await;
}

async fn malformed_claims_are_refused_by_field(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let rows: &[Spoilt] = &[
        (|r| r.key = None, &["key"]),
        (|r| edit(r).consumer.clear(), &["key.consumer"]),
        (|r| edit(r).source.clear(), &["key.source"]),
        (|r| edit(r).id.clear(), &["key.id"]),
        (|r| edit(r).consumer = "c".repeat(129), &["key.consumer"]),
        (|r| edit(r).source = "s".repeat(257), &["key.source"]),
        (|r| edit(r).id = "i".repeat(513), &["key.id"]),
        (|r| edit(r).id = "\u{e9}".repeat(257), &["key.id"]),
        (|r| edit(r).id = "a\0b".into(), &["key.id"]),
        (|r| edit(r).source = "a\nb".into(), &["key.source"]),
        (|r| edit(r).consumer = "a\u{85}b".into(), &["key.consumer"]),
        (|r| edit(r).consumer = "a\u{7f}b".into(), &["key.consumer"]),
        (|r| r.owner = "o".repeat(129), &["owner"]),
        (|r| r.owner = "o\tp".into(), &["owner"]),
        (|r| r.fingerprint = Bytes::from(vec![0; 65]), &["fingerprint"]),
        (|r| r.claim_id = "7".into(), &["claim_id"]),
        (|r| r.claim_id = UUID_V1.into(), &["claim_id"]),
        // Of other variants: those of NCS, of Microsoft, and of the future.
        (|r| r.claim_id = UUID_V4.replace("-8e07-", "-0e07-"), &["claim_id"]),
        (|r| r.claim_id = UUID_V4.replace("-8e07-", "-ce07-"), &["claim_id"]),
        (|r| r.claim_id = UUID_V4.replace("-8e07-", "-ee07-"), &["claim_id"]),
        (|r| r.claim_id = "00000000-0000-0000-0000-000000000000".into(), &["claim_id"]),
        (|r| r.claim_id = format!("{{{UUID_V4}}}"), &["claim_id"]),
        (|r| r.claim_id = UUID_V4.replace('-', ""), &["claim_id"]),
        (|r| r.claim_id = format!("urn:uuid:{UUID_V4}"), &["claim_id"]),
        (|r| r.lease = Some(Duration { seconds: -1, nanos: 0 }), &["lease"]),
        (|r| r.lease = Some(Duration { seconds: 0, nanos: -1 }), &["lease"]),
        (|r| r.lease = Some(Duration { seconds: 1, nanos: -1 }), &["lease"]),
        (|r| r.lease = Some(Duration { seconds: 1, nanos: 1_000_000_000 }), &["lease"]),
        (|r| r.lease = Some(Duration { seconds: i64::MAX, nanos: 0 }), &["lease"]),
        (|r| r.lease = Some(Duration { seconds: 1, nanos: 1 }), &["lease"]),
        (|r| r.lease = Some(Duration { seconds: 1, nanos: 999_999_999 }), &["lease"]),
        (|r| r.occurred_at = Some(Timestamp { seconds: i64::MIN, nanos: 0 }), &["occurred_at"]),
        (|r| r.occurred_at = Some(Timestamp { seconds: 0, nanos: -1 }), &["occurred_at"]),
        (
            |r| {
                edit(r).id.clear();
                r.claim_id = "7".into();
                r.lease = Some(Duration { seconds: -1, nanos: 0 });
            },
            &["key.id", "claim_id", "lease"],
        ),
    ];
    for (number, (spoil, wrong)) in rows.iter().enumerate() {
        let id = format!("bad-{number}");
        let mut request = claim("c", &id);
        spoil(&mut request);
        let status = server.client.claim(request).await.unwrap_err();
        let refused = refusal(&status);
        assert_eq!(
            (refused.code, refused.reason.as_str()),
            (Code::InvalidArgument, "INVALID_FIELD"),
            "{wrong:?}"
        );
        assert_eq!(fields(&status), *wrong, "row {number}");
        assert_eq!(server.entry(&Key::new("c", "tests", &id)).await, None, "row {number}");
    }
    server.stop().await;
}

async fn malformed_settlements_are_refused_by_field(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let held = acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    let before = server.entry(&Key::new("c", "tests", "1")).await;
    let token = held.token;
    let complete = |token, result: usize| {
        Action::Complete(proto::CompleteRequest {
            key: key("c", "1"),
            token,
            result: Bytes::from(vec![0; result]),
            result_left_out: false,
            event_type: String::new(),
        })
    };
    let renew = |checkpoint: usize, seconds| {
        Action::Renew(proto::RenewRequest {
            key: key("c", "1"),
            token,
            lease: Some(Duration { seconds, nanos: 0 }),
            effect_started: false,
            checkpoint: Some(Bytes::from(vec![0; checkpoint])),
        })
    };
    let rows = [
        (Some(complete(0, 0)), "complete.token"),
        (Some(complete(-1, 0)), "complete.token"),
        (Some(complete(1 << 53, 0)), "complete.token"),
        // Only its token is at fault, and not what it carries.
        (Some(complete(0, 16_385)), "complete.token"),
        (
            Some(Action::Release(proto::ReleaseRequest {
                key: None,
                token,
                delay: None,
                unpin_fingerprint: false,
                event_type: String::new(),
            })),
            "release.key",
        ),
        (None, "action"),
    ];
    let settlements: Vec<_> =
        rows.iter().map(|(action, _)| proto::Settlement { action: action.clone() }).collect();
    let answer = server.client.batch_settle(proto::BatchSettleRequest { settlements }).await;
    for (number, ((_, wrong), result)) in rows.iter().zip(answer.unwrap().into_inner().results).enumerate() {
        let Some(Outcome::Rejected(rejected)) = result.outcome else { panic!("{wrong}") };
        assert_eq!(rejected.reason(), proto::ErrorReason::InvalidField, "{wrong}");
        assert_eq!(rejected.field_violations[0].field, format!("settlements[{number}].{wrong}"));
        assert_eq!(rejected.code, Code::InvalidArgument as i32);
    }
    assert_eq!(server.entry(&Key::new("c", "tests", "1")).await, before, "nothing was changed");
    // At the edge, and alone: the path has no prefix.
    let request = proto::CompleteRequest {
        key: key("c", "1"),
        token: 0,
        result: Bytes::new(),
        result_left_out: false,
        event_type: String::new(),
    };
    assert_eq!(fields(&server.client.complete(request).await.unwrap_err()), ["token"]);
    for action in [renew(16_384, 1), complete(token, 16_384)] {
        let settlements = vec![proto::Settlement { action: Some(action) }];
        let answer = server.client.batch_settle(proto::BatchSettleRequest { settlements }).await;
        let outcome = answer.unwrap().into_inner().results.remove(0).outcome.unwrap();
        assert!(!matches!(outcome, Outcome::Rejected(_)), "{outcome:?}");
    }
    server.stop().await;
}

async fn malformed_reads_are_refused_by_field(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for number in 0..3 {
        server.client.claim(claim("c", &number.to_string())).await.unwrap();
    }
    let filter = |consumer: &str, states: &[i32]| {
        Some(proto::EntryFilter { consumer: consumer.into(), states: states.to_vec(), ..Default::default() })
    };
    let good = proto::ListEntriesRequest { filter: filter("c", &[]), page_size: 1, ..Default::default() };
    let first = server.admin.list_entries(good.clone()).await.unwrap().into_inner();
    let token = first.next_page_token;
    let rows = [
        (
            proto::ListEntriesRequest {
                filter: filter("", &[proto::EntryState::Completed.into()]),
                ..good.clone()
            },
            "filter.states",
        ),
        (proto::ListEntriesRequest { filter: filter("c", &[77]), ..good.clone() }, "filter.states[0]"),
        (proto::ListEntriesRequest { page_size: -1, ..good.clone() }, "page_size"),
        (proto::ListEntriesRequest { page_size: 1_001, ..good.clone() }, "page_size"),
        (proto::ListEntriesRequest { page_token: "garbage".into(), ..good.clone() }, "page_token"),
        (
            proto::ListEntriesRequest { page_token: token.clone(), filter: filter("d", &[]), ..good.clone() },
            "page_token",
        ),
        (proto::ListEntriesRequest { page_token: token, filter: filter("c", &[2]), ..good }, "page_token"),
    ];
    for (request, wrong) in rows {
        let status = server.admin.list_entries(request).await.unwrap_err();
        assert_eq!(
            (refusal(&status).reason.as_str(), fields(&status)),
            ("INVALID_FIELD", vec![wrong.to_owned()])
        );
    }
    let status =
        server.admin.get_entry(proto::GetEntryRequest { key: None, ..Default::default() }).await.unwrap_err();
    assert_eq!(fields(&status), ["key"]);
    server.stop().await;
}

async fn only_a_bad_key_is_dead_lettered(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let rows: &[(fn(&mut proto::ClaimRequest), &str)] = &[
        (|r| edit(r).id = "i".repeat(513), "DEAD_LETTER"),
        (|r| edit(r).source.clear(), "DEAD_LETTER"),
        (|r| (edit(r).source.clear(), edit(r).id.clear()).0, "DEAD_LETTER"),
        // The process's: a variable that is not set, a name with a newline, a mistyped run.
        (|r| edit(r).consumer.clear(), "RETRY_LATER"),
        (|r| edit(r).consumer = "c\n".into(), "RETRY_LATER"),
        (|r| edit(r).replay_run = "a b".into(), "RETRY_LATER"),
        (|r| (edit(r).consumer.clear(), edit(r).id.clear()).0, "RETRY_LATER"),
        (|r| r.owner = "o".repeat(129), "RETRY_LATER"),
        (|r| (edit(r).id = "i".repeat(513), r.owner = "o".repeat(129)).0, "RETRY_LATER"),
        (|r| r.key = None, "RETRY_LATER"),
    ];
    for (spoil, advice) in rows {
        let mut request = claim("c", "1");
        spoil(&mut request);
        let refused = refusal(&server.client.claim(request.clone()).await.unwrap_err());
        assert_eq!(refused.advice, *advice, "{request:?}");
        let batch = proto::BatchClaimRequest { requests: vec![claim("c", "2"), request] };
        let answer = server.client.batch_claim(batch).await.unwrap().into_inner().responses.remove(1);
        assert_eq!(answer.advice().as_str_name(), format!("ADVICE_{advice}"), "{answer:?}");
    }
    server.stop().await;
}

async fn a_long_error_is_truncated_with_a_mark(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let held = acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    let error = format!("\0{}", "\u{1F600}".repeat(1_000));
    let request = proto::FailRequest { key: key("c", "1"), token: held.token, error, ..Default::default() };
    server.client.fail(request).await.unwrap();
    let kept = server.entry(&Key::new("c", "tests", "1")).await.unwrap().last_error;
    assert!(kept.len() <= 2_048 && kept.len() > 2_000, "{} bytes", kept.len());
    assert!(kept.starts_with('\u{fffd}') && kept.ends_with("… [truncated]"));
    server.stop().await;
}

async fn connections_beyond_the_limit_wait(kind: Kind) {
    let server = TestServer::start_with(kind, Setup { connections_max: 2, ..Setup::default() }).await;
    let at = server.address();
    let connect = || async move {
        let channel = Channel::from_shared(format!("http://{at}")).unwrap().connect_lazy();
        LedgerServiceClient::new(channel).claim(claim("c", "x")).await.map(drop)
    };
    let second = Channel::from_shared(format!("http://{at}")).unwrap().connect().await.unwrap();
    LedgerServiceClient::new(second.clone()).claim(claim("c", "1")).await.unwrap();
    // The third is not served while two are open, and is as soon as one has gone.
    let third = tokio::spawn(connect());
    LedgerServiceClient::new(second.clone()).claim(claim("c", "2")).await.unwrap();
    assert!(!third.is_finished());
    drop(second);
    third.await.unwrap().unwrap();
    server.stop().await;
}

async fn an_unregistered_consumer_is_refused_where_registration_is_demanded(kind: Kind) {
    let setup = Setup { registered_only: true, ..Setup::default() }.with("known", Policy::default());
    let mut server = TestServer::start_with(kind, setup).await;
    acquired(&server.client.claim(claim("known", "1")).await.unwrap().into_inner());
    let refused = refusal(&server.client.claim(claim("unknown", "1")).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::FailedPrecondition, "UNKNOWN_CONSUMER"));
    // Only claims are refused: a settlement is looked at.
    let request = proto::CompleteRequest {
        key: key("unknown", "1"),
        token: 1,
        result: Bytes::new(),
        result_left_out: false,
        event_type: String::new(),
    };
    assert_eq!(refusal(&server.client.complete(request).await.unwrap_err()).reason, "ENTRY_NOT_FOUND");
    let requests = vec![claim("unknown", "2"), claim("known", "2")];
    let answer = server.client.batch_claim(proto::BatchClaimRequest { requests }).await;
    let answers = answer.unwrap().into_inner().responses;
    assert!(
        matches!(&answers[0].verdict, Some(Verdict::Rejected(rejected)) if rejected.reason() == proto::ErrorReason::UnknownConsumer)
    );
    acquired(&answers[1]);
    server.stop().await;
}

async fn an_unknown_method_is_refused_with_a_reason(kind: Kind) {
    let server = TestServer::start(kind).await;
    let channel = raw::channel(&server).await;
    let refused = refusal(&raw::send(&channel, "LedgerService/Guess", Vec::new()).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::Unimplemented, "UNIMPLEMENTED"));
    server.stop().await;
}

async fn every_content_type_but_grpc_is_refused(kind: Kind) {
    use tower::{Service as _, ServiceExt as _};
    let server = TestServer::start(kind).await;
    let url = format!("http://{}", server.address());
    for (content_type, status) in [
        ("text/plain", 415),
        ("application/json", 415),
        ("application/grpcx", 415),
        ("application/grpc+proto", 200),
    ] {
        let mut channel =
            tonic::transport::Channel::from_shared(url.clone()).unwrap().connect().await.unwrap();
        let request = http::Request::post(format!("{url}/idempotency.ledger.v1.LedgerService/Claim"))
            .header("content-type", content_type)
            .body(tonic::body::Body::empty())
            .unwrap();
        let answer = channel.ready().await.unwrap().call(request).await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{content_type}");
    }
    server.stop().await;
}

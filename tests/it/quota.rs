//! Quotas through the wire: only claims count, each consumer by itself, and a refusal says when to come back.

use idempotency_ledger::domain::Policy;
use idempotency_ledger::proto::{self, claim_response::Verdict};
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::harness::details::{acquired, claim, fields, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(
    a_batch_is_cut_at_the_quota_and_settlements_pass,
    a_call_beyond_the_quota_is_refused,
    an_operator_sets_and_lifts_a_quota,
    who_is_unknown_is_told_so_first,
);

fn limited(claims_per_second: i32) -> Policy {
    Policy { claims_per_second, ..Policy::default() }
}

async fn batch(server: &mut TestServer, consumer: &str, count: usize) -> Vec<proto::ClaimResponse> {
    let requests = (0..count).map(|number| claim(consumer, &format!("{consumer} {number}"))).collect();
    let answered = server.client.batch_claim(proto::BatchClaimRequest { requests }).await;
    answered.unwrap().into_inner().responses
}

/// How many of a batch were granted, and why and when the others were not.
fn sorted(answers: &[proto::ClaimResponse]) -> (Vec<proto::Acquired>, Vec<(proto::ErrorReason, u64)>) {
    let (mut granted, mut refused) = (Vec::new(), Vec::new());
    for answer in answers {
        match &answer.verdict {
            Some(Verdict::Rejected(rejected)) => {
                assert_eq!(answer.advice(), proto::Advice::RetryLater);
                assert_eq!(answer.retry_after, rejected.retry_after);
                let wait = rejected.retry_after.unwrap_or_default();
                let micros = wait.seconds * 1_000_000 + i64::from(wait.nanos) / 1_000;
                refused.push((rejected.reason(), u64::try_from(micros).unwrap()));
            }
            _ => granted.push(acquired(answer)),
        }
    }
    (granted, refused)
}

async fn a_batch_is_cut_at_the_quota_and_settlements_pass(kind: Kind) {
    let mut server = TestServer::start_with(kind, Setup::default().with("c", limited(5))).await;
    let (granted, refused) = sorted(&batch(&mut server, "c", 20).await);
    // A sixth, should a fifth of a second pass within the batch.
    assert!((5..=6).contains(&granted.len()), "{}", granted.len());
    for (reason, wait) in refused {
        assert_eq!(reason, proto::ErrorReason::QuotaExceeded);
        assert!((1..=200_000).contains(&wait), "a fifth of a second brings the next: {wait}");
    }
    assert_eq!(sorted(&batch(&mut server, "d", 20).await).0.len(), 20, "others have none");
    for (number, held) in granted.iter().enumerate() {
        let (key, token) = (key("c", &format!("c {number}")), held.token);
        let renew = proto::RenewRequest { key: key.clone(), token, ..Default::default() };
        server.client.renew(renew).await.unwrap();
        server.client.complete(proto::CompleteRequest { key, token, ..Default::default() }).await.unwrap();
    }
    server.stop().await;
}

async fn a_call_beyond_the_quota_is_refused(kind: Kind) {
    let mut server = TestServer::start_with(kind, Setup::default().with("c", limited(1))).await;
    let mut refused = None;
    for number in 0..50 {
        if let Err(status) = server.client.claim(claim("c", &format!("{number}"))).await {
            refused = Some(status);
            break;
        }
    }
    let status = refused.expect("fifty claims within fifty seconds");
    let told = refusal(&status);
    assert_eq!(
        (told.code, told.reason.as_str(), told.advice.as_str()),
        (Code::ResourceExhausted, "QUOTA_EXCEEDED", "RETRY_LATER")
    );
    let wait = status.get_error_details().retry_info().unwrap().retry_delay.unwrap();
    assert!(!wait.is_zero() && wait.as_secs_f64() <= 1.0, "{wait:?}");
    server.stop().await;
}

async fn an_operator_sets_and_lifts_a_quota(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let set = |version: i32, quota: i32| proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: format!("{version} {quota}"),
        expected_version: version,
        reason: "a replay".into(),
        policy: Some(proto::Policy { claims_per_second: Some(quota), ..Default::default() }),
        update_mask: Some(prost_types::FieldMask { paths: vec!["claims_per_second".into()] }),
        validate_only: false,
    };
    for wrong in [-1, 1_000_001] {
        let refused = server.admin.set_policy(set(0, wrong)).await.unwrap_err();
        assert_eq!(fields(&refused), ["policy.claims_per_second"]);
    }
    for (version, quota) in [(0, 2), (1, 0)] {
        server.admin.set_policy(set(version, quota)).await.unwrap();
        let request = proto::GetPolicyRequest { consumer: "c".into() };
        let shown = server.admin.get_policy(request).await.unwrap().into_inner().policy.unwrap();
        assert_eq!(shown.policy.unwrap().claims_per_second, Some(quota));
        let (granted, refused) = sorted(&batch(&mut server, "c", 30).await);
        match quota {
            0 => assert!(refused.is_empty()),
            _ => assert!((2..=3).contains(&granted.len()), "{}", granted.len()),
        }
        // What was granted is not granted twice.
        server.advance(idempotency_ledger::domain::Span::from_secs(60)).await;
    }
    server.stop().await;
}

async fn who_is_unknown_is_told_so_first(kind: Kind) {
    let setup = Setup { registered_only: true, default: limited(1), ..Setup::default() };
    let mut server = TestServer::start_with(kind, setup).await;
    let (granted, refused) = sorted(&batch(&mut server, "c", 5).await);
    assert!(granted.is_empty());
    assert!(refused.iter().all(|one| one.0 == proto::ErrorReason::UnknownConsumer), "{refused:?}");
    server.stop().await;
}

//! Batches: how many items and bytes they may have, and what is left out of an answer that would be larger.

use bytes::Bytes;
use idempotency_ledger::domain::Key;
use idempotency_ledger::rpc::proto;
use idempotency_ledger::rpc::proto::settlement::Action;
use tonic::Code;

use crate::harness::details::{acquired, claim, completed, fields, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::random::Random;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(
    batches_are_bounded_and_name_their_items,
    results_that_do_not_fit_a_batch_are_left_out,
    checkpoints_that_do_not_fit_a_batch_are_left_out,
);

async fn batches_are_bounded_and_name_their_items(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let many = |count| (0..count).map(|number| claim("c", &format!("m{number}"))).collect::<Vec<_>>();
    let status =
        server.client.batch_claim(proto::BatchClaimRequest { requests: many(1_001) }).await.unwrap_err();
    let refused = refusal(&status);
    assert_eq!((refused.code, refused.reason.as_str()), (Code::InvalidArgument, "TOO_MANY_ITEMS"));
    assert_eq!(fields(&status), ["requests"]);
    assert_eq!(server.entry(&Key::new("c", "tests", "m0")).await, None, "nothing of it was done");
    let settlements = vec![proto::Settlement { action: None }; 1_001];
    let status = server.client.batch_settle(proto::BatchSettleRequest { settlements }).await.unwrap_err();
    assert_eq!(
        (refusal(&status).reason.as_str(), fields(&status)),
        ("TOO_MANY_ITEMS", vec!["settlements".into()])
    );
    let empty = server.client.batch_claim(proto::BatchClaimRequest::default()).await.unwrap().into_inner();
    assert!(empty.responses.is_empty());

    let mut large = claim("c", "large");
    large.fingerprint = Bytes::from(vec![0; 4 << 20]);
    let refused = refusal(&server.client.claim(large).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::InvalidArgument, "TOO_LARGE"));
    assert_eq!(refused.advice, "RETRY_LATER");
    server.stop().await;
}

async fn results_that_do_not_fit_a_batch_are_left_out(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let ids: Vec<String> = (0..300).map(|number| format!("m{number}")).collect();
    let claims = || ids.iter().map(|id| claim("c", id)).collect::<Vec<_>>();
    let answer = server.client.batch_claim(proto::BatchClaimRequest { requests: claims() }).await;
    let held = answer.unwrap().into_inner().responses;
    for part in ids.iter().zip(&held).collect::<Vec<_>>().chunks(150) {
        let settle = |(id, held): &(&String, &proto::ClaimResponse)| proto::Settlement {
            action: Some(Action::Complete(proto::CompleteRequest {
                key: key("c", id),
                token: acquired(held).token,
                result: Bytes::from(vec![7; 16_384]),
            })),
        };
        let settlements = part.iter().map(settle).collect();
        server.client.batch_settle(proto::BatchSettleRequest { settlements }).await.unwrap();
    }
    let answer = server.client.batch_claim(proto::BatchClaimRequest { requests: claims() }).await;
    let answer = answer.unwrap().into_inner();
    assert!(prost::Message::encoded_len(&answer) <= 3_670_016);
    let (mut whole, mut omitted) = (0, 0);
    for response in &answer.responses {
        let found = completed(response);
        assert_eq!(found.result_omitted, found.result.is_empty());
        if found.result_omitted { omitted += 1 } else { whole += 1 }
    }
    assert!(whole > 200 && omitted > 50, "{whole} whole, {omitted} left out");
    let alone = completed(&server.client.claim(claim("c", "m299")).await.unwrap().into_inner());
    assert_eq!(alone.result.len(), 16_384, "asked for alone, it is there");
    server.stop().await;
}

async fn checkpoints_that_do_not_fit_a_batch_are_left_out(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let ids: Vec<String> = (0..300).map(|number| format!("m{number}")).collect();
    let claims = || ids.iter().map(|id| claim("c", id)).collect::<Vec<_>>();
    let answer = server.client.batch_claim(proto::BatchClaimRequest { requests: claims() }).await;
    let held = answer.unwrap().into_inner().responses;
    for (id, held) in ids.iter().zip(&held) {
        let (key, token) = (key("c", id), acquired(held).token);
        let checkpoint = Some(Bytes::from(vec![7; 16_384]));
        let request = proto::RenewRequest { key: key.clone(), token, checkpoint, ..Default::default() };
        server.client.renew(request).await.unwrap();
        server.client.release(proto::ReleaseRequest { key, token, delay: None }).await.unwrap();
    }
    let mut random = Random::new(1);
    let requests: Vec<_> = claims()
        .into_iter()
        .map(|claim| proto::ClaimRequest { claim_id: random.claim_id(), ..claim })
        .collect();
    let last = requests[299].clone();
    let answer = server.client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap().into_inner();
    assert!(prost::Message::encoded_len(&answer) <= 3_670_016);
    let (mut whole, mut omitted) = (0, 0);
    for response in &answer.responses {
        let held = acquired(response);
        assert_eq!(held.checkpoint_omitted, held.checkpoint.is_empty());
        if held.checkpoint_omitted { omitted += 1 } else { whole += 1 }
    }
    assert!(whole > 200 && omitted > 50, "{whole} whole, {omitted} left out");
    let alone = acquired(&server.client.claim(last).await.unwrap().into_inner());
    assert!(alone.replayed && alone.checkpoint.len() == 16_384, "asked for alone, it is there");
    server.stop().await;
}

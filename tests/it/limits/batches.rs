//! Batches: how many items and bytes they may have, and what is left out of an answer that would be larger.

use bytes::Bytes;
use idempotency_ledger::domain::Key;
use idempotency_ledger::proto;
use idempotency_ledger::proto::settlement::Action;
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
    let requests = (0..1_001).map(|number| claim("c", &format!("m{number}"))).collect();
    let settlements = vec![proto::Settlement { action: None }; 1_001];
    for (field, status) in [
        ("requests", server.client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap_err()),
        (
            "settlements",
            server.client.batch_settle(proto::BatchSettleRequest { settlements }).await.unwrap_err(),
        ),
    ] {
        let refused = refusal(&status);
        assert_eq!(
            (refused.code, refused.reason.as_str()),
            (Code::InvalidArgument, "TOO_MANY_ITEMS"),
            "{field}"
        );
        assert_eq!(fields(&status), [field]);
    }
    assert_eq!(server.entry(&Key::new("c", "tests", "m0")).await, None, "nothing of it was done");
    let empty = server.client.batch_claim(proto::BatchClaimRequest::default()).await.unwrap().into_inner();
    assert!(empty.responses.is_empty());

    let mut large = claim("c", "large");
    large.fingerprint = Bytes::from(vec![0; 4 << 20]);
    let refused = refusal(&server.client.claim(large).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::InvalidArgument, "TOO_LARGE"));
    assert_eq!(refused.advice, "RETRY_LATER");
    server.stop().await;
}

/// The answer fits its bound; what it left out is said to be left out, and nothing else is.
fn a_part_is_left_out(
    answer: &proto::BatchClaimResponse,
    carried: fn(&proto::ClaimResponse) -> (Bytes, bool),
) {
    assert!(prost::Message::encoded_len(answer) <= 3_670_016);
    let (mut whole, mut omitted) = (0, 0);
    for response in &answer.responses {
        let (carried, left_out) = carried(response);
        assert_eq!(left_out, carried.is_empty());
        if left_out { omitted += 1 } else { whole += 1 }
    }
    assert!(whole > 200 && omitted > 50, "{whole} whole, {omitted} left out");
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
                result_left_out: false,
                event_type: String::new(),
            })),
        };
        let settlements = part.iter().map(settle).collect();
        server.client.batch_settle(proto::BatchSettleRequest { settlements }).await.unwrap();
    }
    let answer = server.client.batch_claim(proto::BatchClaimRequest { requests: claims() }).await;
    let answer = answer.unwrap().into_inner();
    a_part_is_left_out(&answer, |response| {
        let found = completed(response);
        (found.result, found.result_omitted)
    });
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
        server
            .client
            .release(proto::ReleaseRequest {
                key,
                token,
                delay: None,
                unpin_fingerprint: false,
                event_type: String::new(),
            })
            .await
            .unwrap();
    }
    let mut random = Random::new(1);
    let requests: Vec<_> = claims()
        .into_iter()
        .map(|claim| proto::ClaimRequest { claim_id: random.claim_id(), ..claim })
        .collect();
    let last = requests[299].clone();
    let answer = server.client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap().into_inner();
    a_part_is_left_out(&answer, |response| {
        let held = acquired(response);
        (held.checkpoint, held.checkpoint_omitted)
    });
    let alone = acquired(&server.client.claim(last).await.unwrap().into_inner());
    assert!(alone.replayed && alone.checkpoint.len() == 16_384, "asked for alone, it is there");
    server.stop().await;
}

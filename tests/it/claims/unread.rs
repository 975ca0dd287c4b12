//! A batch of claims for which the queue has no room is refused before it is decoded. All else is read first.

use idempotency_ledger::proto::{
    self, claim_response::Verdict, settlement::Action, settlement_result::Outcome,
};
use prost::Message as _;
use tonic::Code;

use crate::harness::details::{claim, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::raw::{channel, send};
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(
    batch_claim_without_room_is_refused_unread,
    malformed_batch_claim_keeps_its_own_error,
    batch_settle_without_room_is_read_first,
);

/// A queue of 16 commands takes 10 claims.
const ROOM: usize = 10;

async fn start(kind: Kind) -> TestServer {
    TestServer::start_with(kind, Setup { queue_max: 16, ..Setup::default() }).await
}

/// Of this many, the first one is wrong.
fn claims(count: usize) -> proto::BatchClaimRequest {
    let all = (0..count).map(|number| claim(if number == 0 { "" } else { "c" }, &number.to_string()));
    proto::BatchClaimRequest { requests: all.collect() }
}

async fn batch_claim_without_room_is_refused_unread(kind: Kind) {
    let mut server = start(kind).await;
    let refusals = |server: &TestServer| {
        server.metric("idempotency_ledger_refusals_total{reason=\"OVERLOADED\"}").unwrap_or(0.0)
    };
    for (count, enters) in [(ROOM, true), (ROOM + 1, false), (1_000, false)] {
        let before = refusals(&server);
        match server.client.batch_claim(claims(count)).await {
            Ok(answer) if enters => {
                let answers = answer.into_inner().responses;
                assert_eq!(answers.len(), count);
                assert!(matches!(answers[0].verdict, Some(Verdict::Rejected(_))), "{:?}", answers[0]);
            }
            Err(status) if !enters => {
                let refused = refusal(&status);
                assert_eq!((refused.code, refused.reason.as_str()), (Code::ResourceExhausted, "OVERLOADED"));
                let pushback = status.metadata().get("grpc-retry-pushback-ms").unwrap().to_str().unwrap();
                assert!((250..1_000).contains(&pushback.parse::<u64>().unwrap()), "{pushback}");
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                let counted = count as f64;
                assert_eq!(refusals(&server) - before, counted, "each item is counted");
            }
            other => panic!("{count}: {other:?}"),
        }
    }
    server.stop().await;
}

async fn malformed_batch_claim_keeps_its_own_error(kind: Kind) {
    let mut server = start(kind).await;
    let too_many = server.client.batch_claim(claims(1_001)).await.unwrap_err();
    assert_eq!(refusal(&too_many).reason, "TOO_MANY_ITEMS");
    let channel = channel(&server).await;
    let whole = claims(ROOM + 1).encode_to_vec();
    for (what, broken, reason) in [
        ("cut off", whole[..whole.len() - 1].to_vec(), "INVALID_FIELD"),
        ("an item that is a number", [&whole[..], &[8, 1]].concat(), "INVALID_FIELD"),
        // Items are not looked into.
        ("text that is not UTF-8", [&whole[..], &[10, 4, 10, 2, 10, 0xff]].concat(), "OVERLOADED"),
    ] {
        let refused = send(&channel, "LedgerService/BatchClaim", broken).await.unwrap_err();
        assert_eq!(refusal(&refused).reason, reason, "{what}");
    }
    server.stop().await;
}

/// A settlement is read, however full the queue is: its faults are reported.
async fn batch_settle_without_room_is_read_first(kind: Kind) {
    let mut server = start(kind).await;
    let complete = |number: usize| {
        let wrong =
            proto::CompleteRequest { key: key("", &number.to_string()), token: 1, ..Default::default() };
        proto::Settlement { action: Some(Action::Complete(wrong)) }
    };
    let settlements = (0..100).map(complete).collect();
    let settled = server.client.batch_settle(proto::BatchSettleRequest { settlements }).await.unwrap();
    let results = settled.into_inner().results;
    let refused = |result: &proto::SettlementResult| {
        matches!(&result.outcome, Some(Outcome::Rejected(refused))
            if refused.reason() == proto::ErrorReason::InvalidField)
    };
    assert!(results.len() == 100 && results.iter().all(refused), "{results:?}");
    server.stop().await;
}

//! A corrected request uses its key again.

use bytes::Bytes;
use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::{
    self, claim_response::Verdict, settlement::Action, settlement_result::Outcome,
};

use super::{ask, complete, delivery, entry, release, renew, server, take};
use crate::harness::details::{completed, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::Kind;

on_both_stores!(
    corrected_request_is_granted_and_pinned_again,
    complete_after_release_compares_the_fingerprint_again,
    a_possible_effect_and_a_checkpoint_keep_the_fingerprint,
    a_parked_release_keeps_its_mark_and_redrive_drops_the_fingerprint,
);

fn with(print: &'static [u8], id: &str, number: u128) -> proto::ClaimRequest {
    proto::ClaimRequest { fingerprint: Bytes::from_static(print), ..delivery(id, number) }
}

fn unpin(id: &str, token: i64) -> proto::ReleaseRequest {
    proto::ReleaseRequest { unpin_fingerprint: true, ..release(id, token) }
}

async fn corrected_request_is_granted_and_pinned_again(kind: Kind) {
    let mut server = server(kind).await;
    let first = take(&mut server, with(b"invalid", "1", 1)).await;
    for replayed in [false, true] {
        let answer = server.client.release(unpin("1", first.token)).await.unwrap().into_inner();
        assert_eq!((answer.replayed, answer.fingerprint_unpinned), (replayed, true));
    }
    let request = proto::GetEntryRequest { key: key("c", "1"), ..Default::default() };
    let shown = server.admin.get_entry(request).await.unwrap().into_inner().entry.unwrap();
    assert_eq!((&shown.fingerprint[..], shown.fingerprint_unpinned), (&b"invalid"[..], true));
    // The delayed repeat of the invalid request is still that.
    let refused = server.client.claim(with(b"invalid", "1", 1)).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "CLAIM_CLOSED");
    let second = take(&mut server, with(b"corrected", "1", 2)).await;
    let answer = ask(&mut server, with(b"invalid", "1", 3)).await;
    assert!(matches!(answer.verdict, Some(Verdict::FingerprintMismatch(_))), "{answer:?}");
    server.client.complete(complete("1", second.token, "done")).await.unwrap();
    assert_eq!(&completed(&ask(&mut server, with(b"corrected", "1", 4)).await).result[..], b"done");
    // Without the flag it stays, also in a batch.
    let held = take(&mut server, with(b"first", "2", 1)).await;
    let action = Some(Action::Release(release("2", held.token)));
    let batch = proto::BatchSettleRequest { settlements: vec![proto::Settlement { action }] };
    let outcome = server.client.batch_settle(batch).await.unwrap().into_inner().results.remove(0).outcome;
    let Some(Outcome::Release(kept)) = outcome else { panic!("{outcome:?}") };
    assert!(!kept.fingerprint_unpinned);
    // A repeat that asks for more than the first Release changes nothing.
    assert!(!server.client.release(unpin("2", held.token)).await.unwrap().into_inner().fingerprint_unpinned);
    let answer = ask(&mut server, with(b"second", "2", 2)).await;
    assert!(matches!(answer.verdict, Some(Verdict::FingerprintMismatch(_))), "{answer:?}");
    server.stop().await;
}

async fn complete_after_release_compares_the_fingerprint_again(kind: Kind) {
    let mut server = server(kind).await;
    let first = take(&mut server, with(b"invalid", "1", 1)).await;
    server.client.release(unpin("1", first.token)).await.unwrap();
    assert!(
        server.client.complete(complete("1", first.token, "of the first")).await.unwrap().into_inner().late
    );
    let answer = ask(&mut server, with(b"corrected", "1", 2)).await;
    assert!(matches!(answer.verdict, Some(Verdict::FingerprintMismatch(_))), "{answer:?}");
    assert!(!entry(&server, "1").await.unpinned);
    server.stop().await;
}

async fn a_possible_effect_and_a_checkpoint_keep_the_fingerprint(kind: Kind) {
    let mut server = server(kind).await;
    // The lease of an earlier attempt ran out.
    take(&mut server, with(b"first", "unknown", 1)).await;
    let progress = take(&mut server, with(b"first", "progress", 1)).await;
    let checkpoint = Some(Bytes::from_static(b"half"));
    let request = proto::RenewRequest { checkpoint, ..renew("progress", progress.token) };
    server.client.renew(request).await.unwrap();
    let answer = server.client.release(unpin("progress", progress.token)).await.unwrap().into_inner();
    assert!(!answer.fingerprint_unpinned);
    server.advance(Span::from_secs(31)).await;
    let second = take(&mut server, with(b"first", "unknown", 2)).await;
    let answer = server.client.release(unpin("unknown", second.token)).await.unwrap().into_inner();
    assert!(!answer.fingerprint_unpinned);
    for id in ["unknown", "progress"] {
        let answer = ask(&mut server, with(b"second", id, 3)).await;
        assert!(matches!(answer.verdict, Some(Verdict::FingerprintMismatch(_))), "{answer:?}");
    }
    server.stop().await;
}

async fn a_parked_release_keeps_its_mark_and_redrive_drops_the_fingerprint(kind: Kind) {
    let mut server = server(kind).await;
    let first = take(&mut server, with(b"invalid", "1", 1)).await;
    server.client.release(unpin("1", first.token)).await.unwrap();
    let (request_id, reason) = ("park".to_owned(), "a look".to_owned());
    let expected_version = entry(&server, "1").await.version;
    let park = proto::ParkEntryRequest { key: key("c", "1"), request_id, reason, expected_version };
    server.admin.park_entry(park).await.unwrap();
    let parked = entry(&server, "1").await;
    assert_eq!((parked.unpinned, &parked.fingerprint[..]), (true, &b"invalid"[..]));
    let answer = ask(&mut server, with(b"corrected", "1", 2)).await;
    assert!(matches!(answer.verdict, Some(Verdict::Parked(_))), "compared with nothing: {answer:?}");
    let (request_id, reason) = ("redrive".to_owned(), "it is well".to_owned());
    let redrive = proto::RedriveEntryRequest {
        key: key("c", "1"),
        request_id,
        reason,
        expected_version: parked.version,
        ..Default::default()
    };
    server.admin.redrive_entry(redrive).await.unwrap();
    let redriven = entry(&server, "1").await;
    assert_eq!((redriven.unpinned, redriven.fingerprint.len()), (false, 0));
    take(&mut server, with(b"corrected", "1", 3)).await;
    server.stop().await;
}

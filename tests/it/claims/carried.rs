//! What a settlement carries refuses no settlement: a result, a checkpoint, a label, a duration or a kind beyond its bound is
//! left out, cut or clamped, and the answer says what was left out.

use bytes::Bytes;
use idempotency_ledger::domain::{Policy, Span, State};
use idempotency_ledger::proto::settlement::Action;
use idempotency_ledger::proto::settlement_result::Outcome;
use idempotency_ledger::proto::{self, claim_response::Verdict};
use prost_types::Duration;

use super::{ask, complete, delivery, entry, fail, release, renew, server, span, take};
use crate::harness::details::{completed, fields, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(
    complete_with_a_large_result_has_one_effect,
    complete_that_leaves_its_result_out_says_so_to_later_deliveries,
    complete_after_release_drops_a_large_result,
    a_policy_bounds_the_results_of_its_consumer,
    an_operators_change_clears_the_dropped_result,
    renew_with_a_large_checkpoint_keeps_lease_and_old_checkpoint,
    durations_and_kinds_beyond_their_bounds_are_clamped,
    a_batch_is_settled_item_by_item,
);

fn carrying(id: &str, token: i64, bytes: usize) -> proto::CompleteRequest {
    proto::CompleteRequest { result: Bytes::from(vec![7; bytes]), ..complete(id, token, "") }
}

/// Delivers a message until it is acknowledged, as a consumer does, and counts its effects.
async fn effects(server: &mut TestServer, id: &str, bytes: usize) -> usize {
    let mut effects = 0;
    for number in 1..=5 {
        let answer = ask(server, delivery(id, number)).await;
        let Some(Verdict::Acquired(held)) = answer.verdict else { return effects };
        effects += 1;
        let mut done = server.client.complete(carrying(id, held.token, bytes)).await;
        if let Err(refused) = &done {
            assert_eq!(refusal(refused).reason, "TOO_LARGE", "{refused:?}");
            assert!(refused.message().contains("result_left_out"), "{refused:?}");
            let without = proto::CompleteRequest { result_left_out: true, ..complete(id, held.token, "") };
            done = server.client.complete(without).await;
        }
        let done = done.unwrap().into_inner();
        assert_eq!(done.advice(), proto::Advice::Ack);
        assert_eq!(done.result_dropped, bytes > 16_384, "{bytes}");
    }
    effects
}

async fn complete_with_a_large_result_has_one_effect(kind: Kind) {
    let mut server = server(kind).await;
    for bytes in [16_384, 16_385, 1_000_000, 5_000_000] {
        let id = bytes.to_string();
        assert_eq!(effects(&mut server, &id, bytes).await, 1, "{bytes}");
        let found = completed(&ask(&mut server, delivery(&id, 9)).await);
        let stored = if bytes == 16_384 { 16_384 } else { 0 };
        assert_eq!((found.result.len(), found.result_dropped), (stored, bytes > 16_384), "{bytes}");
        assert!(!found.result_expired && !found.result_omitted);
        let request = proto::GetEntryRequest { key: key("c", &id), ..Default::default() };
        let shown = server.admin.get_entry(request).await.unwrap().into_inner().entry.unwrap();
        assert_eq!((shown.result_bytes as usize, shown.result_dropped), (stored, bytes > 16_384));
    }
    server.stop().await;
}

async fn complete_that_leaves_its_result_out_says_so_to_later_deliveries(kind: Kind) {
    let mut server = server(kind).await;
    let left_out = |id, token| proto::CompleteRequest { result_left_out: true, ..complete(id, token, "") };
    let first = take(&mut server, delivery("left out", 1)).await;
    for replayed in [false, true] {
        let done = server.client.complete(left_out("left out", first.token)).await.unwrap().into_inner();
        assert_eq!((done.replayed, done.result_dropped), (replayed, true));
    }
    // A repeat with a result is too late, and a repeat without one removes none.
    let done = server.client.complete(complete("left out", first.token, "late")).await.unwrap().into_inner();
    assert!(done.replayed && done.result_dropped);
    assert!(completed(&ask(&mut server, delivery("left out", 2)).await).result_dropped);
    let second = take(&mut server, delivery("stored", 1)).await;
    let both = proto::CompleteRequest { result_left_out: true, ..complete("stored", second.token, "done") };
    assert!(!server.client.complete(both).await.unwrap().into_inner().result_dropped, "a result came");
    let done = server.client.complete(left_out("stored", second.token)).await.unwrap().into_inner();
    assert!(done.replayed && !done.result_dropped);
    let found = completed(&ask(&mut server, delivery("stored", 2)).await);
    assert_eq!((&found.result[..], found.result_dropped), (&b"done"[..], false));
    // No result is not a dropped one.
    let third = take(&mut server, delivery("none", 1)).await;
    assert!(
        !server.client.complete(complete("none", third.token, "")).await.unwrap().into_inner().result_dropped
    );
    assert!(!completed(&ask(&mut server, delivery("none", 2)).await).result_dropped);
    server.stop().await;
}

async fn complete_after_release_drops_a_large_result(kind: Kind) {
    let mut server = server(kind).await;
    let held = take(&mut server, delivery("1", 1)).await;
    server.client.release(release("1", held.token)).await.unwrap();
    let done = server.client.complete(carrying("1", held.token, 16_385)).await.unwrap().into_inner();
    assert!(done.late && done.result_dropped);
    assert!(completed(&ask(&mut server, delivery("1", 2)).await).result_dropped);
    server.stop().await;
}

/// Guessed, and decided on the loaded entry.
async fn a_policy_bounds_the_results_of_its_consumer(kind: Kind) {
    let policy = Policy { result_bytes_max: 4, ..Policy::default() };
    let mut server = TestServer::start_with(kind, Setup::default().with("c", policy)).await;
    let dropped = || "idempotency_ledger_corrected_fields_total{field=\"result\"}";
    for (id, releases) in [("guessed", false), ("loaded", true)] {
        for bytes in [4, 5] {
            let id = format!("{id} {bytes}");
            let held = take(&mut server, delivery(&id, 1)).await;
            if releases {
                server.client.release(release(&id, held.token)).await.unwrap();
            }
            let before = server.metric(dropped()).unwrap();
            for replayed in [false, true] {
                let done =
                    server.client.complete(carrying(&id, held.token, bytes)).await.unwrap().into_inner();
                assert_eq!((done.replayed, done.result_dropped), (replayed, bytes > 4), "{id}");
            }
            let found = completed(&ask(&mut server, delivery(&id, 2)).await);
            assert_eq!((found.result.len(), found.result_dropped), (bytes % 5, bytes > 4), "{id}");
            let counted = server.metric(dropped()).unwrap() - before;
            assert_eq!(counted, if bytes > 4 { 1.0 } else { 0.0 }, "once, and not for its repeat");
        }
    }
    // No policy goes beyond the server's bound.
    for (max, refused) in [(16_384, false), (16_385, true), (-1, true), (1_048_577, true)] {
        let request = proto::SetPolicyRequest {
            consumer: "d".into(),
            request_id: format!("bound {max}"),
            reason: "large results".into(),
            policy: Some(proto::Policy { result_bytes_max: Some(max), ..Default::default() }),
            validate_only: true,
            ..Default::default()
        };
        let answer = server.admin.set_policy(request).await;
        assert_eq!(answer.is_err(), refused, "{max}: {answer:?}");
        if let Err(status) = answer {
            assert_eq!(fields(&status), ["policy.result_bytes_max"]);
        }
    }
    server.stop().await;
}

async fn an_operators_change_clears_the_dropped_result(kind: Kind) {
    let mut server = server(kind).await;
    for (id, resolves) in [("redriven", false), ("resolved", true)] {
        let held = take(&mut server, delivery(id, 1)).await;
        server.client.complete(carrying(id, held.token, 16_385)).await.unwrap();
        let expected_version = entry(&server, id).await.version;
        let (key, request_id, reason) = (key("c", id), format!("r-{id}"), "the result is known".to_owned());
        if resolves {
            let request = proto::ResolveEntryRequest {
                key,
                request_id,
                reason,
                expected_version,
                force: true,
                state: proto::EntryState::Completed.into(),
                ..Default::default()
            };
            server.admin.resolve_entry(request).await.unwrap();
            assert!(!completed(&ask(&mut server, delivery(id, 2)).await).result_dropped);
        } else {
            let request = proto::RedriveEntryRequest {
                key,
                request_id,
                reason,
                expected_version,
                force: true,
                ..Default::default()
            };
            server.admin.redrive_entry(request).await.unwrap();
            let again = take(&mut server, delivery(id, 2)).await;
            server.client.complete(complete(id, again.token, "")).await.unwrap();
        }
        assert!(!entry(&server, id).await.result_dropped, "{id}");
    }
    server.stop().await;
}

async fn renew_with_a_large_checkpoint_keeps_lease_and_old_checkpoint(kind: Kind) {
    let mut server = server(kind).await;
    let held = take(&mut server, delivery("1", 1)).await;
    let with = |bytes: usize| proto::RenewRequest {
        checkpoint: Some(Bytes::from(vec![7; bytes])),
        ..renew("1", held.token)
    };
    let first = server.client.renew(with(16_384)).await.unwrap().into_inner();
    assert!(!first.checkpoint_dropped);
    server.advance(Span::from_secs(10)).await;
    let request = proto::RenewRequest { effect_started: true, ..with(16_385) };
    let second = server.client.renew(request).await.unwrap().into_inner();
    assert!(second.checkpoint_dropped);
    assert_eq!(span(second.lease), Span::from_secs(30), "the lease was renewed");
    let stored = entry(&server, "1").await;
    assert_eq!((stored.checkpoint.len(), stored.effect_started), (16_384, true));
    server.client.fail(fail("1", held.token)).await.unwrap();
    server.advance(Span::from_secs(10)).await;
    assert_eq!(take(&mut server, delivery("1", 2)).await.checkpoint.len(), 16_384);
    server.stop().await;
}

async fn durations_and_kinds_beyond_their_bounds_are_clamped(kind: Kind) {
    let mut server = server(kind).await;
    let month = 30 * 86_400;
    let of = |seconds, nanos| Some(Duration { seconds, nanos });
    // What is asked, and the wait that it becomes, in seconds.
    let waits = [
        (of(-1, 0), 0),
        (of(0, -1), 0),
        (of(i64::MIN, 0), 0),
        (of(month, 0), month),
        (of(month + 1, 0), month),
        (of(i64::MAX, i32::MAX), month),
        (of(5, 2_000_000_000), 7),
    ];
    for (number, (asked, wait)) in waits.into_iter().enumerate() {
        let (failed, released) = (format!("failed {number}"), format!("released {number}"));
        let held = take(&mut server, delivery(&failed, 1)).await;
        // A kind that no server knows yet.
        let request = proto::FailRequest {
            retry_after: asked,
            kind: 77,
            event_type: "t\n".repeat(1_000),
            ..fail(&failed, held.token)
        };
        let answer = server.client.fail(request).await.unwrap().into_inner();
        assert_eq!(answer.state(), proto::EntryState::FailedRetryable);
        assert_eq!(span(answer.retry_after), Span::from_secs(wait), "{asked:?}");
        let held = take(&mut server, delivery(&released, 1)).await;
        let request = proto::ReleaseRequest { delay: asked, ..release(&released, held.token) };
        server.client.release(request).await.unwrap();
        let waits = entry(&server, &released).await;
        assert_eq!(waits.not_before - waits.updated_at, Span::from_secs(wait), "{asked:?}");
    }
    let held = take(&mut server, delivery("leases", 1)).await;
    for (asked, lease) in [(of(-1, 0), 30), (of(i64::MIN, 0), 30), (of(i64::MAX, 0), 900)] {
        let request = proto::RenewRequest { lease: asked, ..renew("leases", held.token) };
        let answer = server.client.renew(request).await.unwrap().into_inner();
        assert_eq!(span(answer.lease), Span::from_secs(lease), "{asked:?}");
    }
    server.stop().await;
}

async fn a_batch_is_settled_item_by_item(kind: Kind) {
    let mut server = server(kind).await;
    let mut settlements = Vec::new();
    for (number, bytes) in [16_385, 4, 0].into_iter().enumerate() {
        let id = number.to_string();
        let held = take(&mut server, delivery(&id, 1)).await;
        let action = Action::Complete(carrying(&id, held.token, bytes));
        settlements.push(proto::Settlement { action: Some(action) });
    }
    let held = take(&mut server, delivery("renewed", 1)).await;
    let checkpoint = Some(Bytes::from(vec![7; 16_385]));
    let action = Action::Renew(proto::RenewRequest { checkpoint, ..renew("renewed", held.token) });
    settlements.push(proto::Settlement { action: Some(action) });
    let answer = server.client.batch_settle(proto::BatchSettleRequest { settlements }).await.unwrap();
    let dropped: Vec<bool> = (answer.into_inner().results.into_iter())
        .map(|result| match result.outcome {
            Some(Outcome::Complete(done)) => done.result_dropped,
            Some(Outcome::Renew(done)) => done.checkpoint_dropped,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(dropped, [true, false, false, true]);
    for id in ["0", "1", "2"] {
        assert_eq!(entry(&server, id).await.state, State::Completed);
    }
    server.stop().await;
}

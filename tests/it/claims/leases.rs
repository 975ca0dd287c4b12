//! Leases: how long they are, how they are renewed, and what follows when they run out.

use bytes::Bytes;
use idempotency_ledger::domain::{OnExpiry, ParkCause, Policy, Span, State};
use idempotency_ledger::proto::{self, claim_response::Verdict};
use tonic::Code;

use super::{ask, complete, delivery, entry, fail, release, renew, seconds, server, span, take};
use crate::harness::details::refusal;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(
    an_expired_lease_is_reclaimed_with_a_higher_token_and_effect_unknown,
    effect_unknown_survives_release_and_is_cleared_by_complete,
    park_if_started_parks_what_has_started_and_its_holders_complete_still_counts,
    a_started_effect_can_not_be_released,
    leases_are_clamped_and_never_shortened,
    renew_grants_asked_lease_within_bounds,
    renewals_end_with_max_hold,
    a_checkpoint_reaches_the_next_attempt,
);

async fn an_expired_lease_is_reclaimed_with_a_higher_token_and_effect_unknown(kind: Kind) {
    let mut server = server(kind).await;
    let first = take(&mut server, delivery("1", 1)).await;
    server.advance(Span::from_millis(30_999)).await;
    let early = ask(&mut server, delivery("1", 2)).await;
    assert!(matches!(early.verdict, Some(Verdict::InProgress(_))), "in its grace");
    assert_eq!(span(early.retry_after), Span::from_millis(1));
    server.advance(Span::from_millis(1)).await;
    let second = take(&mut server, delivery("1", 2)).await;
    assert!(second.token > first.token && second.effect_unknown);
    assert_eq!(second.attempt, 2);
    for (what, refused) in [
        ("Renew", server.client.renew(renew("1", first.token)).await.unwrap_err()),
        ("Fail", server.client.fail(fail("1", first.token)).await.unwrap_err()),
        ("Release", server.client.release(release("1", first.token)).await.unwrap_err()),
        ("Complete", server.client.complete(complete("1", first.token, "")).await.unwrap_err()),
    ] {
        let refused = refusal(&refused);
        let told = (refused.reason.as_str(), refused.state.as_str(), refused.advice.as_str());
        assert_eq!(told, ("LEASE_LOST", "IN_PROGRESS", "RETRY_LATER"), "{what}");
    }
    server.stop().await;
}

async fn effect_unknown_survives_release_and_is_cleared_by_complete(kind: Kind) {
    let mut server = server(kind).await;
    take(&mut server, delivery("1", 1)).await;
    server.advance(Span::from_secs(31)).await;
    let second = take(&mut server, delivery("1", 2)).await;
    server.client.release(release("1", second.token)).await.unwrap();
    let third = take(&mut server, delivery("1", 3)).await;
    assert!(third.effect_unknown);
    server.client.complete(complete("1", third.token, "")).await.unwrap();
    assert!(!entry(&server, "1").await.effect_unknown);
    server.stop().await;
}

async fn park_if_started_parks_what_has_started_and_its_holders_complete_still_counts(kind: Kind) {
    let policy = Policy { on_expiry: OnExpiry::ParkIfStarted, ..Policy::default() };
    let mut server = TestServer::start_with(kind, Setup::default().with("c", policy)).await;
    let started = take(&mut server, delivery("started", 1)).await;
    let request = proto::RenewRequest { effect_started: true, ..renew("started", started.token) };
    server.client.renew(request).await.unwrap();
    take(&mut server, delivery("idle", 1)).await;
    server.advance(Span::from_secs(31)).await;
    let found = ask(&mut server, delivery("started", 2)).await;
    let Some(Verdict::Parked(parked)) = found.verdict else { panic!("{found:?}") };
    assert_eq!(parked.cause(), proto::ParkCause::EffectUnknown);
    assert_eq!(entry(&server, "started").await.state, State::Parked(ParkCause::EffectUnknown));
    assert_eq!(take(&mut server, delivery("idle", 2)).await.attempt, 2);
    let done = server.client.complete(complete("started", started.token, "")).await.unwrap().into_inner();
    assert!(done.late && !done.replayed);
    server.stop().await;
}

async fn a_started_effect_can_not_be_released(kind: Kind) {
    let mut server = server(kind).await;
    let held = take(&mut server, delivery("1", 1)).await;
    let request = proto::RenewRequest { effect_started: true, ..renew("1", held.token) };
    server.client.renew(request).await.unwrap();
    let refused = refusal(&server.client.release(release("1", held.token)).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::FailedPrecondition, "EFFECT_STARTED"));
    let repeat = refusal(&server.client.claim(delivery("1", 1)).await.unwrap_err());
    assert_eq!((repeat.code, repeat.reason.as_str()), (Code::Aborted, "CLAIM_CLOSED"));
    server.stop().await;
}

async fn leases_are_clamped_and_never_shortened(kind: Kind) {
    let mut server = server(kind).await;
    let rows = [
        ("unset", None, 30),
        ("zero", seconds(0), 1),
        ("usual", seconds(60), 60),
        ("long", seconds(90_000), 900),
    ];
    for (id, asked, granted) in rows {
        let held = take(&mut server, proto::ClaimRequest { lease: asked, ..delivery(id, 1) }).await;
        assert_eq!(span(held.lease), Span::from_secs(granted), "{id}");
        let request = proto::RenewRequest { lease: seconds(1), ..renew(id, held.token) };
        let renewed = server.client.renew(request).await.unwrap().into_inner();
        assert_eq!((span(renewed.lease), renewed.revived), (Span::from_secs(granted), false), "{id}");
    }
    server.stop().await;
}

async fn renew_grants_asked_lease_within_bounds(kind: Kind) {
    let mut server = server(kind).await;
    let rows = [
        ("unset", None, 30),
        ("negative", seconds(-7), 30),
        ("zero", seconds(0), 10),
        ("shorter", seconds(9), 10),
        ("longer", seconds(45), 45),
        ("long", seconds(90_000), 900),
    ];
    let mut tokens = Vec::new();
    for (id, _, _) in rows {
        tokens.push(take(&mut server, delivery(id, 1)).await.token);
    }
    // Ten of the thirty seconds of each claim remain.
    server.advance(Span::from_secs(20)).await;
    for ((id, asked, remaining), token) in rows.into_iter().zip(tokens) {
        let request = proto::RenewRequest { lease: asked, ..renew(id, token) };
        let renewed = server.client.renew(request).await.unwrap().into_inner();
        assert_eq!(span(renewed.lease), Span::from_secs(remaining), "{id}");
    }
    server.stop().await;
}

async fn renewals_end_with_max_hold(kind: Kind) {
    let policy = Policy { max_hold: Span::from_secs(1_000), ..Policy::default() };
    let mut server = TestServer::start_with(kind, Setup::default().with("c", policy)).await;
    let held = take(&mut server, delivery("1", 1)).await;
    server.advance(Span::from_secs(990)).await;
    let renewed = server.client.renew(renew("1", held.token)).await.unwrap().into_inner();
    assert_eq!((span(renewed.lease), renewed.revived), (Span::from_secs(10), true));
    server.advance(Span::from_secs(10)).await;
    let refused = refusal(&server.client.renew(renew("1", held.token)).await.unwrap_err());
    assert_eq!(refused.reason, "LEASE_LIMIT_REACHED");
    let done = server.client.complete(complete("1", held.token, "")).await.unwrap().into_inner();
    assert!(done.late);
    server.stop().await;
}

async fn a_checkpoint_reaches_the_next_attempt(kind: Kind) {
    let mut server = server(kind).await;
    let held = take(&mut server, delivery("1", 1)).await;
    let request =
        proto::RenewRequest { checkpoint: Some(Bytes::from_static(b"page 7")), ..renew("1", held.token) };
    server.client.renew(request).await.unwrap();
    server.client.renew(renew("1", held.token)).await.unwrap();
    server.advance(Span::from_secs(40)).await;
    assert_eq!(&take(&mut server, delivery("1", 2)).await.checkpoint[..], b"page 7");
    server.stop().await;
}

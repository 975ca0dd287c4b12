//! The window: messages that are too old to know, and the floor that only grows.

use idempotency_ledger::domain::{Policy, Span};
use idempotency_ledger::rpc::proto::{self, claim_response::Verdict};

use super::{ask, delivery, server, span, take};
use crate::harness::details::acquired;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, Setup, TestServer};

on_both_stores!(
    old_messages_are_outside_the_window,
    a_longer_retention_raises_the_floor_and_a_shorter_one_does_not,
);

pub(super) fn made_at(id: &str, number: u128, before_now: Span) -> proto::ClaimRequest {
    let at = START - before_now;
    let occurred_at = prost_types::Timestamp {
        seconds: at.micros().div_euclid(1_000_000),
        nanos: i32::try_from(at.micros().rem_euclid(1_000_000)).unwrap() * 1_000,
    };
    proto::ClaimRequest { occurred_at: Some(occurred_at), ..delivery(id, number) }
}

async fn old_messages_are_outside_the_window(kind: Kind) {
    let mut server = server(kind).await;
    let week = Span::from_days(7);
    let rows = [
        ("new", Span::ZERO, true),
        ("from the future", Span::from_days(-1), true),
        ("just inside", week + Span::from_millis(-1), true),
        ("on the edge", week, false),
        ("outside", week + Span::from_days(1), false),
    ];
    for (id, age, inside) in rows {
        let answer = ask(&mut server, made_at(id, 1, age)).await;
        if inside {
            acquired(&answer);
        } else {
            assert_eq!(answer.advice(), proto::Advice::DeadLetter, "{id}");
            let Some(Verdict::OutsideWindow(outside)) = answer.verdict else { panic!("{id}") };
            assert_eq!(span(outside.window), week);
        }
    }
    // A clock that jumps right after the server has read it.
    server.advance(Span::from_days(30)).await;
    let answer = ask(&mut server, made_at("new, before the jump", 1, Span::ZERO)).await;
    assert!(matches!(answer.verdict, Some(Verdict::OutsideWindow(_))), "{answer:?}");
    server.stop().await;
}

async fn a_longer_retention_raises_the_floor_and_a_shorter_one_does_not(kind: Kind) {
    let days = |days| Policy {
        retention: Span::from_days(days),
        failed_retention: Span::from_days(60),
        abandoned_retention: Span::from_days(60),
        result_retention: Span::from_days(1),
        ..Policy::default()
    };
    let mut server = TestServer::start_with(kind, Setup { default: days(7), ..Setup::default() }).await;
    take(&mut server, made_at("first", 1, Span::ZERO)).await;
    // Lengthened to 30 days: what is older than 7 may be gone already.
    let at = server.stop().await;
    let mut server = TestServer::on(at, Setup { default: days(30), ..Setup::default() }).await;
    let old = ask(&mut server, made_at("8 days", 1, Span::from_days(8))).await;
    assert!(matches!(old.verdict, Some(Verdict::OutsideWindow(_))), "{old:?}");
    take(&mut server, made_at("6 days", 1, Span::from_days(6))).await;
    // A consumer of its own with an even longer one.
    let at = server.stop().await;
    let mut server =
        TestServer::on(at, Setup { default: days(30), ..Setup::default() }.with("c", days(40))).await;
    let old = ask(&mut server, made_at("8 days again", 1, Span::from_days(8))).await;
    assert!(matches!(old.verdict, Some(Verdict::OutsideWindow(_))), "{old:?}");
    // Shortened, and back: the floor never falls.
    let at = server.stop().await;
    let server = TestServer::on(at, Setup { default: days(3), ..Setup::default() }).await;
    server.advance(Span::from_days(1)).await;
    let at = server.stop().await;
    let mut server = TestServer::on(at, Setup { default: days(30), ..Setup::default() }).await;
    let old = ask(&mut server, made_at("3 days", 1, Span::from_days(3))).await;
    assert!(matches!(old.verdict, Some(Verdict::OutsideWindow(_))), "{old:?}");
    take(&mut server, made_at("1 day", 1, Span::from_days(1))).await;
    server.stop().await;
}

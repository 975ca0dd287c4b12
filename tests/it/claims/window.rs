//! The window: messages that are too old to know, and the floor that only grows.

use idempotency_ledger::domain::{Policy, Span};
use idempotency_ledger::proto::{self, claim_response::Verdict};

use super::{ask, delivery, server, span};
use crate::harness::details::acquired;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, Setup, TestServer, TestStore};

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

/// Each row is a start of the server: with these retentions, in days; then so many days later messages of these
/// ages, counted from the first start, are within the window or not.
async fn a_longer_retention_raises_the_floor_and_a_shorter_one_does_not(kind: Kind) {
    type Row = (&'static str, i64, Option<i64>, i64, &'static [(i64, bool)]);
    let rows: [Row; 5] = [
        ("first", 7, None, 0, &[(0, true)]),
        ("lengthened to 30 days: what is older than 7 may be gone", 30, None, 0, &[(8, false), (6, true)]),
        ("a consumer of its own with an even longer one", 30, Some(40), 0, &[(8, false)]),
        ("shortened", 3, None, 1, &[]),
        ("and back: the floor never falls", 30, None, 0, &[(3, false), (1, true)]),
    ];
    let days = |days| Policy {
        retention: Span::from_days(days),
        failed_retention: Span::from_days(60),
        abandoned_retention: Span::from_days(60),
        result_retention: Span::from_days(1),
        ..Policy::default()
    };
    let mut at = TestStore::new(kind).await;
    for (what, default, own, later, messages) in rows {
        let setup = Setup { default: days(default), ..Setup::default() };
        let setup = own.into_iter().fold(setup, |setup, own| setup.with("c", days(own)));
        let mut server = TestServer::on(at, setup).await;
        server.advance(Span::from_days(later)).await;
        for &(age, inside) in messages {
            let id = format!("{what}: {age} days");
            let answer = ask(&mut server, made_at(&id, 1, Span::from_days(age))).await;
            if inside {
                acquired(&answer);
            } else {
                assert!(matches!(answer.verdict, Some(Verdict::OutsideWindow(_))), "{id}: {answer:?}");
            }
        }
        at = server.stop().await;
    }
}

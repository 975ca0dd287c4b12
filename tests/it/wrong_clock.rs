//! Clocks that are wrong from the first reading on, or jump ahead: nothing is granted by them until they are right, or until
//! an operator says that they are.

use std::time::Duration;

use idempotency_ledger::domain::{Key, Span, StoreTime};
use idempotency_ledger::proto;
use idempotency_ledger::store::RELEASED;
use tonic::Code;

use crate::harness::details::{acquired, claim, completed, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, Setup, TestServer, TestStore, replica};

on_both_stores!(
    a_clock_before_the_release_grants_nothing,
    a_clock_that_jumps_a_year_grants_nothing_until_it_is_accepted,
    a_clock_that_jumps_back_in_time_goes_on_without_acceptance,
);

async fn server(kind: Kind) -> TestServer {
    let setup = Setup { purge_every: Duration::from_millis(20), ..Setup::default() };
    TestServer::on(TestStore::new(kind).await.judged().await, setup).await
}

async fn take(server: &mut TestServer, id: &str) -> i64 {
    acquired(&server.client.claim(claim("c", id)).await.unwrap().into_inner()).token
}

async fn refused(server: &mut TestServer, request: proto::ClaimRequest, reason: &str) {
    let status = server.client.claim(request).await.unwrap_err();
    let refused = refusal(&status);
    assert_eq!((refused.code, refused.reason.as_str()), (Code::Unavailable, reason), "{status:?}");
    assert_eq!(refused.advice, "RETRY_LATER");
}

/// Waits until the heartbeat has set the metric.
async fn told(server: &TestServer, metric: &str) {
    let until = async {
        while server.metric(metric) < Some(1.0) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), until).await.unwrap_or_else(|_| panic!("no {metric}"));
}

/// Several heartbeats: none of them makes a clock right.
async fn beats(server: &TestServer) {
    for _ in 0..3 {
        server.at.session().await.upkeep().write_heartbeat(&replica(1)).await.unwrap();
    }
}

async fn a_clock_before_the_release_grants_nothing(kind: Kind) {
    let at = TestStore::new(kind).await.judged().await;
    at.set_clock(StoreTime(86_400_000_000)).await;
    let mut server = TestServer::on(at, Setup::default()).await;
    for clock in [StoreTime(86_400_000_000), RELEASED - Span(1)] {
        server.at.set_clock(clock).await;
        beats(&server).await;
        refused(&mut server, claim("c", "1"), "STORE_CLOCK_BEHIND").await;
        let status = server.client.claim(claim("c", "1")).await.unwrap_err();
        assert!(!status.message().contains("token_offset"), "no offset helps: {status:?}");
        offset_does_not_help(&mut server, RELEASED - clock).await;
        let requests = vec![claim("c", "2"), claim("c", "3")];
        let batch = proto::BatchClaimRequest { requests };
        let answers = server.client.batch_claim(batch).await.unwrap().into_inner().responses;
        for answer in &answers {
            let Some(proto::claim_response::Verdict::Rejected(rejected)) = &answer.verdict else {
                panic!("{answer:?}")
            };
            assert_eq!(rejected.reason(), proto::ErrorReason::StoreClockBehind);
        }
    }
    told(&server, "idempotency_ledger_store_clock_behind_seconds").await;
    assert_eq!(
        server.at.number("SELECT clock_mark FROM @ledger.meta").await,
        0,
        "no wrong clock is the mark"
    );
    // Right at last: from 1970 to now is not a jump.
    server.at.set_clock(START).await;
    take(&mut server, "1").await;
    server.stop().await;
}

/// How far the clock is behind is reported, and `token_offset` stays as it is.
async fn offset_does_not_help(server: &mut TestServer, behind: Span) {
    let raise = proto::RaiseTokenOffsetRequest {
        request_id: "raise".into(),
        reason: "the clock is behind".into(),
        token_offset: Some(prost_types::Duration { seconds: 366 * 86_400, nanos: 0 }),
        ..Default::default()
    };
    for validate_only in [true, false] {
        let raise = proto::RaiseTokenOffsetRequest { validate_only, ..raise.clone() };
        let refused = refusal(&server.admin.raise_token_offset(raise).await.unwrap_err());
        assert_eq!((refused.code, refused.reason.as_str()), (Code::Unavailable, "STORE_CLOCK_BEHIND"));
    }
    let look = proto::RaiseTokenOffsetRequest { validate_only: true, ..Default::default() };
    let shown = server.admin.raise_token_offset(look).await.unwrap().into_inner();
    let millis = |it: prost_types::Duration| it.seconds * 1_000 + i64::from(it.nanos) / 1_000_000;
    assert_eq!(shown.behind.map(millis), Some((behind.micros() + 999) / 1_000));
    assert_eq!(shown.token_offset.map(millis), Some(0));
}

/// A claim that is held, one that is done, and a clock that has jumped since.
async fn jumped(server: &mut TestServer, by: Span) -> (i64, Vec<u8>) {
    let held = take(server, "held").await;
    let token = take(server, "done").await;
    let request = proto::CompleteRequest {
        key: key("c", "done"),
        token,
        result: b"receipt".to_vec().into(),
        ..Default::default()
    };
    server.client.complete(request).await.unwrap();
    beats(server).await;
    server.at.set_clock(START + by).await;
    beats(server).await;
    (held, b"receipt".to_vec())
}

async fn a_clock_that_jumps_a_year_grants_nothing_until_it_is_accepted(kind: Kind) {
    let mut server = server(kind).await;
    let year = Span::from_days(367);
    let (held, result) = jumped(&mut server, year + Span(1)).await;
    refused(&mut server, claim("c", "new"), "STORE_CLOCK_AHEAD").await;
    refused(&mut server, claim("c", "held"), "STORE_CLOCK_AHEAD").await;
    // It would be outside the window, and be dead-lettered.
    let made = prost_types::Timestamp { seconds: START.micros() / 1_000_000, nanos: 0 };
    let young = proto::ClaimRequest { occurred_at: Some(made), ..claim("c", "young") };
    refused(&mut server, young, "STORE_CLOCK_AHEAD").await;
    told(&server, "idempotency_ledger_store_clock_ahead_seconds").await;
    let look = proto::RaiseTokenOffsetRequest { validate_only: true, ..Default::default() };
    let shown = server.admin.raise_token_offset(look).await.unwrap().into_inner();
    assert_eq!(
        shown.clock_mark.map(|mark| mark.seconds),
        Some(START.micros() / 1_000_000),
        "not the jumped clock"
    );
    let delete = proto::DeleteEntryRequest {
        key: key("c", "done"),
        request_id: "erase".into(),
        expected_version: server.entry(&Key::new("c", "tests", "done")).await.unwrap().version,
        reason: "asked for".into(),
        force: true,
        ..Default::default()
    };
    let status = server.admin.delete_entry(delete).await.unwrap_err();
    assert_eq!(refusal(&status).reason, "STORE_CLOCK_AHEAD");
    // What is not granted goes on, and nothing was purged though each retention seems over.
    let done = completed(&server.client.claim(claim("c", "done")).await.unwrap().into_inner());
    assert_eq!(done.result, result);
    let request = proto::CompleteRequest { key: key("c", "held"), token: held, ..Default::default() };
    server.client.complete(request).await.unwrap();
    refused(&mut server, claim("c", "new"), "STORE_CLOCK_AHEAD").await;
    assert_eq!(server.at.store.accept_clock().await.unwrap(), START + year + Span(1));
    take(&mut server, "new").await;
    server.stop().await;
}

async fn a_clock_that_jumps_back_in_time_goes_on_without_acceptance(kind: Kind) {
    let mut server = server(kind).await;
    jumped(&mut server, Span::from_days(400)).await;
    refused(&mut server, claim("c", "new"), "STORE_CLOCK_AHEAD").await;
    server.at.set_clock(START + Span::from_secs(5)).await;
    take(&mut server, "new").await;
    // A leap within a year is not a jump: a ledger may have stood still for so long.
    server.at.set_clock(START + Span::from_days(366)).await;
    take(&mut server, "later").await;
    // No operator makes a clock right that is behind.
    server.at.set_clock(START - Span::from_secs(5)).await;
    server.at.store.accept_clock().await.unwrap_err();
    server.stop().await;
}

/// The dates of the releases that a changelog names, the newest one.
fn newest_release(changelog: &str) -> Option<String> {
    let dates = changelog
        .lines()
        .filter_map(|line| line.strip_prefix("## ")?.rsplit_once(" - ").map(|(_, date)| date));
    dates.map(str::to_owned).max()
}

/// At a release the constant is raised: see docs/contract.md, section 4.
#[test]
fn the_earliest_clock_is_not_before_the_newest_release() {
    let changelog = "## Unreleased\n\n## 0.2.0 - 2027-01-31\n\n## 0.1.0 - 2026-12-01\n";
    assert_eq!(newest_release(changelog).as_deref(), Some("2027-01-31"));
    let earliest = prost_types::Timestamp { seconds: RELEASED.micros() / 1_000_000, nanos: 0 }.to_string();
    let newest = newest_release(&crate::docs::read("CHANGELOG.md")).unwrap_or_default();
    assert!(
        earliest[..10] >= *newest,
        "src/store/clock.rs: RELEASED is {earliest}, the newest release is of {newest}"
    );
}

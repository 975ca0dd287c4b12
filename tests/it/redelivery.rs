//! A message that comes again after its entry was purged, whatever became of the retention meanwhile:
//! changed or not, by an operator or by a restart with another configuration, before the entry was closed,
//! between its close and its purge, or after that. What is expected is computed here, from
//! docs/contract.md, sections 4 and 8, and from nothing of the ledger's.

use std::time::{Duration, Instant};

use idempotency_ledger::domain::{Key, Policy, Span, StoreTime};
use idempotency_ledger::proto::{
    self, claim_response::Verdict, settlement::Action, settlement_result::Outcome,
};

use crate::harness::details::{acquired, claim, key};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, Setup, TestServer};

on_both_stores!(
    after_an_operators_change,
    after_a_restart_with_another_default,
    after_a_restart_with_another_policy_of_the_consumer,
);

const DAY: i64 = 86_400_000_000;
const HOUR: i64 = DAY / 24;
const MINUTE: i64 = HOUR / 60;
const OLD: i64 = 10 * DAY;
const MARGIN: i64 = HOUR;

/// How the change is made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    SetPolicy,
    FileDefault,
    FileConsumer,
}

/// When it is made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    BeforeClose,
    BeforePurge,
    AfterPurge,
}

/// How the entry was closed.
const STATES: [&str; 3] = ["completed", "failed", "abandoned"];

/// When the message says that it was made.
const MADE: [&str; 8] = [
    "not said",
    "a minute ago",
    "a minute before its claim",
    "by a clock that is an hour ahead",
    "between the old and the new retention",
    "before both",
    "at the edge of the window",
    "just inside the window",
];

async fn after_an_operators_change(kind: Kind) {
    each(kind, Way::SetPolicy).await;
}

async fn after_a_restart_with_another_default(kind: Kind) {
    each(kind, Way::FileDefault).await;
}

async fn after_a_restart_with_another_policy_of_the_consumer(kind: Kind) {
    each(kind, Way::FileConsumer).await;
}

async fn each(kind: Kind, way: Way) {
    for new in [OLD, 2 * OLD, OLD / 2] {
        for when in [When::BeforeClose, When::BeforePurge, When::AfterPurge] {
            check(kind, way, when, new).await;
        }
    }
}

/// All retentions are the same, so that all states are purged at the same instant.
fn keeping(retention: i64) -> Policy {
    let retention = Span(retention);
    Policy {
        retention,
        failed_retention: retention,
        abandoned_retention: retention,
        result_retention: retention,
        ..Policy::default()
    }
}

fn setup(way: Way, retention: i64) -> Setup {
    let purging = Setup { purge_every: Duration::from_millis(20), ..Setup::default() };
    match way {
        Way::FileConsumer => purging.with("c", keeping(retention)),
        Way::SetPolicy | Way::FileDefault => Setup { default: keeping(retention), ..purging },
    }
}

async fn change(server: TestServer, way: Way, new: i64) -> TestServer {
    if way != Way::SetPolicy {
        let at = server.stop().await;
        return TestServer::on(at, setup(way, new)).await;
    }
    let mut server = server;
    let days = Some(prost_types::Duration { seconds: new / 1_000_000, nanos: 0 });
    let policy = proto::Policy {
        retention: days,
        failed_retention: days,
        abandoned_retention: days,
        result_retention: days,
        ..Default::default()
    };
    let request = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: "once".into(),
        reason: "the retention is another one".into(),
        policy: Some(policy),
        ..Default::default()
    };
    server.admin.set_policy(request).await.unwrap();
    server
}

fn ids() -> Vec<String> {
    STATES.iter().flat_map(|state| MADE.iter().map(move |made| format!("{state}, made {made}"))).collect()
}

async fn check(kind: Kind, way: Way, when: When, new: i64) {
    let case = format!("{way:?}, {when:?}, {} days", new / DAY);
    let mut server = TestServer::start_with(kind, setup(way, OLD)).await;
    let at = |micros: i64| START + Span(micros);

    // Claimed at the start, closed an hour later.
    let requests = ids().iter().map(|id| claim("c", id)).collect();
    let answered = server.client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap();
    let tokens: Vec<i64> =
        answered.into_inner().responses.iter().map(|answer| acquired(answer).token).collect();
    let mut changed_at = None;
    if when == When::BeforeClose {
        server.at.set_clock(at(HOUR / 2)).await;
        server = change(server, way, new).await;
        changed_at = Some(HOUR / 2);
    }
    server.at.set_clock(at(HOUR)).await;
    let settlements = ids().iter().zip(tokens).map(|(id, token)| settlement(id, token)).collect();
    let settled = server.client.batch_settle(proto::BatchSettleRequest { settlements }).await.unwrap();
    for result in settled.into_inner().results {
        assert!(!matches!(result.outcome, Some(Outcome::Rejected(_)) | None), "{case}: {result:?}");
    }
    if when == When::BeforePurge {
        server.at.set_clock(at(2 * HOUR)).await;
        server = change(server, way, new).await;
        changed_at = Some(2 * HOUR);
    }

    // Kept for the longest retention that was in force at its claim, at its close or at its purge.
    let kept = if when == When::AfterPurge { OLD } else { OLD.max(new) };
    let due = HOUR + kept + MARGIN;
    server.at.set_clock(at(due - MINUTE)).await;
    server.at.until_purged().await;
    assert_eq!(there(&server).await, ids().len(), "{case}: too early");
    // Where it came too early the purge comes back after an hour.
    let due = due + HOUR;
    server.at.set_clock(at(due)).await;
    server.at.until_purged().await;
    assert_eq!(there(&server).await, 0, "{case}: it is time");
    if when == When::AfterPurge {
        server = change(server, way, new).await;
        changed_at = Some(due);
    }

    let now = due + MINUTE;
    server.at.set_clock(at(now)).await;
    let made = |id: &str| -> Option<i64> {
        match id.split_once("made ").unwrap().1 {
            "not said" => None,
            "a minute ago" => Some(now - MINUTE),
            "a minute before its claim" => Some(-MINUTE),
            "by a clock that is an hour ahead" => Some(HOUR),
            "between the old and the new retention" => Some(now - (OLD + new) / 2),
            "before both" => Some(now - 3 * OLD),
            "at the edge of the window" => Some(now - new),
            "just inside the window" => Some(now - new + 1),
            other => panic!("{other}"),
        }
    };
    // As in docs/contract.md, section 8: a change that lengthens the retention sets the floor.
    let mut floor = i64::MIN;
    if let Some(changed_at) = changed_at
        && new > OLD
    {
        floor = changed_at - OLD;
    }
    let requests = ids().iter().map(|id| redelivered(id, made(id).map(at))).collect();
    for (id, answer) in ids().iter().zip(claimed(&mut server, requests).await) {
        // As in docs/contract.md, section 4: absent.
        let mut expected = "acquired";
        if let Some(made) = made(id) {
            if made <= now - new {
                expected = "outside_window";
            }
            if made <= floor {
                expected = "outside_window";
            }
        }
        let seen = match &answer.verdict {
            Some(Verdict::Acquired(_)) => "acquired",
            Some(Verdict::OutsideWindow(_)) => "outside_window",
            other => panic!("{case}: {id}: {other:?}"),
        };
        assert_eq!(seen, expected, "{case}: {id}");
        // What it is all for: the message that was purged, which says when it was made, is never new again.
        if id.ends_with("before its claim") || id.ends_with("an hour ahead") {
            assert_eq!(seen, "outside_window", "{case}: {id}");
        }
    }
    server.stop().await;
}

/// Claims, once the policies are read again: those that were read before a jump of the clock are too old to grant anything.
async fn claimed(server: &mut TestServer, requests: Vec<proto::ClaimRequest>) -> Vec<proto::ClaimResponse> {
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        let batch = proto::BatchClaimRequest { requests: requests.clone() };
        let answers = server.client.batch_claim(batch).await.unwrap().into_inner().responses;
        let unread = answers.iter().any(|answer| match &answer.verdict {
            Some(Verdict::Rejected(rejected)) => rejected.reason() == proto::ErrorReason::StoreUnavailable,
            _ => false,
        });
        if !unread || Instant::now() > end {
            return answers;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn settlement(id: &str, token: i64) -> proto::Settlement {
    let key = key("c", id);
    let action = if id.starts_with("completed") {
        Action::Complete(proto::CompleteRequest { key, token, ..Default::default() })
    } else if id.starts_with("failed") {
        let kind = proto::FailureKind::Terminal.into();
        Action::Fail(proto::FailRequest { key, token, kind, ..Default::default() })
    } else {
        Action::Release(proto::ReleaseRequest {
            key,
            token,
            delay: None,
            unpin_fingerprint: false,
            event_type: String::new(),
        })
    };
    proto::Settlement { action: Some(action) }
}

fn redelivered(id: &str, made: Option<StoreTime>) -> proto::ClaimRequest {
    let occurred_at = made.map(|made| prost_types::Timestamp {
        seconds: made.micros().div_euclid(1_000_000),
        nanos: i32::try_from(made.micros().rem_euclid(1_000_000)).unwrap() * 1_000,
    });
    proto::ClaimRequest { occurred_at, ..claim("c", id) }
}

async fn there(server: &TestServer) -> usize {
    let keys: Vec<Key> = ids().iter().map(|id| Key::new("c", "tests", id)).collect();
    server.entries(&keys).await.iter().flatten().count()
}

//! Replay runs: docs/contract.md, section 8, each row of its table on both stores; their ends, their purge, and that
//! nothing live ever hears of them.

mod rebuild;
mod runs;
mod servers;

use idempotency_ledger::domain::{Key, Namespace, Policy, Span};
use idempotency_ledger::proto::{self, claim_response::Verdict};

use crate::harness::details::{acquired, claim, completed, fields, key, refusal};
use crate::harness::on_all_stores;
use crate::harness::server::{Kind, START, Setup, TestServer};
use crate::holds::{hold, resume};

on_all_stores!(
    nobody_replays_in_a_run_that_is_not_registered,
    a_suppressing_run_acknowledges_and_leaves_no_trace,
    what_holds_grants_back_holds_a_suppressing_run_back,
    a_rebuilding_run_is_deduplicated_by_itself,
    a_closed_run_grants_nothing_more_and_answers_what_is_done,
    close_is_in_force_for_the_next_claim_by_an_older_reading_of_the_clock,
    a_policy_that_forbids_replays_by_now_grants_nothing_more,
    a_settlement_that_forgets_its_run_changes_nothing_and_wakes_nobody,
    an_import_is_never_of_a_run,
    nothing_is_admitted_to_a_run,
);

pub(super) fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

/// A server whose consumer `c` may replay so.
pub(super) async fn server(kind: Kind, replay: proto::ReplayMode) -> TestServer {
    let mut server = TestServer::start(kind).await;
    // It purges once a day, and has done so before there is a consumer: it takes no turn from a server that purges.
    server.looked().await;
    set(&mut server, 0, proto::Policy { replay: replay.into(), ..Default::default() }).await;
    server
}

pub(super) async fn set(server: &mut TestServer, expected_version: i32, policy: proto::Policy) {
    let request = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: format!("set {expected_version}"),
        expected_version,
        reason: "a replay".into(),
        policy: Some(policy),
        ..Default::default()
    };
    server.admin.set_policy(request).await.unwrap();
}

pub(super) fn creates(run: &str) -> proto::CreateReplayRunRequest {
    proto::CreateReplayRunRequest {
        consumer: "c".into(),
        replay_run: run.into(),
        request_id: format!("create {run}"),
        reason: "a replay".into(),
        ends_in: None,
    }
}

pub(super) fn closes(run: &str) -> proto::CloseReplayRunRequest {
    proto::CloseReplayRunRequest {
        consumer: "c".into(),
        replay_run: run.into(),
        request_id: format!("close {run}"),
        reason: "it is done".into(),
    }
}

pub(super) fn in_run(run: &str, id: &str) -> Option<proto::EntryKey> {
    key("c", id).map(|key| proto::EntryKey { replay_run: run.into(), ..key })
}

pub(super) fn replayed(run: &str, id: &str) -> proto::ClaimRequest {
    proto::ClaimRequest { key: in_run(run, id), ..claim("c", id) }
}

pub(super) fn stored(run: &str, id: &str) -> Key {
    Key::of(Namespace::new("c", run), "tests".into(), id.into())
}

/// Of a refusal its reason, of an answer its verdict's advice.
pub(super) async fn answered(server: &mut TestServer, request: proto::ClaimRequest) -> String {
    match server.client.claim(request).await {
        Ok(response) => response.into_inner().advice().as_str_name().to_owned(),
        Err(status) => {
            let refused = refusal(&status);
            assert_eq!(
                (refused.code, refused.advice.as_str()),
                (tonic::Code::FailedPrecondition, "RETRY_LATER")
            );
            refused.reason
        }
    }
}

async fn settle(server: &mut TestServer, key: Option<proto::EntryKey>, token: i64) {
    let request = proto::CompleteRequest { key, token, ..Default::default() };
    server.client.complete(request).await.unwrap();
}

async fn nobody_replays_in_a_run_that_is_not_registered(kind: Kind) {
    let mut server = server(kind, proto::ReplayMode::Rebuild).await;
    for run in ["r", "r", "another"] {
        assert_eq!(answered(&mut server, replayed(run, "1")).await, "REPLAY_RUN_UNKNOWN");
    }
    assert_eq!(server.at.number("SELECT count(*) FROM @entries").await, 0);
    for (run, wrong) in [("a b", true), ("a/b", true), ("\u{e9}", true), ("A-z_0.9", false)] {
        let status = server.client.claim(replayed(run, "1")).await.unwrap_err();
        assert_eq!(fields(&status) == ["key.replay_run"], wrong, "{run}: {status:?}");
    }
    let status = server.client.claim(replayed(&"x".repeat(65), "1")).await.unwrap_err();
    assert_eq!(
        (fields(&status), refusal(&status).advice.as_str()),
        (vec!["key.replay_run".to_owned()], "RETRY_LATER"),
        "the run is the process's, not the message's"
    );
    // What is created is known at once, though it was refused a moment ago.
    server.admin.create_replay_run(creates("r")).await.unwrap();
    assert_eq!(answered(&mut server, replayed("r", "1")).await, "ADVICE_PROCESS");
    // The run is one consumer's.
    let other = proto::ClaimRequest {
        key: key("d", "1").map(|key| proto::EntryKey { replay_run: "r".into(), ..key }),
        ..claim("d", "1")
    };
    assert_eq!(answered(&mut server, other).await, "REPLAY_RUN_UNKNOWN");
    server.stop().await;
}

/// A message that is acknowledged unprocessed is lost.
async fn what_holds_grants_back_holds_a_suppressing_run_back(kind: Kind) {
    let mut server = server(kind, proto::ReplayMode::Suppress).await;
    server.admin.create_replay_run(creates("r")).await.unwrap();
    server.admin.create_replay_run(creates("closed")).await.unwrap();
    server.admin.close_replay_run(closes("closed")).await.unwrap();
    assert_eq!(answered(&mut server, replayed("r", "1")).await, "ADVICE_ACK");
    server.admin.hold_consumers(hold("c")).await.unwrap();
    assert_eq!(answered(&mut server, replayed("r", "1")).await, "CONSUMER_DISABLED");
    // A hold comes first, then the end of the run, then what the policy says of replays.
    assert_eq!(answered(&mut server, replayed("closed", "1")).await, "CONSUMER_DISABLED");
    assert_eq!(answered(&mut server, replayed("mistyped", "1")).await, "REPLAY_RUN_UNKNOWN");
    server.admin.resume_consumers(resume("c")).await.unwrap();
    assert_eq!(answered(&mut server, replayed("r", "1")).await, "ADVICE_ACK");
    let disabled = proto::Policy { disabled: Some(true), ..Default::default() };
    set(&mut server, 1, disabled).await;
    assert_eq!(answered(&mut server, replayed("r", "1")).await, "CONSUMER_DISABLED");
    let forbids = proto::Policy {
        disabled: Some(false),
        replay: proto::ReplayMode::Forbid.into(),
        ..Default::default()
    };
    set(&mut server, 2, forbids).await;
    assert_eq!(answered(&mut server, replayed("r", "1")).await, "REPLAY_FORBIDDEN");
    assert_eq!(answered(&mut server, replayed("closed", "1")).await, "REPLAY_RUN_CLOSED");
    server.stop().await;
}

async fn a_suppressing_run_acknowledges_and_leaves_no_trace(kind: Kind) {
    let mut server = server(kind, proto::ReplayMode::Suppress).await;
    let request = proto::CreateReplayRunRequest { ends_in: seconds(3_600), ..creates("r") };
    server.admin.create_replay_run(request).await.unwrap();
    server.admin.create_replay_run(creates("other")).await.unwrap();
    let response = server.client.claim(replayed("r", "1")).await.unwrap().into_inner();
    assert_eq!(response.advice(), proto::Advice::Ack);
    let suppressed = proto::Suppressed { replay_run: "r".into() };
    assert_eq!(response.verdict, Some(Verdict::Suppressed(suppressed)));
    // The same key twice, and a live one, in one batch.
    let requests = vec![replayed("r", "1"), replayed("r", "1"), claim("c", "1")];
    let batch = server.client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap().into_inner();
    let advices: Vec<_> = batch.responses.iter().map(proto::ClaimResponse::advice).collect();
    assert_eq!(advices, [proto::Advice::Ack, proto::Advice::Ack, proto::Advice::Process]);
    assert_eq!(server.at.number("SELECT count(*) FROM @entries").await, 1, "only the live one is stored");
    // Closed: refused at once here; over by itself: as soon as the clock was read again.
    server.admin.close_replay_run(closes("other")).await.unwrap();
    assert_eq!(answered(&mut server, replayed("other", "1")).await, "REPLAY_RUN_CLOSED");
    server.advance(Span::from_secs(3_600)).await;
    let over = async {
        while answered(&mut server, replayed("r", "1")).await != "REPLAY_RUN_CLOSED" {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), over).await.expect("the run is over");
    let count = |verdict: &str| {
        let series = format!(
            "idempotency_ledger_replay_claims_total{{consumer=\"c\",event_type=\"\",replay=\"true\",verdict=\"{verdict}\"}}"
        );
        server.metric(&series).unwrap_or(0.0)
    };
    assert!(
        count("suppressed") >= 3.0 && count("refused") >= 2.0,
        "{} {}",
        count("suppressed"),
        count("refused")
    );
    server.stop().await;
}

async fn a_rebuilding_run_is_deduplicated_by_itself(kind: Kind) {
    let mut server = server(kind, proto::ReplayMode::Rebuild).await;
    let live = acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    settle(&mut server, key("c", "1"), live.token).await;
    let before = server.entry(&Key::new("c", "tests", "1")).await;
    let row = server.at.row("1").await;
    server.admin.create_replay_run(creates("r")).await.unwrap();
    // However old the message is: the run knows what it has seen.
    let year_ago = START - Span::from_days(365);
    let occurred_at = Some(prost_types::Timestamp { seconds: year_ago.micros() / 1_000_000, nanos: 0 });
    let asked = proto::ClaimRequest { occurred_at, ..replayed("r", "1") };
    let again = acquired(&server.client.claim(asked.clone()).await.unwrap().into_inner());
    assert_eq!((again.attempt, again.effect_unknown), (1, false));
    assert_eq!(again.idempotency_key, live.idempotency_key, "providers still deduplicate");
    assert_eq!(answered(&mut server, asked.clone()).await, "ADVICE_RETRY_LATER", "somebody is at work");
    settle(&mut server, in_run("r", "1"), again.token).await;
    completed(&server.client.claim(asked).await.unwrap().into_inner());
    assert!(server.entry(&stored("r", "1")).await.is_some());
    assert_eq!(server.entry(&Key::new("c", "tests", "1")).await, before);
    assert_eq!(server.at.row("1").await.len(), row.len(), "one live row, and one of the run");
    // A second run knows nothing of the first.
    server.admin.create_replay_run(creates("s")).await.unwrap();
    acquired(&server.client.claim(replayed("s", "1")).await.unwrap().into_inner());
    server.stop().await;
}

async fn a_closed_run_grants_nothing_more_and_answers_what_is_done(kind: Kind) {
    for ends in [false, true] {
        let mut server = server(kind, proto::ReplayMode::Rebuild).await;
        let hour = proto::CreateReplayRunRequest { ends_in: seconds(3_600), ..creates("r") };
        server.admin.create_replay_run(hour).await.unwrap();
        let mut tokens = Vec::new();
        let held = proto::ClaimRequest {
            lease: seconds(900),
            claim_id: uuid::Uuid::from_u128(0x4000_8000_0000_0000_0001).to_string(),
            ..replayed("r", "held")
        };
        let held = proto::ClaimRequest {
            claim_id: uuid::Builder::from_random_bytes([7; 16]).into_uuid().to_string(),
            ..held
        };
        for id in ["done", "released", "expired"] {
            tokens.push(acquired(&server.client.claim(replayed("r", id)).await.unwrap().into_inner()).token);
        }
        settle(&mut server, in_run("r", "done"), tokens[0]).await;
        let request = proto::ReleaseRequest {
            key: in_run("r", "released"),
            token: tokens[1],
            delay: None,
            unpin_fingerprint: false,
            event_type: String::new(),
        };
        server.client.release(request).await.unwrap();
        server.advance(Span::from_secs(3_500)).await;
        let first = acquired(&server.client.claim(held.clone()).await.unwrap().into_inner());
        if ends {
            server.advance(Span::from_secs(100)).await;
        } else {
            server.admin.close_replay_run(closes("r")).await.unwrap();
        }
        for id in ["new", "released", "expired"] {
            assert_eq!(answered(&mut server, replayed("r", id)).await, "REPLAY_RUN_CLOSED", "{id} {ends}");
        }
        completed(&server.client.claim(replayed("r", "done")).await.unwrap().into_inner());
        let again = acquired(&server.client.claim(held).await.unwrap().into_inner());
        assert!(again.replayed && again.token == first.token);
        settle(&mut server, in_run("r", "held"), first.token).await;
        settle(&mut server, in_run("r", "expired"), tokens[2]).await;
        // Over is for ever, and so is the name.
        let again = proto::CreateReplayRunRequest { request_id: "again".into(), ..creates("r") };
        let status = server.admin.create_replay_run(again).await.unwrap_err();
        assert_eq!(refusal(&status).reason, "STATE_NOT_ALLOWED");
        acquired(&server.client.claim(claim("c", "new")).await.unwrap().into_inner());
        server.stop().await;
    }
}

/// The server judges a claim in a suppressing run by its last reading of the store's clock, which here is an hour older than the
/// close.
async fn close_is_in_force_for_the_next_claim_by_an_older_reading_of_the_clock(kind: Kind) {
    let mut server = server(kind, proto::ReplayMode::Suppress).await;
    server.admin.create_replay_run(creates("r")).await.unwrap();
    assert_eq!(answered(&mut server, replayed("r", "1")).await, "ADVICE_ACK");
    server.at.set_clock(server.at.now() + Span::from_secs(3_600)).await;
    server.admin.close_replay_run(closes("r")).await.unwrap();
    assert_eq!(answered(&mut server, replayed("r", "2")).await, "REPLAY_RUN_CLOSED");
    server.stop().await;
}

async fn a_policy_that_forbids_replays_by_now_grants_nothing_more(kind: Kind) {
    let mut server = server(kind, proto::ReplayMode::Rebuild).await;
    server.admin.create_replay_run(creates("r")).await.unwrap();
    let token = acquired(&server.client.claim(replayed("r", "1")).await.unwrap().into_inner()).token;
    set(&mut server, 1, proto::Policy { replay: proto::ReplayMode::Forbid.into(), ..Default::default() })
        .await;
    assert_eq!(answered(&mut server, replayed("r", "2")).await, "REPLAY_FORBIDDEN");
    settle(&mut server, in_run("r", "1"), token).await;
    completed(&server.client.claim(replayed("r", "1")).await.unwrap().into_inner());
    let status = server.admin.create_replay_run(creates("s")).await.unwrap_err();
    assert_eq!(refusal(&status).reason, "REPLAY_FORBIDDEN");
    // A run keeps the mode of its creation.
    set(&mut server, 2, proto::Policy { replay: proto::ReplayMode::Suppress.into(), ..Default::default() })
        .await;
    acquired(&server.client.claim(replayed("r", "2")).await.unwrap().into_inner());
    // The hold comes before.
    set(&mut server, 3, proto::Policy { disabled: Some(true), ..Default::default() }).await;
    assert_eq!(answered(&mut server, replayed("r", "3")).await, "CONSUMER_DISABLED");
    server.stop().await;
}

async fn a_settlement_that_forgets_its_run_changes_nothing_and_wakes_nobody(kind: Kind) {
    let mut server = server(kind, proto::ReplayMode::Rebuild).await;
    acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    let before = server.entry(&Key::new("c", "tests", "1")).await;
    server.admin.create_replay_run(creates("r")).await.unwrap();
    server.advance(Span::from_secs(1)).await;
    for (id, reason) in [("1", "TOKEN_FROM_FUTURE"), ("2", "ENTRY_NOT_FOUND")] {
        for closed in [false, true] {
            let series = format!("idempotency_ledger_alerts_total{{reason=\"{reason}\"}}");
            let alerts = |server: &TestServer| server.metric(&series).unwrap_or(0.0);
            let run = format!("{id}{closed}");
            server.admin.create_replay_run(creates(&run)).await.unwrap();
            let token = acquired(&server.client.claim(replayed(&run, id)).await.unwrap().into_inner()).token;
            if closed {
                for open in ["r".to_owned(), "1false".to_owned(), "2false".to_owned(), run] {
                    let _closed_before = server.admin.close_replay_run(closes(&open)).await;
                }
            }
            server.advance(Span::from_secs(2)).await;
            let then = alerts(&server);
            let request = proto::CompleteRequest { key: key("c", id), token, ..Default::default() };
            let status = server.client.complete(request).await.unwrap_err();
            assert_eq!(refusal(&status).reason, reason);
            assert!(status.message().contains("the key was sent without its replay_run"), "{status:?}");
            let more = alerts(&server) - then;
            assert!((more > 0.5) == closed, "{id} {closed}: {more}");
        }
    }
    assert_eq!(server.entry(&Key::new("c", "tests", "1")).await, before);
    server.stop().await;
}

async fn an_import_is_never_of_a_run(kind: Kind) {
    let setup = Setup::default().with("c", Policy::default());
    let mut server = TestServer::start_with(kind, setup).await;
    let request = proto::ImportEntriesRequest {
        operation_id: "o".into(),
        reason: "r".into(),
        entries: vec![proto::ImportedEntry { key: in_run("r", "1"), ..Default::default() }],
    };
    let stream = futures_util::stream::iter([request]);
    let mut answers = server.admin.import_entries(stream).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    let rejected = answer.rejections[0].rejected.clone().unwrap();
    assert_eq!(rejected.field_violations[0].field, "entries[0].key.replay_run");
    assert_eq!(server.at.number("SELECT count(*) FROM @entries").await, 0);
    server.stop().await;
}

/// A run has no window that a message could be outside of, and its purge takes nothing that comes after it.
async fn nothing_is_admitted_to_a_run(kind: Kind) {
    let mut server = server(kind, proto::ReplayMode::Rebuild).await;
    let admit = |run: &str, request_id: &str| proto::RedriveEntryRequest {
        key: in_run(run, "1"),
        request_id: request_id.into(),
        reason: "a replay".into(),
        admit: true,
        ..Default::default()
    };
    server.admin.create_replay_run(creates("open")).await.unwrap();
    server.admin.create_replay_run(creates("closed")).await.unwrap();
    server.admin.close_replay_run(closes("closed")).await.unwrap();
    for run in ["open", "closed", "unknown"] {
        let status = server.admin.redrive_entry(admit(run, run)).await.unwrap_err();
        assert_eq!(refusal(&status).reason, "ENTRY_NOT_FOUND", "{run}");
        assert_eq!(server.entries(&[stored(run, "1")]).await, [None], "{run}");
    }
    server.admin.redrive_entry(admit("", "live")).await.unwrap();
    server.stop().await;
}

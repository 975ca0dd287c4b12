//! How runs begin and end: orders, bounds, other servers, retentions that change, and the purge.

use std::sync::Arc;
use std::time::Duration;

use idempotency_ledger::domain::{Key, Policy, ReplayMode, Span};
use idempotency_ledger::proto;
use idempotency_ledger::store::HOLD_LEVEL;

use super::{answered, closes, creates, in_run, replayed, seconds, server, set, settle, stored};
use crate::harness::details::{acquired, claim, fields, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, Served, Setup, TestServer, replica};
use crate::holds::hold;

on_both_stores!(
    orders_are_repeatable_audited_and_bounded,
    runs_are_listed_and_their_entries_too,
    a_shorter_retention_ends_a_run_for_ever,
    shorter_default_retention_shortens_runs_of_consumers_without_a_policy,
    a_run_never_ends_in_the_past,
    run_leaves_the_level_of_a_hold,
    the_purge_takes_all_of_a_run_that_is_past_and_nothing_live,
    no_run_is_created_while_a_server_does_not_know_runs,
    runs_are_shared_between_principals,
);

/// Runs of ten other consumers, which this principal has created.
async fn fill(server: &TestServer, actor: &str, count: usize) {
    let (now, end) = (START.micros(), (START + Span::from_days(7)).micros());
    let insert = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
         INSERT INTO @ledger.replay_runs (consumer, name, mode, created_at, ends_at, actor, reason)
         SELECT 'x' || (i % 10), '{actor}' || i, 3, {now}, {end}, '{actor}', 'why' FROM n"
    );
    server.at.execute(&insert).await;
    server.at.execute("UPDATE @ledger.meta SET policy_epoch = policy_epoch + 1").await;
}

/// A principal has half of what others leave free; what has ended and has no entries counts no longer.
async fn runs_are_shared_between_principals(kind: Kind) {
    let mut server = server(kind, proto::ReplayMode::Rebuild).await;
    fill(&server, "another", 5_000).await;
    server.admin.create_replay_run(creates("r1")).await.unwrap();
    acquired(&server.client.claim(replayed("r1", "1")).await.unwrap().into_inner());
    server.admin.close_replay_run(closes("r1")).await.unwrap();
    fill(&server, "anonymous", 2_498).await;
    server.admin.create_replay_run(creates("r2")).await.unwrap();
    let status = server.admin.create_replay_run(creates("r3")).await.unwrap_err();
    assert_eq!(refusal(&status).reason, "STATE_NOT_ALLOWED");
    let says = "anonymous has created 2500 replay runs that still count, and 2500 are the most now";
    assert!(status.message().contains(says), "{status:?}");
    let close = format!(
        "UPDATE @ledger.replay_runs SET closed_at = {} WHERE actor = 'anonymous' AND consumer <> 'c'",
        START.micros()
    );
    server.at.execute(&close).await;
    server.advance(Span::from_secs(3_600)).await;
    assert!(server.admin.create_replay_run(creates("r3")).await.is_err(), "an hour is not over");
    server.advance(Span::from_secs(1)).await;
    server.admin.create_replay_run(creates("r3")).await.unwrap();
    let counting = "SELECT count(*) FROM @ledger.replay_runs WHERE swept_at IS NULL";
    assert_eq!(server.at.number(counting).await, 7_501 - 1_000, "a thousand at a time");
    let with_entries = format!("{counting} AND name = 'r1'");
    assert_eq!(server.at.number(&with_entries).await, 1, "one with entries counts on");
    assert_eq!(answered(&mut server, replayed("r1", "2")).await, "REPLAY_RUN_CLOSED");
    server.stop().await;
}

const DAY: i64 = 86_400;

fn micros(at: Option<prost_types::Timestamp>) -> i64 {
    at.map_or(0, |at| at.seconds * 1_000_000 + i64::from(at.nanos) / 1_000)
}

async fn orders_are_repeatable_audited_and_bounded(kind: Kind) {
    let mut server = server(kind, proto::ReplayMode::Rebuild).await;
    // The order, and the fields at fault.
    for (request, wrong) in [
        (creates("a b"), "replay_run"),
        (creates(""), "replay_run"),
        (proto::CreateReplayRunRequest { consumer: String::new(), ..creates("r") }, "consumer"),
        (proto::CreateReplayRunRequest { request_id: String::new(), ..creates("r") }, "request_id"),
        (proto::CreateReplayRunRequest { request_id: "a/b".into(), ..creates("r") }, "request_id"),
        (proto::CreateReplayRunRequest { reason: String::new(), ..creates("r") }, "reason"),
        (proto::CreateReplayRunRequest { ends_in: seconds(59), ..creates("r") }, "ends_in"),
        (proto::CreateReplayRunRequest { ends_in: seconds(7 * DAY + 1), ..creates("r") }, "ends_in"),
    ] {
        let status = server.admin.create_replay_run(request).await.unwrap_err();
        assert_eq!(fields(&status), [wrong], "{status:?}");
    }
    let hour = proto::CreateReplayRunRequest { ends_in: seconds(3_600), ..creates("r") };
    let done = server.admin.create_replay_run(hour.clone()).await.unwrap().into_inner();
    let run = done.run.unwrap();
    assert_eq!((run.mode(), run.open, done.replayed), (proto::ReplayMode::Rebuild, true, false));
    assert_eq!(micros(run.ends_at), (START + Span::from_secs(3_600)).micros());
    let again = server.admin.create_replay_run(hour.clone()).await.unwrap().into_inner();
    assert_eq!((again.run.unwrap(), again.replayed), (run, true));
    for other in [
        proto::CreateReplayRunRequest { ends_in: None, ..hour.clone() },
        proto::CreateReplayRunRequest { reason: "another".into(), ..hour.clone() },
        proto::CreateReplayRunRequest { replay_run: "s".into(), ..hour.clone() },
    ] {
        let status = server.admin.create_replay_run(other).await.unwrap_err();
        assert_eq!(fields(&status), ["request_id"]);
    }
    let closed = server.admin.close_replay_run(closes("r")).await.unwrap().into_inner();
    assert!(!closed.run.unwrap().open);
    assert!(server.admin.close_replay_run(closes("r")).await.unwrap().into_inner().replayed);
    for (run, reason) in
        [("r", "REPLAY_RUN_CLOSED"), ("nobody's", "INVALID_FIELD"), ("no", "REPLAY_RUN_UNKNOWN")]
    {
        let request = proto::CloseReplayRunRequest { request_id: format!("again {run}"), ..closes(run) };
        let status = server.admin.close_replay_run(request).await.unwrap_err();
        assert_eq!(refusal(&status).reason, reason);
    }
    let request = proto::ListAuditEventsRequest { consumer: "c".into(), ..Default::default() };
    let events = server.admin.list_audit_events(request).await.unwrap().into_inner().events;
    let actions: Vec<&str> = events.iter().map(|event| event.action.as_str()).collect();
    assert_eq!(actions.len(), 3, "{actions:?}");
    assert!(actions.contains(&"CREATE_REPLAY_RUN") && actions.contains(&"CLOSE_REPLAY_RUN"), "{actions:?}");
    for (run, ends_in) in [("shortest", 60), ("longest", 7 * DAY)] {
        let request = proto::CreateReplayRunRequest { ends_in: seconds(ends_in), ..creates(run) };
        let run = server.admin.create_replay_run(request).await.unwrap().into_inner().run.unwrap();
        assert_eq!(micros(run.ends_at), (START + Span::from_secs(ends_in)).micros());
    }
    server.stop().await;
}

async fn runs_are_listed_and_their_entries_too(kind: Kind) {
    let mut server = server(kind, proto::ReplayMode::Rebuild).await;
    for run in ["a", "b"] {
        server.admin.create_replay_run(creates(run)).await.unwrap();
    }
    for id in ["1", "2"] {
        let token = acquired(&server.client.claim(replayed("a", id)).await.unwrap().into_inner()).token;
        settle(&mut server, in_run("a", id), token).await;
    }
    acquired(&server.client.claim(replayed("a", "3")).await.unwrap().into_inner());
    acquired(&server.client.claim(claim("c", "live")).await.unwrap().into_inner());
    let request = proto::ListReplayRunsRequest { consumer: "c".into(), page_size: 1, ..Default::default() };
    let page = server.admin.list_replay_runs(request.clone()).await.unwrap().into_inner();
    let run = &page.runs[0];
    let states: Vec<_> = run.states.iter().map(|one| (one.state(), one.count)).collect();
    assert_eq!((run.replay_run.as_str(), page.next_page_token.is_empty()), ("a", false));
    assert_eq!(states, [(proto::EntryState::InProgress, 1), (proto::EntryState::Completed, 2)]);
    let next = proto::ListReplayRunsRequest { page_token: page.next_page_token, ..request };
    let page = server.admin.list_replay_runs(next).await.unwrap().into_inner();
    assert_eq!((page.runs[0].replay_run.as_str(), page.runs[0].states.len()), ("b", 0));
    // Entries, by run and live.
    for (run, ids) in [("", vec!["live"]), ("a", vec!["1", "2", "3"]), ("b", vec![]), ("none", vec![])] {
        let filter =
            proto::EntryFilter { consumer: "c".into(), replay_run: run.into(), ..Default::default() };
        let request = proto::ListEntriesRequest { filter: Some(filter), ..Default::default() };
        let entries = server.admin.list_entries(request).await.unwrap().into_inner().entries;
        let mut found: Vec<_> = entries.iter().map(|entry| entry.key.clone().unwrap()).collect();
        found.sort_by(|one, other| one.id.cmp(&other.id));
        assert!(found.iter().all(|key| key.replay_run == run), "{found:?}");
        assert_eq!(found.iter().map(|key| key.id.as_str()).collect::<Vec<_>>(), ids, "{run}");
        let request = proto::SummarizeEntriesRequest {
            consumer: "c".into(),
            replay_run: run.into(),
            ..Default::default()
        };
        let summary = server.admin.summarize_entries(request).await.unwrap().into_inner().consumers.remove(0);
        assert_eq!(summary.states.iter().map(|one| one.count).sum::<i64>(), ids.len() as i64, "{run}");
    }
    let (mut page_token, mut all) = (String::new(), Vec::new());
    loop {
        let request = proto::SummarizeEntriesRequest { page_size: 1, page_token, ..Default::default() };
        let page = server.admin.summarize_entries(request).await.unwrap().into_inner();
        all.extend(page.consumers.into_iter().map(|one| (one.consumer, one.replay_run)));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(all, [("c".to_owned(), String::new()), ("c".to_owned(), "a".to_owned())]);
    let request = proto::GetEntryRequest { key: in_run("a", "3"), ..Default::default() };
    let entry = server.admin.get_entry(request).await.unwrap().into_inner().entry.unwrap();
    assert_eq!(entry.key, in_run("a", "3"));
    // An operator changes the entry of the run alone.
    let request = proto::DeleteEntryRequest {
        key: in_run("a", "1"),
        request_id: "delete".into(),
        expected_version: 1,
        reason: "x".into(),
        force: true,
        key_hash: String::new(),
    };
    let status = server.admin.delete_entry(request).await.unwrap_err();
    assert!(["VERSION_MISMATCH", "TOO_RECENT"].contains(&refusal(&status).reason.as_str()), "{status:?}");
    server.stop().await;
}

async fn a_shorter_retention_ends_a_run_for_ever(kind: Kind) {
    let mut server = server(kind, proto::ReplayMode::Rebuild).await;
    server.admin.create_replay_run(creates("r")).await.unwrap();
    let ends = async |server: &mut TestServer| {
        let request = proto::ListReplayRunsRequest { consumer: "c".into(), ..Default::default() };
        let page = server.admin.list_replay_runs(request).await.unwrap().into_inner();
        micros(page.runs[0].ends_at)
    };
    let token = acquired(&server.client.claim(replayed("r", "1")).await.unwrap().into_inner()).token;
    settle(&mut server, in_run("r", "1"), token).await;
    let retained = |days: i64| proto::Policy { retention: seconds(days * DAY), ..Default::default() };
    // The retention, and when the run is over from then on.
    for (version, days, over) in [(1, 7, 7), (2, 30, 7), (3, 1, 1), (4, 30, 1), (5, 2, 1)] {
        set(&mut server, version, retained(days)).await;
        assert_eq!(ends(&mut server).await, (START + Span::from_days(over)).micros(), "{days} days");
    }
    set(&mut server, 6, retained(30)).await;
    let setup = Setup { purge_every: Duration::from_millis(20), ..Setup::default() };
    let purging = Served::start(Arc::clone(&server.at.store), setup).await;
    for days in [1, 2, 40] {
        server.at.set_clock(START + Span::from_days(days) + Span::from_secs(1)).await;
        server.at.until_purged().await;
        let answered = answered(&mut server, replayed("r", "1")).await;
        assert!(
            ["ADVICE_ACK", "REPLAY_RUN_CLOSED"].contains(&answered.as_str()),
            "granted twice: {answered}"
        );
        assert_eq!(super::answered(&mut server, replayed("r", "2")).await, "REPLAY_RUN_CLOSED");
    }
    purging.stop().await;
    server.stop().await;
}

async fn shorter_default_retention_shortens_runs_of_consumers_without_a_policy(kind: Kind) {
    let with = |days| {
        let default =
            Policy { replay: ReplayMode::Rebuild, retention: Span::from_days(days), ..Policy::default() };
        Setup { default, ..Setup::default() }
    };
    let mut server = TestServer::start_with(kind, with(7)).await;
    server.admin.create_replay_run(creates("r")).await.unwrap();
    let mut next = Served::start(Arc::clone(&server.at.store), with(2)).await;
    let request = proto::ListReplayRunsRequest { consumer: "c".into(), ..Default::default() };
    let run = next.admin.list_replay_runs(request).await.unwrap().into_inner().runs.remove(0);
    assert_eq!(micros(run.ends_at), (START + Span::from_days(2)).micros());
    next.stop().await;
    server.stop().await;
}

/// A server may not know of the end yet: what the purge took meanwhile it would grant again.
async fn a_run_never_ends_in_the_past(kind: Kind) {
    let mut server = server(kind, proto::ReplayMode::Rebuild).await;
    server.admin.create_replay_run(creates("r")).await.unwrap();
    let token = acquired(&server.client.claim(replayed("r", "1")).await.unwrap().into_inner()).token;
    settle(&mut server, in_run("r", "1"), token).await;
    let changed = START + Span::from_days(5);
    server.at.set_clock(changed).await;
    set(&mut server, 1, proto::Policy { retention: seconds(3_600), ..Default::default() }).await;
    let request = proto::ListReplayRunsRequest { consumer: "c".into(), ..Default::default() };
    let run = server.admin.list_replay_runs(request).await.unwrap().into_inner().runs.remove(0);
    assert_eq!(
        (micros(run.ends_at), run.open),
        (changed.micros(), false),
        "over from now on, and not before"
    );
    assert_eq!(answered(&mut server, replayed("r", "2")).await, "REPLAY_RUN_CLOSED");
    let setup = Setup { purge_every: Duration::from_millis(20), ..Setup::default() };
    let purging = Served::start(Arc::clone(&server.at.store), setup).await;
    // One retention and an hour after that the purge takes what is left of the run.
    for (after, there) in [(0, true), (7_199, true), (7_200 + 3_600, false)] {
        server.at.set_clock(changed + Span::from_secs(after)).await;
        server.at.until_purged().await;
        assert_eq!(server.entry(&stored("r", "1")).await.is_some(), there, "{after} s after the change");
    }
    purging.stop().await;
    server.stop().await;
}

async fn the_purge_takes_all_of_a_run_that_is_past_and_nothing_live(kind: Kind) {
    let mut server = server(kind, proto::ReplayMode::Rebuild).await;
    let hour = proto::CreateReplayRunRequest { ends_in: seconds(3_600), ..creates("r") };
    server.admin.create_replay_run(hour).await.unwrap();
    for run in ["", "r"] {
        let of = |id: &str| proto::ClaimRequest { key: in_run(run, id), ..claim("c", id) };
        let mut tokens = Vec::new();
        for id in ["parked", "failed", "started", "held"] {
            tokens.push(acquired(&server.client.claim(of(id)).await.unwrap().into_inner()).token);
        }
        for (id, token, kind) in [
            ("parked", tokens[0], proto::FailureKind::Park),
            ("failed", tokens[1], proto::FailureKind::Terminal),
        ] {
            let request =
                proto::FailRequest { key: in_run(run, id), token, kind: kind.into(), ..Default::default() };
            server.client.fail(request).await.unwrap();
        }
        let request = proto::RenewRequest {
            key: in_run(run, "started"),
            token: tokens[2],
            effect_started: true,
            ..Default::default()
        };
        server.client.renew(request).await.unwrap();
    }
    let setup = Setup { purge_every: Duration::from_millis(20), ..Setup::default() };
    let purging = Served::start(Arc::clone(&server.at.store), setup).await;
    let ids = ["parked", "failed", "started", "held"];
    // End + retention + an hour, and an hour more at which the purge comes again.
    server.at.set_clock(START + Span::from_days(7) + Span::from_secs(2 * 3_600 - 1)).await;
    server.at.until_purged().await;
    let mut there = 0;
    for id in ids {
        there += usize::from(server.entry(&stored("r", id)).await.is_some());
    }
    assert_eq!(there, ids.len(), "not before its time");
    server.at.set_clock(START + Span::from_days(7) + Span::from_secs(2 * 3_600)).await;
    let gone = async {
        for id in ids {
            let mut hours = 0;
            while server.entry(&stored("r", id)).await.is_some() {
                hours += 1;
                server.advance(Span::from_secs(1_800)).await;
                server.at.until_purged().await;
                tokio::time::sleep(Duration::from_millis(20)).await;
                assert!(hours < 400, "{id} stays");
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.expect("all of the run goes");
    for id in ["parked", "started"] {
        assert!(server.entry(&Key::new("c", "tests", id)).await.is_some(), "{id} waits for a person");
    }
    let swept = async {
        while server.at.number("SELECT count(*) FROM @ledger.replay_runs WHERE swept_at IS NULL").await > 0 {
            server.advance(Span::from_secs(1_800)).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), swept).await.expect("the run is swept");
    let closed = async {
        while answered(&mut server, replayed("r", "held")).await != "REPLAY_RUN_CLOSED" {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), closed).await.expect("over is for ever");
    // A server that starts now reads no runs that were swept: it looks this one up.
    let mut later = Served::start(Arc::clone(&server.at.store), Setup::default()).await;
    let refused = later.client.claim(replayed("r", "held")).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "REPLAY_RUN_CLOSED", "{refused:?}");
    later.stop().await;
    purging.stop().await;
    server.stop().await;
}

async fn no_run_is_created_while_a_server_does_not_know_runs(kind: Kind) {
    let mut server = server(kind, proto::ReplayMode::Rebuild).await;
    assert_eq!(server.at.number("SELECT count(*) FROM @ledger.meta WHERE level = 1").await, 1);
    server.at.session().await.upkeep().write_heartbeat(&replica(2)).await.unwrap();
    let status = server.admin.create_replay_run(creates("r")).await.unwrap_err();
    assert_eq!(refusal(&status).reason, "STATE_NOT_ALLOWED");
    assert!(status.message().contains(&replica(2).id.to_string()), "{status:?}");
    assert_eq!(server.at.number("SELECT count(*) FROM @ledger.meta WHERE level = 1").await, 1);
    server.advance(Span::from_secs(301)).await;
    server.admin.create_replay_run(creates("r")).await.unwrap();
    let raised = server.at.number("SELECT count(*) FROM @ledger.meta WHERE level = 3").await;
    assert_eq!(raised, 1, "an older server stands down");
    server.stop().await;
}

/// A server that knows runs and not holds would grant what is held.
async fn run_leaves_the_level_of_a_hold(kind: Kind) {
    let mut server = server(kind, proto::ReplayMode::Rebuild).await;
    server.admin.hold_consumers(hold("x")).await.unwrap();
    server.admin.create_replay_run(creates("r")).await.unwrap();
    let level = format!("SELECT count(*) FROM @ledger.meta WHERE level = {HOLD_LEVEL}");
    assert_eq!(server.at.number(&level).await, 1);
    server.stop().await;
}

//! `replay`: runs are created, listed and closed; what is refused, and how it exits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto;

use super::once::deaf;
use super::{alone, ask};
use crate::harness::details::{acquired, claim};
use crate::harness::faulty::{FaultyStore, Inject, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer, TestStore};

on_both_stores!(
    a_run_is_created_listed_and_closed,
    a_run_that_cannot_be_is_refused_and_says_why,
    a_run_is_not_closed_unasked,
    an_unknown_outcome_tells_how_to_repeat,
    a_change_whose_answer_is_lost_is_repeated_with_its_id,
);

const CREATE: [&str; 6] = ["replay", "create", "c", "view-2", "--reason", "ticket 4711"];
const CLOSE: [&str; 7] = ["replay", "close", "c", "view-2", "--reason", "it is done", "--yes"];
const LIST: [&str; 3] = ["replay", "list", "c"];

async fn allow(server: &TestServer, replay: &str) {
    ask(server, &["policy", "set", "c", "--replay", replay, "--reason", "a replay"]).await.says(0, &[]);
}

/// An entry of the run, completed or still held.
async fn replayed(server: &TestServer, id: &str, complete: bool) {
    let request = claim("c", id);
    let key = request.key.map(|key| proto::EntryKey { replay_run: "view-2".into(), ..key });
    let mut client = server.client.clone();
    let request = proto::ClaimRequest { key: key.clone(), ..claim("c", id) };
    let token = acquired(&client.claim(request).await.unwrap().into_inner()).token;
    if complete {
        let request = proto::CompleteRequest { key, token, ..Default::default() };
        client.complete(request).await.unwrap();
    }
}

async fn a_run_is_created_listed_and_closed(kind: Kind) {
    let server = TestServer::start(kind).await;
    allow(&server, "REBUILD").await;
    let none = ask(&server, &LIST).await.is(0, "");
    assert_eq!(none.err, "the consumer has no replay run\n");
    let create = [&CREATE[..], &["--ends-in", "3d", "--request-id", "r 1"]].concat();
    let until = "c view-2: REBUILD, until 2026-05-31T20:26:40Z";
    ask(&server, &create).await.is(0, &format!("{until}\n"));
    let again = format!("{until} (it had been done before; this repeat changed nothing)\n");
    ask(&server, &create).await.is(0, &again);
    for (id, complete) in [("1", true), ("2", true), ("3", false)] {
        replayed(&server, id, complete).await;
    }
    let other = ["replay", "create", "c", "view-3", "--reason", "another", "--json"];
    let told = ask(&server, &other).await.json().remove(0);
    let run = &told["run"];
    assert_eq!((&run["consumer"], &run["replayRun"]), (&"c".into(), &"view-3".into()));
    assert_eq!((&run["mode"], &run["open"]), (&"REPLAY_MODE_REBUILD".into(), &true.into()));
    assert_eq!(run["endsAt"], "2026-06-04T20:26:40Z", "for as long as the retention");
    ask(&server, &CLOSE).await.is(0, "c view-2: closed at 2026-05-28T20:26:40Z\n");
    let mail = ["policy", "set", "mail", "--replay", "suppress", "--reason", "a replay"];
    ask(&server, &mail).await.says(0, &["  replay: FORBID → SUPPRESS\n"]);
    let suppress = ["replay", "create", "mail", "m", "--reason", "r"];
    ask(&server, &suppress).await.says(0, &["mail m: SUPPRESS, until "]);
    let listed = ask(&server, &LIST).await.says(0, &[]);
    let lines: Vec<&str> = listed.out.lines().collect();
    assert_eq!(
        lines,
        [
            "RUN     MODE     STATE   CREATED               ENDS                  ENTRIES                     REASON",
            "view-2  REBUILD  closed  2026-05-28T20:26:40Z  2026-05-31T20:26:40Z  1 IN_PROGRESS, 2 COMPLETED  ticket 4711",
            "view-3  REBUILD  open    2026-05-28T20:26:40Z  2026-06-04T20:26:40Z  -                           another",
        ]
    );
    let told = ask(&server, &[&LIST[..], &["--json"]].concat()).await.json();
    let names: Vec<_> = told.iter().map(|run| run["replayRun"].as_str().unwrap()).collect();
    assert_eq!(names, ["view-2", "view-3"]);
    assert_eq!(told[0]["states"][1], serde_json::json!({ "count": "2", "state": "ENTRY_STATE_COMPLETED" }));
    assert_eq!(told[0]["closedAt"], "2026-05-28T20:26:40Z");
    server.advance(Span::from_days(8)).await;
    let over = ask(&server, &LIST).await.says(0, &[]);
    assert!(over.out.lines().any(|line| line.starts_with("view-3  REBUILD  over ")), "{over:?}");
    let audit = ask(&server, &["audit", "list", "--consumer", "c"]).await;
    audit.says(0, &["CREATE_REPLAY_RUN", "CLOSE_REPLAY_RUN", "ticket 4711", "it is done"]);
    server.stop().await;
}

async fn a_run_that_cannot_be_is_refused_and_says_why(kind: Kind) {
    let server = TestServer::start(kind).await;
    ask(&server, &CREATE).await.says(4, &["REPLAY_FORBIDDEN: ", "set `replay` to SUPPRESS or REBUILD first"]);
    ask(&server, &CLOSE).await.says(3, &["REPLAY_RUN_UNKNOWN: ", "there is nothing to close"]);
    allow(&server, "REBUILD").await;
    let ends_in = |how_long: &'static str| [&CREATE[..], &["--ends-in", how_long]].concat();
    for (code, arguments, says) in [
        (1, ends_in("8d"), &["INVALID_FIELD: ", "ends_in: must be 1 minute to the consumer's retention"][..]),
        (1, ends_in("59s"), &["INVALID_FIELD: ", "ends_in: "]),
        (2, ends_in("soon"), &["soon", "30s"]),
        (1, vec!["replay", "create", "c", "a b", "--reason", "r"], &["INVALID_FIELD: ", "replay_run: "]),
        (1, vec!["replay", "create", "c", "", "--reason", "r"], &["INVALID_FIELD: ", "replay_run: "]),
        (1, vec!["replay", "create", "", "r", "--reason", "r"], &["INVALID_FIELD: ", "consumer: is empty"]),
        (1, vec!["replay", "list", ""], &["INVALID_FIELD: ", "consumer: is empty"]),
    ] {
        ask(&server, &arguments).await.says(code, says);
    }
    for missing in [
        &["replay", "create", "c", "--reason", "r"][..],
        &["replay", "create", "c", "r"],
        &["replay", "close", "c", "r"],
        &["replay", "list"],
        &["replay"],
    ] {
        assert_eq!(alone(missing).code, 2, "{missing:?}");
    }
    ask(&server, &[&CREATE[..], &["--request-id", "once"]].concat()).await.says(0, &["until"]);
    let used = ["replay", "create", "c", "view-9", "--reason", "r", "--request-id", "once"];
    ask(&server, &used).await.says(1, &["INVALID_FIELD: ", "request_id: was used before"]);
    ask(&server, &CREATE).await.says(4, &["STATE_NOT_ALLOWED: ", "a name is never used twice"]);
    ask(&server, &CLOSE).await.says(0, &["closed at"]);
    ask(&server, &CLOSE).await.says(4, &["REPLAY_RUN_CLOSED: ", "closed or over already"]);
    ask(&server, &CREATE).await.says(4, &["STATE_NOT_ALLOWED: ", "a name is never used twice"]);
    server.stop().await;
}

async fn a_run_is_not_closed_unasked(kind: Kind) {
    let server = TestServer::start(kind).await;
    allow(&server, "SUPPRESS").await;
    ask(&server, &CREATE).await.says(0, &["SUPPRESS, until"]);
    let unasked = &CLOSE[..CLOSE.len() - 1];
    ask(&server, unasked).await.says(2, &["not confirmed", "add --yes"]);
    ask(&server, &LIST).await.says(0, &["  open  "]);
    if !super::no_terminals() {
        let line =
            format!("{} replay close c view-2 --reason r --endpoint {}", super::BINARY, server.address());
        let no = super::on_a_terminal(line.clone(), "n\n").await;
        no.says(2, &["Close the replay run view-2 of c, for ever? [y/N] ", "nothing was changed"]);
        ask(&server, &LIST).await.says(0, &["  open  "]);
        super::on_a_terminal(line, "y\n").await.says(0, &["c view-2: closed at "]);
    }
    server.stop().await;
}

async fn an_unknown_outcome_tells_how_to_repeat(kind: Kind) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    let server = TestServer::on(at, Setup::default()).await;
    allow(&server, "REBUILD").await;
    // What was applied and not answered is answered by the repeat, and nothing is said of it.
    plan.next([Inject::LostAnswer]);
    ask(&server, &CREATE).await.is(0, "c view-2: REBUILD, until 2026-06-04T20:26:40Z\n");
    // For ever nobody tries.
    plan.next([Inject::LostRequest; 40]);
    ask(&server, &[&CLOSE[..], &["--request-id", "r 1"]].concat()).await.says(
        5,
        &[
            "error: OUTCOME_UNKNOWN: ",
            "next: it may have been done: repeat the same command with --request-id 'r 1'\n",
        ],
    );
    server.stop().await;
}

/// The connection breaks when the server has carried the change out: a repeat with another id would be refused.
async fn a_change_whose_answer_is_lost_is_repeated_with_its_id(kind: Kind) {
    let server = TestServer::start(kind).await;
    allow(&server, "REBUILD").await;
    for (change, says) in [
        (&CREATE[..], "c view-2: REBUILD, until 2026-06-04T20:26:40Z\n"),
        (&CLOSE[..], "c view-2: closed at 2026-05-28T20:26:40Z\n"),
    ] {
        let (proxy, cut) = deaf::losing(server.address(), b"view-2").await;
        let done = tokio::task::block_in_place(|| alone(&[change, &["--endpoint", &proxy]].concat()));
        assert!(cut.load(Ordering::SeqCst), "no answer was lost: {done:?}");
        done.is(0, says);
    }
    server.stop().await;
}

//! Redriving many, and the watched summary.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use idempotency_ledger::proto::EntryState;

use super::once::deaf;
use super::{alone, ask, command, in_doubt, on_a_terminal, park, state};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(
    many_entries_are_redriven,
    a_redrive_of_many_is_confirmed,
    what_may_have_had_its_effect_is_counted,
    a_redrive_that_breaks_off_says_how_to_go_on,
    a_redrive_that_breaks_off_before_its_answer_says_how_to_go_on,
    a_watched_summary_ends_on_an_interrupt,
);

const MANY: [&str; 8] = ["entries", "redrive", "--consumer", "c", "--state", "PARKED", "--reason", "is back"];

async fn many_entries_are_redriven(kind: Kind) {
    let server = TestServer::start(kind).await;
    for id in ["1", "2", "3"] {
        park(&server, id, "x").await;
    }
    let dry = ask(&server, &[&MANY[..], &["--dry-run"]].concat()).await;
    let dry = dry.is(0, "dry run: 3 would be redriven, 0 refused\n");
    let answer = ask(&server, &[&MANY[..], &["--dry-run", "--json"]].concat()).await.json();
    assert!(answer.iter().all(|one| one["dryRun"] == true), "{answer:?}");
    assert!(dry.err.starts_with("operation id: "), "{dry:?}");
    assert_eq!(state(&server, "1").await, EntryState::Parked);
    let some = ask(&server, &[&MANY[..], &["--yes", "--max", "2", "--operation-id", "o1"]].concat()).await;
    let some = some.is(6, "2 redriven, 0 refused\n");
    let reached = "operation id: o1\n--max 2 is reached; there may be more: start another operation\n";
    let next = some.err.strip_prefix(reached).unwrap_or_else(|| panic!("{some:?}"));
    assert!(next.starts_with("next: have the messages delivered again"), "{some:?}");
    assert!(!dry.err.contains("next: "), "{dry:?}");
    let answer = ask(&server, &[&MANY[..], &["--yes", "--json", "--rate", "1000"]].concat()).await;
    assert!(!answer.err.contains("redriven"), "no effect is in doubt: {answer:?}");
    let answer = answer.json();
    let outcomes = answer.iter().flat_map(|one| one["outcomes"].as_array().cloned().unwrap_or_default());
    let ids: Vec<String> = outcomes.map(|one| one["key"]["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 1, "two were redriven before");
    assert_eq!(answer.last().unwrap()["finished"], true);
    let none = ask(&server, &[&MANY[..], &["--yes"]].concat()).await.is(0, "0 redriven, 0 refused\n");
    assert!(!none.err.contains("knows no consumer"), "{none:?}");
    let nobody = ["entries", "redrive", "--consumer", "nobody", "--state", "PARKED", "--reason", "r", "-y"];
    ask(&server, &nobody).await.says(0, &["note: the ledger knows no consumer of this name yet"]);
    server.stop().await;
}

async fn a_redrive_of_many_is_confirmed(kind: Kind) {
    let server = TestServer::start(kind).await;
    park(&server, "1", "x").await;
    ask(&server, &MANY).await.says(2, &["not confirmed", "--yes"]);
    assert_eq!(state(&server, "1").await, EntryState::Parked);
    ask(&server, &["entries", "redrive", "--consumer", "c", "--reason", "r"]).await.says(2, &["--state"]);
    ask(&server, &["entries", "redrive", "--reason", "r"]).await.says(2, &["CONSUMER"]);
    ask(&server, &["entries", "redrive", "c", "tests", "1", "--state", "PARKED", "--reason", "r"])
        .await
        .says(2, &["cannot be used with"]);
    ask(&server, &[&MANY[..], &["--force"]].concat()).await.says(2, &["cannot be used with"]);
    ask(&server, &[&MANY[..], &["--rate", "0"]].concat()).await.says(2, &["1..=1000"]);
    ask(
        &server,
        &["entries", "redrive", "--consumer", "c", "--state", "COMPLETED", "--reason", "r", "--yes"],
    )
    .await
    .says(1, &["INVALID_FIELD", "filter.states"]);
    server.stop().await;
}

async fn what_may_have_had_its_effect_is_counted(kind: Kind) {
    if super::no_terminals() {
        return;
    }
    let server = TestServer::start(kind).await;
    park(&server, "1", "x").await;
    in_doubt(&server, "2").await;
    let dry = ask(&server, &[&MANY[..], &["--dry-run"]].concat()).await;
    dry.is(0, "dry run: 2 would be redriven, 0 refused; 1 of these may have had its effect\n");
    let answer = ask(&server, &[&MANY[..], &["--dry-run", "--json"]].concat()).await;
    assert!(answer.err.contains("1 of these may have had its effect"), "{answer:?}");
    let line = format!(
        "{} entries redrive --consumer c --state PARKED --reason r --endpoint {}",
        super::BINARY,
        server.address()
    );
    let asked = on_a_terminal(line, "n\n").await;
    asked.says(
        2,
        &[
            "1 of these may have had its effect: a redrive",
            &format!("at http://{}: Redrive 2 entries of c, at most 100 a second? [y/N] ", server.address()),
        ],
    );
    let done = ask(&server, &[&MANY[..], &["--yes"]].concat()).await;
    let done = done.is(0, "2 redriven, 0 refused; 1 of these may have had its effect\n");
    assert!(!done.err.contains("redriven"), "once, on standard output: {done:?}");
    server.stop().await;
}

async fn a_redrive_that_breaks_off_says_how_to_go_on(kind: Kind) {
    let server = TestServer::start(kind).await;
    for id in 0..20 {
        park(&server, &id.to_string(), "x").await;
    }
    let address = server.address().to_string();
    let mut child = command(&MANY)
        .args(["--yes", "--rate", "1", "--operation-id", "o 1", "--token", "s3cret", "--endpoint", &address])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while state(&server, "0").await == EntryState::Parked {
        assert!(Instant::now() < until, "nothing is redriven");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // A server that drains ends its streams.
    let at = server.stop().await;
    let output = tokio::task::spawn_blocking(move || {
        child.wait().unwrap();
        child.wait_with_output().unwrap()
    });
    let ran = super::ended(output.await.unwrap());
    let resume = format!(
        "next: go on where it was broken off: {} {} --yes --rate 1 --operation-id 'o 1' \
         --token TOKEN --endpoint {address}\n",
        super::BINARY,
        MANY.join(" ").replace("is back", "'is back'")
    );
    let ran = ran.says(5, &["error: ", &resume]);
    assert!(!ran.err.contains("s3cret"), "{ran:?}");
    // The same operation goes on, and does nothing twice.
    let server = TestServer::on(at, crate::harness::server::Setup::default()).await;
    let flags = ["--yes", "--rate", "1000", "--operation-id", "o 1"];
    let rest = ask(&server, &[&MANY[..], &flags].concat()).await.says(0, &[" redriven, 0 refused; "]);
    let (now, before) = rest.out.split_once(" redriven, 0 refused; ").unwrap();
    let (before, _) = before.split_once(" by earlier calls of this operation\n").unwrap();
    let (now, before): (u32, u32) = (now.parse().unwrap(), before.parse().unwrap());
    assert!(before > 0 && now + before == 20, "{rest:?}");
    server.stop().await;
}

/// The connection breaks in place of the head of the answer: entries may have been redriven before.
async fn a_redrive_that_breaks_off_before_its_answer_says_how_to_go_on(kind: Kind) {
    let server = TestServer::start(kind).await;
    park(&server, "1", "x").await;
    let (proxy, cut) = deaf::cutting(server.address(), b"is back").await;
    let more = ["--yes", "--operation-id", "o1", "--endpoint", &proxy];
    let broken = tokio::task::block_in_place(|| alone(&[&MANY[..], &more].concat()));
    assert!(cut.load(Ordering::SeqCst), "no answer was lost: {broken:?}");
    let resume = format!(
        "next: go on where it was broken off: {} {} {}\n",
        super::BINARY,
        MANY.join(" ").replace("is back", "'is back'"),
        more.join(" ")
    );
    broken.says(5, &["error: ", "0 redriven, 0 refused\n", &resume]);
    server.stop().await;
}

async fn a_watched_summary_ends_on_an_interrupt(kind: Kind) {
    let server = TestServer::start(kind).await;
    park(&server, "1", "x").await;
    let mut child = command(&["entries", "summary", "--watch", "--every", "100ms"])
        .args(["--endpoint", &server.address().to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It has shown itself three times.
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let shown = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        while text.matches("as of").count() < 3 {
            assert!(out.read_line(&mut text).unwrap() > 0, "it ended: {text}");
        }
        (out, text)
    });
    let (mut out, mut text) = shown.await.unwrap();
    let interrupt = format!("kill -INT {}", child.id());
    let sent = std::process::Command::new("sh").args(["-c", &interrupt]).status().unwrap();
    assert!(sent.success());
    let ended = tokio::task::spawn_blocking(move || {
        out.read_to_string(&mut text).unwrap();
        (child.wait_with_output().unwrap(), text)
    });
    let (output, text) = ended.await.unwrap();
    super::ended(output).is(0, "");
    assert!(text.contains("PARKED  CONSUMER  1") && !text.contains('\u{1b}'), "{text:?}");
    server.stop().await;
}

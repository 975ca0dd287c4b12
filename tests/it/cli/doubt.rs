//! Entries whose effect may have happened: what is advised, asked and told of them.

use idempotency_ledger::proto::EntryState;

use super::{alone, ask, complete, in_doubt, no_terminals, on_a_terminal, park, state};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(a_redrive_in_doubt_is_confirmed, advice_is_to_find_out_first, advice_can_be_pasted,);

const SECOND: &str =
    "its effect may have happened: a redrive may bring a second one; `entries resolve` if you know";

async fn a_redrive_in_doubt_is_confirmed(kind: Kind) {
    if no_terminals() {
        return;
    }
    let server = TestServer::start(kind).await;
    for id in ["1", "2"] {
        in_doubt(&server, id).await;
    }
    let redrive = ["entries", "redrive", "c", "tests", "1", "--reason", "is back"];
    ask(&server, &redrive).await.says(2, &[SECOND, "not confirmed", "--yes"]);
    ask(&server, &[&redrive[..], &["--json"]].concat()).await.says(2, &[SECOND, "not confirmed"]);
    assert_eq!(state(&server, "1").await, EntryState::Parked);
    let line =
        format!("{} entries redrive c tests 2 --reason r --endpoint {}", super::BINARY, server.address());
    on_a_terminal(line.clone(), "n\n").await.says(2, &[SECOND, "Do it? [y/N] ", "nothing was changed"]);
    on_a_terminal(line, "y\n").await.says(0, &["c tests 2 is RECEIVED now"]);
    ask(&server, &[&redrive[..], &["--yes"]].concat()).await.says(0, &[SECOND, "is RECEIVED now"]);
    // Of others nobody is asked.
    park(&server, "3", "x").await;
    let other = ["entries", "redrive", "c", "tests", "3", "--reason", "is back"];
    ask(&server, &other).await.says(0, &["is RECEIVED now"]);
    server.stop().await;
}

async fn advice_is_to_find_out_first(kind: Kind) {
    let server = TestServer::start(kind).await;
    in_doubt(&server, "1").await;
    let shown = ask(&server, &["entries", "get", "c", "tests", "1"]).await.says(0, &[]);
    let steps: Vec<&str> = shown.out.lines().filter(|line| line.starts_with("next: ")).collect();
    assert!(steps[0].contains("entries resolve c tests 1 --as completed"), "{shown:?}");
    assert!(steps.last().unwrap().contains("this may bring a second one"), "{shown:?}");
    complete(&server, "2").await;
    let shown = ask(&server, &["entries", "get", "c", "tests", "2"]).await.says(0, &["COMPLETED"]);
    assert!(!shown.out.contains("next: "), "{shown:?}");
    server.stop().await;
}

async fn advice_can_be_pasted(kind: Kind) {
    if no_terminals() {
        return;
    }
    let server = TestServer::start(kind).await;
    let ids = ["--yes", "-1", "it's $(x) `y` \\", "a\u{200b}b\u{a0}", "*"];
    for id in ids {
        park(&server, id, "x").await;
        let address = server.address().to_string();
        let shown = tokio::task::block_in_place(|| {
            alone(&["entries", "--endpoint", &address, "get", "--", "c", "tests", id])
        })
        .says(0, &[]);
        let line = shown.out.lines().find(|line| line.starts_with("next: ")).unwrap().to_owned();
        let line = line.replace(&format!("next: {} entries ", super::BINARY), "");
        let line = format!("{} entries --endpoint {} {line}", super::BINARY, server.address());
        on_a_terminal(line, "").await.says(0, &["is RECEIVED now"]);
        assert_eq!(state(&server, id).await, EntryState::Received, "{id:?}");
    }
    server.stop().await;
}

#[test]
fn a_look_that_times_out_changed_nothing() {
    // It accepts, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    for look in [
        &["entries", "get", "c", "tests", "1"][..],
        &["entries", "list", "--consumer", "c"],
        &["entries", "park", "c", "tests", "1", "--reason", "r"],
        &["policy", "get", "c"],
    ] {
        let late = alone(&[look, &["--timeout", "300ms", "--endpoint", &address]].concat());
        let late = late.says(5, &["next: timed out; nothing was changed; raise --timeout\n"]);
        assert!(!late.err.contains("request-id"), "{late:?}");
    }
}

//! `entries lookup`: how a message stands, as its consumer may ask for it.

use idempotency_ledger::identity::Guard;
use idempotency_ledger::proto::{self, CompleteRequest};

use super::{ask, complete, park, take};
use crate::harness::details::key;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::identity::People;
use crate::waiting;

on_both_stores!(
    lookup_shows_how_a_message_stands,
    lookup_needs_the_right_to_claim,
    lookup_of_a_dropped_result_shows_that_it_was_dropped,
    lookup_in_a_suppressing_run_does_not_call_the_message_new,
    lookup_with_a_wait_shows_the_end_of_the_message,
);

async fn lookup_shows_how_a_message_stands(kind: Kind) {
    let server = TestServer::start(kind).await;
    let look = async |id: &str| ask(&server, &["entries", "lookup", "c", "tests", id]).await;
    look("1").await.says(0, &["no entry"]);
    park(&server, "1", "no such account").await;
    look("1").await.says(0, &["PARKED", "CONSUMER", "no such account"]);
    complete(&server, "2").await;
    look("2").await.says(0, &["COMPLETED", "result"]);
    let json = ask(&server, &["--json", "entries", "lookup", "c", "tests", "2"]).await.json().remove(0);
    assert_eq!(json["state"], "ENTRY_STATE_COMPLETED", "{json}");
    take(&server, "3").await;
    look("3").await.says(0, &["IN_PROGRESS", "lease", "retry after"]);
    let token = take(&server, "4").await;
    let large = vec![7; 20_000];
    let done = CompleteRequest { key: key("c", "4"), token, result: large.into(), ..Default::default() };
    server.client.clone().complete(done).await.unwrap();
    for command in ["lookup", "get"] {
        let shown = ask(&server, &["entries", command, "c", "tests", "4"]).await;
        shown.says(0, &["COMPLETED", "dropped: it was larger than the ledger stores"]);
    }
    server.stop().await;
}

/// As its consumer may, and nobody who only reads.
async fn lookup_needs_the_right_to_claim(kind: Kind) {
    let people = People::new(&[("worker", &[("c", "claim")]), ("reader", &[("*", "read")])]);
    let setup = Setup { guard: Guard::new(people.trust()), ..Setup::default() };
    let server = TestServer::start_with(kind, setup).await;
    for (name, command, code, words) in [
        ("worker", "lookup", 0, &["no entry"][..]),
        ("worker", "get", 1, &["CONSUMER_NOT_ALLOWED", "token:worker", "`read`"]),
        ("reader", "lookup", 1, &["CONSUMER_NOT_ALLOWED", "token:reader", "`claim`"]),
        ("reader", "get", 3, &["ENTRY_NOT_FOUND"]),
    ] {
        let token = ["--token", people.token(name), "--plaintext-token"];
        let arguments = [&["entries", command, "c", "tests", "1"][..], &token].concat();
        ask(&server, &arguments).await.says(code, words);
    }
    server.stop().await;
}

async fn lookup_of_a_dropped_result_shows_that_it_was_dropped(kind: Kind) {
    let server = TestServer::start(kind).await;
    for (id, result_left_out) in [("dropped", true), ("empty", false)] {
        let token = take(&server, id).await;
        let request =
            proto::CompleteRequest { key: key("c", id), token, result_left_out, ..Default::default() };
        server.client.clone().complete(request).await.unwrap();
    }
    let look = async |id: &str| ask(&server, &["entries", "lookup", "c", "tests", id]).await;
    let dropped = look("dropped").await;
    assert!(!dropped.out.contains("0 bytes"), "{dropped:?}");
    dropped.says(0, &["COMPLETED", "dropped: it was larger than the ledger stores"]);
    look("empty").await.says(0, &["COMPLETED", "0 bytes"]);
    server.stop().await;
}

async fn lookup_in_a_suppressing_run_does_not_call_the_message_new(kind: Kind) {
    let server = TestServer::start(kind).await;
    ask(&server, &["policy", "set", "c", "--replay", "SUPPRESS", "--reason", "a replay"]).await.says(0, &[]);
    ask(&server, &["replay", "create", "c", "run", "--reason", "ticket 4711"]).await.says(0, &["SUPPRESS"]);
    let look = ["entries", "lookup", "c", "tests", "1"];
    ask(&server, &look).await.is(0, "state  no entry: the message is new, or was forgotten\n");
    let in_run = ask(&server, &[&look[..], &["--replay-run", "run"]].concat()).await;
    in_run.says(0, &["no entry: the message is new, or was forgotten; or the run suppresses effects, and no entry is looked at"]);
    server.stop().await;
}

async fn lookup_with_a_wait_shows_the_end_of_the_message(kind: Kind) {
    let server = TestServer::start(kind).await;
    let look = ["entries", "lookup", "c", "tests", "1"];
    let token = take(&server, "1").await;
    let waits = [&look[..], &["--wait", "9s"]].concat();
    let (shown, ()) = tokio::join!(ask(&server, &waits), async {
        waiting::until_waiting(&server, 1).await;
        waiting::complete(&server, "1", token).await;
    });
    shown.says(0, &["COMPLETED", "4 bytes"]);
    take(&server, "2").await;
    // The deadline of the call is behind the end of the wait.
    let held = ["entries", "lookup", "c", "tests", "2", "--wait", "1500ms", "--timeout", "1s"];
    ask(&server, &held).await.says(0, &["IN_PROGRESS"]);
    server.stop().await;
}

//! `entries lookup`: what became of a result, and a run in which no entry is looked at.

use idempotency_ledger::rpc::proto;

use super::{ask, take};
use crate::harness::details::key;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(
    lookup_of_a_dropped_result_shows_that_it_was_dropped,
    lookup_in_a_suppressing_run_does_not_call_the_message_new,
);

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

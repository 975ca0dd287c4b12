//! How many calls may wait: calls beyond that are answered immediately, with a short retry-after.

use std::time::Duration;

use idempotency_ledger::ledger::WaitBounds;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::{self, claim_response::Verdict};
use idempotency_ledger::rpc::ConnectionLimits;
use tonic::transport::Endpoint;

use super::{complete, ended, held, sent, until_waiting, waits};
use crate::door::client::{Http1, request};
use crate::harness::details::{claim, completed};
use crate::harness::server::{Kind, Setup, TestServer};

const LEDGER: &str = "/idempotency.ledger.v1.LedgerService";

/// A call that finds no place is answered the verdict of now, and repeated within a second.
fn has_no_place(answered: &proto::ClaimResponse) {
    assert!(matches!(answered.verdict, Some(Verdict::InProgress(_))), "{answered:?}");
    let again = answered.retry_after.as_ref().expect("retry_after");
    let again = Duration::new(again.seconds.unsigned_abs(), again.nanos.unsigned_abs());
    assert!(!again.is_zero() && again <= Duration::from_secs(1), "{again:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_the_bounds_of_key_consumer_and_server_calls_are_answered_immediately() {
    let waits_max = WaitBounds { server: 8, key: 3 };
    let server = TestServer::start_with(Kind::Sqlite, Setup { waits: waits_max, ..Setup::default() }).await;
    let mut tokens = Vec::new();
    for (consumer, id) in [("c", "1"), ("c", "2"), ("d", "1")] {
        let answered = server.client.clone().claim(claim(consumer, id)).await.unwrap().into_inner();
        tokens.push(crate::harness::details::acquired(&answered).token);
    }
    let mut waiting = Vec::new();
    // Three of the key, then four of the consumer, whose half that is; then two of the four that are left.
    for (consumer, id, fit) in [("c", "1", 3), ("c", "2", 1), ("d", "1", 2)] {
        let before = waiting.len();
        for _ in 0..fit {
            waiting.push(sent(&server, waits(consumer, id)));
        }
        until_waiting(&server, before + fit).await;
        let answered = server.client.clone().claim(waits(consumer, id)).await.unwrap().into_inner();
        has_no_place(&answered);
    }
    assert_eq!(ended(&server, "no_place"), 3);
    // A place that is free again is taken.
    waiting.pop().unwrap().abort();
    until_waiting(&server, 5).await;
    let last = sent(&server, waits("d", "1"));
    until_waiting(&server, 6).await;
    complete(&server, "1", tokens[0]).await;
    complete(&server, "2", tokens[1]).await;
    for one in waiting.into_iter().take(4) {
        completed(&super::answer(one).await);
    }
    last.abort();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_of_the_streams_of_a_connection_are_left_to_calls_that_do_not_wait() {
    const MAX: usize = 128;
    let server = TestServer::start(Kind::Sqlite).await;
    let tokens = [held(&server, "1").await, held(&server, "2").await];
    let mut waiting = Vec::new();
    for number in 0..MAX {
        waiting.push(sent(&server, waits("c", if number % 2 == 0 { "1" } else { "2" })));
    }
    until_waiting(&server, MAX).await;
    has_no_place(&server.client.clone().claim(waits("c", "1")).await.unwrap().into_inner());
    // Another connection has its own.
    let other =
        Endpoint::from_shared(format!("http://{}", server.address())).unwrap().connect().await.unwrap();
    let mut other = LedgerServiceClient::new(other);
    let another = tokio::spawn(async move { other.claim(waits("c", "1")).await });
    until_waiting(&server, MAX + 1).await;
    // The holder, on the connection of those that wait, completes.
    complete(&server, "1", tokens[0]).await;
    complete(&server, "2", tokens[1]).await;
    completed(&another.await.unwrap().unwrap().into_inner());
    for one in waiting {
        completed(&super::answer(one).await);
    }
    server.stop().await;
}

async fn over_http(server: &TestServer, id: &str) -> Http1 {
    let body =
        format!(r#"{{"key":{{"consumer":"c","source":"tests","id":"{id}"}},"owner":"o","wait":"9s"}}"#);
    let mut http = Http1::to(server.http_address()).await;
    http.send(&request(&format!("{LEDGER}/Claim"), &[], body.as_bytes())).await;
    http
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_of_the_connections_are_left_by_calls_of_http_1_that_wait() {
    for (connections_max, per_address_max, places) in [(12, 0, 6), (1_000, 8, 4)] {
        let connections = ConnectionLimits { per_address_max, ..ConnectionLimits::default() };
        let setup = Setup { connections_max, connections, ..Setup::default() };
        let server = TestServer::start_with(Kind::Sqlite, setup).await;
        let token = held(&server, "1").await;
        let mut waiting = Vec::new();
        for place in 1..=places {
            waiting.push(over_http(&server, "1").await);
            until_waiting(&server, place).await;
        }
        let beyond = over_http(&server, "1").await.reply().await.unwrap();
        assert!(beyond.json().get("inProgress").is_some(), "{beyond:?}");
        let again: u64 = beyond.header("idempotency-ledger-retry-after-ms").parse().unwrap();
        assert!((1..=1_000).contains(&again), "{beyond:?}");
        // A client that goes away gives its place back.
        drop(waiting.pop());
        until_waiting(&server, places - 1).await;
        waiting.push(over_http(&server, "1").await);
        until_waiting(&server, places).await;
        complete(&server, "1", token).await;
        for mut one in waiting {
            let answered = one.reply().await.unwrap();
            assert_eq!(answered.json()["completed"]["result"], "ZG9uZQ==", "{answered:?}");
            assert_eq!(answered.header("idempotency-ledger-advice"), "ACK");
        }
        server.stop().await;
    }
}

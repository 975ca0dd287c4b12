//! Waiting calls of one server, whose keys another server changes; and a server that stands still meanwhile.

use std::process::{Command, Stdio};

use idempotency_ledger::domain::{Key, Span};
use idempotency_ledger::proto::{self, claim_response::Verdict};

use super::{BY_A_LOAD, complete, fail, first_of, held, looked_up, secs, sent, until_waiting, waits};
use crate::harness::details::{acquired, claim, completed, key, refusal};
use crate::harness::postgres;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::harness::signals::signal;
use crate::harness::timer::Timer;
use crate::process::{BINARY, Server};

/// Two servers over one Postgres.
async fn two() -> (TestServer, TestServer) {
    let one = TestServer::start(Kind::Postgres).await;
    let database = one.at.database.clone();
    let at =
        crate::harness::server::TestStore::found(tempfile::tempdir().unwrap(), database, one.at.now()).await;
    (one, TestServer::on(at, Setup::default()).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_server_writes_is_found_by_a_poll() {
    let (one, other) = two().await;
    let token = held(&one, "1").await;
    let (claims, looks) = (sent(&other, waits("c", "1")), looked_up(&other, "1"));
    until_waiting(&other, 2).await;
    let timer = Timer::start();
    complete(&one, "1", token).await;
    completed(&super::answer(claims).await);
    assert_eq!(super::answer(looks).await.state(), proto::EntryState::Completed);
    // A key is loaded once a second at least.
    timer.within(BY_A_LOAD, "the calls that wait");
    // One of two that wait is granted what is free.
    let token = held(&one, "2").await;
    let (first, second) = (sent(&other, waits("c", "2")), sent(&other, waits("c", "2")));
    until_waiting(&other, 2).await;
    fail(&one, "2", token).await;
    let (granted, left) = first_of(first, second).await;
    complete(&one, "2", acquired(&granted).token).await;
    completed(&super::answer(left).await);
    one.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_cannot_be_read_is_reported_to_all_that_wait() {
    let server = TestServer::start(Kind::Sqlite).await;
    held(&server, "1").await;
    let (claims, looks) = (sent(&server, waits("c", "1")), looked_up(&server, "1"));
    until_waiting(&server, 2).await;
    server.at.execute("UPDATE @entries SET state = 42 WHERE id = '1'").await;
    let timer = Timer::start();
    let refused = [claims.await.unwrap().unwrap_err(), looks.await.unwrap().unwrap_err()];
    assert_eq!(refused.map(|status| refusal(&status).reason), ["ENTRY_UNREADABLE"; 2]);
    timer.within(BY_A_LOAD, "the calls that wait");
    assert_eq!(super::ended(&server, "refused"), 2);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_that_waits_here_is_answered_the_grant_that_was_made_elsewhere() {
    let (one, other) = two().await;
    let token = held(&one, "1").await;
    let same = proto::ClaimRequest {
        claim_id: "6f1ae0a6-5b1f-4e0e-9d1a-0b2f6e2f7c11".to_owned(),
        ..waits("c", "1")
    };
    let waiting = sent(&other, same.clone());
    until_waiting(&other, 1).await;
    // The key becomes free and is granted to the same claim before the other server looks: its repeat was sent here.
    let request =
        proto::FailRequest { key: key("c", "1"), token, retry_after: secs(0), ..Default::default() };
    let mut client = one.client.clone();
    client.fail(request).await.unwrap();
    let granted = client.claim(proto::ClaimRequest { wait: None, ..same }).await.unwrap().into_inner();
    let answered = super::answer(waiting).await;
    assert_eq!(acquired(&answered).token, acquired(&granted).token);
    let entry = one.entry(&Key::new("c", "tests", "1")).await.unwrap();
    assert_eq!(entry.attempts, 2);
    one.advance(Span::from_secs(1)).await;
    one.stop().await;
    other.stop().await;
}

/// A server that stands still while its key is changed elsewhere: when it goes on, its waiters are answered what is so by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stood_still_grants_nothing_that_is_held() {
    let url = postgres::shared().url(&postgres::database().await);
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("ledger.toml");
    std::fs::write(&config, "[policy]\nlease = \"2s\"\nreclaim_grace = \"100ms\"\nmax_attempts = 0\n")
        .unwrap();
    let settings = ["--config", config.to_str().unwrap()];
    let one = Server::with(Command::new(BINARY), &url, &settings, Stdio::null()).await;
    let other = Server::with(Command::new(BINARY), &url, &settings, Stdio::null()).await;
    let (mut client, mut elsewhere) = (one.client().await, other.client().await);
    let waiting = |mut client: proto::ledger_service_client::LedgerServiceClient<_>, id: &'static str| {
        tokio::spawn(async move { client.claim(waits("c", id)).await.unwrap().into_inner() })
    };
    for id in ["completed", "taken over"] {
        let token = acquired(&client.claim(claim("c", id)).await.unwrap().into_inner()).token;
        let waiter = waiting(elsewhere.clone(), id);
        // It waits once another claim on its connection is answered after it.
        for _ in 0..3 {
            let answered = elsewhere.claim(claim("c", id)).await.unwrap().into_inner();
            assert!(matches!(answered.verdict, Some(Verdict::InProgress(_))));
        }
        let stopped = [other.child.id()];
        signal("STOP", &stopped);
        if id == "completed" {
            let request =
                proto::FailRequest { key: key("c", id), token, retry_after: secs(0), ..Default::default() };
            client.fail(request).await.unwrap();
            let again = acquired(&client.claim(claim("c", id)).await.unwrap().into_inner());
            signal("CONT", &stopped);
            let request =
                proto::CompleteRequest { key: key("c", id), token: again.token, ..Default::default() };
            client.complete(request).await.unwrap();
            assert_eq!(completed(&waiter.await.unwrap()).attempt, 2, "it was never granted");
        } else {
            // Lease and grace run out while it stands still; a claim here is first.
            let taken = client.claim(waits("c", id)).await.unwrap().into_inner();
            assert_eq!(acquired(&taken).attempt, 2);
            signal("CONT", &stopped);
            let answered = waiter.await.unwrap();
            let granted = acquired(&answered);
            assert_eq!(
                (granted.attempt, granted.effect_unknown),
                (3, true),
                "after that one's lease, not before"
            );
            assert!(granted.token > acquired(&taken).token);
        }
    }
}

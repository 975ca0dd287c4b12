//! Connections without a call: they give their places back, and do not hold up the end.

use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use idempotency_ledger::proto;
use sqlx::{Connection as _, Executor as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::{Response, Status};

use super::floods::gauge;
use super::{Edge, PREFACE, SETTINGS};
use crate::harness::details::{acquired, claim, refusal};
use crate::harness::postgres::free_port;
use crate::harness::signals::signal;
use crate::harness::timer::{Timer, within};
use crate::process::{BINARY, Server, sqlite};

/// The number of claims that have begun.
const CLAIMS: &str = r#"grpc_server_started_total{grpc_method="Claim",grpc_service="idempotency.ledger.v1.LedgerService",grpc_type="unary"}"#;
/// How often the store may refuse a call that waits for a foreign writer.
const ROUNDS: usize = 5;

async fn connect(server: &Server, sends: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(&server.address).await.unwrap();
    stream.write_all(sends).await.unwrap();
    stream
}

/// Waits for the process to end.
async fn ended(server: &mut Server) -> ExitStatus {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = server.child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < until, "the server does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_do_not_finish_the_preface_give_their_places_back() {
    let edge = Edge::start(&["--connections-max", "20"]).await;
    let nearly = [PREFACE, &SETTINGS[..4]].concat();
    let mut silent = Vec::new();
    for number in 0..20 {
        let sends = [&b""[..], &PREFACE[..12], PREFACE, &nearly][number % 4];
        silent.push(connect(&edge.server, sends).await);
    }
    let begun = Instant::now();
    let answer = within(Duration::from_secs(15), "a real client's way to the server", async {
        edge.server.client().await.claim(claim("c", "1")).await
    });
    acquired(&answer.await.unwrap().into_inner());
    let waited = begun.elapsed();
    println!("a real client got through after {waited:?}");
    assert!(waited > Duration::from_secs(3), "they never had the places: {waited:?}");
    for mut stream in silent {
        // What the server says to such a connection is of no interest: it ends.
        let mut said = Vec::new();
        let ends = stream.read_to_end(&mut said);
        drop(within(Duration::from_secs(10), "the end of a silent connection", ends).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_without_a_call_do_not_hold_up_the_end() {
    // If they held it up, it would end then, and report that.
    let mut edge = Edge::start(&["--drain-max", "30s"]).await;
    let _silent = connect(&edge.server, b"").await;
    let _half = connect(&edge.server, &PREFACE[..12]).await;
    // It answers no ping, so that nobody can tell that it has seen the GOAWAY.
    let _idle = connect(&edge.server, &[PREFACE, SETTINGS].concat()).await;
    let mut client = edge.server.client().await;
    acquired(&client.claim(claim("c", "1")).await.unwrap().into_inner());
    let timer = Timer::start();
    signal("TERM", &[edge.pid()]);
    let status = ended(&mut edge.server).await;
    println!("ended with {status} after {:?}", timer.took());
    timer.within(Duration::from_secs(5), "the end");
    assert!(status.success(), "{status}: {}", edge.log());
}

/// Lets a server end while a call waits for the store. Returns the call's answer, and whether the call still waited when a
/// connection without a call would have been closed.
async fn ends_under_a_call() -> (Result<proto::ClaimResponse, Status>, bool) {
    let observe = format!("127.0.0.1:{}", free_port());
    let mut edge = Edge::start(&["--observe-listen", &observe]).await;
    let _silent = connect(&edge.server, b"").await;
    let mut client = edge.server.client().await;
    acquired(&client.claim(claim("c", "1")).await.unwrap().into_inner());
    let mut foreign = sqlx::SqliteConnection::connect(&sqlite(edge.folder.path())).await.unwrap();
    foreign.execute(sqlx::raw_sql("BEGIN IMMEDIATE")).await.unwrap();
    let call = tokio::spawn(async move { client.claim(claim("c", "2")).await });
    while gauge(&observe, CLAIMS).await < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    signal("TERM", &[edge.pid()]);
    // Longer than a connection without a call is waited for, and shorter than the store waits for the foreign writer.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let waited = !call.is_finished();
    foreign.execute(sqlx::raw_sql("ROLLBACK")).await.unwrap();
    let answer = call.await.unwrap();
    let status = ended(&mut edge.server).await;
    assert!(status.success(), "{status}: {}", edge.log());
    (answer.map(Response::into_inner), waited)
}

/// On a busy machine the store may refuse the call before the foreign writer has gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_under_way_at_the_end_is_answered() {
    for _ in 0..ROUNDS {
        match ends_under_a_call().await {
            (Ok(answer), true) => return assert_eq!(acquired(&answer).attempt, 1),
            (Ok(answer), false) => panic!("the store was to stand still: {answer:?}"),
            (Err(status), _) => assert_eq!(refusal(&status).reason, "STORE_UNAVAILABLE", "{status:?}"),
        }
    }
    panic!("the store refused each call");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_files_are_kept_for_the_store() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -Sn 70 && ulimit -Hn 100 && exec \"$@\"", "sh", BINARY]);
    let edge = Edge::run(command, &["--connections-max", "1000"]).await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", edge.pid())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().nth(3), Some("100"), "the soft limit is raised: {files}");
    let log = edge.log();
    assert!(log.contains("connections_max=36"), "the log says how many: {log}");
    let mut client = edge.server.client().await;
    // Idle connections take all the places that there are, and more wait; the store still gets its files.
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(connect(&edge.server, &[PREFACE, SETTINGS].concat()).await);
    }
    for id in 0..5 {
        acquired(&client.claim(claim("c", &id.to_string())).await.unwrap().into_inner());
    }
    assert!(!edge.log().contains("not accepted"), "{}", edge.log());
}

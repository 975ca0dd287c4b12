//! Memory that requests take: what one connection and what all together may announce is bounded.

use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use idempotency_ledger::proto;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::codec::CompressionEncoding;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::Edge;
use crate::harness::details::{acquired, claim, key, refusal};
use crate::harness::raw;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::harness::timer::Timer;

const MESSAGE: usize = 3_600_000;
/// For how long unfinished calls attack; within this time more calls of another connection than this are answered, and none of
/// them waits longer than this.
const ATTACK: Duration = Duration::from_secs(15);
const SERVED: usize = 100;
const SLOWEST: Duration = Duration::from_secs(3);

/// A connection that sends what it likes.
pub(super) async fn connect(address: &str) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    let mut builder = h2::client::Builder::new();
    let (send, connection) = builder.initial_max_send_streams(256).handshake(stream).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    send.ready().await.unwrap()
}

/// A call that sends all of its message but the last byte, and then nothing: its status, or none while it waits.
async fn unfinished(send: SendRequest<Bytes>, rpc: &'static str) -> Option<String> {
    let request = http::Request::post(format!("http://x/idempotency.ledger.v1.LedgerService/{rpc}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap();
    let mut send = send.ready().await.ok()?;
    let (mut answer, mut body) = send.send_request(request, false).ok()?;
    let mut head = vec![0];
    head.extend((MESSAGE as u32).to_be_bytes());
    let sending = async {
        let mut left: Vec<Bytes> = vec![Bytes::from(head)];
        let chunk = Bytes::from(vec![0x7a; 16_000]);
        let mut unsent = MESSAGE - 1;
        while unsent > 0 {
            left.push(chunk.slice(..chunk.len().min(unsent)));
            unsent -= chunk.len().min(unsent);
        }
        for mut part in left {
            while !part.is_empty() {
                body.reserve_capacity(part.len());
                let Some(Ok(room)) = std::future::poll_fn(|context| body.poll_capacity(context)).await else {
                    return;
                };
                let now = part.split_to(room.min(part.len()));
                if body.send_data(now, false).is_err() {
                    return;
                }
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        response = &mut answer => {
            let response = response.ok()?;
            Some(response.headers().get("grpc-status")?.to_str().ok()?.to_owned())
        }
        () = sending => None,
        () = tokio::time::sleep(Duration::from_secs(60)) => None,
    }
}

/// What an attack did.
#[derive(Debug)]
struct Seen {
    calm: u64,
    most: u64,
    after: u64,
    refused: usize,
    served: usize,
    slowest: Duration,
}

/// Opens unfinished calls for some seconds, while another connection goes on; then lets the server rest.
async fn attack(edge: &Edge, connections: usize, streams: usize) -> Seen {
    let mut client = edge.server.client().await;
    warm(&mut client).await;
    let calm = edge.rss();
    let mut calls = JoinSet::new();
    for _ in 0..connections {
        let send = connect(&edge.server.address).await;
        for _ in 0..streams {
            calls.spawn(unfinished(send.clone(), "BatchSettle"));
        }
    }
    let (mut most, mut served, mut slowest) = (0, 0, Duration::ZERO);
    let (begun, timer) = (Instant::now(), Timer::start());
    // The machine's delays are added where they keep calls from being answered.
    while begun.elapsed() < ATTACK || served <= SERVED && timer.took() < ATTACK {
        let call = Timer::start();
        acquired(&client.claim(claim("c", &format!("during-{served}"))).await.unwrap().into_inner());
        slowest = slowest.max(call.took());
        served += 1;
        most = most.max(edge.rss());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut refused = 0;
    while let Some(call) = calls.try_join_next() {
        if call.unwrap().as_deref() == Some("8") {
            refused += 1;
        }
    }
    calls.shutdown().await;
    let until = Instant::now() + Duration::from_secs(60);
    let mut after = edge.rss();
    while after * 10 > calm * 12 && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(500)).await;
        after = edge.rss();
    }
    let seen = Seen { calm, most, after, refused, served, slowest };
    println!("{connections} connections, {streams} calls each: {seen:?}");
    seen
}

/// Usual work, so that calm is not the memory of a server that never did anything.
async fn warm(client: &mut LedgerServiceClient<Channel>) {
    let mut calls = JoinSet::new();
    for number in 0..500 {
        let mut client = client.clone();
        calls.spawn(async move { client.claim(claim("c", &format!("warm-{number}"))).await.unwrap() });
    }
    calls.join_all().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
}

/// `held`: what requests may hold, in MiB.
fn holds(seen: &Seen, held: u64) {
    assert!(seen.most <= seen.calm + held + 100, "{seen:?}");
    assert!(seen.after * 10 <= seen.calm * 12, "{seen:?}");
    assert!(seen.refused > 0, "nothing was refused: {seen:?}");
    assert!(seen.served > SERVED && seen.slowest < SLOWEST, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_calls_of_one_connection_take_bounded_memory() {
    let edge = Edge::start(&[]).await;
    holds(&attack(&edge, 1, 250).await, 16);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_calls_of_many_connections_take_bounded_memory() {
    let edge = Edge::start(&["--server-bytes-max", "67108864"]).await;
    holds(&attack(&edge, 40, 20).await, 64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_items_by_the_million_are_not_unfolded() {
    let edge = Edge::start(&[]).await;
    let channel = raw::channel_to(&edge.server.address).await;
    let before = edge.peak();
    for method in ["LedgerService/BatchClaim", "LedgerService/BatchSettle", "AdminService/ImportEntries"] {
        let status = raw::send(&channel, method, [10, 0].repeat(1_500_000)).await.unwrap_err();
        let refused = refusal(&status);
        assert_eq!((refused.code, refused.reason.as_str()), (Code::InvalidArgument, "TOO_MANY_ITEMS"));
    }
    println!("{before} MiB before, at most {} MiB", edge.peak());
    assert!(edge.peak() < before + 50, "{before} MiB, then {} MiB", edge.peak());
}

fn complete(id: &str) -> proto::CompleteRequest {
    let result = Bytes::from(vec![7; 16_384]);
    proto::CompleteRequest {
        key: key("c", id),
        token: 1,
        result,
        result_left_out: false,
        event_type: String::new(),
    }
}

/// Completions of 16 KiB while the store stands still: those that are refused are at once, the others wait.
async fn completions(client: &LedgerServiceClient<Channel>, count: usize) -> JoinSet<Result<(), Status>> {
    let mut calls = JoinSet::new();
    for number in 0..count {
        let mut client = client.clone();
        calls.spawn(async move { client.complete(complete(&number.to_string())).await.map(drop) });
    }
    calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_beyond_the_connections_bytes_is_refused_at_once() {
    let setup = Setup { connection_bytes_max: 140_000, ..Setup::default() };
    let server = TestServer::start_with(Kind::Sqlite, setup).await;
    let held = server.at.hold_writes().await;
    // Six have room, of 16 KiB and what each call takes by itself.
    let mut calls = completions(&server.client, 7).await;
    let first = calls.join_next().await.unwrap().unwrap().unwrap_err();
    let refused = refusal(&first);
    assert_eq!(
        (refused.code, refused.reason.as_str(), refused.advice.as_str()),
        (Code::ResourceExhausted, "OVERLOADED", "RETRY_LATER")
    );
    assert!(first.message().contains("140000 bytes (connection_bytes_max)"), "{}", first.message());
    assert!(calls.try_join_next().is_none(), "one was refused, the others wait");
    drop(held);
    while let Some(answer) = calls.join_next().await {
        assert_eq!(refusal(&answer.unwrap().unwrap_err()).reason, "ENTRY_NOT_FOUND");
    }
    // What the calls had taken went back with them.
    for _ in 0..20 {
        let status = server.client.clone().complete(complete("later")).await.unwrap_err();
        assert_eq!(refusal(&status).reason, "ENTRY_NOT_FOUND");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_compressed_request_is_unpacked_counts() {
    let setup = Setup { connection_bytes_max: 1 << 20, ..Setup::default() };
    let server = TestServer::start_with(Kind::Sqlite, setup).await;
    let mut client =
        LedgerServiceClient::new(raw::channel(&server).await).send_compressed(CompressionEncoding::Gzip);
    acquired(&client.claim(claim("c", "small")).await.unwrap().into_inner());
    let large =
        |bytes: usize| proto::ClaimRequest { fingerprint: vec![0; bytes].into(), ..claim("c", "large") };
    assert_eq!(refusal(&client.claim(large(2 << 20)).await.unwrap_err()).reason, "OVERLOADED");
    assert_eq!(refusal(&client.claim(large(1 << 19)).await.unwrap_err()).reason, "INVALID_FIELD");
    let import = proto::ImportEntriesRequest { operation_id: "o".repeat(2 << 20), ..Default::default() };
    let mut admin =
        AdminServiceClient::new(raw::channel(&server).await).send_compressed(CompressionEncoding::Gzip);
    let mut answers = admin.import_entries(futures_util::stream::iter([import])).await.unwrap().into_inner();
    assert_eq!(refusal(&answers.message().await.unwrap_err()).reason, "OVERLOADED", "its task counts, too");
    // An import is a stream that a task of its own reads.
    let plain = raw::channel(&server).await;
    let import = proto::ImportEntriesRequest { operation_id: "o".repeat(2 << 20), ..Default::default() };
    let status =
        raw::send(&plain, "AdminService/ImportEntries", prost::Message::encode_to_vec(&import)).await;
    assert_eq!(refusal(&status.unwrap_err()).reason, "OVERLOADED");
    let refused = server.metric("idempotency_ledger_refusals_total{reason=\"OVERLOADED\"}");
    assert_eq!(refused, Some(3.0), "all are counted");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_full_of_bytes_refuses_claims_before_completions() {
    let setup = Setup { queue_bytes_max: 100_000, ..Setup::default() };
    let server = TestServer::start_with(Kind::Sqlite, setup).await;
    let held = server.at.hold_writes().await;
    let mut calls = completions(&server.client, 7).await;
    let refused = refusal(&calls.join_next().await.unwrap().unwrap().unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::ResourceExhausted, "OVERLOADED"));
    assert!(calls.try_join_next().is_none(), "one was refused, the others wait");
    let claimed = server.client.clone().claim(claim("c", "new")).await.unwrap_err();
    assert_eq!(refusal(&claimed).reason, "OVERLOADED");
    let small = proto::CompleteRequest { result: Bytes::from(vec![7; 1_000]), ..complete("small") };
    let mut client = server.client.clone();
    let small = tokio::spawn(async move { client.complete(small).await.map(drop) });
    drop(held);
    assert_eq!(refusal(&small.await.unwrap().unwrap_err()).reason, "ENTRY_NOT_FOUND");
    while let Some(answer) = calls.join_next().await {
        assert_eq!(refusal(&answer.unwrap().unwrap_err()).reason, "ENTRY_NOT_FOUND");
    }
    acquired(&server.client.clone().claim(claim("c", "new")).await.unwrap().into_inner());
    server.stop().await;
}

//! Requests that come slowly, and such as become large when they are unpacked.

use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::task::JoinSet;

use idempotency_ledger::proto;

use super::{Healthy, SMALL, beside};
use crate::edge::Edge;
use crate::edge::frames::{bomb, message, post};
use crate::edge::memory::connect;
use crate::harness::details::{acquired, claim};
use crate::proof::run::Run;

/// Sends the head of a message of 1,000 bytes, and then a byte now and then: its status, and how long that took.
async fn slowly(send: SendRequest<Bytes>) -> (String, Duration) {
    let began = Instant::now();
    let (answer, mut body) = send.ready().await.unwrap().send_request(post(), false).unwrap();
    body.send_data(Bytes::from_static(&[0, 0, 0, 3, 0xe8]), false).unwrap();
    let drip = async {
        while body.send_data(Bytes::from_static(&[10]), false).is_ok() {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        std::future::pending::<()>().await;
    };
    let answer = tokio::select! {
        answer = answer => answer.unwrap(),
        () = drip => unreachable!(),
    };
    let status = answer.headers().get("grpc-status").map(|status| status.to_str().unwrap().to_owned());
    (status.unwrap_or_default(), began.elapsed())
}

const DEADLINE_EXCEEDED: &str = "4";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_bodies_end_at_their_deadline() {
    let run = Run::new("floods", SMALL);
    let edge = Edge::start(&["--deadline-max", "2s"]).await;
    let healthy = Healthy::of(&edge);
    let flood = async {
        let mut calls = JoinSet::new();
        for number in 0..run.size.div_ceil(100) {
            let send = connect(&edge.server.address).await;
            for _ in number * 100..run.size.min(number * 100 + 100) {
                calls.spawn(slowly(send.clone()));
            }
        }
        calls.join_all().await
    };
    let (ended, beside) = beside(&run, &edge, &healthy, flood).await;
    let longest = ended.iter().map(|(_, took)| *took).max().unwrap();
    assert!(ended.iter().all(|(status, _)| status == DEADLINE_EXCEEDED), "{ended:?}");
    assert!(longest < Duration::from_secs(15), "{longest:?}");
    let what =
        format!("{} calls that come byte by byte, the last one ended after {longest:.1?}", ended.len());
    beside.told(&run, &what, run.size / 16);
}

/// Sends all of this as one compressed message: its status, and its reason.
async fn unpacked(mut send: SendRequest<Bytes>, packed: Bytes) -> (String, String) {
    let mut request = post();
    request.headers_mut().insert("grpc-encoding", "gzip".parse().unwrap());
    let (answer, mut body) = send.send_request(request, false).unwrap();
    let mut head = vec![1];
    head.extend(u32::try_from(packed.len()).unwrap().to_be_bytes());
    let sending = async {
        let mut left = Bytes::from([&head[..], &packed[..]].concat());
        while !left.is_empty() {
            body.reserve_capacity(left.len());
            let Some(Ok(room)) = std::future::poll_fn(|context| body.poll_capacity(context)).await else {
                break;
            };
            let part = left.split_to(room.min(left.len()));
            let end = left.is_empty();
            if body.send_data(part, end).is_err() {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    let answer = tokio::select! {
        answer = answer => answer.unwrap(),
        () = sending => unreachable!(),
    };
    let of = |name: &str| {
        answer.headers().get(name).map_or(String::new(), |value| value.to_str().unwrap().to_owned())
    };
    (of("grpc-status"), of("idempotency-ledger-reason"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bombs_are_not_unpacked() {
    let run = Run::new("floods", SMALL);
    let edge = Edge::start(&[]).await;
    let healthy = Healthy::of(&edge);
    let unpacked_bytes = 512 << 20;
    let packed = Bytes::from(bomb(unpacked_bytes));
    let flood = async {
        let mut refused = Vec::new();
        while refused.len() < (run.size as usize).div_ceil(20) {
            let mut calls = JoinSet::new();
            for _ in 0..4 {
                calls.spawn(unpacked(connect(&edge.server.address).await, packed.clone()));
            }
            refused.extend(calls.join_all().await);
        }
        refused
    };
    let (refused, beside) = beside(&run, &edge, &healthy, flood).await;
    for (status, reason) in &refused {
        assert!(
            (status.as_str(), reason.as_str()) == ("3", "TOO_LARGE")
                || (status.as_str(), reason.as_str()) == ("8", "OVERLOADED"),
            "{status} {reason}"
        );
    }
    let what = format!(
        "{} requests of {} KiB that would be {} MiB",
        refused.len(),
        packed.len() >> 10,
        unpacked_bytes >> 20
    );
    beside.told(&run, &what, 0);
}

/// A batch of claims whose answer has 3.3 MB: all are completed, with results. By few at a time, so that the server's memory
/// is that of a calm one afterwards.
pub(super) async fn large_answer(edge: &Edge) -> proto::BatchClaimRequest {
    let mut client = edge.server.client().await;
    let requests: Vec<_> = (0..200).map(|number| claim("c", &number.to_string())).collect();
    for part in requests.chunks(10) {
        let batch = proto::BatchClaimRequest { requests: part.to_vec() };
        let answers = client.batch_claim(batch).await.unwrap().into_inner().responses;
        let complete = |(request, answer): (&proto::ClaimRequest, &proto::ClaimResponse)| proto::Settlement {
            action: Some(proto::settlement::Action::Complete(proto::CompleteRequest {
                key: request.key.clone(),
                token: acquired(answer).token,
                result: Bytes::from(vec![7; 16_384]),
                ..Default::default()
            })),
        };
        let settlements = part.iter().zip(&answers).map(complete).collect();
        client.batch_settle(proto::BatchSettleRequest { settlements }).await.unwrap();
    }
    proto::BatchClaimRequest { requests }
}

/// How often the answer is asked for on one connection.
const ASKED: usize = 100;

/// Asks for the answer often, and takes no more of it than the window allows; returns whether the server ended the connection
/// or each of its calls. With a window of zero not even a part is sent.
async fn deaf(edge: &Edge, batch: &proto::BatchClaimRequest, window: u32) -> bool {
    let stream = tokio::net::TcpStream::connect(&edge.server.address).await.unwrap();
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(window);
    let (send, connection) = builder.handshake::<_, Bytes>(stream).await.unwrap();
    let driving = tokio::spawn(connection);
    let mut calls = JoinSet::new();
    for _ in 0..ASKED {
        let Ok(mut send) = send.clone().ready().await else { break };
        let (mut request, path) = (post(), "http://x/idempotency.ledger.v1.LedgerService/BatchClaim");
        *request.uri_mut() = path.parse().unwrap();
        let Ok((answer, mut body)) = send.send_request(request, false) else { break };
        // A connection that ended takes nothing.
        let _sent = body.send_data(message(batch).into(), true);
        calls.spawn(async move {
            let Ok(answer) = answer.await else { return };
            let mut body = answer.into_body();
            // Nothing is given back to the window.
            while let Some(Ok(_)) = body.data().await {}
        });
    }
    let over = async {
        tokio::select! {
            _ = driving => {}
            _ = calls.join_all() => {}
        }
    };
    // A busy machine takes longer than the stall: it prepares answers of 330 MB.
    tokio::time::timeout(Duration::from_secs(90), over).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_reads_end_their_connection() {
    let run = Run::new("floods", SMALL);
    let edge = Edge::start(&["--stall-max", "2s"]).await;
    let healthy = Healthy::of(&edge);
    let batch = large_answer(&edge).await;
    let flood = async {
        let mut ended = 0;
        for number in 0..run.size.div_ceil(50) {
            ended += u64::from(deaf(&edge, &batch, if number % 2 == 0 { 0 } else { 65_535 }).await);
        }
        ended
    };
    let (ended, beside) = beside(&run, &edge, &healthy, flood).await;
    assert_eq!(ended, run.size.div_ceil(50), "a call whose answer is not read stays open");
    let what = format!("{ended} connections that read none of 100 answers of 3.3 MB");
    // What is loaded for those calls that are carried out at once is bounded by the queue.
    beside.told(&run, &what, 250);
}

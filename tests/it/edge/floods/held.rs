//! Clients that hold what they can of a server that all share: messages that are announced and never sent, answers that are
//! asked for and never read. Each is ended, and all calls of another tenant are answered meanwhile.

use std::time::Duration;

use bytes::Bytes;
use idempotency_ledger::proto;
use prost::Message as _;
use tokio::task::JoinSet;

use super::tenants::{Asked, Deaf, Tenants, gauge};
use super::{Healthy, SMALL, beside};
use crate::edge::Edge;
use crate::edge::frames::message;
use crate::harness::details::{acquired, claim, key};
use crate::harness::postgres::free_port;
use crate::harness::timer::{Timer, within};
use crate::identity::by;
use crate::proof::run::Run;

/// How long a message or an answer may wait in these runs.
const STALL_MAX: &str = "2s";
/// How long a server may take to begin all answers of a flood. A busy machine is slow, so this only ends a run that hangs.
const BEGUN_WITHIN: Duration = Duration::from_secs(180);
/// Within which all of them are over, from the instant at which the last of them was begun.
const OVER_WITHIN: Duration = Duration::from_secs(10);
const LEDGER: &str = "idempotency.ledger.v1.LedgerService";
const REFLECTION: &str = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

/// A server whose metrics are there to look at.
async fn observed(settings: &[&str]) -> (Edge, String) {
    let observe = format!("127.0.0.1:{}", free_port());
    let edge =
        Edge::start(&[&["--observe-listen", &observe, "--stall-max", STALL_MAX][..], settings].concat())
            .await;
    (edge, observe)
}

/// Waits until each call has the head of its answer, or was reset. Clients keep what they have, and read no more of it.
async fn all_are_begun(calls: Vec<Asked>) -> Vec<Option<impl Sized>> {
    let begun = futures_util::future::join_all(calls.into_iter().map(Asked::head));
    within(BEGUN_WITHIN, "answers begin", begun).await
}

/// Waits until streams were reset, and no byte of an answer is held any more, while all clients are connected.
async fn is_over(edge: &Edge, observe: &str) {
    nothing_is_held(observe, || edge.log().contains("an answer was not read in time")).await;
}

/// Waits until no byte of an answer is held any more, and this is so.
pub(super) async fn nothing_is_held(observe: &str, besides: impl Fn() -> bool) {
    let timer = Timer::start();
    loop {
        let held = gauge(observe, "idempotency_ledger_answer_bytes").await;
        if held == 0 && besides() {
            return;
        }
        timer.within(OVER_WITHIN, &format!("answers hold {held} bytes still"));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The head of a message of the largest size, and a little of it.
fn announced() -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(3_600_000_u32.to_be_bytes());
    bytes.extend([0x7a; 1_000]);
    bytes
}

/// Messages of 3.6 MB are announced and not sent: by a tenant with a credential, and by clients that have none yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn announced_bytes_take_no_room_from_others() {
    const STREAMS: usize = 20;
    let run = Run::new("floods", SMALL);
    let Tenants { edge, hostile, healthy, observe: _, _files } = Tenants::start(1, STALL_MAX, &[]).await;
    let (connections, mut statuses) = (run.size.min(2_000), std::collections::BTreeMap::new());
    let flood = async {
        let mut calls = JoinSet::new();
        for number in 0..connections {
            let mut deaf = Deaf::connect(&edge, 65_535).await;
            let (path, token) = match number % 3 {
                0 => (format!("{LEDGER}/BatchClaim"), &*hostile[0]),
                1 => (format!("{LEDGER}/BatchSettle"), &*hostile[0]),
                _ => ("grpc.health.v1.Health/Check".to_owned(), ""),
            };
            for _ in 0..STREAMS {
                let Some(asked) = deaf.ask(&path, token, announced(), false).await else { break };
                let driven = deaf.send.clone();
                calls.spawn(async move {
                    let status = asked.head().await.map_or("reset".to_owned(), |(status, ..)| status);
                    drop(driven);
                    status
                });
            }
        }
        calls.join_all().await
    };
    let (ended, beside) = beside(&run, &edge, &healthy, flood).await;
    for status in ended {
        *statuses.entry(status).or_insert(0) += 1;
    }
    let late = statuses.get("4").copied().unwrap_or_default();
    assert!(late > 0, "{statuses:?}");
    // A message that is larger than health may have is refused by its length.
    assert!(
        statuses.keys().all(|status| ["4", "8", "11", "3", "reset"].contains(&&**status)),
        "{statuses:?}"
    );
    let what =
        format!("{connections} connections with {STREAMS} announced messages each, ended with {statuses:?}");
    beside.told(&run, &what, connections / 8);
}

/// Asks for the largest answer of reflection, four times a stream.
fn asks_of_reflection() -> Vec<u8> {
    let request = tonic_reflection::pb::v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(
            tonic_reflection::pb::v1::server_reflection_request::MessageRequest::FileContainingSymbol(
                "idempotency.ledger.v1.AdminService".to_owned(),
            ),
        ),
    };
    message(&request).repeat(4)
}

/// Answers of 16 KB that nobody reads, by clients without a credential where none is needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_to_strangers_that_are_not_read_end() {
    let run = Run::new("floods", SMALL);
    let (edge, observe) = observed(&[]).await;
    let healthy = Healthy::of(&edge);
    let connections = run.size.min(2_000) * 2 / 3;
    let flood = async {
        let (mut deaf, mut asked) = (Vec::new(), Vec::new());
        for _ in 0..connections {
            let mut one = Deaf::connect(&edge, 0).await;
            for _ in 0..250 {
                let Some(call) = one.ask(REFLECTION, "", asks_of_reflection(), false).await else { break };
                asked.push(call);
            }
            deaf.push(one);
        }
        let _unread = all_are_begun(asked).await;
        is_over(&edge, &observe).await;
        deaf.len()
    };
    let (connections, beside) = beside(&run, &edge, &healthy, flood).await;
    assert!(edge.peak() < 1_024, "{} MiB", edge.peak());
    let what = format!(
        "{connections} connections with 250 streams of reflection that read nothing; {} MiB",
        edge.peak()
    );
    beside.told(&run, &what, 500);
}

/// The same by a principal with a credential: results of 16,000 bytes, asked for one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_to_a_principal_that_are_not_read_end() {
    let run = Run::new("floods", SMALL);
    let settings = ["--reflection", "false", "--principal-calls-max", "2000"];
    let Tenants { edge, hostile, healthy, observe, _files } = Tenants::start(1, STALL_MAX, &settings).await;
    let mut client = edge.server.client().await;
    let token =
        acquired(&client.claim(by(&hostile[0], claim("hostile0", "1"))).await.unwrap().into_inner()).token;
    let result = Bytes::from(vec![7; 16_000]);
    let complete = proto::CompleteRequest { key: key("hostile0", "1"), token, result, ..Default::default() };
    client.complete(by(&hostile[0], complete)).await.unwrap();
    let connections = run.size.min(2_000) * 2 / 3;
    let flood = async {
        let (mut deaf, mut asked) = (Vec::new(), Vec::new());
        for number in 0..u32::try_from(connections).unwrap() {
            // With a window of one byte HTTP/2 has all of a small answer, and its stream can be reset no more.
            let mut one = Deaf::connect(&edge, number % 2).await;
            for _ in 0..100 {
                let body = message(&claim("hostile0", "1"));
                let Some(call) = one.ask(&format!("{LEDGER}/Claim"), &hostile[0], body, true).await else {
                    break;
                };
                asked.push(call);
            }
            deaf.push(one);
        }
        let _unread = all_are_begun(asked).await;
        is_over(&edge, &observe).await;
        deaf.len()
    };
    let (connections, beside) = beside(&run, &edge, &healthy, flood).await;
    let what = format!("{connections} connections with 100 claims whose answers they do not read");
    // Its share of answers and requests, and 64 KiB for each connection.
    beside.told(&run, &what, 100 + connections as u64 / 16);
}

/// One tenant leaves answers unread, as much as a share allows: the large answers of another tenant are all read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answers_of_others_are_read_while_one_leaves_its_own() {
    let settings = ["--server-bytes-max", "33554432"];
    let Tenants { edge, hostile, healthy, observe: _, _files } = Tenants::start(1, "10s", &settings).await;
    for name in ["hostile0", "healthy"] {
        let token = if name == "hostile0" { &hostile[0] } else { &healthy.tokens[0] };
        let mut client = edge.server.client().await;
        let requests: Vec<_> = (0..200).map(|number| claim(name, &number.to_string())).collect();
        let answers = client.batch_claim(by(token, proto::BatchClaimRequest { requests })).await.unwrap();
        let settle = |(number, answer): (usize, &proto::ClaimResponse)| proto::Settlement {
            action: Some(proto::settlement::Action::Complete(proto::CompleteRequest {
                key: key(name, &number.to_string()),
                token: acquired(answer).token,
                result: Bytes::from(vec![7; 15_000]),
                result_left_out: false,
                event_type: String::new(),
            })),
        };
        let settlements = answers.into_inner().responses.iter().enumerate().map(settle).collect();
        client.batch_settle(by(token, proto::BatchSettleRequest { settlements })).await.unwrap();
    }
    let batch = |name: &str| proto::BatchClaimRequest {
        requests: (0..200).map(|number| claim(name, &number.to_string())).collect(),
    };
    let mut deaf = Deaf::connect(&edge, 0).await;
    let mut asked = Vec::new();
    let mut client = edge.server.client().await;
    for number in 0..20 {
        // Three megabytes each, and more than all may have together; with more the connection would be closed.
        if number < 15 {
            let body = message(&batch("hostile0"));
            asked.extend(deaf.ask(&format!("{LEDGER}/BatchClaim"), &hostile[0], body, true).await);
        }
        let answer = client.batch_claim(by(&healthy.tokens[0], batch("healthy"))).await.unwrap().into_inner();
        assert!(answer.encoded_len() > 3_000_000);
    }
    assert!(!deaf.driving.is_finished(), "its streams go first");
    assert!(edge.log().contains("too many bytes of answers were not read"), "{}", edge.log());
}

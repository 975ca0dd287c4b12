//! The life of a connection: too many of one address, one without a call, one that is old. No call is lost by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::{ClaimResponse, ImportEntriesRequest, ImportedEntry};
use idempotency_ledger::rpc::ConnectionLimits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tonic::{Code, Response, Status};

use super::{PREFACE, SETTINGS};
use crate::harness::details::{acquired, claim, key, refusal};
use crate::harness::raw;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::harness::timer::Timer;
use crate::waiting::until;

/// How often the store may refuse calls that wait for a foreign writer.
const ROUNDS: usize = 5;
const CLOSED: &str = "idempotency_ledger_connections_closed_total";

async fn server(connections: ConnectionLimits) -> TestServer {
    TestServer::start_with(Kind::Sqlite, Setup { connections, ..Setup::default() }).await
}

fn closed(server: &TestServer, why: &str) -> f64 {
    server.metric(&format!("{CLOSED}{{why=\"{why}\"}}")).unwrap()
}

/// A connection from this address of this machine, with a whole preface.
async fn connect(server: &TestServer, from: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    let mut stream = socket.connect(server.address()).await.unwrap();
    stream.write_all(&[PREFACE, SETTINGS].concat()).await.unwrap();
    stream
}

/// Reads the header of the next frame, its payload left out; none: the connection has ended. One of the two comes in time.
async fn frame(stream: &mut TcpStream) -> Option<[u8; 9]> {
    let next = tokio::time::timeout(Duration::from_secs(20), next_frame(stream));
    next.await.expect("a frame, or the end of the connection")
}

async fn next_frame(stream: &mut TcpStream) -> Option<[u8; 9]> {
    let mut header = [0; 9];
    stream.read_exact(&mut header).await.ok()?;
    let mut payload = vec![0; u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize];
    stream.read_exact(&mut payload).await.ok()?;
    Some(header)
}

const GOAWAY: u8 = 7;
const HEADERS: u8 = 1;

/// Whether the server speaks HTTP/2 on it.
async fn is_served(stream: &mut TcpStream) -> bool {
    frame(stream).await.is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_beyond_those_of_an_address_are_closed_at_once() {
    // The server's own client has the third.
    let server = server(ConnectionLimits { per_address_max: 3, ..ConnectionLimits::default() }).await;
    let mut one = connect(&server, "127.0.0.1").await;
    let mut two = connect(&server, "127.0.0.1").await;
    assert!(is_served(&mut one).await && is_served(&mut two).await);
    for _ in 0..10 {
        assert!(!is_served(&mut connect(&server, "127.0.0.1").await).await);
    }
    // Not since their handshake took too long.
    assert_eq!((closed(&server, "per_address"), closed(&server, "opening")), (10.0, 0.0));
    // Others have places of their own, and one that is given back is taken again.
    assert!(is_served(&mut connect(&server, "127.0.0.2").await).await);
    drop(one);
    let until = Instant::now() + Duration::from_secs(10);
    while !is_served(&mut connect(&server, "127.0.0.1").await).await {
        assert!(Instant::now() < until, "the place of a connection that ended is not given back");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_without_a_call_ends_and_its_client_comes_back() {
    let idle_max = Some(Duration::from_millis(500));
    let mut server = server(ConnectionLimits { idle_max, ..ConnectionLimits::default() }).await;
    let (began, timer) = (Instant::now(), Timer::start());
    let mut idle = connect(&server, "127.0.0.1").await;
    loop {
        let header = frame(&mut idle).await.expect("a GOAWAY comes before the end");
        if header[3] == GOAWAY {
            break;
        }
    }
    let goaway = began.elapsed();
    assert!(goaway > Duration::from_millis(450), "{goaway:?}");
    timer.within(Duration::from_secs(3), "the GOAWAY of an idle connection");
    // It answers nothing: it is closed all the same.
    while frame(&mut idle).await.is_some() {}
    println!("GOAWAY after {goaway:?}, closed after {:?}", began.elapsed());
    timer.within(Duration::from_secs(15), "the end of an idle connection");
    // A client that was idle notices nothing.
    for round in 0..3 {
        let answer = server.client.claim(claim("c", &round.to_string())).await;
        acquired(&answer.unwrap_or_else(|status| panic!("round {round}: {status:?}")).into_inner());
        tokio::time::sleep(Duration::from_millis(900)).await;
    }
    assert!(closed(&server, "idle") >= 4.0, "{}", closed(&server, "idle"));
    // A call under way is no idleness, and calls that come now and then are none.
    // On a busy machine a pause may be as long as idleness: such a round says nothing.
    for attempt in 0.. {
        let before = closed(&server, "idle");
        let held = server.at.hold_writes().await;
        let mut client = server.client.clone();
        let id = format!("held {attempt}");
        let waiting = tokio::spawn(async move { client.claim(claim("c", &id)).await });
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert!(!waiting.is_finished(), "the store was to stand still");
        drop(held);
        acquired(&waiting.await.unwrap().unwrap().into_inner());
        let mut longest = Duration::ZERO;
        for round in 0..8 {
            let rested = Instant::now();
            tokio::time::sleep(Duration::from_millis(150)).await;
            longest = longest.max(rested.elapsed());
            server.client.claim(claim("c", &format!("now and then {attempt} {round}"))).await.unwrap();
        }
        if closed(&server, "idle") == before {
            break;
        }
        assert!(longest > Duration::from_millis(400), "a connection with calls was taken for idle");
        assert!(attempt < 20, "the machine is too busy: a pause of 150 ms took {longest:?}");
    }
    server.stop().await;
}

/// What a client saw that calls all the time.
#[derive(Debug, Default)]
struct Seen {
    answered: AtomicU64,
    /// Its library gave up before the call was sent: it never left the client.
    unsent: AtomicU64,
    lost: AtomicU64,
    over: AtomicBool,
}

impl Seen {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }
}

const AGES: Duration = Duration::from_secs(8);
/// Of eight clients over seven ages.
const AGED: f64 = 40.0;
const ANSWERED: u64 = 1_000;

async fn aging() -> TestServer {
    let age_max = Some(Duration::from_secs(1));
    server(ConnectionLimits { age_max, age_grace: Duration::from_secs(5), ..ConnectionLimits::default() })
        .await
}

/// Lets the clients call for several ages; where the machine delays them, for as much longer as they need.
async fn several_ages(server: &TestServer, seen: &Seen) {
    let timer = Timer::start();
    tokio::time::sleep(AGES).await;
    let few = || closed(server, "age") < AGED || seen.answered.load(Ordering::SeqCst) <= ANSWERED;
    while few() && timer.took() < AGES {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    seen.over.store(true, Ordering::SeqCst);
}

fn nothing_was_lost(server: &TestServer, seen: &Seen) {
    let aged = closed(server, "age");
    println!("{aged} connections ended by their age: {seen:?}");
    assert!(aged >= AGED, "each client saw several ages: {aged}");
    assert_eq!(seen.lost.load(Ordering::SeqCst), 0, "{seen:?}");
    assert!(seen.answered.load(Ordering::SeqCst) > ANSWERED, "{seen:?}");
}

/// One connection after the other: it takes the next as soon as it knows that one ends, as clients of gRPC do.
async fn calls_on_raw_connections(address: String, task: u32, seen: Arc<Seen>) {
    let mut number = 0_u64;
    while !seen.is_over() {
        let stream = TcpStream::connect(&address).await.unwrap();
        let (send, connection) = h2::client::handshake(stream).await.unwrap();
        let driving = tokio::spawn(connection);
        let mut waiting = JoinSet::new();
        while !seen.is_over() {
            let Ok(mut send) = send.clone().ready().await else { break };
            number += 1;
            let message = claim("c", &format!("raw {task}-{number}"));
            let Ok((answer, mut body)) = send.send_request(super::frames::post(), false) else { break };
            let sent = body.send_data(super::frames::message(&message).into(), true);
            let seen = Arc::clone(&seen);
            waiting.spawn(async move {
                match answer.await {
                    Ok(answer) if answer.status() == 200 => seen.answered.fetch_add(1, Ordering::SeqCst),
                    // It waited for a stream when the connection ended.
                    Err(error) if sent.is_err() || error.is_go_away() && error.is_remote() => {
                        seen.unsent.fetch_add(1, Ordering::SeqCst)
                    }
                    other => {
                        println!("lost: {other:?}");
                        seen.lost.fetch_add(1, Ordering::SeqCst)
                    }
                }
            });
            if waiting.len() >= 4 {
                waiting.join_next().await;
            }
        }
        waiting.join_all().await;
        drop(send);
        assert!(tokio::time::timeout(Duration::from_secs(5), driving).await.is_ok(), "it does not end");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_over_several_ages() {
    let server = aging().await;
    let seen = Arc::new(Seen::default());
    let mut callers = JoinSet::new();
    for task in 0..8 {
        let address = server.address().to_string();
        callers.spawn(calls_on_raw_connections(address, task, Arc::clone(&seen)));
    }
    several_ages(&server, &seen).await;
    callers.join_all().await;
    nothing_was_lost(&server, &seen);
    server.stop().await;
}

/// The library of these tests gives calls up that it has not sent yet when it hears that a connection ends. Repeated as
/// they are, as docs/contract.md, section 7 wants it of errors without a reason, they are answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_repeats_what_has_no_reason_sees_no_failed_call_over_several_ages() {
    let server = aging().await;
    let seen = Arc::new(Seen::default());
    let mut callers = JoinSet::new();
    for connection in 0..8 {
        let client = LedgerServiceClient::new(raw::channel(&server).await);
        for task in 0..4 {
            let (mut client, seen) = (client.clone(), Arc::clone(&seen));
            callers.spawn(async move {
                let mut number = 0_u64;
                while !seen.is_over() {
                    number += 1;
                    let request = claim("c", &format!("{connection}-{task}-{number}"));
                    let mut tries = 0;
                    while let Err(status) = client.claim(request.clone()).await {
                        tries += 1;
                        let has_reason = status.metadata().contains_key("idempotency-ledger-reason");
                        if has_reason || tries == 3 {
                            println!("lost: {status:?}");
                            seen.lost.fetch_add(1, Ordering::SeqCst);
                            break;
                        }
                        seen.unsent.fetch_add(1, Ordering::SeqCst);
                    }
                    seen.answered.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    }
    several_ages(&server, &seen).await;
    callers.join_all().await;
    nothing_was_lost(&server, &seen);
    server.stop().await;
}

fn part(ids: std::ops::Range<u32>) -> ImportEntriesRequest {
    let row = |id: u32| ImportedEntry { key: key("c", &format!("row {id}")), ..Default::default() };
    ImportEntriesRequest {
        operation_id: "o".into(),
        reason: "adoption".into(),
        entries: ids.map(row).collect(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_ends_after_its_grace_and_goes_on_with_another_connection() {
    let age_max = Some(Duration::from_secs(1));
    let limits =
        ConnectionLimits { age_max, age_grace: Duration::from_secs(1), ..ConnectionLimits::default() };
    let mut server = server(limits).await;
    let (began, timer) = (Instant::now(), Timer::start());
    // Far more than it takes until the end.
    let slowly = stream::iter(0_u32..200).then(|number| async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        part(number * 10..number * 10 + 10)
    });
    let mut answers = server.admin.import_entries(slowly).await.unwrap().into_inner();
    let mut stored = 0;
    let ended = loop {
        match answers.next().await.expect("an end is told") {
            Ok(answer) => stored += answer.stored,
            Err(status) => break status,
        }
    };
    let (took, refused) = (began.elapsed(), refusal(&ended));
    println!("{stored} entries were stored before it ended after {took:?}: {}", ended.message());
    assert_eq!((refused.reason.as_str(), refused.advice.as_str()), ("DRAINING", "RETRY_LATER"));
    assert!(took > Duration::from_millis(1_800), "{took:?}");
    timer.within(Duration::from_secs(6), "the end of a stream");
    // What was answered is stored, and the next message goes on from there.
    let from = u32::try_from(stored).unwrap();
    let parts = vec![part(0..from), part(from..from + 20)];
    let again = loop {
        match server.admin.import_entries(stream::iter(parts.clone())).await {
            Ok(answers) => break answers.into_inner(),
            // The client had it for the connection that ends, and has not sent it.
            Err(status) => assert_eq!(status.code(), Code::Cancelled, "{status:?}"),
        }
    };
    let again: Vec<_> = again.map(|answer| answer.unwrap()).collect().await;
    assert_eq!(again[0].stored + again[0].already_completed, stored);
    assert!(again[0].stored == 0, "what was answered is stored");
    assert_eq!(again[1].stored + again[1].already_completed, 20);
    server.stop().await;
}

/// Lets the age of a connection end while its calls wait for the store. Returns the answers.
async fn ages_under_calls() -> Vec<Result<ClaimResponse, Status>> {
    let age_max = Some(Duration::from_secs(1));
    let limits = ConnectionLimits { age_max, age_grace: Duration::ZERO, ..ConnectionLimits::default() };
    let server = server(limits).await;
    let mut client = server.client.clone();
    acquired(&client.claim(claim("c", "before")).await.unwrap().into_inner());
    let held = server.at.hold_writes().await;
    let mut waiting = JoinSet::new();
    for number in 0..20 {
        let mut client = client.clone();
        waiting.spawn(async move { client.claim(claim("c", &number.to_string())).await });
    }
    until("the connection is too old", || closed(&server, "age") >= 1.0).await;
    let mut answers = Vec::new();
    while let Some(early) = waiting.try_join_next() {
        answers.push(early.unwrap());
    }
    assert!(answers.iter().all(Result::is_err), "the store was to stand still");
    drop(held);
    answers.extend(waiting.join_all().await);
    server.stop().await;
    answers.into_iter().map(|answer| answer.map(Response::into_inner)).collect()
}

/// Calls that were sent before the client knew of the end are carried out: the server refuses no stream by its GOAWAY. On a busy
/// machine the store may refuse them before the age is reached.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_under_way_outlives_the_age() {
    for _ in 0..ROUNDS {
        let answers = ages_under_calls().await;
        for status in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            assert_eq!(refusal(status).reason, "STORE_UNAVAILABLE", "{status:?}");
        }
        if answers.iter().all(Result::is_ok) {
            return;
        }
    }
    panic!("the store refused calls in each round");
}

/// A client that knows of the end only after a while: what it sends until then is carried out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_sent_after_the_server_said_goodbye_is_answered() {
    let idle_max = Some(Duration::from_millis(500));
    let server = server(ConnectionLimits { idle_max, ..ConnectionLimits::default() }).await;
    let mut stream = connect(&server, "127.0.0.1").await;
    while frame(&mut stream).await.expect("a GOAWAY")[3] != GOAWAY {}
    // Far longer than a draining server would wait.
    tokio::time::sleep(Duration::from_secs(2)).await;
    stream.write_all(&super::frames::call(1, &[0, 0, 0, 0, 0])).await.unwrap();
    let mut answered = false;
    while let Some(header) = frame(&mut stream).await {
        answered |= header[3] == HEADERS;
    }
    assert!(answered, "the call was lost");
    server.stop().await;
}

//! The same at the HTTP door, by HTTP/1.1: bodies that are announced and never sent, or never end, or come slowly; answers that
//! are not read; half heads; connections of one address. A neighbour on the same port is answered meanwhile.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::bodies::large_answer;
use super::held::nothing_is_held;
use super::{Beside, Healthy, OPENED_EVERY, SMALL, beside, ended};
use crate::door::client::{Http1, request};
use crate::edge::Edge;
use crate::harness::postgres::free_port;
use crate::proof::run::Run;

const LEDGER: &str = "/idempotency.ledger.v1.LedgerService";
/// From one call of the neighbour to the next.
const NEIGHBOURS_PACE: Duration = Duration::from_millis(20);
const ROOM: [&str; 4] = ["--connections-max", "20000", "--connections-per-address-max", "20000"];

/// A server with an HTTP door.
struct Door {
    edge: Edge,
    address: SocketAddr,
}

impl Door {
    async fn start(settings: &[&str]) -> Door {
        let address = format!("127.0.0.1:{}", free_port());
        let edge = Edge::start(&[&["--http-listen", &address][..], settings].concat()).await;
        Door { edge, address: address.parse().unwrap() }
    }

    /// A connection from another address of this machine than the neighbour's. `buffer`: of what it has not read.
    async fn connect_from_elsewhere(&self, buffer: Option<u32>) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        if let Some(bytes) = buffer {
            socket.set_recv_buffer_size(bytes).unwrap();
        }
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        tokio::time::sleep(OPENED_EVERY).await;
        socket.connect(self.address).await.unwrap()
    }

    /// Claims one message after the other on one connection: each of them is granted.
    async fn neighbour(&self) -> ! {
        let mut connection = Http1::to(self.address).await;
        for number in 0_u64.. {
            let body =
                format!(r#"{{"key":{{"consumer":"neighbour","source":"s","id":"{number}"}},"owner":"o"}}"#);
            let reply = connection.ask(&request(&format!("{LEDGER}/Claim"), &[], body.as_bytes())).await;
            assert_eq!(reply.header("idempotency-ledger-advice"), "PROCESS", "{number}: {reply:?}");
            tokio::time::sleep(NEIGHBOURS_PACE).await;
        }
        unreachable!("so many numbers")
    }

    /// A flood next to a healthy client of gRPC, and the neighbour.
    async fn beside<T>(&self, run: &Run, flood: impl Future<Output = T>) -> (T, Beside) {
        let with_neighbour = async {
            tokio::select! {
                done = flood => done,
                never = self.neighbour() => never,
            }
        };
        beside(run, &self.edge, &Healthy::of(&self.edge), with_neighbour).await
    }
}

fn head(method: &str, rest: &str) -> Vec<u8> {
    let head = format!(
        "POST {LEDGER}/{method} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/proto\r\n{rest}\r\n\r\n"
    );
    head.into_bytes()
}

/// What a connection is answered: the status of HTTP, or that it was closed without one.
async fn answered(mut stream: TcpStream, within: Duration) -> String {
    let mut said = Vec::new();
    let reading = stream.read_to_end(&mut said);
    // A connection that is reset has said what it had to say, too.
    let _end = tokio::time::timeout(within, reading).await.expect("the connection ends");
    let said = String::from_utf8_lossy(&said);
    said.split(' ').nth(1).unwrap_or("closed").to_owned()
}

fn counted(statuses: Vec<String>) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for status in statuses {
        *counted.entry(status).or_insert(0) += 1;
    }
    counted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn announced_bodies_of_http1_end_and_take_no_room() {
    let run = Run::new("floods", SMALL);
    let door = Door::start(&[&ROOM[..], &["--stall-max", "2s"]].concat()).await;
    let connections = run.size.min(10_000);
    let flood = async {
        let mut calls = JoinSet::new();
        for number in 0..connections {
            let mut stream = door.connect_from_elsewhere(None).await;
            let (rest, body) = match number % 2 {
                0 => ("content-length: 3600000", vec![0x7a; 1_000]),
                _ => ("transfer-encoding: chunked", [&b"3e8\r\n"[..], &[0x7a; 1_000], b"\r\n"].concat()),
            };
            stream.write_all(&[head("BatchClaim", rest), body].concat()).await.unwrap();
            calls.spawn(answered(stream, Duration::from_secs(20)));
        }
        counted(calls.join_all().await)
    };
    let (statuses, beside) = door.beside(&run, flood).await;
    // A body that does not arrive in time is the deadline's; beyond what one address may begin it is refused at once.
    assert!(statuses.contains_key("504"), "{statuses:?}");
    assert!(statuses.keys().all(|status| ["504", "429", "503"].contains(&&**status)), "{statuses:?}");
    let what = format!("{connections} bodies of HTTP/1.1 announced and not sent, ended with {statuses:?}");
    beside.told(&run, &what, connections / 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_bodies_of_http1_end_at_their_deadline() {
    let run = Run::new("floods", SMALL);
    let door = Door::start(&[&ROOM[..], &["--deadline-max", "2s"]].concat()).await;
    let connections = run.size.min(10_000);
    let slowly = async |mut stream: TcpStream| {
        let began = Instant::now();
        stream.write_all(&head("Claim", "content-length: 1000")).await.unwrap();
        let (from, mut to) = stream.split();
        let drip = async {
            while to.write_all(&[10]).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            std::future::pending::<()>().await;
        };
        let mut from = from;
        let mut said = vec![0; 16];
        tokio::select! {
            read = from.read(&mut said) => said.truncate(read.unwrap_or(0)),
            () = drip => {}
        }
        (String::from_utf8_lossy(&said).split(' ').nth(1).unwrap_or("closed").to_owned(), began.elapsed())
    };
    let flood = async {
        let mut calls = JoinSet::new();
        for _ in 0..connections {
            calls.spawn(slowly(door.connect_from_elsewhere(None).await));
        }
        calls.join_all().await
    };
    let (ended, beside) = door.beside(&run, flood).await;
    let longest = ended.iter().map(|(_, took)| *took).max().unwrap();
    let statuses = counted(ended.into_iter().map(|(status, _)| status).collect());
    assert_eq!(statuses.keys().collect::<Vec<_>>(), ["504"], "{statuses:?}");
    assert!(longest < Duration::from_secs(15), "{longest:?}");
    let what =
        format!("{connections} bodies of HTTP/1.1 byte by byte, the last one ended after {longest:.1?}");
    beside.told(&run, &what, connections / 16);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_bodies_of_http1_are_refused() {
    let run = Run::new("floods", SMALL);
    let door = Door::start(&ROOM).await;
    let connections = run.size.div_ceil(10);
    let endless = async |mut stream: TcpStream| {
        let chunk = [&b"10000\r\n"[..], &vec![0x7a; 65_536], b"\r\n"].concat();
        stream.write_all(&head("BatchClaim", "transfer-encoding: chunked")).await.unwrap();
        let (mut from, mut to) = stream.split();
        let pour = async {
            let mut poured = 0_u64;
            while to.write_all(&chunk).await.is_ok() {
                poured += 65_536;
                assert!(poured < 64 << 20, "{poured} bytes of one body");
            }
            std::future::pending::<()>().await;
        };
        let mut said = vec![0; 16];
        tokio::select! {
            read = from.read(&mut said) => said.truncate(read.unwrap_or(0)),
            () = pour => {}
        }
        String::from_utf8_lossy(&said).split(' ').nth(1).unwrap_or("closed").to_owned()
    };
    let flood = async {
        let mut calls = JoinSet::new();
        for _ in 0..connections {
            calls.spawn(endless(door.connect_from_elsewhere(None).await));
        }
        counted(calls.join_all().await)
    };
    let (statuses, beside) = door.beside(&run, flood).await;
    assert!(statuses.keys().all(|status| ["400", "429", "closed"].contains(&&**status)), "{statuses:?}");
    assert!(statuses.contains_key("400"), "{statuses:?}");
    let what = format!("{connections} bodies of HTTP/1.1 without an end, ended with {statuses:?}");
    // What is read before a body is too large: 3.6 MB each, and half of the server's bytes at most.
    beside.told(&run, &what, 150);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_of_http1_that_are_not_read_end() {
    let run = Run::new("floods", SMALL);
    let observe = format!("127.0.0.1:{}", free_port());
    let settings = ["--observe-listen", &observe, "--stall-max", "2s"];
    let door = Door::start(&[&ROOM[..], &settings].concat()).await;
    let connections = run.size.min(2_000) / 3;
    let flood = async {
        let batch = large_answer(&door.edge).await.encode_to_vec();
        let mut deaf = Vec::new();
        for _ in 0..connections {
            let mut stream = door.connect_from_elsewhere(Some(4_096)).await;
            let rest = format!("content-length: {}", batch.len());
            stream.write_all(&[head("BatchClaim", &rest), batch.clone()].concat()).await.unwrap();
            deaf.push(stream);
        }
        for stream in &deaf {
            stream.readable().await.unwrap();
        }
        nothing_is_held(&observe, || true).await;
        // What the system had taken for a client is still there; all else is gone with its connection.
        let mut cut = 0;
        for mut stream in deaf {
            let mut read = vec![0; 12];
            let begun = stream.read_exact(&mut read).await.is_ok();
            if begun && read.ends_with(b"429") {
                continue;
            }
            assert!(!begun || read.ends_with(b"200"), "{}", String::from_utf8_lossy(&read));
            let end = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut read)).await;
            let _reset = end.expect("the connection has ended");
            assert!(read.len() < 3_000_000, "{} bytes were held for a client that reads none", read.len());
            cut += u64::from(begun);
        }
        cut
    };
    let (cut, beside) = door.beside(&run, flood).await;
    assert!(cut > 0, "no answer was begun");
    let what = format!(
        "{connections} connections of HTTP/1.1 that read none of an answer of 3.3 MB, {cut} were begun"
    );
    // What is loaded for those calls that are carried out concurrently is bounded by the queue.
    beside.told(&run, &what, 250);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_heads_of_http1_end() {
    let run = Run::new("floods", SMALL);
    let door = Door::start(&ROOM).await;
    let connections = run.size.min(10_000);
    // The head after a whole request must not wait longer than the first one.
    let slowly = async |mut stream: TcpStream, is_second: bool| {
        if is_second {
            let whole = head("Claim", "content-length: 0");
            stream.write_all(&whole).await.unwrap();
            let mut said = [0; 4_096];
            assert!(stream.read(&mut said).await.unwrap() > 0);
        }
        let began = Instant::now();
        for byte in head("Claim", "content-length: 0") {
            if stream.write_all(&[byte]).await.is_err()
                || ended(&mut stream, Duration::from_millis(700)).await
            {
                break;
            }
        }
        began.elapsed()
    };
    let flood = async {
        let mut slow = JoinSet::new();
        for number in 0..connections {
            slow.spawn(slowly(door.connect_from_elsewhere(None).await, number % 2 == 0));
        }
        slow.join_all().await
    };
    let (took, beside) = door.beside(&run, flood).await;
    let longest = took.iter().max().unwrap();
    assert!(took.iter().all(|took| *took > Duration::from_secs(3)), "some had not their time");
    assert!(*longest < Duration::from_secs(12), "{longest:?}");
    let what =
        format!("{connections} heads of HTTP/1.1 byte by byte, the last one ended after {longest:.1?}");
    beside.told(&run, &what, connections / 16);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_of_http1_leave_room_for_other_addresses() {
    let run = Run::new("floods", SMALL);
    let (all, half) = (run.size.min(10_000), run.size.min(10_000) / 2);
    let (places, of_one) = ((half + 50).to_string(), half.to_string());
    let settings = ["--connections-max", &places, "--connections-per-address-max", &of_one];
    let door = Door::start(&settings).await;
    let flood = async {
        let (mut served, mut closed) = (Vec::new(), 0);
        for number in 0..all {
            let mut stream = door.connect_from_elsewhere(None).await;
            let body = format!(r#"{{"key":{{"consumer":"idle","source":"s","id":"{number}"}}}}"#);
            let _closed_early =
                stream.write_all(&request(&format!("{LEDGER}/Claim"), &[], body.as_bytes())).await;
            let mut first = [0];
            match tokio::time::timeout(Duration::from_secs(10), stream.read(&mut first))
                .await
                .expect("an end")
            {
                Ok(1) => served.push(stream),
                Ok(_) | Err(_) => closed += 1,
            }
        }
        (served.len() as u64, closed)
    };
    let ((served, closed), beside) = door.beside(&run, flood).await;
    assert_eq!((served, closed), (half, all - half));
    let log = door.edge.log();
    assert!(log.contains("connections_per_address_max is reached"), "{log}");
    let what =
        format!("{served} idle connections of HTTP/1.1 of one address, {closed} closed without an answer");
    // 64 KiB for each that is idle.
    beside.told(&run, &what, half / 16);
}

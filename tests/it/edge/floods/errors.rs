//! Errors that sockets do not take: no window of HTTP/2 bounds their headers and trailers.

use std::net::SocketAddr;
use std::time::Duration;

use idempotency_ledger::proto::{ClaimRequest, ImportEntriesRequest};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Healthy, SMALL, beside};
use crate::edge::frames::{SETTINGS, call_of, frame, message};
use crate::edge::{Edge, PREFACE};
use crate::harness::details::claim;
use crate::harness::timer::Timer;
use crate::proof::run::Run;

/// Calls of a connection at once; the server takes 256.
const CALLS: u32 = 250;

/// A connection whose socket takes few bytes, since its client reads none.
async fn deaf(to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_tcp_mss(536).unwrap();
    socket.set_recv_buffer_size(1_024).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.set_nonblocking(true).unwrap();
    TcpStream::from_std(socket.into()).unwrap()
}

/// Whose errors nobody reads.
#[derive(Clone, Copy)]
enum Of {
    /// Of one message.
    Claims,
    /// Of a stream of messages.
    Imports,
}

/// Calls of which each field is wrong, so that the error has some kilobytes. The client goes on until nothing is taken for
/// two seconds.
async fn asks(to: SocketAddr, errors: Of) -> TcpStream {
    let mut stream = deaf(to).await;
    // No two errors are the same: HTTP/2 would send the second one as a reference to the first one.
    let wrong = |number: usize| ClaimRequest {
        owner: "o".repeat(600 + number),
        fingerprint: vec![1; 600 + number].into(),
        claim_id: "none".into(),
        ..claim(&"\u{1}".repeat(300 + number), &"\u{1}".repeat(2_000 + number))
    };
    let import = |number: usize| ImportEntriesRequest {
        operation_id: "\u{1}".repeat(300 + number),
        reason: "\u{1}".repeat(2_000 + number),
        ..ImportEntriesRequest::default()
    };
    let one = |number: usize| match errors {
        Of::Claims => (&b"/idempotency.ledger.v1.LedgerService/Claim"[..], message(&wrong(number))),
        Of::Imports => (&b"/idempotency.ledger.v1.AdminService/ImportEntries"[..], message(&import(number))),
    };
    let mut parts = vec![[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()];
    parts.extend((0..CALLS).map(|number| {
        let (path, body) = one(number as usize);
        call_of(path, 2 * number + 1, &body)
    }));
    for part in parts {
        if !matches!(tokio::time::timeout(Duration::from_secs(2), stream.write_all(&part)).await, Ok(Ok(())))
        {
            break;
        }
    }
    stream
}

/// Waits until the log has this line.
async fn says(edge: &Edge, line: &str, within: Duration) {
    let timer = Timer::start();
    while !edge.log().contains(line) {
        timer.within(within, line);
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_takes_nothing_is_closed() {
    let edge = Edge::start(&["--stall-max", "2s"]).await;
    let _open = asks(edge.server.address.parse().unwrap(), Of::Claims).await;
    says(&edge, "the client takes none of the bytes that are sent", Duration::from_secs(10)).await;
}

/// Long before `stall_max`, since all together have more than an eighth of `server_bytes_max`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_that_nobody_reads_have_a_bound() {
    for (errors, what) in [(Of::Claims, "errors of claims"), (Of::Imports, "errors of imports")] {
        let run = Run::new("floods", SMALL);
        let edge = Edge::start(&["--stall-max", "60s", "--server-bytes-max", "33554432"]).await;
        let to = edge.server.address.parse().unwrap();
        let flood = async {
            let mut all = JoinSet::new();
            for _ in 0..run.size.min(2_000) / 3 {
                all.spawn(asks(to, errors));
            }
            let open = all.join_all().await;
            let line = "the client does not take errors, and holds most of them";
            says(&edge, line, Duration::from_secs(10)).await;
            open.len()
        };
        let (connections, beside) = beside(&run, &edge, &Healthy::of(&edge), flood).await;
        let what = format!("{connections} connections that read none of {CALLS} {what}");
        beside.told(&run, &what, connections as u64 / 8);
    }
}

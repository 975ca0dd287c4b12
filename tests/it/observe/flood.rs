//! Half and idle connections to the plain HTTP port, from one address and from twenty: probes are answered within a second
//! while these are opened, and while they stay.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{asked, series};
use crate::harness::postgres::free_port;
use crate::process::{BINARY, Server, sqlite};
use crate::proof::run::Run;

/// How many connections a flood has.
const SMALL: u64 = 400;
/// More connections would only repeat the same case: they are evicted one by one.
const LARGE: u64 = 2_000;
const SOON: Duration = Duration::from_secs(1);
/// How long probes go on after the last connection of a flood was opened.
const AFTER: Duration = Duration::from_millis(200);
/// Places of the port.
const PLACES: f64 = 256.0;
const CLOSED: &str = r#"idempotency_ledger_connections_closed_total{why="observe"}"#;

/// Opens connections without a pause, the n-th from the address 127.0.0.n for each n of `addresses`; a half request is
/// sent on each, or nothing.
fn opened(to: SocketAddr, connections: u64, addresses: u8, sends: &[u8]) -> Vec<TcpStream> {
    let from = (1..=addresses).cycle().map(|last| SocketAddr::from(([127, 0, 0, last], 0)));
    let open = |from: SocketAddr| {
        let kind = (socket2::Domain::IPV4, socket2::Type::STREAM);
        let socket = socket2::Socket::new(kind.0, kind.1, None).unwrap();
        socket.bind(&from.into()).unwrap();
        socket.connect(&to.into()).unwrap();
        let mut stream = TcpStream::from(socket);
        // It may have been evicted already.
        let _evicted = stream.write_all(sends);
        stream
    };
    from.take(usize::try_from(connections).unwrap()).map(open).collect()
}

/// Probes one after the other until `ended`, and then for a while. The slowest one.
async fn probed(at: &str, what: &str, ended: &AtomicBool) -> Duration {
    let (mut slowest, mut until) = (Duration::ZERO, None);
    while until.is_none_or(|until| Instant::now() < until) {
        if until.is_none() && ended.load(Ordering::SeqCst) {
            until = Some(Instant::now() + AFTER);
        }
        for (path, says) in [("/livez", "live\n"), ("/readyz", "ready\n"), ("/metrics", "# HELP")] {
            let began = Instant::now();
            let answer = tokio::time::timeout(SOON, asked(at, &format!("GET {path}"))).await;
            let (status, text) =
                answer.unwrap_or_else(|_| panic!("{what}: {path} has no answer within a second"));
            assert!(status == 200 && text.starts_with(says), "{what}: {path}: {status} {text}");
            slowest = slowest.max(began.elapsed());
        }
    }
    slowest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_and_idle_connections_delay_no_probe() {
    let run = Run::new("floods", SMALL);
    let size = run.size.min(LARGE);
    let folder = tempfile::tempdir().unwrap();
    let (log, at) = (folder.path().join("log"), format!("127.0.0.1:{}", free_port()));
    let file = Stdio::from(std::fs::File::create(&log).unwrap());
    let settings = ["--observe-listen", &at];
    let _server = Server::with(Command::new(BINARY), &sqlite(folder.path()), &settings, file).await;
    let to: SocketAddr = at.parse().unwrap();
    let (mut slowest, mut kept) = (Duration::ZERO, Vec::new());
    for (what, addresses, sends) in [
        ("half requests of one address", 1, &b"GET /livez HTTP/1.1\r\nhost: a\r\n"[..]),
        ("half requests of twenty addresses", 20, b"GET /livez HTTP/1.1\r\nhost: a\r\n"),
        ("idle connections of one address", 1, b""),
        ("idle connections of twenty addresses", 20, b""),
        ("empty lines of twenty addresses", 20, b"\r\n\r\n\r\n"),
    ] {
        let before = series(&at).await[CLOSED];
        let ended = Arc::new(AtomicBool::new(false));
        let flood = tokio::task::spawn_blocking({
            let ended = Arc::clone(&ended);
            move || {
                let opened = opened(to, size, addresses, sends);
                ended.store(true, Ordering::SeqCst);
                opened
            }
        });
        slowest = slowest.max(probed(&at, what, &ended).await);
        // All evicted ones of the flood before, too, stay open on the side of their clients.
        kept.extend(flood.await.unwrap());
        let closed = series(&at).await[CLOSED] - before;
        // The newest ones stay, and of those before some have gone because their time of 5 s was over.
        assert!(closed >= size as f64 - PLACES, "{what}: {closed} evicted");
    }
    let said = crate::harness::log_file::settled(&log);
    let lines = said.matches("all places of observe_listen are taken").count();
    let seconds = usize::try_from(run.elapsed().as_secs()).unwrap();
    assert!((1..=seconds + 2).contains(&lines), "at most one line a second: {lines}");
    run.summary(format!(
        "{} connections to observe_listen, half requests and idle ones, of one address and of twenty; the slowest of \
         the probes next to them took {:.1} ms",
        kept.len(),
        slowest.as_secs_f64() * 1_000.0
    ));
}

/// Asks for the metrics from an address, and reads little of them: what the port says at the beginning.
fn unread(to: SocketAddr, last: u8) -> (TcpStream, String) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    // Small segments and a small window: the operating system does not take a whole answer.
    socket.set_tcp_mss(536).unwrap();
    socket.set_recv_buffer_size(1_024).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, last], 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut begin = [0; 12];
    std::io::Read::read_exact(&mut stream, &mut begin).unwrap();
    (stream, String::from_utf8(begin.to_vec()).unwrap())
}

/// Clients that ask for the metrics and read little of them hold the share of their address, and together leave one for
/// each other address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_scrapes_leave_room_for_others() {
    for (addresses, taken_at_most) in [(1, 8), (4, 28), (6, 31)] {
        let folder = tempfile::tempdir().unwrap();
        let (_server, at) = super::server(&folder, &[]).await;
        let to: SocketAddr = at.parse().unwrap();
        let all: Vec<_> =
            (2..2 + addresses).flat_map(|last| (0..40).map(move |_| unread(to, last))).collect();
        let taken = all.iter().filter(|(_, status)| status == "HTTP/1.1 200").count();
        assert!(taken <= taken_at_most, "{addresses} addresses: {taken}");
        assert_eq!(asked(&at, "GET /metrics").await.0, 200, "beside {addresses} addresses");
        for path in ["/livez", "/readyz"] {
            assert_eq!(
                asked(&at, &format!("GET {path}")).await.0,
                200,
                "{path} beside {addresses} addresses"
            );
        }
    }
}

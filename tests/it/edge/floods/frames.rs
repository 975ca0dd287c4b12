//! Frames of HTTP/2 that cost more to read than to send.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{Beside, Healthy, SMALL, beside, ended, from_elsewhere};
use crate::edge::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS, frame, head, header,
};
use crate::edge::{Edge, PREFACE};
use crate::proof::run::Run;

async fn opened(edge: &Edge) -> TcpStream {
    let mut stream = from_elsewhere(edge).await;
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await.unwrap();
    stream
}

/// Writes and reads at once until all is written, the server ends the connection, or nothing goes on for a second: how much
/// was written, and whether it ended.
async fn write(stream: TcpStream, parts: impl Iterator<Item = Vec<u8>>, reads: bool) -> (usize, bool) {
    let (mut reading, mut writing) = stream.into_split();
    let read = tokio::spawn(async move {
        let mut said = vec![0; 16_384];
        while reads && matches!(reading.read(&mut said).await, Ok(1..)) {}
        reading
    });
    let mut written = 0;
    let mut broken = false;
    for part in parts {
        match tokio::time::timeout(Duration::from_secs(1), writing.write_all(&part)).await {
            Ok(Ok(())) => written += part.len(),
            Ok(Err(_)) => broken = true,
            // The server reads no further: it waits for its client to read.
            Err(_) => break,
        }
        if broken {
            break;
        }
    }
    // Who reads sees the end.
    let over = reads && tokio::time::timeout(Duration::from_secs(2), read).await.is_ok();
    (written, broken || over)
}

/// What became of many connections.
struct Flooded {
    run: Run,
    /// How many were ended.
    ends: u64,
    /// The most bytes that one could write.
    most: usize,
    /// The bytes that all could write.
    total: usize,
    beside: Beside,
}

/// The same on as many connections as the run has clients.
async fn flood<I>(parts: impl Fn() -> I, reads: bool) -> Flooded
where
    I: Iterator<Item = Vec<u8>> + Send + 'static,
{
    let run = Run::new("floods", SMALL);
    let connections = run.size;
    flood_of(run, connections, parts, reads).await
}

async fn flood_of<I>(run: Run, connections: u64, parts: impl Fn() -> I, reads: bool) -> Flooded
where
    I: Iterator<Item = Vec<u8>> + Send + 'static,
{
    let most = "20000";
    // What was sent is carried out, also after its client has gone.
    let settings = ["--connections-max", most, "--connections-per-address-max", most, "--drain-max", "10m"];
    let edge = Edge::start(&settings).await;
    let healthy = Healthy::of(&edge);
    let all = async {
        let (mut ends, mut most, mut total) = (0, 0, 0);
        let mut left = connections;
        while left > 0 {
            let mut clients = JoinSet::new();
            for _ in 0..left.min(100) {
                clients.spawn(write(opened(&edge).await, parts(), reads));
            }
            left -= left.min(100);
            for (written, ended) in clients.join_all().await {
                ends += u64::from(ended);
                most = most.max(written);
                total += written;
            }
        }
        (ends, most, total)
    };
    let ((ends, most, total), beside) = beside(&run, &edge, &healthy, all).await;
    Flooded { run, ends, most, total, beside }
}

/// Heads of calls whose fields never end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_without_an_end_end_their_connection() {
    let parts = || {
        let first = frame(HEADERS, 0, 1, &head());
        let more = frame(CONTINUATION, 0, 1, &header("x", &[b'a'; 100]).repeat(150));
        std::iter::once(first).chain(std::iter::repeat_n(more, 1_000))
    };
    let Flooded { run, ends, most, beside, .. } = flood(parts, true).await;
    assert_eq!(ends, run.size, "all are ended by the server");
    assert!(most < 12 << 20, "{most} bytes");
    let what =
        format!("{ends} connections with a head of up to 15 MB ended, after at most {} KiB", most >> 10);
    beside.told(&run, &what, run.size / 16);
}

/// Pieces of a head that are empty: they add nothing, and never end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_pieces_of_heads_end_their_connection() {
    let parts = || {
        let first = frame(HEADERS, 0, 1, &head());
        std::iter::once(first).chain(std::iter::repeat_n(frame(CONTINUATION, 0, 1, &[]).repeat(100), 1_000))
    };
    let Flooded { run, ends, most, beside, .. } = flood(parts, true).await;
    assert_eq!(ends, run.size, "all are ended by the server");
    let what =
        format!("{ends} connections with empty pieces of heads ended, after at most {} KiB", most >> 10);
    beside.told(&run, &what, run.size / 16);
}

/// Whole heads, each larger than any may be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_that_are_too_large_are_refused() {
    let parts = || {
        (0..50_u32).map(|number| {
            let fields = [head(), header("x", &[b'a'; 100]).repeat(120)].concat();
            frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &fields)
        })
    };
    let Flooded { run, ends, most, beside, .. } = flood(parts, true).await;
    let what = format!(
        "{} connections with 50 heads of 12 KiB, {ends} of them ended, at most {} KiB read",
        run.size,
        most >> 10
    );
    beside.told(&run, &what, run.size / 16);
}

/// Calls that their client takes back at once: they have their turns, as all others have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_taken_back_hold_up_nobody() {
    let pair = |stream| {
        let taken_back = frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
        [frame(HEADERS, END_HEADERS, stream, &head()), taken_back].concat()
    };
    let bytes = pair(1).len();
    let parts = move || {
        (0..100_u32).map(move |part| (0..20).flat_map(|number| pair(40 * part + 2 * number + 1)).collect())
    };
    let run = Run::new("floods", SMALL);
    let connections = (run.size / 10).min(1_000);
    let Flooded { run, total, beside, .. } = flood_of(run, connections, parts, true).await;
    assert_eq!(total / bytes, 2_000 * connections as usize, "all are sent");
    let what = format!("{} calls sent and taken back at once, on {connections} connections", total / bytes);
    beside.told(&run, &what, connections / 16);
}

/// Frames that want an answer, which nobody reads; and such as carry nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_nobody_reads_the_answers_of_take_no_memory() {
    for (name, one) in
        [("pings", frame(PING, 0, 0, &[7; 8])), ("settings", frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]))]
    {
        let part = one.repeat(500);
        let Flooded { run, ends, most, beside, .. } =
            flood(|| std::iter::repeat_n(part.clone(), 100), false).await;
        let what = format!(
            "{} connections with 50,000 {name} and no ear, {ends} of them ended, at most {} KiB taken",
            run.size,
            most >> 10
        );
        beside.told(&run, &what, run.size / 8);
    }
}

/// A body of frames without a byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_frames_of_a_body_take_no_memory() {
    let parts = || {
        let first = frame(HEADERS, END_HEADERS, 1, &head());
        std::iter::once(first).chain(std::iter::repeat_n(frame(DATA, 0, 1, &[]).repeat(500), 100))
    };
    let Flooded { run, ends, most, beside, .. } = flood(parts, true).await;
    let what = format!(
        "{} calls with 50,000 empty frames, {ends} connections ended, at most {} KiB taken",
        run.size,
        most >> 10
    );
    beside.told(&run, &what, run.size / 8);
    let edge = Edge::start(&[]).await;
    assert!(!ended(&mut opened(&edge).await, Duration::from_millis(100)).await, "one that behaves stays");
}

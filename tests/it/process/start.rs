//! A store that breaks amid the statements of a start: the server tries again until `startup_wait` is over.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use futures_util::stream::{self, StreamExt as _};

use super::{BINARY, Server};
use crate::harness::cutter::{Cutter, Lost};
use crate::harness::postgres as pg;

/// How many starts go on concurrently.
const TOGETHER: usize = 6;
/// The first packet of a connection, its settings, whom it speaks to, the schema, what was acknowledged, the policies.
const PACKETS_MIN: u64 = 10;

/// Starts a server that loses this packet. It serves in any case; the number of packets until then, and whether it was one
/// of them.
async fn started(number: u64, lost: Lost) -> (u64, bool) {
    let database = pg::database().await;
    let url = pg::shared().url(&database);
    let port = pg::shared().port;
    let cutter = Cutter::before(SocketAddr::from(([127, 0, 0, 1], port)), number, lost).await;
    let behind = url.replace(&format!(":{port}/"), &format!(":{}/", cutter.address.port()));
    let settings = ["--startup-wait", "60s", "--observe-listen", "off"];
    let server = Server::with(Command::new(BINARY), &behind, &settings, Stdio::null()).await;
    let seen = (cutter.sent(), cutter.has_cut());
    drop(server);
    seen
}

async fn each_packet(lost: Lost) {
    let (packets, _) = started(u64::MAX, lost).await;
    assert!(packets >= PACKETS_MIN, "{packets} packets until a server serves");
    let starts = (1..=packets).map(|number| async move { (number, started(number, lost).await.1) });
    let cuts: Vec<(u64, bool)> = stream::iter(starts).buffer_unordered(TOGETHER).collect().await;
    let missed = cuts.iter().filter(|(number, cut)| *number <= PACKETS_MIN && !cut);
    assert_eq!(missed.count(), 0, "{cuts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_goes_on_whichever_of_its_statements_is_lost() {
    each_packet(Lost::Statement).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_goes_on_whichever_of_its_answers_is_lost() {
    each_packet(Lost::Answer).await;
}

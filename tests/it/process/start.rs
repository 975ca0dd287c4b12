//! A store that breaks amid the statements of a start: the server tries again until `startup_wait` is over.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use futures_util::future::join_all;

use super::{BINARY, Server};
use crate::harness::cutter::{Cutter, Lost};
use crate::harness::postgres as pg;
use crate::harness::server::migrate_postgres;

/// More packets than a start sends before it serves.
const PACKETS_MAX: u64 = 60;
/// How many starts go on concurrently.
const TOGETHER: u64 = 6;

/// Whether this packet was sent before the server served. It serves in any case.
async fn cut_at(number: u64, lost: Lost) -> bool {
    let database = pg::database().await;
    let url = pg::shared().url(&database);
    migrate_postgres(&url).await;
    let port = pg::shared().port;
    let cutter = Cutter::before(SocketAddr::from(([127, 0, 0, 1], port)), number, lost).await;
    let behind = url.replace(&format!(":{port}/"), &format!(":{}/", cutter.address.port()));
    let settings = ["--startup-wait", "60s", "--observe-listen", "off"];
    let server = Server::with(Command::new(BINARY), &behind, &settings, Stdio::null()).await;
    let cut = cutter.has_cut();
    drop(server);
    cut
}

async fn each_packet(lost: Lost) {
    for first in (1..PACKETS_MAX).step_by(TOGETHER as usize) {
        let cuts: Vec<bool> = join_all((first..first + TOGETHER).map(|number| cut_at(number, lost))).await;
        assert!(first > 12 || cuts.iter().all(|cut| *cut), "a start sends more than {first} packets");
        if !cuts.contains(&true) {
            return;
        }
    }
    panic!("a start sends more than {PACKETS_MAX} packets: the rest was not tried");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_goes_on_whichever_of_its_statements_is_lost() {
    each_packet(Lost::Statement).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_goes_on_whichever_of_its_answers_is_lost() {
    each_packet(Lost::Answer).await;
}

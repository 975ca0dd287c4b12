//! `entries list` of rows that cannot be read: the limit counts them, and a reader that has gone ends the list.

use std::process::{Command, Stdio};

use idempotency_ledger::proto;

use super::{BINARY, NO_CONFIG, ask, take};
use crate::harness::details::claim;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(a_list_counts_unreadable_rows_against_its_limit);

/// More than two pages of the command line.
const ROWS: usize = 1_100;

async fn a_list_counts_unreadable_rows_against_its_limit(kind: Kind) {
    let server = TestServer::start(kind).await;
    for number in 0..8 {
        take(&server, &format!("m{number}")).await;
    }
    server.at.execute("UPDATE @entries SET closed_by = 99 WHERE id <> 'm3'").await;
    let list = ["entries", "list", "--consumer", "c", "--limit"];
    for (limit, lines, more) in
        [("1", 1, true), ("3", 3, true), ("7", 7, true), ("9", 8, false), ("0", 8, false)]
    {
        let ran = ask(&server, &[&list[..], &[limit]].concat()).await;
        let shown = ran.out.lines().filter(|line| !line.starts_with("STATE")).count();
        assert_eq!((ran.code, shown), (0, lines), "--limit {limit}: {ran:?}");
        assert_eq!(ran.err.contains("more: raise --limit"), more, "--limit {limit}: {ran:?}");
        let json = ask(&server, &[&list[..], &[limit, "--json"]].concat()).await;
        assert_eq!(json.json().len(), lines, "--limit {limit}: {json:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_unreadable_rows_ends_with_its_reader() {
    let server = TestServer::start(Kind::Sqlite).await;
    for part in (0..ROWS).collect::<Vec<_>>().chunks(500) {
        let requests = part.iter().map(|number| claim("c", &number.to_string())).collect();
        server.client.clone().batch_claim(proto::BatchClaimRequest { requests }).await.unwrap();
    }
    server.at.execute("UPDATE @entries SET closed_by = 99").await;
    // The second page is cut at the limit.
    let limited = ask(&server, &["entries", "list", "--consumer", "c", "--limit", "600"]).await;
    assert_eq!((limited.code, limited.out.lines().count()), (0, 600));
    let address = server.address().to_string();
    let ended = tokio::task::spawn_blocking(move || {
        let mut command = Command::new("bash");
        // The reader has gone before the command begins.
        let line = "trap '' PIPE; exec > >(exec true); sleep 0.05; exec \"$@\"";
        command.args(["-c", line, "bash", BINARY, "entries", "list", "--consumer", "c", "--limit", "0"]);
        command.args(["--endpoint", &address]).env("XDG_CONFIG_HOME", NO_CONFIG).stdin(Stdio::null());
        command.output().unwrap()
    });
    let output = ended.await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let calls = "grpc_server_started_total{grpc_method=\"ListEntries\",\
                 grpc_service=\"idempotency.ledger.v1.AdminService\",grpc_type=\"unary\"}";
    assert_eq!(server.metric(calls), Some(2.0 + 1.0), "one page, and no more");
    server.stop().await;
}

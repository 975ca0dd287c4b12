//! `entries list` of rows that cannot be read: the limit counts them, and a reader that has gone ends the list.

use std::process::{Command, Stdio};

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto;

use super::{BINARY, NO_CONFIG, ask, no_terminals, on_a_terminal, park, take};
use crate::harness::details::claim;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};
use crate::inbox::{server as with_inbox, stored};

on_both_stores!(
    a_list_counts_unreadable_rows_against_its_limit,
    an_unreadable_entry_is_refused_by_its_hash_and_deleted_by_it,
    next_names_messages_that_cannot_be_read,
);

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

async fn an_unreadable_entry_is_refused_by_its_hash_and_deleted_by_it(kind: Kind) {
    let server = TestServer::start(kind).await;
    for id in ["1", "2"] {
        park(&server, id, "x").await;
    }
    server.at.execute("UPDATE @entries SET closed_by = 99 WHERE id = '2'").await;
    let listed = ask(&server, &["entries", "list", "--consumer", "c", "--json"]).await.json();
    let hash = listed.iter().find_map(|line| line["unreadable"]["keyHash"].as_str()).unwrap().to_owned();
    let many = ["entries", "redrive", "--consumer", "c", "--state", "PARKED", "--reason", "r"];
    let refused = format!("refused: key hash {hash}: ENTRY_UNREADABLE: ");
    ask(&server, &[&many[..], &["--dry-run"]].concat())
        .await
        .says(6, &[&refused, "dry run: 1 would be redriven, 1 refused"]);
    if !no_terminals() {
        let line = format!("{BINARY} {} --endpoint {}", many.join(" "), server.address());
        on_a_terminal(line, "n\n").await.says(2, &["Redrive 1 entry of c (1 more would be refused), "]);
    }
    ask(&server, &[&many[..], &["--yes"]].concat()).await.says(6, &[&refused, "1 redriven, 1 refused"]);

    ask(&server, &["entries", "get", "c", "tests", "1"]).await.says(0, &["RECEIVED"]);
    // A younger entry cannot be deleted.
    server.advance(Span::from_secs(61)).await;
    let delete = ["entries", "delete", "--hash", &hash, "--force", "--reason", "damaged"];
    ask(&server, &delete).await.says(2, &["not confirmed"]);
    let sure = [&delete[..], &["--yes", "--request-id", "d1"]].concat();
    let gone = format!("the entry with key hash {hash} is gone now");
    ask(&server, &sure).await.is(0, &format!("{gone}\n"));
    ask(&server, &sure)
        .await
        .is(0, &format!("{gone} (it had been done before; this repeat changed nothing)\n"));
    assert_eq!(ask(&server, &[&sure[..], &["--json"]].concat()).await.json()[0]["replayed"], true);
    ask(&server, &[&delete[..], &["--yes"]].concat()).await.says(3, &["ENTRY_NOT_FOUND"]);
    server.stop().await;
}

async fn next_names_messages_that_cannot_be_read(kind: Kind) {
    let mut server = with_inbox(kind).await;
    for id in ["1", "2"] {
        stored(&mut server, id).await;
    }
    server.at.execute("UPDATE @entries SET closed_by = 99 WHERE id = '2'").await;
    ask(&server, &["entries", "next", "c"])
        .await
        .says(0, &["cannot be read: key hash ", "1 entry cannot be read, and ClaimNext passes over them"]);
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

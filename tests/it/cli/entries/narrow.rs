//! A list of two pages on a terminal.

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto;

use crate::cli::{BINARY, no_terminals, on_a_terminal, take};
use crate::harness::details::key;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(a_list_says_once_that_a_later_page_is_shortened);

/// The number of entries of a page.
const PAGE: usize = 500;
const NOTE: &str = "shortened to the terminal's width; --wide shows all";

async fn a_list_says_once_that_a_later_page_is_shortened(kind: Kind) {
    if no_terminals() {
        return;
    }
    let server = TestServer::start(kind).await;
    let first = |id: usize| proto::ImportedEntry { key: key("c", &id.to_string()), ..Default::default() };
    let request = proto::ImportEntriesRequest {
        operation_id: "before".into(),
        reason: "adoption".into(),
        entries: (0..PAGE).map(first).collect(),
    };
    let stored = server.admin.clone().import_entries(futures_util::stream::iter([request])).await;
    let mut stored = stored.unwrap().into_inner();
    while stored.message().await.unwrap().is_some() {}
    // The oldest entries are listed first.
    server.advance(Span::from_secs(1)).await;
    take(&server, &"9".repeat(200)).await;
    let list = format!("{BINARY} entries list --consumer c --limit 0 --endpoint {}", server.address());
    let listed = on_a_terminal(format!("stty rows 24 cols 160; {list}"), "").await.says(0, &[NOTE]);
    let rows: Vec<&str> = listed.out.lines().filter(|line| line.contains("  tests  ")).collect();
    let (last, page) = rows.split_last().unwrap();
    assert_eq!(page.len(), PAGE, "{listed:?}");
    assert!(last.contains('…') && page.iter().all(|row| !row.contains('…')), "{listed:?}");
    assert_eq!(listed.out.matches(NOTE).count(), 1, "{listed:?}");
    server.stop().await;
}

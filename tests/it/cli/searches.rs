//! Searches that no index helps.

use idempotency_ledger::proto;

use super::ask;
use crate::harness::details::key;
use crate::harness::server::{Kind, TestServer};

/// A search that would read all entries ends early, and reports it: "no entry matches" would be a guess.
#[tokio::test]
async fn a_search_that_finds_little_ends_and_names_the_filter_that_goes_on() {
    let server = TestServer::start(Kind::Sqlite).await;
    let part = |at: usize| proto::ImportEntriesRequest {
        operation_id: "before".into(),
        reason: "adoption".into(),
        entries: (at * 1_000..(at + 1) * 1_000)
            .map(|id| proto::ImportedEntry { key: key("c", &id.to_string()), ..Default::default() })
            .collect(),
    };
    let parts: Vec<_> = (0..11).map(part).collect();
    let stored = server.admin.clone().import_entries(futures_util::stream::iter(parts)).await;
    let mut stored = stored.unwrap().into_inner();
    while stored.message().await.unwrap().is_some() {}
    let search = ["entries", "list", "--consumer", "c", "--id-prefix", "no such"];
    for (flags, exit, text) in [
        (&[][..], 6, "error: entries that were created after "),
        (&["--newest-first"], 6, "error: entries that were created before "),
        (&["--limit", "0"], 0, "no entry matches"),
        (&["--state", "PARKED"], 0, "no entry matches"),
    ] {
        let ran = ask(&server, &[&search[..], flags].concat()).await.is(exit, "");
        assert!(ran.err.starts_with(text), "{flags:?}: {ran:?}");
        let next = ran.err.contains("  next: go on there with --");
        assert_eq!(next, exit == 6, "{flags:?}: {ran:?}");
    }
    server.stop().await;
}

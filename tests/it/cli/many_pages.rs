//! Commands that read several pages for one answer, and list no rows: each page counts, up to the number of pages that the command
//! reads. The catalogue: the files of `src/cli` that follow page tokens.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto;

use super::any_order::ask_at;
use crate::any_order::small_pages::SmallPages;
use crate::harness::details::{acquired, claim, key};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};
use crate::inbox::{handed, next, server as with_inbox, stored};

on_both_stores!(answers_come_from_all_pages);

/// Files of commands that list; `any_order` reads their lists to the end.
const LISTS: [&str; 5] = ["audit.rs", "entries/list.rs", "entries/summary.rs", "policy/show.rs", "replay.rs"];
/// Handlers of the consumer `slow`: the first one took 50 seconds, each later one a second less.
const COMPLETED: i64 = 12;
const SLOWEST: i64 = 50;
/// Messages of the consumer `c`, one a second. The first one fails, and is due after this one.
const MESSAGES: usize = 45;
const DUE_AFTER: usize = 20;

/// How often a command is run again that read fewer pages: for the names of a shell it waits for two seconds, which a busy machine
/// may exceed.
const BUSY_MAX: usize = 20;

/// A command, the paged RPC that it calls, the most rows of a page, the number of pages that it reads, and how it ends.
struct Reads {
    file: &'static str,
    words: &'static [&'static str],
    rpc: &'static str,
    size: i32,
    pages: usize,
    code: i32,
    says: String,
}

fn lines(names: impl IntoIterator<Item = String>) -> String {
    names.into_iter().map(|name| name + "\n").collect()
}

/// The ids in the order in which they are due.
fn due() -> impl Iterator<Item = String> {
    let rest = (1..MESSAGES).map(|id| id.to_string());
    let (before, after) = (rest.clone().take(DUE_AFTER), rest.skip(DUE_AFTER));
    before.chain(["0".to_owned()]).chain(after)
}

fn table() -> Vec<Reads> {
    let names =
        || ["c".to_owned()].into_iter().chain((1..=8).map(|name| format!("n{name}"))).chain(["slow".into()]);
    let of = |file, words, rpc, size, pages, code, says| Reads { file, words, rpc, size, pages, code, says };
    let complete: &[&str] = &["complete-consumers"];
    let lint: &[&str] = &["policy", "lint", "--consumer", "slow"];
    let next: &[&str] = &["entries", "next", "c", "--json", "--limit", "45"];
    let took = |entries: i64| {
        format!(
            "the newest {entries} completed entries took {0}s (99th percentile), at most {0}s",
            SLOWEST - COMPLETED + entries
        )
    };
    vec![
        of("completions.rs", complete, "SummarizeEntries", 3, 4, 0, lines(names())),
        // A shell does not wait: it has the names of five pages.
        of("completions.rs", complete, "SummarizeEntries", 1, 5, 0, lines(names().take(5))),
        // One more page shows that the consumer has entries.
        of("policy/observed.rs", lint, "ListEntries", 5, 1 + 3, 0, took(COMPLETED)),
        // The sample is of the newest entries, from ten pages.
        of("policy/observed.rs", lint, "ListEntries", 1, 1 + 10, 0, took(10)),
        of("entries/next.rs", next, "ListEntries", 7, 7, 0, lines(due())),
        // After 40 pages it reports that a message may be due earlier.
        of("entries/next.rs", next, "ListEntries", 1, 40, 6, "one of them may be due earlier".into()),
    ]
}

/// A server with entries of ten consumers.
async fn filled(kind: Kind) -> TestServer {
    let mut server = with_inbox(kind).await;
    for name in [5, 1, 8, 3, 7, 2, 6, 4] {
        server.client.claim(claim(&format!("n{name}"), "1")).await.unwrap();
    }
    for number in 0..COMPLETED {
        let id = (number * 5 % COMPLETED).to_string();
        let claimed = server.client.claim(claim("slow", &id)).await.unwrap().into_inner();
        server.advance(Span::from_secs(SLOWEST - number)).await;
        let token = acquired(&claimed).token;
        let request = proto::CompleteRequest { key: key("slow", &id), token, ..Default::default() };
        server.client.complete(request).await.unwrap();
    }
    for id in 0..MESSAGES {
        stored(&mut server, &id.to_string()).await;
        if id == 0 {
            fail_first(&mut server).await;
        }
        server.advance(Span::from_secs(1)).await;
    }
    server
}

async fn fail_first(server: &mut TestServer) {
    let (id, token) = handed(server, next(1)).await.remove(0);
    let seconds = i64::try_from(DUE_AFTER).unwrap();
    let retry_after = Some(prost_types::Duration { seconds, nanos: 500_000_000 });
    let fails = proto::FailRequest {
        key: key("c", &id),
        token,
        error: "answered 502".into(),
        retry_after,
        ..Default::default()
    };
    server.client.fail(fails).await.unwrap();
}

async fn answers_come_from_all_pages(kind: Kind) {
    let server = filled(kind).await;
    for Reads { file, words, rpc, size, pages, code, says } in table() {
        let at = SmallPages::before(&server, size).await;
        let (mut ran, mut calls) = (ask_at(at.address, words).await, at.take_calls(rpc));
        for _ in 0..BUSY_MAX {
            if calls >= pages {
                break;
            }
            (ran, calls) = (ask_at(at.address, words).await, at.take_calls(rpc));
        }
        let what = format!("{file}, {words:?} on pages of {size}");
        assert_eq!(calls, pages, "{what}: {ran:?}");
        if words.contains(&"--json") && code == 0 {
            let ids = ran
                .json()
                .iter()
                .map(|row| row["key"]["id"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>();
            assert_eq!(lines(ids), says, "{what}");
        } else if says.ends_with('\n') {
            assert_eq!((ran.code, ran.out.as_str()), (code, says.as_str()), "{what}: {ran:?}");
        } else {
            ran.says(code, &[&says]);
        }
    }
    server.stop().await;
}

/// The files below a folder that follow page tokens.
fn following(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let inner = path.file_name().unwrap().to_str().unwrap();
            found.extend(following(&path).into_iter().map(|name| format!("{inner}/{name}")));
        } else {
            let text = fs::read_to_string(&path).unwrap();
            if text.contains("page_size") && text.contains("next_page_token") {
                found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found
}

#[test]
fn every_file_that_follows_page_tokens_has_a_row() {
    let rows = table();
    let known: BTreeSet<String> =
        LISTS.into_iter().chain(rows.iter().map(|row| row.file)).map(str::to_owned).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli");
    assert_eq!(following(&folder).into_iter().collect::<BTreeSet<_>>(), known);
}

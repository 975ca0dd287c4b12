//! Commands that list, over more than two pages of rows that were not made in order; and files that commands read, in any order.
//! The catalogues: the manual pages of the program, and the paged RPCs of `tests/it/cursors.rs`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;

use idempotency_ledger::proto;
use serde_json::Value;

use super::context_file::Home;
use super::{Ran, alone, ask, command, ended};
use crate::any_order::filled::{CONSUMER, Groups, Made, NAMES, are_in_order, filled};
use crate::any_order::orders::each_counts_in_any_order;
use crate::any_order::small_pages::SmallPages;
use crate::cursors;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(lists_show_all_pages_in_order);

/// The last words of commands that list.
const LISTING: [&str; 4] = ["list", "history", "holds", "summary"];

/// A command that lists.
struct Lists {
    words: &'static [&'static str],
    /// The paged RPC that it calls. `None` if the server answers it without pages.
    rpc: Option<&'static str>,
    /// Whether it has a limit.
    limited: bool,
    /// The names of the rows in one document of its output.
    names: fn(&Value) -> Vec<String>,
    expected: Groups,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn entry(row: &Value) -> Vec<String> {
    vec![text(&row["key"]["id"])]
}

fn event(row: &Value) -> Vec<String> {
    vec![format!("{} {}", text(&row["consumer"]), text(&row["requestId"]))]
}

fn summaries(whole: &Value) -> Vec<String> {
    let rows = whole["consumers"].as_array().unwrap();
    rows.iter().map(|row| format!("{} {}", text(&row["consumer"]), text(&row["replayRun"]))).collect()
}

fn lists(made: &Made) -> Vec<Lists> {
    let of = |words, rpc, limited, names, expected| Lists { words, rpc, limited, names, expected };
    let newest: Groups = made.entries("").into_iter().rev().collect();
    let (entries, audit) = (Some("ListEntries"), Some("ListAuditEvents"));
    vec![
        of(&["entries", "list", "--consumer", CONSUMER], entries, true, entry, made.entries("")),
        of(&["entries", "list", "--consumer", CONSUMER, "--newest-first"], entries, true, entry, newest),
        of(
            &["entries", "list", "--consumer", CONSUMER, "--id-prefix", "a"],
            entries,
            true,
            entry,
            made.entries("a"),
        ),
        of(&["entries", "summary"], Some("SummarizeEntries"), false, summaries, made.counted()),
        of(&["audit", "list"], audit, true, event, made.events("")),
        of(&["audit", "list", "--consumer", CONSUMER], audit, true, event, made.events(CONSUMER)),
        of(
            &["policy", "list"],
            Some("ListPolicies"),
            false,
            |row| vec![text(&row["consumer"])],
            made.names(),
        ),
        of(
            &["policy", "history", CONSUMER],
            Some("ListPolicyVersions"),
            true,
            |row| vec![row["version"].to_string()],
            made.versions(),
        ),
        of(&["policy", "holds"], None, false, |row| vec![text(&row["prefix"])], made.holds()),
        of(
            &["replay", "list", CONSUMER],
            Some("ListReplayRuns"),
            false,
            |row| vec![text(&row["replayRun"])],
            made.names(),
        ),
    ]
}

/// Runs a command against the server at this address.
pub(super) async fn ask_at(address: SocketAddr, words: &[&str]) -> Ran {
    let mut command = command(words);
    command.args(["--endpoint", &address.to_string()]);
    tokio::task::spawn_blocking(move || ended(command.output().unwrap())).await.unwrap()
}

impl Lists {
    /// With this limit, 0 for all, where it has one.
    async fn run(&self, at: &SmallPages, limit: usize) -> Vec<String> {
        let ran = self.ran(at, limit, &["--json"]).await;
        ran.json().iter().flat_map(self.names).collect()
    }

    async fn ran(&self, at: &SmallPages, limit: usize, flags: &[&str]) -> Ran {
        let limit = limit.to_string();
        let limits: &[&str] = if self.limited { &["--limit", &limit] } else { &[] };
        let ran = ask_at(at.address, &[self.words, limits, flags].concat()).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        ran
    }
}

/// Each list is read to its end, and shows each row once and in its order.
async fn lists_show_all_pages_in_order(kind: Kind) {
    let (server, made) = filled(kind).await;
    let lists = lists(&made);
    let called: BTreeSet<&str> = lists.iter().filter_map(|list| list.rpc).collect();
    let known: BTreeSet<&str> = cursors::paged().into_iter().map(|(rpc, ..)| rpc).collect();
    assert_eq!(called, known, "a command for each RPC with pages");
    for list in &lists {
        // An even number of rows ends with a full page.
        for size in [1, 2] {
            let at = SmallPages::before(&server, size).await;
            let found = list.run(&at, 0).await;
            are_in_order(&found, &list.expected, &format!("{:?} on pages of {size}", list.words));
            if let Some(rpc) = list.rpc.filter(|_| size == 1) {
                assert!(at.take_calls(rpc) > 2, "{:?}: more than two pages", list.words);
            }
        }
    }
    server.stop().await;
}

/// A limit ends a list after its first rows, wherever pages end, and the command reports that there is more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_shows_first_rows_wherever_pages_end() {
    let (server, made) = filled(Kind::Sqlite).await;
    for list in lists(&made).iter().filter(|list| list.limited) {
        let at = SmallPages::before(&server, 2).await;
        let all = list.run(&at, 0).await;
        for limit in [1, 2, 3, all.len() - 1, all.len()] {
            assert_eq!(list.run(&at, limit).await, all[..limit], "{:?} --limit {limit}", list.words);
        }
        for limit in [all.len() - 1, all.len()] {
            let ran = list.ran(&at, limit, &[]).await;
            assert_eq!(ran.err.contains("raise --limit"), limit < all.len(), "{:?}: {ran:?}", list.words);
        }
    }
    let lint =
        ask_at(SmallPages::before(&server, 2).await.address, &["policy", "lint", "--json"]).await.json();
    assert_eq!(lint[0]["policies"], NAMES.len(), "it looks at the policies of all pages");
    server.stop().await;
}

/// Every command that lists has a row here; `context list` reads a file, and is in the test of files.
#[test]
fn every_command_that_lists_has_a_row() {
    let folder = tempfile::tempdir().unwrap();
    alone(&["manual", folder.path().to_str().unwrap()]).says(0, &[]);
    let pages = fs::read_dir(folder.path()).unwrap().map(|page| page.unwrap().file_name());
    let pages: Vec<String> = pages.map(|page| page.into_string().unwrap()).collect();
    let named =
        |page: &String| Some(page.strip_prefix("idempotency-ledger-")?.strip_suffix(".1")?.to_owned());
    let is_list = |name: &String| LISTING.iter().any(|word| name.ends_with(&format!("-{word}")));
    let known: BTreeSet<String> = pages.iter().filter_map(named).filter(is_list).collect();
    let none = Made::default();
    let rows = lists(&none).iter().map(|list| list.words[..2].join("-")).collect::<BTreeSet<_>>();
    assert_eq!(rows.into_iter().chain(["context-list".into()]).collect::<BTreeSet<_>>(), known);
}

/// A file of policies, for which `lint` warns of each consumer by its own number.
fn policies(lines: &[String]) -> String {
    lines.iter().fold("consumers:\n".to_owned(), |mut text, line| {
        writeln!(text, "  {line}").unwrap();
        text
    })
}

#[test]
fn file_of_policies_and_file_of_contexts_mean_the_same_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policies.yaml");
    let lines: Vec<String> = (0..60)
        .map(|number| {
            format!("c{}: {{retention: {}h, max_redelivery_window: 90d}}", number * 7 % 60, number + 1)
        })
        .collect();
    each_counts_in_any_order("the file of policies", &lines, |lines| {
        fs::write(&file, policies(lines)).unwrap();
        let lint = ["policy", "lint", "--offline", "--file", file.to_str().unwrap(), "--json"];
        alone(&lint).json()
    });
    let sections: Vec<String> = (0..40)
        .map(|number| format!("[contexts.c{}]\nendpoint = \"127.0.0.1:{}\"\n", number * 7 % 40, number + 1))
        .collect();
    each_counts_in_any_order("the file of contexts", &sections, |sections| {
        let listed = Home::with_file(&sections.concat()).run(&["context", "list", "--json"]);
        listed.json()
    });
}

/// What a file sets does not depend on its order: applied in another order it changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applied_policies_are_those_of_the_file_in_any_order() {
    let server = TestServer::start(Kind::Sqlite).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policies.yaml");
    let apply = ["policy", "apply", "--file", file.to_str().unwrap(), "--reason", "any order", "--yes"];
    let mut lines: Vec<String> =
        (0..20).map(|number| format!("c{}: {{max_attempts: {}}}", number * 7 % 20, number + 11)).collect();
    fs::write(&file, policies(&lines)).unwrap();
    ask(&server, &apply).await.is(0, "20 policies changed\n");
    lines.reverse();
    fs::write(&file, policies(&lines)).unwrap();
    ask(&server, &apply).await.is(0, "nothing to change\n");
    for number in 0..20 {
        let request = proto::GetPolicyRequest { consumer: format!("c{}", number * 7 % 20) };
        let found = server.admin.clone().get_policy(request).await.unwrap().into_inner().policy.unwrap();
        assert_eq!(found.policy.unwrap().max_attempts, Some(number + 11), "{}", found.consumer);
    }
    server.stop().await;
}

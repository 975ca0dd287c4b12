//! Every paged RPC, over names that were not made in their order. The catalogue is that of `tests/it/cursors.rs`: each RPC
//! whose request has a `page_token`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::filled::{CONSUMER, Groups, Made, are_in_order, filled};
use crate::cursors;
use crate::harness::dynamic::Rpc;
use crate::harness::on_both_stores;
use crate::harness::raw::channel;
use crate::harness::server::Kind;

on_both_stores!(pages_show_each_row_once_and_in_order);

/// The largest size of a page here: each list has more than two pages of it.
const SIZE_MAX: usize = 3;

/// A request of a paged RPC, and what it must show.
struct Listing {
    rpc: &'static str,
    asked: Value,
    /// The field of the answer with its rows.
    rows: &'static str,
    /// The name of a row.
    name: fn(&Value) -> String,
    expected: Groups,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn listings(made: &Made) -> Vec<Listing> {
    let entries = |filter: Value, order: &str, expected: Groups| Listing {
        rpc: "ListEntries",
        asked: json!({ "filter": filter, "order": order }),
        rows: "entries",
        name: |row| text(&row["key"]["id"]),
        expected,
    };
    let events = |asked: Value, expected: Groups| Listing {
        rpc: "ListAuditEvents",
        asked,
        rows: "events",
        name: |row| format!("{} {}", text(&row["consumer"]), text(&row["requestId"])),
        expected,
    };
    let mine = json!({ "consumer": CONSUMER });
    let newest: Groups = made.entries("").into_iter().rev().collect();
    vec![
        entries(mine.clone(), "ENTRY_ORDER_OLDEST_FIRST", made.entries("")),
        entries(mine.clone(), "ENTRY_ORDER_NEWEST_FIRST", newest.clone()),
        entries(
            json!({ "consumer": CONSUMER, "states": ["ENTRY_STATE_IN_PROGRESS", "ENTRY_STATE_PARKED"] }),
            "ENTRY_ORDER_NEWEST_FIRST",
            newest,
        ),
        entries(
            json!({ "consumer": CONSUMER, "idPrefix": "" , "source": "tests" }),
            "ENTRY_ORDER_UNSPECIFIED",
            made.entries(""),
        ),
        events(json!({}), made.events("")),
        events(mine.clone(), made.events(CONSUMER)),
        Listing {
            rpc: "SummarizeEntries",
            asked: json!({}),
            rows: "consumers",
            name: |row| format!("{} {}", text(&row["consumer"]), text(&row["replayRun"])),
            expected: made.counted(),
        },
        Listing {
            rpc: "ListPolicies",
            asked: json!({}),
            rows: "policies",
            name: |row| text(&row["consumer"]),
            expected: made.names(),
        },
        Listing {
            rpc: "ListPolicyVersions",
            asked: mine.clone(),
            rows: "versions",
            name: |row| row["version"].to_string(),
            expected: made.versions(),
        },
        Listing {
            rpc: "ListReplayRuns",
            asked: mine,
            rows: "runs",
            name: |row| text(&row["replayRun"]),
            expected: made.names(),
        },
    ]
}

async fn pages_show_each_row_once_and_in_order(kind: Kind) {
    let (server, made) = filled(kind).await;
    let channel = channel(&server).await;
    let listings = listings(&made);
    let covered: BTreeSet<&str> = listings.iter().map(|listing| listing.rpc).collect();
    let known: BTreeSet<&str> = cursors::paged().into_iter().map(|(rpc, ..)| rpc).collect();
    assert_eq!(covered, known, "each RPC with pages has a row");
    let rpcs = Rpc::with_field(&["page_token"]);
    for Listing { rpc, asked, rows, name, expected } in &listings {
        let called = rpcs.iter().find(|one| one.name() == *rpc).unwrap();
        for size in 1..=SIZE_MAX {
            let what = format!("{rpc} {asked} on pages of {size}");
            let (mut found, mut pages, mut asked) = (Vec::new(), 0, asked.clone());
            loop {
                asked["pageSize"] = size.into();
                let mut answers = called.call(&channel, None, &called.request(&asked)).await.unwrap();
                let page = serde_json::to_value(answers.remove(0)).unwrap();
                let shown = page[*rows].as_array().map_or(&[][..], Vec::as_slice);
                assert!(shown.len() <= size, "{what}: {} rows", shown.len());
                found.extend(shown.iter().map(name));
                pages += 1;
                asked["pageToken"] = page["nextPageToken"].clone();
                if asked["pageToken"].is_null() {
                    break;
                }
                assert!(pages < 100, "{what}: it does not end");
            }
            assert!(pages > 2, "{what}: {pages} pages");
            are_in_order(&found, expected, &what);
        }
    }
    server.stop().await;
}

//! Parking and resolving many, by the command line.

use std::process::Stdio;

use idempotency_ledger::proto::EntryState;

use super::{ask, command, in_doubt, park, state, take};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(
    many_entries_are_parked,
    many_entries_are_resolved,
    bulk_change_that_breaks_off_names_the_command_that_goes_on,
);

async fn many_entries_are_parked(kind: Kind) {
    let server = TestServer::start(kind).await;
    for id in ["1", "2", "3"] {
        take(&server, id).await;
    }
    let many =
        ["entries", "park", "--consumer", "c", "--state", "IN_PROGRESS", "--reason", "provider is away"];
    ask(&server, &many).await.says(2, &["not confirmed", "--yes"]);
    let dry = ask(&server, &[&many[..], &["--dry-run"]].concat()).await;
    dry.is(0, "dry run: 3 would be parked, 0 refused\n");
    assert_eq!(state(&server, "1").await, EntryState::InProgress);
    let some = ask(&server, &[&many[..], &["--yes", "--max", "2", "--operation-id", "o1"]].concat()).await;
    let some = some.is(6, "2 parked, 0 refused\n");
    assert_eq!(
        some.err,
        "operation id: o1\n--max 2 is reached; there may be more: start another operation\n"
    );
    let reports = ask(&server, &[&many[..], &["--yes", "--json"]].concat()).await.json();
    assert_eq!(
        (&reports[0]["outcomes"][0]["changed"], &reports.last().unwrap()["finished"]),
        (&true.into(), &true.into())
    );
    assert_eq!(state(&server, "1").await, EntryState::Parked);
    // What cannot be parked is refused as a whole, and a single entry is named as before.
    let parked = ["entries", "park", "--consumer", "c", "--state", "PARKED", "--reason", "r", "--yes"];
    ask(&server, &parked).await.says(1, &["INVALID_FIELD", "filter.states"]);
    ask(&server, &["entries", "park", "--reason", "r"]).await.says(2, &["CONSUMER"]);
    ask(&server, &["entries", "park", "--consumer", "c", "--reason", "r"]).await.says(2, &["--state"]);
    let both = ["entries", "park", "c", "tests", "1", "--state", "RECEIVED", "--reason", "r"];
    ask(&server, &both).await.says(2, &["cannot be used with"]);
    let absent = ["entries", "park", "--consumer", "absent", "--state", "RECEIVED", "--reason", "r", "-y"];
    ask(&server, &absent).await.says(0, &["note: the ledger knows no consumer of this name yet"]);
    server.stop().await;
}

async fn many_entries_are_resolved(kind: Kind) {
    let server = TestServer::start(kind).await;
    park(&server, "1", "x").await;
    in_doubt(&server, "2").await;
    let many = ["entries", "resolve", "--consumer", "c", "--state", "PARKED", "--reason", "reconciled"];
    let received = [&many[..], &["--as", "received"]].concat();
    // A message that is processed again may have its effect twice.
    let dry = ask(&server, &[&received[..], &["--dry-run"]].concat()).await;
    dry.is(0, "dry run: 2 would be resolved, 0 refused; 1 of these may have had its effect\n");
    let completed = [&many[..], &["--as", "completed", "--evidence", "report 4711", "--yes"]].concat();
    let only = [&completed[..], &["--error-contains", "timeout"]].concat();
    ask(&server, &only).await.is(0, "1 resolved, 0 refused\n");
    assert_eq!(state(&server, "2").await, EntryState::Completed);
    assert_eq!(state(&server, "1").await, EntryState::Parked);
    let reports = ask(&server, &[&completed[..], &["--json"]].concat()).await.json();
    assert_eq!(reports[0]["outcomes"][0]["key"]["id"], "1");
    let audit = ["audit", "list", "--action", "RESOLVE_COMPLETED", "--json"];
    let events = ask(&server, &audit).await.json();
    assert!(
        events.len() == 2 && events[0]["afterJson"].as_str().unwrap().contains("report 4711"),
        "{events:?}"
    );
    ask(&server, &many).await.says(2, &["--as"]);
    ask(&server, &[&completed[..], &["--result", "-"]].concat()).await.says(2, &["cannot be used with"]);
    ask(&server, &[&completed[..], &["--force"]].concat()).await.says(2, &["cannot be used with"]);
    let done = [
        "entries",
        "resolve",
        "--consumer",
        "c",
        "--state",
        "COMPLETED",
        "--as",
        "failed",
        "--reason",
        "r",
        "-y",
    ];
    ask(&server, &done).await.says(1, &["INVALID_FIELD", "filter.states", "ResolveEntry"]);
    server.stop().await;
}

async fn bulk_change_that_breaks_off_names_the_command_that_goes_on(kind: Kind) {
    let server = TestServer::start(kind).await;
    for id in 0..20 {
        take(&server, &id.to_string()).await;
    }
    let many = ["entries", "park", "--consumer", "c", "--state", "IN_PROGRESS", "--reason", "away", "--yes"];
    let address = server.address().to_string();
    let child = command(&many)
        .args(["--rate", "1", "--operation-id", "o1", "--json", "--endpoint", &address])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while state(&server, "0").await == EntryState::InProgress {
        tokio::task::yield_now().await;
    }
    // A server that drains ends its streams.
    let at = server.stop().await;
    let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
    let broken = super::ended(output);
    let broken = broken.says(5, &["next: go on where it was broken off: ", "entries park --consumer c"]);
    assert!(broken.err.contains("--operation-id o1"), "{broken:?}");
    let server = TestServer::on(at, Setup::default()).await;
    let flags = ["--rate", "1000", "--operation-id", "o1"];
    let rest = ask(&server, &[&many[..], &flags].concat()).await.says(0, &[" parked, 0 refused; "]);
    assert!(rest.out.ends_with(" by earlier calls of this operation\n"), "{rest:?}");
    let events = ask(&server, &["audit", "list", "--action", "PARK", "--limit", "0", "--json"]).await.json();
    assert_eq!(events.len(), 20, "each of them once");
    server.stop().await;
}

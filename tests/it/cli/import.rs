//! Importing: files in both forms, what is wrong in them, and how to go on.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;

use idempotency_ledger::proto::EntryState;

use super::{alone, ask, ask_with, state, take};
use crate::harness::faulty::{FaultyStore, Inject, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer, TestStore};

on_both_stores!(
    a_csv_file_is_imported,
    json_lines_are_imported_from_standard_input,
    bad_rows_are_skipped_with_their_lines,
    an_entry_that_is_at_work_is_rejected_with_its_line,
    a_large_file_with_keys_twice_goes_through,
    an_import_that_breaks_off_says_where_to_go_on,
    a_quote_that_is_never_closed_swallows_no_row,
    rows_that_are_too_old_are_told,
);

const REASON: [&str; 6] = ["--consumer", "c", "--source", "tests", "--reason", "from the old table"];

async fn a_csv_file_is_imported(kind: Kind) {
    let server = TestServer::start(kind).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("done.csv");
    let text = "id,completed_at,result_base64,fingerprint_hex\n\
                1,2026-05-28T20:00:00Z,aGk=,00ff\n2,1779998400,,\n3,1779998400000,,\n4,2020-01-01T00:00:00Z,,\n";
    fs::write(&file, text).unwrap();
    let import = [&["entries", "import", file.to_str().unwrap()][..], &REASON].concat();
    let dry = ask(&server, &[&import[..], &["--dry-run"]].concat()).await;
    dry.is(0, "dry run: 4 rows would be sent, 0 are bad; nothing was stored\n");
    let done = ask(&server, &[&import[..], &["--operation-id", "i1"]].concat()).await;
    let done = done.is(0, "3 stored, 0 were completed already, 1 too old to keep, 0 rejected, 0 bad rows\n");
    let old = "too old to keep: 1, the first within lines 2 to 5; its retention is over\n";
    assert_eq!(done.err, format!("operation id: i1\n{old}"));
    assert_eq!(state(&server, "3").await, EntryState::Completed);
    let told = ask(&server, &["entries", "get", "c", "tests", "1", "--json"]).await.json().remove(0);
    assert_eq!(told["entry"]["fingerprint"], "AP8=");
    assert_eq!(
        (&told["entry"]["resultBytes"], &told["entry"]["closedAt"]),
        (&2.into(), &"2026-05-28T20:00:00Z".into())
    );
    let again = ask(&server, &[&import[..], &["--json", "--from-line", "3"]].concat()).await.json();
    assert_eq!((&again[0]["rows"], &again[0]["alreadyCompleted"]), (&3.into(), &2.into()));
    server.stop().await;
}

async fn json_lines_are_imported_from_standard_input(kind: Kind) {
    let server = TestServer::start(kind).await;
    let import = [&["entries", "import", "-", "--format", "jsonl"][..], &REASON].concat();
    let text =
        b"{\"id\": \"1\", \"result\": \"hi\"}\n\n{\"consumer\": \"d\", \"source\": \"s\", \"id\": \"1\", \
                 \"completed_at\": 1779998400}\n";
    let done = ask_with(&server, &import, text).await;
    done.is(0, "2 stored, 0 were completed already, 0 too old to keep, 0 rejected, 0 bad rows\n");
    ask(&server, &["entries", "get", "d", "s", "1"]).await.says(0, &["COMPLETED"]);
    ask(&server, &[&["entries", "import", "-"][..], &REASON].concat()).await.says(2, &["--format"]);
    ask_with(&server, &import, b"").await.says(0, &["0 stored"]);
    server.stop().await;
}

async fn bad_rows_are_skipped_with_their_lines(kind: Kind) {
    let server = TestServer::start(kind).await;
    let import = [&["entries", "import", "-", "--format", "csv"][..], &REASON].concat();
    let text = b"id,completed_at\n1,soon\n2,\n,\n3,1779998400,more\n4,\n";
    let done = ask_with(&server, &import, text).await;
    let done = done.is(6, "2 stored, 0 were completed already, 0 too old to keep, 0 rejected, 3 bad rows\n");
    for line in ["line 2: completed_at: \"soon\"", "line 4: id: is missing", "line 5: "] {
        assert!(done.err.contains(line), "{done:?}");
    }
    let dry = [&import[..], &["--dry-run"]].concat();
    ask_with(&server, &dry, text).await.says(6, &["2 rows would be sent, 3 are bad"]);
    ask_with(&server, &import, b"id,colour\n").await.says(1, &["line 1: \"colour\" is not a column"]);
    server.stop().await;
}

async fn an_entry_that_is_at_work_is_rejected_with_its_line(kind: Kind) {
    let server = TestServer::start(kind).await;
    take(&server, "2").await;
    let import = [&["entries", "import", "-", "--format", "csv"][..], &REASON].concat();
    let done = ask_with(&server, &import, b"id\n1\n2\n3\n").await;
    let done = done.is(6, "2 stored, 0 were completed already, 0 too old to keep, 1 rejected, 0 bad rows\n");
    assert!(done.err.contains("line 3: STATE_NOT_ALLOWED: "), "{done:?}");
    assert_eq!(state(&server, "2").await, EntryState::InProgress);
    let refused = [
        &["entries", "import", "-", "--format", "csv", "--consumer", "c", "--source", "tests"][..],
        &["--reason", ""],
    ];
    ask_with(&server, &refused.concat(), b"id\n1\n").await.says(1, &["INVALID_FIELD", "reason"]);
    server.stop().await;
}

async fn a_large_file_with_keys_twice_goes_through(kind: Kind) {
    let server = TestServer::start(kind).await;
    let mut text = "id,result\n".to_owned();
    for at in 0..3_000 {
        writeln!(text, "{},{}", at % 2_000, "x".repeat(600)).unwrap();
    }
    let import = [&["entries", "import", "-", "--format", "csv"][..], &REASON].concat();
    let done = ask_with(&server, &import, text.as_bytes()).await;
    done.is(0, "2000 stored, 1000 were completed already, 0 too old to keep, 0 rejected, 0 bad rows\n");
    server.stop().await;
}

async fn an_import_that_breaks_off_says_where_to_go_on(kind: Kind) {
    let mut at = TestStore::new(kind).await;
    let (plan, inner) = (Arc::new(Plan::default()), Arc::clone(&at.store));
    at.store = Arc::new(FaultyStore { inner: Arc::clone(&inner), plan: Arc::clone(&plan) });
    let server = TestServer::on(at, Setup::default()).await;
    plan.next([Inject::Unavailable; 40]);
    let text: String = "id\n"
        .chars()
        .chain((0..1_200).flat_map(|at| format!("{at}\n").chars().collect::<Vec<_>>()))
        .collect();
    let import =
        [&["entries", "import", "-", "--format", "csv", "--operation-id", "i1"][..], &REASON].concat();
    ask_with(&server, &import, text.as_bytes()).await.says(
        5,
        &[
            "STORE_UNAVAILABLE",
            "next: repeat the same command with --from-line 2 --operation-id i1 (or from the start",
        ],
    );
    let mut at = server.stop().await;
    at.store = inner;
    let server = TestServer::on(at, Setup::default()).await;
    let rest = [&import[..], &["--from-line", "2"]].concat();
    ask_with(&server, &rest, text.as_bytes()).await.says(0, &["1200 stored, "]);
    server.stop().await;
}

async fn a_quote_that_is_never_closed_swallows_no_row(kind: Kind) {
    let server = TestServer::start(kind).await;
    let import = [&["entries", "import", "-", "--format", "csv"][..], &REASON].concat();
    let text = b"id,result\n1,a\n2,\"b\n3,c\n4,d\n";
    let says = ["-: line 3: a quotation mark opens in the record that begins here and is never closed"];
    let dry = ask_with(&server, &[&import[..], &["--dry-run"]].concat(), text).await.says(6, &says);
    assert_eq!(dry.out, "dry run: 1 row would be sent, 0 are bad; nothing was stored\n");
    let done = ask_with(&server, &import, text).await.says(6, &says);
    assert!(done.out.starts_with("1 stored, 0 were completed already"), "{done:?}");
    for (id, code) in [("1", 0), ("2", 3), ("3", 3), ("4", 3)] {
        ask(&server, &["entries", "get", "c", "tests", id]).await.says(code, &[]);
    }
    let told = ask_with(&server, &[&import[..], &["--json"]].concat(), text).await;
    assert_eq!((told.code, &told.json()[0]["complete"]), (6, &false.into()));
    // One that is closed further down makes a row of several lines: told, and no key.
    let done = ask_with(&server, &import, b"id,result\n5,\"a\nb\"\n\"6\n7\",c\n").await;
    done.says(6, &["1 stored", "line 4: id: has a line break", "2 rows go over several lines"]);
    server.stop().await;
}

async fn rows_that_are_too_old_are_told(kind: Kind) {
    let server = TestServer::start(kind).await;
    let import = [&["entries", "import", "-", "--format", "csv"][..], &REASON].concat();
    let text = b"id,completed_at\n1,1779998400\n2,2020-01-01T00:00:00Z\n";
    let done = ask_with(&server, &import, text).await;
    done.says(0, &["1 stored", "1 too old to keep", "too old to keep: 1, the first within lines 2 to 3"]);
    server.stop().await;
}

#[test]
fn what_is_wrong_with_a_file_is_told_before_it_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("done.csv");
    let dry = ["entries", "import", file.to_str().unwrap(), "--reason", "r", "--dry-run"];
    fs::write(&file, "source,id\ns,1\ns,2\n").unwrap();
    alone(&dry).says(2, &["--consumer: name it; the file has no column consumer"]);
    let dry = [&dry[..], &["--consumer", "c"]].concat();
    alone(&[&dry[..], &["--from-line", "0"]].concat()).says(2, &["--from-line"]);
    alone(&[&dry[..], &["--from-line", "99"]].concat()).says(2, &["beyond the end: the file has 3 lines"]);
    let mut text = "source,id,completed_at\n".to_owned();
    (0..25).for_each(|id| writeln!(text, "s,{id},20261120").unwrap());
    fs::write(&file, text).unwrap();
    let bad = alone(&dry).says(6, &["line 2: completed_at: 20261120 is neither", "… and 5 more bad rows"]);
    assert_eq!(bad.err.matches("is it a date?").count(), 20, "{bad:?}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    alone(&["entries", "import", "/no/such.csv", "--reason", "r"]).says(1, &["/no/such.csv: "]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("done.csv");
    fs::write(&file, "consumer,source,id\nc,s,1\n").unwrap();
    let import = ["entries", "import", file.to_str().unwrap(), "--reason", "r"];
    // A dry run needs no server; the import does.
    let nowhere = ["--endpoint", "127.0.0.1:1"];
    alone(&[&import[..], &nowhere, &["--dry-run"]].concat()).says(0, &["1 row would be sent"]);
    alone(&[&import[..], &nowhere].concat()).says(5, &["is the server running?"]);
}

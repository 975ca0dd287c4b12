//! Reconciling a file: a spool or a guard table, the dry run before it, and what a person must look at.

use std::fs;
use std::path::PathBuf;

use idempotency_ledger::proto::EntryState;

use super::{alone, ask, state, take};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(
    a_spool_is_brought_in_and_is_known_afterwards,
    a_guard_table_confirms_what_is_completed,
    what_a_person_must_look_at_is_named,
    bad_lines_behind_the_last_request_are_counted,
    nothing_is_changed_without_a_yes,
);

/// A file in a separate folder.
struct Spool {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Spool {
    fn new(name: &str, text: &str) -> Spool {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        Spool { _folder: folder, path }
    }

    fn command<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let path = self.path.to_str().unwrap();
        [&["entries", "reconcile", path, "--reason", "the ledger was away"][..], more].concat()
    }
}

fn line(event: &str, id: &str, second: u32) -> String {
    format!(
        "{{\"v\":1,\"event\":\"{event}\",\"row\":\"{id}\",\"at\":\"2026-05-28T20:00:{second:02}Z\",\"consumer\":\"c\",\
         \"source\":\"tests\",\"id\":\"{id}\"}}\n"
    )
}

async fn a_spool_is_brought_in_and_is_known_afterwards(kind: Kind) {
    let server = TestServer::start(kind).await;
    let text =
        [line("begin", "1", 1), line("end", "1", 2), line("begin", "2", 3), line("none", "2", 4)].concat();
    let spool = Spool::new("spool.jsonl", &text);
    let dry = ask(&server, &spool.command(&["--dry-run"])).await;
    dry.is(0, "dry run: 1 row: 1 COMPLETED; 0 bad lines; nothing was changed\n");
    ask(&server, &["entries", "get", "c", "tests", "1"]).await.says(3, &[]);
    ask(&server, &spool.command(&["--yes"])).await.is(0, "1 row: 1 COMPLETED; 0 bad lines\n");
    assert_eq!(state(&server, "1").await, EntryState::Completed);
    ask(&server, &["entries", "get", "c", "tests", "2"]).await.says(3, &[]);
    ask(&server, &spool.command(&["--yes"])).await.is(0, "1 row: 1 KNOWN; 0 bad lines\n");
    let json = ask(&server, &spool.command(&["--yes", "--json"])).await.json().remove(0);
    assert_eq!(
        (&json["rows"], &json["outcomes"]["KNOWN"], &json["complete"]),
        (&1.into(), &1.into(), &true.into())
    );
    let audit = ask(&server, &["audit", "list", "--consumer", "c"]).await;
    audit.says(0, &["RECONCILE_COMPLETED", "the ledger was away"]);
    server.stop().await;
}

async fn a_guard_table_confirms_what_is_completed(kind: Kind) {
    let server = TestServer::start(kind).await;
    let text = "id,completed_at,result\n1,2026-05-28T20:00:00Z,paid\n2,1779998400,\n3,,\n";
    let table = Spool::new("guard.csv", text);
    let guard = ["--guard", "--consumer", "c", "--source", "tests", "--yes"];
    let done = ask(&server, &table.command(&guard)).await;
    let done = done.is(6, "2 rows: 2 COMPLETED; 1 bad line\n");
    assert!(done.err.contains("line 4: completed_at: is missing"), "{done:?}");
    let later = Spool::new("guard.csv", "id,completed_at\n1,2026-05-28T20:00:01Z\n");
    ask(&server, &later.command(&guard)).await.is(0, "1 row: 1 CONFIRMED; 0 bad lines\n");
    ask(&server, &table.command(&["--consumer", "c", "--yes"])).await.says(2, &["--guard"]);
    server.stop().await;
}

async fn what_a_person_must_look_at_is_named(kind: Kind) {
    let server = TestServer::start(kind).await;
    take(&server, "held").await;
    let broken = line("end", "cut", 9);
    let text = [
        line("end", "held", 1),
        line("begin", "open", 2),
        "not json\n".to_owned(),
        line("end", "twice", 3),
        line("end", "twice", 4),
        broken[..30].to_owned(),
    ];
    let spool = Spool::new("spool.jsonl", &text.concat());
    let done = ask(&server, &spool.command(&["--yes"])).await;
    let done = done.is(6, "4 rows: 1 COMPLETED, 1 PARKED, 1 DOUBLED, 1 NOT_NOW; 1 bad line\n");
    for says in [
        "line 1: c tests held: NOT_NOW: its holder may be at work",
        "line 2: c tests open: PARKED: its effect may have happened",
        "line 3: expected",
        "line 5: c tests twice: DOUBLED: something else has completed it",
        "line 6: was cut off, as by a crash",
        "leases run for another ",
    ] {
        assert!(done.err.contains(says), "must say {says:?}: {done:?}");
    }
    ask(&server, &["entries", "get", "c", "tests", "open"]).await.says(0, &["PARKED", "EFFECT_UNKNOWN"]);
    ask(&server, &["entries", "list", "--consumer", "c", "--doubled"]).await.says(0, &["twice"]);
    server.stop().await;
}

/// A request has at most 500 rows: no request follows a bad line behind them.
async fn bad_lines_behind_the_last_request_are_counted(kind: Kind) {
    let server = TestServer::start(kind).await;
    for (rows, says) in [(0, "0 rows: no outcome; 1 bad line"), (500, "500 rows: 500 COMPLETED; 1 bad line")]
    {
        let whole: String = (0..rows).map(|id| line("end", &id.to_string(), 1)).collect();
        let spool = Spool::new("spool.jsonl", &(whole + "not json\n"));
        let bad = format!("line {}: expected", rows + 1);
        let dry = format!("dry run: {says}; nothing was changed\n");
        for (flag, out) in [("--dry-run", dry), ("--yes", format!("{says}\n"))] {
            let done = ask(&server, &spool.command(&[flag])).await.is(6, &out);
            assert!(done.err.contains(&bad), "must say {bad:?}: {done:?}");
        }
    }
    server.stop().await;
}

async fn nothing_is_changed_without_a_yes(kind: Kind) {
    let server = TestServer::start(kind).await;
    let spool = Spool::new("spool.jsonl", &line("end", "1", 1));
    ask(&server, &spool.command(&[])).await.says(2, &["not confirmed", "--yes"]);
    ask(&server, &["entries", "get", "c", "tests", "1"]).await.says(3, &[]);
    // A file without a row asks nothing.
    let empty = Spool::new("spool.jsonl", "");
    ask(&server, &empty.command(&["--dry-run"]))
        .await
        .is(0, "dry run: 0 rows: no outcome; 0 bad lines; nothing was changed\n");
    let newer = Spool::new("spool.jsonl", &line("end", "1", 1).replace("\"v\":1", "\"v\":2"));
    ask(&server, &newer.command(&["--yes"])).await.says(6, &["has version 2 of the format"]);
    server.stop().await;
}

#[test]
fn a_file_that_cannot_be_read_twice_is_refused() {
    let nowhere = ["--endpoint", "127.0.0.1:1", "--yes"];
    for (file, code, says) in [
        ("/no/such.jsonl", 1, "No such file"),
        ("/dev/null", 2, "is not a regular file"),
        (concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), 5, "is the server running?"),
    ] {
        let reconcile = ["entries", "reconcile", file, "--reason", "r"];
        alone(&[&reconcile[..], &nowhere].concat()).says(code, &[says]);
    }
    alone(&["entries", "reconcile", "/no/such.jsonl"]).says(2, &["--reason"]);
}

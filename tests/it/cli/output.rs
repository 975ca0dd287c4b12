//! Standard output and standard error that are full or closed: the exit code stays that of what was done.

use std::process::Command;

use super::{BINARY, NO_CONFIG, park, state};
use crate::harness::server::{Kind, TestServer};
use idempotency_ledger::proto::EntryState;

/// What a shell makes of the outputs; what stands behind the last pipe has no part in the exit code.
const UNREAD: [&str; 6] =
    ["2>/dev/full", "2>&-", "2> >(exec true)", ">&-", ">/dev/null 2>/dev/full", "> >(exec true)"];
const FULL: &str = ">/dev/full";

/// Runs a command with its outputs as the shell's line says; the exit code, and what still reached standard error.
fn run(arguments: &[&str], outputs: &str) -> (i32, String) {
    let mut command = Command::new("bash");
    // A reader of a pipe that has gone is gone before the command begins.
    let line = format!("trap '' PIPE; exec {outputs}; sleep 0.05; exec \"$@\"");
    command.args(["-c", &line, "bash", BINARY]).args(arguments).env("XDG_CONFIG_HOME", NO_CONFIG);
    let output = command.output().unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn unread_outputs_leave_the_exit_code_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let rights = folder.path().join("rights.toml").display().to_string();
    let text = "[[rights]]\nprincipal = 'token:*'\nconsumers = ['c']\nmay = ['claim', 'settle']\n";
    std::fs::write(&rights, text).unwrap();
    let asks = |principal| ["rights", "check", "--rights-file", &rights, principal, "c", "Claim"];
    let unreachable = ["entries", "get", "c", "s", "1", "--endpoint", "127.0.0.1:1"];
    let cases: [(&[&str], i32); 5] = [
        (&asks("token:pay"), 0),
        (&asks("spiffe://nobody"), 1),
        (&["rights", "no-such-command"], 2),
        (&unreachable, 5),
        (&["health", "--address", "127.0.0.1:1"], 1),
    ];
    for (arguments, code) in cases {
        for outputs in UNREAD {
            assert_eq!(run(arguments, outputs).0, code, "{arguments:?} {outputs}");
        }
        // An answer that cannot be written is a failure where all else was well.
        let (full, says) = run(arguments, FULL);
        assert_eq!(full, code.max(1), "{arguments:?} {FULL}: {says}");
        assert!(code != 0 || says.contains("standard output: "), "{says}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_carried_out_to_its_end_though_its_answer_is_not_read() {
    for outputs in UNREAD.into_iter().chain([FULL]) {
        let server = TestServer::start(Kind::Sqlite).await;
        for id in ["1", "2", "3"] {
            park(&server, id, "x").await;
        }
        let address = server.address().to_string();
        let redrive = ["entries", "redrive", "--consumer", "c", "--state", "PARKED", "--reason", "is back"];
        let more = ["--yes", "--max", "2", "--json", "--endpoint", &address];
        let arguments: Vec<String> = redrive.iter().chain(&more).map(ToString::to_string).collect();
        let ran = tokio::task::spawn_blocking(move || {
            run(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), outputs)
        });
        let (code, says) = ran.await.unwrap();
        assert_eq!(code, 6, "{outputs}: {says}");
        let mut parked = 0;
        for id in ["1", "2", "3"] {
            parked += u32::from(state(&server, id).await == EntryState::Parked);
        }
        assert_eq!(parked, 1, "{outputs}: two are redriven, as --max says");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_result_that_cannot_be_printed_is_a_failure_unless_its_reader_has_gone() {
    let server = TestServer::start(Kind::Sqlite).await;
    let address = server.address().to_string();
    for (outputs, code) in [(">/dev/null", 0), (FULL, 1), ("> >(exec true)", 0)] {
        let once = ["once", "--endpoint", &address, "c", "tests", "1", "--", "echo", "paid"];
        let (ended, says) = tokio::task::block_in_place(|| run(&once, outputs));
        assert_eq!(ended, code, "{outputs}: {says}");
        assert_eq!(says.contains("standard output: "), code == 1, "{outputs}: {says}");
    }
    server.stop().await;
}

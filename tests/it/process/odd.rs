//! What a start meets that no wait mends: a store that is not a database, an environment that is mistyped, answers that cannot
//! be written, a terminal that is closed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Output, Stdio};

use super::early::AT_ONCE;
use super::log::ends;
use super::{BINARY, sqlite};
use crate::harness::signals::signal;

/// How long a start waits for its store, where a wait may help.
const WAIT: [&str; 2] = ["--startup-wait", "10s"];

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_start_does_not_wait_for_a_file_that_is_not_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("ledger.db");
    std::fs::write(&text, "not a database, but a text of some length\n".repeat(200)).unwrap();
    let of_folder = format!("sqlite://{}", folder.path().display());
    for (url, says) in [
        (sqlite(folder.path()), "is not a database"),
        ("sqlite:///dev/full".to_owned(), "is not a regular file"),
        (of_folder, "is a folder"),
    ] {
        for command in ["serve", "migrate"] {
            let output =
                Command::new(BINARY).args([command, "--database-url", &url]).args(WAIT).output().unwrap();
            let said = said(&output);
            assert_eq!(output.status.code(), Some(1), "{command} {url}: {said}");
            assert!(said.contains(says) && !said.contains("waiting"), "{command} {url}: {said}");
        }
    }
    let kept = std::fs::read(&text).unwrap();
    assert!(kept.starts_with(b"not a database"), "the file is left as it was");
}

/// `serve --check-config` with one variable more.
fn checked(name: &str, value: &OsStr) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(BINARY);
    command.args([
        "serve",
        "--check-config",
        "--database-url",
        &sqlite(folder.path()),
        "--log-format",
        "json",
    ]);
    command.env(name, value).output().unwrap()
}

/// The variable of a client is the likeliest slip, since it is one letter away from that of the server.
#[test]
fn a_variable_that_only_other_commands_read_is_warned_of() {
    for name in ["TOKEN_FILE", "TOKENZ_FILE"] {
        let output = checked(&format!("IDEMPOTENCY_LEDGER_{name}"), OsStr::new("/secret/place"));
        let said = said(&output);
        assert_eq!(output.status.code(), Some(0), "{name}: {said}");
        let warning = said.lines().find(|line| line.contains(&format!("IDEMPOTENCY_LEDGER_{name}\"")));
        let warning = warning.unwrap_or_else(|| panic!("no warning of {name}: {said}"));
        assert!(warning.contains("\"nearest\":\"IDEMPOTENCY_LEDGER_TOKENS_FILE\""), "{warning}");
        assert!(!said.contains("/secret/place"), "{said}");
    }
    // What is not near to a setting of the server belongs to the operators' commands.
    let said = said(&checked("IDEMPOTENCY_LEDGER_ENDPOINT", OsStr::new("127.0.0.1:1")));
    assert!(!said.contains("IDEMPOTENCY_LEDGER_ENDPOINT"), "{said}");
}

#[test]
fn a_value_that_is_not_utf_8_is_named() {
    for name in ["IDEMPOTENCY_LEDGER_QUEUE_MAX", "IDEMPOTENCY_LEDGER_LOG"] {
        let output = checked(name, OsStr::from_bytes(b"secret\xff"));
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(name) && said.contains("UTF-8") && !said.contains("secret"), "{said}");
    }
    let output = Command::new(BINARY)
        .args(["migrate"])
        .env("IDEMPOTENCY_LEDGER_DATABASE_URL", OsStr::from_bytes(b"sqlite:///secret\xff"))
        .output()
        .unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("IDEMPOTENCY_LEDGER_DATABASE_URL") && !said.contains("secret"), "{said}");
}

#[test]
fn an_answer_of_the_server_program_that_cannot_be_written_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    let copy = folder.path().join("copy.db").display().to_string();
    let store = ["--database-url", &url];
    let cases: [Vec<&str>; 5] = [
        [&["serve", "--check-config"], &store[..]].concat(),
        [&["migrate"], &store[..]].concat(),
        [&["backup", &copy], &store[..]].concat(),
        vec!["serve", "--help"],
        vec!["--version"],
    ];
    for arguments in cases {
        for (outputs, code) in [(">/dev/full", 1), ("> >(exec true)", 0), (">&-", 0)] {
            let line = format!("trap '' PIPE; exec {outputs}; sleep 0.05; exec \"$@\"");
            let mut command = Command::new("bash");
            command.args(["-c", &line, "bash", BINARY]).args(&arguments);
            if arguments[0] == "backup" {
                command.arg("--replace");
            }
            let output = command.output().unwrap();
            let said = said(&output);
            assert_eq!(output.status.code(), Some(code), "{arguments:?} {outputs}: {said}");
            assert_eq!(said.contains("standard output: "), code == 1, "{arguments:?} {outputs}: {said}");
        }
    }
}

/// Of a terminal that is closed while the configuration is read, which a writer that stalls never hands over.
#[tokio::test]
async fn a_closed_terminal_ends_neither_a_start_nor_a_migration() {
    for (word, code) in [("serve", 0), ("migrate", 1)] {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("ledger.toml");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let mut command = Command::new(BINARY);
        command.args([word, "--config"]).arg(&fifo).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // It opens once the other end is opened.
        let opened = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        signal("HUP", &[child.id()]);
        signal("TERM", &[child.id()]);
        assert_eq!(ends(&mut child, AT_ONCE).await.code(), Some(code), "{word}");
        drop(opened);
    }
}

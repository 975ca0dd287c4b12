//! Signals before a server serves, and while `migrate` waits: also of the first process of a container, for which the
//! system has no default action.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use sqlx::Executor as _;

use super::BINARY;
use super::log::ends;
use crate::harness::postgres::{self as pg, free_port};
use crate::harness::signals::signal;

/// No grace of a supervisor is shorter.
pub(super) const AT_ONCE: Duration = Duration::from_secs(5);

/// As the first process of a separate namespace, or as any other process.
fn command(first: bool) -> Command {
    if !first {
        return Command::new(BINARY);
    }
    let mut command = Command::new("unshare");
    if !pg::is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--pid", "--fork", "--kill-child", BINARY]);
    command
}

/// The process that a signal of the supervisor reaches.
fn target(child: &Child, first: bool) -> u32 {
    if !first {
        return child.id();
    }
    let path = format!("/proc/{0}/task/{0}/children", child.id());
    std::fs::read_to_string(path).unwrap().trim().parse().expect("it has one child")
}

/// Reads until a line has this word.
fn wait_for(log: &mut BufReader<ChildStderr>, word: &str) {
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "the log ended without {word:?}");
    }
}

/// It waits, as its log says; then a signal ends it with this code, and it says why.
async fn ends_of(name: &str, mut command: Command, first: bool, waits: &str, code: i32, says: &str) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    wait_for(&mut log, waits);
    signal(name, &[target(&child, first)]);
    let status = ends(&mut child, AT_ONCE).await;
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    assert_eq!(status.code(), Some(code), "{name}, first process: {first}: {rest}");
    assert!(rest.contains(says), "{name} must say {says:?}: {rest}");
}

#[tokio::test]
async fn a_signal_ends_a_server_that_waits_for_its_store() {
    for (first, name) in [(false, "TERM"), (true, "TERM"), (true, "INT")] {
        let mut command = command(first);
        let nowhere = format!("postgres://127.0.0.1:{}/x", free_port());
        command.args(["serve", "--database-url", &nowhere, "--startup-wait", "10m"]);
        ends_of(name, command, first, "the store is not there yet", 0, "before it served").await;
    }
}

#[tokio::test]
async fn a_signal_ends_a_migrate_that_waits_for_another_one() {
    let database = pg::database().await;
    let mut other = pg::shared().connect(&database).await;
    other.execute("SELECT pg_advisory_lock(1818584167, 1)").await.unwrap();
    for first in [false, true] {
        let mut command = command(first);
        command.args(["migrate", "--database-url", &pg::shared().url(&database)]);
        ends_of("TERM", command, first, "another `migrate` is at work", 1, "run it again").await;
    }
}

/// Before the first file is read: here the configuration, which a writer that stalls never hands over.
#[tokio::test]
async fn a_signal_ends_a_server_that_reads_its_configuration() {
    for (words, code, says) in [
        (&["serve"][..], 0, ""),
        (&["serve", "--check-config"], 1, "ended before the configuration was checked: run it again"),
        (&["migrate"], 1, "run it again"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("ledger.toml");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let mut command = command(true);
        command.args(words).arg("--config").arg(&fifo).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It opens once the other end is opened.
        let opened = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        signal("TERM", &[target(&child, true)]);
        assert_eq!(ends(&mut child, AT_ONCE).await.code(), Some(code), "{words:?}");
        drop(opened);
        let mut log = String::new();
        child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        assert!(log.contains(says), "{words:?} must say {says:?}: {log}");
    }
}

//! The operators' command line: the real binary against a server in this process. What it says, what it
//! refuses, and how it exits.

mod any_order;
mod audit;
mod bench;
mod bulk;
mod bulk_changes;
mod completions;
mod context_file;
mod contexts;
mod damaged;
mod doubt;
mod entries;
mod import;
mod jq;
mod lookup;
mod many_pages;
mod messages;
mod once;
mod output;
mod plain;
mod policies;
mod reconcile;
mod recorder;
mod replays;
mod retention;
mod rights;
mod searches;
mod tls;
mod tokens;
mod trial;
mod whole;

use std::io::Write as _;
use std::process::{Command, Stdio};

use idempotency_ledger::proto;

use crate::harness::details::{acquired, claim, key};
use crate::harness::server::TestServer;

const BINARY: &str = env!("CARGO_BIN_EXE_idempotency-ledger");

/// How a command ended, and what it said.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    /// It exits so, and its output is exactly this.
    #[track_caller]
    fn is(self, code: i32, out: &str) -> Ran {
        assert_eq!((self.code, self.out.as_str()), (code, out), "{self:?}");
        self
    }

    /// It exits so, and says all of this, on whichever stream.
    #[track_caller]
    fn says(self, code: i32, words: &[&str]) -> Ran {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.out.contains(word) || self.err.contains(word), "must say {word:?}: {self:?}");
        }
        self
    }

    /// Its output as JSON: one document a line.
    #[track_caller]
    fn json(&self) -> Vec<serde_json::Value> {
        assert!([0, 6, 7].contains(&self.code), "{self:?}");
        let parsed = self.out.lines().map(serde_json::from_str);
        parsed.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A folder that is not there: whoever runs the tests may have contexts of their own.
const NO_CONFIG: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/no-such-folder");

/// A command, with nothing of this process's environment that speaks to it.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.env("XDG_CONFIG_HOME", NO_CONFIG);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("IDEMPOTENCY_LEDGER_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

fn ended(output: std::process::Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs a command that speaks to no server of ours.
fn alone(arguments: &[&str]) -> Ran {
    ended(command(arguments).output().unwrap())
}

/// Runs a command against a server.
async fn ask(server: &TestServer, arguments: &[&str]) -> Ran {
    ask_with(server, arguments, b"").await
}

/// The same with something on standard input.
async fn ask_with(server: &TestServer, arguments: &[&str], input: &[u8]) -> Ran {
    let mut command = command(arguments);
    command.args(["--endpoint", &server.address().to_string()]);
    let input = input.to_vec();
    let run = move || {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || {
            // It may end before it has read all.
            let _written = stdin.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        ended(output)
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

async fn take(server: &TestServer, id: &str) -> i64 {
    acquired(&server.client.clone().claim(claim("c", id)).await.unwrap().into_inner()).token
}

async fn complete(server: &TestServer, id: &str) {
    let token = take(server, id).await;
    let request = proto::CompleteRequest { key: key("c", id), token, ..Default::default() };
    server.client.clone().complete(request).await.unwrap();
}

/// An entry that its consumer had parked.
async fn park(server: &TestServer, id: &str, error: &str) {
    let token = take(server, id).await;
    let request = proto::FailRequest {
        key: key("c", id),
        token,
        kind: proto::FailureKind::Park.into(),
        error: error.into(),
        ..Default::default()
    };
    server.client.clone().fail(request).await.unwrap();
}

/// An entry that is parked after its holder had announced the effect.
async fn in_doubt(server: &TestServer, id: &str) {
    let token = take(server, id).await;
    let mut client = server.client.clone();
    let request =
        proto::RenewRequest { key: key("c", id), token, effect_started: true, ..Default::default() };
    client.renew(request).await.unwrap();
    let request = proto::FailRequest {
        key: key("c", id),
        token,
        kind: proto::FailureKind::Park.into(),
        error: "timeout".into(),
        ..Default::default()
    };
    client.fail(request).await.unwrap();
}

/// This machine has no terminals to lend: `tests/run` has found that out, and says what is not checked.
fn no_terminals() -> bool {
    std::env::var_os("LEDGER_TEST_NO_TERMINALS").is_some()
}

/// Runs a line for a shell on a terminal, which `script` lends, and types what it is told.
async fn on_a_terminal(line: String, typed: &'static str) -> Ran {
    let run = move || {
        let mut child = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm")
            .env("XDG_CONFIG_HOME", NO_CONFIG)
            .env("SHELL", "/bin/sh")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        ended(child.wait_with_output().unwrap())
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

async fn state(server: &TestServer, id: &str) -> proto::EntryState {
    let request = proto::GetEntryRequest { key: key("c", id), ..Default::default() };
    server.admin.clone().get_entry(request).await.unwrap().into_inner().entry.unwrap().state()
}

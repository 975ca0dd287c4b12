//! `once`: real processes, each with a command, killed and stopped in every window.

pub(super) mod deaf;
mod ended;
mod lease;
mod outputs;
mod signals;
mod windows;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use idempotency_ledger::proto::EntryState;

use super::{Ran, command, ended};
use crate::harness::server::TestServer;
use crate::harness::signals::signal;

/// How long an event is waited for: longer than a run repeats its report on a connection without answers.
const PATIENCE: Duration = Duration::from_secs(90);

/// A folder in which commands leave what they did.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What stands in a file; empty, if it is not there.
    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn lines(&self, name: &str) -> Vec<String> {
        self.read(name).lines().map(str::to_owned).collect()
    }

    /// Waits until a command has written a whole line there, and returns it.
    async fn line(&self, name: &str) -> String {
        until("a line of the command", || self.read(name).ends_with('\n')).await;
        self.read(name).trim().to_owned()
    }
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn until_state(server: &TestServer, id: &str, expected: EntryState) {
    let end = Instant::now() + PATIENCE;
    while state(server, id).await != Some(expected) {
        assert!(Instant::now() < end, "{id} is not {expected:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn state(server: &TestServer, id: &str) -> Option<EntryState> {
    let request = idempotency_ledger::proto::GetEntryRequest {
        key: crate::harness::details::key("c", id),
        ..Default::default()
    };
    let answer = server.admin.clone().get_entry(request).await.ok()?;
    Some(answer.into_inner().entry?.state())
}

/// A run that is killed when the test ends.
struct Once {
    child: Child,
}

/// Starts `once` for a message of the consumer `c`; the command is a script, which runs in the folder.
fn start(endpoint: &str, folder: &Path, options: &[&str], id: &str, script: &str) -> Once {
    let mut run = command(&["once"]);
    run.args(options).args(["c", "tests", id, "--", "sh", "-c", script]);
    run.env("IDEMPOTENCY_LEDGER_ENDPOINT", endpoint).current_dir(folder);
    Once { child: run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap() }
}

impl Once {
    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, name: &str) {
        signal(name, &[self.pid()]);
    }

    /// Kills the run alone, as the system does where memory is short: its command goes on.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    async fn ran(mut self) -> Ran {
        let (mut out, mut err) = (self.child.stdout.take().unwrap(), self.child.stderr.take().unwrap());
        let (tell, ran) = tokio::sync::oneshot::channel();
        // A thread of its own: a run that does not end fails its test, and holds up no runtime.
        std::thread::spawn(move || {
            let errors = std::thread::spawn(move || {
                let mut text = Vec::new();
                err.read_to_end(&mut text).unwrap();
                text
            });
            let mut text = Vec::new();
            out.read_to_end(&mut text).unwrap();
            let status = self.child.wait().unwrap();
            let output = std::process::Output { status, stdout: text, stderr: errors.join().unwrap() };
            let _gone = tell.send(ended(output));
        });
        tokio::time::timeout(PATIENCE, ran).await.expect("it ends").unwrap()
    }
}

impl Drop for Once {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// The effect of the tests: a line with what the command was given, and a result.
const PAY: &str = "echo $IDEMPOTENCY_KEY $LEDGER_ATTEMPT $LEDGER_FENCING_TOKEN >>effects; echo paid";

/// Runs `once` to its end, directly at the server.
async fn once(server: &TestServer, folder: &Folder, options: &[&str], id: &str, script: &str) -> Ran {
    start(&server.address().to_string(), folder.0.path(), options, id, script).ran().await
}

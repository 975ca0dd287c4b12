//! The server that the command starts itself: the same program, on a temporary `SQLite` file and a free port.
//! It is ended and its files are removed when this value is dropped.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::cli::problem::Problem;

const START_MAX: Duration = Duration::from_secs(30);
/// What a server prints before its address.
const LISTENS: &str = " listens on ";
/// The environment may have settings of another server: none of them must apply to this one.
const VARIABLES: &str = "IDEMPOTENCY_LEDGER_";

/// A running server.
pub(super) struct OwnServer {
    child: Child,
    folder: TempDir,
    pub(super) address: String,
}

impl OwnServer {
    pub(super) async fn start() -> Result<OwnServer, Problem> {
        let failed = |error: std::io::Error| {
            Problem::failed(format!("the server for this run cannot be started: {error}"))
        };
        let folder =
            tempfile::Builder::new().prefix("idempotency-ledger-bench-").tempdir().map_err(failed)?;
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with(VARIABLES) {
                command.env_remove(name);
            }
        }
        command.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--database-url"]);
        command.arg(format!("sqlite://{}", folder.path().join("ledger.db").display()));
        // A separate process group: a Ctrl-C at the terminal ends the measurement first, and then the server.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let said = child.stdout.take();
        let mut server = OwnServer { child, folder, address: String::new() };
        // An early end, for whatever reason, drops the server: its output is then closed, and the blocked read
        // ends.
        let said = timeout(START_MAX, spawn_blocking(move || said.and_then(address))).await;
        server.address = said.ok().and_then(Result::ok).flatten().ok_or_else(|| {
            Problem::failed("the server for this run was started and does not listen; its output is above")
        })?;
        Ok(server)
    }

    /// The folder that holds its file.
    pub(super) fn folder(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// The reason why calls are no longer answered: the server has ended by itself.
    pub(super) fn ended(&mut self) -> Option<Problem> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(Problem::failed(format!("the server that was started has ended by itself: {status}")))
    }
}

/// The address on which the server listens, from its first line.
fn address(said: ChildStdout) -> Option<String> {
    let mut line = String::new();
    BufReader::new(said).read_line(&mut line).ok()?;
    line.trim_end().split_once(LISTENS).map(|(_, address)| address.to_owned())
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // All of its data is thrown away: it need not end gracefully.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

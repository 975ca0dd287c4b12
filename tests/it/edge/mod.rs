//! The edge's connections, seen from a real process: those that stay silent, those that reset their
//! calls, those that fill memory.

mod floods;
pub(crate) mod frames;
mod life;
mod memory;
mod refused;
mod resets;
mod shape;
mod silence;
mod slow_reader;

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::signals::signal;
use crate::harness::timer::Timer;
use crate::process::{BINARY, Server, sqlite};

/// What a client sends first.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty SETTINGS frame: with it the preface is whole.
pub(crate) const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// More than the largest `--drain-max`: a server ends by itself within this time.
const ENDS: Duration = Duration::from_mins(11);

/// A server process on a store of its own. With the test it ends as an operator ends it: it must drain in time, and have returned
/// all that it has counted of its clients.
struct Edge {
    server: Server,
    folder: tempfile::TempDir,
}

impl Edge {
    async fn start(settings: &[&str]) -> Edge {
        Edge::run(Command::new(BINARY), settings).await
    }

    async fn run(command: Command, settings: &[&str]) -> Edge {
        let folder = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let server = Server::with(command, &sqlite(folder.path()), settings, Stdio::from(log)).await;
        Edge { server, folder }
    }

    fn log(&self) -> String {
        crate::harness::log_file::settled(&self.folder.path().join("log"))
    }

    fn pid(&self) -> u32 {
        self.server.child.id()
    }

    /// The memory that the process has in use, in MiB.
    fn rss(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The most that it ever had in use.
    fn peak(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, what: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let mut ended = self.server.child.try_wait().unwrap();
        if ended.is_none() {
            signal("TERM", &[self.pid()]);
        }
        let timer = Timer::start();
        while ended.is_none() {
            timer.within(ENDS, "the end of the server");
            std::thread::sleep(Duration::from_millis(10));
            ended = self.server.child.try_wait().unwrap();
        }
        let ended = ended.unwrap();
        assert!(ended.success(), "{ended}: {}", self.log());
    }
}

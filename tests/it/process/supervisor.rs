//! What systemd is told, on a socket of the test's own.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{BINARY, Server, sqlite};
use crate::harness::postgres::free_port;
use crate::harness::signals::signal;
use crate::harness::timer::Timer;

/// How often the supervisor wants to hear that the server lives. A server reports that twice as often.
const WITHIN: Duration = Duration::from_secs(1);

/// The supervisor's end, and the command of a server that is told of it.
fn supervised(folder: &std::path::Path) -> (UnixDatagram, Command) {
    let path = folder.join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut command = Command::new(BINARY);
    command.env("NOTIFY_SOCKET", path).env("WATCHDOG_USEC", WITHIN.as_micros().to_string());
    (socket, command)
}

/// The next thing that the supervisor is told.
fn told(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 256];
    let length = socket.recv(&mut bytes).expect("the supervisor is told something");
    String::from_utf8_lossy(&bytes[..length]).trim().to_owned()
}

/// Nothing but signs of life, this number of them, each in time, and twice as often on average.
fn lives(socket: &UnixDatagram, signs: u32) {
    let all = Timer::start();
    for _ in 0..signs {
        let timer = Timer::start();
        assert_eq!(told(socket), "WATCHDOG=1");
        timer.within(WITHIN, "a sign of life");
    }
    all.within(WITHIN * (signs + 1) / 2, "all signs of life");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_is_told_that_the_server_serves_lives_and_drains() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, command) = supervised(folder.path());
    let settings = ["--drain-wait", "6s"];
    let mut server = Server::with(command, &sqlite(folder.path()), &settings, Stdio::null()).await;
    assert_eq!(told(&socket), "READY=1");
    lives(&socket, 6);
    signal("TERM", &[server.child.id()]);
    // A sign of life may have been on its way.
    let next = told(&socket);
    let drains = if next == "WATCHDOG=1" { told(&socket) } else { next };
    assert_eq!(drains, "STOPPING=1");
    // What drains lives.
    lives(&socket, 4);
    assert!(server.child.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_hears_nothing_of_a_server_that_stands_still() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, command) = supervised(folder.path());
    let server = Server::with(command, &sqlite(folder.path()), &[], Stdio::null()).await;
    assert_eq!(told(&socket), "READY=1");
    signal("STOP", &[server.child.id()]);
    socket.set_read_timeout(Some(2 * WITHIN)).unwrap();
    // What was sent before is still there.
    while socket.recv(&mut [0; 256]).is_ok() {}
    assert!(socket.recv(&mut [0; 256]).is_err(), "a stopped server has told something");
}

#[test]
fn a_supervisor_is_told_of_no_server_without_its_store() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, mut command) = supervised(folder.path());
    let url = format!("postgres://127.0.0.1:{}/ledger", free_port());
    let output = command.args(["serve", "--database-url", &url, "--startup-wait", "1s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv(&mut [0; 256]).is_err(), "it is told of a server that has never served");
}

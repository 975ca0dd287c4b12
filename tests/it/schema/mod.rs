//! The schema: who brings it up, who may do what in it, which binaries it serves, and where it comes from.

mod clock;
mod level;
pub(crate) mod load;
mod moving;
mod names;
mod next;
mod replication;
mod restored;
mod rights;
mod servers;
mod subscription;
mod together;

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::harness::postgres::free_port;
use crate::process::{BINARY, Server};

/// What the program prints, its standard error behind its standard output, and how it ended.
fn run(arguments: &[&str]) -> (String, Option<i32>) {
    let Output { stdout, stderr, status } = Command::new(BINARY).args(arguments).output().unwrap();
    (String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr), status.code())
}

fn migrate(url: &str) {
    let (text, code) = run(&["migrate", "--database-url", url]);
    assert_eq!(code, Some(0), "{text}");
}

/// A server with these settings, whose log is kept; it may not serve yet.
fn served(url: &str, settings: &[&str], log: &std::path::Path) -> Server {
    let address = format!("127.0.0.1:{}", free_port());
    let child = Command::new(BINARY)
        .args(["serve", "--listen", &address, "--database-url", url])
        .args(settings)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(log).unwrap())
        .spawn()
        .unwrap();
    Server { child, address }
}

/// Its exit code, within a time.
async fn ended(child: &mut Child, within: Duration) -> Option<i32> {
    let until = Instant::now() + within;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(Instant::now() < until, "it has not ended within {within:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

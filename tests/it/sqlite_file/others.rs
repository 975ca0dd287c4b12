//! What others do to the file of a server: a reader that stays, and modes that change.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use idempotency_ledger::proto::{self, settlement::Action};
use sqlx::{Connection as _, Executor as _, SqliteConnection};

use super::{Logged, complete};
use crate::harness::details::{acquired, claim, completed, key};
use crate::harness::postgres::is_root;
use crate::process::{BINARY, Server, sqlite};

fn wal_bytes(folder: &Path) -> u64 {
    std::fs::metadata(folder.join("ledger.db-wal")).unwrap().len()
}

/// Claims and completes a hundred messages with large results.
async fn grow(server: &Server, batch: usize) {
    let mut client = server.client().await;
    let ids: Vec<String> = (0..100).map(|number| format!("{batch}-{number}")).collect();
    let requests = ids.iter().map(|id| claim("c", id)).collect();
    let claims = client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap().into_inner();
    let result = bytes::Bytes::from(vec![b'x'; 16_000]);
    let settle = |(id, answer): (&String, &proto::ClaimResponse)| {
        let token = acquired(answer).token;
        let complete =
            proto::CompleteRequest { key: key("c", id), token, result: result.clone(), ..Default::default() };
        proto::Settlement { action: Some(Action::Complete(complete)) }
    };
    let settlements = ids.iter().zip(&claims.responses).map(settle).collect();
    client.batch_settle(proto::BatchSettleRequest { settlements }).await.unwrap();
}

/// A shell that is forgotten in the middle of a transaction: SQLite cannot reset the WAL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stays_is_reported_before_the_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let logged = Logged::start(folder.path(), &[]).await;
    let mut reader = SqliteConnection::connect(&sqlite(folder.path())).await.unwrap();
    reader.execute("BEGIN; SELECT count(*) FROM entries").await.unwrap();
    let mut batch = 0;
    while wal_bytes(folder.path()) < 130 << 20 {
        grow(&logged.server, batch).await;
        batch += 1;
        assert!(batch < 400, "the WAL does not grow");
    }
    let until = Instant::now() + Duration::from_secs(20);
    while !logged.text().contains("cannot reset the WAL") {
        assert!(Instant::now() < until, "{}", logged.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Calls did not wait for the reader, and its end gives the disk back.
    reader.execute("ROLLBACK").await.unwrap();
    reader.close().await.unwrap();
    while wal_bytes(folder.path()) > 65 << 20 {
        grow(&logged.server, batch).await;
        batch += 1;
        assert!(batch < 800, "the WAL does not shrink");
    }
    let text = logged.kill();
    assert_eq!(text.lines().filter(|line| line.contains("cannot reset the WAL")).count(), 1, "{text}");
}

/// As `chown -R` and `chmod -R` of an upgrade do it: what is open goes on, the counter that cannot be written is reported,
/// and the next start says what is wrong.
#[tokio::test]
async fn modes_that_change_lose_nothing() {
    let folder = tempfile::Builder::new().prefix("ledger-modes-").tempdir_in("/tmp").unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let program = folder.path().join("ledger");
    std::fs::copy(BINARY, &program).unwrap();
    for (path, mode) in [(folder.path(), 0o755), (&program, 0o755), (&data, 0o777)] {
        set(path, mode);
    }
    let command = || {
        let mut command = Command::new(&program);
        if is_root() {
            command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
        }
        command
    };
    let log = folder.path().join("log");
    let to = Stdio::from(std::fs::File::create(&log).unwrap());
    let server = Server::with(command(), &sqlite(&data), &[], to).await;
    let mut client = server.client().await;
    complete(&mut client, 0..5).await;
    set(&data, 0o555);
    set(&data.join("ledger.db"), 0o444);
    complete(&mut client, 5..10).await;
    let until = Instant::now() + Duration::from_secs(20);
    while !std::fs::read_to_string(&log).unwrap().contains("the counter of heartbeats cannot be written") {
        assert!(Instant::now() < until, "{}", std::fs::read_to_string(&log).unwrap());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(server);
    let refused = |says: &str| {
        let mut again = Command::new("timeout");
        again.arg("20").arg(command().get_program()).args(command().get_args());
        again.args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--startup-wait",
            "10s",
            "--database-url",
            &sqlite(&data),
        ]);
        let output = again.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && text.contains(says), "{text}");
        assert!(!text.contains("waiting"), "no wait mends it: {text}");
    };
    refused("cannot write the file");
    set(&data, 0o777);
    refused("cannot write the file");
    set(&data.join("ledger.db"), 0o600);
    let server = Server::with(command(), &sqlite(&data), &[], Stdio::null()).await;
    let mut client = server.client().await;
    for number in 0..10 {
        completed(&client.claim(claim("c", &number.to_string())).await.unwrap().into_inner());
    }
    complete(&mut client, 10..12).await;
}

//! Commits that are gone at the start: grants wait for a person.

use std::path::Path;
use std::time::{Duration, Instant};

use idempotency_ledger::proto::{self, admin_service_client::AdminServiceClient};

use super::{Logged, complete, unavailable};
use crate::harness::details::{acquired, claim, completed, key, refusal};
use crate::harness::postgres::free_port;
use crate::harness::signals::signal;
use crate::inbox::{ids, message, next};

const LOSSES: &str = "idempotency_ledger_store_losses_total";

/// What the counter beside the file says.
fn counter(folder: &Path) -> i64 {
    let text = std::fs::read_to_string(folder.join("ledger.db.count")).unwrap_or_default();
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
    numbers.max().unwrap_or(0)
}

/// Waits for two heartbeats: the second one began after all that was answered before.
async fn two_beats(folder: &Path) {
    let (before, until) = (counter(folder), Instant::now() + Duration::from_secs(20));
    while counter(folder) < before + 2 {
        assert!(Instant::now() < until, "the counter does not grow");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A server is killed, and what happens to its files; its successor grants nothing until a person accepts the loss, and refuses to
/// store a message for the reason `stores`.
async fn lost(harm: fn(&Path), stores: &str) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // The first part is carried over into the file at the end.
    let mut logged = Logged::start(folder, &[]).await;
    let request = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: "inbox".into(),
        reason: "its messages are stored".into(),
        policy: Some(proto::Policy { inbox: Some(true), ..Default::default() }),
        ..Default::default()
    };
    let mut admin = AdminServiceClient::new(logged.server.channel().await.unwrap());
    admin.set_policy(request).await.unwrap();
    drop(admin);
    signal("TERM", &[logged.server.child.id()]);
    assert!(logged.server.child.wait().unwrap().success());
    let logged = Logged::start(folder, &[]).await;
    complete(&mut logged.server.client().await, 0..20).await;
    two_beats(folder).await;
    assert!(!logged.kill().contains("lost"));
    harm(folder);
    // However often it is started again.
    for _ in 0..2 {
        let observed = format!("127.0.0.1:{}", free_port());
        let logged = Logged::start(folder, &["--observe-listen", &observed]).await;
        let mut client = logged.server.client().await;
        for id in ["1", "new"] {
            let refused = client.claim(claim("c", id)).await.unwrap_err();
            unavailable(&refused);
            assert!(refused.message().contains("lost commits"), "{refused:?}");
        }
        let refused = client.store(message("new")).await.unwrap_err();
        assert_eq!(refusal(&refused).reason, stores, "{refused:?}");
        assert_eq!(refused.message().contains("lost commits"), stores == "STORE_UNAVAILABLE", "{refused:?}");
        assert_eq!(metric(&observed, LOSSES).await, "1");
        let text = logged.kill();
        let told = |line: &&str| line.contains("ERROR") && line.contains("--accept-loss");
        assert_eq!(text.lines().filter(told).count(), 1, "{text}");
    }
    let logged = Logged::start(folder, &["--accept-loss"]).await;
    let mut client = logged.server.client().await;
    let granted = acquired(&client.claim(claim("c", "1")).await.unwrap().into_inner());
    let request = proto::CompleteRequest { key: key("c", "1"), token: granted.token, ..Default::default() };
    client.complete(request).await.unwrap();
    two_beats(folder).await;
    assert!(logged.kill().contains("WARN"));
    let logged = Logged::start(folder, &[]).await;
    let mut client = logged.server.client().await;
    completed(&client.claim(claim("c", "1")).await.unwrap().into_inner());
    acquired(&client.claim(claim("c", "new")).await.unwrap().into_inner());
}

/// What a plain GET answers for a series.
async fn metric(address: &str, series: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{series} is missing: {text}")).to_owned()
}

#[tokio::test]
async fn a_wal_that_is_removed_after_a_kill_is_a_loss() {
    lost(|folder| std::fs::remove_file(folder.join("ledger.db-wal")).unwrap(), "STORE_UNAVAILABLE").await;
}

#[tokio::test]
async fn a_wal_that_is_cut_after_a_kill_is_a_loss() {
    lost(
        |folder| {
            let log = std::fs::OpenOptions::new().write(true).open(folder.join("ledger.db-wal")).unwrap();
            log.set_len(log.metadata().unwrap().len() / 8).unwrap();
        },
        "STORE_UNAVAILABLE",
    )
    .await;
}

#[tokio::test]
async fn a_file_that_is_removed_with_its_wal_is_a_loss() {
    // The policy is lost, too.
    lost(
        |folder| {
            for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
                std::fs::remove_file(folder.join(name)).unwrap();
            }
        },
        "INBOX_OFF",
    )
    .await;
}

/// What `cp ledger.db` makes of a running server's file: all that lies in the WAL is missing.
#[tokio::test]
async fn a_copy_of_the_file_alone_is_a_loss() {
    let (folder, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let logged = Logged::start(folder.path(), &[]).await;
    complete(&mut logged.server.client().await, 0..20).await;
    std::fs::copy(folder.path().join("ledger.db"), copied.path().join("ledger.db")).unwrap();
    logged.kill();
    let logged = Logged::start(copied.path(), &[]).await;
    let refused = logged.server.client().await.claim(claim("c", "1")).await.unwrap_err();
    unavailable(&refused);
    assert!(refused.message().contains("lost commits"), "{refused:?}");
}

/// Starts a server that waits for something, which is mended once its log says so. What it had logged by the end.
async fn mended(folder: &Path, flags: &[&str], waits: &'static str, mend: fn(&Path)) -> String {
    let log = folder.join(format!("log-{}", std::fs::read_dir(folder).unwrap().count()));
    let at = folder.to_owned();
    let mending = tokio::spawn(async move {
        let until = Instant::now() + Duration::from_secs(20);
        while !std::fs::read_to_string(&log).is_ok_and(|text| text.contains(waits)) {
            assert!(Instant::now() < until, "the log does not say {waits}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        mend(&at);
    });
    let logged = Logged::start(folder, flags).await;
    mending.await.unwrap();
    acquired(&logged.server.client().await.claim(claim("c", "new")).await.unwrap().into_inner());
    logged.kill()
}

/// A counter that cannot be read says nothing of the file: the server waits for it, and finds no loss.
#[tokio::test]
async fn a_counter_that_cannot_be_read_is_no_loss() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let logged = Logged::start(folder, &[]).await;
    complete(&mut logged.server.client().await, 0..5).await;
    two_beats(folder).await;
    logged.kill();
    std::fs::rename(folder.join("ledger.db.count"), folder.join("aside")).unwrap();
    std::fs::create_dir(folder.join("ledger.db.count")).unwrap();
    let log = mended(folder, &[], "ledger.db.count: Is a directory", |folder| {
        std::fs::remove_dir(folder.join("ledger.db.count")).unwrap();
        std::fs::rename(folder.join("aside"), folder.join("ledger.db.count")).unwrap();
    });
    let log = log.await;
    assert!(!log.contains("lost commits"), "{log}");
}

/// A loss whose acceptance cannot be written is accepted by the next attempt.
#[tokio::test]
async fn an_acceptance_that_fails_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let logged = Logged::start(folder, &[]).await;
    complete(&mut logged.server.client().await, 0..5).await;
    two_beats(folder).await;
    logged.kill();
    std::fs::remove_file(folder.join("ledger.db.count")).unwrap();
    std::fs::create_dir(folder.join("ledger.db.count.new")).unwrap();
    let log = mended(folder, &["--accept-loss"], "Is a directory", |folder| {
        std::fs::remove_dir(folder.join("ledger.db.count.new")).unwrap();
    });
    let log = log.await;
    assert!(
        log.contains("a loss of commits was accepted") && !log.contains("nothing new is granted"),
        "{log}"
    );
}

/// The counter is never ahead of what is durable: no kill is taken for a loss.
#[tokio::test]
async fn a_kill_alone_is_no_loss() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let logged = Logged::start(folder.path(), &[]).await;
        complete(&mut logged.server.client().await, round * 10..round * 10 + 10).await;
        if round % 2 == 1 {
            two_beats(folder.path()).await;
        }
        let text = logged.kill();
        assert!(!text.contains("--accept-loss"), "{text}");
    }
}

/// Claims that were granted before the loss, and are still there, go on: only new grants wait.
#[tokio::test]
async fn settlements_go_on_after_a_loss() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let logged = Logged::start(folder, &[]).await;
    let held = acquired(&logged.server.client().await.claim(claim("c", "held")).await.unwrap().into_inner());
    two_beats(folder).await;
    logged.kill();
    // As if later commits were gone.
    std::fs::remove_file(folder.join("ledger.db.count")).unwrap();
    let logged = Logged::start(folder, &[]).await;
    let mut client = logged.server.client().await;
    unavailable(&client.claim(claim("c", "new")).await.unwrap_err());
    let request = proto::CompleteRequest { key: key("c", "held"), token: held.token, ..Default::default() };
    client.complete(request).await.unwrap();
    completed(&client.claim(claim("c", "held")).await.unwrap().into_inner());
}

/// A stored message that is handed out is a grant like any other: it waits for a person, too.
#[tokio::test]
async fn claim_next_after_a_loss_hands_nothing_out() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let logged = Logged::start(folder, &[]).await;
    let mut admin = AdminServiceClient::new(logged.server.channel().await.unwrap());
    let policy = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: "1".into(),
        reason: "tests".into(),
        policy: Some(proto::Policy { inbox: Some(true), ..Default::default() }),
        ..Default::default()
    };
    admin.set_policy(policy).await.unwrap();
    let mut client = logged.server.client().await;
    for id in ["held", "due"] {
        client.store(message(id)).await.unwrap();
    }
    let before = next(1);
    let held = ids(&client.claim_next(before.clone()).await.unwrap().into_inner());
    two_beats(folder).await;
    logged.kill();
    std::fs::remove_file(folder.join("ledger.db.count")).unwrap();
    let logged = Logged::start(folder, &[]).await;
    let mut client = logged.server.client().await;
    for number in 0..2 {
        let refused = client.claim_next(next(1)).await.unwrap_err();
        unavailable(&refused);
        assert!(refused.message().contains("lost commits"), "{number}: {refused:?}");
    }
    // What was handed out before goes on: its consumer is answered again.
    assert_eq!(ids(&client.claim_next(before).await.unwrap().into_inner()), held);
    logged.kill();
    let logged = Logged::start(folder, &["--accept-loss"]).await;
    let handed = logged.server.client().await.claim_next(next(1)).await.unwrap().into_inner();
    assert_eq!(ids(&handed).len(), 1, "{handed:?}");
}

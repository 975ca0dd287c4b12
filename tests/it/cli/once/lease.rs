//! Renewals while the command runs, and a lease that is lost.

use std::time::{Duration, Instant};

use idempotency_ledger::domain::{Key, Span};
use idempotency_ledger::proto::{DeleteEntryRequest, EntryState};

use super::{Folder, PATIENCE, PAY, once, start, state, until};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};
use crate::harness::switch::Switch;

on_both_stores!(
    renewals_hold_the_claim_while_the_command_runs,
    a_lost_lease_ends_the_command_and_is_reported,
    a_deleted_entry_ends_the_command_and_is_reported,
    a_silent_ledger_ends_the_command_with_its_lease,
);

async fn version(server: &TestServer, id: &str) -> i64 {
    server.entry(&Key::new("c", "tests", id)).await.unwrap().version
}

async fn renewals_hold_the_claim_while_the_command_runs(kind: Kind) {
    let (server, folder) = (TestServer::start(kind).await, Folder::new());
    let script = format!("echo $$ >began; until [ -e go ]; do sleep 0.01; done; {PAY}");
    let address = server.address().to_string();
    let run = start(&address, folder.0.path(), &["--lease", "1s"], "long", &script);
    folder.line("began").await;
    // Five leases long in all.
    for _ in 0..6 {
        let (before, end) = (version(&server, "long").await, Instant::now() + PATIENCE);
        server.advance(Span(900_000)).await;
        while version(&server, "long").await == before {
            assert!(Instant::now() < end, "the lease is not renewed");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        once(&server, &folder, &[], "long", PAY).await.says(75, &["in_progress"]);
    }
    std::fs::write(folder.path("go"), "").unwrap();
    run.ran().await.is(0, "paid\n");
    assert_eq!(folder.lines("effects").len(), 1);
    server.stop().await;
}

async fn a_lost_lease_ends_the_command_and_is_reported(kind: Kind) {
    let (server, folder) = (TestServer::start(kind).await, Folder::new());
    for (id, script) in [
        (
            "heeds",
            "trap 'echo term >>heeds.term; exit 0' TERM; echo $$ >heeds.began; while :; do sleep 0.01; done",
        ),
        ("hangs", "trap '' TERM; echo $$ >hangs.began; while :; do sleep 0.01; done"),
    ] {
        let address = server.address().to_string();
        let options = ["--lease", "1s", "--kill-after", "100ms"];
        let run = start(&address, folder.0.path(), &options, id, script);
        let pid = folder.line(&format!("{id}.began")).await;
        // The rival is granted it as soon as no renewal comes between.
        let end = Instant::now() + PATIENCE;
        loop {
            server.advance(Span(3_000_000)).await;
            let rival = crate::harness::details::claim("c", id);
            let answer = server.client.clone().claim(rival).await.unwrap().into_inner();
            if matches!(answer.verdict, Some(idempotency_ledger::proto::claim_response::Verdict::Acquired(_)))
            {
                break;
            }
            assert!(Instant::now() < end, "no rival is granted");
        }
        run.ran().await.says(75, &["LEASE_LOST", "the command is ended"]);
        until("the command is gone", || !std::path::Path::new(&format!("/proc/{pid}")).exists()).await;
        assert_eq!(state(&server, id).await, Some(EntryState::InProgress), "the rival's");
    }
    assert_eq!(folder.read("heeds.term"), "term\n", "TERM before KILL");
    server.stop().await;
}

async fn a_deleted_entry_ends_the_command_and_is_reported(kind: Kind) {
    let (server, folder) = (TestServer::start(kind).await, Folder::new());
    let script = "echo $$ >began; exec sleep 1000";
    let options = ["--lease", "1s", "--kill-after", "100ms"];
    let run = start(&server.address().to_string(), folder.0.path(), &options, "deleted", script);
    folder.line("began").await;
    // Entries that were granted less than a minute ago are not deleted.
    server.advance(Span(61_000_000)).await;
    let end = Instant::now() + PATIENCE;
    loop {
        let request = DeleteEntryRequest {
            key: crate::harness::details::claim("c", "deleted").key,
            request_id: "delete".into(),
            expected_version: version(&server, "deleted").await,
            reason: "the customer asked for it".into(),
            force: true,
            ..DeleteEntryRequest::default()
        };
        // A renewal between the two calls changes the version.
        match server.admin.clone().delete_entry(request).await {
            Ok(_) => break,
            Err(status) => assert!(Instant::now() < end, "{status}"),
        }
    }
    let ran = run.ran().await.says(75, &["ENTRY_NOT_FOUND", "the command is ended"]);
    assert!(!ran.err.contains("is over"), "it ends with the first refusal, and not with the lease: {ran:?}");
    server.stop().await;
}

async fn a_silent_ledger_ends_the_command_with_its_lease(kind: Kind) {
    let (server, folder) = (TestServer::start(kind).await, Folder::new());
    let switch = Switch::before(server.address()).await;
    let script = "echo $$ >began; exec sleep 1000";
    let options = ["--lease", "1s", "--confirm-within", "100ms"];
    let run = start(&switch.address.to_string(), folder.0.path(), &options, "silent", script);
    folder.line("began").await;
    switch.silence(true);
    run.ran().await.says(75, &["the lease of 1s is over", "the command is ended"]);
    server.stop().await;
}

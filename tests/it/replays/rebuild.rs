//! A rebuild of ten thousand messages, each delivered twice, beside a purge and operators at work: nothing live changes
//! by a byte.

use std::sync::Arc;
use std::time::Duration;

use idempotency_ledger::domain::{Entry, Key, Span};
use idempotency_ledger::proto::{self, claim_response::Verdict};

use super::{creates, in_run, replayed, server};
use crate::harness::details::{claim, key};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Served, Setup, TestServer};

on_both_stores!(a_rebuild_leaves_everything_live_as_it_is,);

const MESSAGES: usize = 10_000;
const BATCH: usize = 500;

fn id(number: usize) -> String {
    format!("message-{number}")
}

/// Claims each of them, and completes what is granted. Says how many were.
async fn processed(
    server: &mut TestServer,
    run: &str,
    numbers: std::ops::Range<usize>,
    request: impl Fn(&str) -> proto::ClaimRequest,
) -> usize {
    let requests: Vec<_> = numbers.clone().map(|number| request(&id(number))).collect();
    let batch = server.client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap().into_inner();
    let granted = batch.responses.iter().zip(numbers).filter_map(|(response, number)| {
        let Some(Verdict::Acquired(acquired)) = &response.verdict else { return None };
        let key = if run.is_empty() { key("c", &id(number)) } else { in_run(run, &id(number)) };
        let complete = proto::CompleteRequest { key, token: acquired.token, ..Default::default() };
        Some(proto::Settlement { action: Some(proto::settlement::Action::Complete(complete)) })
    });
    let settlements: Vec<_> = granted.collect();
    let count = settlements.len();
    if count > 0 {
        server.client.batch_settle(proto::BatchSettleRequest { settlements }).await.unwrap();
    }
    count
}

async fn live(server: &TestServer) -> Vec<Option<Entry>> {
    let keys: Vec<Key> = (0..MESSAGES).map(|number| Key::new("c", "tests", &id(number))).collect();
    server.entries(&keys).await
}

async fn a_rebuild_leaves_everything_live_as_it_is(kind: Kind) {
    let mut server = server(kind, proto::ReplayMode::Rebuild).await;
    for first in (0..MESSAGES).step_by(BATCH) {
        let granted = processed(&mut server, "", first..first + BATCH, |id| claim("c", id)).await;
        assert_eq!(granted, BATCH);
    }
    let before = live(&server).await;
    assert!(before.iter().all(Option::is_some));
    server.advance(Span::from_secs(120)).await;
    server.admin.create_replay_run(creates("r")).await.unwrap();
    let setup = Setup { purge_every: Duration::from_millis(20), ..Setup::default() };
    let purging = Served::start(Arc::clone(&server.at.store), setup).await;
    let mut granted = 0;
    for first in (0..MESSAGES).step_by(BATCH) {
        for _ in 0..2 {
            granted += processed(&mut server, "r", first..first + BATCH, |id| replayed("r", id)).await;
        }
        // An operator at work in the run.
        let get = proto::GetEntryRequest { key: in_run("r", &id(first)), ..Default::default() };
        let entry = server.admin.get_entry(get).await.unwrap().into_inner().entry.unwrap();
        let redrive = proto::RedriveEntryRequest {
            key: in_run("r", &id(first)),
            request_id: format!("redrive {first}"),
            expected_version: entry.version,
            reason: "once more".into(),
            force: true,
            ..Default::default()
        };
        server.admin.redrive_entry(redrive).await.unwrap();
        granted += processed(&mut server, "r", first..first + 1, |id| replayed("r", id)).await;
    }
    assert_eq!(granted, MESSAGES + MESSAGES / BATCH, "each once, and once more what was redriven");
    assert!(live(&server).await == before, "something live has changed");
    // Deleted in the run, and only there.
    server.advance(Span::from_secs(120)).await;
    let get = proto::GetEntryRequest { key: in_run("r", &id(7)), ..Default::default() };
    let entry = server.admin.get_entry(get).await.unwrap().into_inner().entry.unwrap();
    let delete = proto::DeleteEntryRequest {
        key: in_run("r", &id(7)),
        request_id: "delete".into(),
        expected_version: entry.version,
        reason: "erasure".into(),
        force: true,
        key_hash: String::new(),
    };
    server.admin.delete_entry(delete).await.unwrap();
    assert!(live(&server).await == before, "something live has changed");
    let all = server.at.number("SELECT count(*) FROM @entries").await;
    assert_eq!(all, 2 * MESSAGES as i64 - 1);
    purging.stop().await;
    server.stop().await;
}

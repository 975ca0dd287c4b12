//! A row that another session of the database holds: a Lookup reads what is committed, whatever waits for the same key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::{self, EntryState};
use sqlx::Executor as _;

use crate::harness::details::{acquired, claim, key, refusal};
use crate::harness::postgres as pg;
use crate::harness::server::{Kind, TestServer};

/// How many tasks call at the same time, of each kind.
const TASKS: usize = 8;
/// How many Lookups each of them sends.
const LOOKUPS: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lookups_among_claims_of_a_held_row_are_answered() {
    let mut server = TestServer::start(Kind::Postgres).await;
    acquired(&server.client.claim(claim("c", "held")).await.unwrap().into_inner());
    // The lease and its grace are over: each Claim would write the row.
    server.advance(Span::from_secs(3_600)).await;
    let mut other = pg::shared().connect(server.at.database.as_ref().unwrap()).await;
    other.execute("BEGIN").await.unwrap();
    other.execute("SELECT 1 FROM ledger.entries WHERE id = 'held' FOR UPDATE").await.unwrap();
    let (over, refused) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let claiming = (0..TASKS).map(|_| {
        let (mut client, over, refused) = (server.client.clone(), Arc::clone(&over), Arc::clone(&refused));
        tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let status = client.claim(claim("c", "held")).await.unwrap_err();
                assert_eq!(refusal(&status).reason, "OVERLOADED");
                refused.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let claiming: Vec<_> = claiming.collect();
    let looking = (0..TASKS).map(|_| {
        let mut client = server.client.clone();
        tokio::spawn(async move {
            let mut refused = 0;
            for _ in 0..LOOKUPS {
                match client
                    .lookup(proto::LookupRequest { key: key("c", "held"), ..Default::default() })
                    .await
                {
                    Ok(found) => assert_eq!(found.get_ref().state(), EntryState::InProgress),
                    Err(status) => {
                        assert_eq!(refusal(&status).reason, "OVERLOADED");
                        refused += 1;
                    }
                }
            }
            refused
        })
    });
    let mut lookups_refused = 0;
    for looks in looking.collect::<Vec<_>>() {
        lookups_refused += looks.await.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    for claims in claiming {
        claims.await.unwrap();
    }
    assert!(refused.load(Ordering::Relaxed) > 0, "no Claim met the held row");
    assert_eq!(lookups_refused, 0, "of {} Lookups", TASKS * LOOKUPS);
    other.execute("ROLLBACK").await.unwrap();
    server.stop().await;
}

//! What messages cost that are delivered again: the insert that guesses them new gives back what it meets.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::{self, claim_response::Verdict};

use super::{complete, delivery};
use crate::harness::details::acquired;
use crate::harness::faulty::{FaultyStore, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer, TestStore};

on_both_stores!(
    a_message_that_is_delivered_again_costs_no_statement_of_its_own,
    whoever_meets_an_entry_that_changes_decides_again,
);

async fn server(kind: Kind) -> (TestServer, Arc<Plan>) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    // However often the clock is set, the policies are not read again.
    let policies_trusted_for = Duration::from_secs(86_400);
    (TestServer::on(at, Setup { policies_trusted_for, ..Setup::default() }).await, plan)
}

fn word(response: &proto::ClaimResponse) -> &'static str {
    match response.verdict {
        Some(Verdict::Acquired(ref held)) if held.replayed => "again",
        Some(Verdict::Acquired(ref held)) if held.effect_unknown => "taken over",
        Some(Verdict::Acquired(_)) => "acquired",
        Some(Verdict::Completed(ref done)) if done.result == "done" => "completed",
        Some(Verdict::InProgress(_)) => "in progress",
        ref other => panic!("{other:?}"),
    }
}

async fn ask(server: &mut TestServer, deliveries: &[(&str, u128)]) -> Vec<&'static str> {
    let requests = deliveries.iter().map(|(id, number)| delivery(id, *number)).collect();
    let answer = server.client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap();
    answer.into_inner().responses.iter().map(word).collect()
}

async fn a_message_that_is_delivered_again_costs_no_statement_of_its_own(kind: Kind) {
    type Row = (&'static str, i64, &'static [(&'static str, u128)], &'static [&'static str], usize);
    let (mut server, plan) = server(kind).await;
    for id in ["done", "also done"] {
        let held = acquired(&server.client.claim(delivery(id, 1)).await.unwrap().into_inner());
        server.client.complete(complete(id, held.token, "done")).await.unwrap();
    }
    acquired(&server.client.claim(delivery("held", 1)).await.unwrap().into_inner());
    let rows: [Row; 6] = [
        ("one alone", 0, &[("done", 2)], &["completed"], 1),
        ("all were there", 0, &[("done", 3), ("also done", 4)], &["completed", "completed"], 1),
        (
            "each in a way of its own",
            0,
            &[("done", 5), ("new", 6), ("held", 1), ("also done", 8)],
            &["completed", "acquired", "again", "completed"],
            1,
        ),
        (
            "several of one key",
            0,
            &[("held", 9), ("done", 10), ("held", 11)],
            &["in progress", "completed", "in progress"],
            1,
        ),
        // What the lease has left free is written by a statement more.
        ("after the lease", 60, &[("held", 12), ("done", 13)], &["taken over", "completed"], 2),
        ("one alone after the lease", 60, &[("held", 14)], &["taken over"], 2),
    ];
    for (what, seconds, deliveries, words, writes) in rows {
        server.advance(Span::from_secs(seconds)).await;
        plan.loads.store(0, SeqCst);
        plan.writes.store(0, SeqCst);
        assert_eq!(ask(&mut server, deliveries).await, words, "{what}");
        // SQLite, where a look costs nothing but its time, may look by itself.
        let looked = plan.loads.load(SeqCst);
        assert!(looked <= usize::from(kind == Kind::Sqlite), "{what}: {looked} loads");
        assert_eq!(plan.writes.load(SeqCst), writes, "{what}: writes");
    }
    server.stop().await;
}

/// The entry that the insert gave back is changed before what was decided on it is written: nothing of that counts.
async fn whoever_meets_an_entry_that_changes_decides_again(kind: Kind) {
    let (mut server, plan) = server(kind).await;
    acquired(&server.client.claim(delivery("held", 1)).await.unwrap().into_inner());
    server.advance(Span::from_secs(60)).await;
    plan.close();
    plan.writes.store(0, SeqCst);
    let mut client = server.client.clone();
    let taking_over = tokio::spawn(async move { client.claim(delivery("held", 2)).await });
    plan.let_through();
    plan.arrived(2).await;
    server.at.execute("UPDATE @entries SET version = version + 1, attempts = 7").await;
    plan.open();
    let held = acquired(&taking_over.await.unwrap().unwrap().into_inner());
    assert_eq!((held.attempt, held.effect_unknown), (8, true));
    assert_eq!(plan.writes.load(SeqCst), 3, "the insert, the write that lost, and the one that counts");
    server.stop().await;
}

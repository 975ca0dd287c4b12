//! Several consumers at one server, of which one floods it: the others find room, and wait for small batches.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use idempotency_ledger::proto;
use tokio::task::JoinSet;

use crate::harness::details::{acquired, claim, refusal};
use crate::harness::faulty::{FaultyStore, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer, TestStore};

on_both_stores!(
    a_flood_leaves_room_for_the_claims_of_others,
    batches_are_small_while_several_consumers_are_served,
);

/// A server whose workers all wait for the store, so that what comes now stays in the queue.
struct Busy {
    server: TestServer,
    plan: Arc<Plan>,
    /// Calls that are not answered; how many claims of each were granted, or why they were refused.
    calls: JoinSet<Result<usize, String>>,
    sent: usize,
}

impl Busy {
    async fn new(kind: Kind, workers: usize, queue_max: usize) -> Busy {
        let mut at = TestStore::new(kind).await;
        let plan = Arc::new(Plan::default());
        plan.sessions.store(workers, Ordering::SeqCst);
        at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
        let server = TestServer::on(at, Setup { queue_max, ..Setup::default() }).await;
        plan.close();
        let mut busy = Busy { server, plan, calls: JoinSet::new(), sent: 0 };
        for worker in 1..=workers {
            busy.send("first", 1);
            busy.plan.arrived(worker).await;
        }
        busy
    }

    /// A batch of claims of new messages.
    fn send(&mut self, consumer: &str, claims: usize) {
        let requests = (0..claims).map(|id| claim(consumer, &format!("{}-{id}", self.sent))).collect();
        self.sent += 1;
        let mut client = self.server.client.clone();
        self.calls.spawn(async move {
            match client.batch_claim(proto::BatchClaimRequest { requests }).await {
                Ok(answer) => Ok(answer.into_inner().responses.iter().map(acquired).count()),
                Err(status) => Err(refusal(&status).reason),
            }
        });
    }

    /// The only answer while the store is waited for.
    async fn refused(&mut self) -> String {
        self.calls.join_next().await.unwrap().unwrap().unwrap_err()
    }

    /// How many statements wrote, and how many batches were begun, a second time included.
    fn work(&self) -> (usize, f64) {
        let batches = self.server.metric("idempotency_ledger_batch_commands_count").unwrap();
        (self.plan.writes.load(Ordering::SeqCst), batches)
    }

    /// The store goes on: how many claims were granted, by how many statements, in how many batches.
    async fn ended(mut self) -> (usize, usize, f64) {
        let before = self.work();
        self.plan.open();
        let mut granted = 0;
        while let Some(answered) = self.calls.join_next().await {
            granted += answered.unwrap().unwrap();
        }
        let (statements, batches) = self.work();
        self.server.stop().await;
        (granted, statements - before.0, batches - before.1)
    }
}

/// Invariant 13 of docs/contract.md, section 9. Of 1,024 places 640 are for claims, and 64 more for those of consumers that have
/// no more than 16 in the queue.
async fn a_flood_leaves_room_for_the_claims_of_others(kind: Kind) {
    let mut busy = Busy::new(kind, 1, 1_024).await;
    // So many batches of so many claims at once, of which one is refused: then all others have found room.
    for (consumer, batches, claims) in [
        ("flood", 11, 64),
        ("flood", 1, 1),
        ("a", 1, 17),
        ("a", 17, 1),
        ("b", 3, 8),
        ("flood", 1, 1),
        ("c", 5, 4),
    ] {
        (0..batches).for_each(|_| busy.send(consumer, claims));
        assert_eq!(busy.refused().await, "OVERLOADED", "{consumer}: {batches} of {claims}");
    }
    let (granted, ..) = busy.ended().await;
    assert_eq!(granted, 1 + 640 + 16 + 16 + 16);
}

/// A consumer waits for the batch of another one, and for what another one adds to its own: 125 commands where few batches were
/// measured.
async fn batches_are_small_while_several_consumers_are_served(kind: Kind) {
    for (others, statements, batches) in [(&["first"][..], 1, 1.0), (&["first", "another"], 6, 6.0)] {
        let mut busy = Busy::new(kind, 1, 1_024).await;
        for consumer in others {
            busy.send(consumer, 1);
        }
        // One more than there is room for: all others are in the queue.
        (0..11).for_each(|_| busy.send("first", 63));
        assert_eq!(busy.refused().await, "OVERLOADED");
        assert_eq!(busy.ended().await, (1 + others.len() + 630, statements, batches), "{others:?}");
    }
}

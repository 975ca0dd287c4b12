//! Moves a part of a ledger to another Postgres under load, by the statements and in the order of docs/scaling.md: nothing that
//! was completed is lost, and nothing is granted twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::future::join_all;
use idempotency_ledger::domain::Key;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::{self, claim_response::Verdict};
use sqlx::{Executor as _, Row as _};
use tokio::sync::{Mutex, RwLock, watch};
use tonic::transport::Channel;

use super::subscription::{Subscription, cluster, documented};
use crate::harness::details::{acquired, claim, completed, key, refusal};
use crate::harness::server::{Served, Setup, postgres_store};
use crate::holds::hold;

const PAGE: &str = "docs/scaling.md";
const CLIENTS: u64 = 8;
/// How many messages are completed before the copy begins, while it runs, while it lags, and after the move.
const PHASE: u64 = 300;
const MOVED: &str = "billing";
const STAYS: &str = "shipping";

type Client = LedgerServiceClient<Channel>;

/// What of the ledger is moved, and so what a router sends to the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Consumer,
    HalfOfTheKeys,
}

impl Part {
    fn has(self, consumer: &str, id: &str) -> bool {
        match self {
            Part::Consumer => consumer == MOVED,
            Part::HalfOfTheKeys => Key::new(consumer, "tests", id).hash().as_bytes()[15] < 128,
        }
    }
}

/// The gateway: a call of the moved part takes the lock, so that a move waits for the calls in flight.
struct Router {
    part: Part,
    old: Client,
    new: RwLock<Option<Client>>,
    stop: AtomicBool,
    next: AtomicU64,
    done: watch::Sender<u64>,
    /// The grants of each message. Leases are long: a second one is a wrong one.
    grants: Mutex<HashMap<(&'static str, String), u32>>,
}

impl Router {
    async fn call<T>(&self, consumer: &str, id: &str, ask: impl AsyncFnOnce(Client) -> T) -> T {
        if !self.part.has(consumer, id) {
            return ask(self.old.clone()).await;
        }
        let new = self.new.read().await;
        ask(new.as_ref().unwrap_or(&self.old).clone()).await
    }

    async fn claim(&self, consumer: &'static str, id: &str) -> proto::ClaimResponse {
        let ask = async |mut client: Client| client.claim(claim(consumer, id)).await.unwrap().into_inner();
        let answer = self.call(consumer, id, ask).await;
        if matches!(answer.verdict, Some(Verdict::Acquired(_))) {
            *self.grants.lock().await.entry((consumer, id.to_owned())).or_default() += 1;
        }
        answer
    }

    /// Handles new messages, each followed by a redelivery of an earlier one. The move falls between any two of these calls.
    async fn work(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let consumer = if number.is_multiple_of(2) { MOVED } else { STAYS };
            let id = format!("message {number}");
            let token = acquired(&self.claim(consumer, &id).await).token;
            let request = proto::CompleteRequest { key: key(consumer, &id), token, ..Default::default() };
            let ask = async |mut client: Client| client.complete(request).await.unwrap();
            self.call(consumer, &id, ask).await;
            completed(&self.claim(consumer, &id).await);
            self.done.send_modify(|done| *done += 1);
        }
    }

    async fn has_done(&self, more: u64) {
        let until = *self.done.borrow() + more;
        self.done.subscribe().wait_for(|done| *done >= until).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moving_a_part_of_a_ledger_under_load_loses_and_doubles_nothing() {
    let cluster = cluster().await;
    for (part, from, to) in [
        (Part::Consumer, "all_consumers", "one_consumer"),
        (Part::HalfOfTheKeys, "all_keys", "half_of_the_keys"),
    ] {
        let mut both = Subscription::between(&cluster, from, to).await;
        let served = Served::start(Arc::new(postgres_store(&cluster.url(from))), Setup::default()).await;
        let router = Arc::new(Router {
            part,
            old: served.client.clone(),
            new: RwLock::new(None),
            stop: AtomicBool::new(false),
            next: AtomicU64::new(0),
            done: watch::Sender::new(0),
            grants: Mutex::default(),
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let router = Arc::clone(&router);
                tokio::spawn(async move { router.work().await })
            })
            .collect();
        router.has_done(PHASE).await;

        let publication = match part {
            Part::HalfOfTheKeys => documented(PAGE, "CREATE PUBLICATION ledger_half "),
            Part::Consumer => {
                both.from
                    .execute(sqlx::AssertSqlSafe(documented(PAGE, "ALTER TABLE ledger.entries REPLICA")))
                    .await
                    .unwrap();
                let number =
                    documented(PAGE, "SELECT no, name FROM ledger.consumers").replace("billing", MOVED);
                let number: i32 = both.from.fetch_one(sqlx::AssertSqlSafe(number)).await.unwrap().get(0);
                documented(PAGE, "CREATE PUBLICATION ledger_consumer ").replace("(7)", &format!("({number})"))
            }
        };
        both.from.execute(sqlx::AssertSqlSafe(publication)).await.unwrap();
        let name = if part == Part::Consumer { "ledger_consumer" } else { "ledger_half" };
        both.begin(&cluster, from, name).await;
        router.has_done(PHASE).await;
        // From here on the new ledger lags behind: nothing arrives while another session has this lock.
        let mut lag = cluster.connect(to).await;
        lag.execute("BEGIN; LOCK TABLE ledger.entries IN SHARE MODE").await.unwrap();
        router.has_done(PHASE).await;

        // No call of the moved part is in flight, and no other one begins, until the new ledger has everything.
        let mut route = router.new.write().await;
        if part == Part::Consumer {
            served.admin.clone().hold_consumers(hold(MOVED)).await.unwrap();
        }
        assert!(!both.has_arrived().await, "the new ledger does not lag");
        lag.execute("COMMIT").await.unwrap();
        both.caught_up().await;
        let (mut old_database, mut new_database) = both.end().await;
        let moved = Served::start(Arc::new(postgres_store(&cluster.url(to))), Setup::default()).await;
        *route = Some(moved.client.clone());
        drop(route);
        router.has_done(PHASE).await;
        router.stop.store(true, Ordering::Relaxed);
        join_all(clients).await.into_iter().for_each(Result::unwrap);

        let grants = router.grants.lock().await.clone();
        assert!(grants.values().all(|number| *number == 1), "{part:?}: granted twice: {grants:?}");
        let (mut of_moved, mut of_others) = (0_u64, 0_u64);
        for (consumer, id) in grants.keys() {
            completed(&router.claim(consumer, id).await);
            *(if part.has(consumer, id) { &mut of_moved } else { &mut of_others }) += 1;
        }
        assert!(of_moved >= PHASE && of_others >= PHASE, "{part:?}: {of_moved} {of_others}");
        let mut entries = [0; 2];
        for (database, entries) in [&mut old_database, &mut new_database].into_iter().zip(&mut entries) {
            *entries =
                database.fetch_one("SELECT count(*) FROM ledger.entries").await.unwrap().get::<i64, _>(0);
        }
        assert_eq!(u64::try_from(entries[1]), Ok(of_moved), "{part:?}: the new ledger has these alone");
        if part == Part::Consumer {
            // A client that still goes to the old ledger is granted nothing.
            let status = served.client.clone().claim(claim(MOVED, "a stray one")).await.unwrap_err();
            assert_eq!(refusal(&status).reason, "CONSUMER_DISABLED");
        }
        drop(router);
        moved.stop().await;
        served.stop().await;
    }
}

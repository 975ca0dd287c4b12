//! Clients that go away: while their call waits in the queue, while it is in the store, and when
//! it is answered already. What was sent is carried out, what was not is dropped; no connection is
//! poisoned, and every key stays usable.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use idempotency_ledger::domain::{ClosedBy, Key, Span};
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::{self, claim_response::Verdict};
use sqlx::{Connection as _, Row as _};
use tokio::task::JoinHandle;
use tonic::transport::Channel;

use crate::harness::details::{acquired, claim, completed, key};
use crate::harness::faulty::{FaultyStore, Plan};
use crate::harness::on_both_stores;
use crate::harness::postgres as pg;
use crate::harness::server::{Kind, Setup, TestServer, TestStore, batch_max};
use crate::proof::run::Run;

on_both_stores!(cancelled_calls_leave_nothing_behind);

const IN_STORE: usize = 20;
const QUEUED: usize = 20;
const ANSWERED: usize = 10;

#[derive(Debug, Default)]
struct Counts {
    queued: usize,
    in_store: usize,
    answered: usize,
}

type Call = JoinHandle<()>;

struct Round<'a> {
    server: &'a TestServer,
    plan: &'a Plan,
    /// A connection of the round's own: the server closes one that resets streams by the thousand.
    client: LedgerServiceClient<Channel>,
    number: usize,
}

fn id(round: usize, group: &str, call: usize) -> String {
    format!("{group}-{round}-{call}")
}

fn delivery(id: &str) -> proto::ClaimRequest {
    let claim_id = uuid::Builder::from_random_bytes(Key::new("c", "x", id).hash().into_bytes()).into_uuid();
    proto::ClaimRequest { claim_id: claim_id.to_string(), ..claim("c", id) }
}

impl Round<'_> {
    /// Sends calls, and returns when the server has them: each is queued behind what is held.
    fn send(&self, group: &str, count: usize, tokens: &[i64]) -> Vec<Call> {
        (0..count)
            .map(|call| {
                let mut client = self.client.clone();
                let id = id(self.number, group, call);
                let token = tokens.get(call).copied();
                tokio::spawn(async move {
                    match token {
                        None => drop(client.claim(delivery(&id)).await),
                        Some(token) => {
                            let request =
                                proto::CompleteRequest { key: key("c", &id), token, ..Default::default() };
                            drop(client.complete(request).await);
                        }
                    }
                })
            })
            .collect()
    }

    /// Claims that are held, for the settlements of a group.
    async fn tokens(&self, group: &str, count: usize) -> Vec<i64> {
        let requests = (0..count).map(|call| delivery(&id(self.number, group, call))).collect();
        let answer = self.server.client.clone().batch_claim(proto::BatchClaimRequest { requests }).await;
        answer.unwrap().into_inner().responses.iter().map(|response| acquired(response).token).collect()
    }

    /// How many calls of a group were carried out.
    async fn done(&self, group: &str, count: usize, settled: bool) -> usize {
        let keys: Vec<Key> =
            (0..count).map(|call| Key::new("c", "tests", &id(self.number, group, call))).collect();
        let entries = self.server.entries(&keys).await;
        let done =
            |entry: &idempotency_ledger::domain::Entry| !settled || entry.closed_by == ClosedBy::Complete;
        entries.iter().flatten().filter(|entry| done(entry)).count()
    }

    async fn run(&self, counts: &mut Counts) {
        // Claims in one round, settlements in the next.
        let settles = self.number % 2 == 1;
        let (mut first, mut second) = (Vec::new(), Vec::new());
        if settles {
            first = self.tokens("s", IN_STORE).await;
            second = self.tokens("q", QUEUED).await;
        }
        let before = self.plan.writes.load(Ordering::SeqCst);
        self.plan.close();
        // One call holds the worker; behind it the others gather, and go to the store together.
        let blocker = self.send("b", 1, &[]);
        self.plan.arrived(before + 1).await;
        let in_store = self.send("s", IN_STORE, &first);
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.plan.let_through();
        self.plan.arrived(before + 2).await;
        let queued = self.send("q", QUEUED, &second);
        tokio::time::sleep(Duration::from_millis(5)).await;
        for call in in_store.iter().chain(&queued) {
            call.abort();
        }
        // The server hears of it over the network.
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.plan.open();
        for call in blocker.into_iter().chain(in_store).chain(queued) {
            drop(call.await);
        }
        // Whatever was carried out is in the ledger when a later call was answered.
        self.send("after", 1, &[]).remove(0).await.unwrap();
        let stored = self.done("s", IN_STORE, settles).await;
        let sent_late = self.done("q", QUEUED, settles).await;
        counts.in_store += stored + sent_late;
        counts.queued += IN_STORE - stored + QUEUED - sent_late;

        // Dropped when the ledger has answered: the commit is there, the client is gone.
        let before = self.plan.writes.load(Ordering::SeqCst);
        let answered = self.send("r", ANSWERED, &[]);
        self.plan.arrived(before + 1).await;
        while self.done("r", ANSWERED, false).await < ANSWERED {
            tokio::task::yield_now().await;
        }
        for call in answered {
            call.abort();
            counts.answered += 1;
        }
    }
}

async fn cancelled_calls_leave_nothing_behind(kind: Kind) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    let server = TestServer::on(at, Setup::default()).await;
    let mut run = Run::new("cancel", 10_000);
    let rounds = run.size as usize / (IN_STORE + QUEUED + ANSWERED);
    let mut counts = Counts::default();
    for number in 0..rounds {
        let channel =
            Channel::from_shared(format!("http://{}", server.address())).unwrap().connect().await.unwrap();
        let client = LedgerServiceClient::new(channel);
        Round { server: &server, plan: &plan, client, number }.run(&mut counts).await;
        run.progress((number * (IN_STORE + QUEUED + ANSWERED)) as u64, "cancelled calls");
    }
    let all = counts.queued + counts.in_store + counts.answered;
    println!("{kind:?}: {all} cancelled calls: {counts:?}");
    assert_eq!(all as u64, run.size);
    // A batch of one takes one of a round to the store.
    let in_store = (all / 10).min(rounds * batch_max());
    for (count, least) in
        [(counts.queued, all / 10), (counts.in_store, in_store), (counts.answered, all / 10)]
    {
        assert!(count >= least, "{counts:?}");
    }

    // What was sent and not heard of: the identical request finds its claim.
    let mut client = server.client.clone();
    for call in 0..IN_STORE {
        let found = client.claim(delivery(&id(0, "s", call))).await.unwrap().into_inner();
        acquired(&found);
    }
    // No connection is poisoned: what is acknowledged now is there, seen from another connection.
    let requests = (0..500).map(|number| claim("fresh", &number.to_string())).collect();
    let answer = client.batch_claim(proto::BatchClaimRequest { requests }).await;
    answer.unwrap().into_inner().responses.iter().for_each(|response| drop(acquired(response)));
    if let Some(database) = &server.at.database {
        let mut connection = pg::shared().connect(database).await;
        let count = sqlx::query(
            "SELECT count(*) FROM ledger.entries e JOIN ledger.consumers c ON c.no = e.consumer WHERE c.name = 'fresh'",
        );
        assert_eq!(count.fetch_one(&mut connection).await.unwrap().get::<i64, _>(0), 500);
        let open = sqlx::query(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND state LIKE 'idle in transaction%'",
        );
        assert_eq!(open.fetch_one(&mut connection).await.unwrap().get::<i64, _>(0), 0);
        connection.close().await.unwrap();
    }
    // No key is unusable after lease and grace.
    server.advance(Span::from_secs(31)).await;
    for round in 0..rounds {
        let groups = [("b", 1), ("s", IN_STORE), ("q", QUEUED), ("r", ANSWERED), ("after", 1)];
        let ids =
            groups.iter().flat_map(|(group, count)| (0..*count).map(move |call| id(round, group, call)));
        let requests = ids.map(|id| claim("c", &id)).collect();
        let answer = client.batch_claim(proto::BatchClaimRequest { requests }).await;
        for response in answer.unwrap().into_inner().responses {
            match response.verdict {
                Some(Verdict::Completed(_)) => drop(completed(&response)),
                _ => drop(acquired(&response)),
            }
        }
    }
    run.summary(format!("{kind:?}, {all} cancelled calls: {counts:?}"));
    server.stop().await;
}

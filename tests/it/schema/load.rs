//! Pairs of claim and complete while the schema changes: how many were done, what was refused, and how long the
//! longest call took.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use idempotency_ledger::proto;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::transport::Channel;

use crate::harness::details::{acquired, claim, key, refusal};

/// Each load has keys of its own.
static RUNS: AtomicU64 = AtomicU64::new(0);

#[derive(Default)]
struct Seen {
    pairs: AtomicU64,
    over: AtomicBool,
    refused: Mutex<BTreeMap<String, u64>>,
    longest: Mutex<Duration>,
}

impl Seen {
    fn took(&self, time: Duration) {
        let mut longest = self.longest.lock().unwrap();
        *longest = longest.max(time);
    }
}

pub(crate) struct Load {
    seen: Arc<Seen>,
    clients: Vec<JoinHandle<()>>,
}

/// What the clients saw.
pub(crate) struct Sum {
    pub(crate) pairs: u64,
    /// How often each reason was answered; calls to a server that is gone count as `GONE`.
    pub(crate) refused: BTreeMap<String, u64>,
    pub(crate) longest: Duration,
}

impl Load {
    pub(crate) fn start(client: &LedgerServiceClient<Channel>, clients: usize) -> Load {
        let (seen, own) = (Arc::new(Seen::default()), RUNS.fetch_add(1, Ordering::SeqCst));
        let clients = (0..clients)
            .map(|number| tokio::spawn(work(client.clone(), format!("{own}-{number}"), Arc::clone(&seen))))
            .collect();
        Load { seen, clients }
    }

    pub(crate) fn pairs(&self) -> u64 {
        self.seen.pairs.load(Ordering::SeqCst)
    }

    /// Waits until so many more pairs are done.
    pub(crate) async fn more(&self, pairs: u64) {
        let (before, until) = (self.pairs(), Instant::now() + Duration::from_secs(60));
        while self.pairs() < before + pairs {
            assert!(Instant::now() < until, "no {pairs} pairs within a minute; {:?}", self.seen.refused);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until calls are refused with a reason.
    pub(crate) async fn refused(&self, reason: &str) {
        let until = Instant::now() + Duration::from_secs(20);
        while !self.seen.refused.lock().unwrap().contains_key(reason) {
            assert!(Instant::now() < until, "nothing is refused with {reason}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn end(self) -> Sum {
        self.seen.over.store(true, Ordering::SeqCst);
        for client in self.clients {
            client.await.unwrap();
        }
        Sum {
            pairs: self.seen.pairs.load(Ordering::SeqCst),
            refused: self.seen.refused.lock().unwrap().clone(),
            longest: *self.seen.longest.lock().unwrap(),
        }
    }
}

async fn work(mut client: LedgerServiceClient<Channel>, own: String, seen: Arc<Seen>) {
    for round in 0.. {
        if seen.over.load(Ordering::SeqCst) {
            return;
        }
        let id = format!("{own}-{round}");
        match pair(&mut client, &id, &seen).await {
            Ok(()) => {
                seen.pairs.fetch_add(1, Ordering::SeqCst);
            }
            Err(status) => {
                let known = status.metadata().contains_key("idempotency-ledger-reason");
                let reason = if known { refusal(&status).reason } else { "GONE".into() };
                *seen.refused.lock().unwrap().entry(reason).or_default() += 1;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

async fn pair(client: &mut LedgerServiceClient<Channel>, id: &str, seen: &Seen) -> Result<(), Status> {
    let started = Instant::now();
    let claimed = client.claim(claim("c", id)).await;
    seen.took(started.elapsed());
    let token = acquired(&claimed?.into_inner()).token;
    let started = Instant::now();
    let request = proto::CompleteRequest { key: key("c", id), token, ..Default::default() };
    let completed = client.complete(request).await;
    seen.took(started.elapsed());
    completed.map(drop)
}

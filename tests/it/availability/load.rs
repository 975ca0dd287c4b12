//! Work beside a harm: how much of it is done, what is refused, and for how long nobody is answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use idempotency_ledger::proto;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use tokio::task::JoinHandle;
use tonic::transport::Channel;

use super::scene::passed;
use crate::harness::details::{acquired, claim, key, refusal};
use crate::harness::timer::Timer;

/// Pairs of claim and complete on keys of their own, by many clients, each after the other.
pub(super) struct Load {
    counted: Arc<Counted>,
    clients: Vec<JoinHandle<()>>,
}

#[derive(Default)]
pub(super) struct Counted {
    pairs: AtomicU64,
    over: AtomicBool,
    refused: std::sync::Mutex<BTreeMap<String, u64>>,
    /// The longest time without any answer that was OK.
    last: std::sync::Mutex<Option<Timer>>,
    gap: std::sync::Mutex<Gap>,
}

/// How long no answer arrived.
#[derive(Clone, Copy, Default)]
pub(super) struct Gap {
    /// As a client saw it.
    pub(super) seen: Duration,
    /// As it counts against a bound.
    pub(super) passed: Duration,
}

impl Gap {
    pub(super) fn max(self, other: Gap) -> Gap {
        Gap { seen: self.seen.max(other.seen), passed: self.passed.max(other.passed) }
    }
}

impl Counted {
    pub(super) fn answered(&self) {
        if let Some(last) = self.last.lock().unwrap().replace(Timer::start()) {
            let mut gap = self.gap.lock().unwrap();
            *gap = gap.max(Gap { seen: last.elapsed(), passed: passed(&last) });
        }
    }
}

impl Load {
    pub(super) fn start(client: &LedgerServiceClient<Channel>, clients: u64) -> Load {
        let counted = Arc::new(Counted::default());
        let clients = (0..clients)
            .map(|number| tokio::spawn(work(client.clone(), number, Arc::clone(&counted))))
            .collect();
        Load { counted, clients }
    }

    pub(super) fn pairs(&self) -> u64 {
        self.counted.pairs.load(Ordering::Relaxed)
    }

    /// How many pairs were done meanwhile.
    pub(super) async fn during(&self, time: Duration) -> u64 {
        let before = self.pairs();
        tokio::time::sleep(time).await;
        self.pairs() - before
    }

    /// From now on the longest gap counts.
    pub(super) fn watch_gaps(&self) {
        *self.counted.last.lock().unwrap() = Some(Timer::start());
        *self.counted.gap.lock().unwrap() = Gap::default();
    }

    pub(super) fn gap(&self) -> Gap {
        self.counted.answered();
        *self.counted.gap.lock().unwrap()
    }

    pub(super) fn refused(&self) -> BTreeMap<String, u64> {
        self.counted.refused.lock().unwrap().clone()
    }

    pub(super) async fn end(self) {
        self.counted.over.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.unwrap();
        }
    }
}

pub(super) async fn work(mut client: LedgerServiceClient<Channel>, number: u64, counted: Arc<Counted>) {
    for round in 0_u64.. {
        if counted.over.load(Ordering::Relaxed) {
            return;
        }
        let id = format!("load-{number}-{round}");
        let done = async {
            let answer = client.claim(claim("load", &id)).await?.into_inner();
            counted.answered();
            let token = acquired(&answer).token;
            let request = proto::CompleteRequest { key: key("load", &id), token, ..Default::default() };
            client.complete(request).await
        };
        match done.await {
            Ok(_) => {
                counted.answered();
                counted.pairs.fetch_add(1, Ordering::Relaxed);
            }
            Err(status) => {
                *counted.refused.lock().unwrap().entry(refusal(&status).reason).or_default() += 1;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

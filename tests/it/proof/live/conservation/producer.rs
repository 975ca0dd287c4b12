//! A bridge between a broker and the ledger: it stores messages until each is acknowledged, and some of them again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::store_response::Verdict;
use idempotency_ledger::proto::{self, Advice};
use tonic::transport::{Channel, Endpoint};

use super::account::Account;
use crate::harness::random::Random;
use crate::proof::live::client::{DEADLINE, timely};
use crate::proof::live::world::{KEPT, World};

/// Messages of a batch.
const BATCH: u64 = 12;
/// How long to leave the servers alone after an error.
const PAUSE: Duration = Duration::from_millis(20);
/// How many of a hundred acknowledged messages arrive again.
const AGAIN: u64 = 10;

/// A client of each replica.
pub(super) fn clients(world: &World) -> Vec<LedgerServiceClient<Channel>> {
    let stub = |address| {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        LedgerServiceClient::new(endpoint.connect_timeout(Duration::from_secs(1)).connect_lazy())
    };
    world.replicas.iter().map(stub).collect()
}

pub(super) fn key(number: usize) -> Option<proto::EntryKey> {
    Some(proto::EntryKey {
        consumer: KEPT.into(),
        source: "conservation".into(),
        id: number.to_string(),
        replay_run: String::new(),
    })
}

pub(super) fn payload(number: usize) -> Vec<u8> {
    format!("payload of {number}").into_bytes()
}

fn message(number: usize) -> proto::StoreRequest {
    let message = proto::Message { payload: payload(number).into(), ..Default::default() };
    proto::StoreRequest { key: key(number), message: Some(message), ..Default::default() }
}

pub(super) async fn work(world: Arc<World>, account: Arc<Account>, number: u64) {
    let mut random = Random::new(world.seed ^ ((number + 1) << 40));
    let stubs = clients(&world);
    while let Some(mut left) = account.take(1 + random.below(BATCH) as usize) {
        if left.is_empty() {
            tokio::time::sleep(PAUSE).await;
        }
        while !left.is_empty() {
            let mut stub = stubs[random.below(stubs.len() as u64) as usize].clone();
            let requests: Vec<_> = left.iter().map(|number| message(*number)).collect();
            let answers: Vec<proto::StoreResponse> = if let [one] = &requests[..] {
                let sent = tokio::time::timeout(DEADLINE, stub.store(timely(one.clone()))).await;
                sent.ok().and_then(Result::ok).map(tonic::Response::into_inner).into_iter().collect()
            } else {
                let request = timely(proto::BatchStoreRequest { requests });
                let sent = tokio::time::timeout(DEADLINE, stub.batch_store(request)).await;
                sent.ok().and_then(Result::ok).map(|sent| sent.into_inner().responses).unwrap_or_default()
            };
            if answers.is_empty() {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            let mut again = Vec::new();
            for (number, answer) in left.iter().zip(&answers) {
                match (answer.advice(), answer.verdict.as_ref()) {
                    (Advice::Ack, _) | (_, Some(Verdict::Failed(_))) => {
                        account.acknowledge(*number);
                        if random.percent(AGAIN) {
                            account.stored_again.fetch_add(1, Ordering::Relaxed);
                            again.push(*number);
                        }
                    }
                    (_, Some(Verdict::Rejected(_))) => again.push(*number),
                    (advice, verdict) => {
                        account.fails(format!("the Store of {number} is answered {advice:?}: {verdict:?}"));
                    }
                }
            }
            left = again;
        }
    }
}

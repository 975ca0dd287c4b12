//! A worker: it takes messages of any server, completes, fails or releases them, or dies with them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::{self, FailureKind};
use tonic::transport::Channel;

use super::account::{Account, Grant};
use super::producer::{clients, key, payload};
use crate::harness::random::Random;
use crate::proof::live::client::{DEADLINE, timely};
use crate::proof::live::world::{KEPT, World, now};

/// Messages of a handout.
const MAX: u64 = 20;
/// How often a call is repeated whose outcome is unknown.
const REPEATS: usize = 5;
const PAUSE: Duration = Duration::from_millis(20);

struct Worker {
    account: Arc<Account>,
    random: Random,
    stubs: Vec<LedgerServiceClient<Channel>>,
}

pub(super) async fn work(world: Arc<World>, account: Arc<Account>, number: u64) {
    let random = Random::new(world.seed ^ ((number + 1) << 44));
    let mut worker = Worker { account, random, stubs: clients(&world) };
    while !worker.account.is_over() {
        let request = proto::ClaimNextRequest {
            consumer: KEPT.into(),
            claim_id: worker.random.claim_id(),
            owner: format!("worker {number}"),
            max: i32::try_from(1 + worker.random.below(MAX)).unwrap(),
            wait: Some(prost_types::Duration { seconds: 0, nanos: 200_000_000 }),
            ..Default::default()
        };
        for (number, token) in worker.take(&request).await {
            worker.end(number, token).await;
        }
    }
}

impl Worker {
    fn stub(&mut self) -> LedgerServiceClient<Channel> {
        self.stubs[self.random.below(self.stubs.len() as u64) as usize].clone()
    }

    /// The messages of one call; the same call is repeated at any server while it has no answer.
    async fn take(&mut self, request: &proto::ClaimNextRequest) -> Vec<(usize, i64)> {
        for repeat in 0..=REPEATS {
            let (mut stub, invoked) = (self.stub(), now());
            let sent = tokio::time::timeout(DEADLINE, stub.claim_next(timely(request.clone()))).await;
            let Ok(Ok(answer)) = sent else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let (answer, returned) = (answer.into_inner(), now());
            if repeat > 0 && !answer.messages.is_empty() {
                self.account.repeats.fetch_add(1, Ordering::Relaxed);
            }
            let mut handed = Vec::new();
            for one in answer.messages {
                let (id, acquired) = (one.key.unwrap_or_default().id, one.acquired.unwrap_or_default());
                let number = id.parse().unwrap_or_default();
                if one.message.unwrap_or_default().payload != payload(number) {
                    self.account.fails(format!("{id} was handed out with another payload"));
                }
                let lease = acquired.lease.unwrap_or_default();
                let lease = lease.seconds * 1_000_000 + i64::from(lease.nanos) / 1_000;
                let token = acquired.token;
                self.account.granted(number, Grant { token, invoked, returned, lease });
                handed.push((number, token));
            }
            return handed;
        }
        Vec::new()
    }

    async fn end(&mut self, number: usize, token: i64) {
        let choice = self.random.below(100);
        if choice < 3 {
            self.account.deaths.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.account.settles(number, token, now());
        if choice == 3 {
            self.account.given_up(number);
        }
        for _ in 0..=REPEATS {
            let (mut stub, key) = (self.stub(), key(number));
            let settled = async {
                match choice {
                    3..8 => {
                        let kind = if choice == 3 { FailureKind::Terminal } else { FailureKind::Retryable };
                        let retry_after = Some(prost_types::Duration::default());
                        let kind = kind.into();
                        let request =
                            proto::FailRequest { key, token, kind, retry_after, ..Default::default() };
                        stub.fail(timely(request)).await.map(drop)
                    }
                    8..10 => {
                        let request = proto::ReleaseRequest { key, token, ..Default::default() };
                        stub.release(timely(request)).await.map(drop)
                    }
                    _ => {
                        let request = proto::CompleteRequest { key, token, ..Default::default() };
                        stub.complete(timely(request)).await.map(drop)
                    }
                }
            };
            match tokio::time::timeout(DEADLINE, settled).await {
                Ok(Ok(())) => {
                    if choice >= 10 {
                        self.account.completed(number, token);
                    }
                    return;
                }
                Ok(Err(status)) if is_certain(status.code()) => return,
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// The claim has another end, or another claim has the message.
fn is_certain(code: tonic::Code) -> bool {
    matches!(code, tonic::Code::Aborted | tonic::Code::FailedPrecondition | tonic::Code::NotFound)
}

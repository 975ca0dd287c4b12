//! A consumer that records every call: it claims, has its effect, settles; and sometimes crashes,
//! dawdles, repeats itself, or comes back as a zombie.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use idempotency_ledger::rpc::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::rpc::proto::{self, claim_response::Verdict};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_types::StatusExt as _;

use super::world::{KeyLog, LEASE, World, now};
use crate::harness::random::Random;
use crate::proof::history::{Call, Event, Kind, Outcome, Refusal};

/// The deadline of a call.
const DEADLINE: Duration = Duration::from_secs(3);
/// How often a call is repeated whose outcome is unknown.
const REPEATS: usize = 3;
/// How long to leave a replica alone that was not there.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Client {
    world: Arc<World>,
    number: u64,
    random: Random,
    stubs: Vec<LedgerServiceClient<Channel>>,
    /// Old claims and tokens, to come back with.
    past: Vec<(Arc<KeyLog>, u64, i64)>,
}

impl Client {
    pub(crate) fn new(world: &Arc<World>, number: u64) -> Client {
        let stub = |address| {
            let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
            LedgerServiceClient::new(endpoint.connect_timeout(Duration::from_secs(1)).connect_lazy())
        };
        Client {
            world: Arc::clone(world),
            number,
            random: Random::new(world.seed.wrapping_add((number + 1) << 32)),
            stubs: world.replicas.iter().map(stub).collect(),
            past: Vec::new(),
        }
    }

    pub(crate) fn fresh_claim(&self) -> u64 {
        self.world.new_claim()
    }

    /// Works until the world is over.
    pub(crate) async fn work(mut self) {
        while !self.world.is_over() {
            if !self.past.is_empty() && self.random.percent(8) {
                self.haunt().await;
            } else {
                let key = self.world.pick(&mut self.random);
                self.deliver(&key).await;
            }
        }
    }

    /// One delivery of a message.
    async fn deliver(&mut self, key: &Arc<KeyLog>) {
        let claim = self.world.new_claim();
        let Some(Outcome::Acquired { token, .. }) = self.surely(key, Call::Claim { claim }).await else {
            tokio::time::sleep(Duration::from_micros(500)).await;
            return;
        };
        self.past.push((Arc::clone(key), claim, token));
        if self.past.len() > 20 {
            let forgotten = self.random.below(20) as usize;
            self.past.swap_remove(forgotten);
        }
        if self.random.percent(10) {
            let started = self.random.percent(40);
            self.surely(key, Call::Renew { token, started }).await;
        }
        let accepted = key.effect(token);
        match self.random.below(100) {
            // It dies here: the lease runs out.
            0..5 => self.world.count("abandoned"),
            // It goes on when its lease is long over, or nearly.
            5..8 => {
                let percent = 50 + self.random.below(200) as u32;
                tokio::time::sleep(LEASE * percent / 100).await;
                self.settle(key, token).await;
            }
            _ => self.settle(key, token).await,
        }
        self.world.count(if accepted { "effects" } else { "effects fenced off" });
    }

    async fn settle(&mut self, key: &Arc<KeyLog>, token: i64) {
        let call = self.settlement(token);
        self.surely(key, call).await;
        if self.random.percent(10) {
            self.surely(key, call).await;
        }
    }

    fn settlement(&mut self, token: i64) -> Call {
        match self.random.below(100) {
            0..35 => Call::Complete { token },
            35..48 => Call::Fail { token, kind: Kind::Retryable, at_once: true },
            48..60 => Call::Fail { token, kind: Kind::Retryable, at_once: false },
            60..62 => Call::Fail { token, kind: Kind::Terminal, at_once: false },
            62..64 => Call::Fail { token, kind: Kind::Park, at_once: false },
            64..90 => Call::Release { token },
            _ => Call::Renew { token, started: false },
        }
    }

    /// Something that was sent long ago, or by a worker that was thought dead.
    async fn haunt(&mut self) {
        let which = self.random.below(self.past.len() as u64) as usize;
        let (key, claim, token) = self.past[which].clone();
        let call = if self.random.percent(40) { Call::Claim { claim } } else { self.settlement(token) };
        self.call(&key, call).await;
    }

    /// Repeats the identical call while its outcome is unknown, as the documentation asks.
    pub(crate) async fn surely(&mut self, key: &Arc<KeyLog>, call: Call) -> Option<Outcome> {
        let mut outcome = None;
        for _ in 0..=REPEATS {
            outcome = self.call(key, call).await;
            if !matches!(outcome, Some(Outcome::Unknown) | None) || self.random.percent(10) {
                break;
            }
        }
        outcome
    }

    /// One call, on some replica; none: it was certainly not applied.
    async fn call(&mut self, key: &Arc<KeyLog>, call: Call) -> Option<Outcome> {
        if !key.begin() {
            return None;
        }
        let replica = self.random.below(self.stubs.len() as u64) as usize;
        let mut stub = self.stubs[replica].clone();
        let invoked = now();
        let told =
            tokio::time::timeout(DEADLINE + Duration::from_millis(200), self.send(&mut stub, key, call))
                .await;
        let returned = now();
        let outcome = match told {
            Err(_) => Some(Outcome::Unknown),
            Ok(Ok(outcome)) => Some(outcome),
            Ok(Err(status)) => self.refused(key, &status),
        };
        self.world.calls.fetch_add(1, Ordering::Relaxed);
        let Some(outcome) = outcome else {
            tokio::time::sleep(PAUSE).await;
            return None;
        };
        let returned = if outcome == Outcome::Unknown { i64::MAX } else { returned };
        let event = Event { client: self.number, replica, call, outcome, invoked, returned };
        key.events.lock().unwrap().push(event);
        key.heed(outcome);
        match outcome {
            Outcome::Unknown => self.world.count("outcomes unknown"),
            Outcome::Backoff => self.world.count("told to wait"),
            Outcome::Refused(Refusal::Disabled) => self.world.count("refused as disabled"),
            Outcome::Parked => self.world.count("parked"),
            _ => {}
        }
        Some(outcome)
    }

    async fn send(
        &self,
        stub: &mut LedgerServiceClient<Channel>,
        key: &KeyLog,
        call: Call,
    ) -> Result<Outcome, Status> {
        let key = Some(key.name());
        let zero = Some(prost_types::Duration::default());
        let settled = |replayed, late| Outcome::Settled { replayed, late };
        Ok(match call {
            Call::Claim { claim } => {
                let claim_id = self.world.claim_id(claim);
                let owner = format!("worker {}", self.number);
                let request = proto::ClaimRequest { key, claim_id, owner, ..Default::default() };
                match stub.claim(timely(request)).await?.into_inner().verdict {
                    Some(Verdict::Acquired(it)) => {
                        Outcome::Acquired { token: it.token, replayed: it.replayed, attempt: it.attempt }
                    }
                    Some(Verdict::Completed(_)) => Outcome::Completed,
                    Some(Verdict::InProgress(_)) => Outcome::InProgress,
                    Some(Verdict::Failed(_)) => Outcome::Failed,
                    Some(Verdict::Parked(_)) => Outcome::Parked,
                    Some(Verdict::Backoff(_)) => Outcome::Backoff,
                    other => return Err(Status::internal(format!("unexpected: {other:?}"))),
                }
            }
            Call::Complete { token } => {
                let request = proto::CompleteRequest { key, token, ..Default::default() };
                let it = stub.complete(timely(request)).await?.into_inner();
                settled(it.replayed, it.late)
            }
            Call::Fail { token, kind, at_once } => {
                let kind = match kind {
                    Kind::Retryable => proto::FailureKind::Retryable,
                    Kind::Terminal => proto::FailureKind::Terminal,
                    Kind::Park => proto::FailureKind::Park,
                };
                let request = proto::FailRequest {
                    key,
                    token,
                    kind: kind.into(),
                    retry_after: zero.filter(|_| at_once),
                    ..Default::default()
                };
                settled(stub.fail(timely(request)).await?.into_inner().replayed, false)
            }
            Call::Release { token } => {
                let request = proto::ReleaseRequest { key, token, delay: zero };
                settled(stub.release(timely(request)).await?.into_inner().replayed, false)
            }
            Call::Order { .. } => panic!("consumers give no orders"),
            Call::Renew { token, started } => {
                let request =
                    proto::RenewRequest { key, token, effect_started: started, ..Default::default() };
                settled(false, stub.renew(timely(request)).await?.into_inner().revived)
            }
        })
    }

    /// What an error says of the call; none: it was certainly not applied.
    fn refused(&self, key: &KeyLog, status: &Status) -> Option<Outcome> {
        let details = status.get_error_details();
        let Some(info) = details.error_info() else {
            // Nobody listens: the call was never sent. Any other loss of the connection is unknown.
            let unsent = status.message().contains("tcp connect error");
            self.world.count(if unsent { "replicas not there" } else { "connections lost" });
            return (!unsent).then_some(Outcome::Unknown);
        };
        Some(match info.reason.as_str() {
            "CLAIM_CLOSED" => Outcome::Refused(Refusal::ClaimClosed),
            "EFFECT_STARTED" => Outcome::Refused(Refusal::EffectStarted),
            "LEASE_LOST" => Outcome::Refused(Refusal::LeaseLost),
            "TOKEN_FROM_FUTURE" => Outcome::Refused(Refusal::TokenFromFuture),
            "ENTRY_NOT_FOUND" => Outcome::Refused(Refusal::NotFound),
            "CONSUMER_DISABLED" => Outcome::Refused(Refusal::Disabled),
            "OUTCOME_UNKNOWN" | "DEADLINE_EXCEEDED" | "CANCELLED" => Outcome::Unknown,
            "STORE_UNAVAILABLE" | "OVERLOADED" | "DRAINING" => {
                self.world.count(&format!("refused {}", info.reason));
                return None;
            }
            _ => {
                self.world.problems.lock().unwrap().push(format!("{}: {status:?}", key.id));
                return None;
            }
        })
    }
}

fn timely<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(DEADLINE);
    request
}

//! A consumer that records every call: it claims, has its effect, settles; and sometimes crashes,
//! dawdles, repeats itself, or comes back as a zombie.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::lookup_response::Found;
use idempotency_ledger::proto::{self, claim_response::Verdict};
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};
use tonic_types::StatusExt as _;

use super::inbox;
use super::world::{Failure, KEPT, KeyLog, LEASE, World, now};
use crate::harness::random::Random;
use crate::proof::history::{Call, Event, Kind, Outcome, Refusal, Seen};

/// The deadline of a call.
pub(super) const DEADLINE: Duration = Duration::from_secs(3);
/// How often a call is repeated whose outcome is unknown.
const REPEATS: usize = 3;
/// How long to leave a replica alone that was not there.
const PAUSE: Duration = Duration::from_millis(20);
/// How many in a hundred Claims and Lookups wait for another verdict, and for how many milliseconds: less than a lease, so
/// that no other claim can come and go between two looks of one call.
const WAITING: u64 = 25;
const WAITS: std::ops::Range<u64> = 20..500;

pub(crate) struct Client {
    pub(super) world: Arc<World>,
    pub(super) number: u64,
    pub(super) random: Random,
    pub(super) stubs: Vec<LedgerServiceClient<Channel>>,
    /// How often a proxy has sent the last call; zero where no proxy reports it.
    tries: AtomicU64,
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
            tries: AtomicU64::new(0),
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
                match self.random.below(100) {
                    0..50 if key.consumer == KEPT => drop(self.surely(&key, Call::Store).await),
                    50..75 if key.consumer == KEPT => self.take(KEPT).await,
                    _ => self.deliver(&key).await,
                }
            }
        }
    }

    /// One delivery of a message.
    async fn deliver(&mut self, key: &Arc<KeyLog>) {
        if self.random.percent(10) {
            self.call(key, Call::Lookup).await;
        }
        let claim = self.world.new_claim();
        let Some(Outcome::Acquired { token, .. }) = self.surely(key, Call::Claim { claim }).await else {
            tokio::time::sleep(Duration::from_micros(500)).await;
            return;
        };
        self.process(key, claim, token).await;
    }

    /// Has the effect of a message that this client holds, and settles its claim.
    pub(super) async fn process(&mut self, key: &Arc<KeyLog>, claim: u64, token: i64) {
        self.past.push((Arc::clone(key), claim, token));
        if self.past.len() > 20 {
            let forgotten = self.random.below(20) as usize;
            self.past.swap_remove(forgotten);
        }
        // Its answer was lost: the repeat is answered the same grant, also of a claim that has waited for it.
        if self.random.percent(15) {
            self.call(key, Call::Claim { claim }).await;
        }
        if self.random.percent(10) {
            let started = self.random.percent(40);
            self.surely(key, Call::Renew { token, started }).await;
        }
        if self.random.percent(5) {
            self.call(key, Call::Lookup).await;
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
        let wait = self.wait(call);
        let invoked = now();
        let sent = self.send(&mut stub, key, call, wait);
        let told = tokio::time::timeout(DEADLINE + Duration::from_millis(200), sent).await;
        let returned = now();
        let failed = |why| self.world.failures.lock().unwrap().push(Failure { at: invoked, why });
        let outcome = match &told {
            Err(_) => Some(Outcome::Unknown),
            Ok(Ok(outcome)) => Some(*outcome),
            Ok(Err(status)) => self.refused(&key.id, status),
        };
        match &told {
            Err(_) => failed("the client gave up".to_owned()),
            Ok(Err(status)) if matches!(outcome, None | Some(Outcome::Unknown)) => failed(why(status)),
            Ok(_) => {}
        }
        self.world.calls.fetch_add(1, Ordering::Relaxed);
        self.remember_tries(key, replica, call, invoked, !matches!(told, Ok(Ok(_))));
        let Some(outcome) = outcome else {
            tokio::time::sleep(PAUSE).await;
            return None;
        };
        let returned = if outcome == Outcome::Unknown { i64::MAX } else { returned };
        let event = Event { client: self.number, replica, call, outcome, invoked, returned };
        key.events.lock().unwrap().push(event);
        key.heed(outcome);
        match outcome {
            Outcome::Acquired { replayed: false, .. } => {
                self.world.grants[replica].fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Unknown => self.world.count("outcomes unknown"),
            Outcome::Backoff => self.world.count("told to wait"),
            Outcome::Refused(Refusal::Disabled) => self.world.count("refused as disabled"),
            Outcome::Refused(Refusal::RunUnknown) => self.world.count("refused REPLAY_RUN_UNKNOWN"),
            Outcome::Refused(Refusal::RunClosed) => self.world.count("refused REPLAY_RUN_CLOSED"),
            Outcome::Refused(Refusal::RunForbidden) => self.world.count("refused REPLAY_FORBIDDEN"),
            Outcome::Parked => self.world.count("parked"),
            Outcome::Found { .. } => self.world.count("looked up"),
            _ => {}
        }
        Some(outcome)
    }

    /// How long a call waits for another verdict, where it may; none behind a proxy, which may send it elsewhere meanwhile.
    fn wait(&mut self, call: Call) -> Option<prost_types::Duration> {
        let may_wait = matches!(call, Call::Claim { .. } | Call::Lookup) && self.world.tries == 1;
        if !may_wait || !self.random.percent(WAITING) {
            return None;
        }
        self.world.count("sent with a wait");
        let millis = WAITS.start + self.random.below(WAITS.end - WAITS.start);
        Some(prost_types::Duration { seconds: 0, nanos: i32::try_from(millis).unwrap() * 1_000_000 })
    }

    /// What a proxy has sent before the last try may have been applied too, at any later time.
    fn remember_tries(&self, key: &KeyLog, replica: usize, call: Call, invoked: i64, failed: bool) {
        let told = self.tries.swap(0, Ordering::Relaxed);
        let tries = if told == 0 && failed { self.world.tries } else { told };
        for _ in 1..tries {
            let _counted = key.begin();
            let outcome = Outcome::Unknown;
            let event = Event { client: self.number, replica, call, outcome, invoked, returned: i64::MAX };
            key.events.lock().unwrap().push(event);
            self.world.count("tries of a proxy in vain");
        }
    }

    /// An answer, after a look at what a proxy says of it.
    fn told<T>(&self, answer: Result<Response<T>, Status>) -> Result<T, Status> {
        let tries = |said: &MetadataMap| said.get("x-envoy-attempt-count")?.to_str().ok()?.parse().ok();
        let said = answer.as_ref().map_or_else(Status::metadata, Response::metadata);
        self.tries.store(tries(said).unwrap_or(0), Ordering::Relaxed);
        answer.map(Response::into_inner)
    }

    async fn send(
        &self,
        stub: &mut LedgerServiceClient<Channel>,
        key: &KeyLog,
        call: Call,
        wait: Option<prost_types::Duration>,
    ) -> Result<Outcome, Status> {
        let (log, key) = (key, Some(key.name()));
        let zero = Some(prost_types::Duration::default());
        let settled = |replayed, late| Outcome::Settled { replayed, late };
        Ok(match call {
            Call::Claim { claim } => {
                let claim_id = self.world.claim_id(claim);
                let owner = format!("worker {}", self.number);
                let request = proto::ClaimRequest { key, claim_id, owner, wait, ..Default::default() };
                match self.told(stub.claim(timely(request)).await)?.verdict {
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
            Call::Lookup => {
                let request = proto::LookupRequest { key, wait };
                seen(&self.told(stub.lookup(timely(request)).await)?)?
            }
            Call::Complete { token } => {
                let request = proto::CompleteRequest { key, token, ..Default::default() };
                let it = self.told(stub.complete(timely(request)).await)?;
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
                settled(self.told(stub.fail(timely(request)).await)?.replayed, false)
            }
            Call::Release { token } => {
                let request = proto::ReleaseRequest {
                    key,
                    token,
                    delay: zero,
                    unpin_fingerprint: false,
                    event_type: String::new(),
                };
                settled(self.told(stub.release(timely(request)).await)?.replayed, false)
            }
            Call::Store => inbox::stored(&self.told(stub.store(timely(inbox::message(log))).await)?)?,
            Call::Next { .. } | Call::Order { .. } => panic!("{call:?} is not a call of one key"),
            Call::Renew { token, started } => {
                let request =
                    proto::RenewRequest { key, token, effect_started: started, ..Default::default() };
                settled(false, self.told(stub.renew(timely(request)).await)?.revived)
            }
        })
    }

    /// What an error says of the call; none: it was certainly not applied.
    pub(super) fn refused(&self, key: &str, status: &Status) -> Option<Outcome> {
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
            "REPLAY_RUN_UNKNOWN" => Outcome::Refused(Refusal::RunUnknown),
            "REPLAY_RUN_CLOSED" => Outcome::Refused(Refusal::RunClosed),
            "REPLAY_FORBIDDEN" => Outcome::Refused(Refusal::RunForbidden),
            "OUTCOME_UNKNOWN" | "DEADLINE_EXCEEDED" | "CANCELLED" => Outcome::Unknown,
            // A replica that does not know of the inbox yet.
            "STORE_UNAVAILABLE" | "OVERLOADED" | "DRAINING" | "INBOX_OFF" => {
                self.world.count(&format!("refused {}", info.reason));
                return None;
            }
            "STORE_CLOCK_BEHIND" if !self.world.shifts.lock().unwrap().is_empty() => {
                self.world.count("refused STORE_CLOCK_BEHIND");
                return None;
            }
            _ => {
                self.world.problems.lock().unwrap().push(format!("{key}: {status:?}"));
                return None;
            }
        })
    }
}

/// What a Lookup has found.
fn seen(response: &proto::LookupResponse) -> Result<Outcome, Status> {
    use proto::EntryState as State;
    let waits = response.retry_after.is_some_and(|wait| wait.seconds > 0 || wait.nanos > 0);
    let seen = match (response.state(), &response.found) {
        (State::Unspecified, None) => Seen::Absent,
        (State::Received | State::FailedRetryable, Some(Found::Backoff(_))) => Seen::Backoff,
        (State::Received | State::FailedRetryable, None) => Seen::Due,
        (State::InProgress, Some(Found::InProgress(_))) => {
            if waits {
                Seen::Held
            } else {
                Seen::Expired
            }
        }
        (State::Completed, Some(Found::Completed(_))) => Seen::Completed,
        (State::FailedTerminal, Some(Found::Failed(_))) => Seen::Failed,
        (State::Parked, Some(Found::Parked(_))) => Seen::Parked,
        other => return Err(Status::internal(format!("unexpected: {other:?}"))),
    };
    Ok(Outcome::Found { seen, attempt: response.attempt })
}

/// Who made an error, and why.
pub(super) fn why(status: &Status) -> String {
    match status.get_error_details().error_info() {
        Some(info) => format!("the ledger: {}", info.reason),
        None => format!("on the way: {:?}: {}", status.code(), status.message()),
    }
}

pub(super) fn timely<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(DEADLINE);
    request
}

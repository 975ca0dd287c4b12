//! The inbox amid the claims: the same clients store messages, and take what any server hands out. A handout is one claim of each
//! of its keys.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::{self, EntryState, store_response::Verdict};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::client::{Client, DEADLINE, timely, why};
use super::world::{Failure, KeyLog, World, now};
use crate::proof::history::{Call, Event, Outcome, Seen};

/// How often a ClaimNext is repeated whose outcome is unknown.
const REPEATS: usize = 3;
/// Messages of a handout: few, since all their leases begin with it.
const MAX: u64 = 4;
/// How long the first change of a policy may take.
const SWITCHED: Duration = Duration::from_secs(20);

/// Switches the inbox of a consumer on.
pub(super) async fn switch_on(world: &World, consumer: &str) {
    let request = proto::SetPolicyRequest {
        consumer: consumer.into(),
        request_id: "inbox".into(),
        reason: "its messages are stored".into(),
        policy: Some(proto::Policy { inbox: Some(true), ..Default::default() }),
        ..Default::default()
    };
    let (until, address) = (Instant::now() + SWITCHED, world.replicas[0]);
    let mut admin = AdminServiceClient::connect(format!("http://{address}")).await.unwrap();
    while let Err(status) = admin.set_policy(request.clone()).await {
        assert!(Instant::now() < until, "the inbox cannot be switched on: {status:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(super) fn message(key: &KeyLog) -> proto::StoreRequest {
    let payload = key.id.clone().into_bytes().into();
    proto::StoreRequest {
        key: Some(key.name()),
        message: Some(proto::Message { payload, ..Default::default() }),
        ..Default::default()
    }
}

/// What a Store was answered.
pub(super) fn stored(response: &proto::StoreResponse) -> Result<Outcome, Status> {
    let kept = |before, state: EntryState| {
        let seen = match state {
            EntryState::Received | EntryState::FailedRetryable => Seen::Due,
            EntryState::InProgress => Seen::Held,
            EntryState::Parked => Seen::Parked,
            other => return Err(Status::internal(format!("a Store names the state {other:?}"))),
        };
        Ok(Outcome::Stored { before, seen })
    };
    match &response.verdict {
        Some(Verdict::Stored(it)) => kept(false, it.state()),
        Some(Verdict::AlreadyStored(it)) => kept(true, it.state()),
        Some(Verdict::Completed(_)) => Ok(Outcome::Completed),
        Some(Verdict::Failed(_)) => Ok(Outcome::Failed),
        other => Err(Status::internal(format!("unexpected: {other:?}"))),
    }
}

impl Client {
    /// One ClaimNext, repeated while its outcome is unknown; and what it is handed is processed.
    pub(super) async fn take(&mut self, consumer: &str) {
        let claim = self.world.new_claim();
        let wait =
            self.random.percent(30).then_some(prost_types::Duration { seconds: 0, nanos: 200_000_000 });
        let request = proto::ClaimNextRequest {
            consumer: consumer.into(),
            claim_id: self.world.claim_id(claim),
            owner: format!("worker {}", self.number),
            max: i32::try_from(1 + self.random.below(MAX)).unwrap(),
            wait,
            ..Default::default()
        };
        let mut handed = None;
        for _ in 0..=REPEATS {
            handed = self.handed(claim, &request).await;
            if handed.is_some() {
                break;
            }
        }
        let handed = handed.unwrap_or_default();
        // Its answer was lost: the repeat, at any replica, is answered what this claim still holds.
        if !handed.is_empty() && self.random.percent(20) {
            self.handed(claim, &request).await;
        }
        for (key, token) in handed {
            self.process(&key, claim, token).await;
        }
    }

    /// One call: the keys and the tokens that it was handed. `None` if the outcome is unknown: then each open key may have been handed out.
    async fn handed(
        &mut self,
        claim: u64,
        request: &proto::ClaimNextRequest,
    ) -> Option<Vec<(Arc<KeyLog>, i64)>> {
        let replica = self.random.below(self.stubs.len() as u64) as usize;
        let mut stub = self.stubs[replica].clone();
        let (invoked, before) = (now(), self.world.open_since(now()));
        let sent = stub.claim_next(timely(request.clone()));
        let answered = tokio::time::timeout(DEADLINE + Duration::from_millis(200), sent).await;
        let returned = now();
        self.world.calls.fetch_add(1, Ordering::Relaxed);
        let event = |outcome, returned| Event {
            client: self.number,
            replica,
            call: Call::Next { claim },
            outcome,
            invoked,
            returned,
        };
        let failed = match answered {
            Ok(Ok(answer)) => {
                let mut handed = Vec::new();
                for one in answer.into_inner().messages {
                    let (id, acquired) = (one.key.unwrap_or_default().id, one.acquired.unwrap_or_default());
                    let payload = one.message.unwrap_or_default().payload;
                    let Some(key) = self.world.kept(&id).filter(|_| payload == id.as_bytes()) else {
                        let problem = format!("{id} was handed out with the payload {payload:?}");
                        self.world.problems.lock().unwrap().push(problem);
                        continue;
                    };
                    let proto::Acquired { token, replayed, attempt, .. } = acquired;
                    let _counted = key.begin();
                    let outcome = Outcome::Acquired { token, replayed, attempt };
                    key.events.lock().unwrap().push(event(outcome, returned));
                    self.world.count(if replayed { "handed out again" } else { "handed out" });
                    handed.push((key, token));
                }
                return Some(handed);
            }
            Ok(Err(status)) => {
                let reason = status.get_error_details().error_info().map(|info| info.reason.clone());
                let closed = status.code() == Code::Aborted && reason.as_deref() == Some("CLAIM_CLOSED");
                if closed || self.refused("ClaimNext", &status) != Some(Outcome::Unknown) {
                    return Some(Vec::new());
                }
                why(&status)
            }
            Err(_) => "the client gave up".to_owned(),
        };
        self.world.failures.lock().unwrap().push(Failure { at: invoked, why: failed });
        self.world.count("handouts unknown");
        let mut open = self.world.open_since(invoked);
        open.extend(before);
        open.sort_by(|one, other| one.id.cmp(&other.id));
        open.dedup_by(|one, other| one.id == other.id);
        for key in open {
            let _counted = key.begin();
            key.events.lock().unwrap().push(event(Outcome::Unknown, i64::MAX));
        }
        None
    }
}

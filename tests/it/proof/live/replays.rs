//! An operator who registers replay runs, closes them and forbids them amid the claims, and the record of that. A run is
//! closed or left open, and another generation of runs begins: no name is used twice.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotency_ledger::proto::{self, ReplayMode};
use tonic::{Response, Status};

use super::policies::{admin, word};
use super::world::{World, now};
use crate::harness::random::Random;
use crate::proof::history::{Change, InForce, Refusal, Rules};

/// The consumer whose messages are replayed.
pub(crate) const VIEW: &str = "view";
/// How long the operator waits before a call that was not answered is repeated.
const PAUSE: Duration = Duration::from_millis(100);

/// A step of the operator. There is one operator, so that each step ends before the next one begins.
#[derive(Clone, Debug)]
struct Step {
    what: What,
    /// Who has answered, and from when to when it may have taken effect.
    replica: usize,
    invoked: i64,
    returned: i64,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    Policy(ReplayMode),
    Create(String),
    Close(String),
}

/// All steps, in their order.
#[derive(Default)]
pub(crate) struct Timeline {
    /// Which runs are used at present.
    generation: AtomicU64,
    steps: Mutex<Vec<Step>>,
}

impl Timeline {
    /// The run of a new key: of keys that stand side by side the first is live.
    pub(crate) fn run(&self, beside: usize) -> String {
        let generation = self.generation.load(Ordering::Relaxed);
        match beside {
            0 => String::new(),
            1 => first(generation),
            _ => second(generation),
        }
    }

    /// What may have been in force for the keys of a run, where this is so for live ones.
    pub(crate) fn of(&self, run: &str, live: &InForce, everywhere: i64) -> InForce {
        let (mut registered, mut closed, mut forbidden) = (false, false, true);
        let mut changes = Vec::new();
        let mut refuses = Some(Refusal::RunUnknown);
        for step in self.steps.lock().unwrap().iter() {
            match &step.what {
                What::Policy(mode) => forbidden = *mode == ReplayMode::Forbid,
                What::Create(name) => registered |= name == run,
                What::Close(name) => closed |= name == run,
            }
            let by_now = if !registered {
                Some(Refusal::RunUnknown)
            } else if closed {
                Some(Refusal::RunClosed)
            } else {
                forbidden.then_some(Refusal::RunForbidden)
            };
            if by_now != refuses {
                refuses = by_now;
                let Step { replica, invoked, returned, .. } = *step;
                changes.push(Change { rules: Rules { refuses, ..live.first }, replica, invoked, returned });
            }
        }
        let first = Rules { refuses: Some(Refusal::RunUnknown), ..live.first };
        InForce { first, changes, everywhere, ..live.clone() }
    }
}

fn first(generation: u64) -> String {
    format!("first-{generation}")
}

fn second(generation: u64) -> String {
    format!("second-{generation}")
}

/// Goes on until the world is over, and ends with a policy that allows runs.
pub(crate) async fn work(world: Arc<World>) {
    let random = Random::new(world.seed.wrapping_add(1 << 48));
    let mut operator = Operator { world, random, asked: 0, version: 0 };
    operator.surely(What::Policy(ReplayMode::Rebuild)).await;
    for generation in 0.. {
        operator.world.replays.generation.store(generation, Ordering::Relaxed);
        operator.surely(What::Create(first(generation))).await;
        operator.rest(300, 800).await;
        operator.surely(What::Create(second(generation))).await;
        operator.rest(500, 1_500).await;
        operator.surely(What::Policy(ReplayMode::Forbid)).await;
        operator.rest(500, 1_500).await;
        operator.surely(What::Policy(ReplayMode::Rebuild)).await;
        operator.rest(300, 1_500).await;
        operator.surely(What::Close(first(generation))).await;
        operator.rest(500, 2_000).await;
        if operator.world.is_over() {
            return;
        }
    }
}

struct Operator {
    world: Arc<World>,
    random: Random,
    asked: u64,
    /// Of the policy.
    version: i32,
}

impl Operator {
    /// Leaves the consumers alone for a while; not at all once the world is over.
    async fn rest(&mut self, least: u64, most: u64) {
        let until = now() + (least + self.random.below(most - least)) as i64 * 1_000;
        while !self.world.is_over() && now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Asks one replica or another, with the same id, until one has answered.
    async fn surely(&mut self, what: What) {
        self.asked += 1;
        let id = format!("replays {}-{}", self.world.seed, self.asked);
        let invoked = now();
        loop {
            let replica = self.random.below(self.world.replicas.len() as u64) as usize;
            match self.ask(replica, &what, &id).await {
                Ok(version) => {
                    self.version = version.unwrap_or(self.version);
                    self.world.count(match what {
                        What::Policy(_) => "changes of replay",
                        What::Create(_) => "runs created",
                        What::Close(_) => "runs closed",
                    });
                    let step = Step { what, replica, invoked, returned: now() };
                    return self.world.replays.steps.lock().unwrap().push(step);
                }
                Err(status) => match word(&status).as_str() {
                    "" | "OUTCOME_UNKNOWN" | "DEADLINE_EXCEEDED" | "CANCELLED" | "STORE_UNAVAILABLE"
                    | "OVERLOADED" | "DRAINING" => tokio::time::sleep(PAUSE).await,
                    _ => return self.world.problems.lock().unwrap().push(format!("{what:?}: {status:?}")),
                },
            }
        }
    }

    /// The version of the policy, if that was changed.
    async fn ask(&self, replica: usize, what: &What, id: &str) -> Result<Option<i32>, Status> {
        let mut admin = admin(&self.world, replica);
        let (consumer, request_id, reason) = (VIEW.to_owned(), id.to_owned(), "a replay".to_owned());
        match what {
            What::Policy(mode) => {
                let policy = Some(proto::Policy { replay: (*mode).into(), ..Default::default() });
                let request = proto::SetPolicyRequest {
                    consumer,
                    request_id,
                    expected_version: self.version,
                    reason,
                    policy,
                    ..Default::default()
                };
                let answer = admin.set_policy(request).await.map(Response::into_inner)?;
                Ok(answer.policy.map(|policy| policy.version))
            }
            What::Create(run) => {
                let (replay_run, ends_in) = (run.clone(), None);
                let request =
                    proto::CreateReplayRunRequest { consumer, replay_run, ends_in, request_id, reason };
                admin.create_replay_run(request).await.map(|_| None)
            }
            What::Close(run) => {
                let replay_run = run.clone();
                let request = proto::CloseReplayRunRequest { consumer, replay_run, request_id, reason };
                admin.close_replay_run(request).await.map(|_| None)
            }
        }
    }
}

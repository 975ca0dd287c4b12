//! Operators who change the policies of consumers that are at work, and the record of what they asked,
//! were told and saw.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotency_ledger::proto;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::claim_response::Verdict;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use prost_types::FieldMask;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};
use tonic_types::StatusExt as _;

use super::world::{World, now};
use crate::harness::random::Random;
use crate::proof::steps::pick;

/// The consumers whose policies change, and about how often each operator does it, in milliseconds: by the
/// first many versions are under way at a time, by the last one.
pub(crate) const CHANGING: [(&str, u64); 3] = [("amber", 500), ("coral", 2_500), ("ivory", 6_000)];

/// The consumers of a world with such operators, as often as their keys come.
pub(crate) const CONSUMERS: &[&str] =
    &["careful", "amber", "coral", "ivory", "plain", "amber", "coral", "ivory"];

/// A call that changes a policy.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) consumer: &'static str,
    pub(crate) replica: usize,
    pub(crate) request_id: String,
    pub(crate) expected: i32,
    /// What shall change; none: the policy is deleted.
    pub(crate) patch: Option<proto::Policy>,
    /// Why it must be refused whatever the version.
    pub(crate) bad: Option<&'static str>,
    pub(crate) invoked: i64,
    pub(crate) returned: i64,
    pub(crate) told: Told,
}

#[derive(Clone, Debug)]
pub(crate) enum Told {
    Done { policy: Box<proto::ConsumerPolicy>, replayed: bool },
    Refused(String),
    Unknown,
}

/// What a replica showed, or did with a claim, between two instants.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) consumer: &'static str,
    pub(crate) replica: usize,
    pub(crate) invoked: i64,
    pub(crate) returned: i64,
    pub(crate) what: Sight,
}

#[derive(Clone, Debug)]
pub(crate) enum Sight {
    Policy(Box<proto::ConsumerPolicy>),
    /// A claim was granted; the entry tells under which rules.
    Granted(Box<proto::Entry>),
    /// A claim was refused: no grants.
    Disabled,
    /// The number that an entry is shown with: 0 is the configuration's.
    Number(i32),
}

#[derive(Default)]
pub(crate) struct Record {
    pub(crate) asked: Mutex<Vec<Asked>>,
    pub(crate) seen: Mutex<Vec<Seen>>,
    /// How the changing consumers were configured.
    pub(crate) first: Mutex<Vec<(&'static str, proto::ConsumerPolicy)>>,
}

/// The reason that a change gives, by which its version is found again.
pub(crate) fn reason(request_id: &str) -> String {
    format!("storm: {request_id}")
}

fn channel(world: &World, replica: usize) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", world.replicas[replica])).unwrap();
    endpoint.timeout(Duration::from_secs(5)).connect_timeout(Duration::from_secs(1)).connect_lazy()
}

pub(crate) fn admin(world: &World, replica: usize) -> AdminServiceClient<Channel> {
    AdminServiceClient::new(channel(world, replica))
}

pub(crate) struct Tuner {
    world: Arc<World>,
    number: u64,
    random: Random,
    asked: u64,
}

/// Changes policies until the world is over.
pub(crate) async fn work(world: Arc<World>, number: u64) {
    let mut tuner = Tuner::new(&world, number);
    // What each began with is known before anything changes.
    for (consumer, _) in CHANGING {
        while !tuner.world.is_over() && tuner.look(consumer, 0).await.is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let mut due = CHANGING.map(|(consumer, every)| (consumer, every, now() + 200_000));
    while !tuner.world.is_over() {
        tokio::time::sleep(Duration::from_millis(10)).await;
        for (consumer, every, at) in &mut due {
            if *at <= now() {
                let disabled = tuner.round(consumer).await;
                // Nobody is held off for long.
                let every = if disabled { 200 } else { *every };
                *at = now() + (every / 2 + tuner.random.below(every)) as i64 * 1_000;
            }
        }
    }
}

impl Tuner {
    pub(crate) fn new(world: &Arc<World>, number: u64) -> Tuner {
        let random = Random::new(world.seed.wrapping_add((number + 1) << 44));
        Tuner { world: Arc::clone(world), number, random, asked: 0 }
    }

    /// Looks, changes, looks again; says whether no grants are left.
    pub(crate) async fn round(&mut self, consumer: &'static str) -> bool {
        let replica = self.asked_replica();
        let Some(shown) = self.look(consumer, replica).await else { return false };
        let expected = match self.random.below(100) {
            0..10 => (shown.version - 1).max(0),
            10..13 => shown.version + 1,
            _ => shown.version,
        };
        let asked = self.any(consumer, expected, &shown);
        if self.random.percent(15) {
            // Two at once: one of them must lose.
            let other = self.any(consumer, expected, &shown);
            let elsewhere = self.asked_replica();
            tokio::join!(self.ask(replica, &asked), self.ask(elsewhere, &other));
        } else if self.ask(replica, &asked).await {
            self.probe(consumer, replica).await;
        }
        if self.random.percent(10) {
            let elsewhere = self.asked_replica();
            self.ask(elsewhere, &asked).await;
        }
        if self.random.percent(5) {
            let other = CHANGING.map(|(name, _)| name).into_iter().find(|name| *name != consumer).unwrap();
            self.ask(replica, &Asked { consumer: other, ..asked }).await;
        }
        // The one that is never asked has to know as well, if not at once.
        self.probe(consumer, self.world.replicas.len() - 1).await;
        let elsewhere = self.asked_replica();
        let shown = self.look(consumer, elsewhere).await;
        shown.is_some_and(|shown| shown.policy.unwrap().disabled())
    }

    /// Never the last one: it learns of changes by itself alone.
    fn asked_replica(&mut self) -> usize {
        self.random.below(self.world.replicas.len() as u64 - 1) as usize
    }

    pub(super) fn asking(
        &mut self,
        consumer: &'static str,
        expected: i32,
        patch: Option<proto::Policy>,
        bad: Option<&'static str>,
    ) -> Asked {
        self.asked += 1;
        let request_id = format!("policy {}-{}-{}", self.world.seed, self.number, self.asked);
        let told = Told::Unknown;
        Asked { consumer, replica: 0, request_id, expected, patch, bad, invoked: 0, returned: 0, told }
    }

    /// Some change, sometimes one that no policy allows.
    fn any(&mut self, consumer: &'static str, expected: i32, shown: &proto::ConsumerPolicy) -> Asked {
        if expected > 0 && self.random.percent(12) {
            return self.asking(consumer, expected, None, None);
        }
        let (patch, bad) = some_change(&mut self.random, shown.policy.as_ref().unwrap());
        self.asking(consumer, expected, Some(patch), bad)
    }

    /// Asks for a change; whether it is done now, and was not before.
    pub(super) async fn ask(&self, replica: usize, asked: &Asked) -> bool {
        let mut admin = admin(&self.world, replica);
        let (request_id, reason) = (asked.request_id.clone(), reason(&asked.request_id));
        let (consumer, expected_version) = (asked.consumer.to_owned(), asked.expected);
        let invoked = now();
        let answer = match &asked.patch {
            Some(patch) => {
                let (policy, update_mask) = masked(patch, asked.request_id.ends_with('3'));
                let policy = Some(policy);
                let request = proto::SetPolicyRequest {
                    consumer,
                    request_id,
                    expected_version,
                    reason,
                    policy,
                    update_mask,
                    validate_only: false,
                };
                let answer = admin.set_policy(request).await.map(Response::into_inner);
                answer.map(|answer| (answer.policy.unwrap(), answer.replayed))
            }
            None => {
                let request = proto::DeletePolicyRequest { consumer, request_id, expected_version, reason };
                let answer = admin.delete_policy(request).await.map(Response::into_inner);
                answer.map(|answer| (answer.policy.unwrap(), answer.replayed))
            }
        };
        let returned = now();
        let told = match answer {
            Ok((policy, replayed)) => Told::Done { policy: Box::new(policy), replayed },
            Err(status) => match word(&status).as_str() {
                "" | "OUTCOME_UNKNOWN" | "DEADLINE_EXCEEDED" | "CANCELLED" => Told::Unknown,
                reason => Told::Refused(reason.to_owned()),
            },
        };
        self.world.count(match &told {
            Told::Done { replayed: true, .. } => "changes of policies repeated",
            Told::Done { .. } => "changes of policies",
            Told::Refused(_) => "changes of policies refused",
            Told::Unknown => "changes of policies unknown",
        });
        let done = matches!(told, Told::Done { replayed: false, .. });
        let asked = Asked { replica, invoked, returned, told, ..asked.clone() };
        self.world.policies.asked.lock().unwrap().push(asked);
        done
    }

    /// The policy that a replica goes by.
    pub(super) async fn look(&self, consumer: &'static str, replica: usize) -> Option<proto::ConsumerPolicy> {
        let request = proto::GetPolicyRequest { consumer: consumer.into() };
        let invoked = now();
        let shown = admin(&self.world, replica).get_policy(request).await.ok()?.into_inner().policy?;
        let what = Sight::Policy(Box::new(shown.clone()));
        self.note(Seen { consumer, replica, invoked, returned: now(), what });
        let mut first = self.world.policies.first.lock().unwrap();
        if shown.version == 0 && !first.iter().any(|(name, _)| *name == consumer) {
            first.push((consumer, shown.clone()));
        }
        Some(shown)
    }

    /// Claims a new key, and looks by which rules that was decided.
    pub(super) async fn probe(&self, consumer: &'static str, replica: usize) {
        let channel = channel(&self.world, replica);
        let id = format!("probe {}", self.world.new_claim());
        let key = Some(proto::EntryKey {
            consumer: consumer.into(),
            source: "live".into(),
            id,
            ..Default::default()
        });
        let request = proto::ClaimRequest { key: key.clone(), ..Default::default() };
        let invoked = now();
        let answer = LedgerServiceClient::new(channel.clone()).claim(request).await;
        let returned = now();
        let what = match answer {
            Ok(answer) if matches!(answer.get_ref().verdict, Some(Verdict::Acquired(_))) => {
                let request = proto::GetEntryRequest { key, ..Default::default() };
                let asked = now();
                let Ok(shown) = AdminServiceClient::new(channel).get_entry(request).await else { return };
                let shown = shown.into_inner();
                let what = Sight::Number(shown.policy_version_in_force);
                self.note(Seen { consumer, replica, invoked: asked, returned: now(), what });
                Sight::Granted(Box::new(shown.entry.unwrap()))
            }
            Err(status) if word(&status) == "CONSUMER_DISABLED" => Sight::Disabled,
            Err(status) if ["", "STORE_UNAVAILABLE", "OUTCOME_UNKNOWN"].contains(&word(&status).as_str()) => {
                return;
            }
            other => return self.world.problems.lock().unwrap().push(format!("a probe: {other:?}")),
        };
        self.world.count("probes of policies");
        self.note(Seen { consumer, replica, invoked, returned, what });
    }

    fn note(&self, seen: Seen) {
        self.world.policies.seen.lock().unwrap().push(seen);
    }
}

/// The reason of an error; empty: the connection was lost.
pub(crate) fn word(status: &Status) -> String {
    status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default()
}

fn millis(millis: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds: millis / 1_000, nanos: (millis % 1_000) as i32 * 1_000_000 })
}

/// A change of some fields; and why it must be refused, if it must.
pub(crate) fn some_change(random: &mut Random, now: &proto::Policy) -> (proto::Policy, Option<&'static str>) {
    const DAY: i64 = 86_400_000;
    let mut patch = proto::Policy::default();
    if now.disabled() && random.percent(80) {
        patch.disabled = Some(false);
        return (patch, None);
    }
    match random.below(100) {
        0..5 => {
            patch.lease = millis(0);
            return (patch, Some("INVALID_FIELD"));
        }
        5..10 => {
            patch.max_redelivery_window = millis(60 * DAY);
            patch.abandoned_retention = millis(61 * DAY);
            return (patch, Some("RETENTION_TOO_SHORT"));
        }
        _ => {}
    }
    for _ in 0..1 + random.below(3) {
        match random.below(8) {
            0 => patch.lease = millis(*pick(random, &[1_000, 1_300, 2_000])),
            1 => patch.reclaim_grace = millis(*pick(random, &[0, 100, 300])),
            2 => {
                let all = [proto::OnExpiry::Reclaim, proto::OnExpiry::Park, proto::OnExpiry::ParkIfStarted];
                patch.set_on_expiry(*pick(random, &all));
            }
            3 => patch.max_attempts = Some(*pick(random, &[0, 0, 3, 6])),
            4 | 5 => {
                patch.backoff = Some(proto::BackoffPolicy {
                    initial: millis(*pick(random, &[0, 40, 150])),
                    multiplier: Some(*pick(random, &[1.0, 2.0])),
                    max: millis(*pick(random, &[150, 600])),
                    jitter: Some(*pick(random, &[0.0, 0.5])),
                });
            }
            6 => patch.retention = millis(*pick(random, &[DAY, 2 * DAY, 7 * DAY, 30 * DAY])),
            _ => patch.disabled = Some(true),
        }
    }
    (patch, None)
}

/// The change as it is sent: alone, or named by a mask and with something beside it that the mask leaves out.
fn masked(patch: &proto::Policy, mask: bool) -> (proto::Policy, Option<FieldMask>) {
    if !mask {
        return (patch.clone(), None);
    }
    let mut named = Vec::new();
    let mut name = |set: bool, path: &str| named.extend(set.then(|| path.to_owned()));
    name(patch.lease.is_some(), "lease");
    name(patch.reclaim_grace.is_some(), "reclaim_grace");
    name(patch.on_expiry != 0, "on_expiry");
    name(patch.max_attempts.is_some(), "max_attempts");
    for path in ["backoff.initial", "backoff.multiplier", "backoff.max", "backoff.jitter"] {
        name(patch.backoff.is_some(), path);
    }
    name(patch.retention.is_some(), "retention");
    name(patch.max_redelivery_window.is_some(), "max_redelivery_window");
    name(patch.abandoned_retention.is_some(), "abandoned_retention");
    name(patch.disabled.is_some(), "disabled");
    let lease = patch.lease.or(millis(7_777));
    (proto::Policy { lease, ..patch.clone() }, Some(FieldMask { paths: named }))
}

//! What a ClaimNext takes of all lanes of a consumer, and the switch of the inbox. ClaimNext promises no order: every message
//! that it hands out is one that the spec deems due and grantable; all others are as they were, or are parked as the spec parks
//! them; and what became due since the last look is passed over by no call that had room for it.

mod drain;
mod rows;

use std::fmt;

use idempotency_ledger::domain::{KeyHash, Policy, Span};
use idempotency_ledger::proto::{self, ledger_service_client::LedgerServiceClient};
use tonic::Code;
use tonic::transport::Channel;

use self::rows::{
    Place, due, due_place, judged, logs, note, payload_of, place_of, reason, request, row, untouched, world,
};
use super::{Lane, SMALL};
use crate::harness::random::Random;
use crate::harness::server::TestServer;
use crate::proof::spec::{self, Look, Row, Said};
use crate::proof::{reported, steps};

/// How far behind the clock the cursor of a consumer stays: what became due later is found by the next look.
const BEHIND: i64 = 2_000_000;
/// How many times in a round something is done with a consumer.
const CONSUMERS_OF_A_ROUND: usize = 3;
/// How long a handout is remembered.
const REMEMBERED: i64 = 3_600_000_000;

type Client = LedgerServiceClient<Channel>;
/// Where a due message is read: messages of one instant are read in the order of their keys.
type DuePlace = (i64, KeyHash);
/// The place before all messages.
const START: DuePlace = (i64::MIN, KeyHash::nil());
/// A problem, and the steps that led to it.
type Failed = (String, String);

/// A bound on the age of the backlog is read by a clock of the machine: these servers have none.
pub(super) fn without_backlog(policy: Policy) -> Policy {
    Policy { backlog_max_age: Span::ZERO, backlog_full: false, ..policy }
}

/// A call that was handed messages.
struct Handout {
    consumer: usize,
    at: i64,
    look: Look,
    places: Vec<Place>,
}

#[derive(Default)]
struct Counts {
    handed: usize,
    alone: usize,
    parked: usize,
    refused: usize,
    repeated: usize,
    closed: usize,
    switched: usize,
    drained: usize,
}

/// What one look came to.
struct Taken {
    places: Vec<Place>,
    parked: usize,
    refused: bool,
    /// The first message that was in reach, and not handed out.
    first_left: Option<DuePlace>,
}

pub(super) struct Inbox {
    random: Random,
    /// For each consumer, the place before which its cursor stands: each message from there on is in reach.
    passed: Vec<DuePlace>,
    /// The version of each consumer's policy.
    versions: Vec<i32>,
    handouts: Vec<Handout>,
    counts: Counts,
}

impl fmt::Display for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { handed, alone, parked, refused, repeated, closed, switched, drained } = self.counts;
        write!(
            f,
            "{handed} messages handed out, {alone} of them alone, {parked} parked, {repeated} handouts repeated, {closed} closed, \
             {refused} calls refused, {switched} policies switched, {drained} messages drained"
        )
    }
}

impl Inbox {
    pub(super) fn new(seed: u64, consumers: usize) -> Inbox {
        Inbox {
            random: Random::new(seed ^ 0x0b0c),
            passed: vec![START; consumers],
            versions: vec![0; consumers],
            handouts: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Each kind of answer was seen, where the run is long enough.
    pub(super) fn was_seen(&self, size: u64) {
        let Counts { handed, alone, parked, refused, repeated, closed, switched, drained } = self.counts;
        let all = [handed, alone, parked, refused, repeated, closed, switched, drained];
        assert!(
            size < SMALL || all.iter().all(|count| *count > 0),
            "an answer of the inbox was never seen: {self}"
        );
    }

    /// For some consumers a ClaimNext, a repeat of one, or a change of the policy.
    pub(super) async fn step(
        &mut self,
        server: &TestServer,
        lanes: &mut [Lane],
        policies: &mut [Policy],
        now: i64,
    ) -> Result<(), Failed> {
        for _ in 0..CONSUMERS_OF_A_ROUND {
            let consumer = self.random.below(policies.len() as u64) as usize;
            let done = self.step_of(server, lanes, &mut policies[consumer], (consumer, now)).await;
            done.map_err(|problem| (problem, logs(lanes, consumer)))?;
        }
        Ok(())
    }

    async fn step_of(
        &mut self,
        server: &TestServer,
        lanes: &mut [Lane],
        policy: &mut Policy,
        (consumer, now): (usize, i64),
    ) -> Result<(), String> {
        let mut client = server.client.clone();
        match self.random.below(100) {
            0..60 => {
                let max = 1 + self.random.below(6) as usize;
                let since = self.passed[consumer];
                let taken = self.look(server, &mut client, lanes, (consumer, max), (now, since)).await?;
                // The cursor passes nothing that it has seen and not handed out.
                let latest = (now - BEHIND, KeyHash::nil());
                self.passed[consumer] = since.max(taken.first_left.map_or(latest, |left| left.min(latest)));
                Ok(())
            }
            60..85 => self.again(&mut client, lanes, consumer, now).await,
            85..87 => {
                self.switch(server, lanes, policy, consumer).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn new_look(&mut self, max: usize) -> Look {
        let who = steps::claimant(&mut self.random, &mut Vec::new());
        let lease = self.random.percent(30).then(|| *steps::pick(&mut self.random, &[1, 3, 15]) * 1_000_000);
        // Less than any message, or more than all.
        let bytes_max = if self.random.percent(15) { 1 } else { 0 };
        Look { who, lease, max, bytes_max }
    }

    /// One ClaimNext. What is due at `since` or behind it is in reach.
    async fn look(
        &mut self,
        server: &TestServer,
        client: &mut Client,
        lanes: &mut [Lane],
        (consumer, max): (usize, usize),
        (now, since): (i64, DuePlace),
    ) -> Result<Taken, String> {
        let (due, look) = (due(lanes, consumer, now), self.new_look(max));
        let suspects = due.iter().filter(|place| spec::suspect(row(lanes, **place), now)).count();
        let answer = client.claim_next(request(consumer, &look)).await.map(tonic::Response::into_inner);
        note(lanes, consumer, &format!("at {now} {look:?} of {due:?}\n  said: {answer:?}"));
        let (messages, refused) = match answer {
            Ok(answer) if answer.messages.is_empty() && answer.retry_after.is_none() => {
                return Err("an empty answer without retry_after".into());
            }
            Ok(answer) => (answer.messages, None),
            Err(status) => (Vec::new(), Some(reported::refused(&status, None))),
        };
        let mut places = Vec::new();
        for handed in &messages {
            let place = place_of(lanes, handed)?;
            if !due.contains(&place) || places.contains(&place) {
                return Err(format!("{handed:?} is not due, or was handed out twice"));
            }
            let alone = spec::suspect(row(lanes, place), now);
            if alone && messages.len() > 1 {
                return Err(format!("a suspect is handed out with {} others", messages.len() - 1));
            }
            self.counts.alone += usize::from(alone);
            let after = judged(lanes, place, handed, &look, now)?;
            lanes[place.0].becomes(place.1, Some(after));
            lanes[place.0].known.push(look.who.clone());
            places.push(place);
        }
        let left: Vec<Place> = due.into_iter().filter(|place| !places.contains(place)).collect();
        let (parked, left) = untouched(server, lanes, &left, &look, now).await?;
        let has_room = messages.len() + parked < max && look.bytes_max == 0 && suspects == 0;
        let left_at = left.iter().map(|(place, _)| due_place(lanes, *place));
        let first_left = left_at.filter(|at| *at >= since).min();
        let nothing = messages.is_empty() && parked == 0;
        match &refused {
            Some(said) if !left.iter().any(|(_, by_spec)| reason(by_spec) == reason(said)) => {
                return Err(format!(
                    "the call is refused: {said:?}; the spec refuses no message so: {left:?}"
                ));
            }
            None if first_left.is_some() && (has_room || nothing) => {
                return Err(format!("with room for them, these were not handed out: {left:?}"));
            }
            _ => {}
        }
        if messages.len() > if look.bytes_max == 1 { 1 } else { max } {
            return Err(format!("{} messages are more than were asked for", messages.len()));
        }
        self.counts.handed += messages.len();
        self.counts.parked += parked;
        self.counts.refused += usize::from(refused.is_some());
        if !places.is_empty() {
            self.handouts.push(Handout { consumer, at: now, look, places: places.clone() });
        }
        Ok(Taken { places, parked, refused: refused.is_some(), first_left })
    }

    /// A repeat of a handout, by its own caller or by another one.
    async fn again(
        &mut self,
        client: &mut Client,
        lanes: &mut [Lane],
        consumer: usize,
        now: i64,
    ) -> Result<(), String> {
        self.handouts.retain(|handout| now - handout.at < REMEMBERED);
        let own: Vec<&Handout> =
            self.handouts.iter().filter(|handout| handout.consumer == consumer).collect();
        if own.is_empty() {
            return Ok(());
        }
        let Handout { look, places, .. } = own[self.random.below(own.len() as u64) as usize];
        let (mut look, places) = (look.clone(), places.clone());
        if self.random.percent(10) {
            look.who.1 = "another".into();
        }
        let expected: Vec<(Place, Said, Option<Row>)> = places
            .iter()
            .filter_map(|place| {
                let row = lanes[place.0].rows[place.1].as_ref()?;
                let (said, after) = spec::handed_again(row, &look, &world(lanes, *place, now, 0))?;
                Some((*place, said, after))
            })
            .collect();
        let answer = client.claim_next(request(consumer, &look)).await.map(tonic::Response::into_inner);
        note(lanes, consumer, &format!("at {now} again {look:?}\n  said: {answer:?}\n  spec: {expected:?}"));
        let messages = match answer {
            Ok(answer) => answer.messages,
            Err(status) => {
                let closed = status.code() == Code::Aborted
                    && reason(&reported::refused(&status, None)) == Some("CLAIM_CLOSED");
                self.counts.closed += 1;
                let right = closed && expected.is_empty();
                return if right { Ok(()) } else { Err(format!("{status:?}, by the spec {expected:?}")) };
            }
        };
        let mut said = Vec::new();
        for handed in &messages {
            let place = place_of(lanes, handed)?;
            payload_of(lanes, place, handed)?;
            said.push((place, reported::handed(handed.acquired.as_ref().expect("a claim"))));
        }
        said.sort_by_key(|(place, _)| *place);
        let mut by_spec: Vec<_> = expected.iter().map(|(place, said, _)| (*place, said.clone())).collect();
        by_spec.sort_by_key(|(place, _)| *place);
        if said != by_spec || said.is_empty() {
            return Err(format!("the repeat is answered {said:?}, by the spec {by_spec:?}"));
        }
        for ((lane, at), _, after) in expected {
            let after = after.or_else(|| lanes[lane].rows[at].clone());
            lanes[lane].becomes(at, after);
        }
        self.counts.repeated += 1;
        Ok(())
    }

    /// The inbox of a consumer is switched on or off, or the consumer is disabled or enabled.
    async fn switch(
        &mut self,
        server: &TestServer,
        lanes: &mut [Lane],
        policy: &mut Policy,
        consumer: usize,
    ) {
        // It is enabled again soon.
        let disables = policy.disabled || self.random.percent(30);
        let change = if disables {
            policy.disabled = !policy.disabled;
            proto::Policy { disabled: Some(policy.disabled), ..Default::default() }
        } else {
            policy.inbox = !policy.inbox;
            proto::Policy { inbox: Some(policy.inbox), ..Default::default() }
        };
        self.counts.switched += 1;
        let request = proto::SetPolicyRequest {
            consumer: format!("c{consumer}"),
            request_id: format!("switch {}", self.counts.switched),
            expected_version: self.versions[consumer],
            reason: "lockstep".into(),
            policy: Some(change.clone()),
            ..Default::default()
        };
        let set = server.admin.clone().set_policy(request).await.unwrap().into_inner();
        self.versions[consumer] = set.policy.expect("a policy").version;
        note(lanes, consumer, &format!("{change:?}"));
        for lane in lanes.iter_mut().filter(|lane| lane.consumer == consumer) {
            for own in &mut lane.policies {
                (own.inbox, own.disabled) = (policy.inbox, policy.disabled);
            }
        }
    }
}

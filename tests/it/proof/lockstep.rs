//! A whole server against the spec: random calls and batches over random keys, through the generated
//! client, on a clock that stands still between the rounds. Answers, advice, stored rows and what
//! the purge takes must be the spec's.
//!
//! `inbox` is what a ClaimNext takes of all lanes of a consumer, the erasure, and the drain at the end of each lane.

mod inbox;
mod orders;

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use idempotency_ledger::domain::{
    Key, Namespace, Policy, ReplayMode, RunMode, Span, Standing, State, StoreTime,
};
use idempotency_ledger::proto;

use self::inbox::Inbox;
use super::reconciled::Seen;
use super::run::Run;
use super::spec::{self, Op, Row, Said, World};
use super::wire::{self, Answer};
use super::{by_core, steps};
use crate::harness::on_both_stores;
use crate::harness::random::Random;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(the_server_and_the_spec_agree);

/// Sequences that run side by side, so that the server makes batches of them.
const LANES: u64 = 16;
const OPERATIONS: u64 = 50;
/// Sequences of the small size: the walk meets each of its cases in that many.
const SMALL: u64 = 320;
const CONSUMERS: usize = 8;
/// Keys of a lane: the second one is of a replay run.
const KEYS: usize = 3;
const IN_RUN: usize = 1;
/// How many of a hundred calls store a message, where the key has no entry and where it has one.
const STORES_NEW: u64 = 60;
const STORES: u64 = 15;
/// One call in this number waits.
const WAITS_ONE_IN: u64 = 400;
/// From such a jump on the purge may find something.
const PURGEABLE: i64 = 3_600_000_000;

/// First versions are multiples of this, and each write adds one.
const FIRST_VERSIONS: i64 = 1_000;

/// How a call was sent.
#[derive(Clone, Copy, Default)]
struct Asked {
    /// Its claim_id was in the batch before.
    twice: bool,
    waited: bool,
}

/// One sequence: some keys of one consumer.
struct Lane {
    random: Random,
    consumer: usize,
    /// By which each key is judged: the consumer's, and how the key's run stands.
    policies: Vec<Policy>,
    keys: Vec<proto::EntryKey>,
    rows: Vec<Option<Row>>,
    /// How often each row was changed since it was new, by the spec.
    changes: Vec<i64>,
    known: Vec<(u128, String)>,
    /// The payload of each key's message, as it was stored last.
    payloads: Vec<Vec<u8>>,
    /// The effects of each key that were reconciled.
    seen: Vec<Seen>,
    log: Vec<String>,
}

async fn the_server_and_the_spec_agree(kind: Kind) {
    let mut run = Run::new("lockstep", SMALL);
    let mut random = Random::new(run.seed);
    let replay = ReplayMode::Rebuild;
    let mut policies: Vec<Policy> = (0..CONSUMERS)
        .map(|_| inbox::without_backlog(Policy { replay, ..steps::policy(&mut random) }))
        .collect();
    let mut setup = Setup { purge_every: Duration::from_millis(10), ..Setup::default() };
    for (number, policy) in policies.iter().enumerate() {
        setup = setup.with(&format!("c{number}"), policy.clone());
    }
    let server = TestServer::start_with(kind, setup.clone()).await;
    let mut inbox = Inbox::new(run.seed, CONSUMERS);
    for (number, _) in policies.iter().enumerate().filter(|(_, policy)| policy.held_by.is_some()) {
        // No name of a consumer here begins with that of another one.
        let request = proto::HoldConsumersRequest {
            prefix: format!("c{number}"),
            request_id: "hold".into(),
            reason: "lockstep".into(),
            ..Default::default()
        };
        server.admin.clone().hold_consumers(request).await.unwrap();
    }
    let (mut sequences, mut operations, mut purged, mut folded) = (0, 0, 0, 0);
    while sequences < run.size {
        // The second key of each sequence is of a run that is created now, and of the message of the first key.
        let name = format!("{}{sequences}", spec::RUN);
        let mut ends = Vec::new();
        for (consumer, policy) in policies.iter().enumerate() {
            ends.push(create(&server, consumer, &name, policy.retention).await);
        }
        let mut lanes: Vec<Lane> =
            (0..LANES).map(|lane| Lane::new(run.seed, sequences + lane, &policies, &name, &ends)).collect();
        for round in 0..OPERATIONS {
            let driver = &lanes[random.below(LANES) as usize];
            let now = server.at.now().micros();
            let jump = steps::advance(&mut random, driver.rows[0].as_ref(), &driver.policies[0], now);
            if jump > 0 {
                server.advance(Span(jump)).await;
            }
            let now = now + jump;
            if jump >= PURGEABLE {
                server.at.until_purged().await;
            }
            if jump >= PURGEABLE || round % 10 == 9 {
                match compare(&server, &mut lanes, now, jump >= PURGEABLE).await {
                    Ok((gone, fewer_writes)) => {
                        purged += gone;
                        folded += fewer_writes;
                    }
                    Err((problem, log)) => run.fail(problem, &[("steps", log)]),
                }
            }
            let steps = lanes.iter_mut().map(|lane| lane.step(&server, now));
            let done: Vec<Result<u64, String>> = join_all(steps).await;
            for (lane, done) in lanes.iter().zip(done) {
                match done {
                    Ok(count) => operations += count,
                    Err(problem) => run.fail(problem, &[("steps", lane.log.join("\n"))]),
                }
            }
            if let Err((problem, log)) = inbox.step(&server, &mut lanes, &mut policies, now).await {
                run.fail(problem, &[("steps", log)]);
            }
        }
        let drained = match inbox.drain(&server, &setup, &mut lanes).await {
            Ok(now) => compare(&server, &mut lanes, now, false).await,
            Err(failed) => Err(failed),
        };
        if let Err((problem, log)) = drained {
            run.fail(problem, &[("steps", log)]);
        }
        sequences += LANES;
        run.progress(sequences, format!("{operations} operations"));
    }
    assert!(purged > 0 || run.size < SMALL, "the purge was never seen");
    assert!(folded > 0 || run.size < SMALL, "no two changes were ever written together");
    inbox.was_seen(run.size);
    run.summary(format!(
        "{kind:?}, {sequences} sequences, {operations} operations, {purged} entries purged, {folded} looks at rows \
         with changes that were written together; {inbox}"
    ));
    server.stop().await;
}

/// The stored rows are those of the spec, but for what the purge may take. Says how many it took, and how many rows
/// were written less often than they were changed.
async fn compare(
    server: &TestServer,
    lanes: &mut [Lane],
    now: i64,
    purged: bool,
) -> Result<(usize, usize), (String, String)> {
    let keys: Vec<Key> = lanes.iter().flat_map(|lane| &lane.keys).map(name).collect();
    let mut found = server.entries(&keys).await.into_iter();
    let (mut gone, mut folded) = (0, 0);
    for lane in lanes {
        for ((row, changes), policy) in lane.rows.iter_mut().zip(&lane.changes).zip(&lane.policies) {
            let entry = found.next().unwrap();
            let stored = entry.as_ref().map(by_core::row);
            if let Some(after) = row.as_ref().and_then(|row| spec::erased(row, now))
                && stored.as_ref() == Some(&after)
            {
                *row = Some(after);
            }
            if stored == *row {
                let written = entry.map_or(*changes, |entry| entry.version % FIRST_VERSIONS);
                folded += usize::from(written < *changes);
                continue;
            }
            let world = World { policy, now, offset: 0, behind: false, ahead: false, choice: 0 };
            let may_go = row.as_ref().is_some_and(|row| spec::forgettable(row, &world));
            if stored.is_some() || !purged || !may_go {
                let problem = format!("at {now} the store holds {stored:?}, the spec {row:?}");
                return Err((problem, lane.log.join("\n")));
            }
            *row = None;
            gone += 1;
            lane.log.push(format!("at {now} purged"));
        }
    }
    Ok((gone, folded))
}

fn name(key: &proto::EntryKey) -> Key {
    Key::of(Namespace::new(&key.consumer, &key.replay_run), key.source.clone(), key.id.clone())
}

/// Creates a run, and says when it is over: it is open for as long as the consumer's retention.
async fn create(server: &TestServer, consumer: usize, run: &str, retention: Span) -> StoreTime {
    let request = proto::CreateReplayRunRequest {
        consumer: format!("c{consumer}"),
        replay_run: run.into(),
        request_id: format!("{consumer} {run}"),
        reason: "lockstep".into(),
        ends_in: None,
    };
    server.admin.clone().create_replay_run(request).await.unwrap();
    server.at.now() + retention
}

impl Lane {
    fn new(seed: u64, number: u64, policies: &[Policy], run: &str, ends: &[StoreTime]) -> Lane {
        let mut random = Random::new(seed.wrapping_add((number + 1) << 24));
        let consumer = random.below(policies.len() as u64) as usize;
        let key = |index: usize| proto::EntryKey {
            consumer: format!("c{consumer}"),
            source: "lockstep".into(),
            id: format!("{number}/{}", index / 2),
            replay_run: if index == IN_RUN { run.to_owned() } else { String::new() },
        };
        Lane {
            consumer,
            policies: (0..KEYS)
                .map(|index| {
                    let known = Standing::Known { mode: RunMode::Rebuild, end: ends[consumer] };
                    Policy {
                        run: if index == IN_RUN { known } else { Standing::Live },
                        ..policies[consumer].clone()
                    }
                })
                .collect(),
            keys: (0..KEYS).map(key).collect(),
            rows: vec![None; KEYS],
            changes: vec![0; KEYS],
            known: Vec::new(),
            payloads: vec![Vec::new(); KEYS],
            seen: vec![Seen::default(); KEYS],
            log: Vec::new(),
            random,
        }
    }

    /// One call, one batch, or one operator's change.
    async fn step(&mut self, server: &TestServer, now: i64) -> Result<u64, String> {
        if self.random.percent(7) {
            return self.order(server, now).await;
        }
        if self.random.percent(4) {
            return self.reconcile(server, now).await;
        }
        let mut client = server.client.clone();
        let count = if self.random.percent(70) { 1 } else { 2 + self.random.below(4) };
        let mut ops: Vec<(usize, Op)> = Vec::new();
        while (ops.len() as u64) < count {
            let at = self.random.below(KEYS as u64) as usize;
            let stores = if self.rows[at].is_none() { STORES_NEW } else { STORES };
            let op = if self.random.percent(stores) {
                let (print, occurred_at) = steps::message(&mut self.random, now);
                Op::Store { print, occurred_at }
            } else {
                steps::op(&mut self.random, self.rows[at].as_ref(), &mut self.known, now)
            };
            let kind =
                |op: &Op| (matches!(op, Op::Claim { .. }), *op == Op::Lookup, matches!(op, Op::Store { .. }));
            if ops.first().is_none_or(|first| kind(&op) == kind(&first.1)) {
                ops.push((at, op));
            }
        }
        let mut waited = false;
        let answers = if let [(at, op)] = &ops[..] {
            // Longer than a look counts as fresh: the answer is that of a look when the wait is over.
            let wait = prost_types::Duration { seconds: 0, nanos: 150_000_000 };
            let wait = (self.random.below(WAITS_ONE_IN) == 0).then_some(wait);
            waited = wait.is_some();
            vec![wire::call(&mut client, &self.keys[*at], op, wait).await]
        } else {
            let named: Vec<_> = ops.iter().map(|(at, op)| (self.keys[*at].clone(), op.clone())).collect();
            wire::batch(&mut client, &named).await.map_err(|status| format!("{named:?}: {status:?}"))?
        };
        let mut ids = HashSet::new();
        for ((at, op), answer) in ops.iter().zip(&answers) {
            let twice = matches!(op, Op::Claim { who, .. } if !ids.insert(who.0));
            // No answer has the token of a message that was stored first.
            let first = self.rows[*at].is_none() && matches!(op, Op::Store { .. });
            let token = if first { server.entry(&name(&self.keys[*at])).await } else { None };
            let token = token.map_or(0, |entry| entry.token);
            let asked = Asked { twice: twice && ops.len() > 1, waited };
            self.check((*at, token), op, answer, asked, now)?;
        }
        Ok(count)
    }

    fn check(
        &mut self,
        (at, token): (usize, i64),
        op: &Op,
        answer: &Answer,
        asked: Asked,
        now: i64,
    ) -> Result<(), String> {
        let choice = match answer.said(None) {
            Said::Acquired { token, .. } => token,
            _ => token,
        };
        let world = World { policy: &self.policies[at], now, offset: 0, behind: false, ahead: false, choice };
        let (expected, after) = if asked.twice {
            (Said::Error { reason: "INVALID_FIELD".into(), state: None }, self.rows[at].clone())
        } else if at == IN_RUN && matches!(op, Op::Store { .. }) {
            // Replay runs have no inbox.
            (Said::Error { reason: "INVALID_FIELD".into(), state: None }, self.rows[at].clone())
        } else {
            spec::step(self.rows[at].as_ref(), op, &world)
        };
        let parked = match &expected {
            Said::FailOk { state: state @ State::Parked(_), .. }
            | Said::Found { state: Some(state @ State::Parked(_)), .. }
            | Said::Stored { state: state @ State::Parked(_), .. }
            | Said::Error { state: Some(state @ State::Parked(_)), .. } => Some(*state),
            _ => None,
        };
        let mut said = answer.said(parked);
        if asked.waited {
            said.count_again(&expected);
        }
        let unknown = Said::Error { reason: "REPLAY_RUN_UNKNOWN".into(), state: None };
        if said == unknown && self.rows[at].is_none() && self.is_past(at, now) {
            return Ok(());
        }
        let advice = spec::advice(&expected, after.as_ref()).map(str::to_owned);
        self.log.push(format!("at {now} key {at} {op:?}\n  said: {said:?}\n  spec: {expected:?}"));
        if said != expected {
            return Err(format!("the server says {said:?}, the spec {expected:?}, to {op:?}"));
        }
        if answer.advice() != advice {
            return Err(format!(
                "the advice is {:?}, by the spec {advice:?}, beside {said:?}",
                answer.advice()
            ));
        }
        if let Answer::Store(payload, _) = answer
            && matches!(expected, Said::Stored { before: false, .. })
        {
            self.payloads[at].clone_from(payload);
        }
        self.becomes(at, after);
        Ok(())
    }

    /// Whether a key's run may have been purged: a server looks for such a run once a second, and does not know it in between.
    fn is_past(&self, at: usize, now: i64) -> bool {
        matches!(self.policies[at].run, Standing::Known { end, .. } if now >= end.0 + PURGEABLE)
    }

    fn becomes(&mut self, at: usize, after: Option<Row>) {
        if self.rows[at].is_none() {
            self.changes[at] = 0;
        } else if self.rows[at] != after {
            self.changes[at] += 1;
        }
        self.rows[at] = after;
    }
}

//! A random walk over the entries of two consumers and a replay run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use idempotency_ledger::domain::{
    Backoff, FailureKind, Key, Namespace, OnExpiry, Policy, ReplayMode, Span, StoreTime,
};
use idempotency_ledger::proto;

use super::expected::Rows;
use crate::harness::random::Random;
use crate::harness::server::{Kind, START, Setup, TestServer};
use crate::proof::spec::{Op, Order};
use crate::proof::steps::{self, pick};
use crate::proof::wire;

/// The namespaces: the consumer, its replay run, and whether its ids are UUIDs as well, which are stored in another form.
pub(super) const NAMESPACES: [(&str, &str); 3] = [("c", ""), ("c", "r"), ("d", "")];
pub(super) const SOURCES: [&str; 2] = ["s1", "s2"];
const IDS: [&str; 9] = [
    "a",
    "a-1",
    "a-10",
    "b",
    "0189abcd",
    "0189abcd-ac96-774b-bcce-b302099a8057",
    "0189abcd-0000-774b-bcce-b302099a8057",
    "9",
    "10",
];
/// Prefixes that some of the ids have.
pub(super) const PREFIXES: [&str; 6] = ["", "a", "a-1", "0189abcd", "0189abcd-", "1"];
/// What each walk begins with, so that it has entries of every kind: the number of the namespace, the id, and what is done.
const BEGINNING: [(usize, &str, &[Act]); 20] = [
    (2, "a", &[Act::Claim, Act::Lapse, Act::Claim]),
    (2, "a-1", &[Act::Claim, Act::Started, Act::Lapse, Act::Claim]),
    (0, "b", &[Act::Claim, Act::Fail(FailureKind::Park)]),
    (0, "0189abcd", &[Act::Claim, Act::Complete]),
    (0, "9", &[Act::Claim, Act::Fail(FailureKind::Terminal)]),
    (0, "10", &[Act::Claim, AGAIN, Act::Claim, AGAIN, Act::Claim, AGAIN]),
    (0, "a", &[Act::Claim, Act::Lapse, Act::Claim, Act::CompleteEarlier, Act::Complete, Act::Redrive]),
    (0, "a-1", &[Act::Claim, Act::Park]),
    (0, "a-10", &[Act::Claim, Act::Release]),
    (2, "b", &[Act::Store]),
    (2, "9", &[Act::Store, Act::RedriveWithoutFingerprint]),
    (1, "a", &[Act::Claim, Act::Lapse]),
    (1, "b", &[Act::Claim, AGAIN]),
    (1, "9", &[Act::Claim, Act::Overrun]),
    (2, "10", &[Act::Claim, AGAIN]),
    (0, "0189abcd-ac96-774b-bcce-b302099a8057", &[Act::Claim, Act::Lapse]),
    (2, "a-10", &[Act::Overrun, Act::Store]),
    (0, "0189abcd-0000-774b-bcce-b302099a8057", &[Act::Store]),
    // Two messages that are held at the same time.
    (2, "0189abcd", &[Act::Store, Act::Claim]),
    (2, "0189abcd-ac96-774b-bcce-b302099a8057", &[Act::Store, Act::Claim]),
];
/// Parts of errors of `error`: of several of them, of the first line or the second one, and of none.
pub(super) const ERROR_PARTS: [&str; 5] = ["timed out", "T", "5 s: 10 %", "_", "\u{e9}\u{e9}"];
const AGAIN: Act = Act::Fail(FailureKind::Retryable);

/// A step of the walk: a change of an entry.
#[derive(Clone, Copy, Debug)]
enum Act {
    Claim,
    /// The lease passes, and the grace does not.
    Overrun,
    /// Lease and grace pass.
    Lapse,
    Started,
    Complete,
    /// With the token of the claim before.
    CompleteEarlier,
    Fail(FailureKind),
    Release,
    Park,
    Redrive,
    Store,
    /// The stored message is erased with the fingerprint.
    RedriveWithoutFingerprint,
}

/// How often entries are counted for the metrics.
const COUNT_EVERY: Duration = Duration::from_millis(100);

pub(super) struct Walk {
    pub(super) server: TestServer,
    pub(super) random: Random,
    pub(super) log: Vec<String>,
    /// The number of the namespace in which an entry was changed last.
    pub(super) last: usize,
    /// The fields of `EntryFilter` that some list had set.
    pub(super) fields_set: BTreeSet<String>,
    keys: Vec<proto::EntryKey>,
    known: BTreeMap<usize, Vec<(u128, String)>>,
    /// The seconds at which the clock has stood.
    seconds: BTreeSet<i64>,
    offset: i64,
    /// The number of steps, and of the requests with an id.
    steps: u64,
    number: u64,
}

/// How often an entry of a consumer may be attempted.
pub(super) fn max_attempts(consumer: &str) -> i32 {
    if consumer == "c" { 3 } else { 2 }
}

fn policy(consumer: &str, on_expiry: OnExpiry) -> Policy {
    Policy {
        lease: Span::from_secs(5),
        max_lease: Span::from_secs(10),
        reclaim_grace: Span::from_secs(2),
        on_expiry,
        max_attempts: max_attempts(consumer),
        backoff: Backoff { jitter: 0.0, ..Policy::default().backoff },
        replay: ReplayMode::Rebuild,
        inbox: true,
        ..Policy::default()
    }
}

/// The error of a failed attempt: empty, of one line or of two; and the first line may be longer than that of a group.
fn error(random: &mut Random) -> String {
    let text = *pick(random, &["", "timed out", "Timed out\nafter 5 s: 10 %", "not_timed out"]);
    if random.percent(20) { format!("{}{text}", "\u{e9}".repeat(199)) } else { text.to_owned() }
}

impl Walk {
    pub(super) async fn start(kind: Kind, seed: u64) -> Walk {
        let setup = Setup { count_every: COUNT_EVERY, ..Setup::default() };
        let setup = setup.with("c", policy("c", OnExpiry::Reclaim)).with("d", policy("d", OnExpiry::Park));
        let mut server = TestServer::start_with(kind, setup).await;
        let run = proto::CreateReplayRunRequest {
            consumer: "c".into(),
            replay_run: "r".into(),
            request_id: "run".into(),
            reason: "counted".into(),
            ends_in: None,
        };
        server.admin.create_replay_run(run).await.unwrap();
        let keys = NAMESPACES.into_iter().flat_map(|(consumer, replay_run)| {
            IDS.iter().enumerate().map(move |(at, id)| proto::EntryKey {
                consumer: consumer.into(),
                source: SOURCES[at % 2].into(),
                id: (*id).into(),
                replay_run: replay_run.into(),
            })
        });
        Walk {
            keys: keys.collect(),
            server,
            random: Random::new(seed),
            log: Vec::new(),
            last: 0,
            fields_set: BTreeSet::new(),
            known: BTreeMap::new(),
            seconds: BTreeSet::from([START.micros() / 1_000_000]),
            offset: 0,
            steps: 0,
            number: 0,
        }
    }

    fn stored_key(key: &proto::EntryKey) -> Key {
        Key::of(Namespace::new(&key.consumer, &key.replay_run), key.source.clone(), key.id.clone())
    }

    /// The keys of the walk.
    pub(super) fn stored_keys(&self) -> Vec<Key> {
        self.keys.iter().map(Walk::stored_key).collect()
    }

    /// The stored entries.
    pub(super) async fn rows(&self) -> Rows {
        let keys = self.stored_keys();
        let found = self.server.entries(&keys).await;
        Rows::new(found.into_iter().flatten().collect(), self.server.at.now())
    }

    /// Some calls, a change of an operator, or a change of the clock.
    pub(super) async fn step(&mut self) {
        let number = usize::try_from(self.steps).unwrap();
        self.steps += 1;
        if let Some((namespace, id, acts)) = BEGINNING.get(number) {
            let at = namespace * IDS.len() + IDS.iter().position(|one| one == id).unwrap();
            for act in *acts {
                self.act(at, *act).await;
            }
            return;
        }
        match self.random.below(20) {
            0..4 => self.clock().await,
            4..6 => {
                self.index_open_claims(3).await;
            }
            6..10 => self.order().await,
            _ => {
                for _ in 0..3 {
                    self.call().await;
                }
            }
        }
    }

    /// What the server's own task does every ten seconds of real time. Returns the number of claims that were looked at.
    pub(super) async fn index_open_claims(&mut self, limit: usize) -> usize {
        let mut session = self.server.at.session().await;
        let looked_at = session.upkeep().index_open_claims(limit).await.unwrap();
        self.log.push(format!("index of open claims: {looked_at}"));
        looked_at
    }

    async fn act(&mut self, at: usize, act: Act) {
        let entry = self.server.entry(&Walk::stored_key(&self.keys[at])).await;
        let earlier = entry.as_ref().and_then(|entry| entry.history.last()?.token).unwrap_or(1);
        let token = entry.map_or(1, |entry| entry.token);
        let complete = |token| Op::Complete { token, result: Vec::new(), too_large: false };
        let op = match act {
            Act::Overrun => return self.set(self.server.at.now() + Span::from_secs(5)).await,
            Act::Lapse => return self.set(self.server.at.now() + Span::from_secs(7)).await,
            Act::Park => return self.change(at, &Order::Park).await,
            Act::Redrive => {
                let redrive = Order::Redrive { force: true, drop_fingerprint: false, admit: false };
                return self.change(at, &redrive).await;
            }
            Act::RedriveWithoutFingerprint => {
                let redrive = Order::Redrive { force: true, drop_fingerprint: true, admit: false };
                return self.change(at, &redrive).await;
            }
            Act::Store => Op::Store { print: Vec::new(), occurred_at: None },
            Act::Claim => {
                let who = steps::claimant(&mut self.random, &mut Vec::new());
                Op::Claim { who, lease: None, print: Vec::new(), occurred_at: None }
            }
            Act::Started => {
                Op::Renew { token, lease: None, started: true, checkpoint: None, too_large: false }
            }
            Act::Complete => complete(token),
            Act::CompleteEarlier => complete(earlier),
            Act::Fail(kind) => Op::Fail { token, kind, error: error(&mut self.random), retry_after: Some(0) },
            Act::Release => Op::Release { token, delay: 0, unpin: false },
        };
        self.sent(at, &op).await;
    }

    async fn sent(&mut self, at: usize, op: &Op) {
        self.last = at / IDS.len();
        let answer = wire::call(&mut self.server.client, &self.keys[at], op, None).await;
        self.log.push(format!("{:?} {op:?}: {answer:?}", self.keys[at]));
    }

    async fn set(&mut self, to: StoreTime) {
        self.server.at.set_clock(to).await;
        self.seconds.insert(to.micros().div_euclid(1_000_000));
        self.log.push(format!("the clock is at {}", to.micros()));
    }

    async fn clock(&mut self) {
        let now = self.server.at.now();
        if self.random.percent(15) {
            // Set back, also to before entries were created; sometimes an operator helps.
            let back = Span::from_secs(self.random.below(90) as i64);
            self.set(now - back).await;
            if self.random.percent(70) {
                self.raise_offset(100).await;
            }
        } else {
            let by =
                *pick(&mut self.random, &[1, 1_000, 700_000, 1_000_000, 5_000_000, 7_000_000, 130_000_000]);
            self.set(now + Span(by)).await;
        }
    }

    async fn raise_offset(&mut self, seconds: i64) {
        let span = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        self.number += 1;
        let raise = proto::RaiseTokenOffsetRequest {
            request_id: format!("raise {}", self.number),
            reason: "counted".into(),
            token_offset: span(self.offset + seconds),
            expected_token_offset: span(self.offset),
            validate_only: false,
        };
        let raised = self.server.admin.raise_token_offset(raise).await.unwrap().into_inner();
        self.offset += seconds;
        self.log.push(format!("{raised:?}"));
    }

    /// A second at which the clock has not stood: a count of the metrics that shows it was begun after all that was done.
    pub(super) async fn new_second(&mut self) {
        let mut to = self.server.at.now();
        while self.seconds.contains(&to.micros().div_euclid(1_000_000)) {
            to = to + Span::from_secs(1);
        }
        self.set(to).await;
    }

    /// One call about one entry, mostly with its latest token.
    async fn call(&mut self) {
        let at = self.random.below(self.keys.len() as u64) as usize;
        let entry = self.server.entry(&Walk::stored_key(&self.keys[at])).await;
        let random = &mut self.random;
        let past = entry.as_ref().and_then(|entry| entry.history.iter().rev().find_map(|past| past.token));
        let latest = entry.as_ref().map_or(1, |entry| entry.token);
        let token = past.filter(|_| random.percent(20)).unwrap_or(latest);
        let op = match random.below(16) {
            // Replay runs have no inbox.
            _ if self.keys[at].replay_run.is_empty() && random.percent(20) => {
                Op::Store { print: Vec::new(), occurred_at: None }
            }
            _ if entry.is_none() || random.percent(40) => Op::Claim {
                who: steps::claimant(random, self.known.entry(at).or_default()),
                lease: None,
                print: Vec::new(),
                occurred_at: None,
            },
            0..4 => Op::Complete { token, result: Vec::new(), too_large: false },
            4..10 => Op::Fail {
                token,
                kind: *pick(
                    random,
                    &[
                        FailureKind::Retryable,
                        FailureKind::Retryable,
                        FailureKind::Terminal,
                        FailureKind::Park,
                    ],
                ),
                error: error(random),
                retry_after: random.percent(60).then_some(0),
            },
            10..12 => Op::Release { token, delay: 0, unpin: false },
            _ => Op::Renew {
                token,
                lease: None,
                started: random.percent(60),
                checkpoint: None,
                too_large: false,
            },
        };
        self.sent(at, &op).await;
    }

    /// A change of an operator. Deletions are rare: they must be a minute after the last grant.
    async fn order(&mut self) {
        let at = self.random.below(self.keys.len() as u64) as usize;
        let order = steps::order(&mut self.random);
        self.change(at, &order).await;
    }

    async fn change(&mut self, at: usize, order: &Order) {
        self.last = at / IDS.len();
        self.number += 1;
        let id = format!("order {}", self.number);
        let done = wire::order(&mut self.server.admin, &self.keys[at], order, &id).await;
        self.log.push(format!("{:?} {order:?}: {done:?}", self.keys[at]));
    }
}

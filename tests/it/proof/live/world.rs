//! What the clients share: the keys and their records, the clock, the counts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use idempotency_ledger::proto;

use super::policies::Record;
use super::replays::{Timeline, VIEW};
use crate::harness::random::Random;
use crate::proof::history::{Event, Loss, Outcome, Raise, Refusal, Shift};

/// As it is configured.
pub(crate) const LEASE: Duration = Duration::from_secs(1);
pub(crate) const GRACE: Duration = Duration::from_millis(100);

/// Keys that are worked on at a time.
const ACTIVE: usize = 64;
/// A key retires after so many calls; a few may still be on their way.
const CALLS_PER_KEY: usize = 60;
/// No call on a key begins after so many: the checker's limit.
const CALLS_MAX: usize = 96;

/// The consumers of most suites, as often as their keys come.
pub(crate) const STEADY: &[&str] = &["careful", "plain", "plain", "plain"];

/// The same with a consumer whose messages are processed live and in replay runs: of three of its keys that follow each
/// other, one is live and two are of runs, and all have one source and one id.
pub(crate) const REPLAYED: &[&str] = &["careful", "plain", VIEW, VIEW, VIEW, "plain"];

/// The consumer whose messages are stored, and handed out next to claims of its keys.
pub(crate) const KEPT: &str = "kept";

/// The same with the consumer whose messages are stored.
pub(crate) const STORED: &[&str] = &["careful", "plain", VIEW, VIEW, VIEW, "plain", KEPT, KEPT, KEPT];

/// The policies of the consumers, as the server reads them.
pub(crate) const CONFIGURATION: &str = r#"
[policy]
lease = "1s"
reclaim_grace = "100ms"
max_attempts = 0
backoff = { initial = "0s", multiplier = 1.0, max = "0s", jitter = 0.0 }
[consumers.careful]
on_expiry = "PARK_IF_STARTED"
[consumers.coral]
lease = "1500ms"
"#;

/// One key, and all that is known of it.
pub(crate) struct KeyLog {
    pub(crate) consumer: &'static str,
    /// Its replay run; empty: live.
    pub(crate) run: String,
    pub(crate) id: String,
    pub(crate) events: Mutex<Vec<Event>>,
    /// The effects that a fenced sink accepted: token and instant.
    pub(crate) effects: Mutex<Vec<(i64, i64)>>,
    begun: AtomicUsize,
    /// When a client was answered that it is at its end; the end of time before that.
    pub(crate) ended: AtomicI64,
    /// Somebody holds it: to ask again before this would only fill the record.
    quiet_until: AtomicI64,
}

impl KeyLog {
    pub(crate) fn name(&self) -> proto::EntryKey {
        proto::EntryKey {
            consumer: self.consumer.into(),
            source: "live".into(),
            id: self.id.clone(),
            replay_run: self.run.clone(),
        }
    }

    /// Whether another call on this key may begin.
    pub(crate) fn begin(&self) -> bool {
        self.begun.fetch_add(1, Ordering::Relaxed) < CALLS_MAX
    }

    /// The last calls, which bring the key to its end, are few.
    pub(crate) fn reopen(&self) {
        let left = CALLS_MAX - 8;
        let _begun = self.begun.fetch_min(left, Ordering::Relaxed);
    }

    /// What an answer tells of the calls to come: none for a while, or only a few more at all.
    pub(crate) fn heed(&self, outcome: Outcome) {
        match outcome {
            Outcome::InProgress
            | Outcome::Backoff
            | Outcome::Refused(Refusal::Disabled | Refusal::RunUnknown | Refusal::RunForbidden) => {
                self.quiet_until.store(now() + micros(GRACE), Ordering::Relaxed);
            }
            Outcome::Completed | Outcome::Failed | Outcome::Parked | Outcome::Refused(Refusal::RunClosed) => {
                self.begun.fetch_add(CALLS_PER_KEY / 8, Ordering::Relaxed);
                let _first = self.ended.fetch_min(now(), Ordering::Relaxed);
            }
            Outcome::Acquired { .. }
            | Outcome::Settled { .. }
            | Outcome::Found { .. }
            | Outcome::Stored { .. }
            | Outcome::Refused(_)
            | Outcome::Unknown => {}
        }
    }

    /// A sink that rejects tokens lower than the highest that it has seen.
    pub(crate) fn effect(&self, token: i64) -> bool {
        let mut effects = self.effects.lock().unwrap();
        let stale = effects.last().is_some_and(|(highest, _)| token < *highest);
        if !stale {
            effects.push((token, now()));
        }
        !stale
    }
}

/// A call that got no answer of the contract's tables.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// When the call began.
    pub(crate) at: i64,
    /// Who made the error, and why.
    pub(crate) why: String,
}

pub(crate) struct World {
    pub(crate) seed: u64,
    /// Where clients reach the replicas.
    pub(crate) replicas: Vec<SocketAddr>,
    /// Whose keys come, one after the other.
    consumers: &'static [&'static str],
    pub(crate) over: AtomicBool,
    pub(crate) calls: AtomicU64,
    claims: AtomicU64,
    /// How many claims each replica has granted anew.
    pub(crate) grants: Vec<AtomicU64>,
    keys: AtomicU64,
    active: Mutex<Vec<Arc<KeyLog>>>,
    /// The keys of the consumer whose messages are stored, by their ids.
    kept: Mutex<BTreeMap<String, Arc<KeyLog>>>,
    pub(crate) retired: Mutex<Vec<Arc<KeyLog>>>,
    pub(crate) counts: Mutex<BTreeMap<String, u64>>,
    /// What no client should ever see.
    pub(crate) problems: Mutex<Vec<String>>,
    pub(crate) failures: Mutex<Vec<Failure>>,
    /// How often a proxy between clients and replicas sends one call; once where there is none.
    pub(crate) tries: u64,
    /// Within this a change of a policy must be in force on every replica.
    pub(crate) everywhere: i64,
    /// How operators have raised `token_offset`.
    pub(crate) raises: Mutex<Vec<Raise>>,
    /// How the store's clock was set.
    pub(crate) shifts: Mutex<Vec<Shift>>,
    /// What the database lost.
    pub(crate) losses: Mutex<Vec<Loss>>,
    /// What operators did to the policies.
    pub(crate) policies: Record,
    /// What an operator did to the replay runs.
    pub(crate) replays: Timeline,
}

pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap()
}

/// The machine's clock, which is Postgres' clock too where no suite sets that one.
#[allow(clippy::disallowed_methods, reason = "an observer from outside, on the machine of the store")]
pub(crate) fn now() -> i64 {
    micros(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap())
}

impl World {
    pub(crate) fn new(
        seed: u64,
        replicas: Vec<SocketAddr>,
        consumers: &'static [&'static str],
        everywhere: i64,
    ) -> Arc<World> {
        World::behind(seed, replicas, consumers, everywhere, 1)
    }

    /// A world whose clients reach the replicas by a proxy that sends a call so often.
    pub(crate) fn behind(
        seed: u64,
        replicas: Vec<SocketAddr>,
        consumers: &'static [&'static str],
        everywhere: i64,
        tries: u64,
    ) -> Arc<World> {
        let world = World {
            seed,
            grants: replicas.iter().map(|_| AtomicU64::new(0)).collect(),
            replicas,
            consumers,
            over: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            claims: AtomicU64::new(1),
            keys: AtomicU64::new(0),
            active: Mutex::default(),
            kept: Mutex::default(),
            retired: Mutex::default(),
            counts: Mutex::default(),
            problems: Mutex::default(),
            failures: Mutex::default(),
            tries,
            everywhere,
            raises: Mutex::default(),
            shifts: Mutex::default(),
            losses: Mutex::default(),
            policies: Record::default(),
            replays: Timeline::default(),
        };
        let active = (0..ACTIVE).map(|_| world.new_key()).collect();
        *world.active.lock().unwrap() = active;
        Arc::new(world)
    }

    fn new_key(&self) -> Arc<KeyLog> {
        let number = self.keys.fetch_add(1, Ordering::Relaxed);
        let place = number as usize % self.consumers.len();
        let consumer = self.consumers[place];
        // The keys of a message that is replayed stand side by side.
        let beside = self.consumers[..place].iter().filter(|one| consumer == VIEW && **one == VIEW).count();
        let key = Arc::new(KeyLog {
            consumer,
            run: self.replays.run(beside),
            id: format!("{}-{}", self.seed, number - beside as u64),
            events: Mutex::default(),
            effects: Mutex::default(),
            begun: AtomicUsize::new(0),
            ended: AtomicI64::new(i64::MAX),
            quiet_until: AtomicI64::new(0),
        });
        if consumer == KEPT {
            self.kept.lock().unwrap().insert(key.id.clone(), Arc::clone(&key));
        }
        key
    }

    /// A key to work on. One that has seen enough makes way for a new one.
    pub(crate) fn pick(&self, random: &mut Random) -> Arc<KeyLog> {
        let mut slot = random.below(ACTIVE as u64) as usize;
        let mut active = self.active.lock().unwrap();
        for _ in 0..3 {
            if active[slot].quiet_until.load(Ordering::Relaxed) < now() {
                break;
            }
            slot = random.below(ACTIVE as u64) as usize;
        }
        if active[slot].begun.load(Ordering::Relaxed) >= CALLS_PER_KEY {
            let old = std::mem::replace(&mut active[slot], self.new_key());
            self.retired.lock().unwrap().push(old);
        }
        Arc::clone(&active[slot])
    }

    /// All keys, once nobody works on them any more.
    pub(crate) fn take_keys(&self) -> Vec<Arc<KeyLog>> {
        let mut all = std::mem::take(&mut *self.retired.lock().unwrap());
        all.append(&mut self.active.lock().unwrap());
        all
    }

    /// All keys so far.
    pub(crate) fn keys(&self) -> Vec<Arc<KeyLog>> {
        let mut all = self.retired.lock().unwrap().clone();
        all.extend(self.active.lock().unwrap().iter().cloned());
        all
    }

    /// The keys of a consumer so far.
    pub(crate) fn keys_of(&self, consumer: &str) -> Vec<Arc<KeyLog>> {
        let mut all = self.keys();
        all.retain(|key| key.consumer == consumer);
        all
    }

    /// A key of the consumer whose messages are stored.
    pub(crate) fn kept(&self, id: &str) -> Option<Arc<KeyLog>> {
        self.kept.lock().unwrap().get(id).cloned()
    }

    /// The keys whose messages a ClaimNext that began then may have been handed.
    pub(crate) fn open_since(&self, invoked: i64) -> Vec<Arc<KeyLog>> {
        let all = self.kept.lock().unwrap();
        let open = all.values().filter(|key| key.ended.load(Ordering::Relaxed) >= invoked);
        open.cloned().collect()
    }

    /// A number for a claim.
    pub(crate) fn new_claim(&self) -> u64 {
        self.claims.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn claim_id(&self, number: u64) -> String {
        Random::new(self.seed ^ (number << 20)).claim_id()
    }

    pub(crate) fn count(&self, what: &str) {
        *self.counts.lock().unwrap().entry(what.to_owned()).or_default() += 1;
    }

    /// All that was counted, for people.
    pub(crate) fn counted(&self) -> String {
        let counts = self.counts.lock().unwrap();
        let counts: Vec<String> = counts.iter().map(|(what, times)| format!("{times} {what}")).collect();
        counts.join(", ")
    }

    pub(crate) fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

//! Two replicas over one Postgres, 64 clients, hot and wide keys, short leases, abandoned claims,
//! calls that are dropped, connections that are killed. What comes of it is judged from the
//! clients' own records, by real time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use idempotency_ledger::domain::{Backoff, Policy, Span};
use idempotency_ledger::proto::{self, claim_response::Verdict, ledger_service_client::LedgerServiceClient};
use idempotency_ledger::store::Store;
use sqlx::Row as _;
use tonic::Code;
use tonic::transport::Channel;

use crate::harness::details::{claim, key, refusal};
use crate::harness::postgres::Cluster;
use crate::harness::random::Random;
use crate::harness::server::{Served, Setup, postgres_store};

const CLIENTS: u64 = 64;
const HOT: u64 = 20;
const WIDE: u64 = 10_000;
const LEASE: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_millis(100);
const CAP: Duration = Duration::from_secs(400);

/// What a client saw of one key.
#[derive(Clone, Debug)]
enum Seen {
    /// A claim was answered `acquired`.
    Acquired { token: i64, claim_id: String, lease: Duration },
    /// A holder was about to close its claim with this token.
    Closing { token: i64 },
    /// A Complete with this token was answered OK.
    Completed { token: i64 },
}

#[derive(Clone, Debug)]
struct Event {
    invoked: Instant,
    returned: Instant,
    seen: Seen,
}

#[derive(Default)]
struct Counts {
    claims: AtomicUsize,
    acquired: AtomicUsize,
    dropped: AtomicUsize,
    unknown: AtomicUsize,
    fenced: AtomicUsize,
    killed: AtomicUsize,
}

struct Storm {
    replicas: Vec<LedgerServiceClient<Channel>>,
    generations: Vec<AtomicU64>,
    records: Mutex<HashMap<String, Vec<Event>>>,
    abandoned: Mutex<Vec<(String, i64)>>,
    counts: Counts,
    over: AtomicBool,
}

fn policy() -> Policy {
    Policy {
        lease: Span::from_std(LEASE),
        reclaim_grace: Span::from_std(GRACE),
        max_attempts: 0,
        backoff: Backoff { initial: Span::ZERO, multiplier: 1.0, max: Span::ZERO, jitter: 0.0 },
        ..Policy::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_has_two_live_holders_and_no_token_shrinks() {
    let seed = number("IDEMPOTENCY_LEDGER_STORM_SEED", 20_261_121);
    let reclaims_wanted = number("IDEMPOTENCY_LEDGER_STORM_RECLAIMS", 1_000);
    println!("seed {seed}");
    let cluster = Cluster::start("");
    let store = Arc::new(postgres_store(&cluster.url("postgres")));
    store.migrate().await.unwrap();
    let setup = Setup { default: policy(), ..Setup::default() };
    let replicas = [
        Served::start(Arc::new(postgres_store(&cluster.url("postgres"))), setup.clone()).await,
        Served::start(Arc::new(postgres_store(&cluster.url("postgres"))), setup).await,
    ];
    let storm = Arc::new(Storm {
        replicas: replicas.iter().map(|replica| replica.client.clone()).collect(),
        generations: (0..HOT).map(|_| AtomicU64::new(0)).collect(),
        records: Mutex::default(),
        abandoned: Mutex::default(),
        counts: Counts::default(),
        over: AtomicBool::new(false),
    });
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(client(Arc::clone(&storm), Random::new(seed ^ (number << 32)))))
        .collect();

    let mut admin = cluster.connect("postgres").await;
    let started = Instant::now();
    let mut reclaims = 0;
    let mut round = 0_u32;
    while reclaims < reclaims_wanted && started.elapsed() < CAP {
        tokio::time::sleep(Duration::from_millis(30)).await;
        let killed = sqlx::query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE application_name LIKE 'idempotency-ledger%' ORDER BY random() LIMIT 1",
        );
        storm.counts.killed.fetch_add(killed.fetch_all(&mut admin).await.unwrap().len(), Ordering::Relaxed);
        round += 1;
        if round.is_multiple_of(30) {
            reclaims = expiries(&mut admin).await;
        }
    }
    storm.over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    reclaims = expiries(&mut admin).await;
    let counts = &storm.counts;
    println!(
        "{:?}: {} claims, {} acquired, {reclaims} reclaims, {} calls dropped, {} outcomes unknown, \
         {} stale settlements fenced off, {} connections killed",
        started.elapsed(),
        counts.claims.load(Ordering::Relaxed),
        counts.acquired.load(Ordering::Relaxed),
        counts.dropped.load(Ordering::Relaxed),
        counts.unknown.load(Ordering::Relaxed),
        counts.fenced.load(Ordering::Relaxed),
        counts.killed.load(Ordering::Relaxed),
    );
    assert!(reclaims >= reclaims_wanted, "only {reclaims} reclaims");
    for (id, events) in storm.records.lock().unwrap().iter_mut() {
        judge(id, events);
    }
    assert!(counts.fenced.load(Ordering::Relaxed) > 100, "too few stale settlements to speak of a fence");
    // Nothing is stranded: after lease and grace every key can be claimed, or is done.
    tokio::time::sleep(LEASE + GRACE + Duration::from_millis(100)).await;
    let ids: Vec<String> = storm.records.lock().unwrap().keys().cloned().collect();
    for part in ids.chunks(500) {
        let requests = part.iter().map(|id| claim("storm", id)).collect();
        let answer = storm.replicas[0].clone().batch_claim(proto::BatchClaimRequest { requests }).await;
        for (id, answer) in part.iter().zip(answer.unwrap().into_inner().responses) {
            let usable = matches!(answer.verdict, Some(Verdict::Acquired(_) | Verdict::Completed(_)));
            assert!(usable, "{id} is stranded: {answer:?}");
        }
    }
    for replica in replicas {
        replica.stop().await;
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().expect(variable))
}

/// How many claims ended by expiry and were followed by a grant: as the entries remember.
async fn expiries(admin: &mut sqlx::PgConnection) -> u64 {
    let row = sqlx::query(
        "SELECT coalesce(sum((length(history) - length(replace(history, '\"by\":6', ''))) / 6), 0)::bigint
         FROM ledger.entries WHERE history IS NOT NULL",
    );
    row.fetch_one(admin).await.unwrap().get::<i64, _>(0).unsigned_abs()
}

impl Storm {
    fn record(&self, id: &str, invoked: Instant, seen: Seen) {
        let event = Event { invoked, returned: Instant::now(), seen };
        self.records.lock().unwrap().entry(id.to_owned()).or_default().push(event);
    }

    fn pick(&self, random: &mut Random) -> String {
        if random.percent(40) {
            let slot = random.below(HOT);
            let generation = self.generations[usize::try_from(slot).unwrap()].load(Ordering::Relaxed);
            format!("hot-{slot}-{generation}")
        } else {
            format!("wide-{}", random.below(WIDE))
        }
    }

    /// A completed hot key makes room for the next one.
    fn next_generation(&self, id: &str) {
        let mut parts = id.split('-').skip(1).map(|part| part.parse::<u64>());
        if let (Some(Ok(slot)), Some(Ok(generation))) = (parts.next(), parts.next()) {
            self.generations[usize::try_from(slot).unwrap()].fetch_max(generation + 1, Ordering::Relaxed);
        }
    }

    /// Sends the identical request until its outcome is known; gives up now and then, as a client
    /// that goes away does.
    async fn call<T, F>(
        &self,
        random: &mut Random,
        mut send: impl FnMut(LedgerServiceClient<Channel>) -> F,
    ) -> Option<Result<T, tonic::Status>>
    where
        F: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    {
        for _ in 0..20 {
            let replica = self.replicas[usize::try_from(random.below(2)).unwrap()].clone();
            let patience = if random.percent(5) {
                Duration::from_micros(random.below(8_000))
            } else {
                Duration::from_secs(60)
            };
            match tokio::time::timeout(patience, send(replica)).await {
                Err(_) => {
                    self.counts.dropped.fetch_add(1, Ordering::Relaxed);
                    if random.percent(50) {
                        return None;
                    }
                }
                Ok(Ok(answer)) => return Some(Ok(answer.into_inner())),
                Ok(Err(status))
                    if matches!(
                        status.code(),
                        Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted
                    ) =>
                {
                    if refusal(&status).reason == "OUTCOME_UNKNOWN" {
                        self.counts.unknown.fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::time::sleep(Duration::from_millis(random.below(20))).await;
                }
                Ok(Err(status)) => return Some(Err(status)),
            }
        }
        None
    }

    async fn complete(&self, random: &mut Random, id: &str, token: i64) {
        let invoked = Instant::now();
        self.record(id, invoked, Seen::Closing { token });
        let request = proto::CompleteRequest { key: key("storm", id), token, ..Default::default() };
        let answer = self.call(random, |mut client| {
            let request = request.clone();
            async move { client.complete(request).await }
        });
        match answer.await {
            Some(Ok(_)) => {
                self.record(id, invoked, Seen::Completed { token });
                self.next_generation(id);
            }
            Some(Err(status)) => {
                let refused = refusal(&status);
                assert!(["LEASE_LOST", "CLAIM_CLOSED"].contains(&refused.reason.as_str()), "{refused:?}");
                self.counts.fenced.fetch_add(1, Ordering::Relaxed);
            }
            None => {}
        }
    }
}

async fn client(storm: Arc<Storm>, mut random: Random) {
    let random = &mut random;
    while !storm.over.load(Ordering::Relaxed) {
        // Somebody who had abandoned a claim comes back with its old token.
        if random.percent(10) {
            let stale = {
                let mut abandoned = storm.abandoned.lock().unwrap();
                let count = abandoned.len() as u64;
                (count > 200).then(|| abandoned.swap_remove(usize::try_from(random.below(count)).unwrap()))
            };
            if let Some((id, token)) = stale {
                storm.complete(random, &id, token).await;
            }
        }
        let id = storm.pick(random);
        let request = proto::ClaimRequest { claim_id: random.claim_id(), ..claim("storm", &id) };
        storm.counts.claims.fetch_add(1, Ordering::Relaxed);
        let invoked = Instant::now();
        let answer = storm.call(random, |mut client| {
            let request = request.clone();
            async move { client.claim(request).await }
        });
        let held = match answer.await {
            Some(Ok(response)) => match response.verdict {
                Some(Verdict::Acquired(held)) => held,
                Some(Verdict::Completed(_)) => {
                    storm.next_generation(&id);
                    continue;
                }
                Some(Verdict::InProgress(_) | Verdict::Backoff(_)) => continue,
                other => panic!("{id}: {other:?}"),
            },
            // A repeat that was delayed beyond its lease.
            Some(Err(status)) => {
                assert_eq!(refusal(&status).reason, "CLAIM_CLOSED", "{status:?}");
                continue;
            }
            None => continue,
        };
        storm.counts.acquired.fetch_add(1, Ordering::Relaxed);
        let lease = held.lease.unwrap();
        let lease = Duration::new(lease.seconds.unsigned_abs(), lease.nanos.unsigned_abs());
        let token = held.token;
        storm.record(&id, invoked, Seen::Acquired { token, claim_id: request.claim_id.clone(), lease });
        if random.percent(20) {
            storm.abandoned.lock().unwrap().push((id, token));
            continue;
        }
        tokio::time::sleep(Duration::from_millis(random.below(10))).await;
        if random.percent(80) {
            storm.complete(random, &id, token).await;
        } else {
            storm.record(&id, Instant::now(), Seen::Closing { token });
            let request = proto::ReleaseRequest {
                key: key("storm", &id),
                token,
                delay: None,
                unpin_fingerprint: false,
                event_type: String::new(),
            };
            let answer = storm.call(random, |mut client| {
                let request = request.clone();
                async move { client.release(request).await }
            });
            drop(answer.await);
        }
    }
}

/// The records of one key against the promises.
fn judge(id: &str, events: &mut [Event]) {
    events.sort_by_key(|event| event.invoked);
    let mut owners: HashMap<i64, &str> = HashMap::new();
    let mut completed: HashSet<i64> = HashSet::new();
    for event in events.iter() {
        match &event.seen {
            Seen::Acquired { token, claim_id, .. } => {
                let owner = owners.entry(*token).or_insert(claim_id);
                assert_eq!(owner, claim_id, "{id}: token {token} was given to two claims");
            }
            Seen::Completed { token } => {
                completed.insert(*token);
            }
            Seen::Closing { .. } => {}
        }
    }
    assert!(completed.len() <= 1, "{id}: completed by {completed:?}");
    for later in events.iter() {
        for earlier in events.iter().filter(|earlier| earlier.returned < later.invoked) {
            match (&earlier.seen, &later.seen) {
                (
                    Seen::Acquired { token: old, claim_id: first, .. },
                    Seen::Acquired { token: new, claim_id, .. },
                ) => {
                    let grows = new > old || (new == old && first == claim_id);
                    assert!(grows, "{id}: token {new} was given after {old}");
                }
                (Seen::Completed { .. }, Seen::Acquired { token, .. }) => {
                    panic!("{id}: {token} was acquired after it was completed")
                }
                (Seen::Acquired { token: newer, .. }, Seen::Completed { token }) => {
                    assert!(token >= newer, "{id}: completed by {token} after {newer} was granted");
                }
                _ => {}
            }
        }
        let Seen::Acquired { token: new, .. } = &later.seen else { continue };
        for earlier in events.iter() {
            let Seen::Acquired { token: old, lease, .. } = &earlier.seen else { continue };
            // The earliest end of the older lease, against the latest instant of the newer grant.
            let over = earlier.invoked + *lease + GRACE;
            let closed = events.iter().any(|event| {
                matches!(&event.seen, Seen::Closing { token } if token == old)
                    && event.invoked < later.returned
            });
            let live = old < new && later.returned < over && !closed;
            assert!(!live, "{id}: {new} was granted while {old} was held");
        }
    }
}

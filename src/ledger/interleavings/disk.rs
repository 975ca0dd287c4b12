//! A store in memory: a map with compare-and-set and a clock of its own, that fails by chance where
//! it is told to, and writes down what it saw.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use shuttle::rand::{Rng as _, thread_rng};
use tokio::sync::watch;

use super::rt::wander;
use super::tally::Tally;
use crate::domain::{ClosedBy, Entry, Key, KeyHash, Span, State, StoreTime};
use crate::store::{
    Base, Completion, Fault, Found, Inserted, Listing, Loaded, Reading, Remembered, Session, Store,
    StoreError,
};

/// What may go wrong with a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inject {
    /// It is carried out, and its answer is lost.
    LostAnswer,
    /// The connection breaks before it is carried out.
    LostRequest,
    /// The store refuses it.
    Unavailable,
    /// It loses against another one.
    Conflict,
    /// The clock runs behind; only grants mind.
    ClockBehind,
    /// The task that sent it dies of a bug, before or after it is carried out.
    Panic,
}

/// Ids that start with this spoil the statement that writes them.
pub(super) const POISON: &str = "poison";

/// How the store behaves.
#[derive(Clone, Copy)]
pub(super) struct Manners {
    /// How many workers it wants.
    pub(super) sessions: usize,
    /// One statement in so many fails; zero: none.
    pub(super) one_in: u32,
    /// How.
    pub(super) faults: &'static [Inject],
    /// One statement in so many finds that every lease has ended; zero: none.
    pub(super) expiry_one_in: u32,
}

pub(super) struct Disk {
    state: Mutex<Inner>,
    /// Statements with this key wait.
    held: watch::Sender<Option<KeyHash>>,
    tally: Arc<Tally>,
}

pub(super) struct Inner {
    pub(super) manners: Manners,
    batch_max: usize,
    now: i64,
    rows: HashMap<KeyHash, Entry>,
    /// Each row as it was committed, in the order of the commits.
    pub(super) commits: Vec<Entry>,
    /// The calls that a statement carried to the store.
    pub(super) sent: HashSet<u64>,
    /// The calls whose write was committed.
    pub(super) applied: HashSet<u64>,
    /// The calls whose statement killed its worker.
    pub(super) died: HashSet<u64>,
    /// The statements under way.
    busy: usize,
    /// Broken promises. They are kept for the end, since a worker survives a panic.
    pub(super) violations: Vec<String>,
}

/// The calls whose writes a row shows. Each call leaves its number in what it writes.
fn marks(row: &Entry) -> impl Iterator<Item = u64> {
    let text = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok();
    let released = row.closed_by == ClosedBy::Release;
    let delay = row.closed_at.filter(|_| released).map(|at| row.not_before - at);
    let claim = row.claimant.as_ref().map(|claimant| claimant.claim_id.as_u128());
    let all = [
        claim.and_then(|id| u64::try_from(id).ok()),
        text(&row.result),
        text(row.last_error.as_bytes()),
        text(&row.checkpoint),
        delay.and_then(|delay| u64::try_from(delay.micros()).ok()),
    ];
    all.into_iter().flatten()
}

impl Disk {
    pub(super) fn new(manners: Manners, batch_max: usize, tally: Arc<Tally>) -> Arc<Disk> {
        let inner = Inner {
            manners,
            batch_max,
            now: 1_780_000_000_000_000,
            rows: HashMap::new(),
            commits: Vec::new(),
            sent: HashSet::new(),
            applied: HashSet::new(),
            died: HashSet::new(),
            busy: 0,
            violations: Vec::new(),
        };
        Arc::new(Disk { state: Mutex::new(inner), held: watch::Sender::new(None), tally })
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap()
    }

    /// From now on statements with this key wait.
    pub(super) fn hold(&self, key: &Key) {
        self.held.send_replace(Some(key.hash()));
    }

    pub(super) fn let_go(&self) {
        self.held.send_replace(None);
    }

    /// Waits until so many statements are under way.
    pub(super) async fn busy(&self, statements: usize) {
        while self.inner().busy < statements {
            shuttle::future::yield_now().await;
        }
    }

    /// One statement, and what its session is worth afterwards.
    async fn statement<T>(
        &self,
        broken: &mut bool,
        keys: Vec<KeyHash>,
        sent: HashSet<u64>,
        poisoned: bool,
        work: impl FnOnce(&mut Inner, &Tally) -> T,
    ) -> Result<T, StoreError> {
        let fault = self.inner().arrived(*broken, &keys, &sent, &self.tally);
        let mut busy = Busy { disk: self, given_up: true };
        // Until it has answered, in case its caller gives it up.
        *broken = true;
        wander(2).await;
        let free = |held: &Option<KeyHash>| held.is_none_or(|held| !keys.contains(&held));
        let _held = self.held.subscribe().wait_for(free).await.is_err();
        let done = self.carry_out(fault, &sent, poisoned, work).await;
        busy.given_up = false;
        *broken = matches!(done, Err(StoreError::Unknown(_) | StoreError::NotApplied(Fault::Unavailable(_))));
        done
    }

    /// What it does at the store, and the way of its answer.
    async fn carry_out<T>(
        &self,
        fault: Option<Inject>,
        sent: &HashSet<u64>,
        poisoned: bool,
        work: impl FnOnce(&mut Inner, &Tally) -> T,
    ) -> Result<T, StoreError> {
        if let Some(fault) = fault {
            self.tally.count(&format!("{fault:?}"));
        }
        let pending: HashSet<u64> = sent.difference(&self.inner().applied).copied().collect();
        match fault {
            Some(Inject::LostRequest) => return Err(StoreError::Unknown("the request is lost".into())),
            Some(Inject::Unavailable) => return Err(not_applied(Fault::Unavailable)),
            Some(Inject::Conflict) => return Err(not_applied(Fault::Conflict)),
            Some(Inject::ClockBehind) => return Err(StoreError::NotApplied(Fault::ClockBehind)),
            Some(Inject::Panic) if thread_rng().gen_bool(0.5) => self.die(&pending),
            Some(Inject::LostAnswer | Inject::Panic) | None => {}
        }
        if poisoned {
            self.tally.count("poison");
            return Err(not_applied(Fault::Permanent));
        }
        let done = work(&mut self.inner(), &self.tally);
        wander(2).await;
        match fault {
            Some(Inject::Panic) => self.die(&pending),
            Some(Inject::LostAnswer) => Err(StoreError::Unknown("the answer is lost".into())),
            _ => Ok(done),
        }
    }

    /// Kills the task, without the noise of a panic that nobody expects.
    fn die(&self, calls: &HashSet<u64>) -> ! {
        self.inner().died.extend(calls);
        std::panic::resume_unwind(Box::new("a bug, on demand"));
    }
}

/// Counts a statement for as long as somebody waits for it.
struct Busy<'a> {
    disk: &'a Disk,
    given_up: bool,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.disk.inner().busy -= 1;
        if self.given_up && !std::thread::panicking() {
            self.disk.tally.count("statements given up");
        }
    }
}

fn not_applied(fault: fn(String) -> Fault) -> StoreError {
    StoreError::NotApplied(fault("on demand".into()))
}

impl Inner {
    /// A statement arrives: whether it may be so, and how it will fail.
    fn arrived(
        &mut self,
        broken: bool,
        keys: &[KeyHash],
        sent: &HashSet<u64>,
        tally: &Tally,
    ) -> Option<Inject> {
        if !keys.is_sorted_by(|one, next| one < next) {
            self.violations.push(format!("a statement's keys are not sorted, each once: {keys:?}"));
        }
        if keys.len() > self.batch_max {
            self.violations.push(format!("a statement with {} rows", keys.len()));
        }
        if broken {
            self.violations.push("a session was used again after it broke".into());
        }
        if keys.len() > 1 {
            tally.count("statements with several rows");
        }
        self.busy += 1;
        if self.busy > 1 {
            tally.count("statements at the same time");
        }
        self.sent.extend(sent);
        self.chance()
    }

    fn chance(&self) -> Option<Inject> {
        let Manners { one_in, faults, .. } = self.manners;
        let fails = one_in > 0 && thread_rng().gen_ratio(1, one_in);
        fails.then(|| faults[thread_rng().gen_range(0..faults.len())])
    }

    /// A reading of the clock, which moves on.
    fn reading(&mut self, tally: &Tally) -> Reading {
        let one_in = self.manners.expiry_one_in;
        self.now += 1;
        if one_in > 0 && thread_rng().gen_ratio(1, one_in) {
            tally.count("leases ended");
            self.now += Span::from_secs(60).micros();
        }
        Reading { now: StoreTime(self.now), token_offset: 0, mark: 0 }
    }

    fn commit(&mut self, row: Entry) {
        self.applied.extend(marks(&row));
        self.commits.push(row.clone());
        self.rows.insert(row.key.hash(), row);
    }

    /// Whether some committed row of the key is so.
    pub(super) fn committed(&self, key: &Key, is: impl Fn(&Entry) -> bool) -> bool {
        self.commits.iter().any(|row| row.key == *key && is(row))
    }
}

fn won<T>(tally: &Tally, won: Option<T>) -> Option<T> {
    if won.is_none() {
        tally.count("races lost");
    }
    won
}

fn hashes<'k>(keys: impl Iterator<Item = &'k Key>) -> Vec<KeyHash> {
    keys.map(Key::hash).collect()
}

fn poisoned<'k>(mut keys: impl Iterator<Item = &'k Key>) -> bool {
    keys.any(|key| key.id().starts_with(POISON))
}

/// The store that the ledger sees.
pub(super) struct DiskStore(pub(super) Arc<Disk>);

struct DiskSession {
    disk: Arc<Disk>,
    broken: bool,
}

#[async_trait]
impl Store for DiskStore {
    fn describe(&self) -> String {
        "in memory".into()
    }

    fn sessions(&self) -> usize {
        self.0.inner().manners.sessions
    }

    async fn open(&self) -> Result<Box<dyn Session>, StoreError> {
        wander(1).await;
        let fault = self.0.inner().chance();
        match fault {
            Some(Inject::Unavailable) => {
                self.0.tally.count("sessions refused");
                return Err(not_applied(Fault::Unavailable));
            }
            Some(Inject::LostAnswer) => return Err(StoreError::Unknown("no session".into())),
            _ => {}
        }
        Ok(Box::new(DiskSession { disk: Arc::clone(&self.0), broken: false }))
    }

    async fn migrate(&self) -> Result<usize, StoreError> {
        Ok(0)
    }
}

#[async_trait]
impl Session for DiskSession {
    async fn load(&mut self, keys: &[Key]) -> Result<Loaded, StoreError> {
        let work = |inner: &mut Inner, tally: &Tally| {
            let find = |key: &Key| inner.rows.get(&key.hash()).cloned();
            let found =
                keys.iter().map(find).map(|row| row.map_or(Found::Absent, |row| Found::Entry(row.into())));
            let found = found.collect();
            Loaded { reading: inner.reading(tally), found }
        };
        let hashes = hashes(keys.iter());
        self.disk.statement(&mut self.broken, hashes, HashSet::new(), false, work).await
    }

    async fn insert(&mut self, rows: &[Entry], base: Base) -> Result<Inserted, StoreError> {
        let work = |inner: &mut Inner, tally: &Tally| {
            let reading = inner.reading(tally);
            let mut insert = |row: &Entry| {
                let row = match base {
                    Base::Zero => row.clone(),
                    Base::Clock { until } if reading.now > until => return None,
                    Base::Clock { .. } => {
                        let mut row = row.clone().shifted(reading.now);
                        row.token += reading.token_clock();
                        row
                    }
                };
                if inner.rows.contains_key(&row.key.hash()) {
                    return None;
                }
                let token = row.token;
                inner.commit(row);
                Some(token)
            };
            Inserted { tokens: rows.iter().map(|row| won(tally, insert(row))).collect(), reading }
        };
        let keys = || rows.iter().map(|row| &row.key);
        let sent = rows.iter().flat_map(marks).collect();
        self.disk.statement(&mut self.broken, hashes(keys()), sent, poisoned(keys()), work).await
    }

    async fn complete(&mut self, completions: &[Completion]) -> Result<Vec<Option<bool>>, StoreError> {
        let work = |inner: &mut Inner, tally: &Tally| {
            let now = inner.reading(tally).now;
            let mut complete = |one: &Completion| {
                let open = |row: &&Entry| row.token == one.token && row.state == State::InProgress;
                let mut row = inner.rows.get(&one.key.hash()).filter(open)?.clone();
                let late = row.lease_over(now);
                row.version += 1;
                row.state = State::Completed;
                row.closed_by = ClosedBy::Complete;
                row.closed_at = Some(now);
                row.result = one.result.clone();
                inner.commit(row);
                Some(late)
            };
            completions.iter().map(|one| won(tally, complete(one))).collect()
        };
        let keys = || completions.iter().map(|one| &one.key);
        let number = |one: &Completion| std::str::from_utf8(&one.result).ok()?.parse().ok();
        let sent = completions.iter().filter_map(number).collect();
        self.disk.statement(&mut self.broken, hashes(keys()), sent, poisoned(keys()), work).await
    }

    async fn replace(&mut self, entries: &[Entry]) -> Result<Vec<bool>, StoreError> {
        let work = |inner: &mut Inner, tally: &Tally| {
            let mut replace = |next: &Entry| {
                let current = |row: &&Entry| row.version + 1 == next.version;
                inner.rows.get(&next.key.hash()).filter(current)?;
                inner.commit(next.clone());
                Some(())
            };
            entries.iter().map(|next| won(tally, replace(next)).is_some()).collect()
        };
        let keys = || entries.iter().map(|row| &row.key);
        let sent = entries.iter().flat_map(marks).collect();
        self.disk.statement(&mut self.broken, hashes(keys()), sent, poisoned(keys()), work).await
    }

    async fn beat(&mut self) -> Result<Reading, StoreError> {
        wander(1).await;
        Ok(self.disk.inner().reading(&self.disk.tally))
    }

    async fn list(&mut self, _: &Listing) -> Result<(Reading, Vec<Entry>), StoreError> {
        Ok((self.beat().await?, Vec::new()))
    }

    async fn due(&mut self, _: usize) -> Result<(Reading, Vec<Entry>), StoreError> {
        Ok((self.beat().await?, Vec::new()))
    }

    async fn look_again(&mut self, _: &[(KeyHash, i64, StoreTime)]) -> Result<usize, StoreError> {
        Ok(0)
    }

    async fn purge(&mut self, _: &[(KeyHash, i64)]) -> Result<usize, StoreError> {
        Ok(0)
    }

    async fn remembered(&mut self) -> Result<(Reading, Vec<Remembered>), StoreError> {
        Ok((self.beat().await?, Vec::new()))
    }

    async fn remember(&mut self, _: &[Remembered]) -> Result<(), StoreError> {
        Ok(())
    }
}

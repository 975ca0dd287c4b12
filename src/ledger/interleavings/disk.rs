//! A store in memory: a map with compare-and-set and a separate clock. It fails at random where a scenario asks for it, and
//! records what it saw.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use shuttle::rand::{Rng as _, thread_rng};
use tokio::sync::watch;

use super::messages::Messages;
use super::tally::EventCounts;
use crate::domain::{ClockLimits, ClosedBy, Entry, Key, KeyHash, Reading, Span, State, StoreTime};
use crate::store::{Fault, StoreError};

/// An injected fault of a statement.
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
    /// One of its rows is locked.
    Locked,
    /// It finds the clock behind.
    ClockBehind,
    /// It finds that this server is behind the schema fence.
    Outdated,
    /// The task that sent it panics, before or after it is carried out.
    Panic,
}

/// An id with this prefix fails the statement that writes it.
pub(super) const POISON: &str = "poison";

/// How the store behaves.
#[derive(Clone, Copy)]
pub(super) struct Manners {
    /// Number of workers.
    pub(super) sessions: usize,
    /// Number of sessions of the inbox. The policy stores messages if there is one.
    pub(super) inbox: usize,
    /// One of this number of statements fails; zero: none.
    pub(super) one_in: u32,
    /// The faults.
    pub(super) faults: &'static [Inject],
    /// One of this number of statements finds that every lease has ended; zero: none.
    pub(super) expiry_one_in: u32,
}

/// A healthy store.
pub(super) const WELL: Manners = Manners { sessions: 3, inbox: 0, one_in: 0, faults: &[], expiry_one_in: 0 };

pub(super) struct Disk {
    state: Mutex<Inner>,
    /// Statements with this key wait.
    pub(super) held: watch::Sender<Option<KeyHash>>,
    pub(super) tally: Arc<EventCounts>,
}

pub(super) struct Inner {
    pub(super) manners: Manners,
    pub(super) batch_max: usize,
    now: i64,
    pub(super) rows: HashMap<KeyHash, Entry>,
    /// Each row as it was committed, in the order of the commits.
    pub(super) commits: Vec<Entry>,
    pub(super) messages: Messages,
    /// The calls that a statement carried to the store.
    pub(super) sent: HashSet<u64>,
    /// The calls whose write was committed.
    pub(super) applied: HashSet<u64>,
    /// The calls whose statement killed its worker.
    pub(super) died: HashSet<u64>,
    /// The statements in flight.
    pub(super) busy: usize,
    /// Violations of the contract. They are reported at the end, since a worker survives a panic.
    pub(super) violations: Vec<String>,
}

/// The calls whose writes a row shows. Each call leaves its number in what it writes.
pub(super) fn marks(row: &Entry) -> impl Iterator<Item = u64> {
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
    pub(super) fn new(manners: Manners, batch_max: usize, tally: Arc<EventCounts>) -> Arc<Disk> {
        let inner = Inner {
            manners,
            batch_max,
            now: 1_780_000_000_000_000,
            rows: HashMap::new(),
            commits: Vec::new(),
            messages: Messages::default(),
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

    /// Waits until this number of statements are in flight.
    pub(super) async fn busy(&self, statements: usize) {
        while self.inner().busy < statements {
            shuttle::future::yield_now().await;
        }
    }

    /// Kills the task, without printing an unexpected panic.
    pub(super) fn die(&self, calls: &HashSet<u64>) -> ! {
        self.inner().died.extend(calls);
        std::panic::resume_unwind(Box::new("a bug, on demand"));
    }
}

pub(super) fn not_applied(fault: fn(String) -> Fault) -> StoreError {
    StoreError::NotApplied(fault("on demand".into()))
}

impl Inner {
    /// A statement arrives: checks it, and chooses its fault.
    pub(super) fn arrived(
        &mut self,
        broken: bool,
        rows_max: usize,
        keys: &[KeyHash],
        sent: &HashSet<u64>,
        tally: &EventCounts,
    ) -> Option<Inject> {
        if !keys.is_sorted_by(|one, next| one < next) {
            self.violations.push(format!("a statement's keys are not sorted, each once: {keys:?}"));
        }
        if keys.len() > rows_max {
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
        self.random_trouble()
    }

    pub(super) fn random_trouble(&self) -> Option<Inject> {
        let Manners { one_in, faults, .. } = self.manners;
        let fails = one_in > 0 && thread_rng().gen_ratio(1, one_in);
        fails.then(|| faults[thread_rng().gen_range(0..faults.len())])
    }

    /// A reading of the clock, which moves on.
    pub(super) fn reading(&mut self, tally: &EventCounts) -> Reading {
        let one_in = self.manners.expiry_one_in;
        self.now += 1;
        if one_in > 0 && thread_rng().gen_ratio(1, one_in) {
            tally.count("leases ended");
            self.now += Span::from_secs(60).micros();
        }
        Reading { now: StoreTime(self.now), token_offset: 0, mark: 0, limits: ClockLimits::NONE }
    }

    pub(super) fn commit(&mut self, row: Entry, tally: &EventCounts) {
        if marks(&row).filter(|call| !self.applied.contains(call)).count() > 1 {
            tally.count("calls written together");
        }
        let before = self.rows.get(&row.key.hash());
        // A claim that another one has taken over is remembered as expired, also where a settlement was written together with the
        // next grant.
        let is_taken_over = |before: &&Entry| {
            let past = row.history.iter().find(|past| past.token == Some(before.token));
            past.is_some_and(|past| past.outcome == ClosedBy::Expiry)
        };
        let is_live =
            |before: &&Entry| before.state == State::InProgress && !before.expired(StoreTime(self.now));
        if let Some(before) = before.filter(is_live).filter(is_taken_over) {
            self.violations.push(format!("granted while it was held: {before:?}, then {row:?}"));
        }
        self.applied.extend(marks(&row));
        self.commits.push(row.clone());
        self.rows.insert(row.key.hash(), row);
    }

    /// The clock moves on by as much.
    pub(super) fn pass(&mut self, span: Span) {
        self.now += span.micros();
    }

    /// Whether a committed row of the key matches.
    pub(super) fn committed(&self, key: &Key, is: impl Fn(&Entry) -> bool) -> bool {
        self.commits.iter().any(|row| row.key == *key && is(row))
    }
}

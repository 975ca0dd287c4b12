//! Entries whose rows somebody else holds: another session of the database, a server that was stopped in the
//! middle of a change. They are remembered, so that a batch waits for such a row once, and not again: claims
//! and renewals are refused from memory, what ends a claim waits here, without a session, until the row is
//! free or its caller has gone.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::domain::{Command, Key, KeyHash, Reason, Rejection, Settle, Span};
use crate::ledger::claims::request::{Chain, Request};
use crate::ledger::runtime::{Instant, Mutex, MutexGuard, pause};

/// How often somebody looks whether the rows are free.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// For how long a row counts as held that could not be seen (an insert under way), or at which nobody can look.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);
/// How long a look may take before another worker looks.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// How many rows are remembered; a look reads all of them.
const ROWS_MAX: usize = crate::store::ROWS_MAX;
/// How many commands may wait.
const WAITING_MAX: usize = 1_000;
/// For how long a settlement of a batch waits: its neighbours are answered together with it.
const BATCH_WAIT: Duration = Duration::from_millis(750);

/// A row that somebody holds.
struct Held {
    key: Key,
    /// Until then it counts as held whatever a look shows.
    until: Instant,
    /// When it was last seen to be held.
    seen: Instant,
}

impl Held {
    /// It was seen not long ago: nobody is refused from an old memory.
    fn counts(&self) -> bool {
        self.seen.elapsed() < REMEMBERED_FOR
    }
}

struct Waiting {
    chain: Chain,
    /// When the items of batches among it are refused; none: there are none, and the others wait for as long as
    /// their callers do.
    until: Option<Instant>,
}

#[derive(Default)]
struct Rows {
    held: HashMap<KeyHash, Held>,
    waiting: Vec<Waiting>,
    /// Since when somebody looks; a worker may die over it.
    looking: Option<Instant>,
    looked: Option<Instant>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Locked {
    rows: Mutex<Rows>,
    /// Whether there are any: what every batch asks.
    some: AtomicBool,
    came: Notify,
}

impl Locked {
    /// Whether a row counts as held.
    pub(super) fn holds(&self, key: KeyHash) -> bool {
        self.some.load(Ordering::Acquire) && self.rows().held.get(&key).is_some_and(Held::counts)
    }

    /// These rows are held. With `unseen` a look cannot tell when they are free.
    pub(super) fn remember<'k>(&self, keys: impl Iterator<Item = &'k Key>, unseen: bool) {
        let now = Instant::now();
        let until = if unseen { now + REMEMBERED_FOR } else { now };
        let mut rows = self.rows();
        for key in keys {
            let full = rows.held.len() >= ROWS_MAX;
            match rows.held.entry(key.hash()) {
                Slot::Occupied(mut slot) => {
                    let held = slot.get_mut();
                    (held.until, held.seen) = (held.until.max(until), now);
                }
                Slot::Vacant(slot) if !full => {
                    slot.insert(Held { key: key.clone(), until, seen: now });
                }
                Slot::Vacant(_) => {}
            }
        }
        rows.looked.get_or_insert(now);
        drop(rows);
        self.some.store(true, Ordering::Release);
        self.came.notify_one();
    }

    /// A chain whose row is held: what ends a claim waits, where there is room. The others are given back.
    pub(super) fn take(&self, chain: Chain) -> Option<Chain> {
        let mut rows = self.rows();
        let waiting: usize = rows.waiting.iter().map(|waiting| waiting.chain.len()).sum();
        if waiting >= WAITING_MAX {
            return Some(chain);
        }
        let (ends, others) = chain.split(ends_a_claim);
        let Some(chain) = ends else { return others };
        let now = Instant::now();
        let until = chain.requests().any(|request| !request.to.is_alone()).then(|| now + BATCH_WAIT);
        // A look may have found it free a moment ago: the next one lets the chain go on.
        let held = || Held { key: chain.key.clone(), until: now, seen: now };
        rows.held.entry(chain.key.hash()).or_insert_with(held);
        rows.waiting.push(Waiting { chain, until });
        drop(rows);
        self.some.store(true, Ordering::Release);
        self.came.notify_one();
        others
    }

    /// Resolves when somebody should look; then nobody else is asked to.
    pub(super) async fn look_due(&self) -> Vec<Key> {
        loop {
            let came = self.came.notified();
            if !self.some.load(Ordering::Acquire) {
                came.await;
                continue;
            }
            match self.due() {
                Ok(keys) => return keys,
                Err(wait) => pause(wait).await,
            }
        }
    }

    /// The keys to look at; or when to ask again.
    fn due(&self) -> Result<Vec<Key>, Duration> {
        let mut rows = self.rows();
        if rows.looking.is_some_and(|since| since.elapsed() < LOOK_WITHIN) {
            return Err(LOOK_EVERY);
        }
        let wait = rows.looked.map_or(Duration::ZERO, |at| LOOK_EVERY.saturating_sub(at.elapsed()));
        if wait > Duration::ZERO {
            return Err(wait);
        }
        rows.looking = Some(Instant::now());
        let mut keys: Vec<Key> = rows.held.values().map(|held| held.key.clone()).collect();
        keys.sort_by_key(Key::hash);
        Ok(keys)
    }

    /// What a look showed: these are still held; none: nobody could look. Gives back the chains that may go on,
    /// and those that waited for too long.
    pub(super) fn looked(&self, still: Option<&[KeyHash]>) -> (Vec<Chain>, Vec<Chain>) {
        let now = Instant::now();
        let mut rows = self.rows();
        rows.looking = None;
        rows.looked = Some(now);
        rows.held.retain(|key, held| match still {
            Some(still) if still.contains(key) => {
                held.seen = now;
                true
            }
            Some(_) => held.until > now,
            None => held.counts(),
        });
        let (mut free, mut late) = (Vec::new(), Vec::new());
        for waiting in std::mem::take(&mut rows.waiting) {
            let (Some(chain), _gone) = waiting.chain.split(|request| !request.to.is_closed()) else {
                continue;
            };
            if !rows.held.get(&chain.key.hash()).is_some_and(Held::counts) {
                free.push(chain);
            } else if waiting.until.is_some_and(|until| until <= now) {
                let (patient, items) = chain.split(|request| request.to.is_alone());
                late.extend(items);
                rows.waiting.extend(patient.map(|chain| Waiting { chain, until: None }));
            } else {
                rows.waiting.push(Waiting { chain, until: waiting.until });
            }
        }
        self.some.store(!rows.held.is_empty(), Ordering::Release);
        (free, late)
    }

    /// All that wait: the server stops.
    pub(super) fn end(&self) -> Vec<Chain> {
        let mut rows = self.rows();
        rows.held.clear();
        std::mem::take(&mut rows.waiting).into_iter().map(|waiting| waiting.chain).collect()
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ends_a_claim(request: &Request) -> bool {
    match &request.command {
        Command::Claim(_) | Command::Lookup | Command::Settle(_, Settle::Renew { .. }) => false,
        Command::Settle(_, Settle::Complete { .. } | Settle::Fail { .. } | Settle::Release { .. }) => true,
    }
}

/// The refusal of a call whose row somebody else holds.
pub(super) fn row_held() -> Rejection {
    Rejection {
        retry_after: Some(Span::from_secs(1)),
        ..Rejection::new(
            Reason::Overloaded,
            "another session of the database holds this entry's row; nothing was changed: try again later",
        )
    }
}

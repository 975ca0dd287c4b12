//! Entries whose rows are locked by another writer: another session of the database, or a server that was stopped in the
//! middle of a change. They are remembered, so that a batch waits for such a row lock once, and later batches do not: claims and
//! renewals are refused from memory, and settlements that end a claim wait here, without a session, until the row is free or the caller is gone.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::domain::{Command, Key, KeyHash, Reason, Rejection, Settle, Span};
use crate::ledger::claims::request::{KeyQueue, Request};
use crate::ledger::runtime::{Instant, Mutex, MutexGuard, pause};

/// How often the rows are checked.
const CHECK_EVERY: Duration = Duration::from_millis(250);
/// How long a row counts as locked if its lock is not visible (an insert under way), or if it cannot be checked.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);
/// How long a check may take before another worker starts one.
const CHECK_WITHIN: Duration = Duration::from_secs(5);
/// Maximum number of rows that are remembered; one check reads all of them.
const ROWS_MAX: usize = crate::store::ROWS_MAX;
/// Maximum number of commands that wait.
const WAITING_MAX: usize = 1_000;
/// How long an item of a batch waits: the other items of its call are answered together with it.
const BATCH_WAIT: Duration = Duration::from_millis(750);

/// A row that is locked by another writer.
struct LockedRow {
    key: Key,
    /// Until this instant the row counts as locked, whatever a check shows.
    until: Instant,
    /// When the row was last seen to be locked.
    seen: Instant,
}

impl LockedRow {
    /// Whether it was seen recently: no caller is refused from an old memory.
    fn is_recent(&self) -> bool {
        self.seen.elapsed() < REMEMBERED_FOR
    }
}

struct Waiting {
    key_queue: KeyQueue,
    /// When the items of batches among the commands are refused; `None` if it has no such items: the others wait as long as
    /// their callers do.
    until: Option<Instant>,
}

#[derive(Default)]
struct Rows {
    locked: HashMap<KeyHash, LockedRow>,
    waiting: Vec<Waiting>,
    /// Start of the check under way, whose worker may die.
    checking: Option<Instant>,
    checked_at: Option<Instant>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct LockedRows {
    rows: Mutex<Rows>,
    /// Whether any row is locked: the question of every batch, answered without the lock.
    some: AtomicBool,
    came: Notify,
}

impl LockedRows {
    /// Whether a row counts as locked.
    pub(super) fn is_locked(&self, key: KeyHash) -> bool {
        self.some.load(Ordering::Acquire) && self.rows().locked.get(&key).is_some_and(LockedRow::is_recent)
    }

    /// Remembers locked rows. With `invisible`, a check cannot show when they are free.
    pub(super) fn remember<'k>(&self, keys: impl Iterator<Item = &'k Key>, invisible: bool) {
        let now = Instant::now();
        let until = if invisible { now + REMEMBERED_FOR } else { now };
        let mut rows = self.rows();
        for key in keys {
            let full = rows.locked.len() >= ROWS_MAX;
            match rows.locked.entry(key.hash()) {
                Slot::Occupied(mut slot) => {
                    let locked = slot.get_mut();
                    (locked.until, locked.seen) = (locked.until.max(until), now);
                }
                Slot::Vacant(slot) if !full => {
                    slot.insert(LockedRow { key: key.clone(), until, seen: now });
                }
                Slot::Vacant(_) => {}
            }
        }
        rows.checked_at.get_or_insert(now);
        drop(rows);
        self.some.store(true, Ordering::Release);
        self.came.notify_one();
    }

    /// Keeps the settlements that end a claim until their row is free, if there is space. Returns all other commands.
    pub(super) fn enqueue(&self, key_queue: KeyQueue) -> Option<KeyQueue> {
        let mut rows = self.rows();
        let waiting: usize = rows.waiting.iter().map(|waiting| waiting.key_queue.len()).sum();
        if waiting >= WAITING_MAX {
            return Some(key_queue);
        }
        let (ends, others) = key_queue.split(ends_a_claim);
        let Some(key_queue) = ends else { return others };
        let now = Instant::now();
        let until = key_queue.requests().any(|request| !request.to.is_alone()).then(|| now + BATCH_WAIT);
        // A check may have found the row free a moment ago: then the next one releases these commands.
        let locked = || LockedRow { key: key_queue.key.clone(), until: now, seen: now };
        rows.locked.entry(key_queue.key.hash()).or_insert_with(locked);
        rows.waiting.push(Waiting { key_queue, until });
        drop(rows);
        self.some.store(true, Ordering::Release);
        self.came.notify_one();
        others
    }

    /// Resolves when a check is due, for one worker.
    pub(super) async fn check_due(&self) -> Vec<Key> {
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

    /// The keys to check; `Err` has the time to wait.
    fn due(&self) -> Result<Vec<Key>, Duration> {
        let mut rows = self.rows();
        if rows.checking.is_some_and(|since| since.elapsed() < CHECK_WITHIN) {
            return Err(CHECK_EVERY);
        }
        let wait = rows.checked_at.map_or(Duration::ZERO, |at| CHECK_EVERY.saturating_sub(at.elapsed()));
        if wait > Duration::ZERO {
            return Err(wait);
        }
        rows.checking = Some(Instant::now());
        let mut keys: Vec<Key> = rows.locked.values().map(|locked| locked.key.clone()).collect();
        keys.sort_by_key(Key::hash);
        Ok(keys)
    }

    /// Applies the result of a check: the rows that are still locked, or `None` if the check failed. Returns the commands that
    /// may go on, and those that waited too long.
    pub(super) fn checked(&self, still: Option<&[KeyHash]>) -> (Vec<KeyQueue>, Vec<KeyQueue>) {
        let now = Instant::now();
        let mut rows = self.rows();
        rows.checking = None;
        rows.checked_at = Some(now);
        rows.locked.retain(|key, locked| match still {
            Some(still) if still.contains(key) => {
                locked.seen = now;
                true
            }
            Some(_) => locked.until > now,
            None => locked.is_recent(),
        });
        let (mut free, mut late) = (Vec::new(), Vec::new());
        for waiting in std::mem::take(&mut rows.waiting) {
            let (Some(key_queue), _gone) = waiting.key_queue.split(|request| !request.to.is_closed()) else {
                continue;
            };
            if !rows.locked.get(&key_queue.key.hash()).is_some_and(LockedRow::is_recent) {
                free.push(key_queue);
            } else if waiting.until.is_some_and(|until| until <= now) {
                let (patient, items) = key_queue.split(|request| request.to.is_alone());
                late.extend(items);
                rows.waiting.extend(patient.map(|key_queue| Waiting { key_queue, until: None }));
            } else {
                rows.waiting.push(Waiting { key_queue, until: waiting.until });
            }
        }
        self.some.store(!rows.locked.is_empty(), Ordering::Release);
        (free, late)
    }

    /// Removes all waiting commands: the server stops.
    pub(super) fn drain(&self) -> Vec<KeyQueue> {
        let mut rows = self.rows();
        rows.locked.clear();
        std::mem::take(&mut rows.waiting).into_iter().map(|waiting| waiting.key_queue).collect()
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

/// The refusal of a call whose row another writer has locked.
pub(super) fn row_locked() -> Rejection {
    Rejection {
        retry_after: Some(Span::from_secs(1)),
        ..Rejection::new(
            Reason::Overloaded,
            "another session of the database holds this entry's row; nothing was changed: try again later",
        )
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::ledger::claims::answers::{AnswerTo, BatchAnswers};
    use crate::traces::CallSpan;

    fn key(number: usize) -> Key {
        Key::new("c", "s", &number.to_string())
    }

    /// A Complete, whose caller waits for its answer on the receiver.
    fn complete(number: usize) -> (KeyQueue, tokio::sync::oneshot::Receiver<crate::domain::Answer>) {
        let (answer, arrives) = tokio::sync::oneshot::channel();
        let command = Command::Settle(1, Settle::Complete { result: Bytes::new(), left_out: false });
        let request = Request::new(command, AnswerTo::Call(answer), CallSpan::default());
        (KeyQueue::new(key(number), request, Instant::now()), arrives)
    }

    #[test]
    fn locked_rows_and_the_commands_that_wait_for_them_are_bounded() {
        let rows = LockedRows::default();
        let keys: Vec<Key> = (0..=ROWS_MAX).map(key).collect();
        rows.remember(keys.iter(), false);
        assert!(rows.is_locked(keys[ROWS_MAX - 1].hash()));
        assert!(!rows.is_locked(keys[ROWS_MAX].hash()), "no space");
        assert_eq!(rows.rows().locked.len(), ROWS_MAX);
        // A row that is remembered already needs no space.
        rows.remember(keys.iter().take(1), true);
        assert!(rows.is_locked(keys[0].hash()));
        let mut callers = Vec::new();
        for number in 0..WAITING_MAX {
            let (key_queue, arrives) = complete(number);
            assert!(rows.enqueue(key_queue).is_none(), "{number}");
            callers.push(arrives);
        }
        let (one_more, _arrives) = complete(0);
        assert!(rows.enqueue(one_more).is_some(), "it is given back, to be refused");
        assert_eq!(rows.drain().len(), WAITING_MAX);
    }

    /// Of the commands that wait for one row, only the items of batches are refused after a while.
    #[test]
    fn complete_that_is_alone_waits_longer_than_an_item_of_a_batch() {
        let item = |answers: &std::sync::Arc<BatchAnswers>, place| {
            let command = Command::Settle(1, Settle::Complete { result: Bytes::new(), left_out: false });
            let to = AnswerTo::Item { answers: std::sync::Arc::clone(answers), place };
            KeyQueue::new(key(1), Request::new(command, to, CallSpan::default()), Instant::now())
        };
        for comes_first in ["the item", "the Complete"] {
            let rows = LockedRows::default();
            rows.remember([key(1)].iter(), false);
            let (answers, _arrive) = BatchAnswers::of(2);
            let (alone, _arrives) = complete(1);
            let (mut first, second) = if comes_first == "the item" {
                (item(&answers, 0), alone)
            } else {
                (alone, item(&answers, 0))
            };
            first.append(second);
            assert!(rows.enqueue(first).is_none());
            let still = [key(1).hash()];
            let hour = Duration::from_hours(1);
            for waiting in &mut rows.rows().waiting {
                waiting.until = waiting.until.map(|until| until + hour);
            }
            let (free, late) = rows.checked(Some(&still));
            assert_eq!((free.len(), late.len()), (0, 0), "{comes_first} is first: both wait");
            for waiting in &mut rows.rows().waiting {
                let before = |until: Instant| until.checked_sub(hour + BATCH_WAIT);
                waiting.until = waiting.until.map(|until| before(until).expect("a later instant"));
            }
            let (free, late) = rows.checked(Some(&still));
            let is_item = |request: &Request| !request.to.is_alone();
            assert!(free.is_empty() && late.len() == 1, "{comes_first} is first");
            assert!(late[0].len() == 1 && late[0].requests().all(is_item), "{comes_first} is first");
            let (free, late) = rows.checked(Some(&[]));
            assert!(late.is_empty() && free.len() == 1, "{comes_first} is first: the row is free");
            assert!(free[0].len() == 1 && !free[0].requests().any(is_item), "{comes_first} is first");
        }
    }

    /// A check that fails shows nothing: rows stay locked for as long as they were seen to be, and no longer.
    #[test]
    fn failed_check_keeps_rows_that_were_seen_recently() {
        let rows = LockedRows::default();
        let (recent, old) = (key(1), key(2));
        rows.remember([&recent, &old].into_iter(), false);
        let before = Instant::now().checked_sub(REMEMBERED_FOR).expect("the clock has run for as long");
        rows.rows().locked.get_mut(&old.hash()).expect("remembered").seen = before;
        let callers = [1, 2].map(|number| {
            let (key_queue, arrives) = complete(number);
            assert!(rows.enqueue(key_queue).is_none());
            arrives
        });
        let (free, late) = rows.checked(None);
        let free: Vec<&str> = free.iter().map(|key_queue| key_queue.key.id()).collect();
        assert_eq!((free, late.len()), (vec!["2"], 0));
        assert!(rows.is_locked(recent.hash()) && !rows.is_locked(old.hash()));
        drop(callers);
    }
}

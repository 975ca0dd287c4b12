//! The waiting room: the calls that wait on this server, by key. It lets them look when something happens to their key, and
//! lets all of them go when the server drains.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::line::{KeyWaiters, Looked, Seat, WaiterKind};
use super::places::{Bounds, WaitPlaces};
use super::polls::Polls;
use super::together::Together;
use crate::common::still_counted::StillCounted;
use crate::domain::{Claimant, Entry, Key, KeyHash, Sight, Span, StoreTime, sight};
use crate::ledger::changes::{Changes, Listener};
use crate::ledger::runtime::{Instant, Mutex, MutexGuard};

/// The order to look: together with others, if there are several.
pub(super) type LookOrder = Option<Arc<Together>>;

/// A waiting call.
struct Resting {
    /// Receives the order to look, once until it has looked.
    call: mpsc::Sender<LookOrder>,
    /// When the maximum wait of the call is reached, by the clock of that call.
    until: tokio::time::Instant,
}

#[derive(Default)]
struct Waiting {
    lines: HashMap<KeyHash, KeyWaiters>,
    calls: HashMap<Seat, Resting>,
    places: WaitPlaces,
    polls: Polls,
    last_seat: Seat,
}

impl Waiting {
    /// Lets these calls look.
    fn call(&self, seats: &[Seat]) {
        let together = (seats.len() > 1).then(Arc::<Together>::default);
        for Resting { call, .. } in seats.iter().filter_map(|seat| self.calls.get(seat)) {
            // The channel has one slot, and the seat reports its look before it is called again.
            let _sent = call.try_send(together.clone());
        }
    }

    fn note_due(&mut self, key: KeyHash, sight: &Sight, now: Instant) {
        if let Sight::Held(_, span) | Sight::NotDue(span) = sight {
            self.polls.is_due_after(key, span.to_std(), now);
        }
    }

    fn seen(&mut self, key: KeyHash, sight: &Sight, polled: bool) {
        if let Some(line) = self.lines.get_mut(&key) {
            let mut called = line.seen(sight, polled);
            if let Sight::NotDue(span) = sight {
                let due = tokio::time::Instant::now() + span.to_std();
                let is_over = |seat| self.calls.get(&seat).is_some_and(|call| call.until < due);
                called.extend(line.is_not_due_for(is_over));
            }
            self.note_due(key, sight, Instant::now());
            self.call(&called);
        }
    }
}

/// See the module.
pub(in crate::ledger) struct Room {
    waiting: Mutex<Waiting>,
    bounds: Bounds,
    changes: Arc<Changes>,
    /// Wakes the poller when something may be due earlier than it expects.
    pub(super) stirred: Notify,
    /// Cancelled once all calls are let go, and none may wait any more.
    draining: CancellationToken,
}

/// A call that begins to wait.
pub(super) struct Waiter<'a> {
    pub(super) key: &'a Key,
    /// `None` for a Lookup.
    pub(super) claimant: Option<&'a Claimant>,
    /// `None` if all callers are the same one.
    pub(super) principal: Option<&'a str>,
    /// When the maximum wait of the call is reached.
    pub(super) until: tokio::time::Instant,
}

impl Room {
    pub(in crate::ledger) fn new(bounds: Bounds, changes: &Arc<Changes>) -> Arc<Room> {
        let (stirred, draining) = (Notify::new(), CancellationToken::new());
        let room = Arc::new(Room {
            waiting: Mutex::default(),
            bounds,
            changes: Arc::clone(changes),
            stirred,
            draining,
        });
        changes.report_to(Box::new(Reports(Arc::downgrade(&room))));
        room
    }

    /// Notes what is counted of waiting calls.
    pub(in crate::ledger) fn still_counted(&self, left: &mut StillCounted) {
        let waiting = self.waiting();
        waiting.places.still_counted(left);
        left.note("seats of waiting calls", waiting.calls.len());
        left.note("keys with waiting calls", waiting.lines.len());
    }

    /// Lets all calls go: each is answered its last verdict, or the error of its last look, and no further call may wait.
    pub(in crate::ledger) fn drain(&self) {
        self.draining.cancel();
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Resolves once all calls are let go.
    pub(super) async fn drained(&self) {
        self.draining.cancelled().await;
    }

    /// Adds a waiting call. `None` if no place is free.
    pub(super) fn enter(&self, waiter: &Waiter<'_>) -> Option<(Seat, mpsc::Receiver<LookOrder>)> {
        let (key, hash) = (waiter.key, waiter.key.hash());
        let (call, called) = mpsc::channel(1);
        let mut guard = self.waiting();
        let waiting = &mut *guard;
        let of_key = waiting.lines.get(&hash).map_or(0, KeyWaiters::len);
        if !waiting.places.take(self.bounds, key.consumer(), waiter.principal, of_key) {
            return None;
        }
        waiting.last_seat += 1;
        let seat = waiting.last_seat;
        let who =
            waiter.claimant.map_or(WaiterKind::LooksUp, |claimant| WaiterKind::Claims(claimant.clone()));
        waiting.lines.entry(hash).or_default().enter(seat, who);
        waiting.calls.insert(seat, Resting { call, until: waiter.until });
        // Also for the second call: what it found may have changed since.
        waiting.polls.begin(key, Instant::now());
        self.changes.begin_wait();
        drop(guard);
        self.stirred.notify_one();
        Some((seat, called))
    }

    /// Records that a call's first look found that the key may be granted after this time.
    pub(super) fn is_due_after(&self, key: KeyHash, due: Span) {
        self.waiting().polls.is_due_after(key, due.to_std(), Instant::now());
        self.stirred.notify_one();
    }

    /// Records the result of a call's look (a re-check of its key: docs/contract.md, section 4) after which the call keeps
    /// waiting. `due`: how long until the key may be granted.
    pub(super) fn looked(&self, key: KeyHash, seat: Seat, found: Looked, due: Option<Span>) {
        let mut waiting = self.waiting();
        let Some(line) = waiting.lines.get_mut(&key) else { return };
        let called = line.looked(seat, found);
        if let Some(due) = due {
            waiting.polls.is_due_after(key, due.to_std(), Instant::now());
        }
        waiting.call(&called);
        drop(waiting);
        self.stirred.notify_one();
    }

    /// Records that a call looks a last time, since its maximum wait is reached.
    pub(super) fn looks(&self, key: KeyHash, seat: Seat) {
        if let Some(line) = self.waiting().lines.get_mut(&key) {
            line.looks(seat);
        }
    }

    /// Removes a call, and frees its place. Where its leaving lets another call look, that call is woken.
    pub(super) fn leave(&self, key: &Key, principal: Option<&str>, seat: Seat) {
        let hash = key.hash();
        let mut guard = self.waiting();
        let waiting = &mut *guard;
        waiting.calls.remove(&seat);
        waiting.places.requeue(key.consumer(), principal);
        let Some(line) = waiting.lines.get_mut(&hash) else { return };
        let called = line.leave(seat);
        if line.is_empty() {
            waiting.lines.remove(&hash);
            waiting.polls.end(hash);
        }
        waiting.call(&called);
        drop(guard);
        self.changes.end_wait();
    }

    /// Wakes calls whose key may be granted by now, since the lease of its holder or its backoff is over.
    pub(super) fn let_due_look(&self, now: Instant) {
        let mut waiting = self.waiting();
        for hash in waiting.polls.due(now) {
            let called =
                waiting.lines.get_mut(&hash).filter(|line| line.has_claims()).map(KeyWaiters::is_claimable);
            waiting.call(&called.unwrap_or_default());
        }
    }

    /// The keys of the next poll. Empty if none is due now.
    pub(super) fn take_due(&self, now: Instant) -> Vec<Key> {
        self.waiting().polls.take_due(now)
    }

    /// When the poller is due next. `None` if no call waits.
    pub(super) fn next(&self) -> Option<Instant> {
        self.waiting().polls.next()
    }

    /// Records what a poll saw of an entry, and wakes the calls that must look for it.
    pub(super) fn polled(&self, key: KeyHash, sight: &Sight) {
        self.waiting().seen(key, sight, true);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receives the changes that this server writes.
struct Reports(std::sync::Weak<Room>);

impl Reports {
    fn seen(&self, key: KeyHash, sight: &Sight) {
        if let Some(room) = self.0.upgrade() {
            room.waiting().seen(key, sight, false);
            room.stirred.notify_one();
        }
    }
}

impl Listener for Reports {
    fn written(&self, entry: &Entry, now: StoreTime) {
        self.seen(entry.key.hash(), &sight(Some(entry), now));
    }

    fn completed(&self, key: &Key) {
        self.seen(key.hash(), &Sight::Settled);
    }

    fn changed(&self, key: &Key) {
        if let Some(room) = self.0.upgrade() {
            room.waiting().polls.load_soon(key.hash(), Instant::now());
            room.stirred.notify_one();
        }
    }
}

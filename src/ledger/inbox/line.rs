//! The waiting calls of `ClaimNext`, by consumer. One handout of a consumer is under way at a time, and one of its waiting calls, the
//! leader, looks when messages are stored here, when the next message is due, and at a poll: 100 ms after its first look, then after
//! twice as long as before, up to a second.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cursor::Cursor;
use crate::common::still_counted::StillCounted;
use crate::ledger::runtime::{Mutex, MutexGuard, call_clock};
use crate::ledger::waiting::{Bounds, WaitPlaces};

/// The first and the longest time between two looks of a leader.
pub(super) const POLL_MIN: Duration = Duration::from_millis(100);
const POLL_MAX: Duration = Duration::from_secs(1);
/// From this number of consumers on, those without a call are forgotten.
const CONSUMERS_TIDY: usize = 1_024;

/// When the leader of a consumer looks next.
#[derive(Debug)]
pub(super) struct Poll {
    every: Duration,
    pub(super) at: Instant,
}

impl Default for Poll {
    fn default() -> Poll {
        Poll { every: POLL_MIN, at: call_clock() + POLL_MIN }
    }
}

impl Poll {
    /// After a look that found nothing; the next message is due after this time, if that is known.
    pub(super) fn found_nothing(&mut self, due_after: Option<Duration>, now: Instant) {
        self.every = (self.every * 2).min(POLL_MAX);
        self.at = now + due_after.map_or(self.every, |due| due.max(POLL_MIN / 10).min(self.every));
    }

    /// After a look that found messages: there may be more.
    pub(super) fn found_some(&mut self, now: Instant) {
        *self = Poll { every: POLL_MIN, at: now };
    }
}

/// The calls of one consumer.
#[derive(Default)]
pub(super) struct Line {
    pub(super) cursor: Arc<AsyncMutex<Cursor>>,
    /// Held by the call whose look is under way.
    pub(super) gate: AsyncMutex<()>,
    /// Held by the leader of the waiting calls.
    pub(super) leader: AsyncMutex<Poll>,
    /// Wakes the leader: a message was stored.
    pub(super) stirred: Notify,
}

/// See the module.
pub(super) struct Lines {
    by_consumer: Mutex<HashMap<String, Arc<Line>>>,
    places: Mutex<WaitPlaces>,
    bounds: Bounds,
    draining: CancellationToken,
}

impl Lines {
    pub(super) fn new(bounds: Bounds) -> Lines {
        Lines {
            by_consumer: Mutex::default(),
            places: Mutex::default(),
            bounds,
            draining: CancellationToken::new(),
        }
    }

    /// The line of a consumer.
    pub(super) fn of(&self, consumer: &str) -> Arc<Line> {
        let mut all = self.lines();
        if let Some(line) = all.get(consumer) {
            return Arc::clone(line);
        }
        if all.len() >= CONSUMERS_TIDY {
            all.retain(|_, line| Arc::strong_count(line) > 1);
        }
        Arc::clone(all.entry(consumer.to_owned()).or_default())
    }

    /// A message of this consumer was stored.
    pub(super) fn stored(&self, consumer: &str) {
        if let Some(line) = self.lines().get(consumer) {
            line.stirred.notify_one();
        }
    }

    /// A place for one more waiting call. `None` if there are as many as there may be.
    pub(super) fn enter<'l>(&'l self, consumer: &'l str, principal: Option<&'l str>) -> Option<Place<'l>> {
        let taken = self.places().take(self.bounds, consumer, principal, 0);
        // `then_some` would build the `Place` also where no place was taken, and its drop would return one that was not taken.
        taken.then(|| Place { lines: self, consumer, principal })
    }

    pub(super) fn drain(&self) {
        self.draining.cancel();
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Resolves once all calls are let go.
    pub(super) async fn drained(&self) {
        self.draining.cancelled().await;
    }

    pub(super) fn still_counted(&self, left: &mut StillCounted) {
        self.places().still_counted(left);
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<String, Arc<Line>>> {
        self.by_consumer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn places(&self) -> MutexGuard<'_, WaitPlaces> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a waiting call, until this is dropped.
pub(super) struct Place<'l> {
    lines: &'l Lines,
    consumer: &'l str,
    principal: Option<&'l str>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.lines.places().requeue(self.consumer, self.principal);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_leader_looks_less_often_up_to_once_a_second_and_when_a_message_is_due() {
        let now = Instant::now();
        let mut poll = Poll::default();
        let waits = |poll: &Poll| poll.at.saturating_duration_since(now).as_millis();
        for (due_after, millis) in
            [(None, 200), (None, 400), (Some(50), 50), (Some(0), 10), (None, 1_000), (Some(5_000), 1_000)]
        {
            poll.found_nothing(due_after.map(Duration::from_millis), now);
            assert_eq!(waits(&poll), millis, "{due_after:?}");
        }
        poll.found_some(now);
        assert_eq!(waits(&poll), 0);
        poll.found_nothing(None, now);
        assert_eq!(waits(&poll), 200);
    }

    #[test]
    fn lines_without_a_call_are_forgotten() {
        let lines = Lines::new(Bounds::default());
        let kept = lines.of("kept");
        for number in 0..5_000 {
            let _line = lines.of(&number.to_string());
        }
        assert!(lines.lines().len() <= CONSUMERS_TIDY);
        assert!(Arc::ptr_eq(&kept, &lines.of("kept")));
    }
}

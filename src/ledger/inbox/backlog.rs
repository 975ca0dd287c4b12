//! When no more messages are stored: the oldest one of the consumer waits for too long, or all together take too many bytes. Read
//! by the server that stores, since no other server may look where no worker runs.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Duration;

use crate::domain::{Policy, Span, StoreTime};
use crate::ledger::runtime::{Instant, Mutex};
use crate::metrics::InboxMetrics;
use crate::store::{Session, StoreError};

/// How often both are read: less often than 20 times as long as that takes, and at least once a minute.
const EVERY_MIN: Duration = Duration::from_secs(10);
const EVERY_MAX: Duration = Duration::from_mins(1);
const FACTOR: u32 = 20;
/// Consumers whose reading is remembered.
const CONSUMERS_MAX: usize = 10_000;

/// Something that was read, and when it is read again.
#[derive(Clone, Copy, Debug)]
struct Seen<T> {
    value: T,
    again_at: Instant,
}

/// When the oldest message of a consumer was due, and the store's clock when that was read.
#[derive(Clone, Copy, Debug)]
struct Oldest {
    due: Option<StoreTime>,
    now: StoreTime,
}

impl<T> Seen<T> {
    fn new(value: T, began: Instant) -> Seen<T> {
        let every = (began.elapsed() * FACTOR).clamp(EVERY_MIN, EVERY_MAX);
        Seen { value, again_at: began + every }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Backlog {
    bytes_max: u64,
    oldest: Mutex<HashMap<String, Seen<Oldest>>>,
    bytes: Mutex<Option<Seen<u64>>>,
}

impl Backlog {
    pub(super) fn new(bytes_max: u64) -> Backlog {
        Backlog { bytes_max, oldest: Mutex::default(), bytes: Mutex::default() }
    }

    /// Reads what is due to be read for Stores of this consumer.
    pub(super) async fn look(
        &self,
        session: &mut dyn Session,
        consumer: &str,
        metrics: &InboxMetrics,
    ) -> Result<(), StoreError> {
        let now = Instant::now();
        if !self.knows_bytes(now) {
            let bytes = session.inbox().message_bytes().await?;
            let bytes = u64::try_from(bytes).unwrap_or_default();
            metrics.message_bytes(bytes);
            let bytes = Seen::new(bytes, now);
            *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
        }
        if !self.knows_oldest(consumer, now) {
            let began = Instant::now();
            let (reading, due) = session.inbox().oldest_due(consumer).await?;
            let mut all = self.oldest.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() >= CONSUMERS_MAX {
                all.retain(|_, seen| seen.again_at > began);
            }
            all.insert(consumer.to_owned(), Seen::new(Oldest { due, now: reading.now }, began));
        }
        Ok(())
    }

    fn knows_bytes(&self, now: Instant) -> bool {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.is_some_and(|seen| seen.again_at > now)
    }

    fn knows_oldest(&self, consumer: &str, now: Instant) -> bool {
        let all = self.oldest.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(consumer).is_some_and(|seen| seen.again_at > now)
    }

    /// Whether no more messages of this consumer are stored at this reading of the store's clock, or at the one of the last look if
    /// that is later.
    pub(super) fn is_full(&self, consumer: &str, policy: &Policy, now: StoreTime) -> bool {
        let bytes = *self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.is_some_and(|seen| seen.value > self.bytes_max) {
            return true;
        }
        let all = self.oldest.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Oldest { due: Some(due), now: looked }) = all.get(consumer).map(|seen| seen.value) else {
            return false;
        };
        policy.backlog_max_age > Span::ZERO && now.max(looked) - due > policy.backlog_max_age
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const NOW: StoreTime = StoreTime(1_780_000_000_000_000);

    /// What was read of one consumer says nothing of another one.
    #[test]
    fn backlog_is_known_and_full_per_consumer() {
        let backlog = Backlog::new(1_000);
        let policy = Policy { backlog_max_age: Span::from_secs(60), ..Policy::default() };
        let read = |consumer: &str, due: Option<StoreTime>| {
            let seen = Seen::new(Oldest { due, now: NOW }, Instant::now());
            backlog.oldest.lock().unwrap().insert(consumer.to_owned(), seen);
        };
        read("old", Some(NOW - Span::from_secs(61)));
        read("new", Some(NOW - Span::from_secs(60)));
        read("empty", None);
        for (consumer, known, full) in
            [("old", true, true), ("new", true, false), ("empty", true, false), ("unread", false, false)]
        {
            assert_eq!(backlog.knows_oldest(consumer, Instant::now()), known, "{consumer}");
            assert_eq!(backlog.is_full(consumer, &policy, NOW), full, "{consumer}");
        }
        let later = Instant::now() + EVERY_MAX;
        assert!(!backlog.knows_oldest("old", later), "it is read again");
    }
}

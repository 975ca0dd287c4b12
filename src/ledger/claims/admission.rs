//! Quotas: the rate limit of claims a second for one consumer, as a token bucket. Settlements are never counted, so that
//! a granted claim can always be ended.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Duration;

use crate::domain::{Policy, Reason, Rejection, Span};
use crate::ledger::runtime::{Instant, Mutex};

const SECOND: Duration = Duration::from_secs(1);

/// The token bucket of one consumer. It holds at most what one second brings.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// When the bucket is full again. Each claim moves it by its share of a second.
    full_at: Instant,
}

impl Bucket {
    /// Takes one claim; `Err` has the time after which the next claim is accepted.
    fn take(&mut self, per_second: u32, now: Instant) -> Result<(), Duration> {
        let next = self.full_at.max(now) + SECOND / per_second;
        let missing = next.saturating_duration_since(now);
        if missing > SECOND {
            return Err(missing.saturating_sub(SECOND));
        }
        self.full_at = next;
        Ok(())
    }
}

/// The buckets that are not full. A missing bucket counts as full, so the map has hardly more buckets than consumers that
/// claimed within the last second.
#[derive(Debug, Default)]
struct Buckets {
    by_consumer: HashMap<String, Bucket>,
    /// Full buckets are removed once there are this many.
    tidy_at: usize,
}

/// Below this number of buckets, no full bucket is removed.
const TIDY_MIN: usize = 1_024;

impl Buckets {
    fn take(&mut self, consumer: &str, per_second: u32, now: Instant) -> Result<(), Duration> {
        if let Some(bucket) = self.by_consumer.get_mut(consumer) {
            return bucket.take(per_second, now);
        }
        if self.by_consumer.len() >= self.tidy_at.max(TIDY_MIN) {
            self.by_consumer.retain(|_, bucket| bucket.full_at > now);
            self.tidy_at = self.by_consumer.len().saturating_mul(2);
        }
        self.by_consumer.entry(consumer.to_owned()).or_insert(Bucket { full_at: now }).take(per_second, now)
    }
}

/// The quotas of all consumers that have one.
#[derive(Debug, Default)]
pub(crate) struct Quotas(Mutex<Buckets>);

impl Quotas {
    /// Accepts one claim, or refuses it.
    pub(crate) fn admit(&self, consumer: &str, policy: &Policy) -> Result<(), Rejection> {
        let Some(per_second) = u32::try_from(policy.claims_per_second).ok().filter(|&quota| quota > 0) else {
            return Ok(());
        };
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.take(consumer, per_second, Instant::now()).map_err(|wait| Rejection {
            retry_after: Some(Span::from_std(wait).max(Span(1))),
            ..Rejection::new(
                Reason::QuotaExceeded,
                format!(
                    "this server takes {per_second} claims a second for this consumer (claims_per_second); \
                     nothing was changed: try again later"
                ),
            )
        })
    }
}

impl Quotas {
    /// Accepts up to this many claims; returns how many.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED`: none.
    pub(crate) fn admit_some(
        &self,
        consumer: &str,
        policy: &Policy,
        wanted: usize,
    ) -> Result<usize, Rejection> {
        if policy.claims_per_second <= 0 {
            return Ok(wanted);
        }
        self.admit(consumer, policy)?;
        Ok(1 + (1..wanted).take_while(|_| self.admit(consumer, policy).is_ok()).count())
    }

    /// Returns accepted claims that were not used.
    pub(crate) fn put_back(&self, consumer: &str, policy: &Policy, unused: usize) {
        let per_second = u32::try_from(policy.claims_per_second).ok().filter(|&quota| quota > 0);
        if let (Some(per_second), Ok(unused)) = (per_second, u32::try_from(unused)) {
            let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(bucket) = buckets.by_consumer.get_mut(consumer) {
                bucket.full_at =
                    bucket.full_at.checked_sub(SECOND / per_second * unused).unwrap_or(bucket.full_at);
            }
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn one_second_accepts_as_many_claims_as_the_quota() {
        for quota in [1, 3, 5, 7, 1_000, 1_000_000] {
            let now = Instant::now();
            let mut bucket = Bucket { full_at: now };
            for number in 0..quota {
                assert!(bucket.take(quota, now).is_ok(), "{number} of {quota}");
            }
            let wait = bucket.take(quota, now).unwrap_err();
            assert!(wait > Duration::ZERO && wait <= SECOND / quota, "{wait:?}");
            assert!(bucket.take(quota, now + wait).is_ok(), "accepted after the retry-after");
            assert!(bucket.take(quota, now + wait).is_err(), "no more than one");
        }
    }

    #[test]
    fn an_unused_quota_is_kept_for_one_second() {
        let now = Instant::now();
        let mut bucket = Bucket { full_at: now };
        let later = now + Duration::from_hours(1);
        let taken = (0..100).filter(|_| bucket.take(5, later).is_ok()).count();
        assert_eq!(taken, 5);
        let taken = (0..100).filter(|_| bucket.take(5, later + Duration::from_millis(400)).is_ok()).count();
        assert_eq!(taken, 2);
    }

    #[test]
    fn a_changed_quota_counts_immediately() {
        let now = Instant::now();
        let mut bucket = Bucket { full_at: now };
        while bucket.take(5, now).is_ok() {}
        let taken = (0..100).filter(|_| bucket.take(10, now + Duration::from_millis(500)).is_ok()).count();
        assert_eq!(taken, 5);
    }

    #[test]
    fn full_buckets_are_removed() {
        let mut buckets = Buckets::default();
        let start = Instant::now();
        for number in 0..100_000_u32 {
            let now = start + Duration::from_millis(number.into());
            buckets.take(&format!("c{number}"), 10, now).unwrap();
            assert!(buckets.by_consumer.len() <= TIDY_MIN, "{number}");
        }
    }

    /// However many consumers have a bucket by then.
    #[test]
    fn used_up_bucket_is_kept_until_it_is_full_again() {
        let (mut buckets, start) = (Buckets::default(), Instant::now());
        let all: Vec<String> = (0..TIDY_MIN).map(|number| format!("c{number}")).collect();
        for consumer in &all {
            assert_eq!(
                (buckets.take(consumer, 2, start), buckets.take(consumer, 2, start)),
                (Ok(()), Ok(()))
            );
        }
        buckets.take("one more", 2, start).unwrap();
        for consumer in &all {
            assert_eq!(buckets.take(consumer, 2, start), Err(SECOND / 2), "{consumer}");
        }
        // A bucket that is full again is removed: it counts as full.
        buckets.tidy_at = 0;
        buckets.take("another", 2, start + SECOND).unwrap();
        assert_eq!(buckets.by_consumer.len(), 1);
    }
}

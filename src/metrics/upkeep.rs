//! Counts of background work: sessions with the store, the purge, the policies, the clock.

use std::sync::OnceLock;
use std::time::Duration;

use prometheus::{Error, IntCounter, IntCounterVec, IntGauge, Registry};

use super::catalogue::{
    ANSWER_BYTES, CLOCK_AHEAD, CLOCK_BEHIND, HOLDS, LEFT_BEHIND, LOG_DROPPED, LOSSES, OPENED, POLICIES_AGE,
    POLICIES_UNREADABLE, PURGE_FAILURES, PURGE_OLDEST, PURGED, REPLACED, REQUEST_BYTES, SESSIONS,
    SESSIONS_WANTED,
};

/// The counts of background work.
pub(crate) struct Upkeep {
    opened: IntCounterVec,
    replaced: IntCounterVec,
    sessions: IntGauge,
    sessions_wanted: IntGauge,
    left_behind: IntGauge,
    losses: IntCounter,
    purged: IntCounter,
    purge_failures: IntCounter,
    purge_oldest: IntGauge,
    policies_age: IntGauge,
    policies_unreadable: IntGauge,
    holds: IntGauge,
    clock_behind: IntGauge,
    clock_ahead: IntGauge,
    request_bytes: IntGauge,
    answer_bytes: IntGauge,
    log_dropped: IntCounter,
    /// Returns how many bytes requests and answers hold.
    held_now: OnceLock<(Bytes, Bytes)>,
    /// Returns how many lines the log has dropped.
    log_dropped_now: OnceLock<Box<dyn Fn() -> u64 + Send + Sync>>,
}

/// Returns a number of bytes, whenever it is called.
type Bytes = Box<dyn Fn() -> usize + Send + Sync>;

/// The values at the moment of a scrape.
pub(crate) struct Now {
    /// The number of sessions that carry claims and settlements.
    pub(crate) sessions: usize,
    /// The number of sessions that there should be.
    pub(crate) sessions_wanted: usize,
    /// The number of orphaned backends: still running a statement of a session that was given up.
    pub(crate) left_behind: usize,
    /// How often the store had lost what it had acknowledged.
    pub(crate) losses: u64,
    /// How long ago the policies were read.
    pub(crate) policies_age: Duration,
    /// The number of stored policies that cannot be read.
    pub(crate) policies_unreadable: usize,
    /// The number of holds in force.
    pub(crate) holds: usize,
}

impl Upkeep {
    pub(super) fn new(registry: &Registry) -> Result<Upkeep, Error> {
        Ok(Upkeep {
            opened: OPENED.counters(registry)?,
            replaced: REPLACED.counters(registry)?,
            sessions: SESSIONS.gauge(registry)?,
            sessions_wanted: SESSIONS_WANTED.gauge(registry)?,
            left_behind: LEFT_BEHIND.gauge(registry)?,
            losses: LOSSES.counter(registry)?,
            purged: PURGED.counter(registry)?,
            purge_failures: PURGE_FAILURES.counter(registry)?,
            purge_oldest: PURGE_OLDEST.gauge(registry)?,
            policies_age: POLICIES_AGE.gauge(registry)?,
            policies_unreadable: POLICIES_UNREADABLE.gauge(registry)?,
            holds: HOLDS.gauge(registry)?,
            clock_behind: CLOCK_BEHIND.gauge(registry)?,
            clock_ahead: CLOCK_AHEAD.gauge(registry)?,
            request_bytes: REQUEST_BYTES.gauge(registry)?,
            answer_bytes: ANSWER_BYTES.gauge(registry)?,
            log_dropped: LOG_DROPPED.counter(registry)?,
            held_now: OnceLock::new(),
            log_dropped_now: OnceLock::new(),
        })
    }

    /// Creates the counters of sessions for this purpose at zero, so that they are exported before the first session.
    pub(crate) fn may_be_opened(&self, purpose: &str) {
        for outcome in ["ok", "failed"] {
            drop(self.opened.get_metric_with_label_values(&[purpose, outcome]));
            drop(self.replaced.get_metric_with_label_values(&[purpose, outcome]));
        }
    }

    /// Counts an attempt to open a session.
    pub(crate) fn opened(&self, purpose: &str, done: bool) {
        count(&self.opened, purpose, done);
    }

    /// Counts an attempt to replace a session at the end of its lifetime (rotation).
    pub(crate) fn replaced(&self, purpose: &str, done: bool) {
        count(&self.replaced, purpose, done);
    }

    pub(crate) fn purged(&self, entries: usize) {
        self.purged.inc_by(u64::try_from(entries).unwrap_or(u64::MAX));
    }

    pub(crate) fn purge_failed(&self) {
        self.purge_failures.inc();
    }

    /// Shows how long the oldest entry has waited that this purge has looked at.
    pub(crate) fn purge_waits(&self, micros: i64) {
        self.purge_oldest.set((micros / 1_000_000).max(0));
    }

    /// Shows how far the store's clock is behind its mark.
    pub(crate) fn clock_behind(&self, micros: i64) {
        // Rounded up: a clock that is behind by less than a second counts as behind.
        self.clock_behind.set(micros.max(0).saturating_add(999_999) / 1_000_000);
    }

    /// Shows how far the store's clock has jumped ahead of its mark.
    pub(crate) fn clock_ahead(&self, micros: i64) {
        self.clock_ahead.set(micros.max(0) / 1_000_000);
    }

    /// Sets the functions that are asked, at each scrape, how many bytes requests and answers hold; only the
    /// first call counts.
    pub(crate) fn held_bytes_by(
        &self,
        requests: impl Fn() -> usize + Send + Sync + 'static,
        answers: impl Fn() -> usize + Send + Sync + 'static,
    ) {
        self.held_now.get_or_init(|| (Box::new(requests), Box::new(answers)));
    }

    /// Sets the function that is asked, at each scrape, how many lines the log has dropped; only the first
    /// call counts.
    pub(crate) fn log_lines_dropped_by(&self, dropped: impl Fn() -> u64 + Send + Sync + 'static) {
        self.log_dropped_now.get_or_init(|| Box::new(dropped));
    }

    pub(crate) fn now(&self, now: &Now) {
        let whole = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let (requests, answers) =
            self.held_now.get().map_or((0, 0), |(requests, answers)| (requests(), answers()));
        let log_dropped = self.log_dropped_now.get().map_or(0, |dropped| dropped());
        self.log_dropped.inc_by(log_dropped.saturating_sub(self.log_dropped.get()));
        self.request_bytes.set(whole(requests));
        self.answer_bytes.set(whole(answers));
        self.sessions.set(whole(now.sessions));
        self.sessions_wanted.set(whole(now.sessions_wanted));
        self.left_behind.set(whole(now.left_behind));
        self.losses.inc_by(now.losses.saturating_sub(self.losses.get()));
        self.policies_age.set(i64::try_from(now.policies_age.as_secs()).unwrap_or(i64::MAX));
        self.policies_unreadable.set(whole(now.policies_unreadable));
        self.holds.set(whole(now.holds));
    }
}

fn count(of: &IntCounterVec, purpose: &str, done: bool) {
    if let Ok(count) = of.get_metric_with_label_values(&[purpose, if done { "ok" } else { "failed" }]) {
        count.inc();
    }
}

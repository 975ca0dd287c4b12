//! The report of this server's purge: its status for operators, and a warning when it does not keep up.

use std::collections::VecDeque;
use std::time::Duration;

use uuid::Uuid;

use crate::domain::{PurgeWorker, Span, StoreTime};
use crate::ledger::runtime::Instant;
use crate::metrics::Metrics;
use crate::store::{Fault, StoreError};

/// Period of the reported rate.
const LATELY: Duration = Duration::from_mins(1);
/// How often the store gets a report at most, while nothing changes.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// How often the log reports how many entries were deleted.
const SAY_EVERY: Duration = Duration::from_mins(1);
/// A purge that is behind by less than this keeps up, however often it runs.
const BEHIND_MIN: Duration = Duration::from_mins(10);
/// Number of rounds by which a purge must be behind.
const BEHIND_ROUNDS: u32 = 10;

/// The purge counts as behind once the oldest due entry has waited this long.
pub(crate) fn too_long(purge_every: Duration) -> Span {
    Span::from_std(BEHIND_MIN.max(purge_every.saturating_mul(BEHIND_ROUNDS)))
}

pub(super) struct PurgeReport {
    replica: Uuid,
    metrics: Metrics,
    too_long: Span,
    total: i64,
    /// Number of entries deleted within the last minute, about one second to an item.
    lately: VecDeque<(Instant, usize)>,
    error: Option<(&'static str, Instant)>,
    error_at: Option<StoreTime>,
    reported_at: Option<Instant>,
    news: bool,
    behind: bool,
    /// Number of entries deleted since the last log line.
    unsaid: usize,
    said: Option<Instant>,
}

impl PurgeReport {
    pub(super) fn new(replica: Uuid, purge_every: Duration, metrics: Metrics) -> PurgeReport {
        PurgeReport {
            replica,
            metrics,
            too_long: too_long(purge_every),
            total: 0,
            lately: VecDeque::new(),
            error: None,
            error_at: None,
            reported_at: None,
            news: false,
            behind: false,
            unsaid: 0,
            said: None,
        }
    }

    /// Notes how long an entry has waited. Logs once when the purge begins to fall behind.
    pub(super) fn waited(&mut self, waits: Span) {
        self.metrics.upkeep().purge_waits(waits.micros());
        if waits > self.too_long && !self.behind {
            tracing::warn!(oldest_due_seconds = waits.0 / 1_000_000, "the purge is falling behind");
            self.behind = true;
        }
    }

    /// Notes that no consumer is due.
    pub(super) fn idle(&mut self) {
        self.metrics.upkeep().purge_waits(0);
        if self.behind {
            tracing::info!("the purge has caught up");
        }
        self.behind = false;
    }

    pub(super) fn purged(&mut self, count: usize, now: Instant) {
        if count == 0 {
            return;
        }
        self.news = true;
        self.metrics.upkeep().purged(count);
        self.total = self.total.saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
        self.unsaid += count;
        if self.said.is_none_or(|said| now.saturating_duration_since(said) >= SAY_EVERY) {
            tracing::info!(purged = self.unsaid, "entries forgotten after their retention");
            (self.unsaid, self.said) = (0, Some(now));
        }
        match self.lately.back_mut() {
            Some((since, sum)) if now.saturating_duration_since(*since) < Duration::from_secs(1) => {
                *sum += count;
            }
            _ => self.lately.push_back((now, count)),
        }
    }

    pub(super) fn failed(&mut self, problem: &'static str, now: Instant) {
        self.news = true;
        self.metrics.upkeep().purge_failed();
        self.error = Some((problem, now));
        self.error_at = None;
    }

    /// The report for the store, if one is due; `at` is the store's clock.
    pub(super) fn report(&mut self, at: StoreTime, now: Instant) -> Option<PurgeWorker> {
        let long_ago = |reported_at: Instant| now.saturating_duration_since(reported_at) >= TELL_EVERY;
        if !self.news && !self.reported_at.is_none_or(long_ago) {
            return None;
        }
        (self.news, self.reported_at) = (false, Some(now));
        while self.lately.front().is_some_and(|(since, _)| now.saturating_duration_since(*since) >= LATELY) {
            self.lately.pop_front();
        }
        let lately: usize = self.lately.iter().map(|(_, count)| count).sum();
        if let Some((_, failed)) = self.error {
            // The store could not be asked for its clock when it failed.
            let ago = Span::from_std(now.saturating_duration_since(failed));
            self.error_at.get_or_insert(at - ago);
        }
        Some(PurgeWorker {
            replica: self.replica,
            last_run_at: at,
            purged_total: self.total,
            purged_per_second: f64::from(u32::try_from(lately).unwrap_or(u32::MAX)) / LATELY.as_secs_f64(),
            last_error: self.error.map(|(problem, _)| problem.to_owned()),
            last_error_at: self.error_at,
        })
    }
}

/// In words that may be shown to operators: a driver's error may not.
pub(super) fn words(error: &StoreError) -> &'static str {
    match error {
        StoreError::Unknown(_) => "the connection to the store was lost",
        StoreError::NotApplied(fault) => match fault {
            Fault::Unavailable(_) => "the store could not be reached, or refused writes",
            Fault::TimedOut(_) => "a statement took too long",
            Fault::Conflict(_) => "lost against other statements",
            Fault::Stale(_) => "the connection to the store had to be renewed",
            Fault::Locked(_) => "a row was locked by another session, and not released",
            Fault::Permanent(_) => "the store refused a statement",
            Fault::ClockBehind => "the store's clock was behind its mark, or had jumped ahead of it",
            Fault::Schema(_) => "the schema was not the one that this server works with",
            Fault::Outdated(_) => "the store needs a newer server",
        },
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const NOW: StoreTime = StoreTime(1_780_000_000_000_000);

    fn log() -> (PurgeReport, Instant) {
        let metrics = Metrics::new().expect("metrics");
        (PurgeReport::new(Uuid::nil(), Duration::from_secs(10), metrics), Instant::now())
    }

    #[test]
    fn the_rate_is_that_of_the_last_minute() {
        let (mut log, start) = log();
        for second in 0..120 {
            log.purged(30, start + Duration::from_secs(second));
            log.purged(30, start + Duration::from_millis(second * 1_000 + 500));
        }
        let report = log.report(NOW, start + Duration::from_mins(2)).unwrap();
        assert_eq!(report.purged_total, 7_200);
        assert!((59.0..=60.0).contains(&report.purged_per_second), "{}", report.purged_per_second);
        assert!(log.lately.len() <= 60);
        let report = log.report(NOW, start + Duration::from_secs(200)).unwrap();
        assert_eq!((report.purged_total, report.purged_per_second), (7_200, 0.0));
    }

    #[test]
    fn the_store_is_told_news_at_once_and_else_once_a_second() {
        let (mut log, start) = log();
        let at = |millis| start + Duration::from_millis(millis);
        assert!(log.report(NOW, at(0)).is_some(), "that it is there");
        assert!(log.report(NOW, at(900)).is_none());
        log.purged(0, at(900));
        assert!(log.report(NOW, at(901)).is_none(), "without news, no report");
        log.purged(1, at(902));
        assert!(log.report(NOW, at(903)).is_some());
        assert!(log.report(NOW, at(1_800)).is_none());
        assert!(log.report(NOW, at(1_903)).is_some());
    }

    /// Operators see these words in `GetStatus`: no address, statement or error text of the database.
    #[test]
    fn words_of_an_error_have_no_text_of_the_database() {
        let text = || "host=db.internal password=secret".to_owned();
        for (error, says) in [
            (StoreError::Unknown(text()), "connection to the store was lost"),
            (StoreError::NotApplied(Fault::Unavailable(text())), "could not be reached"),
            (StoreError::NotApplied(Fault::TimedOut(text())), "took too long"),
            (StoreError::NotApplied(Fault::Conflict(text())), "lost against other statements"),
            (StoreError::NotApplied(Fault::Stale(text())), "had to be renewed"),
            (StoreError::NotApplied(Fault::Locked(text())), "locked by another session"),
            (StoreError::NotApplied(Fault::Permanent(text())), "refused a statement"),
            (StoreError::NotApplied(Fault::ClockBehind), "clock was behind"),
            (StoreError::NotApplied(Fault::Schema(text())), "schema was not the one"),
            (StoreError::NotApplied(Fault::Outdated(text())), "needs a newer server"),
        ] {
            let words = words(&error);
            assert!(words.contains(says) && !words.contains("secret"), "{error:?}: {words}");
        }
    }

    #[test]
    fn an_error_keeps_its_instant_until_the_next_one() {
        let (mut log, start) = log();
        for (error, failed) in [("no", NOW), ("again", NOW + Span::from_secs(900))] {
            log.failed(error, start);
            for later in [5, 500] {
                let at = failed + Span::from_secs(later);
                let report = log.report(at, start + Duration::from_secs(5)).unwrap();
                assert_eq!((report.last_error.as_deref(), report.last_error_at), (Some(error), Some(failed)));
                log.purged(1, start);
            }
        }
    }

    #[test]
    fn it_falls_behind_after_ten_rounds_and_ten_minutes() {
        assert_eq!(too_long(Duration::from_secs(10)), Span::from_secs(600));
        assert_eq!(too_long(Duration::from_mins(5)), Span::from_secs(3_000));
        let (mut log, _) = log();
        for (wait, behind) in [(0, false), (600, false), (601, true), (0, true)] {
            log.waited(Span::from_secs(wait));
            assert_eq!(log.behind, behind, "{wait}");
        }
        log.idle();
        assert!(!log.behind);
    }
}

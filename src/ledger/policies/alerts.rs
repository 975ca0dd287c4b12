//! When the log reports the stored policies that this version cannot read.

use std::time::Duration;

use super::table::Policies;
use crate::ledger::runtime::Instant;

/// How often the log reports policies that cannot be read, while their number does not change.
const EVERY: Duration = Duration::from_mins(1);
/// Length of the error of such a policy in the log.
const PROBLEM_CHARS_MAX: usize = 200;

/// When the log last reported policies that cannot be read, and their number.
#[derive(Default)]
pub(super) struct Alerts(Option<(Instant, usize)>);

impl Alerts {
    /// Whether the log reports now that `count` policies cannot be read: once a minute, and whenever their number changes.
    fn are_due(&mut self, count: usize, now: Instant) -> bool {
        let is_due = match self.0 {
            None => count > 0,
            Some((at, before)) => before != count || now.saturating_duration_since(at) >= EVERY,
        };
        if is_due {
            self.0 = (count > 0).then_some((now, count));
        }
        is_due
    }

    /// The number of policies that the log has reported last; `None` if all can be read.
    #[cfg(all(test, not(feature = "shuttle")))]
    pub(super) fn reported(&self) -> Option<usize> {
        self.0.map(|(_, count)| count)
    }

    /// Logs it if it is due.
    pub(super) fn log(&mut self, policies: &Policies, now: Instant) {
        let count = policies.unreadable().count();
        if !self.are_due(count, now) {
            return;
        }
        let Some(one) = policies.unreadable().next() else {
            tracing::info!("all stored policies can be read again");
            return;
        };
        let problem: String = one.problem.chars().take(PROBLEM_CHARS_MAX).collect();
        tracing::error!(
            consumers = count,
            first = one.consumer,
            version = one.version,
            problem,
            "stored policies cannot be read by this version: it grants, parks and purges nothing for these \
             consumers; upgrade this server, or set policies that it can read"
        );
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn alerts_come_once_a_minute_and_with_each_change() {
        let start = Instant::now();
        let mut alerts = Alerts::default();
        for (second, count, is_due) in [
            (0, 0, false),
            (1, 2, true),
            (2, 2, false),
            (60, 2, false),
            (61, 2, true),
            (62, 2, false),
            (63, 1, true),
            (64, 3, true),
            (123, 3, false),
            // All can be read again: said once.
            (124, 0, true),
            (125, 0, false),
            (900, 0, false),
            (901, 1, true),
        ] {
            let now = start + Duration::from_secs(second);
            assert_eq!(alerts.are_due(count, now), is_due, "{count} in second {second}");
        }
    }
}

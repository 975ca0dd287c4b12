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
pub(super) mod tests {
    use std::io::{Read as _, Seek as _};
    use std::sync::Arc;

    use super::*;
    use crate::domain::{PolicyVersion, StoreTime};

    /// A policy that this version cannot read.
    pub(in crate::ledger::policies) fn of_newer_version() -> PolicyVersion {
        PolicyVersion {
            consumer: "pay".into(),
            version: 1,
            policy: Some(r#"{"quorum":3}"#.into()),
            created_at: StoreTime(1),
            actor: "a".into(),
            reason: "r".into(),
        }
    }

    #[test]
    fn lines_come_when_policies_cannot_be_read_and_when_all_can_be_read_again() {
        let readable = Policies::default();
        let newer = readable.with(&[of_newer_version()], None);
        let mut file = tempfile::tempfile().unwrap();
        let writer = Arc::new(file.try_clone().unwrap());
        let logs = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
        let (start, mut alerts) = (Instant::now(), Alerts::default());
        tracing::subscriber::with_default(logs, || {
            for (second, policies) in
                [(0, &readable), (1, &newer), (2, &newer), (3, &readable), (4, &readable)]
            {
                alerts.log(policies, start + Duration::from_secs(second));
            }
        });
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(
            lines[0].contains("ERROR") && lines[0].contains("consumers=1 first=\"pay\" version=1"),
            "{text}"
        );
        assert!(lines[1].contains("INFO") && lines[1].contains("can be read again"), "{text}");
    }

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

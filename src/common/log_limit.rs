//! Rate-limited log: lines that a failing store would cause for each batch or attempt are written at most once a second for
//! each kind, with the number of lines that were suppressed since the previous one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The limit of one kind of line.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    last: Option<Instant>,
    suppressed: u64,
}

impl Lines {
    /// Permits a line now, with the number of lines suppressed since the last one. `None` if this one is suppressed too; it
    /// always is unless `allowed`.
    pub(crate) fn permit(&mut self, now: Instant, allowed: bool) -> Option<Suppressed> {
        if !allowed || self.last.is_some_and(|last| now.saturating_duration_since(last) < SECOND) {
            self.suppressed += 1;
            return None;
        }
        self.last = Some(now);
        Some(Suppressed(std::mem::take(&mut self.suppressed)))
    }

    /// Whether no suppressed line waits to be reported.
    pub(crate) fn has_none_suppressed(&self) -> bool {
        self.suppressed == 0
    }
}

/// The limit of one kind of line, written at any place of the code.
pub(crate) struct LogLimit(Mutex<Lines>);

impl LogLimit {
    pub(crate) const fn new() -> LogLimit {
        LogLimit(Mutex::new(Lines { last: None, suppressed: 0 }))
    }

    /// As [`Lines::permit`].
    pub(crate) fn permit(&self, now: Instant) -> Option<Suppressed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).permit(now, true)
    }
}

/// The limits of several kinds of line, each with a name of a fixed set.
pub(crate) struct LogLimitByKind(Mutex<Option<HashMap<&'static str, Lines>>>);

impl LogLimitByKind {
    pub(crate) const fn new() -> LogLimitByKind {
        LogLimitByKind(Mutex::new(None))
    }

    /// As [`Lines::permit`], for this kind.
    pub(crate) fn permit(&self, kind: &'static str, now: Instant) -> Option<Suppressed> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.get_or_insert_default().entry(kind).or_default().permit(now, true)
    }
}

/// Number of suppressed lines of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Suppressed(u64);

impl Suppressed {
    /// For the log field, which is left out at zero.
    pub(crate) fn logged(self) -> Option<u64> {
        (self.0 > 0).then_some(self.0)
    }
}

/// Logs at most once a second for each place of the code that uses it; takes what `tracing::warn!` takes.
macro_rules! once_a_second {
    ($level:ident, $($line:tt)+) => {{
        static KIND: $crate::common::log_limit::LogLimit =
            $crate::common::log_limit::LogLimit::new();
        if let Some(held_back) = KIND.permit(std::time::Instant::now()) {
            tracing::$level!(held_back = held_back.logged(), $($line)+);
        }
    }};
}
pub(crate) use once_a_second;

/// Warns at most once a second.
macro_rules! warn_once_a_second {
    ($($line:tt)+) => { $crate::common::log_limit::once_a_second!(warn, $($line)+) };
}
pub(crate) use warn_once_a_second;

/// Logs an error at most once a second.
macro_rules! error_once_a_second {
    ($($line:tt)+) => { $crate::common::log_limit::once_a_second!(error, $($line)+) };
}
pub(crate) use error_once_a_second;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_has_the_number_of_suppressed_lines() {
        let (kind, start) = (LogLimit::new(), Instant::now());
        let results: Vec<_> = [0, 1, 500, 999, 1_000, 1_999, 2_000, 9_000]
            .into_iter()
            .map(|millis| kind.permit(start + Duration::from_millis(millis)).map(Suppressed::logged))
            .collect();
        assert_eq!(
            results,
            [Some(None), None, None, None, Some(Some(3)), None, Some(Some(1)), Some(None)],
            "held back, or written with the number of those that were"
        );
    }
}

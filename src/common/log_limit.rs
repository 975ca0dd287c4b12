//! Lines of the log that a failing store would make for each batch or attempt: one a second of each kind, with
//! the number of those that were held back since the one before.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The lines of one kind.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    last: Option<Instant>,
    held_back: u64,
}

impl Lines {
    /// Whether a line may be written now: how many were held back since the last one. None: this one is held back,
    /// too, as it is where it is not `allowed`.
    pub(crate) fn turn(&mut self, now: Instant, allowed: bool) -> Option<HeldBack> {
        if !allowed || self.last.is_some_and(|last| now.saturating_duration_since(last) < SECOND) {
            self.held_back += 1;
            return None;
        }
        self.last = Some(now);
        Some(HeldBack(std::mem::take(&mut self.held_back)))
    }

    /// Nothing is left to be told.
    pub(crate) fn owes_nothing(&self) -> bool {
        self.held_back == 0
    }
}

/// One kind of line, from wherever it is written.
pub(crate) struct OnceASecond(Mutex<Lines>);

impl OnceASecond {
    pub(crate) const fn new() -> OnceASecond {
        OnceASecond(Mutex::new(Lines { last: None, held_back: 0 }))
    }

    /// As [`Lines::turn`].
    pub(crate) fn turn(&self, now: Instant) -> Option<HeldBack> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).turn(now, true)
    }
}

/// Several kinds of line, each with a name of a fixed set.
pub(crate) struct EachOnceASecond(Mutex<Option<HashMap<&'static str, Lines>>>);

impl EachOnceASecond {
    pub(crate) const fn new() -> EachOnceASecond {
        EachOnceASecond(Mutex::new(None))
    }

    /// As [`Lines::turn`], of this kind.
    pub(crate) fn turn(&self, kind: &'static str, now: Instant) -> Option<HeldBack> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.get_or_insert_default().entry(kind).or_default().turn(now, true)
    }
}

/// How many lines of a kind were held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldBack(u64);

impl HeldBack {
    /// For the log, where nothing is said of none.
    pub(crate) fn logged(self) -> Option<u64> {
        (self.0 > 0).then_some(self.0)
    }
}

/// Logs at most once a second from each place of the code where it stands; takes what `tracing::warn!` takes.
macro_rules! once_a_second {
    ($level:ident, $($line:tt)+) => {{
        static KIND: $crate::common::log_limit::OnceASecond =
            $crate::common::log_limit::OnceASecond::new();
        if let Some(held_back) = KIND.turn(std::time::Instant::now()) {
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
    fn a_line_a_second_tells_how_many_were_held_back() {
        let (kind, start) = (OnceASecond::new(), Instant::now());
        let told: Vec<_> = [0, 1, 500, 999, 1_000, 1_999, 2_000, 9_000]
            .into_iter()
            .map(|millis| kind.turn(start + Duration::from_millis(millis)).map(HeldBack::logged))
            .collect();
        assert_eq!(
            told,
            [Some(None), None, None, None, Some(Some(3)), None, Some(Some(1)), Some(None)],
            "held back, or written with the number of those that were"
        );
    }
}

//! The cardinality limit: how many series, and bytes of the text that Prometheus reads, may have names that
//! clients choose.

use std::sync::{Mutex, PoisonError};

use crate::common::misleading::visible;

/// The number of series with clients' names: with those that always exist, fewer than 20,000 in all.
const SERIES_MAX: usize = 17_000;
/// The bytes of their text: with the others, less than two megabytes in all.
const BYTES_MAX: usize = 1_700_000;
/// The part reserved for names that operators have set: clients' names cannot use it.
const RESERVE: SeriesCost = SeriesCost { series: 3_000, bytes: 300_000 };
/// The maximum length of a line without the names of clients.
const LINE: usize = 110;

/// What some series cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeriesCost {
    series: usize,
    bytes: usize,
}

impl SeriesCost {
    /// This number of series, each with these names in its labels.
    pub(super) fn of(series: usize, names: &[&str]) -> SeriesCost {
        // Within a label some characters are written as two, and control and bidi characters as an escape.
        let written = |name: &&str| {
            let name = visible(name);
            name.len() + name.matches(['"', '\\', '\n']).count()
        };
        let line = LINE + names.iter().map(written).sum::<usize>();
        SeriesCost { series, bytes: series * line }
    }

    pub(super) fn and(self, other: SeriesCost) -> SeriesCost {
        SeriesCost { series: self.series + other.series, bytes: self.bytes + other.bytes }
    }

    pub(super) fn without(self, other: SeriesCost) -> SeriesCost {
        let series = self.series.saturating_sub(other.series);
        SeriesCost { series, bytes: self.bytes.saturating_sub(other.bytes) }
    }

    fn fits(self, named: NamedBy) -> bool {
        let reserved = match named {
            NamedBy::ByOperator => SeriesCost::default(),
            NamedBy::ByClient => RESERVE,
        };
        self.series <= SERIES_MAX - reserved.series && self.bytes <= BYTES_MAX - reserved.bytes
    }
}

/// Who made a name known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedBy {
    /// An operator, by setting its policy or by the rights file.
    ByOperator,
    /// A client, by sending it.
    ByClient,
}

impl NamedBy {
    pub(super) fn by_operator(is: bool) -> NamedBy {
        if is { NamedBy::ByOperator } else { NamedBy::ByClient }
    }
}

/// The cost that is in use.
#[derive(Debug, Default)]
pub(super) struct CardinalityLimit(Mutex<SeriesCost>);

impl CardinalityLimit {
    /// Whether series of such a name fit the limit.
    pub(super) fn has(&self, needs: SeriesCost, named: NamedBy) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).and(needs).fits(named)
    }

    /// Charges series of such a name, if they fit the limit.
    pub(super) fn take(&self, needs: SeriesCost, named: NamedBy) -> bool {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = taken.and(needs);
        let fits = all.fits(named);
        if fits {
            *taken = all;
        }
        fits
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        *self.0.lock().unwrap() == SeriesCost::default()
    }

    #[cfg(test)]
    pub(super) fn series(&self) -> usize {
        self.0.lock().unwrap().series
    }

    /// Returns the cost of removed series.
    pub(super) fn give_back(&self, needs: SeriesCost) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.series = taken.series.saturating_sub(needs.series);
        taken.bytes = taken.bytes.saturating_sub(needs.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_bounds_series_and_bytes_and_is_given_back() {
        for (needs, times) in [
            (SeriesCost::of(100, &["c"]), BYTES_MAX / (100 * (LINE + 1))),
            (SeriesCost::of(100, &[&"c".repeat(128)]), BYTES_MAX / (100 * (LINE + 128))),
            (SeriesCost::of(100, &[&"\"".repeat(128)]), BYTES_MAX / (100 * (LINE + 256))),
            (SeriesCost { series: 1_000, bytes: 1 }, SERIES_MAX / 1_000),
        ] {
            let limit = CardinalityLimit::default();
            let take = || limit.take(needs, NamedBy::ByOperator);
            assert_eq!((0..1_000).filter(|_| take()).count(), times, "{needs:?}");
            limit.give_back(needs);
            assert!(take() && !take(), "{needs:?}");
        }
    }

    #[test]
    fn names_of_clients_leave_the_reserve_to_names_of_operators() {
        for needs in [SeriesCost { series: 1_000, bytes: 1 }, SeriesCost { series: 1, bytes: 100_000 }] {
            let limit = CardinalityLimit::default();
            let taken = |named| (0..100).filter(|_| limit.take(needs, named)).count();
            assert_eq!((taken(NamedBy::ByClient), taken(NamedBy::ByOperator)), (14, 3), "{needs:?}");
            assert!(!limit.has(needs, NamedBy::ByOperator), "{needs:?}");
        }
    }
}

//! How much there is room for of what clients name: series, and bytes of the text that Prometheus reads.

use std::sync::{Mutex, PoisonError};

use crate::common::misleading::visible;

/// So many series may bear names of clients: with those that are always there fewer than 20,000.
const SERIES_MAX: usize = 17_000;
/// As so many bytes of text at the most: with the others fewer than two megabytes.
const BYTES_MAX: usize = 1_700_000;
/// The part reserved for names that operators have made: clients' names do not take it.
const RESERVE: Needs = Needs { series: 3_000, bytes: 300_000 };
/// What a line has besides the names of clients, at the most.
const LINE: usize = 110;

/// What some series take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    series: usize,
    bytes: usize,
}

impl Needs {
    /// So many series, each with these names in its labels.
    pub(super) fn of(series: usize, names: &[&str]) -> Needs {
        // Within a label some characters are written as two, and those that mislead as an escape.
        let written = |name: &&str| {
            let name = visible(name);
            name.len() + name.matches(['"', '\\', '\n']).count()
        };
        let line = LINE + names.iter().map(written).sum::<usize>();
        Needs { series, bytes: series * line }
    }

    pub(super) fn and(self, other: Needs) -> Needs {
        Needs { series: self.series + other.series, bytes: self.bytes + other.bytes }
    }

    pub(super) fn without(self, other: Needs) -> Needs {
        let series = self.series.saturating_sub(other.series);
        Needs { series, bytes: self.bytes.saturating_sub(other.bytes) }
    }

    fn fits(self, named: Named) -> bool {
        let reserved = match named {
            Named::ByOperator => Needs::default(),
            Named::ByClient => RESERVE,
        };
        self.series <= SERIES_MAX - reserved.series && self.bytes <= BYTES_MAX - reserved.bytes
    }
}

/// Who has made a name known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// An operator, by a policy of its own or by the file of rights.
    ByOperator,
    /// A client, by sending it.
    ByClient,
}

impl Named {
    pub(super) fn by_operator(is: bool) -> Named {
        if is { Named::ByOperator } else { Named::ByClient }
    }
}

/// What is taken.
#[derive(Debug, Default)]
pub(super) struct Room(Mutex<Needs>);

impl Room {
    /// Whether there is room for series of such a name.
    pub(super) fn has(&self, needs: Needs, named: Named) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).and(needs).fits(named)
    }

    /// Takes room for series of such a name, if there is enough.
    pub(super) fn take(&self, needs: Needs, named: Named) -> bool {
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
        *self.0.lock().unwrap() == Needs::default()
    }

    /// Gives it back.
    pub(super) fn give_back(&self, needs: Needs) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.series = taken.series.saturating_sub(needs.series);
        taken.bytes = taken.bytes.saturating_sub(needs.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_bounded_by_series_and_by_bytes_and_comes_back() {
        for (needs, times) in [
            (Needs::of(100, &["c"]), BYTES_MAX / (100 * (LINE + 1))),
            (Needs::of(100, &[&"c".repeat(128)]), BYTES_MAX / (100 * (LINE + 128))),
            (Needs::of(100, &[&"\"".repeat(128)]), BYTES_MAX / (100 * (LINE + 256))),
            (Needs { series: 1_000, bytes: 1 }, SERIES_MAX / 1_000),
        ] {
            let room = Room::default();
            let take = || room.take(needs, Named::ByOperator);
            assert_eq!((0..1_000).filter(|_| take()).count(), times, "{needs:?}");
            room.give_back(needs);
            assert!(take() && !take(), "{needs:?}");
        }
    }

    #[test]
    fn names_of_clients_leave_the_reserve_to_those_of_operators() {
        for needs in [Needs { series: 1_000, bytes: 1 }, Needs { series: 1, bytes: 100_000 }] {
            let room = Room::default();
            let taken = |named| (0..100).filter(|_| room.take(needs, named)).count();
            assert_eq!((taken(Named::ByClient), taken(Named::ByOperator)), (14, 3), "{needs:?}");
            assert!(!room.has(needs, Named::ByOperator), "{needs:?}");
        }
    }
}

//! How much there is room for of what clients name: series, and bytes of the text that Prometheus reads.

use std::sync::{Mutex, PoisonError};

/// So many series may bear names of clients: with those that are always there fewer than 20,000.
const SERIES_MAX: usize = 17_000;
/// As so many bytes of text at the most: with the others fewer than two megabytes.
const BYTES_MAX: usize = 1_700_000;
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
        // Within a label some characters are written as two.
        let written = |name: &&str| name.len() + name.matches(['"', '\\', '\n']).count();
        let line = LINE + names.iter().map(written).sum::<usize>();
        Needs { series, bytes: series * line }
    }

    pub(super) fn and(self, other: Needs) -> Needs {
        Needs { series: self.series + other.series, bytes: self.bytes + other.bytes }
    }

    fn fits(self) -> bool {
        self.series <= SERIES_MAX && self.bytes <= BYTES_MAX
    }
}

/// What is taken.
#[derive(Debug, Default)]
pub(super) struct Room(Mutex<Needs>);

impl Room {
    /// Whether there is room for series.
    pub(super) fn has(&self, needs: Needs) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).and(needs).fits()
    }

    /// Takes room for series, if there is enough.
    pub(super) fn take(&self, needs: Needs) -> bool {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = taken.and(needs);
        if all.fits() {
            *taken = all;
        }
        all.fits()
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
            assert_eq!((0..1_000).filter(|_| room.take(needs)).count(), times, "{needs:?}");
            room.give_back(needs);
            assert!(room.take(needs) && !room.take(needs), "{needs:?}");
        }
    }
}

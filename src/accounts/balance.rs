//! A counter of bytes that are held.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::limits::part;
use crate::common::still_counted::StillCounted;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Balance(AtomicUsize);

impl Balance {
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// Takes bytes if there are at most `max` with them; returns whether it did.
    pub(super) fn take(&self, bytes: usize, max: usize) -> bool {
        let room = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= max);
        self.0.fetch_update(Relaxed, Relaxed, room).is_ok()
    }

    /// Adds bytes that are held already; returns the sum.
    pub(super) fn add(&self, bytes: usize) -> usize {
        self.0.fetch_add(bytes, Relaxed).saturating_add(bytes)
    }

    /// Returns bytes; the result is the number that is left.
    pub(super) fn put_back(&self, bytes: usize) -> usize {
        self.0.fetch_sub(bytes, Relaxed).saturating_sub(bytes)
    }
}

/// The bytes of requests. Settlements and all other calls each have a reserve: granted claims must be able to end, and a flood
/// of settlements must not keep all consumers from claiming.
#[derive(Debug, Default)]
pub(super) struct Requests {
    all: Balance,
    settling: Balance,
}

impl Requests {
    pub(super) fn bytes(&self) -> usize {
        self.all.bytes()
    }

    /// Notes the bytes that are counted.
    pub(super) fn still_counted(&self, left: &mut StillCounted, whose: &str) {
        left.note(format_args!("bytes of requests {whose}"), self.all.bytes());
        left.note(format_args!("bytes of settlements {whose}"), self.settling.bytes());
    }

    /// How many bytes settlements, or all other calls, hold.
    pub(super) fn held(&self, settles: bool) -> usize {
        let settling = self.settling.bytes();
        if settles { settling } else { self.all.bytes().saturating_sub(settling) }
    }

    /// How many more bytes settlements, or all other calls, may take now.
    pub(super) fn free(&self, max: usize, settles: bool) -> usize {
        let of_kind = part(max, settles).saturating_sub(self.held(settles));
        of_kind.min(max.saturating_sub(self.all.bytes()))
    }

    /// Takes bytes if the bounds allow it; returns whether they did. Two concurrent calls may both use the last bytes before
    /// the reserve of settlements; the sum never exceeds `max`.
    pub(super) fn take(&self, bytes: usize, max: usize, settles: bool) -> bool {
        if settles && !self.settling.take(bytes, part(max, true)) {
            return false;
        }
        let others = || self.all.bytes().saturating_sub(self.settling.bytes());
        let taken = self.all.take(bytes, max);
        if taken && (settles || others() <= part(max, false)) {
            return true;
        }
        if taken {
            self.all.put_back(bytes);
        }
        if settles {
            self.settling.put_back(bytes);
        }
        false
    }

    /// Bytes of settlements, or of all other calls, that must be returned so that `room` bytes are free both of the bound of
    /// this kind and of the bound of all calls.
    pub(super) fn excess(&self, max: usize, room: usize, settles: bool) -> usize {
        let over = |bytes: usize, max: usize| bytes.saturating_sub(max.saturating_sub(room));
        over(self.all.bytes(), max).max(over(self.held(settles), part(max, settles)))
    }

    pub(super) fn put_back(&self, bytes: usize, settles: bool) {
        self.all.put_back(bytes);
        if settles {
            self.settling.put_back(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_leaves_a_reserve_to_the_other() {
        // Bytes of 80 that are taken in this order, by a settlement or not, and whether they are granted.
        for (what, takes) in [
            ("others leave three eighths", &[(50, false, true), (1, false, false), (30, true, true)][..]),
            ("settlements leave an eighth", &[(70, true, true), (1, true, false), (10, false, true)]),
            (
                "both have less where the other has more",
                &[(30, true, true), (50, false, true), (1, true, false)],
            ),
            ("all together", &[(40, true, true), (40, false, true), (1, false, false), (1, true, false)]),
        ] {
            let requests = Requests::default();
            for (bytes, settles, fits) in takes {
                assert_eq!(requests.take(*bytes, 80, *settles), *fits, "{what}: {bytes}");
            }
            for (bytes, settles, _) in takes.iter().filter(|(.., fits)| *fits) {
                requests.put_back(*bytes, *settles);
            }
            assert_eq!((requests.bytes(), requests.settling.bytes()), (0, 0), "{what}");
        }
    }
}

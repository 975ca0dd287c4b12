//! How long bytes have waited for a client, in ticks of the sweep: reading a clock for each piece would cost more.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::time::Duration;

/// Time between two sweeps.
pub(super) const TICK: Duration = Duration::from_millis(500);
/// The lowest rate at which a message or answer may go on after `stall_max`, in bytes a tick: 1 KiB a second. Without it a
/// client that moves one byte each `stall_max` would hold its largest message for months. Not higher, since 256 calls of one
/// connection share its link.
pub(super) const BYTES_A_TICK: usize = 512;

/// Fewer bytes than this within a second are not a sign that a client sends or reads: with one byte each 0.4 s, four clients
/// kept all bytes of the server, and none of their calls had to go.
const SIGN_BYTES: usize = 16 * 1_024;

/// A duration in ticks, at least one.
pub(super) fn ticks(time: Duration) -> u32 {
    u32::try_from(time.as_millis().div_ceil(TICK.as_millis())).unwrap_or(u32::MAX).max(1)
}

/// The progress of one message of a request, or of the answers of one call.
#[derive(Debug, Default)]
pub(super) struct TransferProgress {
    /// Whether the server waits for the client.
    waits: AtomicBool,
    /// The tick at which the message began, moved on by the time in which the server did not wait for the client.
    began: AtomicU32,
    /// The tick of the last byte.
    moved: AtomicU32,
    bytes: AtomicUsize,
    /// Number of bytes, and the tick, when the last [`SIGN_BYTES`] of progress were seen.
    seen: AtomicUsize,
    seen_at: AtomicU32,
}

impl TransferProgress {
    /// A message, or an answer, begins.
    pub(super) fn begin(&self, now: u32) {
        self.began.store(now, Relaxed);
        self.moved.store(now, Relaxed);
        self.bytes.store(0, Relaxed);
        self.seen.store(0, Relaxed);
        self.seen_at.store(now, Relaxed);
    }

    /// The server waits for the client from now on, if it does not wait already.
    pub(super) fn wait(&self, now: u32) {
        if !self.waits.load(Relaxed) {
            self.pause_ends(now);
            // The sweep sees the start that was moved on, or no wait.
            self.waits.store(true, Release);
        }
    }

    /// Notes that bytes arrived: the server does not wait for the client until the next [`TransferProgress::wait`].
    pub(super) fn arrived(&self, bytes: usize, now: u32) {
        if !self.waits.swap(false, Relaxed) {
            self.pause_ends(now);
        }
        self.moved(bytes, now);
    }

    /// Notes that bytes moved.
    pub(super) fn moved(&self, bytes: usize, now: u32) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.moved.store(now, Relaxed);
    }

    /// The time since the last byte was the server's: moves the start on.
    fn pause_ends(&self, now: u32) {
        let paused = now.wrapping_sub(self.moved.swap(now, Relaxed));
        self.began.fetch_add(paused, Relaxed);
    }

    /// Notes that the server does not wait for the client.
    pub(super) fn stop(&self) {
        self.waits.store(false, Relaxed);
    }

    /// Whether the server waits for the client.
    pub(super) fn waits(&self) -> bool {
        self.waits.load(Acquire)
    }

    /// Checks how much has moved. Called by the sweep only, at each tick.
    pub(super) fn look(&self, now: u32) {
        let bytes = self.bytes.load(Relaxed);
        if bytes.wrapping_sub(self.seen.load(Relaxed)) >= SIGN_BYTES {
            self.seen.store(bytes, Relaxed);
            self.seen_at.store(now, Relaxed);
        }
    }

    /// Ticks since enough bytes moved, or since the message began.
    pub(super) fn idle(&self, now: u32) -> u32 {
        now.wrapping_sub(self.seen_at.load(Relaxed))
    }

    /// Whether the client is too slow: it needed `stall` ticks more than the bytes that moved need at the lowest rate.
    pub(super) fn is_late(&self, now: u32, stall: u32) -> bool {
        let earned = u32::try_from(self.bytes.load(Relaxed) / BYTES_A_TICK).unwrap_or(u32::MAX);
        now.wrapping_sub(self.began.load(Relaxed)) > stall.saturating_add(earned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: u32 = 20;

    /// An event at a tick.
    enum Event {
        Waits,
        Moves(usize),
    }
    use Event::{Moves, Waits};

    #[test]
    fn progress_is_stalled_by_silence_and_by_a_low_rate() {
        for (what, events, now, stalled) in [
            ("within the time", &[(0, Waits)][..], STALL, false),
            ("silent", &[(0, Waits)], STALL + 1, true),
            ("one byte each tick is silence", &[(0, Waits), (19, Moves(19)), (19, Waits)], STALL + 1, true),
            ("at the lowest rate", &[(0, Waits), (90, Moves(90 * BYTES_A_TICK)), (90, Waits)], 110, false),
            ("below it", &[(0, Waits), (90, Moves(60 * BYTES_A_TICK)), (90, Waits)], 90, true),
            ("the server is at work", &[(0, Waits), (1, Moves(9))], 1_000, false),
            ("the server's own time does not count", &[(0, Waits), (1, Moves(9)), (900, Waits)], 915, false),
            ("but the client's before it does", &[(0, Waits), (15, Moves(9)), (900, Waits)], 906, true),
            (
                "nor where bytes are there when it is over",
                &[(1, Moves(9)), (900, Moves(9)), (900, Waits)],
                915,
                false,
            ),
        ] {
            let progress = TransferProgress::default();
            progress.begin(0);
            for (at, event) in events {
                match event {
                    Waits => progress.wait(*at),
                    Moves(bytes) => progress.arrived(*bytes, *at),
                }
            }
            assert_eq!(progress.waits() && progress.is_late(now, STALL), stalled, "{what}");
        }
    }

    #[test]
    fn idle_counts_from_the_last_bytes_that_are_a_sign() {
        let progress = TransferProgress::default();
        progress.begin(3);
        for (bytes, at, idle) in
            [(0, 9, 6), (SIGN_BYTES - 1, 9, 6), (1, 9, 0), (1, 12, 3), (SIGN_BYTES, 13, 0)]
        {
            progress.moved(bytes, at);
            progress.look(at);
            assert_eq!(progress.idle(at), idle, "{bytes} bytes at tick {at}");
        }
        progress.begin(20);
        progress.look(22);
        assert_eq!(progress.idle(22), 2);
    }

    #[test]
    fn a_duration_is_at_least_one_tick() {
        let of = |millis| ticks(Duration::from_millis(millis));
        assert_eq!([of(0), of(1), of(500), of(501), of(10_000)], [1, 1, 1, 2, 20]);
    }
}

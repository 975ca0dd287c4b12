//! Retry-after for overload refusals, spread evenly. Clients that retried together and early would only be refused again,
//! and refusals cost time that accepted calls need: with 250 ms for all of them, calls refused together came back
//! together. Never longer than one second: above that the server sends no
//! pushback, and gRPC clients retry sooner.

use std::time::Duration;

use crate::domain::Span;

/// Bounds of the time that the queue needs to be served. A client is sent at most twice the upper bound.
const WAIT_MIN: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_millis(500);
/// Step of a Weyl sequence on 65,536 parts: multiples of the golden ratio are spread evenly, whatever their number.
const STEP: u16 = 40_503;

/// Computes the retry-after of refused calls.
#[derive(Debug, Default)]
pub(in crate::ledger::claims) struct RetryAfter {
    /// How long the last claims that were taken had waited: a full queue is served within about that time.
    waited: Duration,
    turn: u16,
}

impl RetryAfter {
    /// Notes that a claim is taken after it waited this long.
    pub(in crate::ledger::claims) fn taken_after(&mut self, waited: Duration) {
        self.waited = waited;
    }

    /// Retry-after of a refused claim: the time in which the queue is served, or up to twice that.
    pub(in crate::ledger::claims) fn claim(&mut self) -> Span {
        self.spread(self.waited.clamp(WAIT_MIN, WAIT_MAX))
    }

    /// Retry-after of a refused settlement, for which there is room as soon as a batch is sent.
    pub(in crate::ledger::claims) fn settlement(&mut self) -> Span {
        self.spread(WAIT_MIN)
    }

    /// A duration between this one and twice this one.
    fn spread(&mut self, wait: Duration) -> Span {
        self.turn = self.turn.wrapping_add(STEP);
        Span::from_std(wait + wait * u32::from(self.turn) / (1 << 16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_spreads_clients_evenly_over_the_wait() {
        // How long the last claims waited, in milliseconds, and the bounds of the retry-after.
        for (waited, from, to) in [(0, 250, 500), (250, 250, 500), (400, 400, 800), (60_000, 500, 1_000)] {
            let mut retry = RetryAfter::default();
            retry.taken_after(Duration::from_millis(waited));
            for some in [10, 1_000] {
                let mut parts = vec![0; 10];
                for _ in 0..some {
                    let wait = retry.claim().micros();
                    assert!((from * 1_000..to * 1_000).contains(&wait), "{waited} ms: {wait} us");
                    parts[usize::try_from((wait / 1_000 - from) * 10 / (to - from)).unwrap()] += 1;
                    let wait = retry.settlement().micros();
                    assert!((250_000..500_000).contains(&wait), "{waited} ms: {wait} us");
                }
                let fair = some / 10;
                let is_even = parts.iter().all(|count| (fair / 2..=fair * 2).contains(count));
                assert!(is_even, "{waited} ms: {parts:?}");
            }
        }
    }
}

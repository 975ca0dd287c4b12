//! When those come again for whom the queue has no room. All at once, and soon, they would only be refused again: what
//! refusals cost is taken from what is served. Never later than a second: so long a gRPC client waits inside a call.

use std::time::Duration;

use crate::domain::Span;

/// The bounds of what the queue takes to go by, as those who are refused are told; none is told more than its double.
const WAIT_MIN: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_millis(500);
/// Of a turn of 65,536 parts: multiples of the golden section lie evenly, however many there are.
const STEP: u16 = 40_503;

/// What the queue tells those whom it refuses.
#[derive(Debug, Default)]
pub(in crate::ledger::claims) struct Later {
    /// How long the claims had waited that were taken last: a full queue has gone by after that time.
    waited: Duration,
    turn: u16,
}

impl Later {
    /// A claim is taken that has waited for so long.
    pub(in crate::ledger::claims) fn taken_after(&mut self, waited: Duration) {
        self.waited = waited;
    }

    /// After which time a claim that is refused should come again: when the queue has gone by, or a while later.
    pub(in crate::ledger::claims) fn claim(&mut self) -> Span {
        self.spread(self.waited.clamp(WAIT_MIN, WAIT_MAX))
    }

    /// The same of a settlement, for which there is room as soon as a batch leaves.
    pub(in crate::ledger::claims) fn settlement(&mut self) -> Span {
        self.spread(WAIT_MIN)
    }

    /// Between this time and its double.
    fn spread(&mut self, wait: Duration) -> Span {
        self.turn = self.turn.wrapping_add(STEP);
        Span::from_std(wait + wait * u32::from(self.turn) / (1 << 16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_are_refused_come_again_evenly_once_the_queue_has_gone_by() {
        // How long the last claims waited, in milliseconds, and between which instants the others come again.
        for (waited, from, to) in [(0, 250, 500), (250, 250, 500), (400, 400, 800), (60_000, 500, 1_000)] {
            let mut later = Later::default();
            later.taken_after(Duration::from_millis(waited));
            for some in [10, 1_000] {
                let mut parts = vec![0; 10];
                for _ in 0..some {
                    let wait = later.claim().micros();
                    assert!((from * 1_000..to * 1_000).contains(&wait), "{waited} ms: {wait} us");
                    parts[usize::try_from((wait / 1_000 - from) * 10 / (to - from)).unwrap()] += 1;
                    let wait = later.settlement().micros();
                    assert!((250_000..500_000).contains(&wait), "{waited} ms: {wait} us");
                }
                let fair = some / 10;
                let is_even = parts.iter().all(|count| (fair / 2..=fair * 2).contains(count));
                assert!(is_even, "{waited} ms: {parts:?}");
            }
        }
    }
}

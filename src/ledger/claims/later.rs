//! When those come again for whom the queue has no room. All at once, and soon, they would only be refused again: what
//! refusals cost is taken from what is served.

use std::time::Duration;

use crate::domain::Span;

/// The bounds of a queue's whole wait, as callers are told of it.
const WAIT_MIN: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Of a turn of 65,536 parts: multiples of the golden section lie evenly, however many there are.
const STEP: u16 = 40_503;

/// What the queue tells those whom it refuses.
#[derive(Debug, Default)]
pub(super) struct Later {
    /// How long what was taken last had waited: a full queue has gone by after that time.
    waited: Duration,
    turn: u16,
}

impl Later {
    /// What has waited for so long is taken.
    pub(super) fn taken_after(&mut self, waited: Duration) {
        self.waited = waited;
    }

    /// After which time the next one who is refused should come again: once the queue has gone by, and at the latest
    /// when it has done so twice more.
    pub(super) fn next(&mut self) -> Span {
        self.turn = self.turn.wrapping_add(STEP);
        let wait = self.waited.clamp(WAIT_MIN, WAIT_MAX);
        Span::from_std(wait + wait * 2 * u32::from(self.turn) / (1 << 16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_are_refused_come_again_evenly_once_the_queue_has_gone_by() {
        // How long the last ones waited, in milliseconds, and between which instants the others come again.
        for (waited, from, to) in [(0, 250, 750), (250, 250, 750), (400, 400, 1_200), (60_000, 5_000, 15_000)]
        {
            let mut later = Later::default();
            later.taken_after(Duration::from_millis(waited));
            for some in [10, 1_000] {
                let mut parts = vec![0; 10];
                for _ in 0..some {
                    let wait = later.next().micros() / 1_000;
                    assert!((from..to).contains(&wait), "{waited} ms: {wait} ms");
                    let part = usize::try_from((wait - from) * 10 / (to - from)).unwrap();
                    parts[part] += 1;
                }
                let fair = some / 10;
                assert!(
                    parts.iter().all(|count| (fair / 2..=fair * 2).contains(count)),
                    "{waited} ms: {parts:?}"
                );
            }
        }
    }
}

//! The times of an answer that ends a wait.

use super::spec::Said;

/// A wait that ends soon after its last look is answered by that look, less the time that has passed.
const RECOUNTED_MAX: i64 = 1_000_000;

impl Said {
    /// Takes the times that are expected, where those of a wait's last look are earlier by the time since.
    pub(super) fn count_again(&mut self, expected: &Said) {
        let earlier = |said: &i64, expected: &i64| (0..=RECOUNTED_MAX).contains(&(expected - said));
        match (self, expected) {
            (
                Said::InProgress { lease, retry_after, .. },
                Said::InProgress { lease: full, retry_after: after, .. },
            ) if earlier(lease, full) && earlier(retry_after, after) => {
                (*lease, *retry_after) = (*full, *after);
            }
            (Said::Backoff { retry_after, .. }, Said::Backoff { retry_after: after, .. })
                if earlier(retry_after, after) =>
            {
                *retry_after = *after;
            }
            _ => {}
        }
    }
}

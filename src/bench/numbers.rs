//! Counts as numbers to calculate with.

/// A count as a number to calculate with; exact below 2^53.
#[allow(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
pub(super) fn approximate(count: u64) -> f64 {
    count as f64
}

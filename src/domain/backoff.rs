//! Backoff: when the next attempt is due after a failure.

use sha2::{Digest, Sha256};

use super::{Entry, Policy, Span};

/// `min(max, initial × multiplier^(attempt − 1))`, less jitter: a share of up to `jitter` that is derived
/// from key and token, so that a repeat of the call computes the same delay and the next attempt another one.
pub(super) fn backoff(policy: &Policy, entry: &Entry) -> Span {
    let backoff = &policy.backoff;
    if backoff.initial == Span::ZERO {
        return Span::ZERO;
    }
    let exponent = entry.attempts.saturating_sub(1).clamp(0, 1_000);
    let full = (as_f64(backoff.initial) * backoff.multiplier.powi(exponent)).min(as_f64(backoff.max));
    let mut hasher = Sha256::new();
    hasher.update(entry.key.hash().as_bytes());
    hasher.update(entry.token.to_be_bytes());
    let digest = hasher.finalize();
    let share = f64::from(u16::from_be_bytes([digest[0], digest[1]])) / 65_536.0;
    from_f64(full * (1.0 - backoff.jitter * share))
}

#[allow(clippy::cast_precision_loss, reason = "bounded by 30 days of microseconds: exact in an f64")]
fn as_f64(span: Span) -> f64 {
    span.micros() as f64
}

#[allow(clippy::cast_possible_truncation, reason = "bounded by 30 days of microseconds")]
fn from_f64(micros: f64) -> Span {
    Span(micros as i64)
}

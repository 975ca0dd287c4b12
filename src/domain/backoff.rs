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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backoff, Key, StoreTime};

    fn delay(backoff: Backoff, attempts: i32, token: i64) -> i64 {
        let policy = Policy { backoff, ..Policy::default() };
        let key = Key::new("c", "s", "1");
        let mut entry = Entry::blank(&key, &policy, StoreTime(0));
        (entry.attempts, entry.token) = (attempts, token);
        super::backoff(&policy, &entry).micros()
    }

    #[test]
    fn delays_grow_from_the_initial_one_up_to_the_maximum() {
        let (initial, max) = (Span(1_000), Span(50_000));
        for (multiplier, delays) in [
            (1.0, [1_000, 1_000, 1_000, 1_000, 1_000]),
            (2.0, [1_000, 1_000, 2_000, 4_000, 50_000]),
            (3.0, [1_000, 1_000, 3_000, 9_000, 50_000]),
        ] {
            let backoff = Backoff { initial, multiplier, max, jitter: 0.0 };
            assert_eq!([0, 1, 2, 3, i32::MAX].map(|attempts| delay(backoff, attempts, 1)), delays);
        }
        let none = Backoff { initial: Span::ZERO, multiplier: 2.0, max, jitter: 0.5 };
        assert_eq!(delay(none, 3, 1), 0);
    }

    #[test]
    fn jitter_shortens_by_up_to_its_share_and_another_token_by_another_one() {
        let initial = Span(1_000_000);
        let backoff = Backoff { initial, multiplier: 1.0, max: initial, jitter: 0.2 };
        let delays: Vec<i64> = (0..1_000).map(|token| delay(backoff, 1, token)).collect();
        let (least, most) = (delays.iter().min().expect("some"), delays.iter().max().expect("some"));
        assert!(
            (800_000..802_000).contains(least) && (998_000..=1_000_000).contains(most),
            "{least}, {most}"
        );
        let mean = delays.iter().sum::<i64>() / 1_000;
        assert!((895_000..905_000).contains(&mean), "{mean}: the shares are spread evenly");
        assert_eq!(delays, (0..1_000).map(|token| delay(backoff, 1, token)).collect::<Vec<_>>(), "a repeat");
    }
}

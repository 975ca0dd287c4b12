//! What a settlement carries, and the label of a claim: docs/contract.md, section 5. A field beyond its bound
//! is left out, cut or clamped; the call is not refused for it.

use super::errors::DESCRIPTION_MAX;
use super::fields::{FieldChecks, is_plain};
use super::fit::cut;
use crate::domain::{Span, Violation};

/// The longest `event_type`, in bytes: it is a label.
const EVENT_TYPE_MAX: usize = 128;
/// The longest delay that a caller may ask for, in nanoseconds: 30 days.
const DELAY_MAX: i64 = 30 * 86_400 * 1_000_000_000;

impl FieldChecks<'_> {
    /// A field beyond its bound, and what was done with it.
    pub(super) fn corrected(&mut self, field: &str, description: impl Into<String>) {
        let description = cut(&description.into(), DESCRIPTION_MAX);
        self.corrected.push(Violation { field: field.into(), description });
    }

    /// The `event_type`: a label, for which no call is refused.
    pub(super) fn event_type(&mut self, value: String) -> String {
        if value.len() <= EVENT_TYPE_MAX && is_plain(&value) {
            return value;
        }
        let label = label(&value);
        if label != value {
            let bytes = value.len();
            self.corrected(
                "event_type",
                format!("has {bytes} bytes or control characters: cut to {EVENT_TYPE_MAX} bytes, replaced"),
            );
        }
        label
    }

    /// The delay that a settlement asks for, clamped to the bounds: a settlement is not refused for its
    /// delay, since what it reports is worth more.
    pub(super) fn delay(&mut self, field: &str, value: &prost_types::Duration) -> Span {
        let (asked, taken) = (nanos(value), nanos(value).clamp(0, DELAY_MAX));
        if asked != taken {
            let seconds = taken / 1_000_000_000;
            self.corrected(field, format!("is out of bounds, 0s to 30 days: taken as {seconds}s"));
        }
        Span(taken / 1_000)
    }

    /// The lease that a Renew asks for; `None` if that is negative, so that the policy's applies. The policy
    /// clamps one that is too long.
    pub(super) fn asked_lease(&mut self, value: &prost_types::Duration) -> Option<Span> {
        let nanos = nanos(value);
        if nanos < 0 {
            self.corrected("lease", "is negative: taken as unset");
            return None;
        }
        Some(Span(nanos / 1_000))
    }

    /// What a settlement carries; `None` if that is larger than `max` bytes.
    pub(super) fn carried<'b>(&mut self, field: &str, value: &'b [u8], max: usize) -> Option<&'b [u8]> {
        if value.len() > max {
            self.corrected(field, format!("has {} bytes, at most {max} are stored: left out", value.len()));
            return None;
        }
        Some(value)
    }
}

/// Saturates beyond some 292 years.
fn nanos(value: &prost_types::Duration) -> i64 {
    value.seconds.saturating_mul(1_000_000_000).saturating_add(value.nanos.into())
}

/// An `event_type` as it is counted and logged: control characters are replaced, and a text beyond the bound
/// is cut between characters.
fn label(value: &str) -> String {
    let mut label = String::new();
    for c in value.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }) {
        if label.len() + c.len_utf8() > EVENT_TYPE_MAX {
            break;
        }
        label.push(c);
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fields::Limits;

    #[test]
    fn event_type_is_cut_between_characters_without_control_characters() {
        for (given, label) in [
            (String::new(), String::new()),
            ("order.paid".into(), "order.paid".into()),
            ("t".repeat(129), "t".repeat(128)),
            ("a\nb\u{85}".into(), "a\u{fffd}b\u{fffd}".into()),
            ("\u{e9}".repeat(100), "\u{e9}".repeat(64)),
            (format!("x{}", "\u{e9}".repeat(100)), format!("x{}", "\u{e9}".repeat(63))),
            // Each control character is replaced by three bytes.
            ("\n".repeat(128), "\u{fffd}".repeat(42)),
        ] {
            let limits = Limits::default();
            let mut fields = FieldChecks::new(&limits);
            assert_eq!(fields.event_type(given.clone()), label, "{given:?}");
            assert_eq!(fields.corrected.len(), usize::from(given != label), "{given:?}");
        }
    }

    #[test]
    fn delay_out_of_bounds_is_clamped_and_reported() {
        for (seconds, nanos, taken, says) in [
            (0, 0, Span::ZERO, None),
            (7, 250_000_000, Span(7_250_000), None),
            (2_592_000, 0, Span::from_secs(2_592_000), None),
            (2_592_000, 1, Span::from_secs(2_592_000), Some("taken as 2592000s")),
            (i64::MAX, 0, Span::from_secs(2_592_000), Some("taken as 2592000s")),
            (0, -1, Span::ZERO, Some("taken as 0s")),
            (-7, 0, Span::ZERO, Some("taken as 0s")),
        ] {
            let limits = Limits::default();
            let mut fields = FieldChecks::new(&limits);
            let asked = prost_types::Duration { seconds, nanos };
            assert_eq!(fields.delay("retry_after", &asked), taken, "{asked:?}");
            let reported: Vec<_> = fields.corrected.iter().map(|one| one.description.as_str()).collect();
            assert_eq!(reported.len(), usize::from(says.is_some()), "{asked:?}: {reported:?}");
            assert!(
                reported.iter().all(|reported| reported.contains(says.unwrap_or_default())),
                "{asked:?}: {reported:?}"
            );
        }
    }

    #[test]
    fn negative_lease_is_unset_and_reported() {
        for (seconds, nanos, taken) in [
            (0, 0, Some(Span::ZERO)),
            (0, 999, Some(Span::ZERO)),
            (7, 250_000_000, Some(Span(7_250_000))),
            // Not clamped here: the longest lease is the policy's.
            (2_592_001, 0, Some(Span::from_secs(2_592_001))),
            (0, -1, None),
            (-7, 0, None),
        ] {
            let limits = Limits::default();
            let mut fields = FieldChecks::new(&limits);
            let asked = prost_types::Duration { seconds, nanos };
            assert_eq!(fields.asked_lease(&asked), taken, "{asked:?}");
            let reported: Vec<_> = fields.corrected.iter().map(|one| one.field.as_str()).collect();
            assert_eq!(reported, if taken.is_none() { vec!["lease"] } else { vec![] }, "{asked:?}");
        }
    }
}

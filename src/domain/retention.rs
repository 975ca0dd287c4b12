//! Retention: how long an entry is remembered, and when it may be forgotten.

use super::policy::Doubt;
use super::{Body, Entry, OnExpiry, Policy, Span, State, StoreTime, Terms};

/// How much longer than promised every entry is kept: for producers whose clocks run ahead, and for policy
/// changes in progress.
pub const PURGE_MARGIN: Span = Span::from_secs(3_600);

/// A claim and its completion usually lie within this span: the purge looks at an entry this much later, and
/// need not look again.
const PURGE_SLACK: Span = Span::from_secs(3_600);

/// How far tokens and versions must be behind clock + offset before their entry may be forgotten. An insert
/// reads the clock before it may have to wait for a lock, and no statement takes this long: so no later row
/// of the key begins with a lower token or version.
pub const SETTLED: Span = Span::from_secs(60);

/// Whether a later token and version of the key are certainly higher.
#[must_use]
pub(super) fn forgettable(entry: &Entry, token_clock: i64) -> bool {
    entry.token.max(entry.version).saturating_add(SETTLED.micros()) < token_clock
}

/// The instant from which the retention of the entry's state counts, and that retention; `None` if the entry
/// is kept until a person acts.
fn basis(entry: &Entry, rules: &Terms) -> Option<(StoreTime, Span)> {
    let abandoned = |from: StoreTime| {
        let latest = from.max(entry.lease_until).max(entry.not_before);
        (!entry.effect_marked()).then_some((latest, rules.abandoned_retention))
    };
    match entry.state {
        State::Received | State::FailedRetryable | State::InProgress if entry.body == Some(Body::Kept) => {
            None
        }
        State::Completed => Some((entry.closed_at.unwrap_or(entry.updated_at), rules.retention)),
        State::FailedTerminal => Some((entry.closed_at.unwrap_or(entry.updated_at), rules.failed_retention)),
        State::Received | State::FailedRetryable => abandoned(entry.updated_at),
        State::InProgress => {
            if entry.on_expiry == OnExpiry::Park {
                None
            } else {
                abandoned(entry.updated_at)
            }
        }
        State::Parked(_) => None,
    }
}

/// Until when the entry answers at least: its close, plus the longer of the retention at the claim and the
/// one at the close.
#[must_use]
pub(super) fn retain_until(entry: &Entry, policy: &Policy) -> Option<StoreTime> {
    promised(entry, &Terms::of(policy))
}

/// When the message of the entry is erased: `message_retention` after its completion; with the entry, where it was given up.
/// `None` if none is kept, or it is still needed.
#[must_use]
pub(super) fn erase_at(entry: &Entry, policy: &Policy) -> Option<StoreTime> {
    if entry.body != Some(Body::Kept) {
        return None;
    }
    match entry.state {
        State::Completed => Some(entry.closed_at.unwrap_or(entry.updated_at) + policy.message_retention),
        State::FailedTerminal => retain_until(entry, policy),
        State::Received | State::FailedRetryable | State::InProgress | State::Parked(_) => None,
    }
}

/// Sets the instants that follow from the rest of the entry and from the policy, after each change.
pub(super) fn set_ends(entry: &mut Entry, policy: &Policy) {
    entry.retain_until = retain_until(entry, policy);
    entry.erase_at = erase_at(entry, policy);
}

/// The value of `retain_until` where the policy has not changed since the grant: it follows from the other
/// fields of the entry.
#[must_use]
pub fn retain_until_by_terms(entry: &Entry) -> Option<StoreTime> {
    promised(entry, &entry.terms())
}

fn promised(entry: &Entry, rules: &Terms) -> Option<StoreTime> {
    basis(entry, rules).map(|(from, retention)| from + retention.max(entry.retention))
}

/// How long after its creation the purge ignores an entry of a consumer with this retention: it cannot be
/// over earlier.
#[must_use]
pub fn left_alone(retention: Span) -> Span {
    retention + PURGE_MARGIN + PURGE_SLACK
}

/// Whether an entry may be forgotten, by its own promise and by the current policy.
///
/// `token_clock` is the store's clock plus `token_offset`.
#[must_use]
pub fn is_over(entry: &Entry, policy: &Policy, now: StoreTime, token_clock: i64) -> bool {
    if policy.doubt != Doubt::None {
        return false;
    }
    let (Some((from, retention)), Some(promised)) = (basis(entry, &Terms::of(policy)), entry.retain_until)
    else {
        return false;
    };
    let due = promised.max(from + retention.max(policy.retention)) + PURGE_MARGIN;
    due <= now && forgettable(entry, token_clock)
}

/// When the purge begins to remove the entries of a replay run that ended at this instant, whatever their
/// state is.
#[must_use]
pub fn run_taken_from(end: StoreTime, retention: Span) -> StoreTime {
    end + retention + PURGE_MARGIN
}

/// Whether an entry of a run may be forgotten whatever its state is, since its run ended long enough ago:
/// [`run_taken_from`]. A holder keeps the entry until its lease is over.
#[must_use]
pub fn is_over_with_its_run(entry: &Entry, taken_from: StoreTime, now: StoreTime, token_clock: i64) -> bool {
    let at_work = entry.state == State::InProgress && !entry.expired(now);
    taken_from <= now && !at_work && forgettable(entry, token_clock)
}

/// The window floor after a change of a consumer's effective retention: a message whose entry was purged must
/// not count as new.
#[must_use]
pub fn raised_floor(floor: StoreTime, old: Span, new: Span, now: StoreTime) -> StoreTime {
    if new > old { floor.max(now - old) } else { floor }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClosedBy, Key};

    /// The newest policy may have a longer retention than the one that is known.
    #[test]
    fn entry_of_a_policy_in_doubt_is_not_over() {
        let (closed, later) = (StoreTime(1_000_000), StoreTime(1_000_000) + Span::from_days(1_000));
        for (doubt, over) in
            [(Doubt::None, true), (Doubt::Unreadable, false), (Doubt::Stale, false), (Doubt::Lost, false)]
        {
            let policy = Policy { doubt, ..Policy::default() };
            let mut entry = Entry::blank(&Key::new("c", "s", "1"), &policy, closed);
            (entry.state, entry.closed_by, entry.closed_at) =
                (State::Completed, ClosedBy::Complete, Some(closed));
            set_ends(&mut entry, &policy);
            assert_eq!(is_over(&entry, &policy, later, later.micros()), over, "{doubt:?}");
            assert!(!is_over(&entry, &policy, closed, later.micros()), "{doubt:?}");
        }
    }

    #[test]
    fn retention_by_terms_is_the_one_of_the_grant() {
        let (closed, policy) = (StoreTime(1_000_000), Policy::default());
        let mut entry = Entry::blank(&Key::new("c", "s", "1"), &policy, closed);
        entry.closed_at = Some(closed);
        for (state, until) in [
            (State::Completed, Some(closed + policy.retention)),
            (State::FailedTerminal, Some(closed + policy.failed_retention)),
            (State::Received, Some(closed + policy.abandoned_retention)),
            (State::Parked(crate::ParkCause::Operator), None),
        ] {
            entry.state = state;
            assert_eq!(retain_until_by_terms(&entry), until, "{state:?}");
        }
    }

    #[test]
    fn purge_ignores_an_entry_for_retention_margin_and_slack() {
        assert_eq!(left_alone(Span::from_days(7)), Span::from_secs(7 * 86_400 + 2 * 3_600));
    }

    /// An entry is forgotten a margin after its retention, and once no insert that has begun can have a lower token.
    #[test]
    fn entry_is_over_a_margin_after_its_retention() {
        let (closed, policy) = (StoreTime(1_000_000), Policy::default());
        let mut entry = Entry::blank(&Key::new("c", "s", "1"), &policy, closed);
        (entry.state, entry.closed_at, entry.token, entry.version) =
            (State::Completed, Some(closed), 5_000, 4_000);
        set_ends(&mut entry, &policy);
        let due = closed + policy.retention + PURGE_MARGIN;
        let settled = 5_000 + SETTLED.micros();
        for (now, token_clock, over) in
            [(due, settled + 1, true), (due, settled, false), (due - Span(1), settled + 1, false)]
        {
            assert_eq!(is_over(&entry, &policy, now, token_clock), over, "{now:?} {token_clock}");
        }
        let run_end = StoreTime(77);
        assert_eq!(run_taken_from(run_end, Span(100)), run_end + Span(100) + PURGE_MARGIN);
    }

    #[test]
    fn longer_retention_raises_the_window_floor() {
        let (now, week) = (StoreTime(1_780_000_000_000_000), Span::from_days(7));
        for (floor, new, raised) in [
            (StoreTime(0), Span::from_days(8), now - week),
            (now, Span::from_days(8), now),
            (StoreTime(0), week, StoreTime(0)),
            (StoreTime(0), Span::from_days(6), StoreTime(0)),
        ] {
            assert_eq!(raised_floor(floor, week, new, now), raised, "{floor:?} {new:?}");
        }
    }
}

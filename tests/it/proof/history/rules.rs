//! The rules that histories are made under, and which of them may have been in force when: operators
//! change them meanwhile.

use super::{Event, Outcome, Refusal};

/// Within this a change is in force on every replica; on the one that was asked with the answer.
pub(crate) const EVERYWHERE: i64 = 5_000_000;

/// The rules of one consumer. Nobody holds a claim for longer than may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rules {
    /// Of every grant and renewal, microseconds.
    pub(crate) lease: i64,
    pub(crate) grace: i64,
    pub(crate) expiry: Expiry,
    /// Zero: no limit.
    pub(crate) max_attempts: i32,
    pub(crate) backoff: Backoff,
    /// Why nothing is granted or parked in place of a grant; none: it is.
    pub(crate) refuses: Option<Refusal>,
}

/// What becomes of an expired claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Expiry {
    Reclaim,
    Park,
    ParkIfStarted,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Backoff {
    pub(crate) initial: i64,
    pub(crate) multiplier: f64,
    pub(crate) max: i64,
    pub(crate) jitter: f64,
}

impl Backoff {
    pub(crate) const NONE: Backoff = Backoff { initial: 0, multiplier: 1.0, max: 0, jitter: 0.0 };

    /// The shortest and the longest wait after so many attempts.
    pub(crate) fn after(&self, attempts: i32) -> (i64, i64) {
        let factor = self.multiplier.powi((attempts - 1).max(0));
        let full = (self.initial as f64 * factor).min(self.max as f64);
        ((full * (1.0 - self.jitter)).floor() as i64 - 1, full.ceil() as i64 + 1)
    }
}

impl Rules {
    /// No further attempt after so many.
    pub(crate) fn exhausted(&self, attempts: i32) -> bool {
        self.max_attempts > 0 && attempts >= self.max_attempts
    }
}

/// A change of the rules: the call that made it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) rules: Rules,
    pub(crate) replica: usize,
    pub(crate) invoked: i64,
    /// The end of time where its answer was lost.
    pub(crate) returned: i64,
}

/// An operator has raised `token_offset`, between two instants, to this.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raise {
    pub(crate) invoked: i64,
    pub(crate) returned: i64,
    pub(crate) offset: i64,
}

/// The store's clock was set, between two instants of the machine's, to be ahead of that by this.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift {
    pub(crate) invoked: i64,
    pub(crate) returned: i64,
    pub(crate) ahead: i64,
}

/// The database lost commits: of what was answered from an instant on, whatever came after some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) from: i64,
    /// That database is dead. From then on another one carries out calls, or the same one as it was before.
    pub(crate) until: i64,
}

impl Loss {
    /// Whether a call may have been undone.
    pub(crate) fn concerns(&self, event: &Event) -> bool {
        event.outcome != Outcome::Unknown && self.from <= event.returned && event.invoked <= self.until
    }

    /// Whether the database that takes over may have carried it out, though it was not the first one that was asked.
    pub(crate) fn spans(&self, event: &Event) -> bool {
        event.returned > self.until
    }
}

/// What may have been in force while a call took effect.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Each once.
    pub(crate) rules: Vec<Rules>,
    /// The least and the greatest offset of tokens to the clock.
    pub(crate) offsets: (i64, i64),
}

impl Facts {
    /// Whatever may have been in force there may have been here.
    pub(crate) fn covers(&self, other: &Facts) -> bool {
        let (all, (least, greatest)) = (other.rules.iter(), self.offsets);
        least <= other.offsets.0
            && other.offsets.1 <= greatest
            && all.into_iter().all(|rules| self.rules.contains(rules))
    }
}

/// The rules over time: the first, and each change in the order of the versions.
#[derive(Clone, Debug)]
pub(crate) struct InForce {
    pub(crate) first: Rules,
    pub(crate) changes: Vec<Change>,
    /// A replica has shown that it goes by this version: from that instant on by none before it.
    pub(crate) shown: Vec<(usize, i64, usize)>,
    /// Within this a change is in force on every replica.
    pub(crate) everywhere: i64,
    pub(crate) raises: Vec<Raise>,
    /// How the store's clock was set, in their order. Before the first it is the machine's.
    pub(crate) shifts: Vec<Shift>,
    /// What the database lost, in this order.
    pub(crate) losses: Vec<Loss>,
}

impl InForce {
    /// Nobody changes them.
    pub(crate) fn always(first: Rules) -> InForce {
        InForce {
            first,
            changes: Vec::new(),
            shown: Vec::new(),
            everywhere: EVERYWHERE,
            raises: Vec::new(),
            shifts: Vec::new(),
            losses: Vec::new(),
        }
    }

    /// What the store's clock may have shown between two instants: the least and the greatest.
    pub(crate) fn store_clock(&self, from: i64, to: i64) -> (i64, i64) {
        let mut shown = (i64::MAX, i64::MIN);
        let first = Shift { invoked: i64::MIN, returned: i64::MIN, ahead: 0 };
        let all = std::iter::once(&first).chain(&self.shifts);
        let ends = self.shifts.iter().map(|next| next.returned).chain(std::iter::once(i64::MAX));
        for (shift, end) in all.zip(ends) {
            let (from, to) = (from.max(shift.invoked), to.min(end));
            if from <= to {
                shown.0 = shown.0.min(from.saturating_add(shift.ahead));
                shown.1 = shown.1.max(if to == i64::MAX { to } else { to.saturating_add(shift.ahead) });
            }
        }
        shown
    }

    /// The versions that may have been in force on a replica between two instants: the first and the last.
    pub(crate) fn versions(&self, replica: usize, from: i64, to: i64) -> (usize, usize) {
        let surely = |change: &Change| {
            change.returned.saturating_add(self.everywhere) <= from
                || (change.replica == replica && change.returned <= from)
        };
        let begun = |change: &Change| change.invoked <= to;
        let first = self.changes.iter().rposition(surely).map_or(0, |place| place + 1);
        let last = self.changes.iter().rposition(begun).map_or(0, |place| place + 1);
        let shown = self.shown.iter().filter(|(shower, at, _)| *shower == replica && *at <= from);
        (shown.map(|(.., version)| *version).fold(first, usize::max), last)
    }

    /// What may have been in force where and while the call took effect.
    pub(crate) fn during(&self, event: &Event) -> Facts {
        let (first, last) = self.versions(event.replica, event.invoked, event.returned);
        let mut all = Vec::new();
        for version in first..=last {
            let rules = version.checked_sub(1).map_or(self.first, |place| self.changes[place].rules);
            if !all.contains(&rules) {
                all.push(rules);
            }
        }
        let raised = |surely: &dyn Fn(&Raise) -> bool| {
            self.raises.iter().filter(|raise| surely(raise)).map(|raise| raise.offset).max().unwrap_or(0)
        };
        let offsets = (
            raised(&|raise| raise.returned <= event.invoked),
            raised(&|raise| raise.invoked <= event.returned),
        );
        Facts { rules: all, offsets }
    }
}

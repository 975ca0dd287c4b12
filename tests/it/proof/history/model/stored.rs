//! What a Store and a ClaimNext make of a key: docs/contract.md, section 15.

use super::super::{Event, Facts, Outcome, Seen};
use super::{By, Phase, State};

impl State {
    /// The states once a Store takes effect with this outcome. It grants nothing, whatever the policy refuses.
    pub(super) fn stored(&self, event: &Event) -> Vec<State> {
        let ended = matches!(self.phase, Phase::Completed | Phase::Failed);
        let new = self.phase == Phase::Absent;
        let after = State {
            phase: if new { Phase::Waiting } else { self.phase },
            by: if new { By::Store } else { self.by },
            due: if new { (event.invoked, event.returned) } else { self.due },
            kept: true,
            ..*self
        };
        match event.outcome {
            Outcome::Stored { before, seen } if !ended && before == self.kept && after.stored_as(seen) => {
                vec![after]
            }
            Outcome::Completed => self.only(self.phase == Phase::Completed),
            Outcome::Failed => self.only(self.phase == Phase::Failed),
            Outcome::Unknown if !ended => vec![after],
            _ => Vec::new(),
        }
    }

    /// Whether a Store is answered this state of the entry.
    fn stored_as(&self, seen: Seen) -> bool {
        matches!(
            (self.phase, seen),
            (Phase::Waiting, Seen::Due) | (Phase::Held, Seen::Held) | (Phase::Parked, Seen::Parked)
        )
    }

    /// A message that is handed out is claimed, if it is kept. A call without an answer may have been handed it, or not.
    pub(super) fn handed_out(&self, claim: u64, event: &Event, facts: &Facts) -> Vec<State> {
        match event.outcome {
            Outcome::Acquired { .. } | Outcome::Unknown if self.kept => self.claimed(claim, event, facts),
            _ => Vec::new(),
        }
    }
}

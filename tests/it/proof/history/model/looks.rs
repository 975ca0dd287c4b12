//! What a Lookup may find of a key: it changes nothing, and nothing holds it back.

use super::super::{Event, Facts, Outcome, Refusal, Rules, Seen};
use super::{Phase, State};

impl State {
    /// The same state, if the answer is one that this state has; else none.
    pub(super) fn looked(&self, event: &Event, facts: &Facts) -> Vec<State> {
        let is_unknown_run = |rules: &Rules| rules.refuses == Some(Refusal::RunUnknown);
        self.only(match event.outcome {
            Outcome::Unknown => true,
            Outcome::Found { seen, attempt } => {
                self.shows(seen, attempt, event) && !facts.rules.iter().all(is_unknown_run)
            }
            Outcome::Refused(Refusal::RunUnknown) => facts.rules.iter().any(is_unknown_run),
            Outcome::Acquired { .. }
            | Outcome::Completed
            | Outcome::InProgress
            | Outcome::Failed
            | Outcome::Parked
            | Outcome::Backoff
            | Outcome::Settled { .. }
            | Outcome::Stored { .. }
            | Outcome::Refused(_) => false,
        })
    }

    fn shows(&self, seen: Seen, attempt: i32, event: &Event) -> bool {
        let expires = (self.lease.0.saturating_add(self.grace), self.lease.1.saturating_add(self.grace));
        let counted = attempt == self.attempts;
        match (self.phase, seen) {
            (Phase::Absent, Seen::Absent)
            | (Phase::Completed, Seen::Completed)
            | (Phase::Failed, Seen::Failed)
            | (Phase::Parked, Seen::Parked) => true,
            (Phase::Waiting, Seen::Backoff) => counted && event.invoked < self.due.1,
            (Phase::Waiting, Seen::Due) => counted && event.returned >= self.due.0,
            (Phase::Held, Seen::Held) => counted && event.invoked < expires.1,
            (Phase::Held, Seen::Expired) => counted && event.returned >= expires.0,
            (
                Phase::Absent
                | Phase::Waiting
                | Phase::Held
                | Phase::Completed
                | Phase::Failed
                | Phase::Parked,
                _,
            ) => false,
        }
    }
}

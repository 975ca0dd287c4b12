//! Runs that this server does not know: each is looked up again before a claim in it is refused, at most once a second for
//! each consumer, since an operator may have created it a moment ago.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Duration;

use crate::domain::{Namespace, StoreTime};
use crate::ledger::runtime::{Instant, Mutex};
use crate::store::{Session, StoreError};

/// How often runs of one consumer are looked up.
const EVERY: Duration = Duration::from_secs(1);
/// Number of consumers that are remembered. If more look concurrently, some are refused without another look.
const CONSUMERS_MAX: usize = 1_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RunLookups(Mutex<HashMap<Box<str>, Looked>>);

/// The last look for a consumer.
#[derive(Debug)]
struct Looked {
    at: Instant,
    /// A run that has ended, and has no entries any more.
    past: Option<Box<str>>,
}

/// The standing of a run that is not among those in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotInForce {
    /// It may be looked up.
    MayLook,
    /// It was not registered a moment ago.
    Unknown,
    /// It has ended, and has no entries any more.
    Past,
}

impl RunLookups {
    /// Whether a run may be looked up now. After `MayLook` the caller looks: no other caller does for a second.
    pub(crate) fn turn(&self, run: &Namespace) -> NotInForce {
        self.turn_at(run, Instant::now())
    }

    fn turn_at(&self, run: &Namespace, now: Instant) -> NotInForce {
        let is_recent = |last: &Looked| now.saturating_duration_since(last.at) < EVERY;
        let mut looked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = looked.get(run.consumer()).filter(|last| is_recent(last)) {
            let past = last.past.as_deref() == Some(run.replay_run());
            return if past { NotInForce::Past } else { NotInForce::Unknown };
        }
        if looked.len() >= CONSUMERS_MAX {
            looked.retain(|_, last| is_recent(last));
        }
        if looked.len() >= CONSUMERS_MAX {
            return NotInForce::Unknown;
        }
        looked.insert(run.consumer().into(), Looked { at: now, past: None });
        NotInForce::MayLook
    }

    /// Records the result of a look for a run that is not in force: whether it is past.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn is_past(
        &self,
        session: &mut dyn Session,
        run: &Namespace,
        now: StoreTime,
    ) -> Result<bool, StoreError> {
        let found = session.replay_book().replay_run(run.consumer(), run.replay_run()).await?;
        let past = found.is_some_and(|found| found.end() <= now);
        if past
            && let Some(last) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(run.consumer())
        {
            last.past = Some(run.replay_run().into());
        }
        Ok(past)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// Clients choose the names of consumers and runs: however many they name, few are remembered, and each makes the store be
    /// asked at most once a second.
    #[test]
    fn runs_are_looked_up_once_a_second_for_a_bounded_number_of_consumers() {
        let lookups = RunLookups::default();
        let start = Instant::now();
        let turn_at = |consumer: usize, milliseconds: u64| {
            let now = start + Duration::from_millis(milliseconds);
            lookups.turn_at(&Namespace::new(&format!("c{consumer}"), "r"), now)
        };
        for consumer in 0..CONSUMERS_MAX {
            assert_eq!(turn_at(consumer, 0), NotInForce::MayLook, "{consumer}");
            assert_eq!(turn_at(consumer, 0), NotInForce::Unknown, "looked up a moment ago: {consumer}");
        }
        assert_eq!(turn_at(CONSUMERS_MAX, 999), NotInForce::Unknown, "no space");
        assert_eq!(turn_at(7, 999), NotInForce::Unknown);
        assert_eq!(turn_at(7, 1_000), NotInForce::MayLook);
        for (past, expected) in [("r", NotInForce::Past), ("another", NotInForce::Unknown)] {
            lookups.0.lock().expect("no panic").get_mut("c7").expect("it was looked up").past =
                Some(past.into());
            assert_eq!(turn_at(7, 1_999), expected);
        }
        // Looks that are a second old make space: all but the one of consumer 7.
        assert_eq!(turn_at(CONSUMERS_MAX, 1_999), NotInForce::MayLook);
        assert_eq!(lookups.0.lock().expect("no panic").len(), 2);
        assert_eq!(turn_at(7, 2_000), NotInForce::MayLook);
    }
}

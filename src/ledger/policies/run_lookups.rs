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
        let mut looked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = looked.get(run.consumer()).filter(|last| last.at.elapsed() < EVERY) {
            let past = last.past.as_deref() == Some(run.replay_run());
            return if past { NotInForce::Past } else { NotInForce::Unknown };
        }
        if looked.len() >= CONSUMERS_MAX {
            looked.retain(|_, last| last.at.elapsed() < EVERY);
        }
        if looked.len() >= CONSUMERS_MAX {
            return NotInForce::Unknown;
        }
        looked.insert(run.consumer().into(), Looked { at: Instant::now(), past: None });
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
        let turn = |consumer: usize| lookups.turn(&Namespace::new(&format!("c{consumer}"), "r"));
        for consumer in 0..CONSUMERS_MAX {
            assert_eq!(turn(consumer), NotInForce::MayLook, "{consumer}");
            assert_eq!(turn(consumer), NotInForce::Unknown, "looked up a moment ago: {consumer}");
        }
        assert_eq!(turn(CONSUMERS_MAX), NotInForce::Unknown, "no space");
        let last = |consumer: usize, past: Option<&str>, age: Duration| {
            let at = Instant::now().checked_sub(age).expect("the clock has run for as long");
            let looked = Looked { at, past: past.map(Into::into) };
            lookups.0.lock().expect("no panic").insert(format!("c{consumer}").into(), looked);
        };
        last(7, Some("r"), Duration::ZERO);
        assert_eq!(turn(7), NotInForce::Past);
        last(7, Some("another"), Duration::ZERO);
        assert_eq!(turn(7), NotInForce::Unknown);
        // Looks that are older than a second make space.
        last(7, Some("r"), EVERY);
        assert_eq!(turn(CONSUMERS_MAX), NotInForce::MayLook);
        assert_eq!(turn(CONSUMERS_MAX + 1), NotInForce::Unknown, "no space again");
        assert!(lookups.0.lock().expect("no panic").len() <= CONSUMERS_MAX);
    }
}

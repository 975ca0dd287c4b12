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

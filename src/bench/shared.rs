//! What all calls of a run share: whom they call, in whose names, what they count into, and whether they go on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::grants::Grants;
use super::keys::{Key, Names};
use super::options::Plan;
use super::tally::Tallies;
use crate::cli::client::Client;
use crate::cli::problem::Problem;

/// What all calls share.
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) names: Names,
    pub(super) grants: Grants,
    pub(super) tallies: Tallies,
    /// The messages that are claimed again and again, where the workload has such.
    pub(super) prepared: Vec<Key>,
    stopped: AtomicBool,
    problem: Mutex<Option<Problem>>,
}

impl Shared {
    pub(super) fn new(
        plan: &Plan,
        client: Client,
        names: Names,
        prepared: Vec<Key>,
    ) -> Result<Shared, Problem> {
        let hot = u32::try_from(prepared.len()).unwrap_or(0);
        Ok(Shared {
            client,
            names,
            grants: Grants::new(if plan.workload.has_hot_keys() { hot } else { 0 }),
            tallies: Tallies::new()?,
            prepared,
            stopped: AtomicBool::new(false),
            problem: Mutex::default(),
        })
    }

    /// Ends the load, for this reason if it is the first.
    pub(super) fn stop(&self, why: Problem) {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// # Errors
    /// Why the load has ended early.
    pub(super) fn check(&self) -> Result<(), Problem> {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).take();
        problem.map_or(Ok(()), Err)
    }
}

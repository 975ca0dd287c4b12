//! What all virtual clients of a run share: the server, the names of messages, the counts, and whether to go
//! on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::counts::Tallies;
use super::keys::{Message, Names};
use super::options::Plan;
use super::safety::Grants;
use crate::cli::client::Client;
use crate::cli::problem::Problem;

/// What all virtual clients share.
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) names: Names,
    pub(super) grants: Grants,
    pub(super) tallies: Tallies,
    /// The messages that are claimed repeatedly, where the workload has such.
    pub(super) prepared: Vec<Message>,
    stopped: AtomicBool,
    problem: Mutex<Option<Problem>>,
}

impl Shared {
    pub(super) fn new(
        plan: &Plan,
        client: Client,
        names: Names,
        prepared: Vec<Message>,
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

    /// Ends the load; the first reason counts.
    pub(super) fn stop(&self, why: Problem) {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    ///
    /// # Errors
    /// The reason why the load has ended early.
    pub(super) fn check(&self) -> Result<(), Problem> {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).take();
        problem.map_or(Ok(()), Err)
    }
}

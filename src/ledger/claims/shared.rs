//! What workers share with each other, with the purge and with the probe.

use std::sync::Arc;

use super::queue::Queue;
use crate::ledger::changes::Changes;
use crate::ledger::claims::duplicate_rate::Guess;
use crate::ledger::claims::live_workers::Crew;
use crate::ledger::claims::locked_rows::Locked;
use crate::ledger::claims::store_clock::RecentClock;
use crate::ledger::claims::store_clock::last_response::Pulse;
use crate::ledger::outdated::Outdated;
use crate::ledger::policies::in_force::PoliciesInForce;
use crate::metrics::Metrics;
use crate::store::{Replica, Store};

/// See the module.
#[derive(Clone)]
pub(in crate::ledger) struct Shared {
    pub(in crate::ledger) store: Arc<dyn Store>,
    pub(in crate::ledger) policies: Arc<PoliciesInForce>,
    pub(in crate::ledger) queue: Arc<Queue>,
    pub(in crate::ledger) clock: Arc<RecentClock>,
    pub(in crate::ledger) guess: Arc<Guess>,
    pub(in crate::ledger) crew: Arc<Crew>,
    pub(in crate::ledger) locked: Arc<Locked>,
    pub(in crate::ledger) pulse: Arc<Pulse>,
    pub(in crate::ledger) changes: Arc<Changes>,
    pub(in crate::ledger) metrics: Metrics,
    pub(in crate::ledger) outdated: Outdated,
    /// What this replica tells of itself.
    pub(in crate::ledger) replica: Replica,
}

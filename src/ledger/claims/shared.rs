//! State that the workers share with each other, with the purge and with the probe.

use std::sync::Arc;

use super::queue::Queue;
use crate::ledger::changes::Changes;
use crate::ledger::claims::duplicate_rate::DuplicateRate;
use crate::ledger::claims::live_workers::LiveWorkers;
use crate::ledger::claims::locked_rows::LockedRows;
use crate::ledger::claims::store_clock::RecentClock;
use crate::ledger::claims::store_clock::last_response::LastResponse;
use crate::ledger::policies::in_force::PoliciesInForce;
use crate::ledger::schema_fence::SchemaFence;
use crate::metrics::Metrics;
use crate::store::{Replica, Store};

/// See the module.
#[derive(Clone)]
pub(in crate::ledger) struct Shared {
    pub(in crate::ledger) store: Arc<dyn Store>,
    pub(in crate::ledger) policies: Arc<PoliciesInForce>,
    pub(in crate::ledger) queue: Arc<Queue>,
    pub(in crate::ledger) clock: Arc<RecentClock>,
    pub(in crate::ledger) duplicate_rate: Arc<DuplicateRate>,
    pub(in crate::ledger) live_workers: Arc<LiveWorkers>,
    pub(in crate::ledger) locked_rows: Arc<LockedRows>,
    pub(in crate::ledger) last_response: Arc<LastResponse>,
    pub(in crate::ledger) changes: Arc<Changes>,
    pub(in crate::ledger) metrics: Metrics,
    pub(in crate::ledger) outdated: SchemaFence,
    /// What this replica reports about itself.
    pub(in crate::ledger) replica: Replica,
}

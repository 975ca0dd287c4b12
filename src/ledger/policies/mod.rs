//! The policies of consumers: which are in force here, how an operator changes one, and which the purge uses.

mod alerts;
mod failed_readings;
pub(super) mod holds;
pub(super) mod in_force;
mod older;
pub(super) mod purge_view;
pub(super) mod replays;
pub(super) mod run_lookups;
pub(super) mod set;
pub(super) mod table;

//! The policies of consumers: what is in force here, how an operator changes it, and what the purge goes by.

pub(super) mod holds;
pub(super) mod in_force;
mod older;
pub(super) mod purge_view;
pub(super) mod replays;
pub(super) mod run_lookups;
pub(super) mod set;
pub(super) mod table;

//! Background work: the purge and its report, the index of open claims, the probe of the store.

pub(super) mod erase;
pub(super) mod open_index;
pub(super) mod probe;
pub(super) mod purge;
pub(super) mod purge_report;
mod purge_turn;

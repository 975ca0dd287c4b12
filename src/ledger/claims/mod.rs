//! Claims and settlements: calls wait in a queue, workers carry them out in batches, each on a session of its own.

pub(super) mod admission;
pub(super) mod answers;
mod away;
pub(super) mod batch;
mod batch_bound;
pub(super) mod chain;
pub(super) mod crew;
mod failures;
mod fold;
pub(super) mod guess;
mod in_run;
mod lane;
mod later;
pub(super) mod locked;
mod part;
pub(super) mod pulse;
pub(super) mod queue;
pub(super) mod recent;
mod round_robin;
pub(super) mod shared;
mod statement;
pub(super) mod worker;

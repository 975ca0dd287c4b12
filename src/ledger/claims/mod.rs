//! Claims and settlements: calls wait in a queue, workers carry them out in batches, each on a session of its own.

pub(super) mod admission;
pub(super) mod answers;
mod away;
pub(super) mod batch;
pub(super) mod chain;
pub(super) mod crew;
mod failures;
mod flood;
mod fold;
pub(super) mod guess;
mod in_run;
mod lane;
mod later;
pub(super) mod locked;
mod mix;
mod part;
pub(super) mod pulse;
pub(super) mod queue;
pub(super) mod recent;
pub(super) mod shared;
mod statement;
mod turns;
pub(super) mod worker;

//! Claims and settlements: calls wait in a queue, and workers carry them out in batches, each worker on its own session.

pub(super) mod admission;
pub(super) mod answers;
pub(super) mod duplicate_rate;
pub(super) mod live_workers;
pub(super) mod locked_rows;
pub(super) mod queue;
pub(super) mod request;
pub(super) mod round;
pub(super) mod shared;
pub(super) mod store_clock;
pub(super) mod worker;

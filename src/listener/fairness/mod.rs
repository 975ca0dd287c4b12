//! Fairness between connections: how much one poll of a connection reads, and which connection is polled next.

pub(super) mod adaptive_budget;
pub(super) mod poll_budget;
pub(super) mod scheduler;

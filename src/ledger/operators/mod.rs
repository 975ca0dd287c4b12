//! The reads and changes of operators: each kind of work has a separate operator task.

pub(super) mod bulk;
pub(super) mod change;
pub(super) mod count_entries;
pub(super) mod handle;
pub(super) mod import;
pub(super) mod long;
mod message;
pub(super) mod open_entries;
mod operation;
mod operator_task;
mod pace;
mod places;
pub(super) mod read;
pub(super) mod reconcile;
mod retry;
mod sent;
pub(super) mod token_offset;
pub(super) mod unreadable;

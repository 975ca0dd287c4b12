//! What operators read and change: each kind of work at a desk of its own.

pub(super) mod change;
pub(super) mod count_entries;
mod desk;
pub(super) mod handle;
pub(super) mod import;
pub(super) mod long;
mod operation;
mod places;
pub(super) mod read;
pub(super) mod redrive;
pub(super) mod token_offset;
mod tries;
pub(super) mod unreadable;

//! What operators read and change, each kind of work on a desk of its own: one task, one session, one job at a time.

pub(super) mod change;
pub(super) mod desk;
pub(super) mod import;
pub(super) mod read;
pub(super) mod redrive;
pub(super) mod token_offset;

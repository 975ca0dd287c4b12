//! Helpers that every room but the domain may use: each file has one duty, and depends on no room.

pub(crate) mod crash;
pub(crate) mod deferred_poll;
#[cfg(test)]
pub(crate) mod dice;
pub mod duration_arg;
pub(crate) mod log_limit;
pub(crate) mod misleading;
pub(crate) mod patient_write;
pub(crate) mod program;
pub(crate) mod random;
pub(crate) mod secret_file;
pub(crate) mod still_counted;
pub(crate) mod yielding;

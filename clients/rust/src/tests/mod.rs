//! Tests of the rules over a scripted ledger, in time that passes only where all tasks wait.

mod balance;
mod calls;
mod connection;
mod delivery;
mod error;
#[cfg(feature = "guard-sqlite")]
mod guard;
mod hold;
#[cfg(feature = "http")]
mod http_rules;
mod inbox;
mod key;
mod report;
#[cfg(unix)]
mod spool;
#[cfg(unix)]
mod spool_file;
mod world;

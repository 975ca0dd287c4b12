//! The idempotency ledger: the one dedup authority that message consumers share.
//!
//! # The way of a request
//!
//! ```text
//! rpc  →  ledger  →  domain + store
//! ```
//!
//! 1. [`rpc`], the edge, converts a protobuf message to a command, submits it, and converts the answer back.
//!    No SQL, no rules.
//! 2. [`ledger`], the shell, collects commands in batches, loads their entries, asks the core, commits, and
//!    asks again for the commands that lost a race. It answers only after the commit.
//! 3. [`domain`], the core, is pure: one function from an entry and a command to an answer and the next
//!    entry. Every rule exists once, there.
//! 4. [`store`], the disk, loads entries by key and writes them back where the version is still the one that
//!    was read. It knows no rules. Postgres and `SQLite` implement the same small trait.
//!
//! Next to them: [`identity`], who calls and what they may do; [`metrics`], the counts of a running server;
//! and [`traces`], its records of calls.
//!
//! Around them: [`command_line`] (the program), [`server`] (the process: its commands, settings and logs) and
//! [`cli`] (the operators' commands; a client like any other).
//!
//! # What always holds
//!
//! - The store's clock decides; no other clock does.
//! - No request's future holds a connection; a call that is cancelled undoes nothing.
//! - A command whose outcome is unknown is never answered as "certainly not applied".
//! - Every queue, batch, page, body, wait and retry has a bound.
//! - A driver's text never leaves the server, and no payload enters a log.

pub use idempotency_ledger_domain as domain;

mod accounts;
mod bench;
pub mod cli;
pub mod command_line;
pub mod common;
pub mod identity;
pub mod ledger;
mod listener;
pub mod metrics;
pub mod policy_args;
pub mod proto;
pub mod rpc;
pub mod server;
pub mod store;
pub mod traces;
mod wire;

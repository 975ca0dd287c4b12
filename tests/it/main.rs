//! The integration tests: one executable. Every suite that speaks of the ledger's promises runs
//! through the generated gRPC client against both stores, each case a test of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::pedantic,
    clippy::nonminimal_bool,
    clippy::type_complexity,
    clippy::wildcard_enum_match_arm,
    reason = "a test says what it misses by panicking, and reads like a table"
)]

mod harness;

mod admin;
mod allowed_changes;
mod answers;
mod any_order;
mod architecture;
mod availability;
mod batches;
mod bulk;
mod cancel;
mod claim_table;
mod claims;
mod cli;
mod crowd;
mod cursors;
mod damaged;
mod demands;
mod docs;
mod door;
mod edge;
mod faults;
mod first_minute;
mod garbage;
mod guesses;
mod holds;
mod hot;
mod identity;
mod inbox;
mod limits;
mod lookups;
mod observe;
mod only_grows;
mod operate_table;
mod operators;
mod policies;
mod policy_validation;
mod process;
mod proof;
mod queries;
mod quiet;
mod quota;
mod reaching;
mod reconcile;
mod redelivery;
mod refusals;
mod replays;
mod request_ids;
mod retention;
mod schema;
mod secrets;
mod settle_table;
mod sqlite_file;
mod stale;
mod stores;
mod storm;
mod token_offset;
mod trust;
mod two_of_a_kind;
mod unreadable;
mod upkeep;
mod waiting;
mod wrong_clock;

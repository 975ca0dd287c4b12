//! The generated messages of `idempotency.ledger.v1`: `generate` makes them.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated; the manual is the comments of the protobuf files"
)]

include!("idempotency.ledger.v1.rs");

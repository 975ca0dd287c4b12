#![doc = "The idempotency ledger."]
pub mod domain;
pub mod store;

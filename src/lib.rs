#![doc = "The idempotency ledger."]
pub mod domain;
pub mod ledger;
pub mod rpc;
pub mod store;

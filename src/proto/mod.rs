//! The generated messages and services of `idempotency.ledger.v1`.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    reason = "generated; the manual is the comments of the protobuf files"
)]

mod policy_fields;
mod pool;

pub use policy_fields::policy_fields;
pub use pool::pool;

tonic::include_proto!("idempotency.ledger.v1");

/// The domain of every `google.rpc.ErrorInfo` of this service: an error without it was made on the way.
pub const ERROR_DOMAIN: &str = "idempotency.ledger.v1";

/// The descriptors that reflection serves.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ledger_descriptor.bin"));

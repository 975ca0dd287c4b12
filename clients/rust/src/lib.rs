//! A client of the idempotency ledger: each message of a broker, and each request, is processed once.
//!
//! [`Ledger::process`] is the whole interface for most programs:
//!
//! ```no_run
//! use idempotency_ledger_client::{Advice, Key, Ledger};
//! # async fn charge(_key: &str) -> Result<String, std::io::Error> { Ok(String::new()) }
//! # async fn consumed(id: String, body: Vec<u8>) -> Result<(), Box<dyn std::error::Error>> {
//! let ledger = Ledger::new("payments")?; // the server: LEDGER_ENDPOINT, or 127.0.0.1:50051
//! let charge = async |claim: idempotency_ledger_client::Claim| Ok(charge(claim.idempotency_key()).await?);
//! let outcome = ledger.process(Key::of("shop", id).body(&body), charge).await?;
//! match outcome.advice {
//!     Advice::Ack => { /* acknowledge the message */ }
//!     Advice::RetryLater { after: _ } => { /* let the broker deliver it again after this time */ }
//!     Advice::DeadLetter => { /* store a safe copy, then acknowledge it */ }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The package keeps the rules of a consumer (docs/clients.md of the ledger). It runs on tokio.

mod balance;
mod calls;
mod claim;
mod connection;
mod delivery;
mod error;
#[cfg(any(feature = "guard-mysql", feature = "guard-postgres", feature = "guard-sqlite"))]
pub mod guard;
mod hold;
#[cfg(feature = "http")]
pub mod http;
mod inbox;
mod inflight;
mod key;
mod ledger;
mod options;
mod outcome;
mod proto;
mod queue;
mod report;
mod scope;
#[cfg(unix)]
mod shutdown;
#[cfg(unix)]
pub mod spool;
mod telemetry;
#[cfg(test)]
mod tests;
mod transport;
mod work;

#[cfg(unix)]
pub use shutdown::Shutdown;
pub use {
    claim::Claim,
    connection::Connection,
    error::{ClaimError, Error, InvalidField, OnExpiry, Steer, Unexpected},
    inbox::{Message, StoredMessage},
    key::{Delivery, Fingerprint, Key},
    ledger::Ledger,
    options::{Builder, Meaning},
    outcome::{Advice, EffectResult, Outcome},
    scope::{Claimed, Guard},
    work::Worker,
};

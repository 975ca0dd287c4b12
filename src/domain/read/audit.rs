//! The audit: what operators did.

use crate::domain::{KeyHash, StoreTime};

/// What an operator did: written in the transaction of the change itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// The operator's own id of the request: unique.
    pub request_id: String,
    /// When, by the store's clock.
    pub at: StoreTime,
    /// Who, as authenticated.
    pub actor: String,
    /// What.
    pub action: String,
    /// The consumer that it concerned.
    pub consumer: String,
    /// The entry that it concerned. Its names are not repeated here: an erased entry stays erased.
    pub key: Option<KeyHash>,
    /// Why.
    pub reason: String,
    /// What stood there before, as JSON; none: nothing.
    pub before: Option<String>,
    /// What stood there after, as JSON; none: nothing.
    pub after: Option<String>,
}

/// Whose audit events.
#[derive(Clone, Debug, Default)]
pub enum AuditOf {
    /// Everybody's.
    #[default]
    All,
    /// Those that concern this consumer.
    Consumer(String),
    /// Those that concern this entry.
    Entry(KeyHash),
}

/// A page of audit events, newest first.
#[derive(Clone, Debug, Default)]
pub struct AuditListing {
    /// Whose.
    pub of: AuditOf,
    /// Only those before this place.
    pub before: Option<(StoreTime, String)>,
    /// How many.
    pub limit: usize,
}

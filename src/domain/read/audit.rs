//! The audit: what operators did.

use crate::domain::{KeyHash, RequestDigest, StoreTime};

/// What stands between a consumer and a request's id in the store. The edge refuses control characters in both.
const SEPARATOR: char = '\u{1f}';

/// What an operator did: written in the transaction of the change itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// The operator's own id of the request: unique among the requests of the consumer.
    pub request_id: String,
    /// When, by the store's clock.
    pub at: StoreTime,
    /// Who, as authenticated.
    pub actor: String,
    /// What.
    pub action: String,
    /// The consumer that it concerned, to which the request's id belongs. Empty: none, so that the id belongs to the
    /// operators of all consumers.
    pub consumer: String,
    /// The entry that it concerned. Its names are not repeated here: an erased entry stays erased.
    pub key: Option<KeyHash>,
    /// Why.
    pub reason: String,
    /// What stood there before, as JSON; `None`: nothing.
    pub before: Option<String>,
    /// What stood there after, as JSON; `None`: nothing.
    pub after: Option<String>,
    /// The digest of the request, which no call shows. `None`: the event was written by a version that kept no digest
    /// and had one namespace of ids for all consumers.
    pub digest: Option<RequestDigest>,
}

impl AuditEvent {
    /// Whether this request wrote the event. A request whose digest was not kept is never the same: to refuse a repeat
    /// is safe, to answer another request with OK is not. The actor does not count: a repeat by another operator, or
    /// under a renewed credential, changes nothing either.
    #[must_use]
    pub fn is_of(&self, digest: &RequestDigest) -> bool {
        self.digest.as_ref() == Some(digest)
    }

    /// The id under which the store has the event: unique among all consumers.
    #[must_use]
    pub fn stored_id(&self) -> String {
        match self.digest {
            Some(_) => AuditEvent::id_of(&self.consumer, &self.request_id),
            None => self.request_id.clone(),
        }
    }

    /// The id under which the store has the event of a consumer's request.
    #[must_use]
    pub fn id_of(consumer: &str, request_id: &str) -> String {
        format!("{consumer}{SEPARATOR}{request_id}")
    }

    /// The request's id, of the id under which the store has its event.
    #[must_use]
    pub fn request_id_of(stored_id: &str) -> &str {
        stored_id.split_once(SEPARATOR).map_or(stored_id, |(_, request_id)| request_id)
    }
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
    /// Only those before this place: an instant, and the [`AuditEvent::stored_id`] of an event.
    pub before: Option<(StoreTime, String)>,
    /// How many.
    pub limit: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_id_is_found_in_the_stored_id() {
        for (consumer, request_id) in [("c", "1"), ("", "1"), ("a/b", "op/0a"), ("c", "")] {
            let stored = AuditEvent::id_of(consumer, request_id);
            assert_eq!(AuditEvent::request_id_of(&stored), request_id, "{consumer}");
        }
        assert_ne!(AuditEvent::id_of("a", "b1"), AuditEvent::id_of("ab", "1"));
        assert_eq!(AuditEvent::request_id_of("from before"), "from before");
    }
}

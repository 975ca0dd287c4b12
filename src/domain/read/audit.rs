//! The audit: what operators did.

use crate::{KeyHash, RequestDigest, StoreTime};

/// Separates a consumer and a request's id in the store. The edge refuses control characters in both.
const SEPARATOR: char = '\u{1f}';

/// What an operator did: written in the transaction of the change itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// The operator's own id of the request: unique among the requests of the consumer.
    pub request_id: String,
    /// When the change was made, by the store's clock.
    pub at: StoreTime,
    /// The authenticated operator.
    pub actor: String,
    /// The change.
    pub action: String,
    /// The consumer that the change concerned, in whose namespace the request's id is unique. Empty if the
    /// change concerned no single consumer; the id is then unique among the operators of all consumers.
    pub consumer: String,
    /// The entry that the change concerned. The names of its key are not stored here: an erased entry stays
    /// erased.
    pub key: Option<KeyHash>,
    /// The stated reason.
    pub reason: String,
    /// The state before the change, as JSON; `None` if there was none.
    pub before: Option<String>,
    /// The state after the change, as JSON; `None` if there is none.
    pub after: Option<String>,
    /// The digest of the request, which no call shows. `None` if the event was written by a version that
    /// stored no digest and had one namespace of ids for all consumers.
    pub digest: Option<RequestDigest>,
}

impl AuditEvent {
    /// Whether this request wrote the event. A request without a stored digest never counts as the same: to
    /// refuse a repeat is safe, to answer another request with OK is not. The actor does not count: a repeat
    /// by another operator, or under a renewed credential, changes nothing either.
    #[must_use]
    pub fn is_of(&self, digest: &RequestDigest) -> bool {
        self.digest.as_ref() == Some(digest)
    }

    /// The id of the event in the store: unique among all consumers.
    #[must_use]
    pub fn stored_id(&self) -> String {
        match self.digest {
            Some(_) => AuditEvent::id_of(&self.consumer, &self.request_id),
            None => self.request_id.clone(),
        }
    }

    /// The id, in the store, of the event of a consumer's request.
    #[must_use]
    pub fn id_of(consumer: &str, request_id: &str) -> String {
        format!("{consumer}{SEPARATOR}{request_id}")
    }

    /// The request's id, derived from the stored id of its event.
    #[must_use]
    pub fn request_id_of(stored_id: &str) -> &str {
        stored_id.split_once(SEPARATOR).map_or(stored_id, |(_, request_id)| request_id)
    }
}

/// Whose audit events to list.
#[derive(Clone, Debug, Default)]
pub enum AuditOf {
    /// Those of all consumers.
    #[default]
    All,
    /// Those that concern this consumer.
    Consumer(String),
    /// Those that concern this entry.
    Entry(KeyHash),
    /// Those of an operation: its own event, and those of its parts; by their ids, the last first.
    Operation {
        /// The consumer of the operation.
        consumer: String,
        /// The operator's id of the operation.
        id: String,
    },
}

/// A page of audit events, newest first.
#[derive(Clone, Debug, Default)]
pub struct AuditListing {
    /// Whose events.
    pub of: AuditOf,
    /// Only those before this position: an instant, and the [`AuditEvent::stored_id`] of an event.
    pub before: Option<(StoreTime, String)>,
    /// The maximum number of events.
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

    /// A repeat is answered OK where its event has the same digest, and an event without a digest is the event of no request.
    #[test]
    fn event_is_of_the_request_with_its_digest() {
        let (own, other) = (RequestDigest::of("Delete", b"1"), RequestDigest::of("Delete", b"2"));
        for (digest, is_own, stored_id) in
            [(Some(own), true, "c\u{1f}7"), (Some(other), false, "c\u{1f}7"), (None, false, "7")]
        {
            let event = AuditEvent {
                request_id: "7".into(),
                at: StoreTime(1),
                actor: "ops".into(),
                action: "DELETE".into(),
                consumer: "c".into(),
                key: None,
                reason: "test".into(),
                before: None,
                after: None,
                digest,
            };
            assert_eq!((event.is_of(&own), event.stored_id().as_str()), (is_own, stored_id), "{digest:?}");
        }
    }
}

//! Requests and answers of the inbox, between the edge and the shell.

use bytes::Bytes;
use uuid::Uuid;

use super::hand_out::HandOutBounds;
use super::inbox::{Store, StoreVerdict};
use super::{Key, Rejection, Span, StoreTime, Verdict};

/// A message to store.
#[derive(Clone, Debug)]
pub struct StoreRequest {
    /// The key.
    pub key: Key,
    /// The command.
    pub store: Store,
    /// The encoded message.
    pub message: Bytes,
    /// The message's event type, as it is counted.
    pub event_type: String,
}

impl StoreRequest {
    /// Its bytes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.key.bytes() + self.message.len() + self.store.fingerprint.len() + self.store.traceparent.len()
    }
}

/// The answer to a Store, and when its message was stored, if another call had stored it.
pub type Stored = Result<(StoreVerdict, Option<StoreTime>), Rejection>;

/// What a `ClaimNext` asks for.
#[derive(Clone, Debug)]
pub struct NextRequest {
    /// The consumer.
    pub consumer: String,
    /// The claim's id.
    pub claim_id: Uuid,
    /// The authenticated identity.
    pub principal: String,
    /// The name that the caller gave itself.
    pub owner: String,
    /// The lease; `None` for the policy's.
    pub lease: Option<Span>,
    /// How much may be handed out.
    pub bounds: HandOutBounds,
    /// The trace context of the call.
    pub traceparent: String,
}

/// A message that is handed out.
#[derive(Clone, Debug)]
pub struct Handed {
    /// The key.
    pub key: Key,
    /// `acquired`.
    pub verdict: Verdict,
    /// The encoded message.
    pub message: Bytes,
    /// When it was stored.
    pub stored_at: StoreTime,
}

/// The answer to a `ClaimNext`.
#[derive(Clone, Debug, Default)]
pub struct NextAnswer {
    /// The messages.
    pub messages: Vec<Handed>,
    /// Where there are none: how long until the next call may find one.
    pub retry_after: Option<Span>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_counts_the_bytes_of_key_message_fingerprint_and_trace() {
        let store = Store {
            fingerprint: Bytes::from_static(&[1; 32]),
            occurred_at: None,
            traceparent: "00-1".into(),
        };
        let request = StoreRequest {
            key: Key::new("payments", "shop", "order-1"),
            store,
            message: Bytes::from_static(&[2; 200]),
            event_type: "not counted".into(),
        };
        assert_eq!(request.bytes(), 8 + 4 + 7 + 200 + 32 + 4);
    }
}

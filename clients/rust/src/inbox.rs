//! The inbox: how a message is stored, and what a worker is handed (docs/contract.md of the ledger, section 15).

use std::{sync::Arc, time::SystemTime};

use bytes::Bytes;
use tokio::time::Instant;

use crate::{
    calls::{CALL_TIMEOUT, Method, Transport, repeated},
    delivery::{CLAIM_BUDGET, LATER, advised, known, refused},
    error::InvalidField,
    key::Key,
    outcome::{Advice, Outcome},
    proto as pb,
};

const PAYLOAD_MAX: usize = 256 * 1024;
const HEADERS_MAX: usize = 64;
const HEADERS_BYTES_MAX: usize = 16 * 1024;
const NAME_MAX: usize = 256;
const MESSAGE_KEY_MAX: usize = 512;
const TEXT_MAX: usize = 128;

/// What a broker delivered: a payload, and what came with it. The ledger keeps it as it is, and hands it to a worker.
///
/// A message beyond a bound is at fault itself: it is not sent, and its outcome is
/// [`Advice::DeadLetter`](crate::Advice::DeadLetter) with an [`InvalidField`] as its error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The payload, at most 256 KiB.
    pub payload: Bytes,
    /// Names (1 to 256 bytes) and values: at most 64, and at most 16 KiB together.
    pub headers: Vec<(String, Bytes)>,
    /// The topic, queue or stream that it came from, at most 256 bytes.
    pub topic: String,
    /// The partition, where the broker has partitions.
    pub partition: Option<i32>,
    /// The offset or sequence number, where the broker has one.
    pub offset: Option<i64>,
    /// The broker's own key, at most 512 bytes.
    pub message_key: Bytes,
    /// What kind of message it is: a label of metrics.
    pub event_type: String,
    /// The version of its schema, at most 128 bytes.
    pub event_version: String,
    /// The media type of the payload, at most 128 bytes.
    pub content_type: String,
}

impl Message {
    /// A message without anything but its payload.
    pub fn of(payload: impl Into<Bytes>) -> Self {
        Self { payload: payload.into(), ..Self::default() }
    }

    /// Why the ledger would refuse the message. `None` if it is right.
    pub(crate) fn fault(&self) -> Option<InvalidField> {
        let sizes = [
            ("message.payload", self.payload.len(), PAYLOAD_MAX),
            ("message.topic", self.topic.len(), NAME_MAX),
            ("message.message_key", self.message_key.len(), MESSAGE_KEY_MAX),
            ("message.event_version", self.event_version.len(), TEXT_MAX),
            ("message.content_type", self.content_type.len(), TEXT_MAX),
        ];
        let larger = |field, size, most| {
            let bound = || format!("has {size} bytes; at most {most} are allowed");
            (size > most).then(|| InvalidField::new(field, bound()))
        };
        let together = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        if self.headers.len() > HEADERS_MAX {
            let bound = format!("has {} headers; at most {HEADERS_MAX} are allowed", self.headers.len());
            return Some(InvalidField::new("message.headers", bound));
        }
        if self.headers.iter().any(|(name, _)| !(1..=NAME_MAX).contains(&name.len())) {
            let bound = format!("must have 1 to {NAME_MAX} bytes");
            return Some(InvalidField::new("message.headers.name", bound));
        }
        let fault = sizes.into_iter().find_map(|(field, size, most)| larger(field, size, most));
        fault.or_else(|| larger("message.headers", together, HEADERS_BYTES_MAX))
    }
}

impl From<Message> for pb::Message {
    fn from(message: Message) -> Self {
        let header = |(name, value)| pb::Header { name, value };
        Self {
            payload: message.payload,
            headers: message.headers.into_iter().map(header).collect(),
            topic: message.topic,
            partition: message.partition,
            offset: message.offset,
            message_key: message.message_key,
            event_type: message.event_type,
            event_version: message.event_version,
            content_type: message.content_type,
        }
    }
}

impl From<pb::Message> for Message {
    fn from(message: pb::Message) -> Self {
        Self {
            payload: message.payload,
            headers: message.headers.into_iter().map(|header| (header.name, header.value)).collect(),
            topic: message.topic,
            partition: message.partition,
            offset: message.offset,
            message_key: message.message_key,
            event_type: message.event_type,
            event_version: message.event_version,
            content_type: message.content_type,
        }
    }
}

/// A message that the ledger kept, as a worker's handler sees it.
#[derive(Clone, Debug)]
pub struct StoredMessage {
    /// Its name.
    pub key: Key,
    /// What was stored.
    pub message: Message,
    /// When it was stored, by the store's clock.
    pub stored_at: Option<SystemTime>,
}

/// Stores the message. `fault`: why the ledger would refuse it.
pub(crate) async fn store(
    transport: &Arc<dyn Transport>,
    request: &pb::StoreRequest,
    fault: Option<InvalidField>,
) -> Outcome {
    use pb::store_response::Verdict;
    if let Some(fault) = fault {
        let detail = fault.to_string();
        let refused = Outcome::new(Advice::DeadLetter).because("INVALID_FIELD");
        return Outcome { detail, error: Some(Arc::new(fault)), ..refused };
    }
    let called = repeated(&**transport, Method::Store, request, CLAIM_BUDGET, CALL_TIMEOUT).await;
    let (answer, _): (pb::StoreResponse, Instant) = match called {
        Ok(answered) => answered,
        Err(failure) => return refused(&failure, Outcome::new(LATER)),
    };
    let name = match &answer.verdict {
        Some(Verdict::Stored(_)) => "stored",
        Some(Verdict::AlreadyStored(_)) => "already_stored",
        Some(Verdict::Completed(_)) => "completed",
        Some(Verdict::Failed(_)) => "failed",
        Some(Verdict::FingerprintMismatch(_)) => "fingerprint_mismatch",
        Some(Verdict::OutsideWindow(_)) => "outside_window",
        Some(Verdict::Rejected(_)) => "rejected",
        None => "UNKNOWN_VERDICT",
    };
    let base = Outcome::new(LATER).because(name);
    if answer.verdict.is_none() || known(answer.advice).is_none() {
        return base; // Rule 8.
    }
    let outcome = advised(answer.advice, answer.retry_after.as_ref(), base);
    let replayed = matches!(name, "already_stored" | "completed");
    Outcome { replayed, reason: outcome.reason.clone().filter(|_| name != "stored"), ..outcome }
}

//! The name of a message, the digest of its body, and one delivery of it.

use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use crate::error::InvalidField;

const RUN_MAX: usize = 64;

/// The name of a message: `source` and `id` of its producer, the same on each delivery.
///
/// `source`: the producer, 1 to 256 bytes. `id`: unique within its source, 1 to 512 bytes. Keys are compared as bytes;
/// control characters are refused. A message whose source or id is beyond these bounds is at fault itself: it is not sent
/// to the ledger, and its outcome is [`Advice::DeadLetter`](crate::Advice::DeadLetter).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub(crate) source: String,
    pub(crate) id: String,
    pub(crate) replay_run: String,
}

impl Key {
    /// The key of a message by its source and id.
    pub fn of(source: impl Into<String>, id: impl Into<String>) -> Self {
        Self { source: source.into(), id: id.into(), replay_run: String::new() }
    }

    /// The producer.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The message, unique within its source.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The key of a CloudEvent. `attribute` is asked for `source` and `id`. The content-type decides where to look them up, as
    /// in the bindings of `CloudEvents` and the packages for other languages: with `application/cloudevents+json` in the body,
    /// whatever the headers say, else in headers such as `ce-source` and `ce-id` (HTTP, NATS), `ce_id` (Kafka) or
    /// `cloudEvents:id` (AMQP). An event without one of them is at fault: its outcome is a dead letter.
    pub fn from_cloud_event(mut attribute: impl FnMut(&str) -> Option<String>) -> Self {
        Self::of(attribute("source").unwrap_or_default(), attribute("id").unwrap_or_default())
    }

    /// The same message within a replay.
    ///
    /// # Errors
    /// [`InvalidField`] where the run has other characters than `A-Z a-z 0-9 . _ -`, or more than 64.
    pub fn in_replay_run(mut self, run: impl Into<String>) -> Result<Self, InvalidField> {
        self.replay_run = run.into();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if self.replay_run.len() > RUN_MAX || !self.replay_run.bytes().all(allowed) {
            let bound = "at most 64 characters of A-Z, a-z, 0-9, '.', '_' and '-' are allowed";
            return Err(InvalidField::new("key.replay_run", bound));
        }
        Ok(self)
    }

    /// A delivery of this message with its raw body, of which the fingerprint is made: see [`Delivery::body`].
    pub fn body(self, raw: impl AsRef<[u8]>) -> Delivery {
        Delivery::of(self).body(raw)
    }

    /// Why the ledger would refuse the message. `None` if it is right.
    #[must_use]
    pub fn fault(&self) -> Option<InvalidField> {
        let source = checked_text("key.source", &self.source, 256);
        source.and_then(|()| checked_text("key.id", &self.id, 512)).err()
    }
}

/// A digest of a message's body, by which another body under the same key is found out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub(crate) Vec<u8>);

impl Fingerprint {
    /// The SHA-256 of the broker's raw body, before any decoding: an object that was decoded and serialised again has
    /// other bytes in another version or language.
    #[must_use]
    pub fn of(raw: &[u8]) -> Self {
        Self(Sha256::digest(raw).to_vec())
    }

    /// A digest that was made elsewhere.
    ///
    /// # Errors
    /// [`InvalidField`] unless it has 1 to 64 bytes.
    pub fn from_digest(digest: impl Into<Vec<u8>>) -> Result<Self, InvalidField> {
        let digest = digest.into();
        if !(1..=64).contains(&digest.len()) {
            let bound = format!("has {} bytes; 1 to 64 are allowed", digest.len());
            return Err(InvalidField::new("fingerprint", bound));
        }
        Ok(Self(digest))
    }
}

/// One delivery of a message. A [`Key`] by itself is one too.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub(crate) key: Key,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) occurred_at: Option<SystemTime>,
    pub(crate) event_type: String,
    pub(crate) wait: Duration,
}

impl Delivery {
    /// A delivery of this message.
    #[must_use]
    pub fn of(key: Key) -> Self {
        Self { key, fingerprint: None, occurred_at: None, event_type: String::new(), wait: Duration::ZERO }
    }

    /// The broker's raw body: its SHA-256 is compared with that of earlier deliveries. It replaces a fingerprint given
    /// before.
    #[must_use]
    pub fn body(self, raw: impl AsRef<[u8]>) -> Self {
        let fingerprint = Fingerprint::of(raw.as_ref());
        self.fingerprint(fingerprint)
    }

    /// A fingerprint in place of a body.
    #[must_use]
    pub fn fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = Some(fingerprint);
        self
    }

    /// When the producer made the message.
    #[must_use]
    pub fn occurred_at(mut self, instant: SystemTime) -> Self {
        self.occurred_at = Some(instant);
        self
    }

    /// What kind of message it is, for metrics of the server: few different ones.
    #[must_use]
    pub fn event_type(mut self, label: impl Into<String>) -> Self {
        self.event_type = label.into();
        self
    }

    /// How long to wait while another attempt holds the message: for callers who need its result. At most an hour; the
    /// server bounds it further. Zero by default: a broker's consumer needs none.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

impl From<Key> for Delivery {
    fn from(key: Key) -> Self {
        Self::of(key)
    }
}

/// Whether a text may be a part of a key: not empty, at most `most` bytes of UTF-8, no control characters.
pub(crate) fn checked_text(field: &'static str, text: &str, most: usize) -> Result<(), InvalidField> {
    if text.is_empty() || text.len() > most {
        let bound = format!("has {} bytes of UTF-8; 1 to {most} are allowed", text.len());
        return Err(InvalidField::new(field, bound));
    }
    if text.chars().any(char::is_control) {
        return Err(InvalidField::new(field, "has a control character"));
    }
    Ok(())
}

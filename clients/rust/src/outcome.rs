//! What became of a delivery, what to do with the broker's message, and what a handler returns.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use bytes::Bytes;

/// What to do with the broker's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The message is completed: acknowledge it.
    Ack,
    /// Do not acknowledge it: let the broker deliver it again.
    RetryLater {
        /// At least how long to wait before the next delivery: 50 ms or more.
        after: Duration,
    },
    /// Only a person can change the answer: store a safe copy, then acknowledge it.
    DeadLetter,
}

impl Advice {
    /// Its name, as it stands in metrics and logs: `ACK`, `RETRY_LATER` or `DEAD_LETTER`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ack => "ACK",
            Self::RetryLater { .. } => "RETRY_LATER",
            Self::DeadLetter => "DEAD_LETTER",
        }
    }
}

/// What became of a delivery. Acknowledge on [`Advice::Ack`] alone.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each of them is true or false whatever the others are")]
pub struct Outcome {
    /// What to do with the broker's message.
    pub advice: Advice,
    /// What the handler of this or of the earlier attempt returned. `None` where it is not known here.
    pub result: Option<Bytes>,
    /// An earlier attempt completed the message, and no handler ran for this delivery.
    pub replayed: bool,
    /// The effect had a result that the ledger has not stored: it was too large.
    pub result_dropped: bool,
    /// The grant said that an earlier attempt may have had its effect, or this attempt ended in doubt.
    pub effect_unknown: bool,
    /// Why, where it is not simply done: the ledger's reason (`LEASE_LOST`), its verdict (`parked`), the reason that the
    /// handler gave, or one of the package: `INVALID_FIELD`, `PRIOR_EFFECT_STARTED`, `NOT_PROTECTED`, `CLOSING`,
    /// `LEASE_OVER`, `DOUBTFUL`, `INTERRUPTED`, `UNKNOWN_VERDICT`, `NO_ANSWER`.
    pub reason: Option<String>,
    /// What the error of a call said, for people: a field at fault, or why no server was reached. Else empty.
    pub detail: String,
    /// Which attempt this was, or how many there were; 0 where it is not known.
    pub attempt: u32,
    /// The handler's error that did not steer, or the fault of the key: for the application's own log.
    pub error: Option<Arc<dyn StdError + Send + Sync>>,
    /// Claim itself was not answered (`UNAVAILABLE`, `DEADLINE_EXCEEDED`, or no connection), so that no handler ran. Only then
    /// may a consumer that has chosen to work without the ledger go on, by a `Spool` of the module `spool`.
    pub away: bool,
}

impl Outcome {
    pub(crate) fn new(advice: Advice) -> Self {
        Self {
            advice,
            result: None,
            replayed: false,
            result_dropped: false,
            effect_unknown: false,
            reason: None,
            detail: String::new(),
            attempt: 0,
            error: None,
            away: false,
        }
    }

    pub(crate) fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

impl fmt::Debug for Outcome {
    /// Without the result and without the text of the error: either may be a payload.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Outcome")
            .field("advice", &self.advice)
            .field("result_bytes", &self.result.as_ref().map(Bytes::len))
            .field("replayed", &self.replayed)
            .field("result_dropped", &self.result_dropped)
            .field("effect_unknown", &self.effect_unknown)
            .field("reason", &self.reason)
            .field("detail", &self.detail)
            .field("attempt", &self.attempt)
            .field("away", &self.away)
            .finish_non_exhaustive()
    }
}

/// What later deliveries are answered: bytes, text, or nothing. At most 16 KiB by default; a larger one is not stored, and
/// the message is completed all the same.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct EffectResult {
    pub(crate) bytes: Bytes,
    pub(crate) left_out: bool,
}

impl EffectResult {
    /// The effect is done, and it had a result that cannot be stored, as one that could not be serialised: the message is
    /// completed, and `result_dropped` says that its result is not known.
    #[must_use]
    pub fn left_out() -> Self {
        Self { bytes: Bytes::new(), left_out: true }
    }
}

impl fmt::Debug for EffectResult {
    /// Without the result, which may be a payload.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("EffectResult");
        shown.field("bytes", &self.bytes.len()).field("left_out", &self.left_out).finish()
    }
}

macro_rules! results {
    ($($from:ty: $value:ident => $bytes:expr;)*) => {
        $(impl From<$from> for EffectResult {
            fn from($value: $from) -> Self {
                Self { bytes: $bytes, left_out: false }
            }
        })*
    };
}

results! {
    (): _nothing => Bytes::new();
    Bytes: value => value;
    Vec<u8>: value => Bytes::from(value);
    String: value => Bytes::from(value);
    &'static str: value => Bytes::from_static(value.as_bytes());
    &'static [u8]: value => Bytes::from_static(value);
}

impl<T: Into<Self>> From<Option<T>> for EffectResult {
    fn from(value: Option<T>) -> Self {
        value.map_or_else(Self::default, Into::into)
    }
}

//! Counts of the inbox. Every count exists from the start on, at zero.

use prometheus::{Error, IntCounter, IntGauge, Registry};

use super::catalogue::{INBOX_ERASE_LAG, INBOX_HANDED, INBOX_HANDOUTS, INBOX_MESSAGE_BYTES, INBOX_STORES};
use crate::domain::{Reason, Rejection, Span, StoreVerdict};

/// How a look of a `ClaimNext` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandoutEnd {
    HandedOut,
    Repeated,
    Nothing,
    Refused,
}

/// The words of [`HandoutEnd`], in its order; and of a look that passed over an entry.
const HANDOUTS: [&str; 5] = ["handed_out", "repeated", "nothing", "refused", UNREADABLE];
const UNREADABLE: &str = "unreadable";
/// How a Store ended.
const STORES: [&str; 9] = [
    "stored",
    "already_stored",
    "completed",
    "failed",
    "fingerprint_mismatch",
    "outside_window",
    "refused",
    "inbox_off",
    "backlog_full",
];

/// See the module.
pub(crate) struct InboxMetrics {
    handouts: Vec<IntCounter>,
    handed: IntCounter,
    stores: Vec<IntCounter>,
    bytes: IntGauge,
    erase_lag: IntGauge,
}

impl InboxMetrics {
    pub(super) fn new(registry: &Registry) -> Result<InboxMetrics, Error> {
        let (handouts, stores) = (INBOX_HANDOUTS.counters(registry)?, INBOX_STORES.counters(registry)?);
        let handout = |outcome: &&str| handouts.get_metric_with_label_values(&[outcome]);
        let store = |outcome: &&str| stores.get_metric_with_label_values(&[outcome]);
        Ok(InboxMetrics {
            handouts: HANDOUTS.iter().map(handout).collect::<Result<_, _>>()?,
            handed: INBOX_HANDED.counters(registry)?.get_metric_with_label_values::<&str>(&[])?,
            stores: STORES.iter().map(store).collect::<Result<_, _>>()?,
            bytes: INBOX_MESSAGE_BYTES.gauge(registry)?,
            erase_lag: INBOX_ERASE_LAG.gauge(registry)?,
        })
    }

    /// Counts a look: how it ended, the number of messages that it handed out, and whether it passed over an entry.
    pub(crate) fn handed_out(&self, end: HandoutEnd, messages: usize, passed_over: bool) {
        self.handouts.get(end as usize).into_iter().for_each(IntCounter::inc);
        if passed_over {
            self.handouts.last().into_iter().for_each(IntCounter::inc);
        }
        self.handed.inc_by(u64::try_from(messages).unwrap_or_default());
    }

    /// Counts a Store that was answered.
    pub(crate) fn stored(&self, answer: Result<&StoreVerdict, &Rejection>) {
        let outcome = match answer {
            Ok(StoreVerdict::Stored { .. }) => 0,
            Ok(StoreVerdict::AlreadyStored { .. }) => 1,
            Ok(StoreVerdict::Completed { .. }) => 2,
            Ok(StoreVerdict::Failed { .. }) => 3,
            Ok(StoreVerdict::FingerprintMismatch { .. }) => 4,
            Ok(StoreVerdict::OutsideWindow { .. }) => 5,
            Err(refusal) if refusal.reason == Reason::InboxOff => 7,
            Err(refusal) if refusal.reason == Reason::BacklogFull => 8,
            Err(_) => 6,
        };
        if let Some(count) = self.stores.get(outcome) {
            count.inc();
        }
    }

    /// The bytes of all messages, as last read.
    pub(crate) fn message_bytes(&self, bytes: u64) {
        self.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// How long the oldest message has been due to be erased.
    pub(crate) fn erase_lag(&self, lag: Span) {
        self.erase_lag.set(lag.micros() / 1_000_000);
    }
}

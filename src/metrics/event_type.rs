//! The series of one event type of a consumer. Those of claims and failures exist from its first answer on.
//! Those of held claims, of replay runs and of stored messages are made with their first value, if they fit the cardinality
//! limit, since most event types never have one.

use std::sync::OnceLock;
use std::time::Duration;

use prometheus::{Error, Histogram, IntCounter};

use super::cardinality::{CardinalityLimit, NamedBy, SeriesCost};
use super::catalogue::HELD;
use super::families::Families;
use super::labels::{ENDS, KINDS, OPERATIONS, REPLAY_VERDICTS, VERDICTS};
use super::seen::Seen;
use crate::common::misleading::visible;

/// The label that distinguishes counts of replay runs from live ones: never a run's name.
const REPLAY: &str = "true";

/// The series of one event type of a consumer.
pub(super) struct EventType {
    consumer: Box<str>,
    name: Box<str>,
    claims: Vec<IntCounter>,
    failed: Vec<IntCounter>,
    held: OnceLock<Vec<Histogram>>,
    replays: OnceLock<Vec<IntCounter>>,
    stored: OnceLock<IntCounter>,
    pub(super) seen: Seen,
}

/// A value that is counted in series that are made with their first value.
#[derive(Clone, Copy)]
pub(super) enum Later {
    /// An operation with this index ended a claim after this many microseconds.
    Held(usize, i64),
    /// A claim in a replay run got the verdict with this index.
    Replay(usize),
    /// The ledger began to keep a message.
    Stored,
}

impl EventType {
    pub(super) fn new(families: &Families, consumer: &str, name: &str) -> Result<EventType, Error> {
        let labels = (&*visible(consumer), &*visible(name));
        let claim =
            |verdict: &&str| families.claims.get_metric_with_label_values(&[labels.0, labels.1, verdict]);
        let fail = |kind: &&str| families.failed.get_metric_with_label_values(&[labels.0, labels.1, kind]);
        Ok(EventType {
            consumer: consumer.into(),
            name: name.into(),
            claims: VERDICTS.iter().map(claim).collect::<Result<_, _>>()?,
            failed: KINDS.iter().map(fail).collect::<Result<_, _>>()?,
            held: OnceLock::new(),
            replays: OnceLock::new(),
            stored: OnceLock::new(),
            seen: Seen::default(),
        })
    }

    /// The cost of its series of claims and failures.
    pub(super) fn needs(consumer: &str, name: &str) -> SeriesCost {
        SeriesCost::of(VERDICTS.len() + KINDS.len(), &[consumer, name])
    }

    /// The cost of its series of held claims.
    pub(super) fn held_needs(consumer: &str, name: &str) -> SeriesCost {
        SeriesCost::of(ENDS * HELD.series(), &[consumer, name])
    }

    fn replay_needs(&self) -> SeriesCost {
        SeriesCost::of(REPLAY_VERDICTS.len(), &[&self.consumer, &self.name])
    }

    fn stored_needs(&self) -> SeriesCost {
        SeriesCost::of(1, &[&self.consumer, &self.name])
    }

    /// Makes the series of held claims. Returns whether they are new.
    pub(super) fn make_held(&self, families: &Families) -> Result<bool, Error> {
        let (consumer, name) = (&*visible(&self.consumer), &*visible(&self.name));
        let held =
            |operation: &&str| families.held.get_metric_with_label_values(&[consumer, name, operation]);
        let made = OPERATIONS.iter().take(ENDS).map(held).collect::<Result<_, _>>()?;
        Ok(self.held.set(made).is_ok())
    }

    fn make_replays(&self, families: &Families) -> Result<bool, Error> {
        let (consumer, name) = (&*visible(&self.consumer), &*visible(&self.name));
        let replay = |verdict: &&str| {
            families.replays.get_metric_with_label_values(&[consumer, name, REPLAY, verdict])
        };
        let made = REPLAY_VERDICTS.iter().map(replay).collect::<Result<_, _>>()?;
        Ok(self.replays.set(made).is_ok())
    }

    fn make_stored(&self, families: &Families) -> Result<bool, Error> {
        let (consumer, name) = (&*visible(&self.consumer), &*visible(&self.name));
        let made = families.stored.get_metric_with_label_values(&[consumer, name])?;
        Ok(self.stored.set(made).is_ok())
    }

    /// Makes all of its series regardless of the cardinality limit: those of the others always exist.
    pub(super) fn make_always(&self, families: &Families) -> Result<(), Error> {
        self.make_held(families)?;
        self.make_replays(families)?;
        self.make_stored(families)?;
        Ok(())
    }

    /// Makes the series that a value needs, if they fit the cardinality limit.
    pub(super) fn make(&self, families: &Families, later: Later, limit: &CardinalityLimit, named: NamedBy) {
        let (needs, is_there) = match later {
            Later::Held(..) => (EventType::held_needs(&self.consumer, &self.name), self.held.get().is_some()),
            Later::Replay(_) => (self.replay_needs(), self.replays.get().is_some()),
            Later::Stored => (self.stored_needs(), self.stored.get().is_some()),
        };
        if is_there || !limit.take(needs, named) {
            return;
        }
        let made = match later {
            Later::Held(..) => self.make_held(families),
            Later::Replay(_) => self.make_replays(families),
            Later::Stored => self.make_stored(families),
        };
        // Another thread may have made them at the same time: their cost is charged only to one of the two.
        if !made.unwrap_or(false) {
            limit.give_back(needs);
        }
    }

    /// Counts a value. Returns false if it has no series.
    pub(super) fn count(&self, later: Later) -> bool {
        match later {
            Later::Held(operation, micros) => {
                let Some(histogram) = self.held.get().and_then(|held| held.get(operation)) else {
                    return false;
                };
                histogram.observe(Duration::from_micros(u64::try_from(micros).unwrap_or(0)).as_secs_f64());
            }
            Later::Replay(verdict) => {
                let Some(count) = self.replays.get().and_then(|counts| counts.get(verdict)) else {
                    return false;
                };
                count.inc();
            }
            Later::Stored => {
                let Some(count) = self.stored.get() else { return false };
                count.inc();
            }
        }
        true
    }

    /// Removes all of its series, and returns the cost of those that were made with their first value.
    pub(super) fn forget(&self, families: &Families) -> SeriesCost {
        let (consumer, name) = (&*visible(&self.consumer), &*visible(&self.name));
        for verdict in VERDICTS {
            drop(families.claims.remove_label_values(&[consumer, name, verdict]));
        }
        for kind in KINDS {
            drop(families.failed.remove_label_values(&[consumer, name, kind]));
        }
        let mut needs = SeriesCost::default();
        if self.held.get().is_some() {
            for operation in OPERATIONS {
                drop(families.held.remove_label_values(&[consumer, name, operation]));
            }
            needs = needs.and(EventType::held_needs(&self.consumer, &self.name));
        }
        if self.replays.get().is_some() {
            for verdict in REPLAY_VERDICTS {
                drop(families.replays.remove_label_values(&[consumer, name, REPLAY, verdict]));
            }
            needs = needs.and(self.replay_needs());
        }
        if self.stored.get().is_some() {
            drop(families.stored.remove_label_values(&[consumer, name]));
            needs = needs.and(self.stored_needs());
        }
        needs
    }

    pub(super) fn see(&self, minute: u32) {
        self.seen.now(minute);
    }

    pub(super) fn claimed(&self, verdict: usize) {
        if let Some(count) = self.claims.get(verdict) {
            count.inc();
        }
    }

    pub(super) fn failed(&self, kind: usize) {
        if let Some(count) = self.failed.get(kind) {
            count.inc();
        }
    }
}

//! The series of one event type of a consumer. Those of claims and failures are there from its first answer on; those of held
//! claims and of replay runs from their first value on, where there is room, since most event types never have one.

use std::sync::OnceLock;
use std::time::Duration;

use prometheus::{Error, Histogram, IntCounter};

use super::catalogue::HELD;
use super::families::Families;
use super::labels::{ENDS, KINDS, OPERATIONS, REPLAY_VERDICTS, VERDICTS};
use super::room::{Named, Needs, Room};
use super::seen::Seen;
use crate::common::misleading::visible;

/// The label that distinguishes counts of replay runs from live ones: never a run's name.
const REPLAY: &str = "true";

/// See the module.
pub(super) struct EventType {
    consumer: Box<str>,
    name: Box<str>,
    claims: Vec<IntCounter>,
    failed: Vec<IntCounter>,
    held: OnceLock<Vec<Histogram>>,
    replays: OnceLock<Vec<IntCounter>>,
    pub(super) seen: Seen,
}

/// What is counted in series that are made with their first value.
#[derive(Clone, Copy)]
pub(super) enum Later {
    /// A claim was ended by this operation after so many microseconds.
    Held(usize, i64),
    /// A claim in a replay run was answered so.
    Replay(usize),
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
            seen: Seen::default(),
        })
    }

    /// What its series of claims and failures need.
    pub(super) fn needs(consumer: &str, name: &str) -> Needs {
        Needs::of(VERDICTS.len() + KINDS.len(), &[consumer, name])
    }

    /// What its series of held claims need.
    pub(super) fn held_needs(consumer: &str, name: &str) -> Needs {
        Needs::of(ENDS * HELD.series(), &[consumer, name])
    }

    fn replay_needs(&self) -> Needs {
        Needs::of(REPLAY_VERDICTS.len(), &[&self.consumer, &self.name])
    }

    /// Makes the series of held claims. Says whether they were not there before.
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

    /// Makes all of its series, whatever room there is: those of the others are always there.
    pub(super) fn make_always(&self, families: &Families) -> Result<(), Error> {
        self.make_held(families)?;
        self.make_replays(families)?;
        Ok(())
    }

    /// Makes the series that a value needs, where there is room.
    pub(super) fn make(&self, families: &Families, later: Later, room: &Room, named: Named) {
        let (needs, is_there) = match later {
            Later::Held(..) => (EventType::held_needs(&self.consumer, &self.name), self.held.get().is_some()),
            Later::Replay(_) => (self.replay_needs(), self.replays.get().is_some()),
        };
        if is_there || !room.take(needs, named) {
            return;
        }
        let made = match later {
            Later::Held(..) => self.make_held(families),
            Later::Replay(_) => self.make_replays(families),
        };
        // Another thread may have made them at the same time: their room is taken once.
        if !made.unwrap_or(false) {
            room.give_back(needs);
        }
    }

    /// Counts a value. Returns false if there are no series for it.
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
        }
        true
    }

    /// Takes all of its series away; and says what those need that were made with their first value.
    pub(super) fn forget(&self, families: &Families) -> Needs {
        let (consumer, name) = (&*visible(&self.consumer), &*visible(&self.name));
        for verdict in VERDICTS {
            drop(families.claims.remove_label_values(&[consumer, name, verdict]));
        }
        for kind in KINDS {
            drop(families.failed.remove_label_values(&[consumer, name, kind]));
        }
        let mut needs = Needs::default();
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

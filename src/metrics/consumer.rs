//! The series of one consumer. All of its own are there from its first answer on, and those of an event type from the
//! first of that: a rate then sees the next of each.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use prometheus::{Error, Histogram, HistogramVec, IntCounter, IntCounterVec, Registry};

use super::catalogue::{ATTEMPTS, CLAIMS, FAILED, HELD, LOOKUPS, RECLAIMS, RELEASES, REPLAYS, SETTLEMENTS};
use super::room::{Named, Needs, Room};
use crate::misleading::visible;

/// What those without a name of their own are called together: consumers, and event types of a consumer.
pub(super) const OTHER: &str = "other";
/// So many event types of a consumer have series of their own.
const EVENT_TYPES_MAX: usize = 20;

/// What a claim was answered.
pub(super) const VERDICTS: [&str; 11] = [
    "acquired",
    "completed",
    "in_progress",
    "backoff",
    "failed",
    "parked",
    "fingerprint_mismatch",
    "outside_window",
    "rejected",
    "unavailable",
    "unanswered",
];
/// What a claim in a replay run was answered.
pub(super) const REPLAY_VERDICTS: [&str; 5] = ["acquired", "completed", "suppressed", "refused", "other"];
/// What a look-up found.
pub(super) const FOUND: [&str; 10] = [
    "absent",
    "received",
    "in_progress",
    "failed_retryable",
    "completed",
    "failed_terminal",
    "parked",
    "rejected",
    "unavailable",
    "unanswered",
];
/// The label by which what is counted of runs is told from what is live: never a run's name.
const REPLAY: &str = "true";
pub(super) const OPERATIONS: [&str; 4] = ["complete", "fail", "release", "renew"];
pub(super) const OUTCOMES: [&str; 7] =
    ["ok", "replayed", "late", "rejected", "superseded", "unavailable", "unanswered"];
/// What another attempt would bring.
pub(super) const KINDS: [&str; 3] = ["retryable", "terminal", "park"];
/// Of the operations, those that end a claim.
const ENDS: usize = 3;

/// The metrics that have a label `consumer`.
pub(super) struct Families {
    claims: IntCounterVec,
    failed: IntCounterVec,
    settlements: IntCounterVec,
    held: HistogramVec,
    attempts: HistogramVec,
    releases: HistogramVec,
    reclaims: IntCounterVec,
    replays: IntCounterVec,
    pub(super) lookups: IntCounterVec,
}

/// See the module.
pub(super) struct Consumer {
    pub(super) name: Box<str>,
    /// An operator has made its name known.
    by_operator: AtomicBool,
    settlements: Vec<Vec<IntCounter>>,
    held: Vec<Histogram>,
    attempts: Histogram,
    releases: Histogram,
    reclaims: IntCounter,
    replays: Vec<IntCounter>,
    /// Made with the first look-up: most consumers never have one, and their places are for others.
    pub(super) lookups: OnceLock<Vec<IntCounter>>,
    /// Of messages whose event type is not told.
    untold: Arc<EventType>,
    event_types: RwLock<HashMap<Box<str>, Arc<EventType>>>,
    seen: Seen,
}

/// The series of one event type of a consumer.
pub(super) struct EventType {
    claims: Vec<IntCounter>,
    failed: Vec<IntCounter>,
    seen: Seen,
}

/// The minute in which something was counted last: minutes in which somebody looked, from the start on.
#[derive(Default)]
struct Seen(AtomicU32);

impl Seen {
    fn now(&self, minute: u32) {
        if self.0.load(Ordering::Relaxed) != minute {
            self.0.store(minute, Ordering::Relaxed);
        }
    }

    fn minute(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn before(&self, minute: u32) -> bool {
        self.minute() < minute
    }
}

impl Families {
    pub(super) fn new(registry: &Registry) -> Result<Families, Error> {
        Ok(Families {
            claims: CLAIMS.counters(registry)?,
            failed: FAILED.counters(registry)?,
            settlements: SETTLEMENTS.counters(registry)?,
            held: HELD.histograms(registry)?,
            attempts: ATTEMPTS.histograms(registry)?,
            releases: RELEASES.histograms(registry)?,
            reclaims: RECLAIMS.counters(registry)?,
            replays: REPLAYS.counters(registry)?,
            lookups: LOOKUPS.counters(registry)?,
        })
    }

    fn event_type(&self, consumer: &str, event_type: &str) -> Result<Arc<EventType>, Error> {
        let (consumer, event_type) = (&*visible(consumer), &*visible(event_type));
        let claim =
            |verdict: &&str| self.claims.get_metric_with_label_values(&[consumer, event_type, verdict]);
        let fail = |kind: &&str| self.failed.get_metric_with_label_values(&[consumer, event_type, kind]);
        Ok(Arc::new(EventType {
            claims: VERDICTS.iter().map(claim).collect::<Result<_, _>>()?,
            failed: KINDS.iter().map(fail).collect::<Result<_, _>>()?,
            seen: Seen::default(),
        }))
    }

    fn forget_event_type(&self, consumer: &str, event_type: &str) {
        let (consumer, event_type) = (&*visible(consumer), &*visible(event_type));
        for verdict in VERDICTS {
            drop(self.claims.remove_label_values(&[consumer, event_type, verdict]));
        }
        for kind in KINDS {
            drop(self.failed.remove_label_values(&[consumer, event_type, kind]));
        }
    }
}

impl Consumer {
    pub(super) fn new(families: &Families, name: &str, named: Named) -> Result<Consumer, Error> {
        let label = visible(name);
        let own_name = name;
        let name = &*label;
        let settle = |operation: &&str| {
            let count =
                |outcome| families.settlements.get_metric_with_label_values(&[name, operation, outcome]);
            OUTCOMES.into_iter().map(count).collect()
        };
        let replay = |verdict: &&str| families.replays.get_metric_with_label_values(&[name, REPLAY, verdict]);
        let held = |operation: &&str| families.held.get_metric_with_label_values(&[name, operation]);
        Ok(Consumer {
            name: own_name.into(),
            by_operator: AtomicBool::new(named == Named::ByOperator),
            settlements: OPERATIONS.iter().map(settle).collect::<Result<_, _>>()?,
            held: OPERATIONS.iter().take(ENDS).map(held).collect::<Result<_, _>>()?,
            attempts: families.attempts.get_metric_with_label_values(&[name])?,
            releases: families.releases.get_metric_with_label_values(&[name])?,
            reclaims: families.reclaims.get_metric_with_label_values(&[name])?,
            replays: REPLAY_VERDICTS.iter().map(replay).collect::<Result<_, _>>()?,
            lookups: OnceLock::new(),
            untold: families.event_type(own_name, "")?,
            event_types: RwLock::default(),
            seen: Seen::default(),
        })
    }

    /// What a consumer needs: its own series, and those of the event types untold and other.
    pub(super) fn needs(name: &str) -> Needs {
        let of_histograms = ENDS * HELD.series() + ATTEMPTS.series() + RELEASES.series();
        let own =
            Needs::of(OPERATIONS.len() * OUTCOMES.len() + REPLAY_VERDICTS.len() + of_histograms + 1, &[name]);
        own.and(EventType::needs(name, "")).and(EventType::needs(name, OTHER))
    }

    /// Takes its series away again; and says what they needed.
    pub(super) fn forget(&self, families: &Families) -> Needs {
        let (own_name, label) = (&*self.name, visible(&self.name));
        let name = &*label;
        for operation in OPERATIONS {
            for outcome in OUTCOMES {
                drop(families.settlements.remove_label_values(&[name, operation, outcome]));
            }
            drop(families.held.remove_label_values(&[name, operation]));
        }
        drop(families.attempts.remove_label_values(&[name]));
        drop(families.releases.remove_label_values(&[name]));
        drop(families.reclaims.remove_label_values(&[name]));
        for verdict in REPLAY_VERDICTS {
            drop(families.replays.remove_label_values(&[name, REPLAY, verdict]));
        }
        families.forget_event_type(own_name, "");
        let mut needs = Consumer::needs(own_name).and(self.forget_lookups(families));
        for event_type in self.event_types.write().unwrap_or_else(PoisonError::into_inner).keys() {
            families.forget_event_type(own_name, event_type);
            if &**event_type != OTHER {
                needs = needs.and(EventType::needs(own_name, event_type));
            }
        }
        needs
    }

    /// Takes those of its event types away that were not seen since a minute.
    pub(super) fn forget_event_types(&self, families: &Families, since: u32, room: &Room) {
        self.event_types.write().unwrap_or_else(PoisonError::into_inner).retain(|name, event_type| {
            let stays = &**name == OTHER || !event_type.seen.before(since);
            if !stays {
                families.forget_event_type(&self.name, name);
                room.give_back(EventType::needs(&self.name, name));
            }
            stays
        });
    }

    /// The series of messages whose event type is not told.
    pub(super) fn untold(&self) -> Arc<EventType> {
        Arc::clone(&self.untold)
    }

    /// The series of an event type; none: it has none of its own.
    pub(super) fn of_event_type(&self, event_type: &str) -> Option<Arc<EventType>> {
        if event_type.is_empty() {
            return Some(self.untold());
        }
        self.event_types.read().unwrap_or_else(PoisonError::into_inner).get(event_type).cloned()
    }

    /// The same, made where there is room for it; otherwise those of the others.
    pub(super) fn own_event_type(
        &self,
        families: &Families,
        event_type: &str,
        room: &Room,
    ) -> Arc<EventType> {
        if let Some(known) = self.of_event_type(event_type) {
            return known;
        }
        let (needs, named) = (EventType::needs(&self.name, event_type), self.named());
        let is_full = |known: &HashMap<Box<str>, Arc<EventType>>| {
            known.len() - usize::from(known.contains_key(OTHER)) >= EVENT_TYPES_MAX
        };
        // Where many event types have no name, each answer comes here: nobody else waits then.
        let other = {
            let known = self.event_types.read().unwrap_or_else(PoisonError::into_inner);
            let full = is_full(&known) || !room.has(needs, named);
            known.get(OTHER).filter(|_| full).cloned()
        };
        if let Some(other) = other {
            return other;
        }
        let mut known = self.event_types.write().unwrap_or_else(PoisonError::into_inner);
        let is_there = known.contains_key(event_type);
        let is_named = is_there || event_type == OTHER || (!is_full(&known) && room.take(needs, named));
        let name = if is_named { event_type } else { OTHER };
        if let Some(there) = known.get(name) {
            return Arc::clone(there);
        }
        match families.event_type(&self.name, name) {
            Ok(made) => {
                known.insert(name.into(), Arc::clone(&made));
                made
            }
            Err(_) => self.untold(),
        }
    }

    pub(super) fn named(&self) -> Named {
        Named::by_operator(self.by_operator.load(Ordering::Relaxed))
    }

    pub(super) fn set_named(&self, named: Named) {
        self.by_operator.store(named == Named::ByOperator, Ordering::Relaxed);
    }

    pub(super) fn see(&self, minute: u32) {
        self.seen.now(minute);
    }

    /// The minute in which it was counted last.
    pub(super) fn seen_in(&self) -> u32 {
        self.seen.minute()
    }

    pub(super) fn seen_before(&self, minute: u32) -> bool {
        self.seen.before(minute)
    }

    pub(super) fn settled(&self, operation: usize, outcome: usize) {
        if let Some(count) = self.settlements.get(operation).and_then(|counts| counts.get(outcome)) {
            count.inc();
        }
    }

    /// A claim ended by this operation after so many microseconds.
    pub(super) fn held(&self, operation: usize, micros: i64) {
        if let Some(histogram) = self.held.get(operation) {
            let held = std::time::Duration::from_micros(u64::try_from(micros).unwrap_or(0));
            histogram.observe(held.as_secs_f64());
        }
    }

    /// A message was granted in place of a claim that had expired.
    pub(super) fn reclaimed(&self) {
        self.reclaims.inc();
    }

    /// A claim in a replay run was answered so.
    pub(super) fn replayed(&self, verdict: usize) {
        if let Some(count) = self.replays.get(verdict) {
            count.inc();
        }
    }

    /// A message was completed by this attempt.
    pub(super) fn took(&self, attempt: i32) {
        self.attempts.observe(f64::from(attempt));
    }

    /// A message was given back, so many times in a row by now.
    pub(super) fn released(&self, in_a_row: usize) {
        self.releases.observe(f64::from(u32::try_from(in_a_row).unwrap_or(u32::MAX)));
    }
}

impl EventType {
    fn needs(consumer: &str, event_type: &str) -> Needs {
        Needs::of(VERDICTS.len() + KINDS.len(), &[consumer, event_type])
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

//! The series of one consumer. All of its own are there from its first answer on, and those of an event type from the
//! first of that: a rate then sees the next of each.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use prometheus::{Error, Histogram, IntCounter};

use super::catalogue::{ATTEMPTS, RELEASES};
use super::event_type::{EventType, Later};
use super::families::Families;
use super::labels::{CAUSES, OPERATIONS, OTHER, OUTCOMES};
use super::room::{Named, Needs, Room};
use super::seen::Seen;
use crate::common::misleading::visible;

/// So many event types of a consumer have series of their own.
const EVENT_TYPES_MAX: usize = 20;

/// See the module.
pub(super) struct Consumer {
    pub(super) name: Box<str>,
    /// An operator has made its name known.
    by_operator: AtomicBool,
    settlements: Vec<Vec<IntCounter>>,
    attempts: Histogram,
    releases: Histogram,
    reclaims: IntCounter,
    doubled: IntCounter,
    parked: Vec<IntCounter>,
    /// Made with the first look-up: most consumers never have one, and their places are for others.
    pub(super) lookups: OnceLock<Vec<IntCounter>>,
    /// Of messages whose event type is not told.
    untold: Arc<EventType>,
    event_types: RwLock<HashMap<Box<str>, Arc<EventType>>>,
    /// Where values are counted for whose series there is no room. `None` of those that have no name of their own.
    others: Option<Arc<EventType>>,
    seen: Seen,
}

impl Consumer {
    /// `others`: the series of the consumers and event types without a name, once they are there.
    pub(super) fn new(
        families: &Families,
        name: &str,
        named: Named,
        others: Option<Arc<EventType>>,
    ) -> Result<Consumer, Error> {
        let label = visible(name);
        let own_name = name;
        let name = &*label;
        let settle = |operation: &&str| {
            let count =
                |outcome| families.settlements.get_metric_with_label_values(&[name, operation, outcome]);
            OUTCOMES.into_iter().map(count).collect()
        };
        let park = |cause: &&str| families.parked.get_metric_with_label_values(&[name, cause]);
        let untold = EventType::new(families, own_name, "")?;
        untold.make_held(families)?;
        Ok(Consumer {
            name: own_name.into(),
            by_operator: AtomicBool::new(named == Named::ByOperator),
            settlements: OPERATIONS.iter().map(settle).collect::<Result<_, _>>()?,
            attempts: families.attempts.get_metric_with_label_values(&[name])?,
            releases: families.releases.get_metric_with_label_values(&[name])?,
            reclaims: families.reclaims.get_metric_with_label_values(&[name])?,
            doubled: families.doubled.get_metric_with_label_values(&[name])?,
            parked: CAUSES.iter().map(park).collect::<Result<_, _>>()?,
            lookups: OnceLock::new(),
            untold: Arc::new(untold),
            event_types: RwLock::default(),
            others,
            seen: Seen::default(),
        })
    }

    /// What a consumer needs: its own series, and those of the event types untold and other.
    pub(super) fn needs(name: &str) -> Needs {
        let counts = OPERATIONS.len() * OUTCOMES.len() + CAUSES.len() + 2;
        let own = Needs::of(counts + ATTEMPTS.series() + RELEASES.series(), &[name]);
        let untold = EventType::needs(name, "").and(EventType::held_needs(name, ""));
        own.and(untold).and(EventType::needs(name, OTHER))
    }

    /// Takes its series away again; and says what they needed.
    pub(super) fn forget(&self, families: &Families) -> Needs {
        let (own_name, label) = (&*self.name, visible(&self.name));
        let name = &*label;
        for operation in OPERATIONS {
            for outcome in OUTCOMES {
                drop(families.settlements.remove_label_values(&[name, operation, outcome]));
            }
        }
        drop(families.attempts.remove_label_values(&[name]));
        drop(families.releases.remove_label_values(&[name]));
        drop(families.reclaims.remove_label_values(&[name]));
        drop(families.doubled.remove_label_values(&[name]));
        for cause in CAUSES {
            drop(families.parked.remove_label_values(&[name, cause]));
        }
        let mut needs = Consumer::needs(own_name).and(self.forget_lookups(families));
        // The room of the held claims without an event type is that of the consumer.
        needs = needs.and(self.untold.forget(families).without(EventType::held_needs(own_name, "")));
        for (name, event_type) in &*self.event_types.write().unwrap_or_else(PoisonError::into_inner) {
            needs = needs.and(event_type.forget(families));
            if &**name != OTHER {
                needs = needs.and(EventType::needs(own_name, name));
            }
        }
        needs
    }

    /// Takes those of its event types away that were not seen since a minute.
    pub(super) fn forget_event_types(&self, families: &Families, since: u32, room: &Room) {
        self.event_types.write().unwrap_or_else(PoisonError::into_inner).retain(|name, event_type| {
            let stays = &**name == OTHER || !event_type.seen.before(since);
            if !stays {
                room.give_back(event_type.forget(families).and(EventType::needs(&self.name, name)));
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
        match EventType::new(families, &self.name, name).map(Arc::new) {
            Ok(made) => {
                known.insert(name.into(), Arc::clone(&made));
                made
            }
            Err(_) => self.untold(),
        }
    }

    /// Whether these are series of its own, which were not taken away.
    pub(super) fn has(&self, event_type: &Arc<EventType>) -> bool {
        let is = |known: &Arc<EventType>| Arc::ptr_eq(known, event_type);
        is(&self.untold) || self.event_types.read().unwrap_or_else(PoisonError::into_inner).values().any(is)
    }

    /// Counts a value of an event type. Where there are no series for it: of the same consumer without an event type, or of
    /// the others.
    pub(super) fn count(&self, event_type: &EventType, later: Later) {
        let counted = event_type.count(later) || self.untold.count(later);
        if let (false, Some(others)) = (counted, &self.others) {
            others.count(later);
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

    /// A message was granted in place of a claim that had expired.
    pub(super) fn reclaimed(&self) {
        self.reclaims.inc();
    }

    /// The effect of a message was reported as done again, by another claim.
    pub(super) fn doubled(&self) {
        self.doubled.inc();
    }

    /// A message was parked for this cause.
    pub(super) fn parked(&self, cause: usize) {
        if let Some(count) = self.parked.get(cause) {
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

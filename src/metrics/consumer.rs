//! The series of one consumer. They exist from its first answer on, and those of an event type from that
//! type's first answer on: a rate then shows every later increase.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use prometheus::{Error, Histogram, IntCounter};

use super::cardinality::{CardinalityLimit, NamedBy, SeriesCost};
use super::catalogue::{ATTEMPTS, RELEASES};
use super::event_type::{EventType, Later};
use super::families::Families;
use super::labels::{CAUSES, OPERATIONS, OTHER, OUTCOMES};
use super::seen::Seen;
use crate::common::misleading::visible;

/// The number of a consumer's event types that have their own series.
const EVENT_TYPES_MAX: usize = 20;

type EventTypes = HashMap<Box<str>, Arc<EventType>>;

/// Whether no further event type has its own series.
fn is_full(known: &EventTypes) -> bool {
    known.len() - usize::from(known.contains_key(OTHER)) >= EVENT_TYPES_MAX
}

/// The series of one consumer.
pub(super) struct Consumer {
    pub(super) name: Box<str>,
    /// Whether an operator has named the consumer.
    by_operator: AtomicBool,
    settlements: Vec<Vec<IntCounter>>,
    attempts: Histogram,
    releases: Histogram,
    reclaims: IntCounter,
    doubled: IntCounter,
    parked: Vec<IntCounter>,
    /// Made with the first look-up: most consumers never make one, and leave the series to others.
    pub(super) lookups: OnceLock<Vec<IntCounter>>,
    /// Of messages without an event type.
    untyped: Arc<EventType>,
    event_types: RwLock<EventTypes>,
    /// Counts the values that do not fit the cardinality limit. `None` in the shared series of the others.
    others: Option<Arc<EventType>>,
    seen: Seen,
}

impl Consumer {
    /// `others`: the shared series of consumers and event types without their own series, once they exist.
    pub(super) fn new(
        families: &Families,
        name: &str,
        named: NamedBy,
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
        let untyped = EventType::new(families, own_name, "")?;
        untyped.make_held(families)?;
        Ok(Consumer {
            name: own_name.into(),
            by_operator: AtomicBool::new(named == NamedBy::ByOperator),
            settlements: OPERATIONS.iter().map(settle).collect::<Result<_, _>>()?,
            attempts: families.attempts.get_metric_with_label_values(&[name])?,
            releases: families.releases.get_metric_with_label_values(&[name])?,
            reclaims: families.reclaims.get_metric_with_label_values(&[name])?,
            doubled: families.doubled.get_metric_with_label_values(&[name])?,
            parked: CAUSES.iter().map(park).collect::<Result<_, _>>()?,
            lookups: OnceLock::new(),
            untyped: Arc::new(untyped),
            event_types: RwLock::default(),
            others,
            seen: Seen::default(),
        })
    }

    /// What a consumer costs: its own series, and those of messages without an event type and of the other
    /// event types.
    pub(super) fn needs(name: &str) -> SeriesCost {
        let counts = OPERATIONS.len() * OUTCOMES.len() + CAUSES.len() + 2;
        let own = SeriesCost::of(counts + ATTEMPTS.series() + RELEASES.series(), &[name]);
        let untyped = EventType::needs(name, "").and(EventType::held_needs(name, ""));
        own.and(untyped).and(EventType::needs(name, OTHER))
    }

    /// Removes its series, and returns their cost.
    pub(super) fn forget(&self, families: &Families) -> SeriesCost {
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
        // The held claims without an event type are part of the consumer's own cost.
        needs = needs.and(self.untyped.forget(families).without(EventType::held_needs(own_name, "")));
        for (name, event_type) in &*self.event_types.write().unwrap_or_else(PoisonError::into_inner) {
            needs = needs.and(event_type.forget(families));
            if &**name != OTHER {
                needs = needs.and(EventType::needs(own_name, name));
            }
        }
        needs
    }

    /// Removes the event types that were not counted since this minute.
    pub(super) fn forget_event_types(&self, families: &Families, since: u32, limit: &CardinalityLimit) {
        self.event_types.write().unwrap_or_else(PoisonError::into_inner).retain(|name, event_type| {
            let stays = &**name == OTHER || !event_type.seen.before(since);
            if !stays {
                limit.give_back(event_type.forget(families).and(EventType::needs(&self.name, name)));
            }
            stays
        });
    }

    /// The series of messages without an event type.
    pub(super) fn untyped(&self) -> Arc<EventType> {
        Arc::clone(&self.untyped)
    }

    /// The series of an event type; `None` if it does not have its own.
    pub(super) fn of_event_type(&self, event_type: &str) -> Option<Arc<EventType>> {
        if event_type.is_empty() {
            return Some(self.untyped());
        }
        self.event_types.read().unwrap_or_else(PoisonError::into_inner).get(event_type).cloned()
    }

    /// The series of an event type, made if they fit the cardinality limit; otherwise those of the others.
    pub(super) fn own_event_type(
        &self,
        families: &Families,
        event_type: &str,
        limit: &CardinalityLimit,
    ) -> Arc<EventType> {
        if let Some(known) = self.of_event_type(event_type) {
            return known;
        }
        let (needs, named) = (EventType::needs(&self.name, event_type), self.named());
        if let Some(others) = self.others_if_none_fits(limit, needs, named) {
            return others;
        }
        let mut known = self.event_types.write().unwrap_or_else(PoisonError::into_inner);
        let is_there = known.contains_key(event_type);
        let is_named = is_there || event_type == OTHER || (!is_full(&known) && limit.take(needs, named));
        let name = if is_named { event_type } else { OTHER };
        if let Some(there) = known.get(name) {
            return Arc::clone(there);
        }
        match EventType::new(families, &self.name, name).map(Arc::new) {
            Ok(made) => {
                known.insert(name.into(), Arc::clone(&made));
                made
            }
            Err(_) => self.untyped(),
        }
    }

    /// The series of the others, if they exist and no further event type fits. With many event types beyond the limit each
    /// answer takes this path: it must not make other answers wait for the write lock.
    fn others_if_none_fits(
        &self,
        limit: &CardinalityLimit,
        needs: SeriesCost,
        named: NamedBy,
    ) -> Option<Arc<EventType>> {
        let known = self.event_types.read().unwrap_or_else(PoisonError::into_inner);
        let fits = !is_full(&known) && limit.has(needs, named);
        known.get(OTHER).filter(|_| !fits).cloned()
    }

    /// Whether these series are still its own, that is, were not removed.
    pub(super) fn has(&self, event_type: &Arc<EventType>) -> bool {
        let is = |known: &Arc<EventType>| Arc::ptr_eq(known, event_type);
        is(&self.untyped) || self.event_types.read().unwrap_or_else(PoisonError::into_inner).values().any(is)
    }

    /// Counts a value of an event type. If that has no series, the value counts for the same consumer without
    /// an event type, or for the others.
    pub(super) fn count(&self, event_type: &EventType, later: Later) {
        let counted = event_type.count(later) || self.untyped.count(later);
        if let (false, Some(others)) = (counted, &self.others) {
            others.count(later);
        }
    }

    pub(super) fn named(&self) -> NamedBy {
        NamedBy::by_operator(self.by_operator.load(Ordering::Relaxed))
    }

    pub(super) fn set_named(&self, named: NamedBy) {
        self.by_operator.store(named == NamedBy::ByOperator, Ordering::Relaxed);
    }

    pub(super) fn see(&self, minute: u32) {
        self.seen.now(minute);
    }

    /// The minute in which it was last counted.
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

    /// Counts a grant in place of a claim that had expired.
    pub(super) fn reclaimed(&self) {
        self.reclaims.inc();
    }

    /// Counts another report of an effect that another claim had reported as done.
    pub(super) fn doubled(&self) {
        self.doubled.inc();
    }

    /// Counts a message that was parked for this cause.
    pub(super) fn parked(&self, cause: usize) {
        if let Some(count) = self.parked.get(cause) {
            count.inc();
        }
    }

    /// Counts a completion, with the number of its attempt.
    pub(super) fn took(&self, attempt: i32) {
        self.attempts.observe(f64::from(attempt));
    }

    /// Counts a release, the `in_a_row`th one in a row of its message.
    pub(super) fn released(&self, in_a_row: usize) {
        self.releases.observe(f64::from(u32::try_from(in_a_row).unwrap_or(u32::MAX)));
    }
}

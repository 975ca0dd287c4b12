//! Counts of look-ups, by consumer and by the state that they found.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::answers::found;
use super::cardinality::{CardinalityLimit, NamedBy, SeriesCost};
use super::consumer::Consumer;
use super::consumers::Consumers;
use super::families::Families;
use super::labels::{FOUND, OTHER};
use super::pending::{Answered, SeriesOwner};
use crate::common::misleading::visible;
use crate::domain::Key;

impl Consumers {
    /// The consumer and event type under which a look-up counts. Until its first answer, a consumer without
    /// series for look-ups counts as one of the others.
    pub(super) fn lookup_owner(&self, key: &Key) -> SeriesOwner {
        let who = self.who(key, "");
        if who.consumer.has_lookups() {
            return who;
        }
        let consumer = Arc::clone(self.others());
        SeriesOwner { event_type: consumer.untyped(), consumer, named: false, ..who }
    }

    /// Counts the answer of a look-up. Like a claim, it makes series for its consumer unless it is refused,
    /// or if an operator has named the consumer.
    pub(super) fn count_lookup(&self, who: &SeriesOwner, answered: &Answered<'_>) {
        let place = found(answered.answer);
        if who.named {
            return who.consumer.count_lookup(place);
        }
        let name = who.key.consumer();
        let named = self.named_by(name, (answered.has_policy)());
        if answered.answer.is_ok() || named == NamedBy::ByOperator {
            self.with_lookups(name, named).count_lookup(place);
        } else {
            who.consumer.count_lookup(place);
        }
    }

    /// The consumer under which a look-up is counted that was refused before any was answered: its own where
    /// it has series for look-ups or an operator has named it, otherwise the others.
    pub(super) fn of_lookups(&self, consumer: Arc<Consumer>) -> Arc<Consumer> {
        if consumer.has_lookups() {
            consumer
        } else if consumer.named() == NamedBy::ByOperator {
            self.with_lookups(&consumer.name, NamedBy::ByOperator)
        } else {
            Arc::clone(self.others())
        }
    }

    /// The consumer of this name, with series for look-ups; the others where these do not fit the limit.
    fn with_lookups(&self, name: &str, named: NamedBy) -> Arc<Consumer> {
        let consumer = self.consumer(name, named);
        // The lock keeps other threads from removing the series meanwhile.
        let known = self.known();
        let is_there = known.by_name.get(name).is_some_and(|there| Arc::ptr_eq(there, &consumer));
        consumer.see(self.minute.load(Ordering::Relaxed));
        if is_there && consumer.make_lookups(&self.families, &self.limit) {
            return consumer;
        }
        Arc::clone(self.others())
    }
}

impl Consumer {
    fn has_lookups(&self) -> bool {
        self.lookups.get().is_some()
    }

    /// Counts what a look-up found, for a consumer that has series for look-ups.
    pub(super) fn count_lookup(&self, place: usize) {
        if let Some(count) = self.lookups.get().and_then(|counts| counts.get(place)) {
            count.inc();
        }
    }

    /// Makes the series for look-ups. Returns whether they exist.
    pub(super) fn make_lookups(&self, families: &Families, limit: &CardinalityLimit) -> bool {
        if self.has_lookups() {
            return true;
        }
        // The series of the others always exist.
        let needs = if &*self.name == OTHER { SeriesCost::default() } else { lookup_needs(&self.name) };
        if !limit.take(needs, self.named()) {
            return false;
        }
        let label = visible(&self.name);
        let count = |state: &&str| families.lookups.get_metric_with_label_values(&[&*label, state]);
        let made = FOUND.iter().map(count).collect::<Result<Vec<_>, _>>();
        let is_new = made.is_ok_and(|made| self.lookups.set(made).is_ok());
        if !is_new {
            limit.give_back(needs);
        }
        self.has_lookups()
    }

    /// Removes the series for look-ups, and returns their cost.
    pub(super) fn forget_lookups(&self, families: &Families) -> SeriesCost {
        if !self.has_lookups() {
            return SeriesCost::default();
        }
        let label = visible(&self.name);
        for state in FOUND {
            drop(families.lookups.remove_label_values(&[&*label, state]));
        }
        lookup_needs(&self.name)
    }
}

fn lookup_needs(name: &str) -> SeriesCost {
    SeriesCost::of(FOUND.len(), &[name])
}

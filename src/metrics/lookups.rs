//! What is counted of look-ups, by consumer and the state that they found.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::answers::found;
use super::asked::{Answered, Who};
use super::consumer::Consumer;
use super::consumers::Consumers;
use super::families::Families;
use super::labels::{FOUND, OTHER};
use super::room::{Named, Needs, Room};
use crate::common::misleading::visible;
use crate::domain::Key;

impl Consumers {
    /// Whose look-up it is. A consumer without series for look-ups is one of the others until one is answered.
    pub(super) fn who_looks(&self, key: &Key) -> Who {
        let who = self.who(key, "");
        if who.consumer.has_lookups() {
            return who;
        }
        let consumer = Arc::clone(self.others());
        Who { event_type: consumer.untold(), consumer, named: false, ..who }
    }

    /// A look-up was answered. As a claim, it makes series for its consumer where it is not refused, or where an operator
    /// has named the consumer.
    pub(super) fn looked(&self, who: &Who, answered: &Answered<'_>) {
        let place = found(answered.answer);
        if who.named {
            return who.consumer.looked(place);
        }
        let name = who.key.consumer();
        let named = self.named_by(name, (answered.has_policy)());
        if answered.answer.is_ok() || named == Named::ByOperator {
            self.with_lookups(name, named).looked(place);
        } else {
            who.consumer.looked(place);
        }
    }

    /// The one under which a look-up is counted that was refused before any was answered: this consumer where it has series
    /// for look-ups, or an operator has named it; else the others.
    pub(super) fn of_lookups(&self, consumer: Arc<Consumer>) -> Arc<Consumer> {
        if consumer.has_lookups() {
            consumer
        } else if consumer.named() == Named::ByOperator {
            self.with_lookups(&consumer.name, Named::ByOperator)
        } else {
            Arc::clone(self.others())
        }
    }

    /// The consumer of this name, once it has series for look-ups; the others where there is no room.
    fn with_lookups(&self, name: &str, named: Named) -> Arc<Consumer> {
        let consumer = self.consumer(name, named);
        // No other thread takes its series away meanwhile.
        let known = self.known();
        let is_there = known.by_name.get(name).is_some_and(|there| Arc::ptr_eq(there, &consumer));
        consumer.see(self.minute.load(Ordering::Relaxed));
        if is_there && consumer.make_lookups(&self.families, &self.room) {
            return consumer;
        }
        Arc::clone(self.others())
    }
}

impl Consumer {
    fn has_lookups(&self) -> bool {
        self.lookups.get().is_some()
    }

    /// What was found by a look-up of a consumer that has series for them.
    pub(super) fn looked(&self, place: usize) {
        if let Some(count) = self.lookups.get().and_then(|counts| counts.get(place)) {
            count.inc();
        }
    }

    /// Makes the series for look-ups. Returns whether they are there.
    pub(super) fn make_lookups(&self, families: &Families, room: &Room) -> bool {
        if self.has_lookups() {
            return true;
        }
        // The others always have their place.
        let needs = if &*self.name == OTHER { Needs::default() } else { lookup_needs(&self.name) };
        if !room.take(needs, self.named()) {
            return false;
        }
        let label = visible(&self.name);
        let count = |state: &&str| families.lookups.get_metric_with_label_values(&[&*label, state]);
        let made = FOUND.iter().map(count).collect::<Result<Vec<_>, _>>();
        let is_new = made.is_ok_and(|made| self.lookups.set(made).is_ok());
        if !is_new {
            room.give_back(needs);
        }
        self.has_lookups()
    }

    /// Takes the series for look-ups away, and says what they needed.
    pub(super) fn forget_lookups(&self, families: &Families) -> Needs {
        if !self.has_lookups() {
            return Needs::default();
        }
        let label = visible(&self.name);
        for state in FOUND {
            drop(families.lookups.remove_label_values(&[&*label, state]));
        }
        lookup_needs(&self.name)
    }
}

fn lookup_needs(name: &str) -> Needs {
    Needs::of(FOUND.len(), &[name])
}

//! What is counted by consumer. Names come from clients: so that nobody can fill the memory of this server, or of what
//! scrapes it, only so many consumers have series of their own, and all others share one.

mod malformed;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use prometheus::{Error, Registry};

use super::asked::{Answered, Asked, Kind, Who, kind};
use super::consumer::Consumer;
use super::event_type::{EventType, Later};
use super::families::Families;
use super::labels::OTHER;
use super::room::{Named, Room};
use crate::domain::{Command, Key};

/// Maximum number of consumers with series of their own that only clients have named: the first ones that are answered, and
/// not refused. Consumers that operators have named (by a policy, or exactly by the file of rights) have series as long as
/// there is room: clients' names do not take its reserve, and make room where that is full, too.
const NAMED_MAX: usize = 100;
/// Whoever was not seen for so many minutes gives its place to others.
const IDLE_MINUTES: u32 = 60;

/// See the module.
pub(super) struct Consumers {
    pub(super) families: Families,
    known: RwLock<Known>,
    /// The consumers that the file of rights names exactly.
    by_rights: RwLock<Arc<HashSet<Box<str>>>>,
    /// Answers to consumers that operators have named and for which there was no room, since it was last logged.
    left_out: AtomicU64,
    others: Arc<Consumer>,
    pub(super) room: Room,
    /// How many minutes have passed in which somebody looked.
    pub(super) minute: AtomicU32,
}

/// The consumers that have series of their own.
#[derive(Default)]
pub(super) struct Known {
    pub(super) by_name: HashMap<Box<str>, Arc<Consumer>>,
    by_clients: usize,
}

impl Known {
    fn has_room(&self, named: Named) -> bool {
        named == Named::ByOperator || self.by_clients < NAMED_MAX
    }

    fn count(&mut self) {
        self.by_clients = self.by_name.values().filter(|one| one.named() == Named::ByClient).count();
    }
}

/// Of the commands of one call, whose the one before was: most are alike, and looked up once.
#[derive(Default)]
pub(crate) struct Before(Option<Arc<Who>>);

impl Consumers {
    pub(super) fn new(registry: &Registry) -> Result<Consumers, Error> {
        let families = Families::new(registry)?;
        let others = Arc::new(Consumer::new(&families, OTHER, Named::ByOperator, None)?);
        let room = Room::default();
        others.untold().make_always(&families)?;
        others.make_lookups(&families, &room);
        Ok(Consumers {
            families,
            known: RwLock::default(),
            by_rights: RwLock::default(),
            left_out: AtomicU64::new(0),
            others,
            room,
            minute: AtomicU32::new(0),
        })
    }

    /// Those without series of their own.
    pub(super) fn others(&self) -> &Arc<Consumer> {
        &self.others
    }

    /// The room that all names of consumers share.
    pub(super) fn room(&self) -> &Room {
        &self.room
    }

    /// The consumers that the file of rights in force names exactly.
    pub(super) fn named_by_rights(&self, consumers: HashSet<Box<str>>) {
        *self.by_rights.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(consumers);
    }

    /// Whether operators or clients have named a consumer.
    pub(super) fn named_by(&self, consumer: &str, has_policy: bool) -> Named {
        let by_rights = || self.by_rights.read().unwrap_or_else(PoisonError::into_inner).contains(consumer);
        Named::by_operator(has_policy || by_rights())
    }

    /// A command comes in, and whether it is to be counted.
    pub(super) fn asked(
        &self,
        before: &mut Before,
        key: &Key,
        event_type: &str,
        command: &Command,
        counts: bool,
    ) -> Asked {
        let kind = kind(key.is_of_run(), command);
        if !counts {
            return Asked { who: None, kind, minute: 0, answered: true };
        }
        let same =
            |who: &&Arc<Who>| who.key.consumer() == key.consumer() && &*who.event_type_name == event_type;
        let who = before.0.as_ref().filter(same).cloned();
        let who = who.unwrap_or_else(|| {
            let looks = matches!(kind, Kind::Lookup);
            Arc::new(if looks { self.who_looks(key) } else { self.who(key, event_type) })
        });
        before.0 = Some(Arc::clone(&who));
        Asked { who: Some(who), kind, minute: self.minute.load(Ordering::Relaxed), answered: false }
    }

    pub(super) fn who(&self, key: &Key, event_type_name: &str) -> Who {
        let known = self.known().by_name.get(key.consumer()).cloned();
        let found = known.as_ref().and_then(|known| known.of_event_type(event_type_name));
        let named = found.is_some();
        let consumer = known.unwrap_or_else(|| Arc::clone(&self.others));
        let other = || consumer.of_event_type(OTHER).unwrap_or_else(|| consumer.untold());
        let event_type = found.unwrap_or_else(other);
        Who { key: key.clone(), event_type_name: event_type_name.into(), consumer, event_type, named }
    }

    /// A consumer gets series with its first answer that does not refuse it, and one that operators have named with any
    /// answer: refused names must not take the places.
    pub(super) fn answered(&self, mut asked: Asked, answered: &Answered<'_>) {
        let answer = answered.answer;
        asked.answered = true;
        let Some(who) = &asked.who else { return };
        if matches!(asked.kind, Kind::Lookup) {
            who.consumer.see(asked.minute);
            return self.looked(who, answered);
        }
        let named = || self.named_by(who.key.consumer(), (answered.has_policy)());
        let (consumer, event_type) = if who.named {
            (Arc::clone(&who.consumer), Arc::clone(&who.event_type))
        } else {
            let named = named();
            if answer.is_ok() || named == Named::ByOperator {
                self.named(who, named)
            } else {
                (Arc::clone(&who.consumer), Arc::clone(&who.event_type))
            }
        };
        if let Some(later) = asked.told(&consumer, &event_type, answered) {
            self.count_later(&consumer, &event_type, later);
        }
    }

    /// Counts what has series from its first value on.
    fn count_later(&self, consumer: &Arc<Consumer>, event_type: &Arc<EventType>, later: Later) {
        if event_type.count(later) {
            return;
        }
        {
            // No other thread takes its series away meanwhile.
            let known = self.known();
            let is_there =
                known.by_name.get(&consumer.name).is_some_and(|there| Arc::ptr_eq(there, consumer));
            if is_there && consumer.has(event_type) {
                event_type.make(&self.families, later, &self.room, consumer.named());
            }
        }
        consumer.count(event_type, later);
    }

    /// The series of a consumer and an event type, made where there is room.
    fn named(&self, who: &Who, named: Named) -> (Arc<Consumer>, Arc<EventType>) {
        let consumer = self.consumer(who.key.consumer(), named);
        if Arc::ptr_eq(&consumer, &self.others) {
            let untold = consumer.untold();
            return (consumer, untold);
        }
        // Nobody takes its series away meanwhile.
        let known = self.known();
        if known.by_name.get(who.key.consumer()).is_none_or(|there| !Arc::ptr_eq(there, &consumer)) {
            return (Arc::clone(&self.others), self.others.untold());
        }
        let event_type = consumer.own_event_type(&self.families, &who.event_type_name, &self.room);
        drop(known);
        (consumer, event_type)
    }

    pub(super) fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn consumer(&self, name: &str, named: Named) -> Arc<Consumer> {
        // Whoever is called as the others are is one of them.
        if name == OTHER {
            return Arc::clone(&self.others);
        }
        if let Some(consumer) = self.known().by_name.get(name) {
            return Arc::clone(consumer);
        }
        let needs = Consumer::needs(name);
        // Where many consumers have no name, each of their answers comes here: nobody else waits then.
        let makes_room = |known: &Known| named == Named::ByOperator && known.by_clients > 0;
        {
            let known = self.known();
            if !known.has_room(named) || !(self.room.has(needs, named) || makes_room(&known)) {
                return self.other(named);
            }
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(consumer) = known.by_name.get(name) {
            return Arc::clone(consumer);
        }
        while !self.room.has(needs, named) && makes_room(&known) {
            self.forget_one(&mut known);
        }
        if !known.has_room(named) || !self.room.take(needs, named) {
            return self.other(named);
        }
        let others = Some(self.others.untold());
        let Ok(made) = Consumer::new(&self.families, name, named, others) else {
            return Arc::clone(&self.others);
        };
        let made = Arc::new(made);
        made.see(self.minute.load(Ordering::Relaxed));
        known.by_name.insert(name.into(), Arc::clone(&made));
        known.by_clients += usize::from(named == Named::ByClient);
        made
    }

    /// The consumers for which there is no room.
    fn other(&self, named: Named) -> Arc<Consumer> {
        if named == Named::ByOperator {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        Arc::clone(&self.others)
    }

    /// Takes the series of a consumer away that only clients have named: of the one that was seen least recently.
    fn forget_one(&self, known: &mut Known) {
        let by_clients = known.by_name.iter().filter(|(_, one)| one.named() == Named::ByClient);
        let oldest = by_clients.min_by_key(|(_, consumer)| consumer.seen_in()).map(|(name, _)| name.clone());
        if let Some(gone) = oldest.and_then(|name| known.by_name.remove(&name)) {
            self.room.give_back(gone.forget(&self.families));
        }
        known.count();
    }

    /// Which consumers operators have named by now, and which not any more.
    pub(super) fn policies(&self, has_policy: &dyn Fn(&str) -> bool) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for (name, consumer) in &known.by_name {
            consumer.set_named(self.named_by(name, has_policy(name)));
        }
        known.count();
    }

    /// A minute has passed: takes away what was not seen for long. Returns how many answers since the call before went to
    /// consumers that operators have named and for which there was no room.
    pub(super) fn minute_passed(&self) -> u64 {
        self.forget_idle();
        self.left_out.swap(0, Ordering::Relaxed)
    }

    fn forget_idle(&self) {
        let minute = self.minute.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(since) = minute.checked_sub(IDLE_MINUTES) else { return };
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.by_name.retain(|_, consumer| {
            let stays = !consumer.seen_before(since);
            if stays {
                consumer.forget_event_types(&self.families, since, &self.room);
            } else {
                self.room.give_back(consumer.forget(&self.families));
            }
            stays
        });
        known.count();
    }
}

//! Metrics by consumer. Clients choose the consumers' names. To bound the memory of this server, and of the
//! Prometheus that scrapes it, only a limited number of consumers have their own series (the cardinality
//! limit); all others share one set of series.

mod malformed;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use prometheus::{Error, Registry};

use super::cardinality::{CardinalityLimit, NamedBy};
use super::consumer::Consumer;
use super::event_type::{EventType, Later};
use super::families::Families;
use super::labels::OTHER;
use super::pending::{Answered, CommandKind, PendingCommand, SeriesOwner, kind};
use crate::domain::{Command, Key};

/// The maximum number of consumers with their own series that only clients have named: the first ones with an
/// answer that is not a refusal. Consumers that operators have named (by a policy, or exactly by the rights
/// file) have series as long as the cardinality limit allows: clients' names do not use its reserve, and are
/// removed to make room where the reserve is used up, too.
const NAMED_MAX: usize = 100;
/// A consumer that was not counted for this many minutes loses its series.
const IDLE_MINUTES: u32 = 60;

/// The series of all consumers.
pub(super) struct Consumers {
    pub(super) families: Families,
    known: RwLock<NamedConsumers>,
    /// The consumers that the rights file names exactly.
    by_rights: RwLock<Arc<HashSet<Box<str>>>>,
    /// How many times an answer to a consumer that operators have named was counted as [`OTHER`], because the
    /// cardinality limit had no room, since that number was last logged.
    left_out: AtomicU64,
    others: Arc<Consumer>,
    pub(super) limit: CardinalityLimit,
    /// The number of minutes with a scrape so far.
    pub(super) minute: AtomicU32,
}

/// The consumers that have their own series.
#[derive(Default)]
pub(super) struct NamedConsumers {
    pub(super) by_name: HashMap<Box<str>, Arc<Consumer>>,
    by_clients: usize,
}

impl NamedConsumers {
    fn has_place(&self, named: NamedBy) -> bool {
        named == NamedBy::ByOperator || self.by_clients < NAMED_MAX
    }

    fn count(&mut self) {
        self.by_clients = self.by_name.values().filter(|one| one.named() == NamedBy::ByClient).count();
    }
}

/// The owner of the previous command of a call: most commands of a call have the same one, which is then
/// looked up once.
#[derive(Default)]
pub(crate) struct Before(Option<Arc<SeriesOwner>>);

impl Consumers {
    pub(super) fn new(registry: &Registry) -> Result<Consumers, Error> {
        let families = Families::new(registry)?;
        let others = Arc::new(Consumer::new(&families, OTHER, NamedBy::ByOperator, None)?);
        let limit = CardinalityLimit::default();
        others.untyped().make_always(&families)?;
        others.make_lookups(&families, &limit);
        Ok(Consumers {
            families,
            known: RwLock::default(),
            by_rights: RwLock::default(),
            left_out: AtomicU64::new(0),
            others,
            limit,
            minute: AtomicU32::new(0),
        })
    }

    /// The shared series of consumers without their own.
    pub(super) fn others(&self) -> &Arc<Consumer> {
        &self.others
    }

    /// The cardinality limit that all names of consumers share.
    pub(super) fn limit(&self) -> &CardinalityLimit {
        &self.limit
    }

    /// Sets the consumers that the current rights file names exactly.
    pub(super) fn named_by_rights(&self, consumers: HashSet<Box<str>>) {
        *self.by_rights.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(consumers);
    }

    /// Whether operators or only clients have named a consumer.
    pub(super) fn named_by(&self, consumer: &str, has_policy: bool) -> NamedBy {
        let by_rights = || self.by_rights.read().unwrap_or_else(PoisonError::into_inner).contains(consumer);
        NamedBy::by_operator(has_policy || by_rights())
    }

    /// Begins to count a command, if it must be counted.
    pub(super) fn received(
        &self,
        before: &mut Before,
        key: &Key,
        event_type: &str,
        command: &Command,
        counts: bool,
    ) -> PendingCommand {
        let kind = kind(key.is_of_run(), command);
        if !counts {
            return PendingCommand { who: None, kind, minute: 0, answered: true };
        }
        let same = |who: &&Arc<SeriesOwner>| {
            who.key.consumer() == key.consumer() && &*who.event_type_name == event_type
        };
        let who = before.0.as_ref().filter(same).cloned();
        let who = who.unwrap_or_else(|| {
            let looks = matches!(kind, CommandKind::Lookup);
            Arc::new(if looks { self.lookup_owner(key) } else { self.who(key, event_type) })
        });
        before.0 = Some(Arc::clone(&who));
        PendingCommand { who: Some(who), kind, minute: self.minute.load(Ordering::Relaxed), answered: false }
    }

    pub(super) fn who(&self, key: &Key, event_type_name: &str) -> SeriesOwner {
        let known = self.known().by_name.get(key.consumer()).cloned();
        let found = known.as_ref().and_then(|known| known.of_event_type(event_type_name));
        let named = found.is_some();
        let consumer = known.unwrap_or_else(|| Arc::clone(&self.others));
        let other = || consumer.of_event_type(OTHER).unwrap_or_else(|| consumer.untyped());
        let event_type = found.unwrap_or_else(other);
        SeriesOwner { key: key.clone(), event_type_name: event_type_name.into(), consumer, event_type, named }
    }

    /// Counts an answer. A consumer gets series with its first answer that is not a refusal; one that
    /// operators have named gets them with any answer. Names in refused calls must not use up the limit.
    pub(super) fn answered(&self, mut command: PendingCommand, answered: &Answered<'_>) {
        let answer = answered.answer;
        command.answered = true;
        let Some(who) = &command.who else { return };
        if matches!(command.kind, CommandKind::Lookup) {
            who.consumer.see(command.minute);
            return self.count_lookup(who, answered);
        }
        let named = || self.named_by(who.key.consumer(), (answered.has_policy)());
        let (consumer, event_type) = if who.named {
            (Arc::clone(&who.consumer), Arc::clone(&who.event_type))
        } else {
            let named = named();
            if answer.is_ok() || named == NamedBy::ByOperator {
                self.named(who.key.consumer(), &who.event_type_name, named)
            } else {
                (Arc::clone(&who.consumer), Arc::clone(&who.event_type))
            }
        };
        if let Some(later) = command.count_answer(&consumer, &event_type, answered) {
            self.count_later(&consumer, &event_type, later);
        }
    }

    /// Counts an effect of a spool whose message something else has completed.
    pub(super) fn doubled(&self, consumer: &str, has_policy: bool) {
        let consumer = self.consumer(consumer, self.named_by(consumer, has_policy));
        consumer.see(self.minute.load(Ordering::Relaxed));
        consumer.doubled();
    }

    /// Counts a message that the ledger began to keep.
    pub(super) fn stored(&self, consumer: &str, event_type: &str, has_policy: bool) {
        let (consumer, event_type) = self.named(consumer, event_type, self.named_by(consumer, has_policy));
        let minute = self.minute.load(Ordering::Relaxed);
        consumer.see(minute);
        event_type.see(minute);
        self.count_later(&consumer, &event_type, Later::Stored);
    }

    /// Counts a value in series that are made with their first value.
    fn count_later(&self, consumer: &Arc<Consumer>, event_type: &Arc<EventType>, later: Later) {
        if event_type.count(later) {
            return;
        }
        {
            // The lock keeps other threads from removing the series meanwhile.
            let known = self.known();
            let is_there =
                known.by_name.get(&consumer.name).is_some_and(|there| Arc::ptr_eq(there, consumer));
            if is_there && consumer.has(event_type) {
                event_type.make(&self.families, later, &self.limit, consumer.named());
            }
        }
        consumer.count(event_type, later);
    }

    /// The series of a consumer and an event type, made if they fit the cardinality limit.
    fn named(&self, name: &str, event_type: &str, named: NamedBy) -> (Arc<Consumer>, Arc<EventType>) {
        let consumer = self.consumer(name, named);
        if Arc::ptr_eq(&consumer, &self.others) {
            let untyped = consumer.untyped();
            return (consumer, untyped);
        }
        // The lock keeps other threads from removing the series meanwhile.
        let known = self.known();
        if known.by_name.get(name).is_none_or(|there| !Arc::ptr_eq(there, &consumer)) {
            return (Arc::clone(&self.others), self.others.untyped());
        }
        let event_type = consumer.own_event_type(&self.families, event_type, &self.limit);
        drop(known);
        (consumer, event_type)
    }

    pub(super) fn known(&self) -> RwLockReadGuard<'_, NamedConsumers> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn consumer(&self, name: &str, named: NamedBy) -> Arc<Consumer> {
        // A consumer with the name of the others is one of them.
        if name == OTHER {
            return Arc::clone(&self.others);
        }
        if let Some(consumer) = self.known().by_name.get(name) {
            return Arc::clone(consumer);
        }
        let needs = Consumer::needs(name);
        // With many consumers beyond the limit, each of their answers takes this path: it must not make other
        // answers wait for the write lock.
        let makes_room = |known: &NamedConsumers| named == NamedBy::ByOperator && known.by_clients > 0;
        {
            let known = self.known();
            if !known.has_place(named) || !(self.limit.has(needs, named) || makes_room(&known)) {
                return self.other(named);
            }
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(consumer) = known.by_name.get(name) {
            return Arc::clone(consumer);
        }
        while !self.limit.has(needs, named) && makes_room(&known) {
            self.forget_one(&mut known);
        }
        if !known.has_place(named) || !self.limit.take(needs, named) {
            return self.other(named);
        }
        let others = Some(self.others.untyped());
        let Ok(made) = Consumer::new(&self.families, name, named, others) else {
            return Arc::clone(&self.others);
        };
        let made = Arc::new(made);
        made.see(self.minute.load(Ordering::Relaxed));
        known.by_name.insert(name.into(), Arc::clone(&made));
        known.by_clients += usize::from(named == NamedBy::ByClient);
        made
    }

    /// The shared series of the consumers that did not fit the cardinality limit.
    fn other(&self, named: NamedBy) -> Arc<Consumer> {
        if named == NamedBy::ByOperator {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        Arc::clone(&self.others)
    }

    /// Removes the series of one consumer that only clients have named: the one that was counted least
    /// recently.
    fn forget_one(&self, known: &mut NamedConsumers) {
        let by_clients = known.by_name.iter().filter(|(_, one)| one.named() == NamedBy::ByClient);
        let oldest = by_clients.min_by_key(|(_, consumer)| consumer.seen_in()).map(|(name, _)| name.clone());
        if let Some(gone) = oldest.and_then(|name| known.by_name.remove(&name)) {
            self.limit.give_back(gone.forget(&self.families));
        }
        known.count();
    }

    /// Applies a change of policies: which consumers operators have named now, and which they no longer name.
    pub(super) fn policies(&self, has_policy: &dyn Fn(&str) -> bool) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for (name, consumer) in &known.by_name {
            consumer.set_named(self.named_by(name, has_policy(name)));
        }
        known.count();
    }

    /// Called at a scrape, at most once a minute: removes the series of consumers that were not counted for
    /// [`IDLE_MINUTES`]. Returns how many times since the previous call an answer to a consumer that operators
    /// have named was counted as [`OTHER`], because the cardinality limit had no room.
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
                consumer.forget_event_types(&self.families, since, &self.limit);
            } else {
                self.limit.give_back(consumer.forget(&self.families));
            }
            stays
        });
        known.count();
    }
}

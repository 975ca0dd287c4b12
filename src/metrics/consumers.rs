//! What is counted by consumer. Names come from clients: so that nobody can fill the memory of this server, or of what
//! scrapes it, only so many consumers have series of their own, and all others share one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use prometheus::{Error, Registry};

use super::consumer::{Consumer, EventType, Families, OTHER, OUTCOMES, REPLAY_VERDICTS, VERDICTS};
use super::room::Room;
use crate::domain::{Answer, Command, FailureKind, Key, Reason, Reply, Settle, Verdict};

/// So many consumers without a policy of their own have series of their own: the first ones that are answered, and not
/// refused. Those with a policy are always named: where there is no room, one without a policy makes room for it.
const NAMED_MAX: usize = 100;
/// Whoever was not seen for so many minutes gives its place to others.
const IDLE_MINUTES: u32 = 60;
/// The last places.
const UNANSWERED: (usize, usize) = (VERDICTS.len() - 1, OUTCOMES.len() - 1);
/// Places of operations.
const COMPLETE: usize = 0;
const FAIL: usize = 1;
const RELEASE: usize = 2;
const RENEW: usize = 3;

/// See the module.
pub(super) struct Consumers {
    families: Families,
    known: RwLock<Known>,
    others: Arc<Consumer>,
    room: Room,
    /// How many minutes have passed in which somebody looked.
    minute: AtomicU32,
}

/// The consumers that have series of their own.
#[derive(Default)]
struct Known {
    by_name: HashMap<Box<str>, Arc<Consumer>>,
    without_policy: usize,
}

impl Known {
    fn has_room(&self, by_policy: bool) -> bool {
        by_policy || self.without_policy < NAMED_MAX
    }

    fn count(&mut self) {
        self.without_policy = self.by_name.values().filter(|consumer| !consumer.has_policy()).count();
    }
}

/// What a command asks for, without what it carries.
#[derive(Clone, Copy)]
enum Kind {
    Claim,
    /// A claim in a replay run.
    Replay,
    Settle {
        operation: usize,
        token: i64,
        /// The place of a failure's kind.
        failed: Option<usize>,
    },
}

/// Whose command it is: its consumer and its event type, as far as they have series of their own.
struct Who {
    key: Key,
    /// As the caller has it.
    event_type_name: Box<str>,
    consumer: Arc<Consumer>,
    event_type: Arc<EventType>,
    /// Both have series of their own.
    named: bool,
}

/// Of the commands of one call, whose the one before was: most are alike, and looked up once.
#[derive(Default)]
pub(crate) struct Before(Option<Arc<Who>>);

/// A command that is not answered yet. One that is dropped as such counts as unanswered.
pub(crate) struct Asked {
    /// None: it is not counted.
    who: Option<Arc<Who>>,
    kind: Kind,
    minute: u32,
    answered: bool,
}

impl Asked {
    /// Whether it is a settlement that is counted.
    pub(crate) fn settles(&self) -> bool {
        self.who.is_some() && matches!(self.kind, Kind::Settle { .. })
    }

    /// The word by which an answer to it is counted, behind the name of the label.
    pub(crate) fn word(&self, answer: &Answer) -> (&'static str, &'static str) {
        match self.kind {
            Kind::Claim => ("verdict", VERDICTS[verdict(answer)]),
            Kind::Replay => ("verdict", REPLAY_VERDICTS[replay_verdict(answer)]),
            Kind::Settle { .. } => ("outcome", OUTCOMES[outcome(answer)]),
        }
    }
}

/// What was answered.
pub(crate) struct Answered<'a> {
    pub(crate) answer: &'a Answer,
    /// Of a settlement, what the store's clock made a token of by now: a token tells when it was granted.
    pub(crate) token_clock: Option<i64>,
    /// Whether the consumer has a policy of its own.
    pub(crate) has_policy: &'a dyn Fn() -> bool,
}

impl Consumers {
    pub(super) fn new(registry: &Registry) -> Result<Consumers, Error> {
        let families = Families::new(registry)?;
        let others = Arc::new(Consumer::new(&families, OTHER, false)?);
        Ok(Consumers {
            families,
            known: RwLock::default(),
            others,
            room: Room::default(),
            minute: AtomicU32::new(0),
        })
    }

    /// The room that all names of consumers share.
    pub(super) fn room(&self) -> &Room {
        &self.room
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
        let settle = |operation, token, failed| Kind::Settle { operation, token, failed };
        let kind = match command {
            Command::Claim(_) if key.is_of_run() => Kind::Replay,
            Command::Claim(_) => Kind::Claim,
            Command::Settle(token, Settle::Complete { .. }) => settle(COMPLETE, *token, None),
            Command::Settle(token, Settle::Fail { kind, .. }) => settle(FAIL, *token, Some(place(*kind))),
            Command::Settle(token, Settle::Release { .. }) => settle(RELEASE, *token, None),
            Command::Settle(token, Settle::Renew { .. }) => settle(RENEW, *token, None),
        };
        if !counts {
            return Asked { who: None, kind, minute: 0, answered: true };
        }
        let same =
            |who: &&Arc<Who>| who.key.consumer() == key.consumer() && &*who.event_type_name == event_type;
        let who = before.0.as_ref().filter(same).cloned();
        let who = who.unwrap_or_else(|| Arc::new(self.who(key, event_type)));
        before.0 = Some(Arc::clone(&who));
        Asked { who: Some(who), kind, minute: self.minute.load(Ordering::Relaxed), answered: false }
    }

    fn who(&self, key: &Key, event_type_name: &str) -> Who {
        let known = self.known().by_name.get(key.consumer()).cloned();
        let found = known.as_ref().and_then(|known| known.of_event_type(event_type_name));
        let named = found.is_some();
        let consumer = known.unwrap_or_else(|| Arc::clone(&self.others));
        let other = || consumer.of_event_type(OTHER).unwrap_or_else(|| consumer.untold());
        let event_type = found.unwrap_or_else(other);
        Who { key: key.clone(), event_type_name: event_type_name.into(), consumer, event_type, named }
    }

    /// A consumer gets a name with its first answer that is no refusal, or with a policy of its own: what is refused
    /// must not take the places.
    pub(super) fn answered(&self, mut asked: Asked, answered: &Answered<'_>) {
        let answer = answered.answer;
        asked.answered = true;
        let Some(who) = &asked.who else { return };
        if who.named || !(answer.is_ok() || (answered.has_policy)()) {
            asked.told(&who.consumer, &who.event_type, answered);
        } else {
            let (consumer, event_type) = self.named(who, answered.has_policy);
            asked.told(&consumer, &event_type, answered);
        }
    }

    /// The series of a consumer and an event type, made where there is room.
    fn named(&self, who: &Who, has_policy: &dyn Fn() -> bool) -> (Arc<Consumer>, Arc<EventType>) {
        let consumer = self.consumer(who.key.consumer(), has_policy);
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

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn consumer(&self, name: &str, has_policy: &dyn Fn() -> bool) -> Arc<Consumer> {
        // Whoever is called as the others are is one of them.
        if name == OTHER {
            return Arc::clone(&self.others);
        }
        if let Some(consumer) = self.known().by_name.get(name) {
            return Arc::clone(consumer);
        }
        let (by_policy, needs) = (has_policy(), Consumer::needs(name));
        // Where many consumers have no name, each of their answers comes here: nobody else waits then.
        let makes_room = |known: &Known| by_policy && known.without_policy > 0;
        {
            let known = self.known();
            if !known.has_room(by_policy) || !(self.room.has(needs) || makes_room(&known)) {
                return Arc::clone(&self.others);
            }
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(consumer) = known.by_name.get(name) {
            return Arc::clone(consumer);
        }
        while !self.room.has(needs) && makes_room(&known) {
            self.forget_one(&mut known);
        }
        if !known.has_room(by_policy) || !self.room.take(needs) {
            return Arc::clone(&self.others);
        }
        let Ok(made) = Consumer::new(&self.families, name, by_policy) else {
            return Arc::clone(&self.others);
        };
        let made = Arc::new(made);
        made.see(self.minute.load(Ordering::Relaxed));
        known.by_name.insert(name.into(), Arc::clone(&made));
        known.without_policy += usize::from(!by_policy);
        made
    }

    /// Takes the series of a consumer without a policy away: of the one that was seen least lately.
    fn forget_one(&self, known: &mut Known) {
        let without = known.by_name.iter().filter(|(_, consumer)| !consumer.has_policy());
        let oldest = without.min_by_key(|(_, consumer)| consumer.seen_in()).map(|(name, _)| name.clone());
        if let Some(gone) = oldest.and_then(|name| known.by_name.remove(&name)) {
            self.room.give_back(gone.forget(&self.families));
        }
        known.count();
    }

    /// Who has got a policy of its own by now, or has lost it.
    pub(super) fn policies(&self, has_policy: &dyn Fn(&str) -> bool) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for (name, consumer) in &known.by_name {
            consumer.set_policy(has_policy(name));
        }
        known.count();
    }

    /// A minute has passed: takes away what was not seen for long.
    pub(super) fn minute_passed(&self) {
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

impl Asked {
    /// Counts an answer, and what a settlement tells besides, the first time.
    fn told(&self, consumer: &Consumer, event_type: &EventType, answered: &Answered<'_>) {
        let answer = answered.answer;
        if matches!(self.kind, Kind::Replay) {
            consumer.see(self.minute);
            return consumer.replayed(replay_verdict(answer));
        }
        self.count(consumer, event_type, verdict(answer), outcome(answer));
        if let Ok(Reply::Verdict(Verdict::Acquired { reclaimed: true, .. })) = answer {
            consumer.reclaimed();
        }
        let (Ok(reply), Kind::Settle { operation, token, failed }) = (answer, self.kind) else { return };
        match reply {
            Reply::Completed { replayed: false, attempt, .. } => consumer.took(*attempt),
            Reply::Failed { replayed: false, .. } => {
                event_type.see(self.minute);
                if let Some(kind) = failed {
                    event_type.failed(kind);
                }
            }
            Reply::Released { replayed: false, in_a_row, .. } => consumer.released(*in_a_row),
            Reply::Completed { .. }
            | Reply::Failed { .. }
            | Reply::Released { .. }
            | Reply::Renewed { .. }
            | Reply::Verdict(_) => return,
        }
        if let Some(clock) = answered.token_clock {
            consumer.held(operation, clock - token);
        }
    }

    fn count(&self, consumer: &Consumer, event_type: &EventType, verdict: usize, outcome: usize) {
        consumer.see(self.minute);
        match self.kind {
            Kind::Claim => {
                event_type.see(self.minute);
                event_type.claimed(verdict);
            }
            Kind::Replay => consumer.replayed(REPLAY_VERDICTS.len() - 1),
            Kind::Settle { operation, .. } => consumer.settled(operation, outcome),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(who) = self.who.as_ref().filter(|_| !self.answered) {
            self.count(&who.consumer, &who.event_type, UNANSWERED.0, UNANSWERED.1);
        }
    }
}

/// Its place in `KINDS`.
fn place(kind: FailureKind) -> usize {
    match kind {
        FailureKind::Retryable => 0,
        FailureKind::Terminal => 1,
        FailureKind::Park => 2,
    }
}

/// Its place in `VERDICTS`.
fn verdict(answer: &Answer) -> usize {
    match answer {
        Ok(Reply::Verdict(verdict)) => match verdict {
            Verdict::Acquired { .. } => 0,
            Verdict::Completed { .. } => 1,
            Verdict::InProgress { .. } => 2,
            Verdict::Backoff { .. } => 3,
            Verdict::Failed { .. } => 4,
            Verdict::Parked { .. } => 5,
            Verdict::FingerprintMismatch { .. } => 6,
            Verdict::OutsideWindow { .. } => 7,
            // Of live claims there is none.
            Verdict::Suppressed { .. } => 8,
        },
        Err(rejection) if rejection.reason.is_failure() => 9,
        Ok(
            Reply::Renewed { .. } | Reply::Completed { .. } | Reply::Failed { .. } | Reply::Released { .. },
        )
        | Err(_) => 8,
    }
}

/// Its place in `REPLAY_VERDICTS`.
fn replay_verdict(answer: &Answer) -> usize {
    match answer {
        Ok(Reply::Verdict(Verdict::Acquired { .. })) => 0,
        Ok(Reply::Verdict(Verdict::Completed { .. })) => 1,
        Ok(Reply::Verdict(Verdict::Suppressed { .. })) => 2,
        Err(rejection) if rejection.reason.is_of_a_run() => 3,
        Ok(_) | Err(_) => 4,
    }
}

/// Its place in `OUTCOMES`.
fn outcome(answer: &Answer) -> usize {
    match answer {
        Ok(
            Reply::Completed { replayed: true, .. }
            | Reply::Failed { replayed: true, .. }
            | Reply::Released { replayed: true, .. },
        ) => 1,
        Ok(Reply::Completed { late: true, .. } | Reply::Renewed { revived: true, .. }) => 2,
        Ok(
            Reply::Completed { .. } | Reply::Failed { .. } | Reply::Released { .. } | Reply::Renewed { .. },
        ) => 0,
        Err(rejection) if rejection.reason == Reason::LeaseLost => 4,
        Err(rejection) if rejection.reason.is_failure() => 5,
        Ok(Reply::Verdict(_)) | Err(_) => 3,
    }
}

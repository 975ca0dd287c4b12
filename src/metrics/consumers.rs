//! What is counted by consumer. Names come from clients: so that nobody can fill the memory of this server, or of what
//! scrapes it, only so many consumers have series of their own, and all others share one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use prometheus::{Error, Registry};

use super::consumer::{Consumer, EventType, Families, OTHER, OUTCOMES, VERDICTS};
use super::room::Room;
use crate::domain::{Answer, Command, FailureKind, Reply, Settle, Verdict};

/// So many consumers without a policy of their own have series of their own: the first ones that are answered, and not
/// refused. Those with a policy are always named while there is room.
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
}

/// What a command asks for, without what it carries.
#[derive(Clone, Copy)]
enum Kind {
    Claim,
    Settle {
        operation: usize,
        token: i64,
        /// The place of a failure's kind.
        failed: Option<usize>,
    },
}

/// A command that is not answered yet. One that is dropped as such counts as unanswered.
pub(crate) struct Asked {
    consumer: Arc<Consumer>,
    event_type: Arc<EventType>,
    /// Both have series of their own.
    named: bool,
    kind: Kind,
    minute: u32,
    answered: bool,
}

impl Asked {
    /// Whether it is a settlement.
    pub(crate) fn settles(&self) -> bool {
        matches!(self.kind, Kind::Settle { .. })
    }
}

/// What was answered, and to whom.
pub(crate) struct Answered<'a> {
    pub(crate) consumer: &'a str,
    /// Empty: untold.
    pub(crate) event_type: &'a str,
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

    pub(super) fn asked(&self, consumer: &str, event_type: &str, command: &Command) -> Asked {
        let settle = |operation, token, failed| Kind::Settle { operation, token, failed };
        let kind = match command {
            Command::Claim(_) => Kind::Claim,
            Command::Settle(token, Settle::Complete { .. }) => settle(COMPLETE, *token, None),
            Command::Settle(token, Settle::Fail { kind, .. }) => settle(FAIL, *token, Some(place(*kind))),
            Command::Settle(token, Settle::Release { .. }) => settle(RELEASE, *token, None),
            Command::Settle(token, Settle::Renew { .. }) => settle(RENEW, *token, None),
        };
        let known = self.known().by_name.get(consumer).cloned();
        let found = known.as_ref().and_then(|known| known.of_event_type(event_type));
        let named = found.is_some();
        let consumer = known.unwrap_or_else(|| Arc::clone(&self.others));
        let event_type = found.unwrap_or_else(|| consumer.untold());
        let minute = self.minute.load(Ordering::Relaxed);
        Asked { consumer, event_type, named, kind, minute, answered: false }
    }

    /// A consumer gets a name with its first answer that is no refusal: what is refused must not take the places.
    pub(super) fn answered(&self, mut asked: Asked, answered: &Answered<'_>) {
        let answer = answered.answer;
        if !asked.named && answer.is_ok() {
            (asked.consumer, asked.event_type) = self.named(answered);
        }
        asked.answered = true;
        asked.count(verdict(answer), outcome(answer));
        if let (Ok(reply), Kind::Settle { operation, token, failed }) = (answer, asked.kind) {
            asked.settled(reply, operation, failed, answered.token_clock.map(|clock| clock - token));
        }
    }

    /// The series of a consumer and an event type, made where there is room.
    fn named(&self, answered: &Answered<'_>) -> (Arc<Consumer>, Arc<EventType>) {
        let consumer = self.consumer(answered.consumer, answered.has_policy);
        if Arc::ptr_eq(&consumer, &self.others) {
            let untold = consumer.untold();
            return (consumer, untold);
        }
        let event_type = consumer.own_event_type(&self.families, answered.event_type, &self.room);
        (consumer, event_type)
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn consumer(&self, name: &str, has_policy: &dyn Fn() -> bool) -> Arc<Consumer> {
        if let Some(consumer) = self.known().by_name.get(name) {
            return Arc::clone(consumer);
        }
        let (by_policy, needs) = (has_policy(), Consumer::needs(name));
        // Where many consumers have no name, each of their answers comes here: nobody else waits then.
        if !self.known().has_room(by_policy) || !self.room.has(needs) {
            return Arc::clone(&self.others);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(consumer) = known.by_name.get(name) {
            return Arc::clone(consumer);
        }
        if !known.has_room(by_policy) || !self.room.take(needs) {
            return Arc::clone(&self.others);
        }
        let Ok(made) = Consumer::new(&self.families, name, by_policy) else {
            return Arc::clone(&self.others);
        };
        let made = Arc::new(made);
        known.by_name.insert(name.into(), Arc::clone(&made));
        known.without_policy += usize::from(!by_policy);
        made
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
        known.without_policy = known.by_name.values().filter(|consumer| !consumer.by_policy).count();
    }
}

impl Asked {
    fn count(&self, verdict: usize, outcome: usize) {
        self.consumer.see(self.minute);
        match self.kind {
            Kind::Claim => {
                self.event_type.see(self.minute);
                self.event_type.claimed(verdict);
            }
            Kind::Settle { operation, .. } => self.consumer.settled(operation, outcome),
        }
    }

    /// What a settlement tells besides, the first time.
    fn settled(&self, reply: &Reply, operation: usize, failed: Option<usize>, held: Option<i64>) {
        match reply {
            Reply::Completed { replayed: false, attempt, .. } => self.consumer.took(*attempt),
            Reply::Failed { replayed: false, .. } => {
                self.event_type.see(self.minute);
                if let Some(kind) = failed {
                    self.event_type.failed(kind);
                }
            }
            Reply::Released { replayed: false, in_a_row, .. } => self.consumer.released(*in_a_row),
            Reply::Completed { .. }
            | Reply::Failed { .. }
            | Reply::Released { .. }
            | Reply::Renewed { .. }
            | Reply::Verdict(_) => return,
        }
        if let Some(micros) = held {
            self.consumer.held(operation, micros);
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.answered {
            self.count(UNANSWERED.0, UNANSWERED.1);
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
        },
        Err(rejection) if rejection.reason.is_failure() => 9,
        Ok(
            Reply::Renewed { .. } | Reply::Completed { .. } | Reply::Failed { .. } | Reply::Released { .. },
        )
        | Err(_) => 8,
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
        Err(rejection) if rejection.reason.is_failure() => 4,
        Ok(Reply::Verdict(_)) | Err(_) => 3,
    }
}

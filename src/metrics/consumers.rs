//! What is counted by consumer. Names come from clients: so that nobody can fill the memory of this server, or of what
//! scrapes it, only so many consumers have series of their own, and all others share one.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use prometheus::{Error, IntCounter, IntCounterVec, Registry};

use super::catalogue::{CLAIMS, SETTLEMENTS};
use crate::domain::{Answer, Command, Reply, Settle, Verdict};

/// How many consumers have series of their own: the first ones that are answered, and not refused.
const NAMED_MAX: usize = 100;
/// What the others are called together.
const OTHER: &str = "other";

/// What a claim was answered.
const VERDICTS: [&str; 10] = [
    "acquired",
    "completed",
    "in_progress",
    "backoff",
    "failed",
    "parked",
    "fingerprint_mismatch",
    "outside_window",
    "rejected",
    "unanswered",
];
const OPERATIONS: [&str; 4] = ["complete", "fail", "release", "renew"];
const OUTCOMES: [&str; 5] = ["ok", "replayed", "late", "rejected", "unanswered"];
/// The last places.
const UNANSWERED: (usize, usize) = (VERDICTS.len() - 1, OUTCOMES.len() - 1);

/// See the module.
pub(super) struct Consumers {
    claims: IntCounterVec,
    settlements: IntCounterVec,
    named: RwLock<HashMap<Box<str>, Arc<Counts>>>,
    others: Arc<Counts>,
}

/// The counters of one consumer, looked up once.
struct Counts {
    claims: Vec<IntCounter>,
    settlements: Vec<Vec<IntCounter>>,
}

/// What a command asks for, without what it carries.
#[derive(Clone, Copy)]
enum Kind {
    Claim,
    /// Its place in `OPERATIONS`.
    Settle(usize),
}

/// A command that is not answered yet. One that is dropped as such counts as unanswered.
pub(crate) struct Asked {
    /// Of its consumer, where that has series of its own, else those of the others.
    counts: Arc<Counts>,
    named: bool,
    kind: Kind,
    answered: bool,
}

impl Consumers {
    pub(super) fn new(registry: &Registry) -> Result<Consumers, Error> {
        let (claims, settlements) = (CLAIMS.counters(registry)?, SETTLEMENTS.counters(registry)?);
        let others = Arc::new(Counts::new(&claims, &settlements, OTHER)?);
        Ok(Consumers { claims, settlements, named: RwLock::default(), others })
    }

    pub(super) fn asked(&self, consumer: &str, command: &Command) -> Asked {
        let kind = match command {
            Command::Claim(_) => Kind::Claim,
            Command::Settle(_, Settle::Complete { .. }) => Kind::Settle(0),
            Command::Settle(_, Settle::Fail { .. }) => Kind::Settle(1),
            Command::Settle(_, Settle::Release { .. }) => Kind::Settle(2),
            Command::Settle(_, Settle::Renew { .. }) => Kind::Settle(3),
        };
        let known = self.named.read().unwrap_or_else(PoisonError::into_inner).get(consumer).cloned();
        let named = known.is_some();
        Asked { counts: known.unwrap_or_else(|| Arc::clone(&self.others)), named, kind, answered: false }
    }

    /// A consumer gets a name with its first answer that is no refusal: what is refused must not take the places.
    pub(super) fn answered(&self, mut asked: Asked, consumer: &str, answer: &Answer) {
        if !asked.named && answer.is_ok() {
            asked.counts = self.named(consumer);
        }
        asked.answered = true;
        asked.counts.count(asked.kind, verdict(answer), outcome(answer));
    }

    fn named(&self, consumer: &str) -> Arc<Counts> {
        let is_full = |named: &HashMap<_, _>| named.len() >= NAMED_MAX;
        if is_full(&self.named.read().unwrap_or_else(PoisonError::into_inner)) {
            return Arc::clone(&self.others);
        }
        // Made before the lock is taken: all calls wait for that.
        let Ok(counts) = Counts::new(&self.claims, &self.settlements, consumer) else {
            return Arc::clone(&self.others);
        };
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        if is_full(&named) && !named.contains_key(consumer) {
            Counts::forget(&self.claims, &self.settlements, consumer);
            return Arc::clone(&self.others);
        }
        Arc::clone(named.entry(consumer.into()).or_insert_with(|| Arc::new(counts)))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.answered {
            self.counts.count(self.kind, UNANSWERED.0, UNANSWERED.1);
        }
    }
}

impl Counts {
    /// All series of a consumer are there from its first answer on: a rate then sees the next of each.
    fn new(claims: &IntCounterVec, settlements: &IntCounterVec, consumer: &str) -> Result<Counts, Error> {
        let claim = |verdict: &&str| claims.get_metric_with_label_values(&[consumer, verdict]);
        let settle = |operation: &&str| {
            let count = |outcome| settlements.get_metric_with_label_values(&[consumer, operation, outcome]);
            OUTCOMES.into_iter().map(count).collect()
        };
        Ok(Counts {
            claims: VERDICTS.iter().map(claim).collect::<Result<_, _>>()?,
            settlements: OPERATIONS.iter().map(settle).collect::<Result<_, _>>()?,
        })
    }

    /// Takes the series away again.
    fn forget(claims: &IntCounterVec, settlements: &IntCounterVec, consumer: &str) {
        for verdict in VERDICTS {
            drop(claims.remove_label_values(&[consumer, verdict]));
        }
        for (operation, outcome) in OPERATIONS.iter().flat_map(|one| OUTCOMES.map(|outcome| (one, outcome))) {
            drop(settlements.remove_label_values(&[consumer, operation, outcome]));
        }
    }

    fn count(&self, kind: Kind, verdict: usize, outcome: usize) {
        let count = match kind {
            Kind::Claim => self.claims.get(verdict),
            Kind::Settle(operation) => self.settlements.get(operation).and_then(|counts| counts.get(outcome)),
        };
        if let Some(count) = count {
            count.inc();
        }
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
        Ok(Reply::Verdict(_)) | Err(_) => 3,
    }
}

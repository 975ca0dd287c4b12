//! What the package logs: at most a line a second of each kind, without payloads, keys and tokens.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::outcome::Outcome;

const EVERY: Duration = Duration::from_secs(1);
/// Kinds are reasons and types of errors. Beyond this number they share one.
const KINDS: usize = 64;

/// The log of one consumer: what its operators should know of deliveries.
pub(crate) struct Report {
    consumer: String,
    /// By kind: when it was last logged, and how many were suppressed since.
    last: Mutex<HashMap<String, (Instant, u64)>>,
}

impl Report {
    pub(crate) fn new(consumer: &str) -> Self {
        Self { consumer: consumer.to_owned(), last: Mutex::default() }
    }

    /// Logs a call that was refused or not answered.
    pub(crate) fn outcome(&self, outcome: &Outcome) {
        let reason = outcome.reason.as_deref().unwrap_or_default();
        if !outcome.detail.is_empty() {
            self.warn(reason, &format!("{reason}: {}", outcome.detail), outcome.advice.name());
        }
    }

    /// Logs an error of a handler that does not steer, by the name of its type, or by its text if it is the package's.
    pub(crate) fn unexpected(&self, name: &str, outcome: &Outcome) {
        self.warn(name, &format!("a handler ended with {name}"), outcome.advice.name());
    }

    /// Logs why the guard of a handler could not decide, or what its effect ended with.
    pub(crate) fn guard(&self, reason: &str, outcome: &Outcome) {
        self.warn(reason, &format!("the guard: {reason}"), outcome.advice.name());
    }

    fn warn(&self, kind: &str, what: &str, advice: &str) {
        if let Some(suppressed) = self.due(kind) {
            let before =
                if suppressed == 0 { String::new() } else { format!("; {suppressed} more were suppressed") };
            tracing::warn!(target: "idempotency_ledger", "{}: {what}: {advice}{before}", self.consumer);
        }
    }

    /// How many of this kind were suppressed before this one. `None`: this one is, too.
    pub(crate) fn due(&self, kind: &str) -> Option<u64> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = if last.contains_key(kind) || last.len() < KINDS { kind } else { "other kinds" };
        let now = Instant::now();
        let Some((logged, suppressed)) = last.get_mut(kind) else {
            last.insert(kind.to_owned(), (now, 0));
            return Some(0);
        };
        if now - *logged < EVERY {
            *suppressed += 1;
            return None;
        }
        *logged = now;
        Some(std::mem::take(suppressed))
    }
}

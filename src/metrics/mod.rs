//! What a running server counts of itself, for Prometheus. The names and what they tell stand in one table,
//! `catalogue.rs`; the other files count.
//!
//! No key and no id is ever a label, and every label has a bounded number of values: what clients choose (the names of
//! consumers and methods) is counted by name only while there is room.

mod answers;
mod asked;
mod calls;
mod catalogue;
mod consumer;
mod consumers;
mod credentials;
mod entries;
mod event_type;
mod families;
mod family;
mod labels;
mod limits;
mod lookups;
mod refusals;
mod room;
mod seen;
mod upkeep;
mod waits;
mod work;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use prometheus::process_collector::ProcessCollector;
use prometheus::{Error, Registry, TextEncoder};

pub(crate) use self::asked::{Answered, Asked};
pub(crate) use self::calls::{Call, Calls, Connected, Method};
pub use self::catalogue::table;
pub(crate) use self::consumers::Before;
use self::consumers::Consumers;
pub(crate) use self::credentials::Credentials;
pub(crate) use self::entries::Counted;
use self::entries::Entries;
use self::limits::Limits;
pub(crate) use self::limits::{Closed, Ended, Full, Limited};
use self::refusals::Refusals;
pub(crate) use self::upkeep::{Now, Upkeep};
pub(crate) use self::waits::{WaitEnd, Waits};
pub(crate) use self::work::{LANES, Statement, Work};
use crate::domain::{Command, Key, Malformed, NameCounts, Rejection};

const MINUTE: Duration = Duration::from_mins(1);

/// The metrics of one server: cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    registry: Registry,
    consumers: Consumers,
    refusals: Refusals,
    limits: Limits,
    work: Work,
    upkeep: Upkeep,
    credentials: Credentials,
    waits: Waits,
    entries: Entries,
    /// Whether calls and statements are counted.
    counts: bool,
    /// When what was not seen for long was taken away last.
    tidied: Mutex<Instant>,
}

impl Metrics {
    /// With every count at zero.
    ///
    /// # Errors
    /// Two metrics have one name, or a name is none: a bug, which any test of this sees.
    pub fn new() -> Result<Metrics, Error> {
        Metrics::counting(true)
    }

    /// Where nobody can look at them: what each call and each statement would count is not counted.
    ///
    /// # Errors
    /// As those of [`Metrics::new`].
    pub fn unseen() -> Result<Metrics, Error> {
        Metrics::counting(false)
    }

    fn counting(counts: bool) -> Result<Metrics, Error> {
        let registry = Registry::new();
        #[cfg(target_os = "linux")]
        registry.register(Box::new(ProcessCollector::for_self()))?;
        catalogue::BUILD
            .gauges(&registry)?
            .get_metric_with_label_values(&[env!("CARGO_PKG_VERSION")])?
            .set(1);
        let inner = Inner {
            consumers: Consumers::new(&registry)?,
            refusals: Refusals::new(&registry)?,
            limits: Limits::new(&registry)?,
            work: Work::new(&registry, counts)?,
            waits: Waits::new(&registry)?,
            upkeep: Upkeep::new(&registry)?,
            credentials: Credentials::new(&registry)?,
            entries: Entries::new(&registry)?,
            tidied: Mutex::new(Instant::now()),
            counts,
            registry,
        };
        Ok(Metrics { inner: Arc::new(inner) })
    }

    /// Whether anybody can look at them.
    pub(crate) fn are_seen(&self) -> bool {
        self.inner.counts
    }

    /// What Prometheus scrapes: its text format, version 0.0.4. Waits for no store.
    ///
    /// # Errors
    /// A metric cannot be written as text.
    pub fn text(&self) -> Result<String, Error> {
        self.tidy(Instant::now());
        TextEncoder::new().encode_to_string(&self.inner.registry.gather())
    }

    /// Takes away what was not seen for long: once a minute, while somebody looks.
    fn tidy(&self, now: Instant) {
        let mut last = self.inner.tidied.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(*last) >= MINUTE {
            *last = now;
            let left_out = self.inner.consumers.minute_passed();
            if left_out > 0 {
                tracing::warn!(
                    answers = left_out,
                    "the metrics have no room for all consumers that have a policy or are named by the file of rights: \
                     their answers are counted as other"
                );
            }
        }
    }

    /// The calls of a server with these methods.
    ///
    /// # Errors
    /// They were made before.
    pub(crate) fn calls(&self, methods: impl IntoIterator<Item = Method>) -> Result<Calls, Error> {
        Calls::new(&self.inner.registry, methods, self.inner.counts)
    }

    /// A command comes in.
    pub(crate) fn asked(&self, before: &mut Before, key: &Key, event_type: &str, command: &Command) -> Asked {
        self.inner.consumers.asked(before, key, event_type, command, self.inner.counts)
    }

    /// It was answered. One that is dropped without an answer counts as that.
    pub(crate) fn answered(&self, asked: Asked, answered: &Answered<'_>) {
        self.inner.consumers.answered(asked, answered);
        if let Err(rejection) = answered.answer {
            self.refused(rejection);
        }
    }

    /// A request was refused for its fields. The consumer is empty where the request is counted as another one's.
    pub(crate) fn malformed(&self, consumer: &str, malformed: &Malformed, has_policy: &dyn Fn() -> bool) {
        self.refused(&malformed.rejection);
        if self.inner.counts {
            self.inner.consumers.malformed(consumer, malformed, has_policy);
        }
    }

    /// A field was beyond its bound, and left out, cut or clamped.
    pub(crate) fn corrected(&self, field: &str) {
        self.inner.refusals.corrected(field);
    }

    /// The file of rights in force names these consumers exactly: clients' names do not take their places.
    pub(crate) fn named_by_rights(&self, consumers: HashSet<Box<str>>) {
        self.inner.consumers.named_by_rights(consumers);
    }

    /// A claim or a settlement was refused.
    pub(crate) fn refused(&self, rejection: &Rejection) {
        self.inner.refusals.refused(rejection);
    }

    /// This many claims of one batch were refused.
    pub(crate) fn all_refused(&self, rejection: &Rejection, claims: usize) {
        self.inner.refusals.all_refused(rejection, claims);
    }

    /// The server ended a connection by itself.
    pub(crate) fn closed(&self, why: Closed) {
        self.inner.limits.closed(why);
    }

    /// A call was too much for its principal.
    pub(crate) fn limited(&self, limit: Limited) {
        self.inner.limits.limited(limit);
    }

    /// The server ended a call by itself.
    pub(crate) fn ended(&self, why: Ended) {
        self.inner.limits.ended(why);
    }

    /// All clients together held too much.
    pub(crate) fn full(&self, of: Full) {
        self.inner.limits.full(of);
    }

    /// What the workers do.
    pub(crate) fn work(&self) -> &Work {
        &self.inner.work
    }

    /// The calls that wait.
    pub(crate) fn waits(&self) -> &Waits {
        &self.inner.waits
    }

    /// What goes on beside.
    pub(crate) fn upkeep(&self) -> &Upkeep {
        &self.inner.upkeep
    }

    /// The files of credentials.
    pub(crate) fn credentials(&self) -> &Credentials {
        &self.inner.credentials
    }

    /// It took so long to count the entries, or to fail.
    pub(crate) fn entries_took(&self, time: Duration) {
        self.inner.entries.took(time);
    }

    /// The number of names that the store keeps.
    pub(crate) fn names_counted(&self, stored: &NameCounts) {
        self.inner.entries.names(stored);
    }

    /// The entries were counted, by consumer, at this second of the store's clock.
    pub(crate) fn entries_counted(
        &self,
        counted: BTreeMap<String, Counted>,
        at: i64,
        has_policy: &dyn Fn(&str) -> bool,
    ) {
        self.inner.consumers.policies(has_policy);
        let named_by = |name: &str| self.inner.consumers.named_by(name, has_policy(name));
        self.inner.entries.show(counted, at, self.inner.consumers.room(), &named_by);
    }
}

#[cfg(test)]
mod tests;

//! The metrics of a running server, for Prometheus. Their names and meanings are one table, `catalogue.rs`;
//! the other files count.
//!
//! No key and no id is ever a label, and every label has a bounded number of values (the cardinality limit):
//! what clients choose (the names of consumers and methods) is counted by name only within it.

mod answers;
mod calls;
mod cardinality;
mod catalogue;
mod consumer;
mod consumers;
mod credentials;
mod entries;
mod event_type;
mod families;
mod family;
mod inbox;
mod labels;
mod limits;
mod lookups;
mod pending;
mod refusals;
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

pub(crate) use self::calls::{CallMetrics, Connected, CountedCall, Method};
pub use self::catalogue::table;
pub(crate) use self::consumers::Before;
use self::consumers::Consumers;
pub(crate) use self::credentials::Credentials;
use self::entries::Entries;
pub(crate) use self::entries::{Counted, CountedInbox};
pub(crate) use self::inbox::{HandoutEnd, InboxMetrics};
use self::limits::Limits;
pub(crate) use self::limits::{Closed, Ended, Full, Limited};
pub(crate) use self::pending::{Answered, PendingCommand};
use self::refusals::Refusals;
pub(crate) use self::upkeep::{Now, Upkeep};
pub(crate) use self::waits::{WaitEnd, WaitMetrics};
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
    waits: WaitMetrics,
    inbox: InboxMetrics,
    entries: Entries,
    /// Whether calls and statements are counted.
    counts: bool,
    /// When idle series were last removed.
    tidied: Mutex<Instant>,
}

impl Metrics {
    /// Makes the metrics, with every count at zero.
    ///
    /// # Errors
    /// Two metrics have one name, or a name is invalid: a bug, which any test of this finds.
    pub fn new() -> Result<Metrics, Error> {
        Metrics::counting(true)
    }

    /// Makes the metrics of a server without a metrics endpoint: calls and statements are not counted.
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
            waits: WaitMetrics::new(&registry)?,
            inbox: InboxMetrics::new(&registry)?,
            upkeep: Upkeep::new(&registry)?,
            credentials: Credentials::new(&registry)?,
            entries: Entries::new(&registry)?,
            tidied: Mutex::new(Instant::now()),
            counts,
            registry,
        };
        Ok(Metrics { inner: Arc::new(inner) })
    }

    /// Whether a metrics endpoint exposes the metrics.
    pub(crate) fn are_seen(&self) -> bool {
        self.inner.counts
    }

    /// The text that Prometheus scrapes, in its format version 0.0.4. Does not wait for the store.
    ///
    /// # Errors
    /// A metric cannot be written as text.
    pub fn text(&self) -> Result<String, Error> {
        self.tidy(Instant::now());
        TextEncoder::new().encode_to_string(&self.inner.registry.gather())
    }

    /// Removes idle series: once a minute, on a scrape.
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

    /// Makes the counts of calls of a server with these methods.
    ///
    /// # Errors
    /// They were made before.
    pub(crate) fn calls(&self, methods: impl IntoIterator<Item = Method>) -> Result<CallMetrics, Error> {
        CallMetrics::new(&self.inner.registry, methods, self.inner.counts)
    }

    /// Begins to count a command.
    pub(crate) fn received(
        &self,
        before: &mut Before,
        key: &Key,
        event_type: &str,
        command: &Command,
    ) -> PendingCommand {
        self.inner.consumers.received(before, key, event_type, command, self.inner.counts)
    }

    /// Counts the answer of a command. A command that is dropped without an answer counts as unanswered.
    pub(crate) fn answered(&self, command: PendingCommand, answered: &Answered<'_>) {
        self.inner.consumers.answered(command, answered);
        if let Err(rejection) = answered.answer {
            self.refused(rejection);
        }
    }

    /// Counts a request that was refused for its fields. `consumer` is empty where the request must not be
    /// counted as that consumer's.
    pub(crate) fn malformed(&self, consumer: &str, malformed: &Malformed, has_policy: &dyn Fn() -> bool) {
        self.refused(&malformed.rejection);
        if self.inner.counts {
            self.inner.consumers.malformed(consumer, malformed, has_policy);
        }
    }

    /// Counts an effect of a spool whose message something else has completed.
    pub(crate) fn doubled(&self, consumer: &str, has_policy: bool) {
        if self.inner.counts {
            self.inner.consumers.doubled(consumer, has_policy);
        }
    }

    /// Counts a message that the ledger began to keep.
    pub(crate) fn message_stored(&self, consumer: &str, event_type: &str, has_policy: bool) {
        if self.inner.counts {
            self.inner.consumers.stored(consumer, event_type, has_policy);
        }
    }

    /// Counts a field beyond its bound that was left out, cut or clamped.
    pub(crate) fn corrected(&self, field: &str) {
        self.inner.refusals.corrected(field);
    }

    /// Sets the consumers that the current rights file names exactly: clients' names do not displace them.
    pub(crate) fn named_by_rights(&self, consumers: HashSet<Box<str>>) {
        self.inner.consumers.named_by_rights(consumers);
    }

    /// Counts the refusal of a claim or a settlement.
    pub(crate) fn refused(&self, rejection: &Rejection) {
        self.inner.refusals.refused(rejection);
    }

    /// Counts the refusal of this many claims of one batch.
    pub(crate) fn all_refused(&self, rejection: &Rejection, claims: usize) {
        self.inner.refusals.all_refused(rejection, claims);
    }

    /// Counts a connection that the server ended.
    pub(crate) fn closed(&self, why: Closed) {
        self.inner.limits.closed(why);
    }

    /// Counts a call beyond a limit of its principal.
    pub(crate) fn limited(&self, limit: Limited) {
        self.inner.limits.limited(limit);
    }

    /// Counts a call that the server ended.
    pub(crate) fn ended(&self, why: Ended) {
        self.inner.limits.ended(why);
    }

    /// Counts that all clients together reached a limit.
    pub(crate) fn full(&self, of: Full) {
        self.inner.limits.full(of);
    }

    /// The counts of the workers.
    pub(crate) fn work(&self) -> &Work {
        &self.inner.work
    }

    /// The counts of the inbox.
    pub(crate) fn inbox(&self) -> &InboxMetrics {
        &self.inner.inbox
    }

    /// The counts of waiting calls.
    pub(crate) fn waits(&self) -> &WaitMetrics {
        &self.inner.waits
    }

    /// The counts of background work.
    pub(crate) fn upkeep(&self) -> &Upkeep {
        &self.inner.upkeep
    }

    /// The gauges of credential files.
    pub(crate) fn credentials(&self) -> &Credentials {
        &self.inner.credentials
    }

    /// Counts how long a count of the entries took, whether it failed or not.
    pub(crate) fn entries_took(&self, time: Duration) {
        self.inner.entries.took(time);
    }

    /// Shows the number of names that the store keeps.
    pub(crate) fn names_counted(&self, stored: &NameCounts) {
        self.inner.entries.names(stored);
    }

    /// Shows the counts of entries by consumer, at this second of the store's clock.
    pub(crate) fn entries_counted(
        &self,
        counted: BTreeMap<String, Counted>,
        at: i64,
        has_policy: &dyn Fn(&str) -> bool,
    ) {
        self.inner.consumers.policies(has_policy);
        let named_by = |name: &str| self.inner.consumers.named_by(name, has_policy(name));
        self.inner.entries.show(counted, at, self.inner.consumers.limit(), &named_by);
    }
}

#[cfg(test)]
mod tests;

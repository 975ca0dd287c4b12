//! Requests that are refused for their fields, and never become commands.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{CommandKind, Consumers, Later, NamedBy, PendingCommand, kind};
use crate::domain::Malformed;
use crate::metrics::pending::REPLAY_OTHER;

/// The indexes of a request that is refused for its fields.
const REJECTED: (usize, usize) = (8, 3);
/// The index of a look-up that is refused.
const LOOKUP_REJECTED: usize = 7;

impl Consumers {
    /// Counts a request that was refused for its fields. Only a consumer that has its own series, or that
    /// operators have named, is counted by its name: names in refused requests must not use up the
    /// cardinality limit.
    pub(in crate::metrics) fn malformed(
        &self,
        consumer: &str,
        malformed: &Malformed,
        has_policy: &dyn Fn() -> bool,
    ) {
        let named = || self.named_by(consumer, has_policy());
        let known = self.known().by_name.get(consumer).cloned();
        let consumer = known.unwrap_or_else(|| {
            if consumer.is_empty() || named() == NamedBy::ByClient {
                Arc::clone(&self.others)
            } else {
                self.consumer(consumer, NamedBy::ByOperator)
            }
        });
        let kind = kind(malformed.of_run, &malformed.command);
        let command =
            PendingCommand { who: None, kind, minute: self.minute.load(Ordering::Relaxed), answered: true };
        match kind {
            CommandKind::Replay => {
                self.count_later(&consumer, &consumer.untyped(), Later::Replay(REPLAY_OTHER));
            }
            CommandKind::Lookup => self.of_lookups(consumer).count_lookup(LOOKUP_REJECTED),
            CommandKind::Claim | CommandKind::Settle { .. } => {
                command.count(&consumer, &consumer.untyped(), REJECTED.0, REJECTED.1);
            }
        }
    }
}

//! Requests that are refused for their fields: they never become commands.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Asked, Consumers, Kind, Later, Named, kind};
use crate::domain::Malformed;
use crate::metrics::asked::REPLAY_OTHER;

/// The places of what is refused for its fields.
const REJECTED: (usize, usize) = (8, 3);
/// The place of a look-up that is refused.
const LOOKUP_REJECTED: usize = 7;

impl Consumers {
    /// A request was refused for its fields. Only a consumer that has its own series, or that operators have named, is
    /// counted by its name: refused names must not take the places.
    pub(in crate::metrics) fn malformed(
        &self,
        consumer: &str,
        malformed: &Malformed,
        has_policy: &dyn Fn() -> bool,
    ) {
        let named = || self.named_by(consumer, has_policy());
        let known = self.known().by_name.get(consumer).cloned();
        let consumer = known.unwrap_or_else(|| {
            if consumer.is_empty() || named() == Named::ByClient {
                Arc::clone(&self.others)
            } else {
                self.consumer(consumer, Named::ByOperator)
            }
        });
        let kind = kind(malformed.of_run, &malformed.command);
        let asked = Asked { who: None, kind, minute: self.minute.load(Ordering::Relaxed), answered: true };
        match kind {
            Kind::Replay => self.count_later(&consumer, &consumer.untold(), Later::Replay(REPLAY_OTHER)),
            Kind::Lookup => self.of_lookups(consumer).looked(LOOKUP_REJECTED),
            Kind::Claim | Kind::Settle { .. } => {
                asked.count(&consumer, &consumer.untold(), REJECTED.0, REJECTED.1);
            }
        }
    }
}

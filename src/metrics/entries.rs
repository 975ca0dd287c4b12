//! The number and age of entries, as last counted. They are counted periodically, never for a scrape.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus::{Error, Histogram, IntGauge, IntGaugeVec, Registry};

use super::cardinality::{CardinalityLimit, NamedBy, SeriesCost};
use super::catalogue::{
    ENTRIES, ENTRIES_COUNTED_AT, ENTRIES_COUNTING, ENTRIES_EXPIRED, ENTRIES_NEAR_EXHAUSTION, ENTRIES_OLDEST,
    INBOX_MESSAGES, INBOX_OLDEST_DUE, STORED_NAMES,
};
use super::labels::OTHER;
use crate::common::misleading::visible;
use crate::domain::NameCounts;

pub(super) const STATES: [&str; 6] =
    ["received", "in_progress", "failed_retryable", "completed", "failed_terminal", "parked"];
pub(super) const KINDS: [&str; 4] = ["claimable", "in_progress", "expired", "parked"];
/// The number of consumers without their own policy that are shown by name; those with a policy are shown as
/// long as the cardinality limit allows.
const NAMED_MAX: usize = 200;

/// The entries of one consumer; ages are in seconds, and 0 without an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// In the order of `STATES`.
    pub(crate) states: [i64; STATES.len()],
    /// In the order of `KINDS`.
    pub(crate) oldest: [i64; KINDS.len()],
    pub(crate) expired: i64,
    pub(crate) near_exhaustion: i64,
    /// `None` if its policy stores no messages.
    pub(crate) inbox: Option<CountedInbox>,
}

/// The stored messages of one consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountedInbox {
    pub(crate) due: i64,
    pub(crate) later: i64,
    /// For how long the oldest has been due, in seconds.
    pub(crate) oldest: i64,
}

impl Counted {
    fn add(&mut self, other: &Counted) {
        self.states.iter_mut().zip(other.states).for_each(|(sum, more)| *sum += more);
        self.oldest.iter_mut().zip(other.oldest).for_each(|(most, more)| *most = (*most).max(more));
        self.expired += other.expired;
        self.near_exhaustion += other.near_exhaustion;
        if let Some(more) = other.inbox {
            let sum = self.inbox.get_or_insert_default();
            (sum.due, sum.later) = (sum.due + more.due, sum.later + more.later);
            sum.oldest = sum.oldest.max(more.oldest);
        }
    }
}

/// The gauges of entries.
pub(super) struct Entries {
    states: IntGaugeVec,
    oldest: IntGaugeVec,
    expired: IntGaugeVec,
    near_exhaustion: IntGaugeVec,
    messages: IntGaugeVec,
    messages_oldest: IntGaugeVec,
    names: IntGaugeVec,
    counted_at: IntGauge,
    counting: Histogram,
    /// The consumers that have series, and who named them.
    shown: Mutex<BTreeMap<String, NamedBy>>,
}

impl Entries {
    pub(super) fn new(registry: &Registry) -> Result<Entries, Error> {
        Ok(Entries {
            states: ENTRIES.gauges(registry)?,
            oldest: ENTRIES_OLDEST.gauges(registry)?,
            expired: ENTRIES_EXPIRED.gauges(registry)?,
            near_exhaustion: ENTRIES_NEAR_EXHAUSTION.gauges(registry)?,
            messages: INBOX_MESSAGES.gauges(registry)?,
            messages_oldest: INBOX_OLDEST_DUE.gauges(registry)?,
            names: STORED_NAMES.gauges(registry)?,
            counted_at: ENTRIES_COUNTED_AT.gauge(registry)?,
            counting: ENTRIES_COUNTING.histograms(registry)?.get_metric_with_label_values::<&str>(&[])?,
            shown: Mutex::default(),
        })
    }

    /// Shows the counts of this second, and removes older ones. Consumers beyond the limit are counted
    /// together.
    pub(super) fn show(
        &self,
        counted: BTreeMap<String, Counted>,
        at: i64,
        limit: &CardinalityLimit,
        named_by: &dyn Fn(&str) -> NamedBy,
    ) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        // A consumer that operators have named since, or no longer name, is moved to the other group.
        shown.retain(|name, named| {
            let stays = counted.contains_key(name) && named_by(name) == *named;
            if !stays {
                self.forget(name);
                limit.give_back(needs(name));
            }
            stays
        });
        let mut by_clients = shown.values().filter(|named| **named == NamedBy::ByClient).count();
        let mut others: Option<Counted> = None;
        let (own, rest): (Vec<_>, Vec<_>) =
            counted.into_iter().partition(|(name, _)| named_by(name) == NamedBy::ByOperator);
        let own = own.into_iter().map(|one| (one, NamedBy::ByOperator));
        for ((name, counted), named) in own.chain(rest.into_iter().map(|one| (one, NamedBy::ByClient))) {
            let by_operator = named == NamedBy::ByOperator;
            let has_place = by_operator || by_clients < NAMED_MAX;
            let is_shown = shown.contains_key(&name);
            while by_operator && !is_shown && !limit.has(needs(&name), named) {
                // A consumer that only clients have named is removed to make room.
                let Some(one) = shown.iter().find(|(_, named)| **named == NamedBy::ByClient) else { break };
                let one = one.0.clone();
                self.forget(&one);
                shown.remove(&one);
                limit.give_back(needs(&one));
                by_clients -= 1;
            }
            if is_shown || (name != OTHER && has_place && limit.take(needs(&name), named)) {
                self.set(&name, &counted);
                by_clients += usize::from(!is_shown && !by_operator);
                shown.insert(name, named);
            } else {
                others.get_or_insert_default().add(&counted);
            }
        }
        match others {
            Some(others) => self.set(OTHER, &others),
            None => self.forget(OTHER),
        }
        self.counted_at.set(at);
    }

    /// Shows the number of stored names at the last count.
    pub(super) fn names(&self, stored: &NameCounts) {
        for (kind, count) in
            [("consumer", stored.consumers), ("source", stored.sources), ("principal", stored.principals)]
        {
            if let Ok(gauge) = self.names.get_metric_with_label_values(&[kind]) {
                gauge.set(count);
            }
        }
    }

    /// Counts how long a count of the entries took, whether it failed or not.
    pub(super) fn took(&self, time: Duration) {
        self.counting.observe(time.as_secs_f64());
    }

    fn set(&self, consumer: &str, counted: &Counted) {
        let consumer = &*visible(consumer);
        let set = |gauges: &IntGaugeVec, labels: &[&str], value| {
            if let Ok(gauge) = gauges.get_metric_with_label_values(labels) {
                gauge.set(value);
            }
        };
        STATES
            .iter()
            .zip(counted.states)
            .for_each(|(state, count)| set(&self.states, &[consumer, state], count));
        KINDS.iter().zip(counted.oldest).for_each(|(kind, age)| set(&self.oldest, &[consumer, kind], age));
        set(&self.expired, &[consumer], counted.expired);
        set(&self.near_exhaustion, &[consumer], counted.near_exhaustion);
        match counted.inbox {
            Some(inbox) => {
                set(&self.messages, &[consumer, "due"], inbox.due);
                set(&self.messages, &[consumer, "later"], inbox.later);
                set(&self.messages_oldest, &[consumer], inbox.oldest);
            }
            None => self.forget_inbox(consumer),
        }
    }

    /// `consumer`: as its label shows it.
    fn forget_inbox(&self, consumer: &str) {
        for kind in ["due", "later"] {
            drop(self.messages.remove_label_values(&[consumer, kind]));
        }
        drop(self.messages_oldest.remove_label_values(&[consumer]));
    }

    fn forget(&self, consumer: &str) {
        let consumer = &*visible(consumer);
        for state in STATES {
            drop(self.states.remove_label_values(&[consumer, state]));
        }
        for kind in KINDS {
            drop(self.oldest.remove_label_values(&[consumer, kind]));
        }
        drop(self.expired.remove_label_values(&[consumer]));
        drop(self.near_exhaustion.remove_label_values(&[consumer]));
        self.forget_inbox(consumer);
    }
}

/// The series of a consumer whose messages are stored: two of `messages`, and the age of the oldest.
const INBOX_SERIES: usize = 3;

/// The cost of a consumer's series.
fn needs(name: &str) -> SeriesCost {
    SeriesCost::of(STATES.len() + KINDS.len() + 2 + INBOX_SERIES, &[name])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(parked: i64, oldest: i64) -> Counted {
        Counted { states: [0, 0, 0, 0, 0, parked], oldest: [0, 0, 0, oldest], ..Counted::default() }
    }

    fn shown(registry: &Registry) -> Vec<(String, i64)> {
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let parked = text.lines().filter(|line| line.contains("\"parked\""));
        parked
            .map(|line| {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let consumer = series.split('"').nth(1).unwrap();
                let what = if series.contains("oldest") { "oldest " } else { "" };
                (format!("{what}{consumer}"), value.parse().unwrap())
            })
            .collect()
    }

    #[test]
    fn what_was_counted_last_is_shown_and_nothing_of_before() {
        let registry = Registry::new();
        let (entries, limit) = (Entries::new(&registry).unwrap(), CardinalityLimit::default());
        for (counts, expected) in [
            (
                vec![("a", counted(1, 5)), ("b", counted(2, 6))],
                vec![("a", 1), ("b", 2), ("oldest a", 5), ("oldest b", 6)],
            ),
            (
                vec![("b", counted(0, 0)), ("c", counted(4, 7))],
                vec![("b", 0), ("c", 4), ("oldest b", 0), ("oldest c", 7)],
            ),
            (vec![("other", counted(4, 7))], vec![("other", 4), ("oldest other", 7)]),
            (vec![], vec![]),
        ] {
            let counts = counts.into_iter().map(|(name, counted)| (name.to_owned(), counted)).collect();
            entries.show(counts, 1, &limit, &|_| NamedBy::ByClient);
            let expected: Vec<_> =
                expected.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            assert_eq!(shown(&registry), expected);
        }
        assert!(limit.is_empty(), "{limit:?}");
    }

    /// Numbers are summed up, and an age is that of the oldest.
    #[test]
    fn counts_of_the_others_are_added_field_by_field() {
        let one = Counted {
            states: [1, 2, 3, 4, 5, 6],
            oldest: [10, 20, 30, 40],
            expired: 7,
            near_exhaustion: 8,
            inbox: Some(CountedInbox { due: 1, later: 2, oldest: 30 }),
        };
        let another = Counted {
            states: [100, 200, 300, 400, 500, 600],
            oldest: [9, 21, 29, 41],
            expired: 70,
            near_exhaustion: 80,
            inbox: Some(CountedInbox { due: 10, later: 20, oldest: 3 }),
        };
        let both = Counted {
            states: [101, 202, 303, 404, 505, 606],
            oldest: [10, 21, 30, 41],
            expired: 77,
            near_exhaustion: 88,
            inbox: Some(CountedInbox { due: 11, later: 22, oldest: 30 }),
        };
        for (first, second) in [(&one, &another), (&another, &one)] {
            let mut sum = Counted::default();
            sum.add(first);
            sum.add(second);
            assert_eq!(sum, both);
        }
    }

    /// Messages of the others are summed up, and the age is that of the oldest.
    #[test]
    fn stored_messages_of_the_others_are_counted_together() {
        let registry = Registry::new();
        let (entries, limit) = (Entries::new(&registry).unwrap(), CardinalityLimit::default());
        let inbox = |due, later, oldest| Counted {
            inbox: Some(CountedInbox { due, later, oldest }),
            ..Counted::default()
        };
        let mut counts: BTreeMap<_, _> =
            (0..NAMED_MAX).map(|number| (format!("a{number:03}"), counted(0, 0))).collect();
        for (name, one) in [("b", inbox(1, 20, 7)), ("c", inbox(3, 40, 5)), ("d", counted(0, 0))] {
            counts.insert(name.to_owned(), one);
        }
        entries.show(counts, 1, &limit, &|_| NamedBy::ByClient);
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for (series, value) in [
            ("inbox_messages{consumer=\"other\",kind=\"due\"}", 4),
            ("inbox_messages{consumer=\"other\",kind=\"later\"}", 60),
            ("inbox_oldest_due_seconds{consumer=\"other\"}", 7),
        ] {
            assert!(text.contains(&format!("idempotency_ledger_{series} {value}\n")), "{series}: {text}");
        }
    }

    /// Whichever are counted first: a consumer that an operator has named takes the series of those that only clients have named.
    #[test]
    fn consumers_of_operators_take_the_room_of_those_of_clients() {
        let registry = Registry::new();
        let (entries, limit) = (Entries::new(&registry).unwrap(), CardinalityLimit::default());
        let named_by = |name: &str| NamedBy::by_operator(name.starts_with("own"));
        // Names that take the room of ten others each.
        let name = |kind: &str, number: usize| format!("{kind}{number:03}{}", "x".repeat(1_000));
        let all = |kind: &str, count: usize| -> BTreeMap<_, _> {
            (0..count).map(|number| (name(kind, number), counted(1, 0))).collect()
        };
        let named = |kind: &str| shown(&registry).iter().filter(|(name, _)| name.starts_with(kind)).count();
        entries.show(all("client", NAMED_MAX), 1, &limit, &named_by);
        let before = named("client");
        let own = before / 2;
        let mut both = all("client", NAMED_MAX);
        both.extend(all("own", own));
        entries.show(both, 2, &limit, &named_by);
        assert_eq!(named("own"), own, "{before} of clients had room");
        assert!(named("client") < before, "some of {before} made room");
        // No room is charged twice, and none is lost.
        entries.show(BTreeMap::new(), 3, &limit, &named_by);
        assert!(limit.is_empty(), "{limit:?}");
    }

    #[test]
    fn beyond_two_hundred_consumers_the_others_are_counted_together() {
        let registry = Registry::new();
        let (entries, limit) = (Entries::new(&registry).unwrap(), CardinalityLimit::default());
        let counts = (0..1_000).map(|number| (format!("c{number:04}"), counted(1, number))).collect();
        entries.show(counts, 1, &limit, &|name| NamedBy::by_operator(name >= "c0900"));
        let shown: BTreeMap<String, i64> = shown(&registry).into_iter().collect();
        assert_eq!(shown.len(), 2 * 301);
        for (name, value) in [
            ("c0000", Some(1)),
            ("c0199", Some(1)),
            ("c0200", None),
            ("c0900", Some(1)),
            ("c0999", Some(1)),
            ("other", Some(700)),
            ("oldest other", Some(899)),
        ] {
            assert_eq!(shown.get(name).copied(), value, "{name}");
        }
    }
}

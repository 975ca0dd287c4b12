//! Dictionary encoding: consumers, sources, principals and the terms of grants are stored as numbers.
//!
//! Each connection caches the numbers that it has read, and drops the cache when it closes: the next connection may lead to
//! another database, where the same number means something else.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use super::columns::Row;
use super::from_row::from_row;
use super::numbers::on_expiry;
use super::{Fault, StoreError};
use crate::domain::{Entry, Span, Terms};

/// The number of values of each kind that one connection caches.
const REMEMBERED_MAX: usize = 100_000;

/// The cache of one connection.
#[derive(Default)]
pub(super) struct Dictionary {
    pub(super) consumers: Numbers<String>,
    pub(super) sources: Numbers<String>,
    pub(super) principals: Numbers<String>,
    pub(super) terms: Numbers<Terms>,
}

/// The values of one kind, and their numbers.
pub(super) struct Numbers<T> {
    numbers: HashMap<T, i32>,
    values: HashMap<i32, T>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Numbers<T> {
        Numbers { numbers: HashMap::new(), values: HashMap::new() }
    }
}

impl<T: Eq + Hash + Clone> Numbers<T> {
    /// The number of a value; `None` if it was not learnt.
    pub(super) fn of<Q: Hash + Eq + ?Sized>(&self, value: &Q) -> Option<i32>
    where
        T: Borrow<Q>,
    {
        self.numbers.get(value).copied()
    }

    /// The number of a value that must have been learnt before.
    pub(super) fn known<Q: Hash + Eq + ?Sized>(&self, value: &Q) -> Result<i32, StoreError>
    where
        T: Borrow<Q>,
    {
        let unknown = || StoreError::NotApplied(Fault::Conflict("a value has no number yet".into()));
        self.of(value).ok_or_else(unknown)
    }

    /// The value of a number; `None` if it was not learnt.
    pub(super) fn value(&self, number: i32) -> Option<&T> {
        self.values.get(&number)
    }

    pub(super) fn learn(&mut self, value: T, number: i32) {
        self.numbers.insert(value.clone(), number);
        self.values.insert(number, value);
    }

    fn make_room(&mut self) {
        if self.values.len() > REMEMBERED_MAX {
            *self = Numbers::default();
        }
    }
}

/// The values of entries, or the numbers of rows, that a connection has not learnt yet; each once.
#[derive(Default)]
pub(super) struct Missing<Name, Grant> {
    pub(super) consumers: Vec<Name>,
    pub(super) sources: Vec<Name>,
    pub(super) principals: Vec<Name>,
    pub(super) terms: Vec<Grant>,
}

impl Dictionary {
    /// The values whose numbers are needed to write these entries.
    pub(super) fn missing_for(&mut self, entries: &[Entry]) -> Missing<String, Terms> {
        self.make_room();
        let (mut consumers, mut sources, mut principals) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut terms: Vec<Terms> = Vec::new();
        for entry in entries {
            let (consumer, source, grant) = (entry.key.namespace().name(), entry.key.source(), entry.terms());
            if self.consumers.of(consumer).is_none() {
                consumers.insert(consumer);
            }
            if self.sources.of(source).is_none() {
                sources.insert(source);
            }
            if let Some(claimant) = &entry.claimant
                && self.principals.of(claimant.principal.as_str()).is_none()
            {
                principals.insert(claimant.principal.as_str());
            }
            if self.terms.of(&grant).is_none() && !terms.contains(&grant) {
                terms.push(grant);
            }
        }
        let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect();
        Missing { consumers: owned(consumers), sources: owned(sources), principals: owned(principals), terms }
    }

    /// The numbers whose values are needed to read these rows.
    pub(super) fn unknown_in<'r>(&mut self, rows: impl Iterator<Item = &'r Row>) -> Missing<i32, i32> {
        self.make_room();
        let (mut consumers, mut sources) = (BTreeSet::new(), BTreeSet::new());
        let (mut principals, mut terms) = (BTreeSet::new(), BTreeSet::new());
        for row in rows {
            if self.consumers.value(row.consumer).is_none() {
                consumers.insert(row.consumer);
            }
            if self.sources.value(row.source).is_none() {
                sources.insert(row.source);
            }
            if let Some(principal) = row.principal.filter(|number| self.principals.value(*number).is_none()) {
                principals.insert(principal);
            }
            if self.terms.value(row.terms).is_none() {
                terms.insert(row.terms);
            }
        }
        let all = |numbers: BTreeSet<i32>| numbers.into_iter().collect();
        Missing {
            consumers: all(consumers),
            sources: all(sources),
            principals: all(principals),
            terms: all(terms),
        }
    }

    fn make_room(&mut self) {
        self.consumers.make_room();
        self.sources.make_room();
        self.principals.make_room();
        self.terms.make_room();
    }
}

from_row! {
    /// A name and its number.
    pub(super) struct NameRow {
        no: i32,
        name: String,
    }
}

impl NameRow {
    pub(super) fn teach(self, numbers: &mut Numbers<String>) {
        numbers.learn(self.name, self.no);
    }
}

from_row! {
    /// The terms of a grant, and their number.
    pub(super) struct TermsRow {
        no: i32,
        policy_version: i32,
        grace: i64,
        max_hold: i64,
        on_expiry: i16,
        retention: i64,
        failed_retention: i64,
        abandoned_retention: i64,
    }
}

impl TermsRow {
    /// Terms that cannot be read are not learnt: the rows that have them cannot be read either.
    pub(super) fn teach(self, numbers: &mut Numbers<Terms>) {
        let Some(on_expiry) = on_expiry(self.on_expiry) else { return };
        let terms = Terms {
            policy_version: self.policy_version,
            grace: Span(self.grace),
            max_hold: Span(self.max_hold),
            on_expiry,
            retention: Span(self.retention),
            failed_retention: Span(self.failed_retention),
            abandoned_retention: Span(self.abandoned_retention),
        };
        numbers.learn(terms, self.no);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_value_is_forgotten_beyond_its_bound() {
        let mut dictionary = Dictionary::default();
        for number in 1..=100_001 {
            dictionary.consumers.learn(format!("consumer-{number}"), number);
        }
        dictionary.sources.learn("source".into(), 1);
        dictionary.missing_for(&[]);
        assert!(dictionary.consumers.numbers.is_empty() && dictionary.consumers.values.is_empty());
        assert_eq!(dictionary.sources.of("source"), Some(1), "the other kinds are kept");
        // A value of one batch is learnt after the bound was looked at: it is there until the next batch.
        dictionary.consumers.learn("c".into(), 7);
        assert_eq!(
            (dictionary.consumers.of("c"), dictionary.consumers.value(7)),
            (Some(7), Some(&"c".to_owned()))
        );
    }
}

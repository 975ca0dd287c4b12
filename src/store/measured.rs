//! Conversion between entries and stored rows, only for `benches`.

use super::columns::Row;
use super::dictionary::{Dictionary, Numbers};
use crate::domain::Entry;

/// The dictionary of a connection, which converts entries into rows and back.
pub struct MeasuredRows(Dictionary);

/// A row of either database.
pub struct MeasuredRow(Row);

impl MeasuredRows {
    /// A dictionary with the values of these entries.
    #[must_use]
    pub fn for_entries(entries: &[Entry]) -> MeasuredRows {
        let mut learnt = Dictionary::default();
        let missing = learnt.missing_for(entries);
        learn(&mut learnt.consumers, missing.consumers);
        learn(&mut learnt.sources, missing.sources);
        learn(&mut learnt.principals, missing.principals);
        learn(&mut learnt.terms, missing.terms);
        MeasuredRows(learnt)
    }

    /// The row of an entry; `None` if a value of it was not learnt.
    #[must_use]
    pub fn row(&self, entry: &Entry) -> Option<MeasuredRow> {
        Row::of(entry, &self.0).ok().map(MeasuredRow)
    }

    /// The entry of a row; `None` if the row cannot be read.
    #[must_use]
    pub fn entry(&self, row: MeasuredRow) -> Option<Entry> {
        row.0.entry_of(None, &self.0).ok()
    }
}

fn learn<T: Eq + std::hash::Hash + Clone>(numbers: &mut Numbers<T>, values: Vec<T>) {
    for (number, value) in (1..).zip(values) {
        numbers.learn(value, number);
    }
}

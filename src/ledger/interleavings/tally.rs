//! Counts of events over all schedules: a suite in which nothing happens proves nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

#[derive(Default)]
pub(super) struct EventCounts(Mutex<BTreeMap<String, u64>>);

impl EventCounts {
    pub(super) fn count(&self, what: &str) {
        let mut counts = self.0.lock().unwrap();
        match counts.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(counts.insert(what.to_owned(), 1)),
        }
    }

    pub(super) fn of(&self, what: &str) -> u64 {
        self.0.lock().unwrap().get(what).copied().unwrap_or(0)
    }
}

impl fmt::Display for EventCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (what, count)) in self.0.lock().unwrap().iter().enumerate() {
            write!(formatter, "{}{what} {count}", if place == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

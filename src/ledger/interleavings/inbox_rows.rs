//! What the inbox does with the rows of the store in memory: it keeps, finds, locks and erases them.

use bytes::Bytes;

use super::disk::{Disk, Inner};
use super::messages::number_of;
use super::tally::EventCounts;
use crate::domain::{Body, Entry, KeyHash, StoreTime};
use crate::store::{Candidate, DueLook, DuePlace, Erased, Handout, KeptMessage};

impl Inner {
    /// Writes an entry together with its message.
    pub(super) fn keep(&mut self, entry: Entry, message: Bytes, now: StoreTime, tally: &EventCounts) {
        self.applied.extend(number_of(&message));
        let message = KeptMessage { message, stored_at: now };
        self.messages.stored.push((entry.key.clone(), message.clone(), self.messages.looks));
        self.messages.kept.insert(entry.key.hash(), (entry.version, message));
        self.commit(entry, tally);
    }

    /// The entries of a consumer that are due at this instant, in their order.
    pub(super) fn due(&self, consumer: &str, now: StoreTime) -> Vec<(DuePlace, &Entry)> {
        let place = |row: &Entry| Some(DuePlace { at: row.next_at()?, key: row.key.hash() });
        let of_consumer = self.rows.values().filter(|row| row.key.consumer() == consumer);
        let mut due: Vec<_> = of_consumer.filter_map(|row| Some((place(row)?, row))).collect();
        due.retain(|(place, _)| place.at <= now);
        due.sort_unstable_by_key(|(place, _)| *place);
        due
    }

    /// When the first entry that is not due yet is due.
    pub(super) fn next_due(&self, consumer: &str, now: StoreTime) -> Option<StoreTime> {
        let of_consumer = self.rows.values().filter(|row| row.key.consumer() == consumer);
        of_consumer.filter_map(Entry::next_at).filter(|at| *at > now).min()
    }

    /// The candidates of a look. Rows that another transaction has locked are left out.
    pub(super) fn candidates(
        &self,
        look: &DueLook,
        before: Option<&Handout>,
        now: StoreTime,
        tally: &EventCounts,
    ) -> Vec<Candidate> {
        if let Some(before) = before {
            let found = before.keys.iter().filter_map(|key| self.rows.get(key));
            return found.map(|row| self.candidate(DuePlace::default(), row)).collect();
        }
        let behind = self.due(&look.claim.consumer, now).into_iter().filter(|(place, _)| *place > look.after);
        let free = behind.filter(|(place, _)| {
            let is_locked = self.messages.locked.contains(&place.key);
            if is_locked {
                tally.count("rows locked by another look");
            }
            !is_locked
        });
        free.take(look.limit).map(|(place, row)| self.candidate(place, row)).collect()
    }

    fn candidate(&self, place: DuePlace, row: &Entry) -> Candidate {
        let bytes = self.messages.of(row.key.hash()).map(|kept| kept.message.len());
        Candidate { place, entry: Ok(row.clone()), bytes }
    }

    /// Erases all messages that are due for it.
    pub(super) fn erase(&mut self, now: StoreTime, tally: &EventCounts) -> Erased {
        let is_due = |row: &&Entry| row.erase_at.is_some_and(|at| at <= now);
        let due: Vec<Entry> = self.rows.values().filter(is_due).cloned().collect();
        let oldest_due = due.iter().filter_map(|row| row.erase_at).min();
        for row in &due {
            let erased =
                Entry { body: Some(Body::Erased), erase_at: None, version: row.version + 1, ..row.clone() };
            let of_this_life = |(generation, _): &mut (i64, KeptMessage)| *generation < erased.version;
            let key = row.key.hash();
            if self.messages.kept.get_mut(&key).is_some_and(of_this_life) {
                self.messages.kept.remove(&key);
            }
            self.commit(erased, tally);
            tally.count("erased");
        }
        Erased { count: due.len(), oldest_due, now }
    }
}

/// Rows that a transaction has locked, until its end.
pub(super) struct RowLocks<'a> {
    disk: &'a Disk,
    keys: Vec<KeyHash>,
}

impl<'a> RowLocks<'a> {
    pub(super) fn new(disk: &'a Disk, inner: &mut Inner, keys: Vec<KeyHash>) -> RowLocks<'a> {
        inner.messages.locked.extend(&keys);
        RowLocks { disk, keys }
    }
}

impl Drop for RowLocks<'_> {
    fn drop(&mut self) {
        let mut inner = self.disk.inner();
        inner.messages.locked.retain(|key| !self.keys.contains(key));
    }
}

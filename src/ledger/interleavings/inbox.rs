//! The inbox of the disk: messages, and handouts of them. A handout is one transaction in steps: other statements are carried out
//! between its look and its commit. Its row locks keep other looks away, and no other statement: nothing relies on them.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;

use super::disk::{Disk, Inner, not_applied};
use super::inbox_rows::RowLocks;
use super::messages::number_of;
use super::runtime::wander;
use super::session::{DiskSession, won};
use super::tally::EventCounts;
use crate::domain::{Entry, Key, KeyHash, Reading, StoreTime, Verdict};
use crate::store::{
    Choice, Choose, Chosen, Due, DueCounts, DueLook, EntryWithMessage, Erased, Fault, HandedOut, Handout,
    Inbox, InsertOutcome, Inserted, KeptMessage, MessagePlace, StoreError,
};

fn keys_of(rows: &[EntryWithMessage]) -> Vec<&Key> {
    rows.iter().map(|row| &row.entry.key).collect()
}

fn numbers_of(rows: &[EntryWithMessage]) -> HashSet<u64> {
    rows.iter().filter_map(|row| number_of(&row.message)).collect()
}

#[async_trait]
impl Inbox for DiskSession {
    async fn store_new(
        &mut self,
        rows: &[EntryWithMessage],
        until: StoreTime,
    ) -> Result<Inserted, StoreError> {
        let work = |inner: &mut Inner, tally: &EventCounts| {
            let reading = inner.reading(tally);
            let mut store = |row: &EntryWithMessage| {
                if reading.now > until || inner.rows.contains_key(&row.entry.key.hash()) {
                    return None;
                }
                let entry = row.entry.clone().stamped(reading.now, reading.token_clock());
                let token = entry.token;
                inner.keep(entry, row.message.clone(), reading.now, tally);
                Some(token)
            };
            let outcome = |row| {
                let granted = store(row).map(InsertOutcome::Granted);
                granted.unwrap_or_else(|| {
                    tally.count("conflicts of a Store");
                    InsertOutcome::UnknownConflict
                })
            };
            Inserted { reading, outcomes: rows.iter().map(outcome).collect() }
        };
        self.statement(keys_of(rows), numbers_of(rows), work).await
    }

    async fn attach(
        &mut self,
        rows: &[EntryWithMessage],
        until: &[StoreTime],
    ) -> Result<Vec<bool>, StoreError> {
        let work = |inner: &mut Inner, tally: &EventCounts| {
            let now = inner.reading(tally).now;
            let mut attach = |row: &EntryWithMessage, until: StoreTime| {
                if now > until || !inner.is_next(&row.entry) {
                    return None;
                }
                inner.keep(row.entry.clone(), row.message.clone(), now, tally);
                Some(())
            };
            let each = rows.iter().zip(until);
            each.map(|(row, until)| won(tally, attach(row, *until)).is_some()).collect()
        };
        self.statement(keys_of(rows), numbers_of(rows), work).await
    }

    async fn hand_out(&mut self, look: &DueLook, choose: &Choose) -> Result<HandedOut, StoreError> {
        let disk = Arc::clone(&self.disk);
        let sent = u64::try_from(look.claim.claim_id.as_u128()).into_iter().collect();
        self.transaction(Vec::new(), sent, hand_out(&disk, look, choose)).await
    }

    async fn message(&mut self, key: KeyHash) -> Result<Option<KeptMessage>, StoreError> {
        Ok(self.disk.inner().messages.of(key))
    }

    async fn stored_at(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<StoreTime>>, StoreError> {
        let work = |inner: &mut Inner, _: &EventCounts| {
            let at = |key: &KeyHash| inner.messages.of(*key).map(|kept| kept.stored_at);
            keys.iter().map(at).collect()
        };
        self.statement(Vec::new(), HashSet::new(), work).await
    }

    async fn oldest_due(&mut self, consumer: &str) -> Result<(Reading, Option<StoreTime>), StoreError> {
        let work = |inner: &mut Inner, tally: &EventCounts| {
            let reading = inner.reading(tally);
            let oldest = inner.due(consumer, reading.now).first().map(|(place, _)| place.at);
            (reading, oldest)
        };
        self.statement(Vec::new(), HashSet::new(), work).await
    }

    /// No scenario counts what is due.
    async fn count_due(&mut self, _: &str, _: i64) -> Result<DueCounts, StoreError> {
        Ok(DueCounts::default())
    }

    async fn message_bytes(&mut self) -> Result<i64, StoreError> {
        let work = |inner: &mut Inner, _: &EventCounts| inner.messages.bytes();
        let bytes = self.statement(Vec::new(), HashSet::new(), work).await?;
        Ok(i64::try_from(bytes).unwrap_or(i64::MAX))
    }

    /// Not a statement that a scenario may wait for: the purge sends it without end.
    async fn erase(&mut self, _: usize) -> Result<Erased, StoreError> {
        let now = self.clock().await?.now;
        Ok(self.disk.inner().erase(now, &self.disk.tally))
    }

    async fn forget_handouts(&mut self, before: StoreTime, _: usize) -> Result<usize, StoreError> {
        Ok(self.disk.inner().messages.forget_handouts(before))
    }

    /// No message outlives its entry.
    async fn sweep_messages(
        &mut self,
        _: MessagePlace,
        _: usize,
    ) -> Result<Option<MessagePlace>, StoreError> {
        Ok(None)
    }
}

async fn hand_out(disk: &Disk, look: &DueLook, choose: &Choose) -> Result<HandedOut, StoreError> {
    let (due, _locks) = {
        let mut inner = disk.inner();
        inner.messages.looks += 1;
        let reading = inner.reading(&disk.tally);
        let before = inner.messages.handout(look.claim.claim_id).cloned();
        let candidates = inner.candidates(look, before.as_ref(), reading.now, &disk.tally);
        let locked = if before.is_none() {
            candidates.iter().map(|candidate| candidate.place.key).collect()
        } else {
            Vec::new()
        };
        (Due { reading, before, candidates }, RowLocks::new(disk, &mut inner, locked))
    };
    wander(2).await;
    let choice = choose(&due);
    disk.inner().commit_handout(look, &due, choice, &disk.tally)
}

impl Inner {
    /// Whether the entry is the next version of the one that the store has.
    pub(super) fn is_next(&self, next: &Entry) -> bool {
        self.rows.get(&next.key.hash()).is_some_and(|row| row.version + 1 == next.version)
    }

    /// Writes all of a handout, or nothing.
    fn commit_handout(
        &mut self,
        look: &DueLook,
        due: &Due,
        choice: Choice,
        tally: &EventCounts,
    ) -> Result<HandedOut, StoreError> {
        let now = self.reading(tally).now;
        let keys: Vec<KeyHash> = choice.chosen.iter().map(|chosen| chosen.key.hash()).collect();
        if !choice.writes.iter().all(|(next, until)| now <= *until && self.is_next(next)) {
            tally.count("handouts that lost a race");
            return Err(not_applied(Fault::Conflict));
        }
        if due.before.is_none() && !keys.is_empty() {
            let handout = Handout { keys: keys.clone(), ..look.claim.clone() };
            if !self.messages.hand_out(handout, now) {
                tally.count("handouts of another server");
                return Err(not_applied(Fault::Conflict));
            }
        }
        for (next, _) in &choice.writes {
            self.commit(next.clone(), tally);
        }
        for chosen in &choice.chosen {
            if !self.is_held(look, chosen) {
                self.violations.push(format!("handed out, and not held: {chosen:?} to {:?}", look.claim));
            }
        }
        let messages = keys.iter().map(|key| self.messages.of(*key)).collect();
        let is_empty = due.before.is_none() && due.candidates.is_empty();
        let next_due = if is_empty { self.next_due(&look.claim.consumer, due.reading.now) } else { None };
        let full = due.before.is_none() && due.candidates.len() >= look.limit;
        Ok(HandedOut { reading: due.reading, choice, messages, full, next_due })
    }

    /// Whether the claim of this look holds the key under the token that it is answered.
    fn is_held(&self, look: &DueLook, chosen: &Chosen) -> bool {
        let row = self.rows.get(&chosen.key.hash());
        let claim_id = row.and_then(|row| row.claimant.as_ref()).map(|claimant| claimant.claim_id);
        let token = row.map(|row| row.token);
        let is_answered = |token: &i64| matches!(&chosen.verdict, Verdict::Acquired { token: answered, .. } if answered == token);
        claim_id == Some(look.claim.claim_id) && token.as_ref().is_some_and(is_answered)
    }
}

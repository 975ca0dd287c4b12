//! Stores, as in `ledger::inbox::store`: an insert of what seems new, or a load, a decision, and a write where the row has the
//! version that was loaded.

use std::sync::Arc;

use bytes::Bytes;
use idempotency_ledger::domain::{Advice, Entry, Store, StoreVerdict, store_absent};

use super::events::Event;
use super::one_inbox::{OneInbox, shortened};
use super::promises::{Promise, may_acknowledge};
use super::world::{Message, StoreCall, World};

impl OneInbox {
    fn message(&self, number: usize) -> Store {
        let fingerprint = Bytes::copy_from_slice(&[self.payload(number)]);
        Store { fingerprint, occurred_at: None, traceparent: String::new() }
    }

    /// Where the key has no entry. A load that finds none leads here as well: what was decided on it has no clock, and the
    /// insert adds the store's.
    pub(super) fn insert(&self, world: &mut World, number: usize) -> Option<()> {
        if world.row.is_some() {
            world.stores[number] = StoreCall::Ahead;
            return Some(());
        }
        let message = self.message(number);
        let entry = match world.stores[number] {
            StoreCall::Insert(at) => (self.rules.store)(&self.key, None, &message, &self.context(at)).write?,
            _ => store_absent(&self.key, &message, &self.policy, 1).0.write?.stamped(world.now, world.now.0),
        };
        self.note(Event::Inserted);
        if world.spent.purges > 0 {
            self.note(Event::StoredAfterPurge);
        }
        self.write(world, number, shortened(entry));
        Some(())
    }

    pub(super) fn load(&self, world: &mut World, number: usize) -> Option<()> {
        let Some(row) = world.row.clone() else {
            world.stores[number] = StoreCall::Insert(world.now);
            return Some(());
        };
        let context = self.context(world.now);
        let decision = (self.rules.store)(&self.key, Some(&row), &self.message(number), &context);
        let verdict = decision.answer.ok()?;
        world.stores[number] = match (decision.write, &verdict) {
            (Some(next), _) => StoreCall::Attach { base: row.version, next: Arc::new(shortened(next)) },
            (None, StoreVerdict::AlreadyStored { .. }) => StoreCall::Kept,
            (None, _) => StoreCall::Done,
        };
        match (&world.stores[number], &verdict) {
            (StoreCall::Attach { .. }, _) => return Some(()),
            (_, StoreVerdict::AlreadyStored { .. }) => self.note(Event::AlreadyStored),
            (_, StoreVerdict::Completed { .. }) => self.note(Event::AnsweredCompleted),
            (_, StoreVerdict::Failed { .. }) => self.note(Event::AnsweredFailed),
            (_, StoreVerdict::FingerprintMismatch { .. }) => self.note(Event::Mismatch),
            (_, StoreVerdict::Stored { .. } | StoreVerdict::OutsideWindow { .. }) => {}
        }
        if verdict.advice() == Advice::Ack {
            let proof = may_acknowledge(world, self.payload(number));
            world.memory.must(Promise::AcknowledgedOnProof, proof);
        }
        Some(())
    }

    pub(super) fn attach(&self, world: &mut World, number: usize) -> Option<()> {
        let StoreCall::Attach { base, next } = std::mem::take(&mut world.stores[number]) else { return None };
        let row = world.row.clone().filter(|row| row.version == base || !self.rules.attach_compares);
        let Some(row) = row else {
            self.note(Event::AttachLost);
            return Some(());
        };
        self.note(Event::Attached);
        world.memory.attached(&row, &next);
        self.write(world, number, Entry::clone(&next));
        Some(())
    }

    /// Writes the entry and the message, and answers.
    fn write(&self, world: &mut World, number: usize, next: Entry) {
        if world.message.is_some() {
            self.note(Event::WrittenOver);
            if !self.rules.replaces_messages {
                // The statement fails, for this call and each later one.
                world.memory.must(Promise::StoresAreWritten, false);
                world.stores[number] = StoreCall::Done;
                return;
            }
        }
        world.memory.wrote(world.row.as_deref(), &next);
        world.memory.stored(self.payload(number));
        world.stores[number] = StoreCall::Half(next.version);
        world.row = Some(Arc::new(next));
        if self.rules.together {
            self.keep_late(world, number);
        }
    }

    /// Writes the message: in one statement with the entry, unless a bug is seeded.
    pub(super) fn keep_late(&self, world: &mut World, number: usize) -> Option<()> {
        let StoreCall::Half(generation) = std::mem::take(&mut world.stores[number]) else { return None };
        world.message = Some(Message { generation, payload: self.payload(number) });
        world.stores[number] = StoreCall::Done;
        let proof = may_acknowledge(world, self.payload(number));
        world.memory.must(Promise::AcknowledgedOnProof, proof);
        Some(())
    }

    pub(super) fn read_stored_at(&self, world: &mut World, number: usize) {
        if world.message.is_some() {
            world.stores[number] = StoreCall::Done;
        } else {
            self.note(Event::StoredAgain);
            world.stores[number] = StoreCall::Ahead;
        }
    }

    fn payload(&self, number: usize) -> u8 {
        if self.scenario.differ { number as u8 + 1 } else { 1 }
    }
}

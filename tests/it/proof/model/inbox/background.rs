//! What removes rows: an operator's changes, the erasure, the collector of messages that no entry keeps, and the purge.

use std::sync::Arc;

use idempotency_ledger::domain::{self, Action as Act, Changed, Entry, Resolution, SETTLED, operate};

use super::events::Event;
use super::one_inbox::{OneInbox, shortened};
use super::promises::marked;
use super::rules::Dropping;
use super::world::{Action, Change, World};

impl OneInbox {
    pub(super) fn background_actions(&self, world: &World, actions: &mut Vec<Action>) {
        let (spent, scenario, is_free) = (&world.spent, &self.scenario, self.is_free(world));
        if spent.changes < scenario.changes && is_free {
            actions.extend(scenario.operator.iter().map(|change| Action::Change(*change)));
        }
        if world.erasing.is_some() {
            actions.extend([Action::Erase, Action::StopErasing]);
        } else if spent.erasures < scenario.erasures && is_free {
            actions.push(Action::Mark);
        }
        if world.collecting.is_some() {
            actions.push(Action::Collect);
        } else if spent.collections < scenario.collections {
            actions.push(Action::Find);
        }
        if world.purging.is_none() && spent.purges < scenario.purges {
            actions.push(Action::Judge);
        } else if world.purging.is_some() && is_free {
            actions.push(Action::Purge);
        }
    }

    /// An operator's change, by force, of the row as it is.
    pub(super) fn change(&self, world: &mut World, change: Change) -> Option<()> {
        let row = world.row.clone()?;
        let redrive = |drop_fingerprint| Act::Redrive { drop_fingerprint, admit: false };
        let action = match change {
            Change::Redrive => redrive(false),
            Change::RedriveWithoutMessage => redrive(true),
            Change::NotDone => Act::Resolve(Resolution::Received),
            Change::Park => Act::Park,
            Change::Delete => Act::Delete,
        };
        let change = domain::Change { expected_version: row.version, action, force: true };
        let changed = operate(&self.key, Some(&row), &change, &self.context(world.now)).ok()?;
        world.spent.changes += 1;
        let drops = matches!(change.action, Act::Delete | Act::Redrive { drop_fingerprint: true, .. });
        match changed {
            Changed::Gone => {
                self.note(Event::Deleted);
                (world.row, world.message) = (None, None);
            }
            Changed::Entry(next) => {
                let mut next = shortened(*next);
                if let Act::Redrive { drop_fingerprint, .. } = change.action {
                    self.note(if drop_fingerprint { Event::MessageDropped } else { Event::Redriven });
                }
                if drops {
                    self.drop_message(world, &row, &mut next);
                }
                world.row = Some(Arc::new(next));
            }
        }
        world.memory.changed(world.row.as_deref(), drops);
        Some(())
    }

    /// The core has decided that the entry does not keep its message any more; a seeded bug undoes that.
    fn drop_message(&self, world: &mut World, before: &Entry, next: &mut Entry) {
        match self.rules.dropping {
            Dropping::Flag => {}
            Dropping::Nothing => next.body = before.body,
            Dropping::Message => {
                next.body = before.body;
                world.message = None;
            }
        }
    }

    /// The first step of the erasure: the entry does not keep its message any more.
    pub(super) fn mark(&self, world: &mut World) -> Option<()> {
        let row = world.row.clone().filter(|row| row.erase_at.is_some_and(|at| at <= world.now))?;
        world.spent.erasures += 1;
        let next = marked(&row);
        world.erasing = Some(next.version);
        world.row = Some(Arc::new(next));
        world.memory.erased();
        Some(())
    }

    /// The second step: the message of that life goes.
    pub(super) fn erase(&self, world: &mut World) -> Option<()> {
        let marked = world.erasing.take()?;
        if let Some(message) = world.message {
            if message.generation < marked || !self.rules.erasure_compares {
                self.note(Event::Erased);
                world.message = None;
            } else {
                self.note(Event::ErasureSpared);
            }
        }
        Some(())
    }

    /// The collector reads a message, and whether an entry keeps it.
    pub(super) fn find(&self, world: &mut World) -> Option<()> {
        let message = world.message.filter(|_| (self.rules.keeps_none)(world.row.as_deref()))?;
        world.spent.collections += 1;
        world.collecting = Some(message.generation);
        Some(())
    }

    pub(super) fn collect(&self, world: &mut World) -> Option<()> {
        let found = world.collecting.take()?;
        if let Some(message) = world.message {
            if message.generation == found || !self.rules.collector_compares {
                self.note(Event::Collected);
                world.message = None;
            } else {
                self.note(Event::CollectorSpared);
            }
        }
        Some(())
    }

    pub(super) fn judge(&self, world: &mut World) -> Option<()> {
        let over = |row: &&Entry| (self.rules.is_over)(row, &self.policy, world.now);
        world.purging = Some(world.row.as_deref().filter(over)?.version);
        world.spent.purges += 1;
        Some(())
    }

    /// The purge deletes what is still as it was judged, with a token and a version that the clock has passed. It does not look
    /// at messages.
    pub(super) fn purge(&self, world: &mut World) -> Option<()> {
        let judged = world.purging.take()?;
        let Some(row) = world.row.clone().filter(|row| row.version == judged) else { return Some(()) };
        if row.token.max(row.version) + SETTLED.micros() < world.now.0 {
            self.note(Event::Purged);
            world.row = None;
            world.memory.purged();
        }
        Some(())
    }
}

//! What an operator does: docs/contract.md, section 6. Each change is one transaction.

use std::sync::Arc;

use idempotency_ledger::domain::{ClosedBy, Entry, ParkCause, State, StoreTime};

use super::events::Event;
use super::one_key::OneKey;
use super::world::{Action, Change, World};

impl OneKey {
    pub(super) fn operator_actions(&self, world: &World, actions: &mut Vec<Action>) {
        let Some(row) = world.row.as_deref() else { return };
        if world.spent.changes == self.bounds.changes {
            return;
        }
        if self.bounds.force || !needs_force(row, world.now) {
            actions.push(Action::Operate(Change::Redrive));
        }
        if matches!(row.state, State::Received | State::InProgress | State::FailedRetryable) {
            actions.push(Action::Operate(Change::Park));
        }
        if self.bounds.force && row.token.max(row.version) < world.now.0 {
            actions.push(Action::Operate(Change::Delete));
        }
    }

    pub(super) fn operate(&self, world: &mut World, change: Change) {
        let Some(row) = world.row.take() else { return };
        world.spent.changes += 1;
        match change {
            Change::Redrive => {
                let next = self.redriven(&row, world.now);
                world.memory.redriven(&next);
                world.row = Some(Arc::new(next));
                self.note(Event::Redriven);
            }
            Change::Park => {
                world.memory.parked();
                world.row = Some(Arc::new(parked(&row, world.now)));
                self.note(Event::ParkedByHand);
            }
            Change::Delete => {
                world.memory.deleted();
                self.note(Event::Deleted);
            }
        }
    }

    fn redriven(&self, row: &Entry, now: StoreTime) -> Entry {
        let mut next = Entry {
            version: row.version + 1,
            token: (row.token + 1).max(now.0 + 1),
            state: State::Received,
            closed_by: ClosedBy::Operator,
            closed_at: Some(now),
            claimant: None,
            attempts: 0,
            not_before: now,
            effect_unknown: row.effect_unknown || unsettled(row),
            prior_effect_started: row.prior_effect_started || row.effect_started,
            effect_started: false,
            updated_at: now,
            ..row.clone()
        };
        let abandoned = now.max(next.lease_until) + self.policy.abandoned_retention;
        next.retain_until = (!next.effect_marked()).then_some(abandoned);
        next
    }
}

/// No grants, but the token stays: the holder's Complete still counts.
fn parked(row: &Entry, now: StoreTime) -> Entry {
    let mut next = Entry {
        version: row.version + 1,
        state: State::Parked(ParkCause::Operator),
        updated_at: now,
        retain_until: None,
        ..row.clone()
    };
    if row.closed_by == ClosedBy::Open {
        next.closed_by = ClosedBy::OperatorPark;
        next.closed_at = Some(now);
    }
    next
}

fn unsettled(row: &Entry) -> bool {
    matches!(row.closed_by, ClosedBy::Open | ClosedBy::Expiry | ClosedBy::OperatorPark)
}

/// What is done, and a claim whose lease and grace may still be trusted, is redriven by force only.
fn needs_force(row: &Entry, now: StoreTime) -> bool {
    row.state == State::Completed || unsettled(row) && now < row.lease_until + row.grace
}

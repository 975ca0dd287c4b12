//! The model: which steps a state has, and where they lead.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use idempotency_ledger::domain::{Key, OnExpiry, Policy, Span, StoreTime};
use stateright::{Model, Property};

use super::events::Event;
use super::properties::{promised, witnessed};
use super::rules::Rules;
use super::scenarios::{Bounds, Scenario, TICK};
use super::world::{Action, Said, World};

/// Longer than anything is retained.
const LEAP: Span = Span::from_secs(2 * 3_600);

/// The model.
pub(super) struct OneKey {
    pub(super) key: Key,
    pub(super) policy: Policy,
    pub(super) bounds: Bounds,
    pub(super) rules: Rules,
    pub(super) sees: &'static [Event],
    /// Events belong to steps, not to states: kept here, they do not multiply the states.
    pub(super) seen: AtomicU32,
    /// No new states are wanted.
    pub(super) enough: AtomicBool,
}

impl OneKey {
    pub(super) fn new(scenario: &Scenario, rules: Rules) -> OneKey {
        OneKey {
            key: Key::new("payments", "shop", "order-1"),
            policy: scenario.policy(),
            bounds: scenario.bounds,
            rules,
            sees: scenario.sees,
            seen: AtomicU32::new(0),
            enough: AtomicBool::new(false),
        }
    }

    /// Consumers under this policy announce each effect: Renew(`effect_started`) before it.
    pub(super) fn announces(&self) -> bool {
        self.policy.on_expiry == OnExpiry::ParkIfStarted
    }
}

impl Model for OneKey {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            now: StoreTime(1_000_000_000),
            row: None,
            deliveries: Default::default(),
            purges: Vec::new(),
            spent: Default::default(),
            memory: Default::default(),
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for number in 0..self.bounds.deliveries {
            self.client_actions(world, number, actions);
            self.server_actions(world, number, actions);
        }
        self.fold_actions(world, actions);
        self.operator_actions(world, actions);
        let (spent, bounds) = (&world.spent, &self.bounds);
        if spent.ticks < bounds.ticks {
            actions.push(Action::Tick);
        }
        if spent.leaps < 1 && bounds.purges > 0 {
            actions.push(Action::Leap);
        }
        if spent.purges < bounds.purges && self.due(world) {
            actions.push(Action::Judge);
        }
        actions.extend((0..world.purges.len()).map(Action::Purge));
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Ask(number, op) => self.ask(&mut next, number, op),
            Action::Repeat(number) => self.repeat(&mut next, number),
            Action::GoOn(number) => self.go_on(&mut next, number),
            Action::Effect(number) => self.effect(&mut next, number),
            Action::Guess(number, place) => self.guess(&mut next, number, place),
            Action::Load(number, place) => self.load(&mut next, number, place),
            Action::Fold(first, second) => self.fold(&mut next, first, second),
            Action::Wait(number, place) => self.wait(&mut next, number, place),
            Action::Over(number, place) => self.answer(&mut next, number, place, Said::NotNow),
            Action::Wake(number, place) => self.wake(&mut next, number, place),
            Action::Write(number, place) => self.write(&mut next, number, place, true),
            Action::WriteUnknown(number, place) => self.write(&mut next, number, place, false),
            Action::Tick => {
                next.spent.ticks += 1;
                self.clock(&mut next, TICK);
            }
            Action::Leap => {
                next.spent.leaps += 1;
                self.clock(&mut next, LEAP);
            }
            Action::Judge => {
                next.spent.purges += 1;
                next.purges.extend(next.row.as_deref().map(|row| row.version));
            }
            Action::Purge(place) => self.purge(&mut next, place),
            Action::Operate(change) => self.operate(&mut next, change),
        }
        Some(next)
    }

    fn within_boundary(&self, _: &World) -> bool {
        !self.enough.load(Ordering::Relaxed)
    }

    fn properties(&self) -> Vec<Property<OneKey>> {
        let promised = promised().into_iter().map(|(_, property)| property);
        let seen = witnessed().into_iter().filter(|(event, _)| self.sees.contains(event));
        promised.chain(seen.map(|(_, property)| property)).collect()
    }
}

impl OneKey {
    fn clock(&self, world: &mut World, span: Span) {
        world.now = world.now + span;
        world.memory.clock(world.row.as_deref(), world.now);
    }
}

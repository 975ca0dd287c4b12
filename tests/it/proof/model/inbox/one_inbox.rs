//! The model: which steps a state has, and where they lead.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use bytes::Bytes;
use idempotency_ledger::domain::{
    Claim, Claimant, ClockLimits, Context, DueEntry, Entry, HandOutBounds, Key, Policy, Reading, StoreTime,
};
use stateright::{Model, Property};
use uuid::Uuid;

use super::super::server::trimmed;
use super::promises::Promise;
use super::rules::{Reading as When, Rules};
use super::scenarios::{LEAP, Scenario, TICK};
use super::world::{Action, Look, PLAIN, StoreCall, Worker, World};

/// A handout of this model has one message.
pub(super) const ONE: HandOutBounds = HandOutBounds { messages: 1, bytes: 1 };

pub(super) struct OneInbox {
    pub(super) key: Key,
    pub(super) policy: Policy,
    pub(super) scenario: Scenario,
    pub(super) rules: Rules,
    /// Events belong to steps, not to states: kept here, they do not multiply the states.
    pub(super) seen: AtomicU32,
}

impl OneInbox {
    pub(super) fn new(scenario: Scenario, rules: Rules) -> OneInbox {
        let key = Key::new("billing", "shop", "order-1");
        OneInbox { key, policy: scenario.policy(), scenario, rules, seen: AtomicU32::new(0) }
    }

    pub(super) fn context(&self, now: StoreTime) -> Context<'_> {
        Context::at(&reading(now), &self.policy, 1)
    }

    /// Whether a row can be written, or taken: no look has locked it.
    pub(super) fn is_free(&self, world: &World) -> bool {
        let locks = |look: &Look| matches!(look, Look::Decided(decided) if !decided.again);
        !(self.rules.locks && world.looks.iter().any(locks))
    }
}

/// The row, if a look would find it due.
pub(super) fn due(world: &World) -> Option<Arc<Entry>> {
    world.row.clone().filter(|row| row.next_at().is_some_and(|at| at <= world.now))
}

pub(super) fn reading(now: StoreTime) -> Reading {
    Reading { now, token_offset: 0, mark: 0, limits: ClockLimits::NONE }
}

pub(super) fn due_entry(row: &Entry) -> DueEntry<'_> {
    DueEntry { entry: row, bytes: 1 }
}

/// How a server claims each candidate of a look.
pub(super) fn next_claim(number: usize) -> Claim {
    Claim {
        claimant: Claimant {
            claim_id: Uuid::from_u128(number as u128 + 1),
            principal: String::new(),
            owner: "worker".into(),
        },
        lease: None,
        fingerprint: Bytes::new(),
        occurred_at: None,
        traceparent: String::new(),
        handed_out: true,
    }
}

/// A row without what no decision of this model looks at: past attempts, besides what `trimmed` leaves out.
pub(super) fn shortened(row: Entry) -> Entry {
    trimmed(Entry { history: Vec::new(), ..row })
}

impl Model for OneInbox {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            now: StoreTime(1_000_000_000),
            row: None,
            message: None,
            handouts: Default::default(),
            stores: Default::default(),
            looks: Default::default(),
            workers: Default::default(),
            erasing: None,
            collecting: None,
            purging: None,
            spent: Default::default(),
            memory: Default::default(),
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        (0..self.scenario.stores).for_each(|number| self.store_actions(world, number, actions));
        (0..self.scenario.looks.len()).for_each(|number| self.look_actions(world, number, actions));
        self.worker_actions(world, actions);
        self.background_actions(world, actions);
        let spent = &world.spent;
        if spent.ticks < self.scenario.ticks {
            actions.push(Action::Tick);
        }
        if spent.leaps < self.scenario.leaps {
            actions.push(Action::Leap);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Insert(number) => self.insert(&mut world, number)?,
            Action::Load(number) => self.load(&mut world, number)?,
            Action::Attach(number) => self.attach(&mut world, number)?,
            Action::ReadStoredAt(number) => self.read_stored_at(&mut world, number),
            Action::KeepLate(number) => self.keep_late(&mut world, number)?,
            Action::Peek(number) => {
                due(&world)?;
                world.looks[number] = Look::Peeked(world.message.map(|message| message.payload));
            }
            Action::Take(number) => self.take(&mut world, number)?,
            Action::Commit(number) => self.commit(&mut world, number, true)?,
            Action::CommitUnanswered(number) => self.commit(&mut world, number, false)?,
            Action::ReadLate(number) => self.read_late(&mut world, number)?,
            Action::Claim => self.claim(&mut world)?,
            Action::Settle(number, op) => self.settle(&mut world, number, op)?,
            Action::Change(change) => self.change(&mut world, change)?,
            Action::Tick => {
                world.spent.ticks += 1;
                world.now = world.now + TICK;
                world.memory.clock(world.now);
            }
            Action::Leap => {
                world.spent.leaps += 1;
                world.now = world.now + LEAP;
                world.memory.clock(world.now);
            }
            Action::Mark => self.mark(&mut world)?,
            Action::Erase => self.erase(&mut world)?,
            Action::StopErasing => world.erasing = None,
            Action::Find => self.find(&mut world)?,
            Action::Collect => self.collect(&mut world)?,
            Action::Judge => self.judge(&mut world)?,
            Action::Purge => self.purge(&mut world)?,
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<OneInbox>> {
        promised().into_iter().map(|(_, property)| property).collect()
    }
}

impl OneInbox {
    fn store_actions(&self, world: &World, number: usize, actions: &mut Vec<Action>) {
        // Stores of the same message differ in nothing: the first one that is ahead stands for all.
        let alike = !self.scenario.differ && world.stores[..number].contains(&StoreCall::Ahead);
        match &world.stores[number] {
            StoreCall::Ahead if alike => {}
            StoreCall::Ahead if world.row.is_none() && self.rules.stamps => {
                actions.push(Action::Insert(number))
            }
            StoreCall::Ahead => actions.push(Action::Load(number)),
            StoreCall::Insert(_) => actions.push(Action::Insert(number)),
            StoreCall::Attach { .. } if self.is_free(world) => actions.push(Action::Attach(number)),
            StoreCall::Kept => actions.push(Action::ReadStoredAt(number)),
            StoreCall::Half(_) => actions.push(Action::KeepLate(number)),
            StoreCall::Attach { .. } | StoreCall::Done => {}
        }
    }

    fn look_actions(&self, world: &World, number: usize, actions: &mut Vec<Action>) {
        let claim = self.scenario.looks[number];
        let is_ahead = |looks: &[Look]| {
            let of_claim = |(look, other): (&Look, &usize)| *other == claim && *look == Look::Ahead;
            looks.iter().zip(self.scenario.looks).any(of_claim)
        };
        match &world.looks[number] {
            // A call and its repeat differ in nothing either.
            Look::Ahead if is_ahead(&world.looks[..number]) => {}
            Look::Ahead if self.rules.reading == When::Before => actions.push(Action::Peek(number)),
            Look::Ahead | Look::Peeked(_) => actions.push(Action::Take(number)),
            Look::Decided(decided) => {
                if !decided.again || decided.next.is_none() || self.is_free(world) {
                    actions.push(Action::Commit(number));
                    if is_ahead(&world.looks) {
                        actions.push(Action::CommitUnanswered(number));
                    }
                }
            }
            Look::Unread { .. } => actions.push(Action::ReadLate(number)),
            Look::Done => {}
        }
    }

    fn worker_actions(&self, world: &World, actions: &mut Vec<Action>) {
        if !self.is_free(world) {
            return;
        }
        if self.scenario.plain && world.workers[PLAIN] == Worker::Waits {
            actions.push(Action::Claim);
        }
        for (number, worker) in world.workers.iter().enumerate() {
            if let Worker::Holds(_) = worker {
                actions.extend(self.scenario.settles.iter().map(|op| Action::Settle(number, *op)));
            }
        }
    }
}

/// What always holds.
pub(super) fn promised() -> Vec<(Promise, Property<OneInbox>)> {
    macro_rules! always {
        ($($name:literal: $promise:ident,)*) => {
            vec![$((
                Promise::$promise,
                Property::always($name, |model: &OneInbox, world: &World| model.keeps(Promise::$promise, world)),
            )),*]
        };
    }
    always! {
        "a message is kept until its entry has ended": KeptUntilTheEnd,
        "an entry that keeps a message has it, of this life": EntryHasItsMessage,
        "an open entry that keeps a message is never over": OpenIsNeverOver,
        "a message that is owed is handed out in the end": HandedOutInTheEnd,
        "no message outlives the need for it": NothingIsLeftOver,
        "a message is due as the contract says": DueByTheContract,
        "a Store is acknowledged on proof": AcknowledgedOnProof,
        "a message has one live claim": OneLiveClaim,
        "a handout has the message of this life": MessageOfThisLife,
        "a repeat is answered the same token": RepeatsAreReplayed,
        "a message whose effect was announced is not handed out again": AnnouncedIsNotRepeated,
        "a Store that would write is written": StoresAreWritten,
        "a Store changes nothing but the message": StoreChangesNothingElse,
        "tokens strictly grow": TokensGrow,
        "final states stay": FinalStatesStay,
    }
}

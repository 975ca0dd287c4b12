//! Which worlds are searched: policies and bounds, each small enough to be searched to its end.

use idempotency_ledger::domain::{Backoff, OnExpiry, Policy, Span};

use super::events::Event::{self, *};
use super::world::Change::{self, *};
use super::world::Op::{self, *};

/// One tick of the store's clock: a lease, and as long again the grace.
pub(super) const TICK: Span = Span::from_secs(1);
/// Longer than anything is retained, with the margins of the purge.
pub(super) const LEAP: Span = Span::from_secs(2 * 3_600);

/// One search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// Calls of Store.
    pub(super) stores: usize,
    /// Each Store has another message, with another fingerprint. Else all have the same one: they are deliveries or repeats.
    pub(super) differ: bool,
    /// Calls of `ClaimNext`, each by the number of its claim: a call with the number of another one is its repeat.
    pub(super) looks: &'static [usize],
    /// There is a plain claim as well.
    pub(super) plain: bool,
    pub(super) settles: &'static [Op],
    pub(super) on_expiry: OnExpiry,
    /// 0: no limit.
    pub(super) max_attempts: i32,
    pub(super) ticks: u8,
    pub(super) leaps: u8,
    pub(super) operator: &'static [Change],
    /// How many changes the operator makes.
    pub(super) changes: u8,
    pub(super) erasures: u8,
    pub(super) collections: u8,
    pub(super) purges: u8,
    /// What it must come across.
    pub(super) sees: &'static [Event],
}

const CALM: Scenario = Scenario {
    name: "calm",
    stores: 1,
    differ: false,
    looks: &[0],
    plain: false,
    settles: &[Complete],
    on_expiry: OnExpiry::Reclaim,
    max_attempts: 0,
    ticks: 0,
    leaps: 0,
    operator: &[],
    changes: 0,
    erasures: 0,
    collections: 0,
    purges: 0,
    sees: &[],
};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "races",
        stores: 3,
        looks: &[0, 1],
        plain: true,
        settles: &[Complete, Retry, Release, GiveUp],
        ticks: 1,
        erasures: 1,
        sees: &[
            Inserted,
            Attached,
            AttachLost,
            AlreadyStored,
            StoredAgain,
            AnsweredCompleted,
            AnsweredFailed,
            HandedOut,
            ClaimedStored,
            Erased,
        ],
        ..CALM
    },
    Scenario {
        name: "expiry",
        looks: &[0, 1],
        plain: true,
        settles: &[Complete, Retry],
        ticks: 4,
        sees: &[HandedOut, Reclaimed, LeaseLost, ClaimedStored],
        ..CALM
    },
    Scenario {
        name: "repeats",
        looks: &[0, 0, 1],
        settles: &[Announce, Complete, Retry],
        ticks: 4,
        erasures: 1,
        sees: &[Repeated, Rearmed, RepeatClosed, Reclaimed, LeaseLost],
        ..CALM
    },
    Scenario {
        name: "parks",
        looks: &[0, 0, 1],
        settles: &[Complete, Retry],
        on_expiry: OnExpiry::Park,
        max_attempts: 1,
        operator: &[Redrive],
        changes: 1,
        ticks: 4,
        sees: &[Parked, Redriven, Repeated, RepeatClosed],
        ..CALM
    },
    Scenario {
        name: "operator",
        stores: 2,
        differ: true,
        looks: &[0, 1],
        plain: true,
        operator: &[Redrive, RedriveWithoutMessage, NotDone, Park],
        changes: 2,
        erasures: 1,
        collections: 2,
        sees: &[
            Mismatch,
            AttachLost,
            WrittenOver,
            HandedOut,
            Redriven,
            MessageDropped,
            Erased,
            ErasureSpared,
            Collected,
            CollectorSpared,
        ],
        ..CALM
    },
    Scenario {
        name: "repeats-and-operator",
        stores: 2,
        differ: true,
        looks: &[0, 0],
        settles: &[Announce, Complete],
        operator: &[RedriveWithoutMessage, NotDone],
        changes: 2,
        ticks: 1,
        erasures: 1,
        collections: 1,
        sees: &[Repeated, RepeatClosed, RepeatEmpty, MessageDropped],
        ..CALM
    },
    Scenario {
        name: "purge",
        stores: 2,
        differ: true,
        looks: &[0, 1],
        plain: true,
        settles: &[Complete, GiveUp],
        leaps: 2,
        erasures: 1,
        collections: 1,
        purges: 2,
        sees: &[Purged, StoredAfterPurge, WrittenOver, Erased, Collected, Reclaimed],
        ..CALM
    },
    Scenario {
        name: "delete",
        stores: 2,
        differ: true,
        looks: &[0],
        operator: &[Delete, RedriveWithoutMessage],
        changes: 2,
        leaps: 2,
        erasures: 1,
        collections: 1,
        purges: 1,
        sees: &[Deleted, MessageDropped, Inserted, WrittenOver],
        ..CALM
    },
];

impl Scenario {
    pub(super) fn policy(&self) -> Policy {
        Policy {
            inbox: true,
            lease: TICK,
            max_lease: TICK,
            max_hold: Span(2 * TICK.0),
            reclaim_grace: TICK,
            on_expiry: self.on_expiry,
            max_attempts: self.max_attempts,
            backoff: Backoff { initial: TICK, multiplier: 1.0, max: TICK, jitter: 0.0 },
            retention: TICK,
            failed_retention: TICK,
            abandoned_retention: TICK,
            message_retention: Span::ZERO,
            ..Policy::default()
        }
    }
}

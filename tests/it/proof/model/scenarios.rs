//! Which worlds are searched: policies and bounds.

use idempotency_ledger::domain::FailureKind::{self, Retryable, Terminal};
use idempotency_ledger::domain::{Backoff, OnExpiry, Policy, Span};

use super::events::Event::{self, *};
use super::world::DELIVERIES;

/// One tick of the store's clock: a lease, and as long again the grace.
pub(super) const TICK: Span = Span::from_secs(1);

/// How much may happen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) deliveries: usize,
    /// Different calls of one delivery.
    pub(super) calls: u8,
    /// In which ways they may fail.
    pub(super) fails: &'static [FailureKind],
    /// A heartbeat is one of them.
    pub(super) renewals: bool,
    /// Identical calls, made again.
    pub(super) repeats: u8,
    /// Holders that go on after they asked to be rid of their claim.
    pub(super) contradictions: u8,
    /// Writes whose outcome the server does not learn.
    pub(super) unknowns: u8,
    pub(super) ticks: u8,
    /// Purges, once the clock has leapt ahead.
    pub(super) purges: u8,
    /// An operator's changes.
    pub(super) changes: u8,
    /// Pairs of calls that a server carries out together.
    pub(super) folds: u8,
    /// Claims that wait for another verdict.
    pub(super) waits: u8,
    /// They may be forced.
    pub(super) force: bool,
}

/// One search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) on_expiry: OnExpiry,
    pub(super) max_attempts: i32,
    pub(super) bounds: Bounds,
    /// What it must come across.
    pub(super) sees: &'static [Event],
}

const CALM: Bounds = Bounds {
    deliveries: 2,
    calls: 3,
    fails: &[Retryable],
    renewals: false,
    repeats: 0,
    contradictions: 0,
    unknowns: 0,
    ticks: 0,
    purges: 0,
    changes: 0,
    folds: 0,
    waits: 0,
    force: false,
};

const NO_LIMIT: i32 = 0;
const ALL: &[FailureKind] = &[Retryable, Terminal, FailureKind::Park];

/// Each is small enough to be searched to its end; those that grow slowest come first.
pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "calm",
        on_expiry: OnExpiry::Reclaim,
        max_attempts: NO_LIMIT,
        bounds: Bounds { deliveries: 3, calls: 4, fails: ALL, ..CALM },
        sees: &[LostRace],
    },
    Scenario {
        name: "operator",
        on_expiry: OnExpiry::ParkIfStarted,
        max_attempts: NO_LIMIT,
        bounds: Bounds { changes: 1, ticks: 2, ..CALM },
        sees: &[Parked, ParkedByHand, Redriven],
    },
    Scenario {
        name: "force",
        on_expiry: OnExpiry::Reclaim,
        max_attempts: NO_LIMIT,
        bounds: Bounds { changes: 1, force: true, ticks: 1, ..CALM },
        sees: &[Redriven, Deleted, LeaseLost],
    },
    Scenario {
        name: "loss",
        on_expiry: OnExpiry::Reclaim,
        max_attempts: NO_LIMIT,
        bounds: Bounds { repeats: 2, unknowns: 1, ..CALM },
        sees: &[ReplayedClaim, ReplayedSettlement],
    },
    Scenario {
        name: "heartbeats",
        on_expiry: OnExpiry::Reclaim,
        max_attempts: NO_LIMIT,
        bounds: Bounds { renewals: true, ticks: 3, ..CALM },
        sees: &[Reclaim, Revived],
    },
    Scenario {
        name: "park",
        on_expiry: OnExpiry::Park,
        max_attempts: NO_LIMIT,
        bounds: Bounds { repeats: 1, ticks: 2, ..CALM },
        sees: &[Parked, Rearmed, LateComplete],
    },
    Scenario {
        name: "park-if-started",
        on_expiry: OnExpiry::ParkIfStarted,
        max_attempts: NO_LIMIT,
        bounds: Bounds { repeats: 1, ticks: 2, ..CALM },
        sees: &[Parked, Reclaim],
    },
    Scenario {
        name: "purge",
        on_expiry: OnExpiry::Reclaim,
        max_attempts: NO_LIMIT,
        bounds: Bounds { deliveries: 3, calls: 2, purges: 1, ..CALM },
        sees: &[Purged, GrantAfterPurge],
    },
    Scenario {
        name: "two-attempts",
        on_expiry: OnExpiry::Reclaim,
        max_attempts: 2,
        bounds: Bounds { contradictions: 1, ticks: 1, ..CALM },
        sees: &[Exhausted, LateComplete],
    },
    Scenario {
        name: "loss-and-expiry",
        on_expiry: OnExpiry::Reclaim,
        max_attempts: NO_LIMIT,
        bounds: Bounds { unknowns: 1, ticks: 2, ..CALM },
        sees: &[Reclaim, UnknownOutcome],
    },
    Scenario {
        name: "expiry",
        on_expiry: OnExpiry::Reclaim,
        max_attempts: NO_LIMIT,
        bounds: Bounds { deliveries: 3, ticks: 2, ..CALM },
        sees: &[Reclaim, LateComplete, Fenced, Backoff, Marked, Doubled],
    },
    Scenario {
        name: "two-purges",
        on_expiry: OnExpiry::ParkIfStarted,
        max_attempts: NO_LIMIT,
        bounds: Bounds { calls: 2, purges: 2, ticks: 1, ..CALM },
        sees: &[Purged, GrantAfterPurge],
    },
    Scenario {
        name: "folds",
        on_expiry: OnExpiry::Reclaim,
        max_attempts: NO_LIMIT,
        bounds: Bounds { folds: 1, unknowns: 1, repeats: 1, ..CALM },
        sees: &[Folded, FoldLost, FoldUnknown, LostRace],
    },
    Scenario {
        name: "folds-and-expiry",
        on_expiry: OnExpiry::ParkIfStarted,
        max_attempts: NO_LIMIT,
        bounds: Bounds { folds: 1, ticks: 2, ..CALM },
        sees: &[Reclaim, LateComplete],
    },
    Scenario {
        name: "loss-and-marks",
        on_expiry: OnExpiry::Reclaim,
        max_attempts: NO_LIMIT,
        bounds: Bounds { repeats: 1, ticks: 2, ..CALM },
        sees: &[Marked, Doubled],
    },
    Scenario {
        name: "waits",
        on_expiry: OnExpiry::Reclaim,
        max_attempts: NO_LIMIT,
        bounds: Bounds { waits: 2, repeats: 1, ticks: 1, ..CALM },
        sees: &[Waited, WaitedForCompletion, Backoff],
    },
    Scenario {
        name: "contradiction",
        on_expiry: OnExpiry::Reclaim,
        max_attempts: NO_LIMIT,
        bounds: Bounds { contradictions: 1, repeats: 1, fails: ALL, ..CALM },
        sees: &[LateComplete],
    },
];

impl Bounds {
    /// The same with one more of something, as often as asked.
    pub(super) fn grown(mut self, times: u8) -> Bounds {
        for time in 0..times {
            match time % 3 {
                _ if self.deliveries < DELIVERIES => self.deliveries += 1,
                0 => self.repeats += 1,
                1 => self.ticks += 1,
                _ => self.calls += 1,
            }
        }
        self
    }
}

impl Scenario {
    pub(super) fn policy(&self) -> Policy {
        Policy {
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
            ..Policy::default()
        }
    }
}

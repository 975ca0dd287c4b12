//! What a state of the model consists of: the store, the deliveries with their calls under way, and
//! what the checks remember.

use std::sync::Arc;

use idempotency_ledger::domain::{Answer, Entry, FailureKind, Reason, Reply, StoreTime, Verdict};

use super::promises::Memory;

/// How many deliveries of the one message there are. The first two are threads of one process.
pub(super) const DELIVERIES: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    /// The store's clock.
    pub(super) now: StoreTime,
    pub(super) row: Option<Arc<Entry>>,
    pub(super) deliveries: [Delivery; DELIVERIES],
    /// Purges that have judged the row, by its version, and not deleted it yet.
    pub(super) purges: Vec<i64>,
    pub(super) spent: Spent,
    pub(super) memory: Memory,
}

/// What was used of each bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Spent {
    pub(super) repeats: u8,
    pub(super) contradictions: u8,
    pub(super) unknowns: u8,
    pub(super) ticks: u8,
    pub(super) leaps: u8,
    pub(super) purges: u8,
    pub(super) changes: u8,
    pub(super) folds: u8,
    pub(super) waits: u8,
}

/// One delivery of the message, in the hands of one thread, with a `claim_id` of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Delivery {
    pub(super) life: Life,
    /// How many different calls it has made.
    pub(super) asked: u8,
    /// What it was granted, and which of the key's grants this was.
    pub(super) token: i64,
    pub(super) grant: u8,
    /// It was told OK to Renew(`effect_started`).
    pub(super) started: bool,
    /// It has run the effect.
    pub(super) effect: bool,
    /// Under way, oldest first: at most one whose answer is awaited, and those it gave up.
    pub(super) calls: Vec<Call>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Life {
    /// Not delivered yet.
    #[default]
    Ahead,
    Awaits(Op),
    Holds,
    /// Settled, refused, or given up. Its calls may still be under way.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Op {
    Claim,
    /// Renew.
    Renew,
    /// Renew with `effect_started`.
    Start,
    Complete,
    Fail(FailureKind),
    Release,
}

/// One request, as it travels and as a server works on it.
///
/// Nothing need ever happen to it: a call that never moves on is a request that was lost, or a
/// server that crashed between its load and its write. A call that moves on after its delivery gave
/// it up is an answer that was lost, or a delayed duplicate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Call {
    pub(super) op: Op,
    pub(super) token: i64,
    /// The delivery still waits for the answer.
    pub(super) awaited: bool,
    /// The server has applied it once without learning so, and looks again.
    pub(super) unknown: bool,
    /// Decided, not yet written; none: not looked at yet.
    pub(super) decided: Option<Decided>,
    /// Decided together with another call, whose write carries it: the number of the fold.
    pub(super) behind: Option<u8>,
    /// It was not granted the key, and waits for another verdict: its next look is its answer.
    pub(super) rests: bool,
    /// What another call of the same claim was granted meanwhile. Only a seeded bug knows it.
    pub(super) woken_with: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Decided {
    /// The version that was loaded; none: there was no row.
    pub(super) base: Option<i64>,
    pub(super) next: Arc<Entry>,
    pub(super) said: Said,
    /// The call that was decided behind this one, and is written with it.
    pub(super) second: Option<Second>,
}

/// The second call of a fold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Second {
    /// The number of the fold.
    pub(super) fold: u8,
    /// The row as the first call leaves it.
    pub(super) between: Arc<Entry>,
    /// The second one changes it.
    pub(super) wrote: bool,
    pub(super) said: Said,
}

/// What an answer means to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Said {
    Acquired(i64),
    Completed,
    /// Any other verdict: nothing to do for this delivery.
    NotNow,
    Settled,
    Refused(Reason),
}

impl Said {
    pub(super) fn of(answer: &Answer) -> Said {
        match answer {
            Ok(Reply::Verdict(Verdict::Acquired { token, .. })) => Said::Acquired(*token),
            Ok(Reply::Verdict(Verdict::Completed { .. })) => Said::Completed,
            Ok(Reply::Verdict(_)) => Said::NotNow,
            Ok(_) => Said::Settled,
            Err(rejection) => Said::Refused(rejection.reason),
        }
    }
}

/// An operator's change: docs/contract.md, section 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The message is to be processed again.
    Redrive,
    /// It is to wait.
    Park,
    /// The row goes.
    Delete,
}

/// One step. Numbers are a delivery, and one of its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A delivery makes a call, and waits.
    Ask(usize, Op),
    /// It waits no longer, and makes the identical call again.
    Repeat(usize),
    /// It waits no longer for a Renew, Fail or Release, and goes on as the holder.
    GoOn(usize),
    /// It runs the effect.
    Effect(usize),
    /// A server tries a call's guess, and is right.
    Guess(usize, usize),
    /// A server loads the row and decides.
    Load(usize, usize),
    /// A server loads the row, and lets a Claim wait that it does not grant.
    Wait(usize, usize),
    /// A wait is over: the Claim is answered what its last look found.
    Over(usize, usize),
    /// A waiting Claim is answered without a look: what only a seeded bug does.
    Wake(usize, usize),
    /// A server loads the row and decides two calls, the second one on what the first one left.
    Fold((usize, usize), (usize, usize)),
    /// A server writes what it has decided, unless the row has changed.
    Write(usize, usize),
    /// The same, but the connection breaks before the server knows that it is written.
    WriteUnknown(usize, usize),
    /// The store's clock goes on by one tick.
    Tick,
    /// It goes on by longer than everything is retained.
    Leap,
    /// A purge judges the row.
    Judge,
    /// A purge deletes what it has judged, unless it has changed.
    Purge(usize),
    /// An operator changes the row.
    Operate(Change),
}

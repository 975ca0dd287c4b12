//! Histories: what clients asked and were told of one key, each call with the instants between which
//! it took effect, and whether the contract explains it.
//!
//! The instants are of the machine's clock, which is the store's clock too, but for what a suite has set that one
//! ahead or back: so a lease can be checked from outside. All intervals are closed; what is unknown is wide.

mod bad;
mod bad_looks;
mod bad_rules;
mod bad_runs;
mod bad_store;
mod bad_stored;
mod linear;
mod model;
mod rules;
mod search;
mod second_tries;

use std::fmt;

pub(crate) use linear::check_in_real_time;
pub(crate) use rules::{Backoff, Change, EVERYWHERE, Expiry, Facts, InForce, Loss, Raise, Rules, Shift};
pub(crate) use search::check_linearizable;
pub(crate) use second_tries::check_with_second_tries;

/// What a client asked of a key. Claims are told apart by a number for each claim_id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Claim {
        claim: u64,
    },
    Complete {
        token: i64,
    },
    Fail {
        token: i64,
        kind: Kind,
        /// With a `retry_after` of zero; else the policy's back-off counts.
        at_once: bool,
    },
    Release {
        token: i64,
    },
    Renew {
        token: i64,
        started: bool,
    },
    Lookup,
    /// The message is kept, to be handed out.
    Store,
    /// A ClaimNext of the key's consumer, which may hand out the key's message.
    Next {
        claim: u64,
    },
    /// An operator's change of the version that was looked at before.
    Order {
        order: Order,
        force: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Redrive,
    Park,
    Complete,
    FailTerminal,
    NotDone,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Retryable,
    Terminal,
    Park,
}

/// What a Lookup shows of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Absent,
    Backoff,
    /// It waits, and is claimable.
    Due,
    /// Under its lease, or in the grace after it.
    Held,
    /// IN_PROGRESS, and nothing is left to wait for.
    Expired,
    Completed,
    Failed,
    Parked,
}

/// What it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acquired {
        token: i64,
        replayed: bool,
        /// Zero where nobody looked.
        attempt: i32,
    },
    Completed,
    InProgress,
    Failed,
    Parked,
    Backoff,
    /// A settlement or an order was accepted; `late`: after the lease (for Renew: `revived`).
    Settled {
        replayed: bool,
        late: bool,
    },
    Found {
        seen: Seen,
        attempt: i32,
    },
    /// The message is kept, or was kept before; in which state its entry is.
    Stored {
        before: bool,
        seen: Seen,
    },
    Refused(Refusal),
    /// No answer, or one that says that nobody knows.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    ClaimClosed,
    EffectStarted,
    LeaseLost,
    TokenFromFuture,
    NotFound,
    Disabled,
    /// Nobody has registered the replay run of the key: whatever its entry is, a claim hears no more.
    RunUnknown,
    RunClosed,
    /// The policy forbids replay runs by now.
    RunForbidden,
}

/// One call. Calls that were certainly not applied are in no history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) client: u64,
    /// Which server was asked.
    pub(crate) replica: usize,
    pub(crate) call: Call,
    pub(crate) outcome: Outcome,
    /// Microseconds of the machine's clock.
    pub(crate) invoked: i64,
    /// The end of time where the outcome is unknown.
    pub(crate) returned: i64,
}

impl fmt::Display for Event {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let took =
            if self.returned == i64::MAX { "-".into() } else { (self.returned - self.invoked).to_string() };
        write!(
            to,
            "{} +{took} client {} on {}: {:?} -> {:?}",
            self.invoked, self.client, self.replica, self.call, self.outcome
        )
    }
}

/// Everything that is wrong with a key's history; `events` in any order.
pub(crate) fn check(events: &[Event], in_force: &InForce) -> Result<(), String> {
    let mut events = events.to_vec();
    events.sort_by_key(|event| event.invoked);
    // Until each loss all that was answered was so; after it some of that was undone.
    let ends = in_force.losses.iter().map(|loss| loss.until).chain(std::iter::once(i64::MAX));
    let mut explained = ends.enumerate().map(|(before, end)| {
        let events = until(&events, end);
        let undone = undone(&events, &in_force.losses[..before]);
        check_in_real_time(&events, &undone)?;
        check_linearizable(&events, &undone, in_force)
    });
    explained.try_for_each(std::convert::identity).map_err(|problem| {
        let lines: Vec<String> = events.iter().map(ToString::to_string).collect();
        format!("{problem}\n{}", lines.join("\n"))
    })
}

/// What had begun by then; what was under way may take effect later, or never.
fn until(events: &[Event], end: i64) -> Vec<Event> {
    let begun = events.iter().filter(|event| event.invoked < end);
    let known = |event: &Event| event.returned <= end;
    let cut = |event: &Event| Event { outcome: Outcome::Unknown, returned: i64::MAX, ..*event };
    begun.map(|event| if known(event) { *event } else { cut(event) }).collect()
}

/// For each call: by which loss it may have been undone.
fn undone(events: &[Event], losses: &[Loss]) -> Vec<Option<Loss>> {
    let by = |event: &Event| losses.iter().find(|loss| loss.concerns(event)).copied();
    events.iter().map(by).collect()
}

//! The inbox: the ledger keeps a message, and hands it out later. Store's table is docs/contract.md, section 15.

use bytes::Bytes;

use super::body::Body;
use super::claim::{inside_window_until, mismatch, outside_window};
use super::clock_fault::ClockFault;
use super::context::Context;
use super::decide::next_version;
use super::entry::{ClosedBy, Entry, State};
use super::policy::FingerprintMode;
use super::preconditions::{doubtful, lacks, refusal_by};
use super::reason::{Reason, Rejection};
use super::retention::set_ends;
use super::{Advice, Key, Policy, Span, StoreTime};

/// A message to be kept. Its payload is stored next to its entry, and is not part of the decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// A digest of the payload; empty if absent.
    pub fingerprint: Bytes,
    /// When the producer made the message.
    pub occurred_at: Option<StoreTime>,
    /// The trace context of the call; empty if there is none.
    pub traceparent: String,
}

/// The answer to Store.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreVerdict {
    /// The message is kept from now on.
    Stored {
        /// The state of its entry.
        state: State,
    },
    /// The message was kept before.
    AlreadyStored {
        /// The state of its entry.
        state: State,
    },
    /// The message is done.
    Completed {
        /// When it was completed.
        completed_at: StoreTime,
    },
    /// The consumer, or an operator, gave the message up.
    Failed {
        /// Why.
        error: String,
        /// When.
        failed_at: StoreTime,
    },
    /// The id was used before with another payload.
    FingerprintMismatch {
        /// The pinned one.
        expected: Bytes,
        /// The one of this message.
        presented: Bytes,
    },
    /// The message is older than what the ledger remembers.
    OutsideWindow {
        /// How far back the ledger remembers.
        window: Span,
        /// When the message was made.
        occurred_at: StoreTime,
    },
}

impl StoreVerdict {
    /// What to do with the broker's message. A message that was given up is a dead letter: an acknowledgement would lose it
    /// when its entry is purged.
    #[must_use]
    pub fn advice(&self) -> Advice {
        match self {
            StoreVerdict::Stored { .. }
            | StoreVerdict::AlreadyStored { .. }
            | StoreVerdict::Completed { .. } => Advice::Ack,
            StoreVerdict::Failed { .. }
            | StoreVerdict::FingerprintMismatch { .. }
            | StoreVerdict::OutsideWindow { .. } => Advice::DeadLetter,
        }
    }
}

/// The answer to a Store, and the entry as it must stand, together with the message, before the answer may be given.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreDecision {
    /// The answer.
    pub answer: Result<StoreVerdict, Rejection>,
    /// The entry to write where the version is still the one that was read, and only under the policy in force at the time of
    /// the write; `None` if nothing changes.
    pub write: Option<Entry>,
}

/// What a Store is answered whatever the entry is; `None` if the entry decides. A hold, a disabled policy and used attempts do not
/// matter: a Store grants nothing.
#[must_use]
pub fn store_refused(store: &Store, policy: &Policy) -> Option<Rejection> {
    let off = || (!policy.inbox).then(|| refusal_by(policy, doubtful(policy).unwrap_or(Reason::InboxOff)));
    lacks(&store.fingerprint, store.occurred_at, policy).or_else(off)
}

/// Decides a Store: the first row of the table that matches.
#[must_use]
pub fn store(key: &Key, entry: Option<&Entry>, store: &Store, context: &Context<'_>) -> StoreDecision {
    if let Some(rejection) = store_refused(store, context.policy) {
        return StoreDecision { answer: Err(rejection), write: None };
    }
    let Some(entry) = entry else {
        return absent(key, store, context);
    };
    if mismatch(entry, &store.fingerprint, context.policy) {
        return verdict(StoreVerdict::FingerprintMismatch {
            expected: entry.fingerprint.clone(),
            presented: store.fingerprint.clone(),
        });
    }
    let closed_at = entry.closed_at.unwrap_or(entry.updated_at);
    match entry.state {
        State::Completed => verdict(StoreVerdict::Completed { completed_at: closed_at }),
        State::FailedTerminal => {
            verdict(StoreVerdict::Failed { error: entry.last_error.clone(), failed_at: closed_at })
        }
        state if entry.body == Some(Body::Kept) => verdict(StoreVerdict::AlreadyStored { state }),
        State::Received | State::InProgress | State::FailedRetryable | State::Parked(_) => {
            attach(entry, store, context)
        }
    }
}

/// Decides a Store of an absent key with the clock at zero: the insert adds the store's clock. At instant zero no message is too
/// old, except one from before the window floor. Also returns the instant until which the decision is valid: after it, the message
/// is outside the window.
#[must_use]
pub fn store_absent(
    key: &Key,
    message: &Store,
    policy: &Policy,
    position: i64,
) -> (StoreDecision, StoreTime) {
    let context = Context {
        policy,
        now: StoreTime(0),
        token_offset: 0,
        position,
        clock_behind: false,
        clock_before_release: false,
        clock_ahead: false,
    };
    (store(key, None, message, &context), inside_window_until(message.occurred_at, policy))
}

fn verdict(verdict: StoreVerdict) -> StoreDecision {
    StoreDecision { answer: Ok(verdict), write: None }
}

/// No entry: the message is new, unless it is so old that its entry may have been purged.
fn absent(key: &Key, store: &Store, context: &Context<'_>) -> StoreDecision {
    let policy = context.policy;
    let refused = |rejection| StoreDecision { answer: Err(rejection), write: None };
    if let Some(reason) = doubtful(policy) {
        return refused(refusal_by(policy, reason));
    }
    if context.clock_ahead {
        return refused(ClockFault::Ahead.refusal());
    }
    if let Some((window, occurred_at)) = outside_window(store.occurred_at, context) {
        return verdict(StoreVerdict::OutsideWindow { window, occurred_at });
    }
    if policy.backlog_full {
        return refused(refusal_by(policy, Reason::BacklogFull));
    }
    if let Some(fault) = ClockFault::behind(context) {
        return refused(fault.refusal());
    }
    let mut next = Entry::blank(key, policy, context.now);
    next.token = context.next_token(0);
    next.closed_by = ClosedBy::Store;
    next.closed_at = Some(context.now);
    store.traceparent.clone_into(&mut next.traceparent);
    kept(next, None, store, context)
}

/// The entry gets the message; nothing else of it changes.
fn attach(entry: &Entry, store: &Store, context: &Context<'_>) -> StoreDecision {
    let policy = context.policy;
    let full = policy.backlog_full.then_some(Reason::BacklogFull);
    if let Some(reason) = doubtful(policy).or(full) {
        let rejection = Rejection { state: Some(entry.state), ..refusal_by(policy, reason) };
        return StoreDecision { answer: Err(rejection), write: None };
    }
    kept(entry.clone(), Some(entry), store, context)
}

/// The message is kept, and its fingerprint pinned unless one is pinned already.
fn kept(mut next: Entry, before: Option<&Entry>, store: &Store, context: &Context<'_>) -> StoreDecision {
    next.body = Some(Body::Kept);
    let is_pinned = !next.fingerprint.is_empty() && !next.unpinned;
    if context.policy.fingerprint != FingerprintMode::Ignore && !is_pinned {
        next.fingerprint = store.fingerprint.clone();
        next.unpinned = false;
    }
    next.version = next_version(before, context);
    next.updated_at = context.now;
    set_ends(&mut next, context.policy);
    StoreDecision { answer: Ok(StoreVerdict::Stored { state: next.state }), write: Some(next) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OccurredAtMode;

    /// The instant of a message is compared when it is inserted: at instant zero it only counts as given.
    #[test]
    fn store_of_an_absent_key_is_valid_until_its_window_ends() {
        let (key, made) = (Key::new("payments", "shop", "order-1"), StoreTime(1_780_000_000_000_000));
        let inbox = Policy { inbox: true, ..Policy::default() };
        let asks = Policy { occurred_at: OccurredAtMode::Require, ..inbox.clone() };
        for (occurred_at, policy, until) in [
            (None, &inbox, StoreTime::MAX),
            (Some(made), &inbox, made + inbox.retention - Span(1)),
            (Some(made), &asks, made + inbox.retention - Span(1)),
            // Long before the release: it is outside the window of each insert.
            (Some(StoreTime(5)), &inbox, StoreTime(5) + inbox.retention - Span(1)),
        ] {
            let message = Store { fingerprint: Bytes::new(), occurred_at, traceparent: String::new() };
            let (decision, valid) = store_absent(&key, &message, policy, 1);
            assert!(decision.write.is_some());
            assert_eq!(decision.answer, Ok(StoreVerdict::Stored { state: State::Received }));
            assert_eq!(valid, until, "{occurred_at:?}");
        }
    }

    /// The entry of a message from before the window floor may have been purged: the message is not new.
    #[test]
    fn store_from_before_the_window_floor_writes_nothing() {
        let (key, floor) = (Key::new("payments", "shop", "order-1"), StoreTime(1_780_000_000_000_000));
        let policy = Policy { inbox: true, window_floor: floor, ..Policy::default() };
        for (occurred_at, new) in [
            (None, true),
            (Some(floor + Span(1)), true),
            (Some(floor), false),
            (Some(floor - Span(1)), false),
        ] {
            let message = Store { fingerprint: Bytes::new(), occurred_at, traceparent: String::new() };
            let (decision, _) = store_absent(&key, &message, &policy, 1);
            assert_eq!(decision.write.is_some(), new, "{occurred_at:?}");
        }
    }
}

//! Operators' changes: the table of docs/contract.md, section 6.

use bytes::Bytes;

use super::context::Context;
use super::entry::{ClosedBy, Entry, ParkCause, State};
use super::reason::{Reason, Rejection};
use super::{Key, StoreTime, retention};

/// What an operator asks for. Each names the version that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The version of the entry as the operator saw it; 0: there was none.
    pub expected_version: i64,
    /// What shall be done.
    pub action: Action,
    /// The danger is understood: see where each action asks for it.
    pub force: bool,
}

/// What shall be done to an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// It shall be processed again.
    Redrive {
        /// The next claim may bring another payload.
        drop_fingerprint: bool,
        /// Make the entry if there is none: after `outside_window`.
        admit: bool,
    },
    /// No grants, until somebody looks at it.
    Park,
    /// What became of it is known.
    Resolve(Resolution),
    /// It shall be forgotten: later deliveries are new.
    Delete,
}

/// What became of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolution {
    /// The effect happened.
    Completed {
        /// What later deliveries shall be answered.
        result: Bytes,
    },
    /// It will never succeed.
    FailedTerminal {
        /// Why.
        error: String,
    },
    /// The effect did not happen: process it again.
    Received,
}

/// What an allowed change makes of the entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Changed {
    /// The entry as it must stand then.
    Entry(Box<Entry>),
    /// No entry any more.
    Gone,
}

/// Decides an operator's change.
///
/// # Errors
/// `ENTRY_NOT_FOUND`, `VERSION_MISMATCH`, `STATE_NOT_ALLOWED`, `STORE_CLOCK_BEHIND`.
pub fn operate(
    key: &Key,
    entry: Option<&Entry>,
    change: &Change,
    context: &Context<'_>,
) -> Result<Changed, Rejection> {
    let Some(entry) = entry else {
        return absent(key, change, context);
    };
    if change.expected_version != entry.version {
        return Err(Rejection::in_state(
            Reason::VersionMismatch,
            entry.state,
            format!(
                "the entry has version {}, not the expected {}: it was changed since; look at it again",
                entry.version, change.expected_version
            ),
        ));
    }
    let mut next = match &change.action {
        Action::Park => park(entry, context)?,
        Action::Redrive { drop_fingerprint, .. } => {
            permitted(entry, change, context)?;
            redrive(entry, *drop_fingerprint, context)
        }
        Action::Resolve(resolution) => {
            permitted(entry, change, context)?;
            resolve(entry, resolution, context)
        }
        Action::Delete => return delete(entry, change, context),
    };
    next.version = entry.version + 1;
    next.updated_at = context.now;
    next.retain_until = retention::retain_until(&next, context.policy);
    Ok(Changed::Entry(Box::new(next)))
}

fn absent(key: &Key, change: &Change, context: &Context<'_>) -> Result<Changed, Rejection> {
    if !matches!(change.action, Action::Redrive { admit: true, .. }) {
        return Err(Rejection::new(
            Reason::EntryNotFound,
            "there is no entry for this key; a redrive with `admit` would make one, so that the message is \
             processed although it is outside the window",
        ));
    }
    if change.expected_version != 0 {
        return Err(Rejection::new(
            Reason::VersionMismatch,
            format!("there is no entry, not one of version {}: look again", change.expected_version),
        ));
    }
    if context.clock_behind {
        return Err(clock_behind());
    }
    let mut next = Entry::blank(key, context.policy, context.now);
    next.token = context.next_token(0);
    next.closed_by = ClosedBy::Operator;
    next.closed_at = Some(context.now);
    next.purge_at = retention::first_purge_at(context.policy, context.now);
    next.version = context.first_version();
    next.retain_until = retention::retain_until(&next, context.policy);
    Ok(Changed::Entry(Box::new(next)))
}

/// The holder may be at work this very moment.
fn at_work(entry: &Entry, now: StoreTime) -> bool {
    entry.unsettled() && now < entry.lease_until + entry.grace
}

/// Redrive and Resolve need force where a second effect is near.
fn permitted(entry: &Entry, change: &Change, context: &Context<'_>) -> Result<(), Rejection> {
    if change.force {
        return Ok(());
    }
    if entry.state == State::Completed {
        return Err(not_allowed(
            entry,
            "it is COMPLETED: with `force` the message could have its effect twice",
        ));
    }
    if at_work(entry, context.now) {
        return Err(not_allowed(
            entry,
            "its last claim is unsettled and its lease is not over, so that its holder may be at work: wait, or use \
             `force`",
        ));
    }
    Ok(())
}

/// The claim is forgotten: no token and no `claim_id` of the past works any more.
fn forget_claim(entry: &Entry, state: State, context: &Context<'_>) -> Entry {
    let mut next = entry.clone();
    next.remember(context.now);
    next.token = context.next_token(entry.token);
    next.state = state;
    next.closed_by = ClosedBy::Operator;
    next.closed_at = Some(context.now);
    next.parked_at = None;
    next.claimant = None;
    next.rearmed = false;
    next.prior_effect_started |= entry.effect_started;
    next.effect_started = false;
    next.result = Bytes::new();
    next
}

fn redrive(entry: &Entry, drop_fingerprint: bool, context: &Context<'_>) -> Entry {
    let mut next = forget_claim(entry, State::Received, context);
    next.attempts = 0;
    next.not_before = context.now;
    next.effect_unknown |= entry.unsettled();
    if drop_fingerprint {
        next.fingerprint = Bytes::new();
    }
    next
}

fn resolve(entry: &Entry, resolution: &Resolution, context: &Context<'_>) -> Entry {
    let at_work = at_work(entry, context.now);
    match resolution {
        Resolution::Completed { result } => {
            let mut next = forget_claim(entry, State::Completed, context);
            next.effect_unknown = false;
            next.result = result.clone();
            next
        }
        Resolution::FailedTerminal { error } => {
            let mut next = forget_claim(entry, State::FailedTerminal, context);
            next.effect_unknown = false;
            error.clone_into(&mut next.last_error);
            next
        }
        Resolution::Received => {
            let mut next = forget_claim(entry, State::Received, context);
            next.attempts = 0;
            next.not_before = context.now;
            // What a holder that is still at work will do, nobody can know yet.
            next.effect_unknown = at_work;
            next.prior_effect_started &= at_work;
            next
        }
    }
}

fn park(entry: &Entry, context: &Context<'_>) -> Result<Entry, Rejection> {
    match entry.state {
        State::Received | State::InProgress | State::FailedRetryable => {}
        State::Completed | State::FailedTerminal | State::Parked(_) => {
            return Err(not_allowed(entry, "only RECEIVED, IN_PROGRESS and FAILED_RETRYABLE can be parked"));
        }
    }
    let mut next = entry.clone();
    next.state = State::Parked(ParkCause::Operator);
    next.parked_at = Some(context.now);
    if entry.closed_by == ClosedBy::Open {
        next.closed_by = ClosedBy::OperatorPark;
        next.closed_at = Some(context.now);
    }
    Ok(next)
}

fn delete(entry: &Entry, change: &Change, context: &Context<'_>) -> Result<Changed, Rejection> {
    let again = entry.state == State::Completed || entry.unsettled() || entry.effect_doubtful();
    if again && !change.force {
        return Err(not_allowed(
            entry,
            "its effect happened, or may have happened: once it is deleted a later delivery is new and has its \
             effect again; `force` deletes it all the same",
        ));
    }
    // As with the purge: a later token or version of this key must not be lower.
    if context.clock_behind {
        return Err(clock_behind());
    }
    if !retention::forgettable(entry, context.token_clock()) {
        return Err(Rejection::new(
            Reason::TooRecent,
            "what was handed out for this key is less than a minute old, so that the entry cannot be forgotten yet; \
             nothing was changed: try again in a minute",
        ));
    }
    Ok(Changed::Gone)
}

fn not_allowed(entry: &Entry, why: &str) -> Rejection {
    Rejection::in_state(Reason::StateNotAllowed, entry.state, format!("{why}; nothing was changed"))
}

fn clock_behind() -> Rejection {
    Rejection::new(
        Reason::StoreClockBehind,
        "the store's clock runs behind what it showed before; nothing was changed: wait until it has caught up, or \
         have token_offset raised",
    )
}

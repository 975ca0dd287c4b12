//! Operators' changes: the table of docs/contract.md, section 6.

use bytes::Bytes;

use super::body::Body;
use super::clock_fault::ClockFault;
use super::context::Context;
use super::entry::{ClosedBy, Entry, ParkCause, State};
use super::preconditions::refusal;
use super::reason::{Reason, Rejection};
use super::{Key, Reading, StoreTime, retention};

/// What an operator asks for. Each change names the version that the operator saw.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The version of the entry as the operator saw it; 0 if there was no entry.
    pub expected_version: i64,
    /// The change to make.
    pub action: Action,
    /// The operator accepts the danger: see where each action asks for it.
    pub force: bool,
}

/// A change of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Process the message again.
    Redrive {
        /// The next claim may bring another payload.
        drop_fingerprint: bool,
        /// Make the entry if it does not exist: after `outside_window`.
        admit: bool,
    },
    /// Grant no claims until a person looks at it.
    Park,
    /// Record the outcome, which the operator knows.
    Resolve(Resolution),
    /// Forget it: later deliveries are new.
    Delete,
}

/// The outcome of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolution {
    /// The effect happened.
    Completed {
        /// What later deliveries are answered.
        result: Bytes,
    },
    /// No attempt will ever succeed.
    FailedTerminal {
        /// Why.
        error: String,
    },
    /// The effect did not happen: process it again.
    Received,
}

/// A kind of change, whatever its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// [`Action::Redrive`].
    Redrive,
    /// [`Action::Resolve`]: the rule is the same for each resolution.
    Resolve,
    /// [`Action::Park`].
    Park,
    /// [`Action::Delete`].
    Delete,
}

impl ChangeKind {
    /// All kinds.
    pub const ALL: [ChangeKind; 4] =
        [ChangeKind::Redrive, ChangeKind::Resolve, ChangeKind::Park, ChangeKind::Delete];
}

impl Action {
    /// The kind of this action.
    #[must_use]
    pub fn kind(&self) -> ChangeKind {
        match self {
            Action::Redrive { .. } => ChangeKind::Redrive,
            Action::Park => ChangeKind::Park,
            Action::Resolve(_) => ChangeKind::Resolve,
            Action::Delete => ChangeKind::Delete,
        }
    }
}

/// A change that an entry allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AllowedChange {
    /// Which change.
    pub kind: ChangeKind,
    /// It is only allowed with `force`.
    pub needs_force: bool,
}

/// The changes that an entry allows at this reading of the store's clock, each once.
#[must_use]
pub fn allowed_changes(entry: &Entry, reading: &Reading) -> Vec<AllowedChange> {
    let clock = Clock { now: reading.now, for_tokens: reading.token_clock(), fault: ClockFault::of(reading) };
    let allowed = ChangeKind::ALL.into_iter().map(|kind| (kind, obstacles(entry, kind, clock)));
    let allowed = allowed.filter(|(_, obstacles)| obstacles.refusal.is_none());
    allowed.map(|(kind, obstacles)| AllowedChange { kind, needs_force: obstacles.danger.is_some() }).collect()
}

/// The part of the store's clock that the rules use.
#[derive(Clone, Copy)]
struct Clock {
    now: StoreTime,
    /// Clock + offset.
    for_tokens: i64,
    /// Why nothing may be made or forgotten by this clock; `None` if it is sound.
    fault: Option<ClockFault>,
}

/// What prevents a change.
#[derive(Default)]
struct Obstacles {
    /// Why it needs `force`; `None` if it does not.
    danger: Option<&'static str>,
    /// Why it is refused, even with `force`; `None` if it is not.
    refusal: Option<Rejection>,
}

/// The table of what each state of an entry allows.
fn obstacles(entry: &Entry, kind: ChangeKind, clock: Clock) -> Obstacles {
    match kind {
        ChangeKind::Redrive | ChangeKind::Resolve => {
            Obstacles { danger: second_effect_near(entry, clock.now), refusal: None }
        }
        ChangeKind::Park => Obstacles { danger: None, refusal: not_parkable(entry) },
        ChangeKind::Delete => {
            Obstacles { danger: effect_possible(entry), refusal: not_forgettable(entry, clock) }
        }
    }
}

/// The outcome of an allowed change.
#[derive(Clone, Debug, PartialEq)]
pub enum Changed {
    /// The entry as it must be stored.
    Entry(Box<Entry>),
    /// The entry is deleted.
    Gone,
}

/// Decides an operator's change.
///
/// # Errors
/// `ENTRY_NOT_FOUND`, `VERSION_MISMATCH`, `STATE_NOT_ALLOWED`, `STORE_CLOCK_BEHIND`, `TOO_RECENT`, `ENTRY_UNREADABLE`.
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
    permitted(entry, change, context)?;
    let makes_a_token = matches!(change.action, Action::Redrive { .. } | Action::Resolve(_));
    if makes_a_token && context.tokens_are_used_up(entry.token) {
        return Err(refusal(Reason::EntryUnreadable));
    }
    let next = match &change.action {
        Action::Park => park(entry, context),
        Action::Redrive { drop_fingerprint, .. } => redrive(entry, *drop_fingerprint, context),
        Action::Resolve(resolution) => resolve(entry, resolution, context),
        Action::Delete => return Ok(Changed::Gone),
    };
    Ok(Changed::Entry(Box::new(changed(next, entry, context))))
}

/// The entry after a change, as it must be stored in place of the one before.
pub(super) fn changed(mut next: Entry, before: &Entry, context: &Context<'_>) -> Entry {
    next.version = before.version + 1;
    next.updated_at = context.now;
    retention::set_ends(&mut next, context.policy);
    next
}

fn absent(key: &Key, change: &Change, context: &Context<'_>) -> Result<Changed, Rejection> {
    if !matches!(change.action, Action::Redrive { admit: true, .. }) {
        return Err(Rejection::new(
            Reason::EntryNotFound,
            "this key has no entry; a redrive with `admit` would make one, so that the message is \
             processed although it is outside the window",
        ));
    }
    // The purge removes the entries of a run once the run is over: an entry that was added later would stay
    // forever.
    if key.is_of_run() {
        return Err(Rejection::new(
            Reason::EntryNotFound,
            "this key has no entry in its replay run, and `admit` makes none: a run has no window that a \
             message could be outside of",
        ));
    }
    if change.expected_version != 0 {
        return Err(Rejection::new(
            Reason::VersionMismatch,
            format!("this key has no entry, so none of version {}: look again", change.expected_version),
        ));
    }
    if let Some(fault) = ClockFault::of_context(context) {
        return Err(fault.refusal());
    }
    let mut next = Entry::blank(key, context.policy, context.now);
    next.token = context.next_token(0);
    next.closed_by = ClosedBy::Operator;
    next.closed_at = Some(context.now);
    next.version = context.first_version();
    retention::set_ends(&mut next, context.policy);
    Ok(Changed::Entry(Box::new(next)))
}

/// The holder may be processing the message at this moment.
pub(super) fn at_work(entry: &Entry, now: StoreTime) -> bool {
    entry.unsettled() && now < entry.lease_until + entry.grace
}

/// Whether the entry allows the change at this moment.
fn permitted(entry: &Entry, change: &Change, context: &Context<'_>) -> Result<(), Rejection> {
    let clock =
        Clock { now: context.now, for_tokens: context.token_clock(), fault: ClockFault::of_context(context) };
    let Obstacles { danger, refusal } = obstacles(entry, change.action.kind(), clock);
    match danger.or_else(|| message_lost(entry, &change.action)) {
        Some(danger) if !change.force => Err(not_allowed(entry, danger)),
        Some(_) | None => refusal.map_or(Ok(()), Err),
    }
}

/// Why Redrive and Resolve need force: a second effect is possible.
fn second_effect_near(entry: &Entry, now: StoreTime) -> Option<&'static str> {
    if entry.state == State::Completed {
        return Some("it is COMPLETED: with `force` the message could have its effect twice");
    }
    at_work(entry, now).then_some(
        "its last claim is unsettled and its lease is not over, so that its holder may be at work: wait, or use \
         `force`",
    )
}

/// Why a Redrive that drops the fingerprint needs force: it takes the stored message with it, of which no broker has another copy.
fn message_lost(entry: &Entry, action: &Action) -> Option<&'static str> {
    let drops = matches!(action, Action::Redrive { drop_fingerprint: true, .. });
    (drops && entry.body == Some(Body::Kept)).then_some(
        "the ledger keeps its message, which was acknowledged to the broker: without its fingerprint the message is erased, and \
         only another Store brings it back; `force` drops it all the same",
    )
}

/// Why Delete needs force: the effect happened, or may have happened.
fn effect_possible(entry: &Entry) -> Option<&'static str> {
    if entry.body == Some(Body::Kept) && entry.state != State::Completed {
        return Some(
            "the ledger keeps its message, which was acknowledged to the broker: once it is deleted no consumer processes it; \
             `force` deletes it all the same",
        );
    }
    (entry.state == State::Completed || entry.effect_doubtful()).then_some(
        "its effect happened, or may have happened: once it is deleted a later delivery is new and has its effect \
         again; `force` deletes it all the same",
    )
}

/// Why the entry cannot be parked.
fn not_parkable(entry: &Entry) -> Option<Rejection> {
    match entry.state {
        State::Received | State::InProgress | State::FailedRetryable => None,
        State::Completed | State::FailedTerminal | State::Parked(_) => {
            Some(not_allowed(entry, "only RECEIVED, IN_PROGRESS and FAILED_RETRYABLE can be parked"))
        }
    }
}

/// Why the entry cannot be deleted now. As in a purge, a later token or version of this key must not be
/// lower.
fn not_forgettable(entry: &Entry, clock: Clock) -> Option<Rejection> {
    if let Some(fault) = clock.fault {
        return Some(fault.refusal());
    }
    let stored_lately = entry.body.is_some() && entry.updated_at + retention::SETTLED > clock.now;
    (stored_lately || !retention::forgettable(entry, clock.for_tokens)).then(too_recent)
}

pub(super) fn too_recent() -> Rejection {
    Rejection::new(
        Reason::TooRecent,
        "what was handed out for this key is less than a minute old, so that the entry cannot be forgotten yet; \
         nothing was changed: try again in a minute",
    )
}

/// The entry without its claim: no token and no `claim_id` of the past is valid any more.
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
    next.result_dropped = false;
    if next.unpinned {
        next.fingerprint = Bytes::new();
        next.unpinned = false;
    }
    next
}

fn redrive(entry: &Entry, drop_fingerprint: bool, context: &Context<'_>) -> Entry {
    let mut next = forget_claim(entry, State::Received, context);
    next.attempts = 0;
    next.not_before = context.now;
    next.effect_unknown |= entry.unsettled();
    if drop_fingerprint {
        next.fingerprint = Bytes::new();
        // The message that is stored has the fingerprint that was wrong: only a new delivery brings another one.
        next.body = entry.body.map(|_| Body::Erased);
    }
    next
}

fn resolve(entry: &Entry, resolution: &Resolution, context: &Context<'_>) -> Entry {
    let at_work = at_work(entry, context.now);
    match resolution {
        Resolution::Completed { result } => completed(entry, result, context),
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
            // The outcome of a holder that is still at work cannot be known yet.
            next.effect_unknown = at_work;
            next.prior_effect_started &= at_work;
            next
        }
    }
}

/// The entry with its effect known to be done, by the word of an operator.
pub(super) fn completed(entry: &Entry, result: &Bytes, context: &Context<'_>) -> Entry {
    let mut next = forget_claim(entry, State::Completed, context);
    next.effect_unknown = false;
    next.result = result.clone();
    next
}

fn park(entry: &Entry, context: &Context<'_>) -> Entry {
    let mut next = entry.clone();
    next.state = State::Parked(ParkCause::Operator);
    next.parked_at = Some(context.now);
    if entry.closed_by == ClosedBy::Open {
        next.closed_by = ClosedBy::OperatorPark;
        next.closed_at = Some(context.now);
    }
    next
}

fn not_allowed(entry: &Entry, why: &str) -> Rejection {
    Rejection::in_state(Reason::StateNotAllowed, entry.state, format!("{why}; nothing was changed"))
}

#[cfg(test)]
mod tests;

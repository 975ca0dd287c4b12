//! What the stored rows mean: counts, and which of them a filter lets through, by the text of `docs/contract.md` and the protobuf
//! files.

use std::collections::{BTreeMap, BTreeSet};

use idempotency_ledger::domain::{Body, Entry, ParkCause, State, StoreTime};
use idempotency_ledger::proto::{self, EntryState};

/// A state and its cause, by their numbers in the protobuf files; 0: no cause.
pub(super) type Kind = (i32, i32);

pub(super) const STATES: std::ops::RangeInclusive<i32> = 1..=6;
pub(super) const CAUSES: std::ops::RangeInclusive<i32> = 1..=5;

pub(super) fn kind(entry: &Entry) -> Kind {
    let cause = |cause: proto::ParkCause| (EntryState::Parked.into(), cause.into());
    match entry.state {
        State::Received => (EntryState::Received.into(), 0),
        State::InProgress => (EntryState::InProgress.into(), 0),
        State::FailedRetryable => (EntryState::FailedRetryable.into(), 0),
        State::Completed => (EntryState::Completed.into(), 0),
        State::FailedTerminal => (EntryState::FailedTerminal.into(), 0),
        State::Parked(ParkCause::AttemptsExhausted) => cause(proto::ParkCause::AttemptsExhausted),
        State::Parked(ParkCause::LeaseExpired) => cause(proto::ParkCause::LeaseExpired),
        State::Parked(ParkCause::EffectUnknown) => cause(proto::ParkCause::EffectUnknown),
        State::Parked(ParkCause::Consumer) => cause(proto::ParkCause::Consumer),
        State::Parked(ParkCause::Operator) => cause(proto::ParkCause::Operator),
    }
}

/// Since when a claim is expired; `None` if it is not.
fn expired_since(entry: &Entry, now: StoreTime) -> Option<StoreTime> {
    let over = entry.lease_until + entry.grace;
    (entry.state == State::InProgress && over <= now).then_some(over)
}

/// The microseconds since then, in whole milliseconds: more would reveal tokens.
pub(super) fn age(now: StoreTime, since: StoreTime) -> i64 {
    let age = (now - since).micros();
    age - age.rem_euclid(1_000)
}

/// The counts of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// The number of entries of each kind, and the age of the oldest one in microseconds, except of COMPLETED.
    pub(super) kinds: BTreeMap<Kind, (i64, Option<i64>)>,
    pub(super) expired: i64,
    pub(super) longest_expired: Option<i64>,
    pub(super) near_exhaustion: i64,
    pub(super) doubled: i64,
    /// Stored messages that are due, and that are due later; and for how long the oldest one has been due, unless it is due now.
    pub(super) inbox: (i64, i64, Option<i64>),
}

impl Counts {
    /// The number of entries in a state, whatever their cause.
    pub(super) fn of_state(&self, state: i32) -> i64 {
        self.kinds.iter().filter(|((one, _), _)| *one == state).map(|(_, (count, _))| count).sum()
    }

    /// The age of the oldest entry in one of these states, in seconds; 0 without one.
    pub(super) fn oldest(&self, states: &[EntryState]) -> i64 {
        let fit = |state: i32| states.iter().any(|one| i32::from(*one) == state);
        let ages = self.kinds.iter().filter(|((state, _), _)| fit(*state));
        ages.filter_map(|(_, (_, age))| *age).max().unwrap_or_default().max(0) / 1_000_000
    }
}

/// The counts of these entries; `max_attempts` is that of their policy.
pub(super) fn counts<'e>(
    entries: impl Iterator<Item = &'e Entry>,
    max_attempts: i32,
    now: StoreTime,
) -> Counts {
    let mut all = Counts::default();
    for entry in entries {
        let oldest = (entry.state != State::Completed).then(|| age(now, entry.created_at));
        let one = all.kinds.entry(kind(entry)).or_insert((0, oldest));
        *one = (one.0 + 1, one.1.max(oldest));
        if let Some(since) = expired_since(entry, now) {
            all.expired += 1;
            all.longest_expired = all.longest_expired.max(Some(age(now, since)));
        }
        let open = matches!(entry.state, State::Received | State::InProgress | State::FailedRetryable);
        all.near_exhaustion += i64::from(open && max_attempts > 0 && entry.attempts + 1 >= max_attempts);
        all.doubled += i64::from(entry.doubled);
        let due_for = entry.next_at().map(|at| (now - at).micros());
        all.inbox.0 += i64::from(due_for.is_some_and(|age| age >= 0));
        all.inbox.1 += i64::from(due_for.is_some_and(|age| age < 0));
        all.inbox.2 = all.inbox.2.max(due_for.filter(|age| *age >= 0));
    }
    all
}

pub(super) fn micros(span: prost_types::Duration) -> i64 {
    span.seconds * 1_000_000 + i64::from(span.nanos) / 1_000
}

/// The state of the stored message, by its number in the protobuf files.
fn body(entry: &Entry) -> i32 {
    match entry.body {
        None => proto::MessageState::Unspecified.into(),
        Some(Body::Kept) => proto::MessageState::Kept.into(),
        Some(Body::Erased) => proto::MessageState::Erased.into(),
    }
}

/// Whether an entry fits. Names each field of the filter, so that a new one is not forgotten.
pub(super) fn fits(entry: &Entry, filter: &proto::EntryFilter, now: StoreTime) -> bool {
    let proto::EntryFilter {
        consumer,
        source,
        id_prefix,
        states,
        causes,
        expired,
        min_age,
        max_age,
        replay_run,
        doubled,
        owner,
        error_contains,
        parked_max_age,
        inbox,
    } = filter;
    let (state, cause) = kind(entry);
    let age = (now - entry.created_at).micros();
    let is_at_most =
        |age: i64, most: Option<prost_types::Duration>| most.is_none_or(|most| age <= micros(most));
    (consumer.is_empty() || consumer == entry.key.consumer())
        && replay_run == entry.key.replay_run()
        && (source.is_empty() || source == entry.key.source())
        && entry.key.id().starts_with(id_prefix)
        && (states.is_empty() || states.contains(&state))
        && (causes.is_empty() || causes.contains(&cause))
        && (!expired || expired_since(entry, now).is_some())
        && (!doubled || entry.doubled)
        && (*inbox == 0 || *inbox == body(entry))
        && min_age.is_none_or(|least| age >= micros(least))
        && is_at_most(age, *max_age)
        && (owner.is_empty() && error_contains.is_empty() || entry.state != State::Completed)
        && (owner.is_empty() || entry.claimant.as_ref().is_some_and(|claimant| claimant.owner == *owner))
        && entry.last_error.contains(error_contains)
        && (parked_max_age.is_none()
            || entry.parked_at.is_some_and(|at| is_at_most((now - at).micros(), *parked_max_age)))
}

/// The stored entries; and what the walk has seen of all that there may be.
#[derive(Clone, Default)]
pub(super) struct Rows {
    pub(super) entries: Vec<Entry>,
    seen: BTreeSet<String>,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "saw {}", self.seen.iter().cloned().collect::<Vec<_>>().join(", "))
    }
}

impl Rows {
    pub(super) fn new(entries: Vec<Entry>, now: StoreTime) -> Rows {
        let mut seen = BTreeSet::new();
        for entry in &entries {
            let (state, cause) = entry.state.words();
            seen.insert(cause.unwrap_or(state).to_owned());
            seen.extend(expired_since(entry, now).map(|_| "expired".to_owned()));
            seen.extend(entry.doubled.then(|| "doubled".to_owned()));
            seen.extend(
                entry.next_at().map(|at| if at <= now { "due".to_owned() } else { "due later".to_owned() }),
            );
            seen.extend((entry.body == Some(Body::Erased)).then(|| "erased".to_owned()));
            seen.extend((!entry.last_error.is_empty()).then(|| "error".to_owned()));
        }
        Rows { entries, seen }
    }

    /// The entries outside of replay runs, which the metrics count.
    pub(super) fn live(&self, now: StoreTime) -> Rows {
        let live = |entry: &&Entry| entry.key.replay_run().is_empty();
        Rows::new(self.entries.iter().filter(live).cloned().collect(), now)
    }

    /// Whether these rows have a kind that the others do not have.
    pub(super) fn has_more_than(&self, others: &Rows) -> bool {
        !self.seen.is_subset(&others.seen)
    }

    /// With what these rows show, too.
    pub(super) fn or(mut self, other: Rows) -> Rows {
        self.seen.extend(other.seen);
        Rows { entries: other.entries, ..self }
    }

    /// What a walk must come to, and this one has not.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        const ALL: [&str; 16] = [
            "RECEIVED",
            "IN_PROGRESS",
            "FAILED_RETRYABLE",
            "COMPLETED",
            "FAILED_TERMINAL",
            "ATTEMPTS_EXHAUSTED",
            "LEASE_EXPIRED",
            "EFFECT_UNKNOWN",
            "CONSUMER",
            "OPERATOR",
            "expired",
            "doubled",
            "due",
            "due later",
            "erased",
            "error",
        ];
        ALL.into_iter().filter(|one| !self.seen.contains(*one)).collect()
    }
}

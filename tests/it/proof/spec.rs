//! The rules of docs/contract.md, sections 4, 5 and 8, once more, written from the text and not from
//! the core: the two check each other. Plain data, plain `if`s, one row for one key, microseconds everywhere.
//! Only the nouns (states, policies) are shared. Long because it is read beside the contract.

// Also a module of `rules.rs`, which finds it by its path alone.
#[path = "spec/inbox.rs"]
pub(crate) mod inbox;

use idempotency_ledger_domain::{
    Body, ClosedBy, FailureKind, FingerprintMode, OccurredAtMode, OnExpiry, ParkCause, Policy, ReplayMode,
    RunMode, Standing, State,
};

pub(crate) use self::inbox::{Look, erased, hand_out, handed_again, next_at, store, suspect};

/// What a client asks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    Claim {
        who: (u128, String),
        lease: Option<i64>,
        print: Vec<u8>,
        occurred_at: Option<i64>,
    },
    /// Where the result is `too_large`, or left out for that, it is empty here.
    Complete {
        token: i64,
        result: Vec<u8>,
        too_large: bool,
    },
    Fail {
        token: i64,
        kind: FailureKind,
        error: String,
        retry_after: Option<i64>,
    },
    Release {
        token: i64,
        delay: i64,
        unpin: bool,
    },
    /// Where the checkpoint is `too_large`, it is `None` here.
    Renew {
        token: i64,
        lease: Option<i64>,
        started: bool,
        checkpoint: Option<Vec<u8>>,
        too_large: bool,
    },
    Lookup,
    Store {
        print: Vec<u8>,
        occurred_at: Option<i64>,
    },
}

/// What the ledger says.
#[derive(Clone, Debug, PartialEq)]
#[rustfmt::skip]
pub(crate) enum Said {
    Acquired { token: i64, attempt: i32, lease: i64, hold: i64, on_expiry: OnExpiry, replayed: bool, effect_unknown: bool, prior_effect_started: bool,
        checkpoint: Vec<u8>, last_error: String, attempts_left: Option<i32> },
    Completed { result: Vec<u8>, expired: bool, dropped: bool, at: i64, attempt: i32, by_this_claim: bool, unverified: bool },
    InProgress { owner: String, attempt: i32, lease: i64, retry_after: i64 },
    Backoff { attempts_left: Option<i32>, last_error: String, retry_after: i64 },
    Failed { error: String, at: i64 },
    Parked { cause: ParkCause, error: String, at: i64 },
    Mismatch { expected: Vec<u8>, presented: Vec<u8> },
    Outside { window: i64, occurred_at: i64 },
    Suppressed { run: String },
    CompleteOk { replayed: bool, late: bool, dropped: bool },
    FailOk { state: State, retry_after: Option<i64>, attempts_left: Option<i32>, replayed: bool },
    ReleaseOk { replayed: bool, unpinned: bool },
    RenewOk { lease: i64, hold: i64, on_expiry: OnExpiry, revived: bool, dropped: bool },
    Stored { state: State, before: bool },
    StoredDone { at: i64 },
    Found { state: Option<State>, attempt: i32, holds: Option<Box<Said>> },
    Error { reason: String, state: Option<State> },
}

/// What is known of a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) state: State,
    pub(crate) by: ClosedBy,
    pub(crate) token: i64,
    pub(crate) who: Option<(u128, String)>,
    pub(crate) lease_until: i64,
    pub(crate) grace: i64,
    pub(crate) hold_until: i64,
    pub(crate) on_expiry: OnExpiry,
    pub(crate) retention: i64,
    pub(crate) rearmed: bool,
    pub(crate) started: bool,
    pub(crate) prior: bool,
    pub(crate) unknown: bool,
    pub(crate) checkpoint: Vec<u8>,
    pub(crate) attempts: i32,
    pub(crate) not_before: i64,
    pub(crate) error: String,
    pub(crate) print: Vec<u8>,
    /// The last Release has marked the fingerprint.
    pub(crate) unpinned: bool,
    pub(crate) result: Vec<u8>,
    /// There was a result, too large to be stored.
    pub(crate) dropped: bool,
    /// The state of the stored message.
    pub(crate) body: Option<Body>,
    /// When the stored message is erased. `None` if none is kept, or it is still needed.
    pub(crate) erase_at: Option<i64>,
    pub(crate) closed_at: i64,
    pub(crate) parked_at: i64,
    pub(crate) changed_at: i64,
    /// Not to be forgotten before this instant; none: never.
    pub(crate) keep_until: Option<i64>,
    /// The last ten claims before the current or last one, oldest first.
    pub(crate) past: Vec<Past>,
    /// How many claims were ever marked as reported done.
    pub(crate) marks: i32,
    /// Two claims have reported the effect as done, one of them by a mark.
    pub(crate) doubled: bool,
}

/// A claim of the past.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Past {
    pub(crate) token: Option<i64>,
    /// It ended by COMPLETE.
    pub(crate) completed: bool,
    /// Its lease ran out.
    pub(crate) expired: bool,
    /// It is marked as reported done.
    pub(crate) marked: bool,
}

/// What surrounds a step. `choice` is the token that was observed: the spec says which tokens a
/// grant may have, not which one it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) now: i64,
    pub(crate) offset: i64,
    pub(crate) behind: bool,
    pub(crate) ahead: bool,
    pub(crate) choice: i64,
}

/// The replay run of every key that is of one.
pub(crate) const RUN: &str = "r";
const REMEMBERED: usize = 10;
const SECOND: i64 = 1_000_000;
const MARGIN: i64 = 3_600 * SECOND;
/// What was handed out so lately is not forgotten: a later token of the key is certainly higher.
const MINUTE: i64 = 60 * SECOND;
/// A position in a batch is at most this.
const POSITION_MAX: i64 = 1_000;

fn error(reason: &str, state: Option<State>) -> Said {
    Said::Error { reason: reason.to_owned(), state }
}

/// One step: what is said, and what is known then.
pub(crate) fn step(row: Option<&Row>, op: &Op, world: &World<'_>) -> (Said, Option<Row>) {
    let before = row.cloned();
    let (said, after) = match op {
        Op::Claim { .. } => claim(row, op, world),
        Op::Lookup => (lookup(row, world), None),
        Op::Store { print, occurred_at } => return store(row, (print, *occurred_at), world),
        Op::Complete { token, .. }
        | Op::Fail { token, .. }
        | Op::Release { token, .. }
        | Op::Renew { token, .. } => match row {
            None => (error("ENTRY_NOT_FOUND", None), None),
            Some(row) if *token < row.token => {
                let reports = matches!(op, Op::Complete { .. });
                // It is refused; the mark does not change the message.
                let marked = if reports { mark(row, *token) } else { None };
                return (error("LEASE_LOST", Some(row.state)), marked.or(before));
            }
            Some(row) if *token > row.token => (error("TOKEN_FROM_FUTURE", Some(row.state)), None),
            Some(row) => settle(row, op, world),
        },
    };
    (said, after.map(|after| changed(after, world)).or(before))
}

/// A row that has changed now.
fn changed(mut after: Row, world: &World<'_>) -> Row {
    after.changed_at = world.now;
    let (from, keep) = keep(&after, world.policy);
    after.keep_until = keep.map(|keep| from + keep.max(after.retention));
    after.erase_at = inbox::erase_at(&after, world.policy);
    after
}

/// The row with a mark on the claim of this token. `None` if no claim is marked.
fn mark(row: &Row, token: i64) -> Option<Row> {
    let place = row.past.iter().rposition(|past| past.token == Some(token))?;
    if row.past[place].completed || row.past[place].marked {
        return None;
    }
    let mut after = row.clone();
    after.past[place].marked = true;
    after.marks += 1;
    let others = row.marks > 0 || row.by == ClosedBy::Complete || row.past.iter().any(|past| past.completed);
    after.doubled = row.doubled || others;
    Some(after)
}

/// Whether a step is an alarm: it is a report of the effect, and not the first one. `after` is what is known then.
pub(crate) fn alarms(row: Option<&Row>, op: &Op, after: Option<&Row>) -> bool {
    let (Op::Complete { token, .. }, Some(row), Some(after)) = (op, row, after) else { return false };
    let marked = after.marks > row.marks;
    let closed = *token == row.token && row.by != ClosedBy::Complete && after.by == ClosedBy::Complete;
    (marked || closed) && after.doubled
}

/// The claims of the past, once the last one is among them.
fn with_last(row: &Row) -> Vec<Past> {
    let mut past = row.past.clone();
    if row.who.is_some() {
        let expired = matches!(row.by, ClosedBy::Open | ClosedBy::Expiry);
        past.push(Past {
            token: Some(row.token),
            completed: row.by == ClosedBy::Complete,
            expired,
            marked: false,
        });
    }
    let forgotten = past.len().saturating_sub(REMEMBERED);
    past.split_off(forgotten)
}

fn claim(row: Option<&Row>, op: &Op, world: &World<'_>) -> (Said, Option<Row>) {
    let Op::Claim { who, lease, print, occurred_at } = op else { unreachable!() };
    let (policy, now) = (world.policy, world.now);
    if policy.fingerprint == FingerprintMode::Require && print.is_empty() {
        return (error("INVALID_FIELD", None), None);
    }
    if policy.occurred_at == OccurredAtMode::Require && occurred_at.is_none() {
        return (error("INVALID_FIELD", None), None);
    }
    match policy.run {
        Standing::Live | Standing::Known { mode: RunMode::Rebuild, .. } => {}
        Standing::Unknown => return (error("REPLAY_RUN_UNKNOWN", None), None),
        // Acknowledged unprocessed: only where nothing holds it back.
        Standing::Known { .. } => {
            let said = held(policy, now)
                .map_or_else(|| Said::Suppressed { run: RUN.to_owned() }, |reason| error(reason, None));
            return (said, None);
        }
    }
    let Some(row) = row else {
        // By a clock that has jumped every message would be outside the window.
        if world.ahead {
            return (error("STORE_CLOCK_AHEAD", None), None);
        }
        let start = (now - policy.retention.0).max(policy.window_floor.0);
        return match occurred_at {
            Some(at) if *at <= start && policy.run == Standing::Live => {
                (Said::Outside { window: now - start, occurred_at: *at }, None)
            }
            _ => grant(None, who, *lease, print, world),
        };
    };
    let both = !row.print.is_empty() && !print.is_empty();
    // A marked fingerprint is compared with nothing.
    if !row.unpinned && policy.fingerprint != FingerprintMode::Ignore && both && row.print != *print {
        return (Said::Mismatch { expected: row.print.clone(), presented: print.clone() }, None);
    }
    let same = row.who.as_ref() == Some(who);
    let closed = (error("CLAIM_CLOSED", Some(row.state)), None);
    let left = |used: i32| (policy.max_attempts > 0).then(|| (policy.max_attempts - used).max(0));
    match row.state {
        State::Completed => {
            let expired =
                !world.ahead && !row.result.is_empty() && now >= row.closed_at + policy.result_retention.0;
            let either = !row.print.is_empty() || !print.is_empty();
            let compared = both && policy.fingerprint != FingerprintMode::Ignore;
            let said = Said::Completed {
                result: if expired { Vec::new() } else { row.result.clone() },
                expired,
                dropped: row.dropped,
                at: row.closed_at,
                attempt: row.attempts,
                by_this_claim: same,
                unverified: either && !compared,
            };
            (said, None)
        }
        State::FailedTerminal => (Said::Failed { error: row.error.clone(), at: row.closed_at }, None),
        State::Parked(cause) => (Said::Parked { cause, error: row.error.clone(), at: row.parked_at }, None),
        State::Received | State::FailedRetryable => {
            if same && matches!(row.by, ClosedBy::Release | ClosedBy::FailRetryable) {
                closed
            } else if now < row.not_before {
                let (attempts_left, last_error) = (left(row.attempts), row.error.clone());
                (Said::Backoff { attempts_left, last_error, retry_after: row.not_before - now }, None)
            } else {
                grant(Some(row), who, *lease, print, world)
            }
        }
        State::InProgress if same => {
            let over = now >= row.lease_until;
            if row.started || (over && (row.rearmed || now >= row.hold_until)) {
                return closed;
            }
            let mut after = row.clone();
            if over {
                after.rearmed = true;
                after.lease_until = (now + granted(policy, *lease)).min(row.hold_until);
            }
            (acquired(&after, true, world), over.then_some(after))
        }
        State::InProgress if now < row.lease_until + row.grace => {
            let said = Said::InProgress {
                owner: row.who.as_ref().map(|who| who.1.clone()).unwrap_or_default(),
                attempt: row.attempts,
                lease: (row.lease_until - now).max(0),
                retry_after: row.lease_until + row.grace - now,
            };
            (said, None)
        }
        State::InProgress => {
            let parks = match row.on_expiry {
                OnExpiry::Reclaim => false,
                OnExpiry::Park => true,
                OnExpiry::ParkIfStarted => row.started,
            };
            if !parks {
                grant(Some(&Row { unknown: true, ..row.clone() }), who, *lease, print, world)
            } else if let Some(reason) = held(policy, now) {
                (error(reason, Some(row.state)), None)
            } else if world.ahead {
                (error("STORE_CLOCK_AHEAD", Some(row.state)), None)
            } else {
                let cause = if row.started { ParkCause::EffectUnknown } else { ParkCause::LeaseExpired };
                park(row, cause, now)
            }
        }
    }
}

/// What a Claim would find. Whether anything holds grants back is not asked.
fn lookup(row: Option<&Row>, world: &World<'_>) -> Said {
    let (policy, now) = (world.policy, world.now);
    let nothing = Said::Found { state: None, attempt: 0, holds: None };
    match policy.run {
        Standing::Unknown => return error("REPLAY_RUN_UNKNOWN", None),
        Standing::Known { mode: RunMode::Suppress, .. } => return nothing,
        Standing::Live | Standing::Known { mode: RunMode::Rebuild, .. } => {}
    }
    let Some(row) = row else { return nothing };
    let holds = match row.state {
        State::Received | State::FailedRetryable if now >= row.not_before => None,
        State::Received | State::FailedRetryable => Some(Said::Backoff {
            attempts_left: (policy.max_attempts > 0).then(|| (policy.max_attempts - row.attempts).max(0)),
            last_error: row.error.clone(),
            retry_after: row.not_before - now,
        }),
        State::InProgress => Some(Said::InProgress {
            owner: row.who.as_ref().map(|who| who.1.clone()).unwrap_or_default(),
            attempt: row.attempts,
            lease: (row.lease_until - now).max(0),
            retry_after: (row.lease_until + row.grace - now).max(0),
        }),
        State::Completed => {
            let expired =
                !world.ahead && !row.result.is_empty() && now >= row.closed_at + policy.result_retention.0;
            Some(Said::Completed {
                result: if expired { Vec::new() } else { row.result.clone() },
                expired,
                dropped: row.dropped,
                at: row.closed_at,
                attempt: row.attempts,
                by_this_claim: false,
                unverified: !row.print.is_empty(),
            })
        }
        State::FailedTerminal => Some(Said::Failed { error: row.error.clone(), at: row.closed_at }),
        State::Parked(cause) => Some(Said::Parked { cause, error: row.error.clone(), at: row.parked_at }),
    };
    Said::Found { state: Some(row.state), attempt: row.attempts, holds: holds.map(Box::new) }
}

/// What holds new grants back.
fn held(policy: &Policy, now: i64) -> Option<&'static str> {
    if policy.disabled || policy.held_by.is_some() {
        return Some("CONSUMER_DISABLED");
    }
    let Standing::Known { end, .. } = policy.run else { return None };
    if now >= end.0 {
        Some("REPLAY_RUN_CLOSED")
    } else if policy.replay == ReplayMode::Forbid {
        Some("REPLAY_FORBIDDEN")
    } else {
        None
    }
}

/// A token stays below 2^53 - 1, so that there is always a higher one.
fn used_up(old: i64, clock: i64) -> bool {
    const HIGHEST: i64 = 9_007_199_254_740_991;
    old + 1 >= HIGHEST || clock + 1 >= HIGHEST
}

/// A lease that is asked for, within its bounds; the policy's where none is.
fn granted(policy: &Policy, asked: Option<i64>) -> i64 {
    asked.unwrap_or(policy.lease.0).max(SECOND).min(policy.max_lease.0)
}

fn grant(
    row: Option<&Row>,
    who: &(u128, String),
    lease: Option<i64>,
    print: &[u8],
    world: &World<'_>,
) -> (Said, Option<Row>) {
    let World { policy, now, offset, choice, .. } = *world;
    if let Some(reason) = held(policy, now) {
        return (error(reason, row.map(|row| row.state)), None);
    }
    if world.ahead {
        return (error("STORE_CLOCK_AHEAD", row.map(|row| row.state)), None);
    }
    if let Some(row) = row
        && policy.max_attempts > 0
        && row.attempts >= policy.max_attempts
    {
        return park(row, ParkCause::AttemptsExhausted, now);
    }
    if world.behind {
        return (error("STORE_CLOCK_BEHIND", row.map(|row| row.state)), None);
    }
    let old = row.map_or(0, |row| row.token);
    if used_up(old, now + offset) {
        return (error("ENTRY_UNREADABLE", row.map(|row| row.state)), None);
    }
    // max(old + 1, clock + offset + position), whatever the position was.
    let token = choice.clamp((old + 1).max(now + offset + 1), (old + 1).max(now + offset + POSITION_MAX));
    let pinned = row.filter(|row| !row.unpinned).map(|row| row.print.clone());
    let pinned = pinned.filter(|print| !print.is_empty());
    let presented = if policy.fingerprint == FingerprintMode::Ignore { Vec::new() } else { print.to_vec() };
    let after = Row {
        state: State::InProgress,
        by: ClosedBy::Open,
        token,
        who: Some(who.clone()),
        lease_until: now + granted(policy, lease).min(policy.max_hold.0),
        grace: policy.reclaim_grace.0,
        hold_until: now + policy.max_hold.0,
        on_expiry: policy.on_expiry,
        retention: policy.retention.0,
        rearmed: false,
        started: false,
        prior: row.is_some_and(|row| row.prior || row.started),
        unknown: row.is_some_and(|row| row.unknown),
        checkpoint: row.map(|row| row.checkpoint.clone()).unwrap_or_default(),
        attempts: row.map_or(0, |row| row.attempts) + 1,
        not_before: row.map_or(now, |row| row.not_before),
        error: row.map(|row| row.error.clone()).unwrap_or_default(),
        print: pinned.unwrap_or(presented),
        unpinned: false,
        result: Vec::new(),
        dropped: false,
        body: row.and_then(|row| row.body),
        erase_at: None,
        closed_at: 0,
        parked_at: 0,
        changed_at: now,
        keep_until: None,
        past: row.map(with_last).unwrap_or_default(),
        marks: row.map_or(0, |row| row.marks),
        doubled: row.is_some_and(|row| row.doubled),
    };
    (acquired(&after, false, world), Some(after))
}

fn acquired(row: &Row, replayed: bool, world: &World<'_>) -> Said {
    let max = world.policy.max_attempts;
    Said::Acquired {
        token: row.token,
        attempt: row.attempts,
        lease: row.lease_until - world.now,
        hold: row.hold_until - world.now,
        on_expiry: row.on_expiry,
        replayed,
        effect_unknown: row.unknown,
        prior_effect_started: row.prior,
        checkpoint: row.checkpoint.clone(),
        last_error: row.error.clone(),
        attempts_left: (max > 0).then(|| (max - row.attempts).max(0)),
    }
}

/// Parked by a claim that could not be granted: what was open ends by its expiry.
fn park(row: &Row, cause: ParkCause, now: i64) -> (Said, Option<Row>) {
    let mut after = Row { state: State::Parked(cause), parked_at: now, ..row.clone() };
    if row.by == ClosedBy::Open {
        after.by = ClosedBy::Expiry;
        after.closed_at = now;
        after.unknown = true;
    }
    (Said::Parked { cause, error: row.error.clone(), at: now }, Some(after))
}

/// The table of docs/contract.md, section 5, for the latest token.
fn settle(row: &Row, op: &Op, world: &World<'_>) -> (Said, Option<Row>) {
    let (policy, now) = (world.policy, world.now);
    let closed = (error("CLAIM_CLOSED", Some(row.state)), None);
    let open = row.by == ClosedBy::Open;
    let over = now >= row.lease_until;
    let mut after = row.clone();
    let mut close = |state, by| {
        (after.state, after.by, after.closed_at) = (state, by, now);
        after.parked_at = if matches!(state, State::Parked(_)) { now } else { 0 };
        after.clone()
    };
    match op {
        Op::Claim { .. } | Op::Lookup | Op::Store { .. } => unreachable!(),
        Op::Complete { result, too_large, .. } => match row.by {
            ClosedBy::Complete => {
                (Said::CompleteOk { replayed: true, late: false, dropped: row.dropped }, None)
            }
            ClosedBy::FailTerminal | ClosedBy::Operator | ClosedBy::Store => closed,
            ClosedBy::Open
            | ClosedBy::Release
            | ClosedBy::FailRetryable
            | ClosedBy::FailPark
            | ClosedBy::Expiry
            | ClosedBy::OperatorPark => {
                let mut after = close(State::Completed, ClosedBy::Complete);
                (after.unknown, after.unpinned) = (false, false);
                let bound = policy.result_bytes_max;
                let dropped = *too_large || (bound > 0 && result.len() > bound as usize);
                (after.result, after.dropped) = (if dropped { Vec::new() } else { result.clone() }, dropped);
                after.attempts += i32::from(row.by == ClosedBy::Release);
                after.doubled |= row.marks > 0;
                let late = !open || over;
                (Said::CompleteOk { replayed: false, late, dropped }, Some(after))
            }
        },
        Op::Fail { kind, error, retry_after, .. } => {
            let attempts_left =
                (policy.max_attempts > 0).then(|| (policy.max_attempts - row.attempts).max(0));
            let said = |row: &Row, replayed| {
                let waits = matches!(row.state, State::Received | State::FailedRetryable);
                let retry_after = waits.then(|| (row.not_before - now).max(0));
                Said::FailOk { state: row.state, retry_after, attempts_left, replayed }
            };
            match (row.by, kind) {
                (ClosedBy::Open, _) => {
                    let exhausted = policy.max_attempts > 0 && row.attempts >= policy.max_attempts;
                    let mut after = match kind {
                        FailureKind::Retryable if exhausted => {
                            close(State::Parked(ParkCause::AttemptsExhausted), ClosedBy::FailRetryable)
                        }
                        FailureKind::Retryable => close(State::FailedRetryable, ClosedBy::FailRetryable),
                        FailureKind::Terminal => close(State::FailedTerminal, ClosedBy::FailTerminal),
                        FailureKind::Park => close(State::Parked(ParkCause::Consumer), ClosedBy::FailPark),
                    };
                    after.error.clone_from(error);
                    if after.state == State::FailedRetryable {
                        after.not_before = now + retry_after.unwrap_or_else(|| backoff(policy, row.attempts));
                    }
                    (said(&after, false), Some(after))
                }
                (ClosedBy::Release | ClosedBy::FailRetryable, FailureKind::Retryable)
                | (ClosedBy::FailPark, FailureKind::Park)
                | (ClosedBy::FailTerminal, FailureKind::Terminal) => (said(row, true), None),
                (ClosedBy::Expiry | ClosedBy::OperatorPark, _) => {
                    let news = !error.is_empty() && row.error != *error;
                    (said(row, true), news.then(|| Row { error: error.clone(), ..row.clone() }))
                }
                _ => closed,
            }
        }
        Op::Release { delay, unpin, .. } => match row.by {
            ClosedBy::Open if row.started => (self::error("EFFECT_STARTED", Some(row.state)), None),
            ClosedBy::Open => {
                let mut after = close(State::Received, ClosedBy::Release);
                after.attempts -= 1;
                after.not_before = now + delay;
                after.unpinned = *unpin
                    && !row.prior
                    && !row.unknown
                    && row.checkpoint.is_empty()
                    && row.body != Some(Body::Kept);
                (Said::ReleaseOk { replayed: false, unpinned: after.unpinned }, Some(after))
            }
            ClosedBy::Release => (Said::ReleaseOk { replayed: true, unpinned: row.unpinned }, None),
            _ => closed,
        },
        Op::Renew { lease, started, checkpoint, too_large, .. } => {
            if !open {
                return closed;
            }
            if now >= row.hold_until {
                return (self::error("LEASE_LIMIT_REACHED", Some(row.state)), None);
            }
            let asked = now + granted(policy, *lease).min(row.hold_until - now);
            after.lease_until = row.lease_until.max(asked);
            after.started |= started;
            if let Some(checkpoint) = checkpoint {
                after.checkpoint.clone_from(checkpoint);
            }
            let (lease, hold) = (after.lease_until - now, row.hold_until - now);
            let (on_expiry, dropped) = (row.on_expiry, *too_large);
            let said = Said::RenewOk { lease, hold, on_expiry, revived: over, dropped };
            let news = after != *row;
            (said, news.then_some(after))
        }
    }
}

/// Without jitter; the multiplier is a whole number in every policy of the suites.
fn backoff(policy: &Policy, attempt: i32) -> i64 {
    let mut delay = policy.backoff.initial.0;
    for _ in 1..attempt {
        delay = delay.saturating_mul(policy.backoff.multiplier as i64).min(policy.backoff.max.0);
    }
    delay.min(policy.backoff.max.0)
}

/// From when on, and for how long by the present policy, a row is kept; none: for ever.
fn keep(row: &Row, policy: &Policy) -> (i64, Option<i64>) {
    let abandoned = row.changed_at.max(row.lease_until).max(row.not_before);
    let doubt = row.started || row.prior || row.unknown;
    // A message that is kept, and neither done nor given up, never expires.
    if row.body == Some(Body::Kept) && !matches!(row.state, State::Completed | State::FailedTerminal) {
        return (0, None);
    }
    match row.state {
        State::Parked(_) => (0, None),
        State::Completed => (row.closed_at, Some(policy.retention.0)),
        State::FailedTerminal => (row.closed_at, Some(policy.failed_retention.0)),
        State::InProgress if row.on_expiry == OnExpiry::Park => (0, None),
        State::InProgress | State::Received | State::FailedRetryable if doubt => (0, None),
        State::InProgress | State::Received | State::FailedRetryable => {
            (abandoned, Some(policy.abandoned_retention.0))
        }
    }
}

/// Whether the purge may forget a row: docs/contract.md, section 8.
pub(crate) fn forgettable(row: &Row, world: &World<'_>) -> bool {
    // One retention after the run's end all goes but what somebody holds.
    if let Standing::Known { end, .. } = world.policy.run {
        let held = row.state == State::InProgress && world.now < row.lease_until + row.grace;
        if !held && world.now >= end.0 + world.policy.retention.0 + MARGIN {
            return row.token + MINUTE < world.now + world.offset;
        }
    }
    let (from, keep) = keep(row, world.policy);
    let (Some(keep), Some(promised)) = (keep, row.keep_until) else { return false };
    let due = promised.max(from + keep.max(world.policy.retention.0)) + MARGIN;
    world.now >= due && row.token < world.now + world.offset
}

/// The advice beside an answer; none beside Renew's. `after` is what is known then.
pub(crate) fn advice(said: &Said, after: Option<&Row>) -> Option<&'static str> {
    let by_state = |state: Option<State>| match state {
        Some(State::Completed) => "ACK",
        Some(State::FailedTerminal | State::Parked(_)) => "DEAD_LETTER",
        _ => "RETRY_LATER",
    };
    Some(match said {
        Said::Acquired { .. } => "PROCESS",
        Said::Completed { .. } | Said::CompleteOk { .. } | Said::Suppressed { .. } => "ACK",
        Said::Stored { .. } | Said::StoredDone { .. } => "ACK",
        Said::InProgress { .. } | Said::Backoff { .. } => "RETRY_LATER",
        Said::Failed { .. } | Said::Parked { .. } | Said::Mismatch { .. } | Said::Outside { .. } => {
            "DEAD_LETTER"
        }
        Said::FailOk { state, .. } => by_state(Some(*state)),
        Said::ReleaseOk { .. } => by_state(after.map(|row| row.state)),
        Said::RenewOk { .. } | Said::Found { .. } => return None,
        Said::Error { reason, state } => match reason.as_str() {
            "CLAIM_CLOSED"
            | "EFFECT_STARTED"
            | "LEASE_LIMIT_REACHED"
            | "TOKEN_FROM_FUTURE"
            | "LEASE_LOST" => by_state(*state),
            _ => "RETRY_LATER",
        },
    })
}

/// An operator's change: docs/contract.md, section 6. The expected version is taken for granted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Order {
    Redrive { force: bool, drop_fingerprint: bool, admit: bool },
    Park,
    Complete { force: bool, result: Vec<u8> },
    FailTerminal { force: bool, error: String },
    NotDone { force: bool },
    Delete { force: bool },
}

/// What is known after an order, or why it is refused.
pub(crate) fn order(
    row: Option<&Row>,
    order: &Order,
    world: &World<'_>,
) -> Result<Option<Row>, &'static str> {
    let World { policy, now, offset, behind, ahead, .. } = *world;
    let Some(row) = row else {
        return match order {
            Order::Redrive { admit: true, .. } if policy.run != Standing::Live => Err("ENTRY_NOT_FOUND"),
            Order::Redrive { admit: true, .. } if behind => Err("STORE_CLOCK_BEHIND"),
            Order::Redrive { admit: true, .. } if ahead => Err("STORE_CLOCK_AHEAD"),
            Order::Redrive { admit: true, .. } => Ok(Some(admitted(world))),
            _ => Err("ENTRY_NOT_FOUND"),
        };
    };
    let unsettled = matches!(row.by, ClosedBy::Open | ClosedBy::Expiry | ClosedBy::OperatorPark);
    let at_work = unsettled && now < row.lease_until + row.grace;
    let danger = row.state == State::Completed || at_work;
    let forgotten = |state| Row {
        state,
        by: ClosedBy::Operator,
        token: (row.token + 1).max(now + offset + 1),
        who: None,
        rearmed: false,
        started: false,
        prior: row.prior || row.started,
        print: if row.unpinned { Vec::new() } else { row.print.clone() },
        unpinned: false,
        result: Vec::new(),
        dropped: false,
        closed_at: now,
        parked_at: 0,
        past: with_last(row),
        ..row.clone()
    };
    let after = match order {
        Order::Redrive { force: false, .. } | Order::Complete { force: false, .. } if danger => {
            return Err("STATE_NOT_ALLOWED");
        }
        Order::Redrive { force: false, drop_fingerprint: true, .. } if row.body == Some(Body::Kept) => {
            return Err("STATE_NOT_ALLOWED");
        }
        Order::FailTerminal { force: false, .. } | Order::NotDone { force: false } if danger => {
            return Err("STATE_NOT_ALLOWED");
        }
        Order::Redrive { .. }
        | Order::Complete { .. }
        | Order::FailTerminal { .. }
        | Order::NotDone { .. }
            if used_up(row.token, now + offset) =>
        {
            return Err("ENTRY_UNREADABLE");
        }
        Order::Redrive { drop_fingerprint, .. } => {
            let mut after = forgotten(State::Received);
            (after.attempts, after.not_before) = (0, now);
            after.unknown |= unsettled;
            if *drop_fingerprint {
                after.print.clear();
                after.body = row.body.map(|_| Body::Erased);
            }
            after
        }
        Order::Complete { result, .. } => {
            Row { unknown: false, result: result.clone(), ..forgotten(State::Completed) }
        }
        Order::FailTerminal { error, .. } => {
            Row { unknown: false, error: error.clone(), ..forgotten(State::FailedTerminal) }
        }
        Order::NotDone { .. } => {
            let mut after = forgotten(State::Received);
            (after.attempts, after.not_before) = (0, now);
            after.unknown = at_work;
            after.prior &= at_work;
            after
        }
        Order::Park => {
            let parkable = matches!(row.state, State::Received | State::InProgress | State::FailedRetryable);
            if !parkable {
                return Err("STATE_NOT_ALLOWED");
            }
            let mut after = Row { state: State::Parked(ParkCause::Operator), parked_at: now, ..row.clone() };
            if row.by == ClosedBy::Open {
                (after.by, after.closed_at) = (ClosedBy::OperatorPark, now);
            }
            after
        }
        Order::Delete { force } => {
            let doubt = row.started || row.prior || row.unknown;
            let kept = row.body == Some(Body::Kept);
            if !force && (row.state == State::Completed || unsettled || doubt || kept) {
                return Err("STATE_NOT_ALLOWED");
            }
            // A row whose token is not yet below clock + offset is not deleted, nor one with a message that was changed lately.
            let young = row.token >= now + offset || row.body.is_some() && row.changed_at + MINUTE > now;
            return match (behind, young) {
                (true, _) => Err("STORE_CLOCK_BEHIND"),
                (false, _) if ahead => Err("STORE_CLOCK_AHEAD"),
                (false, true) => Err("TOO_RECENT"),
                (false, false) => Ok(None),
            };
        }
    };
    Ok(Some(changed(after, world)))
}

/// Whether the effect may have happened, and nobody knows: what `Entry.effect_doubtful` says.
pub(crate) fn doubtful(row: &Row) -> bool {
    let unsettled = matches!(row.by, ClosedBy::Open | ClosedBy::Expiry | ClosedBy::OperatorPark);
    row.state != State::Completed && (unsettled || row.started || row.prior || row.unknown)
}

/// The changes that a row allows, and whether each needs `force`: docs/contract.md, section 6, as `Entry.allowed_changes` says it.
pub(crate) fn allowed(row: &Row, world: &World<'_>) -> Vec<(&'static str, bool)> {
    let unsettled = matches!(row.by, ClosedBy::Open | ClosedBy::Expiry | ClosedBy::OperatorPark);
    let danger = row.state == State::Completed || (unsettled && world.now < row.lease_until + row.grace);
    let mut allowed = vec![("REDRIVE", danger), ("RESOLVE", danger)];
    if matches!(row.state, State::Received | State::InProgress | State::FailedRetryable) {
        allowed.push(("PARK", false));
    }
    let lately = row.body.is_some() && row.changed_at + MINUTE > world.now;
    if !world.behind && !world.ahead && row.token < world.now + world.offset && !lately {
        let effect = row.started || row.prior || row.unknown || unsettled || row.body == Some(Body::Kept);
        allowed.push(("DELETE", row.state == State::Completed || effect));
    }
    allowed
}

/// A message that was outside the window, let in all the same.
pub(super) fn admitted(world: &World<'_>) -> Row {
    let World { policy, now, offset, .. } = *world;
    let mut row = Row {
        state: State::Received,
        by: ClosedBy::Operator,
        token: now + offset + 1,
        who: None,
        lease_until: now,
        grace: policy.reclaim_grace.0,
        hold_until: now,
        on_expiry: policy.on_expiry,
        retention: policy.retention.0,
        rearmed: false,
        started: false,
        prior: false,
        unknown: false,
        checkpoint: Vec::new(),
        attempts: 0,
        not_before: now,
        error: String::new(),
        print: Vec::new(),
        unpinned: false,
        result: Vec::new(),
        dropped: false,
        body: None,
        erase_at: None,
        closed_at: now,
        parked_at: 0,
        changed_at: now,
        keep_until: None,
        past: Vec::new(),
        marks: 0,
        doubled: false,
    };
    row.keep_until = Some(now + policy.abandoned_retention.0.max(row.retention));
    row
}

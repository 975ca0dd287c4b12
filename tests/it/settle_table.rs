//! Complete, Fail, Release, Renew, by the tables of docs/contract.md, section 5: every combination of closed_by, operation,
//! token relation, time and flags. Asked of the core, and through the wire of a server on each store.

mod alarms;
mod unpin;
mod wire;

use bytes::Bytes;
use idempotency_ledger::domain::{
    Claimant, ClockLimits, ClosedBy, Command, Context, Entry, FailureKind, Key, OnExpiry, ParkCause, Policy,
    Reading, Reply, Settle, Span, State, StoreTime, decide,
};
use uuid::Uuid;

use crate::harness::server::START;

/// How the entry's claim stands: the state, and how it was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Was {
    Absent,
    Open,
    Released,
    /// Released, and then parked by an operator.
    ReleasedParked,
    FailedRetryable,
    /// The last attempt failed: parked.
    Exhausted,
    FailedPark,
    Expired,
    OperatorPark,
    Completed,
    /// Completed, and its result was too large.
    CompletedWithout,
    FailedTerminal,
    Redriven,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Complete,
    /// Complete with a result that is too large.
    Oversized,
    Retryable,
    Terminal,
    Park,
    Release,
    Renew,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Older,
    Latest,
    FromFuture,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    Running,
    Grace,
    Expired,
    HoldOver,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    was: Was,
    op: Op,
    token: Token,
    time: Time,
    effect_started: bool,
    last_attempt: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Want {
    Completed { replayed: bool, late: bool, dropped: bool },
    Failed { replayed: bool, state: State },
    Released { replayed: bool, state: State },
    Renewed { revived: bool },
    Refused(&'static str),
}

const TOKEN: i64 = 1_000_000;
const LEASE: Span = Span::from_secs(30);
const GRACE: Span = Span::from_secs(5);
const HOLD: Span = Span::from_secs(3_600);
const CLOSED: Want = Want::Refused("CLAIM_CLOSED");

/// The two tables of docs/contract.md, section 5.
fn sound(policy: &Policy) -> Context<'_> {
    Context::at(&Reading { now: START, token_offset: 0, mark: 0, limits: ClockLimits::NONE }, policy, 1)
}

fn want(case: &Case) -> Want {
    match (case.was, case.token) {
        (Was::Absent, _) => return Want::Refused("ENTRY_NOT_FOUND"),
        (_, Token::Older) => return Want::Refused("LEASE_LOST"),
        (_, Token::FromFuture) => return Want::Refused("TOKEN_FROM_FUTURE"),
        (_, Token::Latest) => {}
    }
    let over = case.time != Time::Running;
    let state = state(case);
    let oversized = case.op == Op::Oversized;
    let done = |replayed, late| Want::Completed { replayed, late, dropped: !replayed && oversized };
    let failed = |replayed, state| Want::Failed { replayed, state };
    match (case.was, case.op) {
        (Was::Absent, _) => unreachable!(),
        (Was::Open, Op::Complete | Op::Oversized) => done(false, over),
        (Was::Open, Op::Retryable) if case.last_attempt => {
            failed(false, State::Parked(ParkCause::AttemptsExhausted))
        }
        (Was::Open, Op::Retryable) => failed(false, State::FailedRetryable),
        (Was::Open, Op::Terminal) => failed(false, State::FailedTerminal),
        (Was::Open, Op::Park) => failed(false, State::Parked(ParkCause::Consumer)),
        (Was::Open, Op::Release) if case.effect_started => Want::Refused("EFFECT_STARTED"),
        (Was::Open, Op::Release) => Want::Released { replayed: false, state: State::Received },
        (Was::Open, Op::Renew) if case.time == Time::HoldOver => Want::Refused("LEASE_LIMIT_REACHED"),
        (Was::Open, Op::Renew) => Want::Renewed { revived: over },
        (Was::Released | Was::ReleasedParked, Op::Complete | Op::Oversized) => done(false, true),
        (Was::Released | Was::ReleasedParked, Op::Retryable) => failed(true, state),
        (Was::Released | Was::ReleasedParked, Op::Release) => Want::Released { replayed: true, state },
        (Was::Released | Was::ReleasedParked, Op::Terminal | Op::Park | Op::Renew) => CLOSED,
        (Was::FailedRetryable | Was::Exhausted, Op::Complete | Op::Oversized) => done(false, true),
        (Was::FailedRetryable | Was::Exhausted, Op::Retryable) => failed(true, state),
        (Was::FailedRetryable | Was::Exhausted, Op::Terminal | Op::Park | Op::Release | Op::Renew) => CLOSED,

        (Was::FailedPark, Op::Complete | Op::Oversized) => done(false, true),
        (Was::FailedPark, Op::Park) => failed(true, state),
        (Was::FailedPark, Op::Retryable | Op::Terminal | Op::Release | Op::Renew) => CLOSED,

        (Was::Expired | Was::OperatorPark, Op::Complete | Op::Oversized) => done(false, true),
        (Was::Expired | Was::OperatorPark, Op::Retryable | Op::Terminal | Op::Park) => failed(true, state),
        (Was::Expired | Was::OperatorPark, Op::Release | Op::Renew) => CLOSED,

        // The first result stays, or that it was dropped.
        (Was::Completed, Op::Complete | Op::Oversized) => done(true, false),
        (Was::CompletedWithout, Op::Complete | Op::Oversized) => {
            Want::Completed { replayed: true, late: false, dropped: true }
        }
        (
            Was::Completed | Was::CompletedWithout,
            Op::Retryable | Op::Terminal | Op::Park | Op::Release | Op::Renew,
        ) => CLOSED,

        (Was::FailedTerminal, Op::Terminal) => failed(true, state),
        (
            Was::FailedTerminal,
            Op::Complete | Op::Oversized | Op::Retryable | Op::Park | Op::Release | Op::Renew,
        ) => CLOSED,

        // Nobody was ever given the token that an operator's change leaves.
        (Was::Redriven, _) => CLOSED,
    }
}

fn state(case: &Case) -> State {
    match case.was {
        Was::Absent | Was::Open => State::InProgress,
        Was::Released | Was::Redriven => State::Received,
        Was::ReleasedParked | Was::OperatorPark => State::Parked(ParkCause::Operator),
        Was::FailedRetryable => State::FailedRetryable,
        Was::Exhausted => State::Parked(ParkCause::AttemptsExhausted),
        Was::FailedPark => State::Parked(ParkCause::Consumer),
        Was::Expired => State::Parked(if case.effect_started {
            ParkCause::EffectUnknown
        } else {
            ParkCause::LeaseExpired
        }),
        Was::Completed | Was::CompletedWithout => State::Completed,
        Was::FailedTerminal => State::FailedTerminal,
    }
}

fn closed_by(was: Was) -> ClosedBy {
    match was {
        Was::Absent | Was::Open => ClosedBy::Open,
        Was::Released | Was::ReleasedParked => ClosedBy::Release,
        Was::FailedRetryable | Was::Exhausted => ClosedBy::FailRetryable,
        Was::FailedPark => ClosedBy::FailPark,
        Was::Expired => ClosedBy::Expiry,
        Was::OperatorPark => ClosedBy::OperatorPark,
        Was::Completed | Was::CompletedWithout => ClosedBy::Complete,
        Was::FailedTerminal => ClosedBy::FailTerminal,
        Was::Redriven => ClosedBy::Operator,
    }
}

fn cases() -> Vec<Case> {
    use {Op as O, Token as T, Was as W};
    let states = [
        W::Absent,
        W::Open,
        W::Released,
        W::ReleasedParked,
        W::FailedRetryable,
        W::Exhausted,
        W::FailedPark,
        W::Expired,
        W::OperatorPark,
        W::Completed,
        W::CompletedWithout,
        W::FailedTerminal,
        W::Redriven,
    ];
    let mut cases = Vec::new();
    for was in states {
        for op in [O::Complete, O::Oversized, O::Retryable, O::Terminal, O::Park, O::Release, O::Renew] {
            for token in [T::Older, T::Latest, T::FromFuture] {
                for time in [Time::Running, Time::Grace, Time::Expired, Time::HoldOver] {
                    for effect_started in [false, true] {
                        for last_attempt in [false, true] {
                            cases.push(Case { was, op, token, time, effect_started, last_attempt });
                        }
                    }
                }
            }
        }
    }
    cases
}

fn consumer(case: &Case) -> &'static str {
    if case.last_attempt { "last" } else { "more" }
}

fn policy(case: &Case) -> Policy {
    Policy {
        max_attempts: if case.last_attempt { 3 } else { 10 },
        reclaim_grace: GRACE,
        max_hold: HOLD,
        ..Policy::default()
    }
}

fn key(case: &Case, number: usize) -> Key {
    Key::new(consumer(case), "table", &format!("settle-{number}"))
}

fn entry(case: &Case, number: usize, now: StoreTime) -> Option<Entry> {
    if case.was == Was::Absent {
        return None;
    }
    let granted_at = match case.time {
        Time::Running => now - Span::from_secs(1),
        Time::Grace => now - LEASE - Span::from_secs(1),
        Time::Expired => now - LEASE - GRACE - Span::from_secs(1),
        Time::HoldOver => now - HOLD - Span::from_secs(1),
    };
    let (state, closed_by) = (state(case), closed_by(case.was));
    let holder = Claimant { claim_id: Uuid::from_u128(7), principal: "anonymous".into(), owner: "w".into() };
    Some(Entry {
        key: key(case, number),
        version: 1,
        token: TOKEN,
        state,
        closed_by,
        closed_at: (closed_by != ClosedBy::Open).then_some(now),
        parked_at: matches!(state, State::Parked(_)).then_some(now),
        claimant: (closed_by != ClosedBy::Operator).then_some(holder),
        granted_at,
        lease_until: granted_at + LEASE,
        grace: GRACE,
        hold_until: granted_at + HOLD,
        on_expiry: OnExpiry::Reclaim,
        policy_version: 1,
        retention: Span::from_days(7),
        failed_retention: Span::from_days(30),
        abandoned_retention: Span::from_days(30),
        rearmed: false,
        effect_started: case.effect_started,
        prior_effect_started: false,
        effect_unknown: true,
        checkpoint: Bytes::new(),
        attempts: 3,
        not_before: now + Span::from_secs(1),
        last_error: "first".into(),
        history: Vec::new(),
        fingerprint: Bytes::new(),
        result: if case.was == Was::Completed { Bytes::from_static(b"first") } else { Bytes::new() },
        unpinned: false,
        result_dropped: case.was == Was::CompletedWithout,
        body: None,
        erase_at: None,
        retain_until: None,
        created_at: granted_at,
        updated_at: granted_at,
        traceparent: String::new(),
        doubled: false,
        superseded_completes: 0,
    })
}

fn token(case: &Case) -> i64 {
    match case.token {
        Token::Older => TOKEN - 1,
        Token::Latest => TOKEN,
        Token::FromFuture => TOKEN + 1,
    }
}

fn command(case: &Case) -> Settle {
    let fail = |kind| Settle::Fail { kind, error: "second".into(), retry_after: None };
    match case.op {
        Op::Complete => Settle::Complete { result: Bytes::from_static(b"second"), left_out: false },
        Op::Oversized => Settle::Complete { result: Bytes::new(), left_out: true },
        Op::Retryable => fail(FailureKind::Retryable),
        Op::Terminal => fail(FailureKind::Terminal),
        Op::Park => fail(FailureKind::Park),
        Op::Release => Settle::Release { delay: Span::from_secs(9), unpin: false },
        Op::Renew => {
            Settle::Renew { lease: None, effect_started: false, checkpoint: None, checkpoint_dropped: false }
        }
    }
}

fn check_entry(case: &Case, want: &Want, before: Option<&Entry>, after: Option<&Entry>, now: StoreTime) {
    let (Some(before), Some(after)) = (before, after) else {
        assert!(before.is_none() && after.is_none(), "{case:?}");
        return;
    };
    assert_eq!(after.token, TOKEN, "a settlement never changes the token: {case:?}");
    match want {
        Want::Completed { replayed: false, dropped, .. } => {
            assert_eq!((after.state, after.closed_by), (State::Completed, ClosedBy::Complete), "{case:?}");
            let result: &[u8] = if *dropped { b"" } else { b"second" };
            assert_eq!((&after.result[..], after.result_dropped), (result, *dropped), "{case:?}");
            assert!(!after.effect_unknown, "{case:?}");
            assert_eq!(after.closed_at, Some(now), "{case:?}");
            assert_eq!(after.retain_until, Some(now + Span::from_days(7)), "{case:?}");
            let released = matches!(case.was, Was::Released | Was::ReleasedParked);
            assert_eq!(after.attempts, 3 + i32::from(released), "{case:?}");
        }
        Want::Failed { replayed: false, state } => {
            assert_eq!(after.state, *state, "{case:?}");
            assert_eq!(after.last_error, "second", "{case:?}");
            if *state == State::FailedRetryable {
                // 1 s × 2², less up to a fifth.
                let wait = after.not_before - now;
                assert!(wait > Span::from_millis(3_199) && wait <= Span::from_secs(4), "{wait:?}");
            }
        }
        Want::Failed { replayed: true, .. } if matches!(case.was, Was::Expired | Was::OperatorPark) => {
            assert_eq!(after.state, before.state, "{case:?}");
            assert_eq!(after.last_error, "second", "the error is kept: {case:?}");
        }
        Want::Released { replayed: false, .. } => {
            assert_eq!((after.state, after.closed_by), (State::Received, ClosedBy::Release), "{case:?}");
            assert_eq!(after.attempts, 2, "{case:?}");
            assert_eq!(after.not_before, now + Span::from_secs(9), "{case:?}");
        }
        Want::Renewed { .. } => {
            let limit = before.hold_until.min(now + LEASE);
            assert_eq!(after.lease_until, before.lease_until.max(limit), "{case:?}");
        }
        Want::Completed { replayed: true, .. }
        | Want::Failed { replayed: true, .. }
        | Want::Released { replayed: true, .. }
        | Want::Refused(_) => assert_eq!(after, before, "changed byte for byte: {case:?}"),
    }
}

#[test]
fn the_core_answers_every_row() {
    for (number, case) in cases().iter().enumerate() {
        let now = START;
        let before = entry(case, number, now);
        let policy = policy(case);
        let context = Context { now, ..sound(&policy) };
        let command = Command::Settle(token(case), command(case));
        let decision = decide(&key(case, number), before.as_ref(), &command, &context);
        let want = want(case);
        let got = match decision.answer {
            Err(rejection) => {
                Want::Refused(Box::leak(snake(&format!("{:?}", rejection.reason)).into_boxed_str()))
            }
            Ok(Reply::Completed { replayed, late, result_dropped: dropped, .. }) => {
                Want::Completed { replayed, late, dropped }
            }
            Ok(Reply::Failed { state, replayed, .. }) => Want::Failed { replayed, state },
            Ok(Reply::Released { state, replayed, .. }) => Want::Released { replayed, state },
            Ok(Reply::Renewed { revived, .. }) => Want::Renewed { revived },
            Ok(other @ (Reply::Verdict(_) | Reply::Found(_))) => panic!("{other:?}"),
        };
        assert_eq!(got, want, "{case:?}");
        let after = decision.write.as_ref().or(before.as_ref());
        check_entry(case, &want, before.as_ref(), after, now);
    }
}

fn snake(word: &str) -> String {
    let mut out = String::new();
    for c in word.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(c.to_uppercase());
    }
    out
}

use uuid::Uuid;

use super::*;
use crate::{
    Claim, Claimant, ClockLimits, Command, Namespace, Policy, Reading, RunMode, StoreTime, Verdict, decide,
};

const NOW: StoreTime = StoreTime(1_780_000_000_000_000);
const CLOCK: i64 = NOW.0 + OFFSET;
const OFFSET: i64 = 5;

/// Whose settlement it is: live, with or without an open run of the consumer, or of a run that exists or not.
#[derive(Clone, Copy, Debug)]
enum Of {
    Live,
    LiveNextToRun,
    LiveAfterRun,
    Run,
    UnknownRun,
}

/// A commit was lost if a token may have been issued for this key, and its entry is not there or has a lower one.
#[test]
fn token_that_may_have_been_issued_raises_an_alarm() {
    let policy = Policy {
        retention: Span(1_000),
        failed_retention: Span(3_000),
        abandoned_retention: Span(2_000),
        ..Policy::default()
    };
    let known = Standing::Known { mode: RunMode::Rebuild, end: NOW + Span(60) };
    for (stored, token, of, reason, alarm) in [
        // No entry: a token is young for the shortest retention.
        (None, CLOCK + 1, Of::Live, Reason::EntryNotFound, false),
        (None, CLOCK, Of::Live, Reason::EntryNotFound, true),
        (None, CLOCK - 999, Of::Live, Reason::EntryNotFound, true),
        (None, CLOCK - 1_000, Of::Live, Reason::EntryNotFound, false),
        (None, CLOCK, Of::LiveNextToRun, Reason::EntryNotFound, false),
        (None, CLOCK, Of::LiveAfterRun, Reason::EntryNotFound, true),
        (None, CLOCK, Of::Run, Reason::EntryNotFound, true),
        (None, CLOCK, Of::UnknownRun, Reason::EntryNotFound, false),
        // An entry with a lower token.
        (Some(CLOCK - 50), CLOCK + 1, Of::Live, Reason::TokenFromFuture, false),
        (Some(CLOCK - 50), CLOCK, Of::Live, Reason::TokenFromFuture, true),
        (Some(CLOCK - 50), CLOCK - 49, Of::Live, Reason::TokenFromFuture, true),
        (Some(CLOCK - 50), CLOCK, Of::LiveNextToRun, Reason::TokenFromFuture, false),
        (Some(CLOCK - 50), CLOCK, Of::LiveAfterRun, Reason::TokenFromFuture, true),
        (Some(CLOCK - 50), CLOCK, Of::Run, Reason::TokenFromFuture, true),
        (Some(CLOCK - 50), CLOCK, Of::UnknownRun, Reason::TokenFromFuture, false),
        // The token of an earlier grant.
        (Some(CLOCK - 50), CLOCK - 51, Of::Live, Reason::LeaseLost, false),
    ] {
        let (run, until) = match of {
            Of::Live => ("", StoreTime(0)),
            Of::LiveNextToRun => ("", NOW + Span(1)),
            Of::LiveAfterRun => ("", NOW),
            Of::Run | Of::UnknownRun => ("2026-q1", NOW + Span(60)),
        };
        let standing = match of {
            Of::Live | Of::LiveNextToRun | Of::LiveAfterRun => Standing::Live,
            Of::Run => known,
            Of::UnknownRun => Standing::Unknown,
        };
        let key = Key::of(Namespace::new("payments", run), "shop".into(), "order-1".into());
        let policy = Policy { run: standing, replays_until: until, ..policy.clone() };
        let entry = stored.map(|token| Entry { token, ..Entry::blank(&key, &policy, NOW) });
        let reading = Reading { now: NOW, token_offset: OFFSET, mark: 0, limits: ClockLimits::NONE };
        let context = Context::at(&reading, &policy, 1);
        let release = Settle::Release { delay: Span::ZERO, unpin: false };
        let refused =
            decide(&key, entry.as_ref(), &Command::Settle(token, release), &context).answer.unwrap_err();
        let case = format!("{stored:?} {token} {of:?}");
        assert_eq!((refused.reason, refused.alert.is_some()), (reason, alarm), "{case}");
        assert_eq!(refused.state, stored.map(|_| State::Received), "{case}");
    }
}

/// The fields of an answer that only counts and logs use: (reclaimed, attempt of a completion, releases
/// in a row).
fn for_metrics(reply: &Reply) -> (bool, Option<i32>, Option<usize>) {
    match reply {
        Reply::Verdict(Verdict::Acquired { reclaimed, .. }) => (*reclaimed, None, None),
        Reply::Completed { attempt, .. } => (false, Some(*attempt), None),
        Reply::Released { in_a_row, .. } => (false, None, Some(*in_a_row)),
        Reply::Verdict(_) | Reply::Failed { .. } | Reply::Renewed { .. } | Reply::Found(_) => {
            (false, None, None)
        }
    }
}

#[test]
fn answers_count_attempts_and_releases() {
    #[derive(Debug)]
    enum Step {
        Claim,
        Release,
        Fail,
        Complete,
    }
    let minute = 60;
    // After this many seconds: the step, and the expected fields of its answer.
    let mut steps = vec![
        (1, Step::Claim, (false, None, None)),
        (1, Step::Release, (false, None, Some(1))),
        (1, Step::Release, (false, None, Some(1))),
        (1, Step::Claim, (false, None, None)),
        (1, Step::Release, (false, None, Some(2))),
        (1, Step::Claim, (false, None, None)),
        (1, Step::Fail, (false, None, None)),
        (1, Step::Claim, (false, None, None)),
        (1, Step::Release, (false, None, Some(1))),
        (1, Step::Claim, (false, None, None)),
        // The claim expires.
        (minute, Step::Claim, (true, None, None)),
        (1, Step::Fail, (false, None, None)),
        (1, Step::Claim, (false, None, None)),
    ];
    for row in 1..=13 {
        steps.push((1, Step::Release, (false, None, Some(usize::min(row, 11)))));
        steps.push((1, Step::Claim, (false, None, None)));
    }
    steps.extend([(1, Step::Complete, (false, Some(4), None)), (1, Step::Complete, (false, Some(4), None))]);

    let (key, policy) = (Key::new("c", "s", "1"), Policy { max_attempts: 0, ..Policy::default() });
    let (mut now, mut entry, mut token) = (StoreTime(1_780_000_000_000_000), None::<Entry>, 0);
    for (number, (after, step, expected)) in steps.into_iter().enumerate() {
        now = now + Span::from_secs(after);
        let context = Context {
            policy: &policy,
            now,
            token_offset: 0,
            position: 0,
            clock_behind: false,
            clock_before_release: false,
            clock_ahead: false,
        };
        let settle = |settle| Command::Settle(token, settle);
        let command = match step {
            Step::Claim => Command::Claim(Claim {
                claimant: Claimant {
                    claim_id: Uuid::from_u128(number as u128),
                    principal: String::new(),
                    owner: String::new(),
                },
                lease: None,
                fingerprint: Bytes::new(),
                occurred_at: None,
                traceparent: String::new(),
                handed_out: false,
            }),
            Step::Release => settle(Settle::Release { delay: Span::ZERO, unpin: false }),
            Step::Complete => settle(Settle::Complete { result: Bytes::new(), left_out: false }),
            Step::Fail => settle(Settle::Fail {
                kind: FailureKind::Retryable,
                error: String::new(),
                retry_after: Some(Span::ZERO),
            }),
        };
        let Decision { answer, write, .. } = decide(&key, entry.as_ref(), &command, &context);
        let reply = answer.unwrap();
        assert_eq!(for_metrics(&reply), expected, "step {number}, {step:?}: {reply:?}");
        if let Some(next) = write {
            token = next.token;
            entry = Some(next);
        }
    }
}

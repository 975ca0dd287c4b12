//! Which answers of the tables are alarms.

use idempotency_ledger::domain::{
    Attempt, ClosedBy, Command, Context, Entry, Key, Namespace, Policy, Reason, RunMode, Span, Standing,
    State, decide,
};

use super::{Case, Op, Time, Token, Was, command, entry, key, policy, sound, token};
use crate::harness::server::START;

/// How the present claim stands, how a past one ended and whether it is marked: whether its Complete marks it, and whether
/// the mark is an alarm. Of the other past claim, one ended by Complete in some rows.
#[test]
fn a_superseded_complete_marks_its_attempt_once() {
    use ClosedBy::{Complete, Expiry, FailRetryable, FailTerminal, Open, Operator, OperatorPark, Release};
    for (by, outcome, marked, other, (marks, alarm)) in [
        (Open, Expiry, false, Expiry, (true, false)),
        (Open, FailRetryable, false, Expiry, (true, false)),
        (Open, FailTerminal, false, Expiry, (true, false)),
        (Open, Release, false, Expiry, (true, false)),
        (Open, OperatorPark, false, Expiry, (true, false)),
        (Open, Expiry, false, Complete, (true, true)),
        (Complete, Expiry, false, Expiry, (true, true)),
        // An operator's word is not a report.
        (Operator, Expiry, false, Expiry, (true, false)),
        (Operator, Expiry, false, Complete, (true, true)),
        // A repeat.
        (Open, Complete, false, Expiry, (false, false)),
        (Complete, Complete, false, Expiry, (false, false)),
        (Open, Expiry, true, Expiry, (false, false)),
        (Complete, Expiry, true, Complete, (false, false)),
    ] {
        for op in [Op::Complete, Op::Oversized, Op::Retryable, Op::Terminal, Op::Park, Op::Release, Op::Renew]
        {
            let case = Case {
                was: Was::Open,
                op,
                token: Token::Older,
                time: Time::Running,
                effect_started: false,
                last_attempt: false,
            };
            let mut before = entry(&case, 1, START).unwrap();
            let past = |token, outcome, reported_done| Attempt {
                attempt: 1,
                started_at: START,
                ended_at: START,
                owner: "w".into(),
                outcome,
                error: String::new(),
                token,
                reported_done,
            };
            before.closed_by = by;
            if matches!(by, Complete | Operator) {
                before.state = State::Completed;
            }
            before.superseded_completes = i32::from(marked);
            before.history = vec![
                past(None, Expiry, false),
                past(Some(token(&case) - 1), other, false),
                past(Some(token(&case)), outcome, marked),
            ];
            let policy = policy(&case);
            let command = Command::Settle(token(&case), command(&case));
            let decision = decide(&key(&case, 1), Some(&before), &command, &sound(&policy));
            let refused = decision.answer.unwrap_err();
            let row = format!("{by:?} {outcome:?} {marked} {other:?} {op:?}");
            assert_eq!((refused.reason, refused.state), (Reason::LeaseLost, Some(before.state)), "{row}");
            let reports = matches!(op, Op::Complete | Op::Oversized);
            assert_eq!(refused.doubled, alarm && reports, "{row}");
            let expected = (marks && reports).then(|| {
                let mut after = Entry { version: before.version + 1, doubled: alarm, ..before.clone() };
                after.superseded_completes += 1;
                after.history[2].reported_done = true;
                after
            });
            assert_eq!(decision.write, expected, "{row}");
        }
    }
}

/// A settlement with a mistyped run finds no entry, or that of another key: no commit was lost. Where the run exists, a
/// commit may have been lost.
#[test]
fn a_settlement_of_a_run_that_is_not_registered_is_no_alarm() {
    let case = Case {
        was: Was::Absent,
        op: Op::Complete,
        token: Token::Latest,
        time: Time::Running,
        effect_started: false,
        last_attempt: false,
    };
    let live = Key::new("c", "table", "1");
    let in_run = Key::of(Namespace::new("c", "r"), "table".into(), "1".into());
    let known = Standing::Known { mode: RunMode::Rebuild, end: START + Span::from_secs(60) };
    for (key, run, alarmed) in
        [(&live, Standing::Live, true), (&in_run, known, true), (&in_run, Standing::Unknown, false)]
    {
        let policy = Policy { run, ..policy(&case) };
        let context = Context {
            policy: &policy,
            now: START,
            token_offset: 0,
            position: 1,
            clock_behind: false,
            clock_before_release: false,
            clock_ahead: false,
        };
        let young = START.micros() - 1_000_000;
        let lost = decide(key, None, &Command::Settle(young, command(&case)), &context).answer.unwrap_err();
        assert_eq!(lost.reason, Reason::EntryNotFound);
        assert_eq!(lost.alert.is_some(), alarmed, "{run:?}: {:?}", lost.alert);
    }
}

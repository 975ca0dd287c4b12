//! Which answers of the tables are alarms.

use idempotency_ledger::domain::{
    ClosedBy, Command, Context, Key, Namespace, Policy, Reason, RunMode, Span, Standing, State, decide,
};

use super::{Case, Op, Time, Token, Was, command, entry, key, policy, token};
use crate::harness::server::START;

/// Two claims that both report the effect as done are an alarm. Where an operator has resolved the entry as
/// completed there is but one claim's word.
#[test]
fn a_late_complete_is_an_alarm_only_after_another_claims_own() {
    let case = |was| Case {
        was,
        op: Op::Complete,
        token: Token::Older,
        time: Time::Running,
        effect_started: false,
        last_attempt: false,
    };
    for (by, alarmed) in [(ClosedBy::Complete, true), (ClosedBy::Operator, false)] {
        let case = case(Was::Completed);
        let mut before = entry(&case, 1, START).unwrap();
        before.closed_by = by;
        let policy = policy(&case);
        let context = Context {
            policy: &policy,
            now: START,
            token_offset: 0,
            position: 1,
            clock_behind: false,
            clock_before_release: false,
            clock_ahead: false,
        };
        let command = Command::Settle(token(&case), command(&case));
        let refused = decide(&key(&case, 1), Some(&before), &command, &context).answer.unwrap_err();
        assert_eq!(refused.state, Some(State::Completed));
        assert_eq!(refused.alert.is_some(), alarmed, "{by:?}: {:?}", refused.alert);
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

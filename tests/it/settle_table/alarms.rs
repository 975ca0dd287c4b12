//! Which answers of the tables are alarms.

use idempotency_ledger::domain::{ClosedBy, Command, Context, State, decide};

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
        let context =
            Context { policy: &policy, now: START, token_offset: 0, position: 1, clock_behind: false };
        let command = Command::Settle(token(&case), command(&case));
        let refused = decide(&key(&case, 1), Some(&before), &command, &context).answer.unwrap_err();
        assert_eq!(refused.state, Some(State::Completed));
        assert_eq!(refused.alert.is_some(), alarmed, "{by:?}: {:?}", refused.alert);
    }
}

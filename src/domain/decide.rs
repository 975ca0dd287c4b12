//! The rules of all commands: one pure function from an entry and a command to an answer and the next entry.

use super::command::Command;
use super::context::{Context, Decision};
use super::{Answer, Entry, Key, Policy, StoreTime, claim, lookup, preconditions, settle};

/// Decides one command: docs/contract.md, sections 4 and 5.
#[must_use]
pub fn decide(key: &Key, entry: Option<&Entry>, command: &Command, context: &Context<'_>) -> Decision {
    let mut decision = match command {
        Command::Claim(claim) => claim::decide(key, entry, claim, context),
        Command::Settle(token, settle) => settle::decide(key, entry, *token, settle, context),
        Command::Lookup => lookup::decide(entry, context),
    };
    if let Some(next) = &mut decision.write {
        next.version = next_version(entry, context);
        // A refused settlement only marks a past attempt: neither the entry's state nor its retention depends on
        // that.
        if decision.answer.is_ok() {
            next.updated_at = context.now;
            super::retention::set_ends(next, context.policy);
        }
    }
    decision
}

/// The version of what is written in place of this entry. A key that is granted again after its entry was purged or deleted never
/// gets a version that it had before: what was decided on its old row cannot overwrite the new one.
pub(super) fn next_version(entry: Option<&Entry>, context: &Context<'_>) -> i64 {
    entry.map_or_else(|| context.first_version(), |old| old.version + 1)
}

/// What a command is answered whatever the entry of its key is; `None` if the entry decides.
#[must_use]
pub fn without_entry(key: &Key, command: &Command, policy: &Policy, now: StoreTime) -> Option<Answer> {
    match command {
        Command::Claim(claim) => preconditions::without_entry(key, claim, policy, now),
        Command::Settle(..) => None,
        Command::Lookup => lookup::without_entry(policy),
    }
}

/// Decides for an absent key with the clock at zero: the insert adds the store's clock. At instant zero no message is too old,
/// except one from before the window floor. Also returns the instant until which a decision on a claim is valid: after it, the
/// message is outside the window.
#[must_use]
pub fn decide_absent(key: &Key, command: &Command, policy: &Policy, position: i64) -> (Decision, StoreTime) {
    let context = Context {
        policy,
        now: StoreTime(0),
        token_offset: 0,
        position,
        clock_behind: false,
        clock_before_release: false,
        clock_ahead: false,
    };
    let valid_until = match command {
        Command::Claim(claim) => claim::inside_until(claim, policy),
        Command::Settle(..) | Command::Lookup => StoreTime::MAX,
    };
    (decide(key, None, command, &context), valid_until)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OccurredAtMode, Reason, ReplayMode, Reply, RunMode, Span, Standing, Verdict};

    fn claim(occurred_at: Option<StoreTime>) -> Command {
        Command::Claim(claim::tests::claim(occurred_at))
    }

    #[test]
    fn absent_key_is_granted_until_window_or_run_end() {
        let (key, made, end) = (Key::new("c", "s", "1"), StoreTime(1_780_000_000_000_000), StoreTime(9_000));
        let live = Policy::default();
        let rebuilds = Standing::Known { mode: RunMode::Rebuild, end };
        let run = Policy { run: rebuilds, replay: ReplayMode::Rebuild, ..Policy::default() };
        // Grants no claim without `occurred_at`.
        let asks = Policy { occurred_at: OccurredAtMode::Require, ..Policy::default() };
        for (command, policy, until) in [
            (claim(None), live.clone(), StoreTime::MAX),
            (claim(Some(made)), live.clone(), made + live.retention - Span(1)),
            (claim(Some(made)), asks, made + live.retention - Span(1)),
            (claim(None), run.clone(), end - Span(1)),
        ] {
            let (decision, valid) = decide_absent(&key, &command, &policy, 1);
            let acquired = matches!(decision.answer, Ok(Reply::Verdict(Verdict::Acquired { .. })));
            assert!(acquired && decision.grants, "{:?}", decision.answer);
            assert_eq!(valid, until, "{command:?} {:?}", policy.run);
        }
        let floored = Policy { window_floor: made, ..live };
        let (decision, _) = decide_absent(&key, &claim(Some(made)), &floored, 1);
        assert!(decision.write.is_none(), "its entry may have been purged");
        let settle = Command::Settle(7, crate::Settle::Release { delay: Span::ZERO, unpin: false });
        let (decision, valid) = decide_absent(&key, &settle, &run, 1);
        assert_eq!((decision.answer.unwrap_err().reason, valid), (Reason::EntryNotFound, StoreTime::MAX));
    }

    #[test]
    fn answer_without_entry_is_given_to_claims_and_lookups_alone() {
        let key = Key::new("c", "s", "1");
        let (now, unreadable) =
            (StoreTime(1), Policy { doubt: crate::Doubt::Unreadable, ..Policy::default() });
        let settle = Command::Settle(7, crate::Settle::Release { delay: Span::ZERO, unpin: false });
        for (command, policy, answered) in [
            (claim(None), Policy::default(), false),
            (claim(None), Policy { occurred_at: OccurredAtMode::Require, ..Policy::default() }, true),
            (Command::Lookup, Policy::default(), false),
            (Command::Lookup, Policy { run: Standing::Unknown, ..Policy::default() }, true),
            (settle, unreadable, false),
        ] {
            assert_eq!(without_entry(&key, &command, &policy, now).is_some(), answered, "{command:?}");
        }
    }
}

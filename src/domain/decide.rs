//! The verbs: one pure function from an entry and a command to an answer and the next entry.

use super::command::{Claim, Command};
use super::context::{Context, Decision};
use super::{Entry, Key, Policy, Rejection, StoreTime, claim, settle};

/// Decides one command: docs/contract.md, sections 4 and 5.
#[must_use]
pub fn decide(key: &Key, entry: Option<&Entry>, command: &Command, context: &Context<'_>) -> Decision {
    let mut decision = match command {
        Command::Claim(claim) => claim::decide(key, entry, claim, context),
        Command::Settle(token, settle) => settle::decide(entry, *token, settle, context),
    };
    if let Some(next) = &mut decision.write {
        // A key that was forgotten and is granted again never has a version that it had before: what was
        // decided on its old row cannot be written over the new one.
        next.version = entry.map_or_else(|| context.first_version(), |old| old.version + 1);
        next.updated_at = context.now;
        next.retain_until = super::retention::retain_until(next, context.policy);
    }
    decision
}

/// What a command lacks, whatever the entry of its key is.
#[must_use]
pub(crate) fn lacks(command: &Command, policy: &Policy) -> Option<Rejection> {
    match command {
        Command::Claim(claim) => claim::lacks(claim, policy),
        Command::Settle(..) => None,
    }
}

/// Decides for an absent key with the clock at zero: the insert adds the real clock. Says also until which
/// instant the decision on a claim is valid: then its message leaves the window.
#[must_use]
pub(crate) fn decide_absent(
    key: &Key,
    command: &Command,
    policy: &Policy,
    position: i64,
) -> (Decision, StoreTime) {
    let context = Context { policy, now: StoreTime(0), token_offset: 0, position, clock_behind: false };
    match command {
        Command::Claim(claim) if claim.occurred_at.is_some() => {
            // At instant zero no message has an age: it is as young as can be.
            let ageless = Command::Claim(Claim { occurred_at: Some(StoreTime::MAX), ..claim.clone() });
            (decide(key, None, &ageless, &context), claim::inside_until(claim, policy))
        }
        Command::Claim(_) | Command::Settle(..) => (decide(key, None, command, &context), StoreTime::MAX),
    }
}

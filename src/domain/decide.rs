//! The verbs: one pure function from an entry and a command to an answer and the next entry.

use super::command::Command;
use super::context::{Context, Decision};
use super::{Entry, Key, claim, settle};

/// Decides one command: contract, sections 4 and 5.
#[must_use]
pub fn decide(key: &Key, entry: Option<&Entry>, command: &Command, context: &Context<'_>) -> Decision {
    let mut decision = match command {
        Command::Claim(claim) => claim::decide(key, entry, claim, context),
        Command::Settle(token, settle) => settle::decide(entry, *token, settle, context),
    };
    if let Some(next) = &mut decision.write {
        // A key that was forgotten and is granted anew never has a version that it had before: what was
        // decided on its old row can not be written over the new one.
        next.version = entry.map_or_else(|| context.first_version(), |old| old.version + 1);
        next.updated_at = context.now;
        next.retain_until = super::retention::retain_until(next, context.policy);
    }
    decision
}

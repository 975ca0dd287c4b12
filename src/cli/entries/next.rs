//! What an operator can do with an entry, by its state.

use crate::cli::text::quoted;
use crate::rpc::proto::{Entry, EntryState};

/// Lines for people: a command, and what it does.
pub(super) fn steps(entry: &Entry) -> Vec<(String, &'static str)> {
    let key = entry.key.clone().unwrap_or_default();
    let command = |what: &str, flags: &str| {
        let words = [&key.consumer, &key.source, &key.id].map(|word| quoted(word)).join(" ");
        format!("idempotency-ledger entries {what} {words}{flags} --reason WHY")
    };
    let redrive = (command("redrive", ""), "have it processed again");
    let done = (command("resolve", " --as completed"), "its effect happened");
    let never = (command("resolve", " --as failed"), "it will never succeed");
    let not_done = (command("resolve", " --as received"), "its effect did not happen: process it");
    let park = (command("park", ""), "stop grants; the holder's Complete still counts");
    match entry.state() {
        EntryState::Parked => vec![redrive, done, never, not_done],
        EntryState::FailedTerminal => vec![redrive, done],
        EntryState::FailedRetryable | EntryState::Received => {
            vec![(String::new(), "wait: the next delivery's Claim is granted once it is due"), park, done]
        }
        EntryState::InProgress if entry.expired => {
            vec![(String::new(), "the next delivery's Claim decides what becomes of it"), redrive, done]
        }
        EntryState::InProgress => vec![(String::new(), "wait: somebody is at it"), park],
        EntryState::Completed => vec![(
            command("redrive", " --force"),
            "it is done. Have it processed again only if a second effect does no harm",
        )],
        EntryState::Unspecified => Vec::new(),
    }
}

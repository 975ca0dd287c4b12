//! What an operator can do with an entry, by its state.

use crate::cli::text::quoted;
use crate::rpc::proto::{ClosedBy, Entry, EntryKey, EntryState, ParkCause};

/// Its effect may have happened, and the ledger does not know: somebody announced it, or a claim ended unsettled.
pub(super) fn doubtful(entry: &Entry) -> bool {
    let unsettled = entry.expired
        || matches!(entry.cause(), ParkCause::EffectUnknown | ParkCause::LeaseExpired)
        || entry.closed_by() == ClosedBy::OperatorPark;
    let open = entry.state() != EntryState::Completed;
    open && (unsettled || entry.effect_started || entry.prior_effect_started || entry.effect_unknown)
}

/// The server redrives it without force, which is only refused of what is done, or may still be at work.
pub(super) fn redrivable(entry: &Entry) -> bool {
    match entry.state() {
        EntryState::Completed | EntryState::Unspecified => false,
        EntryState::InProgress => entry.expired,
        EntryState::Received
        | EntryState::FailedRetryable
        | EntryState::FailedTerminal
        | EntryState::Parked => true,
    }
}

/// A command to paste into a shell. A word that looks like a flag comes after `--`.
fn command(key: &EntryKey, what: &str, flags: &str) -> String {
    let words = [&key.consumer, &key.source, &key.id];
    let text = words.map(|word| quoted(word)).join(" ");
    if words.iter().any(|word| word.starts_with('-')) {
        format!("idempotency-ledger entries {what}{flags} --reason WHY -- {text}")
    } else {
        format!("idempotency-ledger entries {what} {text}{flags} --reason WHY")
    }
}

/// Lines for people: a command, and what it does.
pub(super) fn steps(entry: &Entry) -> Vec<(String, &'static str)> {
    let key = entry.key.clone().unwrap_or_default();
    let command = |what: &str, flags: &str| command(&key, what, flags);
    let again = if doubtful(entry) {
        "have it processed again: its effect may have happened, and this may bring a second one"
    } else {
        "have it processed again"
    };
    let redrive = (command("redrive", ""), again);
    let done = (command("resolve", " --as completed"), "its effect happened");
    let never = (command("resolve", " --as failed"), "it will never succeed");
    let not_done = (command("resolve", " --as received"), "its effect did not happen: process it");
    let park = (command("park", ""), "stop grants; the holder's Complete still counts");
    let say = |text: &'static str| (String::new(), text);
    match entry.state() {
        EntryState::Parked if entry.closed_by() == ClosedBy::OperatorPark => vec![
            say("its holder may be at work: until lease and grace are over redrive and resolve are refused"),
            done,
            not_done,
            never,
            redrive,
        ],
        EntryState::Parked if doubtful(entry) => vec![done, not_done, never, redrive],
        EntryState::Parked => vec![redrive, done, never, not_done],
        EntryState::FailedTerminal if doubtful(entry) => vec![done, not_done, redrive],
        EntryState::FailedTerminal => vec![redrive, done],
        EntryState::FailedRetryable | EntryState::Received => {
            vec![say("wait: the next delivery's Claim is granted once it is due"), park, done]
        }
        EntryState::InProgress if entry.expired => {
            vec![say("the next delivery's Claim decides what becomes of it"), done, not_done, redrive]
        }
        EntryState::InProgress => vec![say("wait: somebody is at it"), park],
        EntryState::Completed | EntryState::Unspecified => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(state: EntryState) -> Entry {
        let key = EntryKey { consumer: "c".into(), source: "s".into(), id: "1".into() };
        Entry { key: Some(key), state: state.into(), ..Entry::default() }
    }

    #[test]
    fn where_the_effect_may_have_happened_finding_out_comes_first() {
        let sure = steps(&entry(EntryState::Parked));
        assert!(sure[0].0.contains(" redrive ") && !sure[0].1.contains("second"), "{sure:?}");
        for doubt in [
            Entry { effect_started: true, ..entry(EntryState::Parked) },
            Entry { prior_effect_started: true, ..entry(EntryState::FailedTerminal) },
            Entry { effect_unknown: true, ..entry(EntryState::Parked) },
            Entry { cause: ParkCause::EffectUnknown.into(), ..entry(EntryState::Parked) },
            Entry { cause: ParkCause::LeaseExpired.into(), ..entry(EntryState::Parked) },
        ] {
            let steps = steps(&doubt);
            assert!(steps[0].0.contains(" resolve c s 1 --as completed"), "{steps:?}");
            assert!(steps.last().unwrap().1.contains("may bring a second one"), "{steps:?}");
        }
    }

    #[test]
    fn what_is_done_is_left_alone() {
        assert!(steps(&Entry { effect_started: true, ..entry(EntryState::Completed) }).is_empty());
    }

    #[test]
    fn a_word_that_looks_like_a_flag_comes_last() {
        let mut parked = entry(EntryState::Parked);
        parked.key.as_mut().unwrap().id = "--yes it's".into();
        let expected = "idempotency-ledger entries redrive --reason WHY -- c s \"--yes it's\"";
        assert_eq!(steps(&parked)[0].0, expected);
    }
}

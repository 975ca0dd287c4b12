//! Suggests what an operator can do with an entry, by its state.

use crate::cli::text::quoted;
use crate::proto::{Entry, EntryChange, EntryKey, EntryState, MessageState};

/// Whether the server makes the change without `force`, by the entry's own list.
fn allowed(entry: &Entry, change: EntryChange) -> bool {
    entry.allowed_changes.iter().any(|allowed| allowed.change() == change && !allowed.needs_force)
}

/// Whether the server makes the change only with `force`.
fn needs_force(entry: &Entry, change: EntryChange) -> bool {
    entry.allowed_changes.iter().any(|allowed| allowed.change() == change && allowed.needs_force)
}

/// Whether the server does not report what the entry allows. A redrive and a resolve are always in that list,
/// at least with force: so only a server that does not know the fields leaves it empty, and it does not
/// report the effect either.
fn silent(entry: &Entry) -> bool {
    entry.allowed_changes.is_empty()
}

const SILENT: &str = "this server does not say what the entry allows, nor whether its effect may have happened: it is \
                      older than this command line; look the effect up before a redrive";
const SECOND: &str =
    "its effect may have happened: a redrive may bring a second one; `entries resolve` if you know";

const DOUBLED: &str = "undo the second effect in the consumer's own system; then make the lease longer than the slowest \
                       attempt";

/// What must follow a change that has messages processed again.
pub(super) const DELIVER_AGAIN: &str = "next: have the messages delivered again, for example from the dead-letter queue: each is \
                                        granted at its next delivery. Stored messages are handed out without one.";

/// What brings an entry on whose message is erased.
pub(super) const ERASED: &str =
    "its message is erased: only another Store or delivery of the message has it processed again";

const FORCED: &str = "if its holder is gone: have it processed again now. If its holder is still at work, the effect may \
                      happen twice, and the holder's Complete is refused";

/// Whether the holder may be at work, so that only `--force` takes the claim from it.
fn at_work(entry: &Entry) -> bool {
    matches!(entry.state(), EntryState::InProgress | EntryState::Parked)
        && needs_force(entry, EntryChange::Redrive)
}

/// Why to ask before a redrive of the entry; `None` if the server would refuse it, or knows of no effect.
pub(super) fn doubt(entry: &Entry) -> Option<&'static str> {
    if silent(entry) {
        return Some(SILENT);
    }
    (entry.effect_doubtful && allowed(entry, EntryChange::Redrive)).then_some(SECOND)
}

/// A command to paste into a shell. A word that looks like a flag follows `--`.
pub(super) fn command(program: &str, key: &EntryKey, what: &str, flags: &str) -> String {
    of_key(program, key, what, &format!("{flags} --reason WHY"))
}

/// The same for a command without a reason.
pub(super) fn of_key(program: &str, key: &EntryKey, what: &str, flags: &str) -> String {
    let words = [&key.consumer, &key.source, &key.id];
    let text = words.map(|word| quoted(word)).join(" ");
    let run = match key.replay_run.as_str() {
        "" => String::new(),
        run => format!(" --replay-run {}", quoted(run)),
    };
    if words.iter().any(|word| word.starts_with('-')) {
        format!("{program} entries {what}{run}{flags} -- {text}")
    } else {
        format!("{program} entries {what} {text}{run}{flags}")
    }
}

/// Lines for people: a command, and what it does. A change that the server would refuse is not suggested.
pub(super) fn steps(program: &str, entry: &Entry) -> Vec<(String, &'static str)> {
    let key = entry.key.clone().unwrap_or_default();
    let command = |change, what: &str, flags: &str, does| (change, command(program, &key, what, flags), does);
    let again = if entry.effect_doubtful {
        "have it processed again: its effect may have happened, and this may bring a second one"
    } else {
        "have it processed again"
    };
    let redrive = command(EntryChange::Redrive, "redrive", "", again);
    let done = command(EntryChange::Resolve, "resolve", " --as completed", "its effect happened");
    let never = command(EntryChange::Resolve, "resolve", " --as failed", "it will never succeed");
    let not_done = command(
        EntryChange::Resolve,
        "resolve",
        " --as received",
        "its effect did not happen: process it again",
    );
    let park = command(EntryChange::Park, "park", "", "stop grants; the holder's Complete still counts");
    let changes = match entry.state() {
        EntryState::Parked if entry.effect_doubtful => vec![done, not_done, never, redrive],
        EntryState::Parked => vec![redrive, done, never, not_done],
        EntryState::FailedTerminal if entry.effect_doubtful => vec![done, not_done, redrive],
        EntryState::FailedTerminal => vec![redrive, done],
        EntryState::FailedRetryable | EntryState::Received => vec![park, done],
        EntryState::InProgress if entry.expired => vec![done, not_done, redrive],
        EntryState::InProgress => vec![park],
        EntryState::Completed | EntryState::Unspecified => Vec::new(),
    };
    let notes = note(entry).map(|note| (String::new(), note));
    let changes = changes.into_iter().filter(|(change, ..)| allowed(entry, *change));
    let look = (entry.message_state() == MessageState::Kept)
        .then(|| (self::command(program, &key, "message", ""), "show its message; the audit has each look"));
    let lease = format!("{program} policy set {} --lease TIME --reason WHY", quoted(&key.consumer));
    let doubled = entry.doubled.then_some((lease, DOUBLED));
    let forced = at_work(entry).then(|| command(EntryChange::Redrive, "redrive", " --force", FORCED));
    let changes = changes.chain(forced).map(|(_, command, does)| (command, does));
    notes.into_iter().chain(doubled).chain(look).chain(changes).collect()
}

/// What an operator must know about the entry before a change of it. `None` if there is nothing to know.
fn note(entry: &Entry) -> Option<&'static str> {
    if silent(entry) {
        return Some(SILENT);
    }
    let is_kept = entry.message_state() == MessageState::Kept;
    match entry.state() {
        EntryState::FailedRetryable | EntryState::Received if is_kept => {
            Some("wait: ClaimNext hands it out once it is due; the message is acknowledged in its broker")
        }
        EntryState::FailedRetryable | EntryState::Received
            if entry.message_state() == MessageState::Erased =>
        {
            Some(ERASED)
        }
        EntryState::InProgress if entry.expired && is_kept => {
            Some("the next ClaimNext decides what becomes of it")
        }
        EntryState::FailedTerminal if entry.message_state() == MessageState::Erased => Some(
            "its message is erased: after a redrive only another Store or delivery has it processed again",
        ),
        EntryState::FailedRetryable | EntryState::Received => {
            Some("wait: the next delivery's Claim is granted once it is due")
        }
        EntryState::InProgress if entry.expired => {
            Some("the next delivery's Claim decides what becomes of it")
        }
        EntryState::InProgress => Some("wait: its holder is at work, or its lease ends"),
        EntryState::Parked if at_work(entry) => Some(
            "its holder may be at work: until its lease and grace are over, redrive and resolve need --force",
        ),
        EntryState::Parked | EntryState::FailedTerminal | EntryState::Completed | EntryState::Unspecified => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::AllowedChange;

    const ALL: [EntryChange; 4] =
        [EntryChange::Redrive, EntryChange::Resolve, EntryChange::Park, EntryChange::Delete];

    /// An entry that allows these changes, and all others only with force.
    fn entry(state: EntryState, allowed: &[EntryChange]) -> Entry {
        let key =
            EntryKey { consumer: "c".into(), source: "s".into(), id: "1".into(), ..EntryKey::default() };
        let allowed_changes = ALL
            .into_iter()
            .map(|change| AllowedChange { change: change.into(), needs_force: !allowed.contains(&change) });
        let allowed_changes = allowed_changes.collect();
        Entry { key: Some(key), state: state.into(), allowed_changes, ..Entry::default() }
    }

    /// The suggestions, in short.
    fn short(entry: &Entry) -> Vec<String> {
        let one = |(command, does): (String, &str)| match command.split(' ').nth(2) {
            None => does.split([':', ',']).next().unwrap().to_owned(),
            Some("resolve") => command.split(' ').nth(7).unwrap().to_owned(),
            Some(what) => what.to_owned(),
        };
        steps("ledger", entry).into_iter().map(one).collect()
    }

    #[test]
    fn refused_changes_are_not_suggested() {
        use EntryState::{Completed, FailedRetryable, FailedTerminal, InProgress, Parked, Received};
        let expired = |allowed| Entry { expired: true, ..entry(InProgress, allowed) };
        let doubtful = |state, allowed| Entry { effect_doubtful: true, ..entry(state, allowed) };
        let kept = |entry| Entry { message_state: MessageState::Kept.into(), ..entry };
        let erased = |entry| Entry { message_state: MessageState::Erased.into(), ..entry };
        let silent = |state| Entry { allowed_changes: Vec::new(), ..entry(state, &[]) };
        for (entry, suggested) in [
            (entry(Parked, &ALL), &["redrive", "completed", "failed", "received"][..]),
            (doubtful(Parked, &ALL), &["completed", "received", "failed", "redrive"]),
            (doubtful(Parked, &[]), &["its holder may be at work", "redrive"]),
            (entry(FailedTerminal, &ALL), &["redrive", "completed"]),
            (doubtful(FailedTerminal, &ALL), &["completed", "received", "redrive"]),
            (entry(FailedRetryable, &ALL), &["wait", "park", "completed"]),
            (entry(Received, &[EntryChange::Park]), &["wait", "park"]),
            (entry(InProgress, &[EntryChange::Park]), &["wait", "park", "redrive"]),
            (
                expired(&ALL),
                &["the next delivery's Claim decides what becomes of it", "completed", "received", "redrive"],
            ),
            (kept(entry(Received, &[EntryChange::Park])), &["wait", "message", "park"]),
            (kept(expired(&[])), &["the next ClaimNext decides what becomes of it", "message", "redrive"]),
            (erased(entry(Received, &[EntryChange::Park])), &["its message is erased", "park"]),
            (erased(entry(FailedTerminal, &ALL)), &["its message is erased", "redrive", "completed"]),
            (entry(Completed, &[]), &[]),
            (Entry { doubled: true, ..entry(Completed, &[]) }, &["set"]),
            // For a server that does not report it no command is suggested.
            (silent(Parked), &["this server does not say what the entry allows"]),
        ] {
            assert_eq!(short(&entry), suggested, "{entry:?}");
        }
        let doubt = steps("ledger", &doubtful(Parked, &ALL));
        assert!(doubt.last().unwrap().1.contains("may bring a second one"), "{doubt:?}");
        assert!(!steps("ledger", &entry(Parked, &ALL))[0].1.contains("second"));
    }

    #[test]
    fn redrive_of_a_claim_that_is_held_is_suggested_with_force_and_its_risk() {
        let held = steps("ledger", &entry(EntryState::InProgress, &[EntryChange::Park]));
        let (command, does) = held.last().unwrap();
        assert_eq!(command, "ledger entries redrive c s 1 --force --reason WHY");
        assert!(does.contains("may happen twice"), "{does}");
        for settled in [entry(EntryState::Parked, &ALL), entry(EntryState::Completed, &[])] {
            assert!(steps("ledger", &settled).iter().all(|(command, _)| !command.contains("--force")));
        }
    }

    #[test]
    fn redrive_with_a_possible_second_effect_asks() {
        let parked = entry(EntryState::Parked, &ALL);
        let doubtful = |entry| Entry { effect_doubtful: true, ..entry };
        for (entry, why) in [
            (parked.clone(), None),
            (doubtful(parked.clone()), Some(SECOND)),
            // The server would refuse it.
            (doubtful(entry(EntryState::Parked, &[])), None),
            (Entry { allowed_changes: Vec::new(), ..parked }, Some(SILENT)),
        ] {
            assert_eq!(doubt(&entry), why, "{entry:?}");
        }
    }

    #[test]
    fn key_that_looks_like_a_flag_follows_the_flags() {
        let mut parked = entry(EntryState::Parked, &ALL);
        parked.key.as_mut().unwrap().id = "--yes it's".into();
        let expected = "ledger entries redrive --reason WHY -- c s \"--yes it's\"";
        assert_eq!(steps("ledger", &parked)[0].0, expected);
    }

    #[test]
    fn entry_of_a_replay_run_is_changed_in_its_run() {
        let mut parked = entry(EntryState::Parked, &ALL);
        parked.key.as_mut().unwrap().replay_run = "view 9".into();
        assert_eq!(
            steps("ledger", &parked)[0].0,
            "ledger entries redrive c s 1 --replay-run 'view 9' --reason WHY"
        );
        parked.key.as_mut().unwrap().id = "-1".into();
        assert_eq!(
            steps("ledger", &parked)[0].0,
            "ledger entries redrive --replay-run 'view 9' --reason WHY -- c s -1"
        );
    }
}

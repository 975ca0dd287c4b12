//! The screen of `entries next`: how many messages are due, why none is handed out, the messages, and how to see one.

use super::found::{Found, is_suspect};
use crate::cli::entries::suggestions;
use crate::cli::entries::summary::OVERDUE;
use crate::cli::enums;
use crate::cli::output::{Output, TextStyle};
use crate::cli::problem::Problem;
use crate::cli::step::step;
use crate::cli::table::{Cell, Column, Table, wrapped_text};
use crate::cli::text::{ago, clean, counted, name, quoted, rough};

/// Of messages that all have the same source, the source is the first column that a narrow terminal can spare.
const COLUMNS: [Column; 8] = [
    Column::whole("DUE FOR"),
    Column::whole("ATTEMPTS"),
    Column::whole("SUSPECT"),
    Column::whole("STATE").left_out(2),
    Column::name("ID"),
    Column::name("SOURCE").left_out(1),
    Column::name("OWNER").left_out(3),
    Column::text("LAST ERROR"),
];

pub(super) fn print(output: Output, program: &str, found: &Found) -> Result<(), Problem> {
    head(output, found).iter().try_for_each(|line| output.line(line))?;
    if !found.due().is_empty() {
        table(found).print(output)?;
    }
    for line in next(output, program, found) {
        output.note(&line);
    }
    Ok(())
}

/// How many messages are due, and why none is handed out.
fn head(output: Output, found: &Found) -> Vec<String> {
    let consumer = clean(&found.consumer);
    let text = match &found.summary.inbox {
        None if found.due().is_empty() => format!("{consumer}: no inbox, and no stored message"),
        // The messages could not be counted.
        None => format!("{consumer}: the messages were not counted"),
        Some(inbox) => {
            let verb = if inbox.due == 1 { "message is" } else { "messages are" };
            let oldest = inbox.oldest_due_age.as_ref();
            let oldest =
                oldest.map_or_else(String::new, |age| format!(", the oldest for {}", rough(age.seconds)));
            let more = if inbox.at_least { ", or more" } else { "" };
            format!(
                "{consumer}: {} stored {verb} due{oldest}; {} handed out later{more}",
                inbox.due,
                counted(inbox.later, "is", "are")
            )
        }
    };
    let mut lines = wrap(output, &text, TextStyle::Plain);
    if let Some((why, _)) = stopped(found) {
        lines.extend(wrap(output, &format!("nothing is handed out now: {why}"), TextStyle::Bad));
    }
    lines
}

fn wrap(output: Output, text: &str, style: TextStyle) -> Vec<String> {
    let lines = wrapped_text(text, output.width().unwrap_or(usize::MAX));
    lines.iter().map(|line| output.styled(line, style)).collect()
}

/// Why `ClaimNext` grants nothing, and the command that shows who decided it.
fn stopped(found: &Found) -> Option<(&'static str, String)> {
    if found.summary.disabled {
        return Some((
            "the policy of the consumer is disabled",
            format!("policy history {}", quoted(&found.consumer)),
        ));
    }
    found.summary.held_by.as_ref()?;
    Some(("the consumer is held", "policy holds".to_owned()))
}

fn table(found: &Found) -> Table {
    let mut table = Table::of(&COLUMNS);
    for entry in found.due() {
        let key = entry.key.clone().unwrap_or_default();
        let suspect = is_suspect(entry);
        table.row(vec![
            ago(entry.due_at.as_ref(), &found.now).into(),
            entry.attempts.to_string().into(),
            if suspect { Cell::new("yes", TextStyle::Doubtful) } else { "no".into() },
            enums::state(entry.state).into(),
            name(&key.id).into(),
            name(&key.source).into(),
            if entry.owner.is_empty() { "-".into() } else { name(&entry.owner).into() },
            if entry.last_error.is_empty() { "-".into() } else { clean(&entry.last_error).into() },
        ]);
    }
    table
}

/// What an operator can do.
fn next(output: Output, program: &str, found: &Found) -> Vec<String> {
    let mut lines = Vec::new();
    let mut put = |command: &str, what: &str| lines.extend(step(output.width(), command, what));
    let due = found.due();
    if let Some((_, command)) = stopped(found) {
        put(&format!("{program} {command}"), "who stopped it, and why");
    } else if due.iter().any(|entry| found.now.seconds - entry.due_at.unwrap_or_default().seconds >= OVERDUE)
    {
        put("", "start workers of this consumer, or more of them: no worker takes the oldest message");
    }
    if let Some(key) = due.first().and_then(|entry| entry.key.as_ref()) {
        let command = suggestions::command(program, key, "message", "");
        put(&command, "show the first message; the audit has each look");
    } else if found.summary.inbox.is_none() {
        let consumer = quoted(&found.consumer);
        put(&format!("{program} policy set {consumer} --inbox --reason WHY"), "switch its inbox on");
    } else {
        let at = found.next_due();
        let when = at.map_or_else(String::new, |at| {
            format!("; the next one is due in {}", rough(at.seconds - found.now.seconds))
        });
        lines.push(format!("no message is due{when}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::screens::{before, check};
    use crate::proto::{
        Attempt, ClosedBy, ConsumerSummary, Entry, EntryKey, EntryState, InboxSummary, ListEntriesResponse,
        SummarizeEntriesResponse,
    };

    fn entry(id: &str, state: EntryState, attempts: i32, due: i64) -> Entry {
        let key =
            EntryKey { consumer: "mail".into(), source: "shop".into(), id: id.into(), ..EntryKey::default() };
        let owner = if attempts > 0 { "mail-7b9f4d5c8d-x2x8q/1" } else { "" };
        Entry {
            key: Some(key),
            state: state.into(),
            attempts,
            owner: owner.into(),
            created_at: before(due + 60),
            due_at: before(due),
            ..Entry::default()
        }
    }

    fn found(summary: ConsumerSummary, entries: Vec<Entry>) -> Found {
        let answer = SummarizeEntriesResponse {
            consumers: vec![summary],
            as_of: before(0),
            ..SummarizeEntriesResponse::default()
        };
        let mut found = Found::new("mail", answer, 10);
        found.add(ListEntriesResponse { entries, ..ListEntriesResponse::default() });
        found
    }

    fn mail(due: i64, seconds: i64) -> ConsumerSummary {
        let oldest_due_age = Some(prost_types::Duration { seconds, nanos: 0 });
        let inbox = Some(InboxSummary { due, later: 1, oldest_due_age, at_least: false });
        ConsumerSummary { consumer: "mail".into(), inbox, ..ConsumerSummary::default() }
    }

    fn screen(found: &Found, output: Output) -> Vec<String> {
        let mut lines = head(output, found);
        if !found.due().is_empty() {
            let fitted = table(found).fitted(output, output.width());
            let note = fitted.note();
            lines.extend(fitted.lines.into_iter().chain(note));
        }
        lines.extend(next(output, "ledger", found));
        lines
    }

    #[test]
    fn next_screens_show_what_is_due_and_the_suspect() {
        let expired = Attempt { outcome: ClosedBy::Expiry.into(), ..Attempt::default() };
        let suspect = Entry {
            expired: true,
            history: vec![expired],
            ..entry("order-17", EntryState::InProgress, 2, 1_200)
        };
        let failed = Entry {
            last_error: "provider answered 502: upstream connect error or disconnect".into(),
            ..entry("order-4", EntryState::FailedRetryable, 1, 65)
        };
        let stored = entry("018f3b9e-7c1d-7c3e-9a55-0123456789ab", EntryState::Received, 0, 3);
        let due = found(mail(3, 1_200), vec![failed, stored, suspect]);
        check("next", |output| screen(&due, output));
        let plain = screen(&due, Output::plain());
        assert!(plain[2].starts_with("20m      2         yes      IN_PROGRESS "), "{plain:?}");
    }

    #[test]
    fn next_names_why_nothing_is_handed_out() {
        let waiting = || vec![entry("order-4", EntryState::Received, 0, 70)];
        let disabled = ConsumerSummary { disabled: true, ..mail(1, 70) };
        let held = ConsumerSummary { held_by: Some("ma".into()), ..mail(1, 70) };
        let later = Entry { due_at: before(-90), ..entry("order-4", EntryState::FailedRetryable, 1, 0) };
        for (found, says) in [
            (
                found(disabled, waiting()),
                &["nothing is handed out now: the policy of the consumer is disabled", "policy history mail"]
                    [..],
            ),
            (
                found(held, waiting()),
                &["nothing is handed out now: the consumer is held", "next: ledger policy holds"],
            ),
            (
                found(mail(1, 900), vec![entry("1", EntryState::Received, 0, 900)]),
                &[
                    "mail: 1 stored message is due, the oldest for 15m; 1 is handed out later",
                    "start workers",
                ],
            ),
            (found(mail(0, 0), vec![later]), &["no message is due; the next one is due in 1m"]),
            (found(mail(0, 0), Vec::new()), &["no message is due"]),
            (found(ConsumerSummary::default(), waiting()), &["mail: the messages were not counted"]),
            (
                found(ConsumerSummary::default(), Vec::new()),
                &["mail: no inbox, and no stored message", "ledger policy set mail --inbox --reason WHY"],
            ),
        ] {
            let shown = screen(&found, Output::plain()).join("\n");
            for word in says {
                assert!(shown.contains(word), "must say {word:?}:\n{shown}");
            }
            let due = !found.due().is_empty();
            assert_eq!(shown.contains("ledger entries message mail shop "), due, "{shown}");
        }
        let young =
            screen(&found(mail(1, 899), vec![entry("1", EntryState::Received, 0, 899)]), Output::plain());
        assert!(!young.join("\n").contains("start workers"), "{young:?}");
    }
}

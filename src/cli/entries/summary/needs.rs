//! What of a summary needs a person: shown first, the worst at the top.

use std::borrow::Cow;

use super::look::Look;
use crate::cli::enums;
use crate::cli::output::{Output, TextStyle};
use crate::cli::table::wrapped_text;
use crate::cli::text::{clean, counted, quoted, rough};
use crate::proto::{ConsumerSummary, EntryState};

/// A consumer is named up to this number of them; the tables below name all.
const NAMED_MAX: usize = 5;
/// The threshold in seconds of the alert `InboxOldestDue` (deploy/alerts/rules.yaml).
pub(in crate::cli::entries) const OVERDUE: i64 = 900;

/// The lines, or one line where nothing needs a person.
pub(super) fn lines(output: Output, look: &Look) -> Vec<String> {
    let consumers = &look.summary.consumers;
    let mut needs: Vec<(TextStyle, String, String, Cow<'static, str>)> = Vec::new();
    let doubled = count(consumers, |one| one.doubled);
    if doubled > 0 {
        let text = counted(doubled, "effect may have happened twice", "effects may have happened twice");
        needs.push((TextStyle::Bad, text, of(consumers, |one| one.doubled), "entries list --doubled".into()));
    }
    let parked = |one: &ConsumerSummary| in_state(one, EntryState::Parked);
    if count(consumers, parked) > 0 {
        let more = if at_least(consumers, EntryState::Parked) { "+" } else { "" };
        let number = count(consumers, parked);
        let noun = if number == 1 { "entry is" } else { "entries are" };
        let text = format!("{number}{more} {noun} parked");
        needs.push((
            TextStyle::Bad,
            text,
            of(consumers, parked),
            "entries list --state PARKED --group-by error".into(),
        ));
    }
    let expired = count(consumers, |one| one.expired);
    if expired > 0 {
        let longest = consumers.iter().filter_map(|one| one.longest_expired.as_ref()).map(|age| age.seconds);
        let since = longest.max().map_or_else(String::new, |age| format!(", the longest for {}", rough(age)));
        let text = format!("{}{since}", counted(expired, "claim is expired", "claims are expired"));
        let command = "entries list --expired".into();
        needs.push((TextStyle::Doubtful, text, of(consumers, |one| one.expired), command));
    }
    let waits = |one: &ConsumerSummary| {
        if overdue(one) > 0 { one.inbox.as_ref().map_or(0, |inbox| inbox.due) } else { 0 }
    };
    if count(consumers, waits) > 0 {
        let longest = consumers.iter().map(overdue).max().unwrap_or_default();
        let text = format!("stored messages wait, the oldest has been due for {}", rough(longest));
        let command = largest(consumers, waits).map(|one| format!("entries next {}", quoted(&one.consumer)));
        needs.push((TextStyle::Doubtful, text, of(consumers, waits), command.unwrap_or_default().into()));
    }
    let near = count(consumers, |one| one.near_exhaustion);
    if near > 0 {
        let noun = counted(near, "entry has", "entries have");
        let text = format!("{noun} at most one attempt left");
        let command = "entries list --state FAILED_RETRYABLE".into();
        needs.push((TextStyle::Doubtful, text, of(consumers, |one| one.near_exhaustion), command));
    }
    let stopped = look.stopped();
    if !stopped.is_empty() {
        needs.push((TextStyle::Bad, "no new grants".to_owned(), stopped, look.who_stopped().into()));
    }
    if needs.is_empty() {
        return vec![output.styled("nothing needs a person", TextStyle::Good)];
    }
    let mut lines = vec![output.styled("needs a person:", TextStyle::Strong)];
    for (style, text, whose, command) in needs {
        let line = format!("{text}: {whose} ({command})");
        let room = output.width().map_or(usize::MAX, |width| width.saturating_sub(4));
        for (nth, part) in wrapped_text(&line, room).iter().enumerate() {
            let indent = if nth == 0 { "  " } else { "    " };
            lines.push(format!("{indent}{}", output.styled(part, style)));
        }
    }
    lines
}

/// For how many seconds the oldest stored message has been due, if that is long enough for the alert `InboxOldestDue`.
fn overdue(consumer: &ConsumerSummary) -> i64 {
    let age = consumer.inbox.as_ref().and_then(|inbox| inbox.oldest_due_age.as_ref());
    age.map(|age| age.seconds).filter(|age| *age >= OVERDUE).unwrap_or_default()
}

fn count(consumers: &[ConsumerSummary], number: impl Fn(&ConsumerSummary) -> i64) -> i64 {
    consumers.iter().map(number).sum()
}

fn in_state(consumer: &ConsumerSummary, state: EntryState) -> i64 {
    consumer.states.iter().filter(|one| one.state() == state).map(|one| one.count).sum()
}

fn at_least(consumers: &[ConsumerSummary], state: EntryState) -> bool {
    consumers.iter().flat_map(|one| &one.states).any(|one| one.state() == state && one.at_least)
}

/// The consumers with the largest numbers.
fn of(consumers: &[ConsumerSummary], number: impl Fn(&ConsumerSummary) -> i64) -> String {
    let mut with: Vec<(i64, String)> =
        consumers.iter().map(|one| (number(one), name(one))).filter(|(number, _)| *number > 0).collect();
    with.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    let more = with.len().saturating_sub(NAMED_MAX);
    let named: Vec<String> =
        with.iter().take(NAMED_MAX).map(|(number, name)| format!("{name} {number}")).collect();
    listed(named, more)
}

/// The consumer with the largest number, the first by its name.
fn largest(
    consumers: &[ConsumerSummary],
    number: impl Fn(&ConsumerSummary) -> i64,
) -> Option<&ConsumerSummary> {
    let with = consumers.iter().filter(|one| number(one) > 0);
    with.min_by(|one, other| number(other).cmp(&number(one)).then_with(|| one.consumer.cmp(&other.consumer)))
}

/// A consumer, with its replay run.
fn name(one: &ConsumerSummary) -> String {
    match one.replay_run.as_str() {
        "" => clean(&one.consumer),
        run => format!("{} (replay run {})", clean(&one.consumer), clean(run)),
    }
}

pub(super) fn listed(mut names: Vec<String>, more: usize) -> String {
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

impl Look {
    /// The consumers that are granted nothing, and why.
    fn stopped(&self) -> String {
        let mut names: Vec<String> = self
            .holds
            .iter()
            .map(|hold| {
                if hold.all {
                    "all consumers (held)".to_owned()
                } else {
                    format!("{}* (held)", clean(&hold.prefix))
                }
            })
            .collect();
        for one in &self.summary.consumers {
            if !one.disabled && self.holds.is_empty() && one.held_by.is_some() {
                names.push(format!("{} (held)", clean(&one.consumer)));
            }
        }
        let disabled = self.disabled();
        names.extend(disabled.iter().map(|name| format!("{} (disabled)", clean(name))));
        let more = names.len().saturating_sub(NAMED_MAX);
        names.truncate(NAMED_MAX);
        listed(names, more)
    }

    /// The consumers whose policies are disabled, by name.
    fn disabled(&self) -> Vec<&str> {
        let summarized = self.summary.consumers.iter().filter(|one| one.disabled);
        let mut names: Vec<&str> = summarized.map(|one| one.consumer.as_str()).collect();
        names.extend(self.disabled.iter().map(String::as_str));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The commands that show who stopped the consumers, and why: of several disabled policies, the history of the first.
    fn who_stopped(&self) -> String {
        let is_held = self.summary.consumers.iter().any(|one| one.held_by.is_some());
        let holds = (is_held || !self.holds.is_empty()).then(|| "policy holds".to_owned());
        let history = self.disabled().first().map(|name| format!("policy history {}", quoted(name)));
        holds.into_iter().chain(history).collect::<Vec<_>>().join("; ")
    }
}

/// The word of a state, for the line about what has changed.
pub(super) fn word(state: i32, cause: i32) -> String {
    if cause == 0 {
        enums::state(state)
    } else {
        format!("{} ({})", enums::state(state), enums::cause(cause))
    }
}

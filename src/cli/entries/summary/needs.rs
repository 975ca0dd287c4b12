//! What of a summary needs a person: shown first, the worst at the top.

use std::borrow::Cow;

use console::measure_text_width;

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
/// Ten times the default lease, in seconds: a claim that is held on an older message is renewed for long, or has a long lease.
const OPEN_LONG: i64 = 300;

/// The lines, or one line where nothing needs a person.
pub(super) fn lines(output: Output, look: &Look) -> Vec<String> {
    let consumers = &look.summary.consumers;
    let mut needs: Vec<Need> = Vec::new();
    let mut put = |style, text, whose, command| needs.push(Need { style, text, whose, command });
    let doubled = count(consumers, |one| one.doubled);
    if doubled > 0 {
        let text = counted(doubled, "effect may have happened twice", "effects may have happened twice");
        put(TextStyle::Bad, text, of(consumers, |one| one.doubled), "entries list --doubled".into());
    }
    let parked = |one: &ConsumerSummary| in_state(one, EntryState::Parked);
    if count(consumers, parked) > 0 {
        let more = if at_least(consumers, EntryState::Parked) { "+" } else { "" };
        let number = count(consumers, parked);
        let noun = if number == 1 { "entry is" } else { "entries are" };
        let text = format!("{number}{more} {noun} parked");
        put(
            TextStyle::Bad,
            text,
            of(consumers, parked),
            "entries list --state PARKED --group-by error".into(),
        );
    }
    let expired = count(consumers, |one| one.expired);
    if expired > 0 {
        let longest = consumers.iter().filter_map(|one| one.longest_expired.as_ref()).map(|age| age.seconds);
        let since = longest.max().map_or_else(String::new, |age| format!(", the longest for {}", rough(age)));
        let text = format!("{}{since}", counted(expired, "claim is expired", "claims are expired"));
        let command = "entries list --expired".into();
        put(TextStyle::Doubtful, text, of(consumers, |one| one.expired), command);
    }
    let waits = |one: &ConsumerSummary| {
        if overdue(one) > 0 { one.inbox.as_ref().map_or(0, |inbox| inbox.due) } else { 0 }
    };
    if count(consumers, waits) > 0 {
        let longest = consumers.iter().map(overdue).max().unwrap_or_default();
        let text = format!("stored messages wait, the oldest has been due for {}", rough(longest));
        let command = largest(consumers, waits).map(|one| format!("entries next {}", quoted(&one.consumer)));
        put(TextStyle::Doubtful, text, of(consumers, waits), command.unwrap_or_default().into());
    }
    let near = count(consumers, |one| one.near_exhaustion);
    if near > 0 {
        let noun = counted(near, "entry has", "entries have");
        let text = format!("{noun} at most one attempt left");
        let command = "entries list --state FAILED_RETRYABLE".into();
        put(TextStyle::Doubtful, text, of(consumers, |one| one.near_exhaustion), command);
    }
    let stopped = look.stopped();
    if !stopped.is_empty() {
        put(TextStyle::Bad, "no new grants".to_owned(), stopped, look.who_stopped().into());
    }
    let mut lines = vec![if needs.is_empty() {
        output.styled("nothing needs a person", TextStyle::Good)
    } else {
        output.styled("needs a person:", TextStyle::Strong)
    }];
    lines.extend(needs.iter().flat_map(|need| need.lines(output)));
    let looks = worth_a_look(consumers);
    if !looks.is_empty() {
        lines.push(output.styled("worth a look:", TextStyle::Strong));
        lines.extend(looks.iter().flat_map(|look| look.lines(output)));
    }
    lines
}

/// What may be as it must be: only a person knows how long a handler takes, and whether a message is delivered again.
fn worth_a_look(consumers: &[ConsumerSummary]) -> Vec<Need> {
    let mut looks = Vec::new();
    let open = |one: &ConsumerSummary| {
        // Expired claims are named above.
        let held = (in_state(one, EntryState::InProgress) - one.expired).max(0);
        if oldest(one, EntryState::InProgress) >= OPEN_LONG { held } else { 0 }
    };
    if count(consumers, open) > 0 {
        let longest = consumers.iter().map(|one| oldest(one, EntryState::InProgress)).max();
        let age = rough(longest.unwrap_or_default());
        looks.push(Need {
            style: TextStyle::Plain,
            text: format!("claims are held on messages that are up to {age} old"),
            whose: of(consumers, open),
            command: format!("entries list --state IN_PROGRESS --older-than {}m", OPEN_LONG / 60).into(),
        });
    }
    // Workers take the stored messages of an inbox; all others wait for a delivery.
    let waits = |one: &ConsumerSummary| {
        if one.inbox.is_some() { 0 } else { in_state(one, EntryState::Received) }
    };
    if count(consumers, waits) > 0 {
        looks.push(Need {
            style: TextStyle::Plain,
            text: "redriven or resolved messages wait until they are delivered again".to_owned(),
            whose: of(consumers, waits),
            command: "entries list --state RECEIVED".into(),
        });
    }
    looks
}

/// One line of the summary: what there is, of which consumers, and the command that shows more.
struct Need {
    style: TextStyle,
    text: String,
    whose: String,
    command: Cow<'static, str>,
}

impl Need {
    /// The lines. Where the line is wider than the terminal, the command follows in a line without a break, so that it can be pasted.
    fn lines(&self, output: Output) -> Vec<String> {
        const INDENT: usize = 4;
        let Need { style, text, whose, command } = self;
        let (text, room) = (format!("{text}: {whose}"), output.width().unwrap_or(usize::MAX));
        let whole = format!("{text} ({command})");
        if measure_text_width(&whole) + INDENT <= room {
            return vec![format!("  {}", output.styled(&whole, *style))];
        }
        let parts = wrapped_text(&text, room.saturating_sub(INDENT));
        let head = |nth: usize| if nth == 0 { "  " } else { "    " };
        let texts = parts
            .iter()
            .enumerate()
            .map(|(nth, part)| format!("{}{}", head(nth), output.styled(part, *style)));
        texts.chain([format!("    {command}")]).collect()
    }
}

/// The age in seconds of the oldest entry in a state.
fn oldest(consumer: &ConsumerSummary, state: EntryState) -> i64 {
    let states = consumer.states.iter().filter(|one| one.state() == state);
    states.filter_map(|one| one.oldest_age.as_ref()).map(|age| age.seconds).max().unwrap_or_default()
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

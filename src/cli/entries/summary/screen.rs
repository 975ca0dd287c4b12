//! The screen of a summary: what needs a person, the totals, each consumer; and what has changed since the last look.

use std::collections::BTreeMap;

use super::look::Look;
use super::needs;
use crate::cli::enums;
use crate::cli::output::{Output, TextStyle};
use crate::cli::table::{Cell, Column, Table, wrapped_text};
use crate::cli::text::{clean, rough, when};
use crate::proto;

const STATES: [Column; 4] =
    [Column::whole("STATE"), Column::whole("CAUSE"), Column::whole("COUNT"), Column::whole("OLDEST")];

/// The lines of a look; `last` is the look before it.
pub(super) fn lines(output: Output, look: &Look, last: Option<&Look>) -> Vec<String> {
    let summary = &look.summary;
    let mut lines = Vec::new();
    if let Some(as_of) = &summary.as_of {
        lines.push(output.styled(&format!("as of {}", when(as_of)), TextStyle::Faint));
    }
    lines.extend(needs::lines(output, look));
    lines.extend(last.into_iter().flat_map(|last| changed(output, look, last)));
    if summary.consumers.is_empty() {
        lines.push("there are no entries".to_owned());
    }
    if summary.consumers.len() > 1 {
        lines.push(output.styled("all consumers", TextStyle::Strong));
        lines.extend(states(&total(&summary.consumers)).lines(output));
    }
    for consumer in &summary.consumers {
        let disabled = match (consumer.disabled, &consumer.held_by) {
            (true, _) => "  disabled: no new grants",
            (false, Some(_)) => "  held: no new grants",
            (false, None) => "",
        };
        let run = match consumer.replay_run.as_str() {
            "" => String::new(),
            run => format!("  replay run {}", clean(run)),
        };
        lines.push(format!(
            "{}{run}{}",
            output.styled(&clean(&consumer.consumer), TextStyle::Strong),
            output.styled(disabled, TextStyle::Bad)
        ));
        lines.extend(states(&consumer.states).lines(output));
        lines.extend(marks(output, consumer));
    }
    lines
}

fn states(states: &[proto::StateSummary]) -> Table {
    let mut table = Table::of(&STATES).indented();
    // "0 or more" is not informative: for a busy consumer the claims of the last minute are searched among
    // its youngest entries.
    for state in states.iter().filter(|state| state.count > 0 || !state.at_least) {
        let about = if state.estimated { "~" } else { "" };
        let more = if state.at_least { "+" } else { "" };
        table.row(vec![
            Cell::new(enums::state(state.state), enums::style(state.state, false)),
            enums::cause(state.cause).into(),
            format!("{about}{}{more}", state.count).into(),
            state.oldest_age.as_ref().map_or_else(|| "-".to_owned(), |age| rough(age.seconds)).into(),
        ]);
    }
    table
}

/// What the states of a consumer do not show.
fn marks(output: Output, consumer: &proto::ConsumerSummary) -> Vec<String> {
    let mut lines = Vec::new();
    if consumer.expired > 0 {
        let longest = consumer.longest_expired.as_ref();
        let longest =
            longest.map_or_else(String::new, |age| format!(", the longest for {}", rough(age.seconds)));
        let text = format!("  expired claims: {}{longest}", consumer.expired);
        lines.push(output.styled(&text, TextStyle::Doubtful));
    }
    if let Some(inbox) = &consumer.inbox {
        let more = if inbox.at_least { ", or more" } else { "" };
        let oldest = inbox.oldest_due_age.as_ref();
        let oldest =
            oldest.map_or_else(String::new, |age| format!(", the oldest for {}", rough(age.seconds)));
        lines.push(format!("  stored messages: {} due{oldest}; {} later{more}", inbox.due, inbox.later));
    }
    if consumer.doubled > 0 {
        let text = format!("  doubled effects: {}", consumer.doubled);
        lines.push(output.styled(&text, TextStyle::Bad));
    }
    if consumer.near_exhaustion > 0 {
        let text = format!("  with at most one attempt left: {}", consumer.near_exhaustion);
        lines.push(output.styled(&text, TextStyle::Doubtful));
    }
    lines
}

/// The states of all consumers together. A sum with one estimate, or one lower bound, is one itself.
fn total(consumers: &[proto::ConsumerSummary]) -> Vec<proto::StateSummary> {
    let mut sums: BTreeMap<(i32, i32), proto::StateSummary> = BTreeMap::new();
    for state in consumers.iter().flat_map(|one| &one.states) {
        let sum = sums.entry((state.state, state.cause)).or_insert_with(|| proto::StateSummary {
            state: state.state,
            cause: state.cause,
            ..Default::default()
        });
        sum.count = sum.count.saturating_add(state.count);
        sum.estimated |= state.estimated;
        sum.at_least |= state.at_least;
        let older = |age: &&prost_types::Duration| {
            sum.oldest_age.as_ref().is_none_or(|oldest| age.seconds > oldest.seconds)
        };
        if let Some(age) = state.oldest_age.as_ref().filter(older) {
            sum.oldest_age = Some(*age);
        }
    }
    sums.into_values().collect()
}

/// What of one look can be compared with another one: exact numbers, by consumer, run and state.
fn exact(look: &Look) -> BTreeMap<(String, i32, i32), (i64, bool)> {
    let mut numbers = BTreeMap::new();
    for one in &look.summary.consumers {
        let run = if one.replay_run.is_empty() {
            String::new()
        } else {
            format!(" (replay run {})", one.replay_run)
        };
        let name = clean(&format!("{}{run}", one.consumer));
        for state in &one.states {
            let is_exact = !state.estimated && !state.at_least;
            numbers.insert((name.clone(), state.state, state.cause), (state.count, is_exact));
        }
    }
    numbers
}

/// What has changed since the last look. A number that is an estimate or a lower bound in one of the looks is not compared.
fn changed(output: Output, look: &Look, last: &Look) -> Vec<String> {
    let (now, before) = (exact(look), exact(last));
    let mut parts = Vec::new();
    let all: std::collections::BTreeSet<_> = now.keys().chain(before.keys()).collect();
    for place in all {
        let (number, is_exact) = now.get(place).copied().unwrap_or((0, true));
        let (earlier, was_exact) = before.get(place).copied().unwrap_or((0, true));
        if is_exact && was_exact && number != earlier {
            let (name, state, cause) = place;
            parts.push(format!("{name} {} {:+}", needs::word(*state, *cause), number - earlier));
        }
    }
    let doubled = |look: &Look| look.summary.consumers.iter().map(|one| one.doubled).sum::<i64>();
    if doubled(look) != doubled(last) {
        parts.push(format!("doubled effects {:+}", doubled(look) - doubled(last)));
    }
    let text = if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") };
    let room = output.width().unwrap_or(usize::MAX);
    let lines = wrapped_text(&format!("changed since the last look: {text}"), room);
    lines.iter().map(|line| output.styled(line, TextStyle::Strong)).collect()
}

#[cfg(test)]
mod tests;

//! `entries get`: everything that is known of an entry.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use prost_types::Timestamp;

use super::{key_of, suggestions};
use crate::cli::client::{Admin, Client};
use crate::cli::clock;
use crate::cli::enums;
use crate::cli::output::{Output, TextStyle};
use crate::cli::problem::{Exit, Problem};
use crate::cli::step::step;
use crate::cli::table::{Cell, Column, Table, wrapped_text};
use crate::cli::text::{self, ago, clean, counted, exact, instant, rough, when};
use crate::proto;

/// Which entry.
#[derive(Args)]
pub(in crate::cli) struct Get {
    /// The entry's key
    #[arg(num_args = 3, required_unless_present = "hash", value_names = ["CONSUMER", "SOURCE", "ID"])]
    key: Vec<String>,
    /// The hash of the entry's key, as logs and `audit list` show it: in place of the key
    #[arg(long, value_name = "HASH", conflicts_with = "key", value_parser = NonEmptyStringValueParser::new())]
    hash: Option<String>,
    /// The replay run whose entry it is [default: the live one]
    #[arg(long, value_name = "RUN", conflicts_with = "hash")]
    replay_run: Option<String>,
}

impl Get {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let mut admin = client.connect().await?;
        let mut request = proto::GetEntryRequest::default();
        if let Some(hash) = &self.hash {
            request.key_hash.clone_from(hash);
        } else {
            request.key = Some(key_of(&self.key, self.replay_run.as_deref()));
        }
        let found = get(client, &mut admin, request).await?;
        if client.output.json() {
            client.output.message("GetEntryResponse", &found)?;
            return Ok(Exit::Done);
        }
        if let Some(entry) = &found.entry {
            let lines =
                lines(client.output, &client.program(), entry, found.policy_version_in_force, &clock::now());
            lines.iter().try_for_each(|line| client.output.line(line))?;
        }
        Ok(Exit::Done)
    }
}

/// Fetches the entry.
pub(super) async fn fetch(
    client: &Client,
    admin: &mut Admin,
    key: &proto::EntryKey,
) -> Result<proto::GetEntryResponse, Problem> {
    get(client, admin, proto::GetEntryRequest { key: Some(key.clone()), ..Default::default() }).await
}

async fn get(
    client: &Client,
    admin: &mut Admin,
    request: proto::GetEntryRequest,
) -> Result<proto::GetEntryResponse, Problem> {
    let found = admin.get_entry(client.request(request)).await;
    Ok(found.map_err(|status| Problem::of(&status))?.into_inner())
}

/// The whole answer, wrapped to the width of the terminal: nothing of it is cut.
fn lines(output: Output, program: &str, entry: &proto::Entry, in_force: i32, now: &Timestamp) -> Vec<String> {
    let mut lines = fields(entry, in_force, now).lines(output);
    if !entry.history.is_empty() {
        lines.push(String::new());
        lines.push(output.styled("earlier attempts", TextStyle::Strong));
        lines.extend(history(&entry.history, now, output.is_narrow()).lines(output));
        if let (true, Some(width)) = (output.is_narrow(), output.width()) {
            lines.extend(errors(&entry.history, width));
        }
    }
    let steps = suggestions::steps(program, entry);
    if !steps.is_empty() {
        lines.push(String::new());
    }
    for (command, what) in steps {
        lines.extend(step(output.width(), &command, what));
    }
    lines
}

fn fields(entry: &proto::Entry, in_force: i32, now: &Timestamp) -> Table {
    let mut table = Table::fields();
    let mut put = |name: &str, text: String, style: TextStyle| {
        table.row(vec![Cell::new(name, TextStyle::Faint), Cell::new(text, style)]);
    };
    let key = entry.key.clone().unwrap_or_default();
    // A Store and a Redrive are instants from which on an entry is young, and have no claim.
    let is_claimed = entry.attempts > 0 || !entry.history.is_empty();
    let mut state = enums::state(entry.state);
    if entry.cause != 0 {
        state = format!("{state} ({})", enums::cause(entry.cause));
    }
    if entry.expired {
        state.push_str(" (expired)");
    }
    put("consumer", text::name(&key.consumer), TextStyle::Strong);
    put("source", text::name(&key.source), TextStyle::Strong);
    put("id", text::name(&key.id), TextStyle::Strong);
    put("state", state, enums::style(entry.state, entry.expired));
    if let Some(held) = held_by(entry, now) {
        put("held by", held, enums::style(entry.state, entry.expired));
    }
    put("version", entry.version.to_string(), TextStyle::Plain);
    put("attempts", entry.attempts.to_string(), TextStyle::Plain);
    match entry.message_state() {
        proto::MessageState::Unspecified => {}
        proto::MessageState::Kept => {
            put("message", "kept".to_owned(), TextStyle::Plain);
        }
        proto::MessageState::Erased => put("message", "erased".to_owned(), TextStyle::Plain),
    }
    put("closed by", enums::closed_by(entry.closed_by), TextStyle::Plain);
    for (name, text) in
        [("last error", &entry.last_error), ("owner", &entry.owner), ("principal", &entry.principal)]
    {
        if !text.is_empty() {
            put(name, clean(text), TextStyle::Plain);
        }
    }
    for (name, holds, says) in [
        ("effect", entry.doubled, "doubled: two holders have reported it as done"),
        ("effect", entry.effect_started, "was announced by the last holder"),
        ("effect", entry.prior_effect_started, "was announced by an earlier holder"),
        ("effect", entry.effect_unknown && is_claimed, "unknown: a claim ended unsettled"),
        ("effect", entry.effect_unknown && !is_claimed, "unknown: it may have happened without a claim"),
    ] {
        if holds {
            put(name, says.to_owned(), TextStyle::Doubtful);
        }
    }
    for (name, value) in [
        ("created", &entry.created_at),
        ("changed", &entry.updated_at),
        ("granted", &entry.granted_at),
        ("lease until", &entry.lease_until),
        ("hold until", &entry.hold_until),
        ("claimable from", &entry.not_before),
        ("handed out from", &entry.due_at),
        ("message erased", &entry.erase_at),
        ("closed", &entry.closed_at),
        ("parked", &entry.parked_at),
        ("kept until", &entry.retain_until),
    ] {
        if let Some(value) = value
            && (is_claimed || name != "granted")
        {
            put(name, instant(value, now), TextStyle::Plain);
        }
    }
    if let Some(retention) = &entry.retention {
        put("retention", exact(retention), TextStyle::Plain);
    }
    let at_claim =
        if is_claimed { format!("{} at the claim, ", entry.policy_version) } else { String::new() };
    put("policy", format!("version {at_claim}{in_force} now"), TextStyle::Plain);
    let superseded = entry.superseded_completes;
    if superseded > 0 {
        let text =
            format!("{} by holders that had lost their claim", counted(superseded, "Complete", "Completes"));
        put("superseded", text, TextStyle::Doubtful);
    }
    if entry.result_dropped {
        put("result", "dropped: it was larger than the ledger stores".to_owned(), TextStyle::Doubtful);
    } else {
        put("result", counted(entry.result_bytes, "byte", "bytes"), TextStyle::Plain);
    }
    if entry.checkpoint_bytes > 0 {
        put("checkpoint", counted(entry.checkpoint_bytes, "byte", "bytes"), TextStyle::Plain);
    }
    if !entry.fingerprint.is_empty() {
        let unpinned =
            if entry.fingerprint_unpinned { " (unpinned: the next claim replaces it)" } else { "" };
        put("fingerprint", format!("{}{unpinned}", hex::encode(&entry.fingerprint)), TextStyle::Plain);
    }
    if !entry.traceparent.is_empty() {
        put("trace", clean(&entry.traceparent), TextStyle::Plain);
    }
    table
}

/// How an attempt ended, and whether its holder has reported its effect since.
fn outcome(attempt: &proto::Attempt) -> String {
    let reported = if attempt.reported_done { ", reported done later" } else { "" };
    format!("{}{reported}", enums::closed_by(attempt.outcome))
}

const ATTEMPTS: [Column; 6] = [
    Column::whole("ATTEMPT"),
    Column::whole("STARTED"),
    Column::whole("ENDED"),
    Column::name("OUTCOME"),
    Column::name("OWNER"),
    Column::text("ERROR"),
];

/// The attempts; on a narrow terminal without their errors, which follow.
fn history(attempts: &[proto::Attempt], now: &Timestamp, narrow: bool) -> Table {
    let columns = if narrow { &ATTEMPTS[..ATTEMPTS.len() - 1] } else { &ATTEMPTS[..] };
    let mut table = Table::of(columns).indented().wrapping();
    let shown = |at: Option<&Timestamp>, whole: fn(&Timestamp, &Timestamp) -> String| {
        let text = |at| if narrow { format!("{} ago", ago(Some(at), now)) } else { whole(at, now) };
        Cell::from(at.map_or_else(|| "-".to_owned(), text))
    };
    for attempt in attempts {
        table.row(vec![
            attempt.attempt.to_string().into(),
            shown(attempt.started_at.as_ref(), instant),
            shown(attempt.ended_at.as_ref(), |at, _| when(at)),
            outcome(attempt).into(),
            clean(&attempt.owner).into(),
            clean(&attempt.error).into(),
        ]);
    }
    table
}

/// The errors of the attempts, each in separate lines.
fn errors(attempts: &[proto::Attempt], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for attempt in attempts.iter().filter(|attempt| !attempt.error.is_empty()) {
        let text = format!("error of attempt {}: {}", attempt.attempt, clean(&attempt.error));
        for (nth, part) in wrapped_text(&text, width.saturating_sub(4)).iter().enumerate() {
            lines.push(format!("{}{part}", if nth == 0 { "  " } else { "    " }));
        }
    }
    lines
}

/// Since when a claim is open, when it was last renewed, and how long its lease lasts. `None` if no claim is open.
fn held_by(entry: &proto::Entry, now: &Timestamp) -> Option<String> {
    if entry.state() != proto::EntryState::InProgress {
        return None;
    }
    let (granted, until) = (entry.granted_at.as_ref()?, entry.lease_until.as_ref()?);
    // A claim that is open changes by a renewal only.
    let renewed = entry.updated_at.as_ref().filter(|updated| *updated != granted);
    let renewed = renewed.map_or_else(|| "never".to_owned(), |at| format!("{} ago", ago(Some(at), now)));
    let left = until.seconds.saturating_sub(now.seconds);
    let lease = if left > 0 {
        format!("lease ends in {}", rough(left))
    } else {
        format!("lease ended {} ago", rough(left.saturating_neg()))
    };
    let owner =
        if entry.owner.is_empty() { "a client without a name".to_owned() } else { clean(&entry.owner) };
    Some(format!("{owner} since {}, last renewed {renewed}, {lease}", ago(Some(granted), now)))
}

#[cfg(test)]
mod tests;

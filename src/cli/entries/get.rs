//! `entries get`: everything that is known of an entry.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use prost_types::Timestamp;

use super::{key_of, suggestions};
use crate::cli::client::{Admin, Client};
use crate::cli::clock;
use crate::cli::enums;
use crate::cli::output::TextStyle;
use crate::cli::problem::{Exit, Problem};
use crate::cli::table::{Cell, Table};
use crate::cli::text::{self, clean, counted, exact, instant, when};
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
            show(client, entry, found.policy_version_in_force)?;
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

fn show(client: &Client, entry: &proto::Entry, in_force: i32) -> Result<(), Problem> {
    let output = client.output;
    let now = clock::now();
    fields(entry, in_force, &now).print(output)?;
    if !entry.history.is_empty() {
        output.line("")?;
        output.line(&output.styled("earlier attempts", TextStyle::Strong))?;
        history(&entry.history, &now).print(output)?;
    }
    let steps = suggestions::steps(&client.program(), entry);
    if !steps.is_empty() {
        output.line("")?;
    }
    for (command, what) in steps {
        let step = if command.is_empty() { what.to_owned() } else { format!("{command}    # {what}") };
        output.line(&format!("next: {step}"))?;
    }
    Ok(())
}

fn fields(entry: &proto::Entry, in_force: i32, now: &Timestamp) -> Table {
    let mut table = Table::bare();
    let mut put = |name: &str, text: String, style: TextStyle| {
        table.row(vec![Cell::new(name, TextStyle::Faint), Cell::new(text, style)]);
    };
    let key = entry.key.clone().unwrap_or_default();
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
    put("version", entry.version.to_string(), TextStyle::Plain);
    put("attempts", entry.attempts.to_string(), TextStyle::Plain);
    match entry.message_state() {
        proto::MessageState::Unspecified => {}
        proto::MessageState::Kept => {
            put("message", "kept: `entries message` shows it".to_owned(), TextStyle::Plain)
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
        ("effect", entry.effect_unknown, "unknown: a claim ended unsettled"),
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
        if let Some(value) = value {
            put(name, instant(value, now), TextStyle::Plain);
        }
    }
    if let Some(retention) = &entry.retention {
        put("retention", exact(retention), TextStyle::Plain);
    }
    put("policy", format!("version {} at the claim, {in_force} now", entry.policy_version), TextStyle::Plain);
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

fn history(attempts: &[proto::Attempt], now: &Timestamp) -> Table {
    let mut table = Table::new(&["ATTEMPT", "STARTED", "ENDED", "OUTCOME", "OWNER", "ERROR"]).indented();
    for attempt in attempts {
        table.row(vec![
            attempt.attempt.to_string().into(),
            attempt.started_at.as_ref().map_or_else(|| "-".to_owned(), |at| instant(at, now)).into(),
            attempt.ended_at.as_ref().map_or_else(|| "-".to_owned(), when).into(),
            outcome(attempt).into(),
            clean(&attempt.owner).into(),
            clean(&attempt.error).into(),
        ]);
    }
    table
}

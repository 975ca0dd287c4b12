//! `entries lookup`: what a Claim would find, as consumers may ask for it.

use std::time::Duration;

use clap::Args;

use super::EntryKeyArgs;
use crate::cli::client::Client;
use crate::cli::clock;
use crate::cli::enums;
use crate::cli::output::TextStyle;
use crate::cli::problem::{Exit, Problem};
use crate::cli::table::{Cell, Table};
use crate::cli::text::{clean, counted, duration, exact, instant};
use crate::common::duration_arg::DurationArg;
use crate::proto::lookup_response::Found;
use crate::proto::{Completed, EntryState, LookupRequest, LookupResponse};

/// Which message.
#[derive(Args)]
pub(in crate::cli) struct Lookup {
    #[command(flatten)]
    key: EntryKeyArgs,
    /// How long to wait until the message is completed, given up or parked; the server bounds it
    #[arg(long, default_value = "0s", value_name = "DURATION")]
    wait: DurationArg,
}

/// The longest `max_wait` of a server.
const WAIT_MAX: Duration = Duration::from_mins(1);

impl Lookup {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let mut ledger = client.connect_ledger().await?;
        let wait = Duration::from(self.wait);
        let request = LookupRequest { key: Some(self.key.message()), wait: Some(duration(wait)) };
        let found = ledger.lookup(client.request_after(wait.min(WAIT_MAX), request)).await;
        let found = found.map_err(|status| Problem::of(&status))?.into_inner();
        if client.output.json() {
            client.output.message("LookupResponse", &found)?;
        } else {
            shown(&found, self.key.replay_run.is_some()).print(client.output)?;
        }
        Ok(Exit::Done)
    }
}

/// Describes the result: an empty one may have been left out.
fn result(completed: &Completed) -> String {
    if completed.result_dropped {
        return "dropped: it was larger than the ledger stores, or its Complete left it out".to_owned();
    }
    if completed.result_omitted {
        return "omitted: the answer had no room for it".to_owned();
    }
    let bytes = i64::try_from(completed.result.len()).unwrap_or(i64::MAX);
    let expired = if completed.result_expired { " (expired)" } else { "" };
    format!("{}{expired}", counted(bytes, "byte", "bytes"))
}

fn shown(response: &LookupResponse, is_of_run: bool) -> Table {
    let (mut table, now) = (Table::fields(), clock::now());
    let mut put = |name: &str, text: String, style: TextStyle| {
        table.row(vec![Cell::new(name, TextStyle::Faint), Cell::new(text, style)]);
    };
    if response.state() == EntryState::Unspecified {
        // The answer does not distinguish the two: for a run that suppresses effects no entry is read.
        let or = if is_of_run { "; or the run suppresses effects, and no entry is looked at" } else { "" };
        put("state", format!("no entry: the message is new, or was forgotten{or}"), TextStyle::Plain);
        return table;
    }
    put("state", enums::state(response.state), enums::style(response.state, false));
    put("attempt", response.attempt.to_string(), TextStyle::Plain);
    let mut put_text = |name: &str, text: &str| {
        if !text.is_empty() {
            put(name, clean(text), TextStyle::Plain);
        }
    };
    match &response.found {
        Some(Found::Completed(it)) => {
            put_text("completed", &it.completed_at.as_ref().map(|at| instant(at, &now)).unwrap_or_default());
            put_text("result", &result(it));
        }
        Some(Found::Failed(it)) => {
            put_text("failed", &it.failed_at.as_ref().map(|at| instant(at, &now)).unwrap_or_default());
            put_text("error", &it.error);
        }
        Some(Found::Parked(it)) => {
            put_text("cause", &enums::cause(it.cause));
            put_text("parked", &it.parked_at.as_ref().map(|at| instant(at, &now)).unwrap_or_default());
            put_text("error", &it.error);
        }
        Some(Found::InProgress(it)) => {
            put_text("owner", &it.owner);
            put_text("lease", &it.lease.as_ref().map(exact).unwrap_or_default());
        }
        Some(Found::Backoff(it)) => put_text("last error", &it.last_error),
        None => {}
    }
    put_text("retry after", &response.retry_after.as_ref().map(exact).unwrap_or_default());
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::Output;
    use crate::proto::{Backoff, Failed};

    /// A newer server may have a verdict that this client does not know.
    #[test]
    fn lookup_without_a_known_verdict_shows_the_state() {
        let response = LookupResponse { state: EntryState::Received.into(), ..Default::default() };
        let shown = shown(&response, false).lines(Output::plain());
        assert!(shown.iter().any(|line| line.ends_with("RECEIVED")), "{shown:?}");
    }

    #[test]
    fn lookup_shows_why_a_message_is_not_done() {
        let omitted = Completed { result_omitted: true, ..Completed::default() };
        let expired = Completed { result_expired: true, ..Completed::default() };
        let failed = Failed { error: "no\x1b such".into(), ..Failed::default() };
        let backoff = Backoff { last_error: "answered 502".into(), ..Backoff::default() };
        for (state, found, says) in [
            (EntryState::Completed, Found::Completed(omitted), "omitted: the answer had no room for it"),
            (EntryState::Completed, Found::Completed(expired), "0 bytes (expired)"),
            (EntryState::FailedTerminal, Found::Failed(failed), "no\u{fffd} such"),
            (EntryState::FailedRetryable, Found::Backoff(backoff), "answered 502"),
        ] {
            let response = LookupResponse { state: state.into(), found: Some(found), ..Default::default() };
            let shown = shown(&response, false).lines(Output::plain());
            assert!(shown.iter().any(|line| line.ends_with(&format!("  {says}"))), "{says}: {shown:?}");
        }
    }
}

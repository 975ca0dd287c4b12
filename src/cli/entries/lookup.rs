//! `entries lookup`: what a Claim would find, as a consumer may ask for it.

use clap::Args;

use super::Key;
use crate::cli::client::Client;
use crate::cli::clock;
use crate::cli::enums;
use crate::cli::problem::{Exit, Problem};
use crate::cli::screen::Tone;
use crate::cli::table::{Cell, Table};
use crate::cli::text::{clean, counted, exact, instant};
use crate::rpc::proto::lookup_response::Found;
use crate::rpc::proto::{EntryState, LookupRequest, LookupResponse};

/// Which message.
#[derive(Args)]
pub(in crate::cli) struct Lookup {
    #[command(flatten)]
    key: Key,
}

impl Lookup {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let mut ledger = client.connect_ledger().await?;
        let request = LookupRequest { key: Some(self.key.message()), wait: None };
        let found = ledger.lookup(client.request(request)).await;
        let found = found.map_err(|status| Problem::of(&status))?.into_inner();
        if client.screen.json() {
            client.screen.message("LookupResponse", &found)?;
        } else {
            shown(&found).print(client.screen)?;
        }
        Ok(Exit::Done)
    }
}

fn shown(response: &LookupResponse) -> Table {
    let (mut table, now) = (Table::bare(), clock::now());
    let mut put = |name: &str, text: String, tone: Tone| {
        table.row(vec![Cell::new(name, Tone::Faint), Cell::new(text, tone)]);
    };
    if response.state() == EntryState::Unspecified {
        put("state", "no entry: the message is new, or was forgotten".to_owned(), Tone::Plain);
        return table;
    }
    put("state", enums::state(response.state), enums::tone(response.state, false));
    put("attempt", response.attempt.to_string(), Tone::Plain);
    let mut told = |name: &str, text: &str| {
        if !text.is_empty() {
            put(name, clean(text), Tone::Plain);
        }
    };
    match &response.found {
        Some(Found::Completed(it)) => {
            told("completed", &it.completed_at.as_ref().map(|at| instant(at, &now)).unwrap_or_default());
            let bytes = i64::try_from(it.result.len()).unwrap_or(i64::MAX);
            let lacks = match (it.result_expired, it.result_dropped) {
                (true, _) => " (expired)",
                (false, true) => " (dropped: it was too large to be stored)",
                (false, false) => "",
            };
            told("result", &format!("{}{lacks}", counted(bytes, "byte", "bytes")));
        }
        Some(Found::Failed(it)) => {
            told("failed", &it.failed_at.as_ref().map(|at| instant(at, &now)).unwrap_or_default());
            told("error", &it.error);
        }
        Some(Found::Parked(it)) => {
            told("cause", &enums::cause(it.cause));
            told("parked", &it.parked_at.as_ref().map(|at| instant(at, &now)).unwrap_or_default());
            told("error", &it.error);
        }
        Some(Found::InProgress(it)) => {
            told("owner", &it.owner);
            told("lease", &it.lease.as_ref().map(exact).unwrap_or_default());
        }
        Some(Found::Backoff(it)) => told("last error", &it.last_error),
        None => {}
    }
    told("retry after", &response.retry_after.as_ref().map(exact).unwrap_or_default());
    table
}

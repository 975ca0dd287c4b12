//! `entries list`.

use clap::Args;

use super::filter::Filter;
use crate::cli::client::Client;
use crate::cli::clock;
use crate::cli::enums;
use crate::cli::problem::{Exit, Problem};
use crate::cli::table::{Cell, Table};
use crate::cli::text::{ago, clean, name};
use crate::rpc::proto;

const PAGE_MAX: usize = 500;
const HEADINGS: [&str; 8] = ["STATE", "CAUSE", "ATTEMPTS", "ID", "SOURCE", "AGE", "OWNER", "LAST ERROR"];

/// What to list.
#[derive(Args)]
pub(in crate::cli) struct List {
    /// The consumer
    #[arg(long)]
    consumer: String,
    #[command(flatten)]
    filter: Filter,
    /// The newest first, not the oldest
    #[arg(long)]
    newest_first: bool,
    /// How many at the most; 0: all
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
}

impl List {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let mut admin = client.connect().await?;
        let limit = if self.limit == 0 { usize::MAX } else { self.limit };
        let order =
            if self.newest_first { proto::EntryOrder::NewestFirst } else { proto::EntryOrder::OldestFirst };
        let mut request = proto::ListEntriesRequest {
            filter: Some(self.filter.message(&self.consumer)),
            order: order.into(),
            page_size: i32::try_from(limit.min(PAGE_MAX)).unwrap_or(i32::MAX),
            page_token: String::new(),
        };
        let (mut printed, mut more) = (0_usize, true);
        while more && printed < limit {
            let page = admin.list_entries(client.request(request.clone())).await;
            let mut page = page.map_err(|status| Problem::of(&status))?.into_inner();
            let cut = page.entries.len() > limit - printed;
            page.entries.truncate(limit - printed);
            more = cut || !page.next_page_token.is_empty();
            request.page_token = page.next_page_token;
            show(client, &page.entries, printed == 0)?;
            printed += page.entries.len();
        }
        if printed == 0 {
            client.screen.note("there is no such entry");
        } else if more {
            client.screen.note(&format!("more: raise --limit ({}), or 0 for all", self.limit));
        }
        Ok(Exit::Done)
    }
}

fn show(client: &Client, entries: &[proto::Entry], first: bool) -> Result<(), Problem> {
    let screen = client.screen.listing();
    if screen.json() {
        return entries.iter().try_for_each(|entry| screen.message("Entry", entry));
    }
    if entries.is_empty() {
        return Ok(());
    }
    let now = clock::now();
    let mut table = if first { Table::new(&HEADINGS) } else { Table::bare() };
    for entry in entries {
        let key = entry.key.clone().unwrap_or_default();
        let mut state = enums::state(entry.state);
        if entry.expired {
            state.push_str(" (expired)");
        }
        table.row(vec![
            Cell::new(state, enums::tone(entry.state, entry.expired)),
            enums::cause(entry.cause).into(),
            entry.attempts.to_string().into(),
            name(&key.id).into(),
            name(&key.source).into(),
            ago(entry.created_at.as_ref(), &now).into(),
            name(&entry.owner).into(),
            clean(&entry.last_error).into(),
        ]);
    }
    table.print(screen)
}

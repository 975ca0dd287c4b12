//! `entries list`.

use clap::Args;
use prost_types::Timestamp;

use super::filter::Filter;
use crate::cli::client::{Admin, Client};
use crate::cli::clock;
use crate::cli::enums;
use crate::cli::json;
use crate::cli::problem::{Exit, Problem};
use crate::cli::table::{Cell, Table};
use crate::cli::text::{ago, clean, counted, name, when};
use crate::proto;

const PAGE_MAX: usize = 500;
/// The search ends after this many pages that the filter left incomplete: for each of them the server has
/// read up to 1,000 entries. Without a bound a prefix that matched nothing read all entries of the consumer:
/// 12.9 s for one million.
const INCOMPLETE_MAX: usize = 10;
/// The overlap of a continued search, for clocks that differ.
const OVERLAP_SECONDS: i64 = 60;
const HEADINGS: [&str; 8] = ["STATE", "CAUSE", "ATTEMPTS", "ID", "SOURCE", "AGE", "OWNER", "LAST ERROR"];

/// What to list.
#[derive(Args)]
pub(in crate::cli) struct List {
    /// The consumer
    #[arg(long)]
    consumer: String,
    #[command(flatten)]
    filter: Filter,
    /// The newest first instead of the oldest
    #[arg(long)]
    newest_first: bool,
    /// Maximum number of entries, rows that cannot be read included (0 = no limit, and all entries are searched)
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
        // The limit counts every printed row, also those that cannot be read.
        let (mut readable, mut unreadable, mut more) = (0_usize, 0_usize, true);
        let (mut incomplete, mut looked_at_until, mut cut) = (0_usize, None, false);
        while more && readable + unreadable < limit {
            let page = admin.list_entries(client.request(request.clone())).await;
            let mut page = page.map_err(|status| Problem::of(&status))?.into_inner();
            let left = limit - readable - unreadable;
            cut = page.entries.len() + page.unreadable.len() > left;
            page.entries.truncate(left);
            page.unreadable.truncate(left - page.entries.len());
            more = cut || !page.next_page_token.is_empty();
            looked_at_until = page.looked_at_until;
            incomplete +=
                usize::from(more && page.entries.len() + page.unreadable.len() < left.min(PAGE_MAX));
            request.page_token = page.next_page_token;
            show(client, &page.entries, readable == 0)?;
            readable += page.entries.len();
            unreadable += page.unreadable.len();
            page.unreadable.iter().try_for_each(|entry| name_unreadable(client, entry))?;
            if more && self.limit > 0 && incomplete >= INCOMPLETE_MAX {
                break;
            }
        }
        if unreadable > 0 {
            client.output.stderr(&format!(
                "{} cannot be read: mend or delete each, see \"A damaged row\" in docs/runbooks.md",
                counted(unreadable, "entry", "entries")
            ));
        }
        if more && readable + unreadable < limit {
            return Err(searched_until(self.newest_first, looked_at_until.as_ref(), &clock::now()));
        }
        if readable == 0 && unreadable == 0 {
            client.output.note("no entry matches");
        } else if more && !client.output.json() && (cut || has_next(client, &mut admin, request).await) {
            client.output.note(&format!("more: raise --limit ({}), or 0 for all", self.limit));
        }
        Ok(Exit::Done)
    }
}

/// Whether a row follows a page that ended at the limit: a server returns the token of a next page with each full page, also
/// with the last one. If the server does not answer, there may be one.
async fn has_next(client: &Client, admin: &mut Admin, request: proto::ListEntriesRequest) -> bool {
    let request = proto::ListEntriesRequest { page_size: 1, ..request };
    let Ok(page) = admin.list_entries(client.request(request)).await else { return true };
    let page = page.into_inner();
    !page.entries.is_empty() || !page.unreadable.is_empty() || !page.next_page_token.is_empty()
}

/// The search ended early: how far it got, and the filter that continues there.
fn searched_until(newest_first: bool, until: Option<&Timestamp>, now: &Timestamp) -> Problem {
    let Some(until) = until else {
        // The server is of an earlier version.
        return Problem::new(Exit::Partly, "the search has ended before all entries were looked at")
            .next("search all with --limit 0, or fewer with --state, --newer-than or --older-than");
    };
    let age = now.seconds - until.seconds;
    let (side, flag) = if newest_first {
        ("before", format!("--older-than {}s", (age - OVERLAP_SECONDS).max(0)))
    } else {
        ("after", format!("--newer-than {}s", age + OVERLAP_SECONDS))
    };
    let text = format!("entries that were created {side} {} were not looked at", when(until));
    Problem::new(Exit::Partly, text)
        .next(format!("go on there with {flag}, or search fewer with --state, or all with --limit 0"))
}

/// Prints the hash of the key of an entry that cannot be read: its only name.
fn name_unreadable(client: &Client, entry: &proto::UnreadableEntry) -> Result<(), Problem> {
    let output = client.output.listing();
    if output.json() {
        let line = serde_json::json!({ "unreadable": json::value("UnreadableEntry", entry)? });
        return output.line(&line.to_string());
    }
    let created = ago(entry.created_at.as_ref(), &clock::now());
    output.line(&format!(
        "cannot be read: key hash {}, column {}, created {created}",
        clean(&entry.key_hash),
        clean(&entry.column)
    ))
}

fn show(client: &Client, entries: &[proto::Entry], first: bool) -> Result<(), Problem> {
    let output = client.output.listing();
    if output.json() {
        return entries.iter().try_for_each(|entry| output.message("Entry", entry));
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
        if entry.doubled {
            state.push_str(" (doubled)");
        }
        table.row(vec![
            Cell::new(state, enums::style(entry.state, entry.expired)),
            enums::cause(entry.cause).into(),
            entry.attempts.to_string().into(),
            name(&key.id).into(),
            name(&key.source).into(),
            ago(entry.created_at.as_ref(), &now).into(),
            name(&entry.owner).into(),
            clean(&entry.last_error).into(),
        ]);
    }
    table.print(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_search_names_the_filter_that_continues() {
        let at = |seconds| Timestamp { seconds, nanos: 0 };
        for (newest_first, until, text, next) in [
            (false, Some(at(1_000)), "created after 1970-01-01T00:16:40Z were not", "--newer-than 4060s"),
            (true, Some(at(1_000)), "created before 1970-01-01T00:16:40Z were not", "--older-than 3940s"),
            (true, Some(at(4_990)), "created before", "--older-than 0s"),
            (false, None, "before all entries were looked at", "--limit 0"),
        ] {
            let problem = searched_until(newest_first, until.as_ref(), &at(5_000));
            assert!(problem.text.contains(text), "{}", problem.text);
            assert!(problem.next.iter().any(|line| line.contains(next)), "{:?}", problem.next);
            assert_eq!(problem.exit, Exit::Partly);
        }
    }
}

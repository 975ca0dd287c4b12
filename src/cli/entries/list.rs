//! `entries list`.

mod groups;

use clap::{Args, ValueEnum};
use prost_types::Timestamp;

use super::filter::Filter;
use super::suggestions;
use crate::cli::client::{Admin, Client};
use crate::cli::clock;
use crate::cli::consumer::{note_unknown, refused};
use crate::cli::enums;
use crate::cli::json;
use crate::cli::output::Output;
use crate::cli::problem::{Exit, Problem};
use crate::cli::step::step;
use crate::cli::table::{Cell, Column, Table};
use crate::cli::text::{ago, clean, counted, name, when};
use crate::proto;

const PAGE_MAX: usize = 500;
/// The search ends after this many pages that the filter left incomplete: for each of them the server has
/// read up to 1,000 entries. Without a bound a prefix that matched nothing read all entries of the consumer:
/// 12.9 s for one million.
const INCOMPLETE_MAX: usize = 10;
/// The same for all consumers: most pages are incomplete, since each reads at most 20 consumers.
const INCOMPLETE_OF_ALL_MAX: usize = 200;
/// The overlap of a continued search, for clocks that differ.
const OVERLAP_SECONDS: i64 = 60;
/// Of a page in which all entries have the same source, the source is the first column that a narrow terminal can spare.
const COLUMNS: [Column; 9] = [
    Column::whole("STATE"),
    Column::whole("CAUSE").left_out(4),
    Column::whole("ATTEMPTS").left_out(2),
    CONSUMER,
    Column::name("ID"),
    Column::name("SOURCE").left_out(1),
    Column::whole("AGE"),
    Column::name("OWNER").left_out(3),
    Column::text("LAST ERROR"),
];

/// Only in a list of all consumers.
const CONSUMER: Column = Column::name("CONSUMER");

/// How entries are counted in place of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GroupBy {
    /// By consumer, state, cause, and the first line of the last error
    Error,
}

/// What to list.
#[derive(Args)]
pub(in crate::cli) struct List {
    /// The consumer [default: all consumers; of them only entries that are not COMPLETED, except with --doubled]
    #[arg(long)]
    consumer: Option<String>,
    #[command(flatten)]
    filter: Filter,
    /// The newest first instead of the oldest
    #[arg(long)]
    newest_first: bool,
    /// Count the entries that are not COMPLETED, in place of a list: at most 10,000 are read
    #[arg(long, value_name = "FIELD", conflicts_with = "newest_first")]
    group_by: Option<GroupBy>,
    /// Maximum number of entries, rows that cannot be read included (0 = no limit, and all entries are searched)
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
}

impl List {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let mut admin = client.connect().await?;
        let consumer = self.consumer.clone().unwrap_or_default();
        self.filter.is_known(client, &mut admin, &consumer).await?;
        let filter = self.filter.message(&consumer);
        if let Some(GroupBy::Error) = self.group_by {
            return groups::run(client, &mut admin, filter, self.limit).await;
        }
        let limit = if self.limit == 0 { usize::MAX } else { self.limit };
        let order =
            if self.newest_first { proto::EntryOrder::NewestFirst } else { proto::EntryOrder::OldestFirst };
        let mut request = proto::ListEntriesRequest {
            filter: Some(filter),
            order: order.into(),
            page_size: i32::try_from(limit.min(PAGE_MAX)).unwrap_or(i32::MAX),
            page_token: String::new(),
        };
        // The limit counts every printed row, also those that cannot be read.
        let (mut readable, mut unreadable, mut more) = (0_usize, 0_usize, true);
        let (mut incomplete, mut looked_at_until, mut cut) = (0_usize, None, false);
        let mut first = None;
        while more && readable + unreadable < limit {
            let page = admin.list_entries(client.request(request.clone())).await;
            let mut page = page.map_err(|status| refused(&status, &consumer))?.into_inner();
            let left = limit - readable - unreadable;
            cut = page.entries.len() + page.unreadable.len() > left;
            page.entries.truncate(left);
            page.unreadable.truncate(left - page.entries.len());
            more = cut || !page.next_page_token.is_empty();
            looked_at_until = page.looked_at_until;
            incomplete +=
                usize::from(more && page.entries.len() + page.unreadable.len() < left.min(PAGE_MAX));
            request.page_token = page.next_page_token;
            show(client, &page.entries, readable == 0, consumer.is_empty())?;
            first = first.or_else(|| page.entries.first().and_then(|entry| entry.key.clone()));
            readable += page.entries.len();
            unreadable += page.unreadable.len();
            page.unreadable.iter().try_for_each(|entry| name_unreadable(client, entry))?;
            let most = if consumer.is_empty() { INCOMPLETE_OF_ALL_MAX } else { INCOMPLETE_MAX };
            if more && self.limit > 0 && incomplete >= most {
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
            if consumer.is_empty() {
                return Err(Problem::new(
                    Exit::Partly,
                    "the search has ended before all consumers were looked at",
                )
                .next("name one with --consumer, or search all with --limit 0"));
            }
            return Err(searched_until(self.newest_first, looked_at_until.as_ref(), &clock::now()));
        }
        if readable == 0 && unreadable == 0 {
            client.output.note("no entry matches");
            if !consumer.is_empty() {
                note_unknown(client, &mut admin, &consumer).await;
            }
        } else if let (Some(first), true) = (&first, self.filter.is_of_trouble()) {
            for line in next(client.output, &client.program(), first) {
                client.output.note(&line);
            }
        }
        let shows_rows = readable > 0 || unreadable > 0;
        if shows_rows && more && !client.output.json() && (cut || has_next(client, &mut admin, request).await)
        {
            client.output.note(&format!("more: raise --limit ({}), or 0 for all", self.limit));
        }
        Ok(Exit::Done)
    }
}

/// The command that shows the first of the entries.
fn next(output: Output, program: &str, first: &proto::EntryKey) -> Vec<String> {
    let command = suggestions::of_key(program, first, "get", "");
    step(output.width(), &command, "what has happened to the first one, and what can be done")
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
pub(super) fn name_unreadable(client: &Client, entry: &proto::UnreadableEntry) -> Result<(), Problem> {
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

fn show(client: &Client, entries: &[proto::Entry], first: bool, all: bool) -> Result<(), Problem> {
    let output = client.output.listing();
    if output.json() {
        return entries.iter().try_for_each(|entry| output.message("Entry", entry));
    }
    if entries.is_empty() {
        return Ok(());
    }
    table(entries, first, all, &clock::now()).print(output)
}

/// A page; with the consumers in a list of all.
fn table(entries: &[proto::Entry], first: bool, all: bool, now: &Timestamp) -> Table {
    let columns: Vec<Column> =
        COLUMNS.into_iter().filter(|column| all || column.heading() != CONSUMER.heading()).collect();
    let mut table = Table::of(&columns);
    if !first {
        table = table.without_headings();
    }
    for entry in entries {
        let key = entry.key.clone().unwrap_or_default();
        let mut state = enums::state(entry.state);
        if entry.expired {
            state.push_str(" (expired)");
        }
        if entry.doubled {
            state.push_str(" (doubled)");
        }
        let mut row = vec![
            Cell::new(state, enums::style(entry.state, entry.expired)),
            enums::cause(entry.cause).into(),
            entry.attempts.to_string().into(),
        ];
        row.extend(all.then(|| Cell::from(name(&key.consumer))));
        row.extend([
            Cell::from(name(&key.id)),
            name(&key.source).into(),
            ago(entry.created_at.as_ref(), now).into(),
            name(&entry.owner).into(),
            clean(&entry.last_error).into(),
        ]);
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::screens::{NOW, before, check};
    use crate::proto::{Entry, EntryKey, EntryState, ParkCause};

    #[test]
    fn list_screens_leave_columns_out_and_keep_ages_whole() {
        let entry = |id: &str, state: EntryState, cause: ParkCause, ago, error: &str| Entry {
            key: Some(EntryKey {
                consumer: "payments".into(),
                source: "shop".into(),
                id: id.into(),
                ..EntryKey::default()
            }),
            state: state.into(),
            cause: cause.into(),
            attempts: 3,
            owner: "billing-7b9f4d5c8d-x2x8q/1".into(),
            last_error: error.into(),
            created_at: before(ago),
            ..Entry::default()
        };
        let error =
            "provider answered 502 for order-001900: upstream connect error or disconnect before headers";
        let exhausted = ParkCause::AttemptsExhausted;
        let entries = [
            entry("order-001900", EntryState::Parked, exhausted, 187_200, error),
            entry("018f3b9e-7c1d-7c3e-9a55-0123456789ab", EntryState::Parked, ParkCause::Operator, 59, ""),
            Entry {
                expired: true,
                ..entry("order-7", EntryState::InProgress, ParkCause::Unspecified, 3_700, "")
            },
        ];
        let now = Timestamp { seconds: NOW, nanos: 0 };
        for (name, all) in [("list", false), ("list-all", true)] {
            check(name, |output| {
                let fitted = table(&entries, true, all, &now).fitted(output, output.width());
                let note = fitted.note();
                fitted.lines.into_iter().chain(note).collect()
            });
        }
    }

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

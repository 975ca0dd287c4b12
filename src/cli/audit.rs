//! `audit`: what operators did.

use clap::Subcommand;

use super::client::{Admin, Client};
use super::problem::{Exit, Problem};
use super::table::{Column, Table};
use super::text::{clean, when};
use crate::proto;

const PAGE: i32 = 500;

const COLUMNS: [Column; 6] = [
    Column::whole("WHEN"),
    Column::name("ACTOR").left_out(3),
    Column::whole("ACTION"),
    Column::name("CONSUMER").left_out(2),
    Column::whole("KEY HASH").left_out(1),
    Column::text("REASON"),
];

/// The commands.
#[derive(Subcommand)]
pub(super) enum Command {
    /// List what was done, newest first
    List(List),
}

/// What to list.
#[derive(clap::Args)]
pub(super) struct List {
    /// Only events of this consumer
    #[arg(long)]
    consumer: Option<String>,
    /// Only events of one entry, present or deleted: its source
    #[arg(long, requires_all = ["consumer", "id"])]
    source: Option<String>,
    /// Only events of one entry: its id
    #[arg(long, requires_all = ["consumer", "source"])]
    id: Option<String>,
    /// Only events of one entry: its replay run
    #[arg(long, requires_all = ["consumer", "source", "id"])]
    replay_run: Option<String>,
    /// Maximum number of events (0 = no limit)
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
}

impl Command {
    pub(super) async fn run(self, client: Client) -> Result<Exit, Problem> {
        let Command::List(list) = self;
        let mut admin = client.connect().await?;
        let consumer = list.consumer.unwrap_or_default();
        let mut request = match (list.source, list.id) {
            (Some(source), Some(id)) => proto::ListAuditEventsRequest {
                key: Some(proto::EntryKey {
                    consumer: consumer.clone(),
                    source,
                    id,
                    replay_run: list.replay_run.unwrap_or_default(),
                }),
                ..proto::ListAuditEventsRequest::default()
            },
            (Some(_) | None, _) => proto::ListAuditEventsRequest::default(),
        };
        request.consumer = consumer;
        request.page_size = PAGE;
        let (output, limit) =
            (client.output.listing(), if list.limit == 0 { usize::MAX } else { list.limit });
        let (mut printed, mut more, mut cut) = (0_usize, true, false);
        while more && printed < limit {
            let page = admin.list_audit_events(client.request(request.clone())).await;
            let mut page = page.map_err(|status| Problem::of(&status))?.into_inner();
            cut = page.events.len() > limit - printed;
            page.events.truncate(limit - printed);
            more = cut || !page.next_page_token.is_empty();
            request.page_token = page.next_page_token;
            let mut table = Table::of(&COLUMNS);
            if printed > 0 {
                table = table.without_headings();
            }
            printed += page.events.len();
            for event in &page.events {
                if output.json() {
                    output.message("AuditEvent", event)?;
                    continue;
                }
                let key = if event.key_hash.is_empty() { "-" } else { &event.key_hash };
                table.row(vec![
                    event.at.as_ref().map_or_else(|| "-".to_owned(), when).into(),
                    clean(&event.actor).into(),
                    clean(&event.action).into(),
                    clean(&event.consumer).into(),
                    clean(key).into(),
                    clean(&event.reason).into(),
                ]);
            }
            if !output.json() && !page.events.is_empty() {
                table.print(output)?;
            }
        }
        if printed == 0 {
            output.note("nothing was done");
        } else if more && !output.json() && (cut || has_next(&client, &mut admin, request).await) {
            output.note("there are more: raise --limit, or 0 for all");
        }
        Ok(Exit::Done)
    }
}

/// Whether an event follows a page that ended at the limit: a server returns the token of a next page with each full page, also
/// with the last one. If the server does not answer, there may be one.
async fn has_next(client: &Client, admin: &mut Admin, request: proto::ListAuditEventsRequest) -> bool {
    let request = proto::ListAuditEventsRequest { page_size: 1, ..request };
    let page = admin.list_audit_events(client.request(request)).await;
    let Ok(page) = page else { return true };
    !page.into_inner().events.is_empty()
}

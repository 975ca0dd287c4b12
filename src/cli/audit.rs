//! `audit`: what operators did.

mod screen;

use clap::Subcommand;

use super::client::{Admin, Client};
use super::clock;
use super::instant_arg::InstantArg;
use super::problem::{Exit, Problem};
use crate::proto;

const PAGE: i32 = 500;
/// The search ends after this many pages without an event that fits: for each of them the server has read 1,000 events.
const EMPTY_MAX: usize = 100;

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
    /// Only events of this operation: a bulk change or an import, by its id
    #[arg(long, value_name = "ID", requires = "consumer", conflicts_with = "source")]
    operation: Option<String>,
    /// Only events with one of these actions, such as PARK or `SET_POLICY`; docs/operations.md lists them
    #[arg(long, num_args = 1.., value_delimiter = ',')]
    action: Vec<String>,
    /// Only events of this operator, exactly
    #[arg(long)]
    actor: Option<String>,
    /// Only events at this instant or later: 2026-11-21T13:00:00Z, or 2h for two hours ago
    #[arg(long, value_name = "WHEN")]
    since: Option<InstantArg>,
    /// Only events before this instant
    #[arg(long, value_name = "WHEN")]
    until: Option<InstantArg>,
    /// Maximum number of events (0 = no limit)
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
}

impl List {
    fn request(self) -> proto::ListAuditEventsRequest {
        let consumer = self.consumer.unwrap_or_default();
        let key = match (self.source, self.id) {
            (Some(source), Some(id)) => Some(proto::EntryKey {
                consumer: consumer.clone(),
                source,
                id,
                replay_run: self.replay_run.unwrap_or_default(),
            }),
            (Some(_) | None, _) => None,
        };
        proto::ListAuditEventsRequest {
            consumer,
            key,
            page_size: PAGE,
            page_token: String::new(),
            operation: self.operation.unwrap_or_default(),
            actions: self.action.iter().map(|action| action.to_uppercase()).collect(),
            actor: self.actor.unwrap_or_default(),
            from: self.since.map(|instant| instant.0),
            until: self.until.map(|instant| instant.0),
        }
    }
}

impl Command {
    pub(super) async fn run(self, client: Client) -> Result<Exit, Problem> {
        let Command::List(list) = self;
        let mut admin = client.connect().await?;
        let output = client.output.listing();
        let limit = if list.limit == 0 { usize::MAX } else { list.limit };
        let mut request = list.request();
        let (mut printed, mut more, mut cut, mut empty) = (0_usize, true, false, 0_usize);
        while more && printed < limit && empty < EMPTY_MAX {
            let page = admin.list_audit_events(client.request(request.clone())).await;
            let mut page = page.map_err(|status| Problem::of(&status))?.into_inner();
            cut = page.events.len() > limit - printed;
            page.events.truncate(limit - printed);
            more = cut || !page.next_page_token.is_empty();
            empty += usize::from(page.events.is_empty());
            request.page_token = page.next_page_token;
            if output.json() {
                page.events.iter().try_for_each(|event| output.message("AuditEvent", event))?;
            } else if !page.events.is_empty() {
                screen::table(&page.events, printed == 0, output, &clock::now()).print(output)?;
            }
            printed += page.events.len();
        }
        if more && printed < limit {
            return Err(Problem::new(Exit::Partly, "the search has ended before all events were looked at")
                .next("name a consumer, or fewer events with --since and --until"));
        }
        if printed == 0 {
            output.note("no event matches");
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
    let page = page.into_inner();
    !page.events.is_empty() || !page.next_page_token.is_empty()
}

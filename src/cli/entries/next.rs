//! `entries next`: the stored messages of a consumer that are due, without a claim.

mod found;
mod screen;

use clap::Args;

use self::found::Found;
use super::list::name_unreadable;
use crate::cli::client::{Admin, Client};
use crate::cli::consumer::note_unknown;
use crate::cli::problem::{Exit, Problem};
use crate::cli::text::{counted, when};
use crate::proto;

/// Entries of a page. A server reads at most 1,000 for a page of several states.
const PAGE: i32 = 500;
/// The search ends after this many pages: at least 10,000 entries were read then.
const PAGES_MAX: usize = 40;
/// The largest value of `--limit`.
const LIMIT_MAX: i64 = 1_000;

/// Whose messages.
#[derive(Args)]
pub(in crate::cli) struct Next {
    /// The consumer
    consumer: String,
    /// Maximum number of messages: 1 to 1,000
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=LIMIT_MAX))]
    limit: u16,
}

impl Next {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let mut admin = client.connect().await?;
        let output = client.output.listing();
        let found = self.search(client, &mut admin).await?;
        if output.json() {
            found.due().iter().try_for_each(|entry| output.message("Entry", *entry))?;
        } else {
            screen::print(output, &client.program(), &found)?;
        }
        found.unreadable.iter().try_for_each(|entry| name_unreadable(client, entry))?;
        if !found.unreadable.is_empty() {
            client.output.stderr(&format!(
                "{} cannot be read, and ClaimNext passes over them: see \"A damaged row\" in docs/runbooks.md",
                counted(found.unreadable.len(), "entry", "entries")
            ));
        }
        if let (false, Some(until)) = (found.is_whole(), &found.read_until) {
            let text = format!(
                "entries that were created after {} were not read: one of them may be due earlier",
                when(until)
            );
            return Err(Problem::new(Exit::Partly, text)
                .next("`entries summary --consumer` counts the messages, and shows how long the oldest has been due"));
        }
        if found.summary.states.is_empty() && found.due().is_empty() {
            note_unknown(client, &mut admin, &self.consumer).await;
        }
        Ok(Exit::Done)
    }

    /// Reads entries in the order of their creation, until no entry that was not read can be due before those that are shown: a
    /// message is never due before its entry was created.
    async fn search(&self, client: &Client, admin: &mut Admin) -> Result<Found, Problem> {
        let request =
            proto::SummarizeEntriesRequest { consumer: self.consumer.clone(), ..Default::default() };
        let summary = admin.summarize_entries(client.request(request)).await;
        let summary = summary.map_err(|status| Problem::of(&status))?.into_inner();
        let mut found = Found::new(&self.consumer, summary, usize::from(self.limit));
        let states =
            [proto::EntryState::Received, proto::EntryState::InProgress, proto::EntryState::FailedRetryable];
        let filter = proto::EntryFilter {
            consumer: self.consumer.clone(),
            states: states.map(Into::into).to_vec(),
            inbox: proto::MessageState::Kept.into(),
            ..Default::default()
        };
        let mut request =
            proto::ListEntriesRequest { filter: Some(filter), page_size: PAGE, ..Default::default() };
        for _ in 0..PAGES_MAX {
            let page = admin.list_entries(client.request(request.clone())).await;
            let page = page.map_err(|status| Problem::of(&status))?.into_inner();
            request.page_token.clone_from(&page.next_page_token);
            found.add(page);
            if found.is_whole() {
                break;
            }
        }
        Ok(found)
    }
}

//! `entries park`: one entry by its key, or all that match a filter.

use clap::Args;

use super::bulk::{self, BulkRequest};
use super::change::{Ask, EntryChangeArgs, PreparedChange};
use super::filter::Filter;
use super::redrive::BulkLimits;
use crate::cli::client::{Admin, Client};
use crate::cli::problem::{Exit, Problem};
use crate::cli::retry;
use crate::proto;

/// Which entries, and how.
#[derive(Args)]
pub(in crate::cli) struct Park {
    /// The key of one entry; or name many by --consumer and --state
    #[arg(num_args = 3, value_names = ["CONSUMER", "SOURCE", "ID"], required_unless_present = "consumer",
        conflicts_with_all = ["consumer", "source", "id_prefix", "state", "cause", "expired", "older_than",
            "newer_than", "owner", "error_contains", "parked_since", "dry_run", "rate", "max", "operation_id"])]
    key: Vec<String>,
    #[command(flatten)]
    args: EntryChangeArgs,
    /// Many: of this consumer
    #[arg(long, requires = "state", help_heading = "Many entries",
        conflicts_with_all = ["expected_version", "request_id"])]
    consumer: Option<String>,
    #[command(flatten, next_help_heading = "Many entries")]
    filter: Filter,
    #[command(flatten)]
    pace: BulkLimits,
}

impl Park {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let Some(consumer) = &self.consumer else { return self.one(client).await };
        let request = proto::ParkEntriesRequest {
            filter: Some(self.filter.message(consumer)),
            operation_id: self.pace.operation_id.clone().unwrap_or_else(retry::id),
            reason: self.args.reason.clone(),
            dry_run: self.pace.dry_run,
            rate: self.pace.rate,
            maximum: self.pace.max,
        };
        bulk::run(client, BulkRequest::Park(request), self.args.yes).await
    }

    async fn one(self, client: &Client) -> Result<Exit, Problem> {
        let key = super::key_of(&self.key, self.filter.replay_run.as_deref());
        let what = "park it: no grants until an operator redrives or resolves it";
        let change = PreparedChange::prepare(client, key, &self.args, what, Ask::Never, false).await?;
        let request = proto::ParkEntryRequest {
            key: Some(change.key.clone()),
            request_id: change.request_id.clone(),
            expected_version: change.expected_version,
            reason: self.args.reason,
        };
        let call = |mut admin: Admin| {
            let request = client.request(request.clone());
            async move { admin.park_entry(request).await }
        };
        let known = change.make(call).await?;
        change.done("ParkEntryResponse", &known, known.answer.entry.as_ref(), known.answer.replayed)
    }
}

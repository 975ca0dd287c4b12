//! `entries redrive`: one entry by its key, or all that match a filter.

use clap::Args;

use super::bulk::{self, BulkRequest};
use super::change::{Ask, EntryChangeArgs, PreparedChange};
use super::filter::Filter;
use crate::cli::client::{Admin, Client};
use crate::cli::problem::{Exit, Problem};
use crate::cli::retry;
use crate::proto;

/// Which entries, and how.
#[derive(Args)]
pub(in crate::cli) struct Redrive {
    /// The key of one entry; or name many by --consumer and --state
    #[arg(num_args = 3, value_names = ["CONSUMER", "SOURCE", "ID"], required_unless_present = "consumer",
        conflicts_with_all = ["consumer", "source", "id_prefix", "state", "cause", "expired", "older_than",
            "newer_than", "owner", "error_contains", "parked_since", "dry_run", "rate", "max", "operation_id"])]
    key: Vec<String>,
    #[command(flatten)]
    args: EntryChangeArgs,
    /// Drop the pinned fingerprint, so that the next claim may bring another payload; a stored message is erased with it
    #[arg(long)]
    drop_fingerprint: bool,
    /// One entry: also where the message could have its effect twice
    #[arg(long, conflicts_with = "consumer")]
    force: bool,
    /// One entry: make it if it does not exist, for a message that was answered `outside_window`
    #[arg(long, conflicts_with = "consumer")]
    admit: bool,
    /// Many: of this consumer
    #[arg(long, requires = "state", help_heading = "Many entries",
        conflicts_with_all = ["expected_version", "request_id"])]
    consumer: Option<String>,
    #[command(flatten, next_help_heading = "Many entries")]
    filter: Filter,
    #[command(flatten)]
    pace: BulkLimits,
}

/// The limits of a change of many entries.
#[derive(Args, Clone)]
#[group(skip)]
pub(super) struct BulkLimits {
    /// Change nothing; show what would be done
    #[arg(long, help_heading = "Many entries")]
    pub(super) dry_run: bool,
    /// Maximum number of entries per second
    #[arg(long, default_value_t = 100, value_name = "N", help_heading = "Many entries",
        value_parser = clap::value_parser!(i32).range(1..=1_000))]
    pub(super) rate: i32,
    /// Maximum number of entries in all
    #[arg(long, default_value_t = 10_000, value_name = "N", help_heading = "Many entries",
        value_parser = clap::value_parser!(i32).range(1..=1_000_000))]
    pub(super) max: i32,
    /// Continue an interrupted operation, by its id [default: a new one]
    #[arg(long, value_name = "ID", help_heading = "Many entries")]
    pub(super) operation_id: Option<String>,
}

impl Redrive {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let Some(consumer) = &self.consumer else { return self.one(client).await };
        self.filter.is_known(client, &mut client.connect().await?, consumer).await?;
        let request = proto::RedriveEntriesRequest {
            filter: Some(self.filter.message(consumer)),
            operation_id: self.pace.operation_id.clone().unwrap_or_else(retry::id),
            reason: self.args.reason.clone(),
            dry_run: self.pace.dry_run,
            rate: self.pace.rate,
            maximum: self.pace.max,
            drop_fingerprint: self.drop_fingerprint,
        };
        bulk::run(client, BulkRequest::Redrive(request), self.args.yes).await
    }

    async fn one(self, client: &Client) -> Result<Exit, Problem> {
        let key = super::key_of(&self.key, self.filter.replay_run.as_deref());
        let what = match (self.admit, self.force) {
            (true, _) => "have it processed, although it may have been processed before",
            (false, true) => "have it processed again, by force: a second effect is possible",
            (false, false) => "have it processed again: claimable now, no attempts used",
        };
        let ask = if self.force { Ask::Always } else { Ask::InDoubt };
        let prepared =
            PreparedChange::prepare(client, key.clone(), &self.args, what, ask, self.drop_fingerprint).await;
        let change = match prepared {
            Err(problem) if self.admit && problem.exit == Exit::NotFound => PreparedChange {
                client,
                admin: client.connect().await?,
                key,
                request_id: self.args.request_id.clone().unwrap_or_else(retry::id),
                expected_version: self.args.expected_version.unwrap_or(0),
            },
            prepared => prepared?,
        };
        let request = proto::RedriveEntryRequest {
            key: Some(change.key.clone()),
            request_id: change.request_id.clone(),
            expected_version: change.expected_version,
            reason: self.args.reason,
            force: self.force,
            drop_fingerprint: self.drop_fingerprint,
            admit: self.admit,
        };
        let call = |mut admin: Admin| {
            let request = client.request(request.clone());
            async move { admin.redrive_entry(request).await }
        };
        let known = change.make_or_force(self.force, call).await?;
        change.done("RedriveEntryResponse", &known, known.answer.entry.as_ref(), known.answer.replayed)
    }
}

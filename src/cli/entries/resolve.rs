//! `entries resolve`: one entry by its key, or all that match a filter.

use std::fs;
use std::io::{self, Read as _};

use clap::{Args, ValueEnum};

use super::bulk::{self, BulkRequest};
use super::change::{Ask, EntryChangeArgs, PreparedChange};
use super::filter::Filter;
use super::redrive::BulkLimits;
use crate::cli::client::{Admin, Client};
use crate::cli::problem::{Exit, Problem};
use crate::cli::retry;
use crate::cli::text::clean;
use crate::proto;

/// The outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Became {
    /// Its effect happened
    Completed,
    /// No attempt will ever succeed
    Failed,
    /// Its effect did not happen: process it again
    Received,
}

/// Which entries, and what became of them.
#[derive(Args)]
pub(in crate::cli) struct Resolve {
    /// The key of one entry; or name many by --consumer and --state
    #[arg(num_args = 3, value_names = ["CONSUMER", "SOURCE", "ID"], required_unless_present = "consumer",
        conflicts_with_all = ["consumer", "source", "id_prefix", "state", "cause", "expired", "older_than",
            "newer_than", "owner", "error_contains", "parked_since", "dry_run", "rate", "max", "operation_id"])]
    key: Vec<String>,
    /// Outcome of the message
    #[arg(long = "as", value_name = "STATE")]
    became: Became,
    /// One entry: file with what later deliveries are answered, or - for standard input; with --as completed
    #[arg(long, value_name = "FILE", conflicts_with = "consumer")]
    result: Option<String>,
    /// How you know; with --as failed it is also the entry's error
    #[arg(long, value_name = "TEXT")]
    evidence: Option<String>,
    /// One entry: also where the message could have its effect twice
    #[arg(long, conflicts_with = "consumer")]
    force: bool,
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

impl Resolve {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let Some(consumer) = &self.consumer else { return self.one(client).await };
        let request = proto::ResolveEntriesRequest {
            filter: Some(self.filter.message(consumer)),
            operation_id: self.pace.operation_id.clone().unwrap_or_else(retry::id),
            reason: self.args.reason.clone(),
            dry_run: self.pace.dry_run,
            rate: self.pace.rate,
            maximum: self.pace.max,
            state: self.outcome().0.into(),
            evidence: self.evidence.clone().unwrap_or_default(),
        };
        bulk::run(client, BulkRequest::Resolve(request), self.args.yes).await
    }

    /// The state, and what it means.
    fn outcome(&self) -> (proto::EntryState, &'static str) {
        match self.became {
            Became::Completed => (proto::EntryState::Completed, "record that its effect happened"),
            Became::Failed => (proto::EntryState::FailedTerminal, "record that it will never succeed"),
            Became::Received => {
                (proto::EntryState::Received, "record that its effect did not happen: it is processed again")
            }
        }
    }

    async fn one(self, client: &Client) -> Result<Exit, Problem> {
        let (state, what) = self.outcome();
        let result = match &self.result {
            Some(_) if self.became != Became::Completed => {
                return Err(Problem::usage("--result: only what is --as completed has a result"));
            }
            Some(file) => contents(file)?,
            None => Vec::new(),
        };
        let key = super::key_of(&self.key, self.filter.replay_run.as_deref());
        let ask = Ask::always_if(self.force);
        let change = PreparedChange::prepare(client, key, &self.args, what, ask, false).await?;
        let request = proto::ResolveEntryRequest {
            key: Some(change.key.clone()),
            request_id: change.request_id.clone(),
            expected_version: change.expected_version,
            reason: self.args.reason,
            force: self.force,
            state: state.into(),
            result: result.into(),
            evidence: self.evidence.unwrap_or_default(),
        };
        let call = |mut admin: Admin| {
            let request = client.request(request.clone());
            async move { admin.resolve_entry(request).await }
        };
        let known = change.make_or_force(self.force, call).await?;
        change.done("ResolveEntryResponse", &known, known.answer.entry.as_ref(), known.answer.replayed)
    }
}

/// More than any server stores as a result.
const RESULT_MAX: u64 = 2 << 20;

fn contents(file: &str) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let read = if file == "-" {
        io::stdin().lock().take(RESULT_MAX).read_to_end(&mut bytes)
    } else {
        fs::File::open(file).and_then(|file| file.take(RESULT_MAX).read_to_end(&mut bytes))
    };
    read.map_err(|error| Problem::usage(format!("--result: {}: {error}", clean(file))))?;
    Ok(bytes)
}

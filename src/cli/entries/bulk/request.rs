//! The three changes of many entries, as one: their requests, and their reports in one form.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use tokio::time::timeout;
use tonic::Status;

use crate::cli::client::Admin;
use crate::cli::json::marked;
use crate::cli::problem::{Exit, Problem};
use crate::proto;

/// A stream that is silent for this long is broken.
pub(super) const SILENCE_MAX: Duration = Duration::from_mins(2);

/// A request for a change of many entries.
#[derive(Clone)]
pub(in crate::cli::entries) enum BulkRequest {
    Redrive(proto::RedriveEntriesRequest),
    Park(proto::ParkEntriesRequest),
    Resolve(proto::ResolveEntriesRequest),
}

/// A report, as the server sent it.
pub(super) enum BulkReport {
    Redrive(proto::RedriveEntriesResponse),
    Park(proto::ParkEntriesResponse),
    Resolve(proto::ResolveEntriesResponse),
}

/// The reports of an operation.
pub(super) type BulkReports = Pin<Box<dyn Stream<Item = Result<BulkReport, Status>> + Send>>;

/// The words for a change.
pub(super) struct Words {
    /// As a question begins.
    pub(super) verb: &'static str,
    /// What has become of an entry.
    pub(super) done: &'static str,
    /// What may happen to entries whose effect may have happened. `None` if the change has nothing processed again.
    pub(super) risk: Option<&'static str>,
}

macro_rules! each {
    ($request:expr, $one:ident => $value:expr) => {
        match $request {
            BulkRequest::Redrive($one) => $value,
            BulkRequest::Park($one) => $value,
            BulkRequest::Resolve($one) => $value,
        }
    };
}

impl BulkRequest {
    pub(super) fn words(&self) -> Words {
        match self {
            BulkRequest::Redrive(_) => Words {
                verb: "Redrive",
                done: "redriven",
                risk: Some(
                    "a redrive may bring a second one; use `entries resolve` where you know what became of it",
                ),
            },
            BulkRequest::Park(_) => Words { verb: "Park", done: "parked", risk: None },
            BulkRequest::Resolve(request) => Words {
                verb: "Resolve",
                done: "resolved",
                risk: (request.state() == proto::EntryState::Received).then_some(
                    "--as received has them processed again, which may bring a second one: be sure that it did not happen",
                ),
            },
        }
    }

    pub(super) fn consumer(&self) -> String {
        let filter = each!(self, one => one.filter.as_ref());
        filter.map(|filter| filter.consumer.clone()).unwrap_or_default()
    }

    pub(super) fn operation_id(&self) -> &str {
        each!(self, one => &one.operation_id)
    }

    pub(super) fn is_dry_run(&self) -> bool {
        each!(self, one => one.dry_run)
    }

    pub(super) fn rate(&self) -> i32 {
        each!(self, one => one.rate)
    }

    pub(super) fn maximum(&self) -> i32 {
        each!(self, one => one.maximum)
    }

    /// The same request, as a dry run.
    pub(super) fn dry(mut self) -> BulkRequest {
        each!(&mut self, one => one.dry_run = true);
        self
    }

    /// Sends the request.
    pub(super) async fn begin(self, admin: &mut Admin) -> Result<BulkReports, Problem> {
        macro_rules! reports {
            ($call:expr, $form:path) => {{
                let begun = timeout(SILENCE_MAX, $call).await.map_err(|_| silent())?;
                let answers = begun.map_err(|status| Problem::of(&status))?.into_inner();
                Box::pin(answers.map(|answer| answer.map($form)))
            }};
        }
        Ok(match self {
            BulkRequest::Redrive(request) => reports!(admin.redrive_entries(request), BulkReport::Redrive),
            BulkRequest::Park(request) => reports!(admin.park_entries(request), BulkReport::Park),
            BulkRequest::Resolve(request) => reports!(admin.resolve_entries(request), BulkReport::Resolve),
        })
    }
}

impl BulkReport {
    /// As JSON, with a mark if it is of a dry run.
    pub(super) fn json(&self, dry_run: bool) -> Result<String, Problem> {
        match self {
            BulkReport::Redrive(report) => marked("RedriveEntriesResponse", report, dry_run),
            BulkReport::Park(report) => marked("ParkEntriesResponse", report, dry_run),
            BulkReport::Resolve(report) => marked("ResolveEntriesResponse", report, dry_run),
        }
    }

    /// In one form for all changes.
    pub(super) fn plain(self) -> proto::ParkEntriesResponse {
        match self {
            BulkReport::Park(report) => report,
            BulkReport::Resolve(report) => proto::ParkEntriesResponse {
                outcomes: report.outcomes,
                changed: report.changed,
                refused: report.refused,
                at_most_left: report.at_most_left,
                finished: report.finished,
                maximum_reached: report.maximum_reached,
            },
            BulkReport::Redrive(report) => proto::ParkEntriesResponse {
                outcomes: report.outcomes.into_iter().map(outcome).collect(),
                changed: report.redriven,
                refused: report.refused,
                at_most_left: report.at_most_left,
                finished: report.finished,
                maximum_reached: report.maximum_reached,
            },
        }
    }
}

fn outcome(one: proto::RedriveOutcome) -> proto::EntryOutcome {
    proto::EntryOutcome {
        key: one.key,
        state: one.state,
        cause: one.cause,
        changed: one.redriven,
        rejected: one.rejected,
        effect_doubtful: one.effect_doubtful,
        key_hash: one.key_hash,
        message_erased: one.message_erased,
    }
}

pub(super) fn silent() -> Problem {
    Problem::new(Exit::Unavailable, format!("the server was silent for {SILENCE_MAX:?}"))
}

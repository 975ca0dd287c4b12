//! Replay runs, as messages.

use super::page_token::{self, Pages};
use super::summary;
use crate::domain::{Namespace, Reading, Rejection, ReplayRun, RequestDigest, RunMode};
use crate::ledger::{Operators, RunChange, RunOrder, RunResult};
use crate::proto;
use crate::wire::digest::digest;
use crate::wire::fields::{FieldChecks, Limits, REPLAY_RUN_MAX};
use crate::wire::words::shown;

const REQUEST_ID_MAX: usize = 128;
const REASON_MAX: usize = 1_024;
const PAGE_DEFAULT: usize = 20;
const PAGE_MAX: usize = 100;

pub(super) fn create(
    request: &proto::CreateReplayRunRequest,
    actor: &str,
    limits: &Limits,
) -> Result<RunOrder, Rejection> {
    let mut fields = FieldChecks::new(limits);
    let ends_in = request.ends_in.as_ref().and_then(|ends_in| fields.span("ends_in", ends_in));
    let asked = [&request.consumer, &request.replay_run, &request.request_id, &request.reason];
    order(fields, asked, digest("CreateReplayRun", request), actor, RunChange::Create(ends_in))
}

pub(super) fn close(
    request: &proto::CloseReplayRunRequest,
    actor: &str,
    limits: &Limits,
) -> Result<RunOrder, Rejection> {
    let asked = [&request.consumer, &request.replay_run, &request.request_id, &request.reason];
    order(FieldChecks::new(limits), asked, digest("CloseReplayRun", request), actor, RunChange::Close)
}

fn order(
    mut fields: FieldChecks<'_>,
    [consumer, replay_run, request_id, reason]: [&String; 4],
    digest: RequestDigest,
    actor: &str,
    what: RunChange,
) -> Result<RunOrder, Rejection> {
    fields.name("consumer", consumer, fields.limits().consumer);
    if replay_run.is_empty() {
        fields.wrong("replay_run", format!("is empty, must be 1 to {REPLAY_RUN_MAX} bytes"));
    }
    fields.replay_run("replay_run", replay_run);
    fields.request_id("request_id", request_id, REQUEST_ID_MAX);
    fields.name("reason", reason, REASON_MAX);
    fields.finish(|| RunOrder {
        request_id: request_id.clone(),
        digest,
        actor: actor.to_owned(),
        reason: reason.clone(),
        run: Namespace::new(consumer, replay_run),
        what,
    })
}

/// A page of a consumer's runs: the query for the store, and the position of the next page.
pub(super) struct RunQuery {
    pub(super) consumer: String,
    /// The last name of the page before; empty for the first page.
    after: String,
    size: usize,
    pages: Pages,
}

pub(super) fn query(request: &proto::ListReplayRunsRequest, limits: &Limits) -> Result<RunQuery, Rejection> {
    let mut fields = FieldChecks::new(limits);
    fields.name("consumer", &request.consumer, limits.consumer);
    let asked = proto::ListReplayRunsRequest { page_size: 0, page_token: String::new(), ..request.clone() };
    let pages = Pages::of("ListReplayRuns", &asked);
    let after = pages.place(&mut fields, &request.page_token, page_token::name).unwrap_or_default();
    let size = fields.page_size(request.page_size, PAGE_DEFAULT, PAGE_MAX);
    fields.finish(|| RunQuery { consumer: request.consumer.clone(), after, size, pages })
}

pub(super) async fn list(
    operators: &Operators,
    query: RunQuery,
) -> Result<proto::ListReplayRunsResponse, Rejection> {
    let (runs, summary) = operators.runs((query.consumer, query.after, query.size)).await?;
    let last = runs.last().filter(|_| runs.len() == query.size);
    let next_page_token = last.map_or_else(String::new, |last| query.pages.token(last.name.as_bytes()));
    let run = |run: ReplayRun| {
        let states = summary::states(&summary, Namespace::new(&run.consumer, &run.name).name());
        proto::ReplayRun { states, ..message(run, &summary.reading) }
    };
    Ok(proto::ListReplayRunsResponse {
        runs: runs.into_iter().map(run).collect(),
        as_of: Some(shown(summary.reading.now)),
        next_page_token,
    })
}

pub(super) fn carried_out(result: RunResult) -> (Option<proto::ReplayRun>, bool) {
    (Some(message(result.run, &result.reading)), result.replayed)
}

fn message(run: ReplayRun, reading: &Reading) -> proto::ReplayRun {
    proto::ReplayRun {
        open: reading.now < run.end(),
        mode: match run.mode {
            RunMode::Suppress => proto::ReplayMode::Suppress,
            RunMode::Rebuild => proto::ReplayMode::Rebuild,
        }
        .into(),
        created_at: Some(shown(run.created_at)),
        ends_at: Some(shown(run.ends_at)),
        closed_at: run.closed_at.map(shown),
        consumer: run.consumer,
        replay_run: run.name,
        actor: run.actor,
        reason: run.reason,
        states: Vec::new(),
    }
}

//! Replay runs: messages to orders, and runs back.

use super::summary;
use crate::domain::{Namespace, Reading, Rejection, ReplayRun, RunMode, Summary};
use crate::ledger::{RunChange, RunOrder, RunResult};
use crate::rpc::proto;
use crate::rpc::wire::fields::{Fields, Limits, REPLAY_RUN_MAX};
use crate::rpc::wire::words::shown;

const REQUEST_ID_MAX: usize = 128;
const REASON_MAX: usize = 1_024;
const PAGE_DEFAULT: usize = 20;
const PAGE_MAX: usize = 100;

pub(super) fn create(
    request: &proto::CreateReplayRunRequest,
    actor: &str,
    limits: &Limits,
) -> Result<RunOrder, Rejection> {
    let mut fields = Fields::new(limits);
    let ends_in = request.ends_in.as_ref().and_then(|ends_in| fields.span("ends_in", ends_in));
    let asked = [&request.consumer, &request.replay_run, &request.request_id, &request.reason];
    order(fields, asked, actor, RunChange::Create(ends_in))
}

pub(super) fn close(
    request: &proto::CloseReplayRunRequest,
    actor: &str,
    limits: &Limits,
) -> Result<RunOrder, Rejection> {
    let asked = [&request.consumer, &request.replay_run, &request.request_id, &request.reason];
    order(Fields::new(limits), asked, actor, RunChange::Close)
}

fn order(
    mut fields: Fields<'_>,
    [consumer, replay_run, request_id, reason]: [&String; 4],
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
        actor: actor.to_owned(),
        reason: reason.clone(),
        run: Namespace::new(consumer, replay_run),
        what,
    })
}

/// The consumer, the place of the page, and its size.
pub(super) fn page(
    request: &proto::ListReplayRunsRequest,
    limits: &Limits,
) -> Result<(String, String, usize), Rejection> {
    let mut fields = Fields::new(limits);
    fields.name("consumer", &request.consumer, limits.consumer);
    // The place is the last name of the page before.
    fields.replay_run("page_token", &request.page_token);
    let size = fields.page_size(request.page_size, PAGE_DEFAULT, PAGE_MAX);
    fields.finish(|| (request.consumer.clone(), request.page_token.clone(), size))
}

pub(super) fn listed(runs: Vec<ReplayRun>, summary: &Summary, size: usize) -> proto::ListReplayRunsResponse {
    let last = runs.last().filter(|_| runs.len() == size);
    let next_page_token = last.map_or_else(String::new, |last| last.name.clone());
    let run = |run: ReplayRun| {
        let states = summary::states(summary, Namespace::new(&run.consumer, &run.name).name());
        proto::ReplayRun { states, ..message(run, &summary.reading) }
    };
    proto::ListReplayRunsResponse {
        runs: runs.into_iter().map(run).collect(),
        as_of: Some(shown(summary.reading.now)),
        next_page_token,
    }
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

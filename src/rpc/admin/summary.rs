//! `SummarizeEntries`: what is stuck, and since when.

use crate::domain::{Namespace, Policy, Rejection, State, Summary};
use crate::ledger::{CountScope, Operators};
use crate::rpc::proto;
use crate::rpc::wire::fields::{Fields, Limits};
use crate::rpc::wire::words;

const PAGE_DEFAULT: usize = 20;
const PAGE_MAX: usize = 100;

/// What is counted: one consumer, or a page of them.
pub(super) fn scope(
    request: &proto::SummarizeEntriesRequest,
    limits: &Limits,
) -> Result<CountScope, Rejection> {
    let mut fields = Fields::new(limits);
    fields.text("consumer", &request.consumer, limits.consumer);
    // The place is a name in the store: of a consumer, or of a consumer and a run.
    let place = Namespace::stored(&request.page_token);
    fields.text("page_token", place.consumer(), limits.consumer);
    fields.replay_run("page_token", place.replay_run());
    fields.replay_run("replay_run", &request.replay_run);
    if request.consumer.is_empty() && !request.replay_run.is_empty() {
        fields.wrong("replay_run", "is set without a consumer: a run is one consumer's");
    }
    let size = fields.page_size(request.page_size, PAGE_DEFAULT, PAGE_MAX);
    if !request.consumer.is_empty() && !request.page_token.is_empty() {
        fields.wrong("page_token", "is not a next_page_token of this call: one consumer has but one page");
    }
    // The place is the last name of the page before.
    let whose = if request.consumer.is_empty() {
        CountScope::ConsumerPage(request.page_token.clone(), size)
    } else {
        CountScope::One(Namespace::new(&request.consumer, &request.replay_run))
    };
    fields.finish(|| whose)
}

pub(super) async fn summarize(
    operators: &Operators,
    whose: CountScope,
) -> Result<proto::SummarizeEntriesResponse, Rejection> {
    let full = if let CountScope::ConsumerPage(_, size) = &whose { Some(*size) } else { None };
    let (names, summary) = operators.count(whose).await?;
    let last = names.last().filter(|_| full == Some(names.len()));
    let next_page_token = last.cloned().unwrap_or_default();
    let policies = operators.policies_here();
    let consumers = names
        .into_iter()
        .map(|name| {
            let policy = policies.of(Namespace::stored(&name).consumer());
            consumer(&summary, &name, &policy)
        })
        .collect();
    Ok(proto::SummarizeEntriesResponse {
        consumers,
        as_of: Some(words::shown(summary.reading.now)),
        next_page_token,
    })
}

fn consumer(summary: &Summary, name: &str, policy: &Policy) -> proto::ConsumerSummary {
    let namespace = Namespace::stored(name);
    let now = summary.reading.now;
    let counts = summary.counts.iter().filter(|count| count.consumer == name);
    let expired = summary.expired.iter().find(|expired| expired.consumer == name);
    proto::ConsumerSummary {
        states: states(summary, name),
        expired: expired.map_or(0, |expired| expired.count),
        longest_expired: expired.map(|expired| words::age(now, expired.since)),
        near_exhaustion: counts.map(|count| count.near_exhaustion).sum(),
        disabled: policy.disabled,
        held_by: policy.held_by.as_deref().map(str::to_owned),
        consumer: namespace.consumer().to_owned(),
        replay_run: namespace.replay_run().to_owned(),
    }
}

/// How many entries of a namespace are in which state.
pub(super) fn states(summary: &Summary, name: &str) -> Vec<proto::StateSummary> {
    let now = summary.reading.now;
    let counts = summary.counts.iter().filter(|count| count.consumer == name);
    let mut states: Vec<proto::StateSummary> = counts
        .map(|count| proto::StateSummary {
            state: words::state(count.state).into(),
            cause: words::cause(count.state).into(),
            count: count.count,
            estimated: false,
            oldest_age: Some(words::age(now, count.oldest)),
        })
        .collect();
    let completed = summary.completed.iter().find(|(consumer, _)| *consumer == name);
    let completed = completed.map_or(0, |(_, count)| *count);
    // None in a sample does not mean none.
    if completed > 0 || summary.estimated {
        states.push(proto::StateSummary {
            state: words::state(State::Completed).into(),
            count: completed,
            estimated: summary.estimated,
            ..Default::default()
        });
    }
    states.sort_by_key(|one| (one.state, one.cause));
    states
}

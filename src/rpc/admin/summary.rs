//! `SummarizeEntries`: which entries are stuck, and since when.

use super::page_token::{self, Pages};
use crate::domain::{Namespace, Policy, Rejection, Span, State, Summary};
use crate::ledger::{CountScope, Operators, SUMMARY_MAX};
use crate::proto;
use crate::wire::fields::{FieldChecks, Limits};
use crate::wire::words;

const PAGE_DEFAULT: usize = 20;
const PAGE_MAX: usize = 100;

/// The consumers that are counted, one or a page of them, and the position of the next page.
pub(super) struct Query {
    pub(super) scope: CountScope,
    pages: Pages,
}

pub(super) fn query(request: &proto::SummarizeEntriesRequest, limits: &Limits) -> Result<Query, Rejection> {
    let mut fields = FieldChecks::new(limits);
    fields.text("consumer", &request.consumer, limits.consumer);
    fields.replay_run("replay_run", &request.replay_run);
    if request.consumer.is_empty() && !request.replay_run.is_empty() {
        fields.wrong("replay_run", "is set without a consumer: a run is one consumer's");
    }
    let size = fields.page_size(request.page_size, PAGE_DEFAULT, PAGE_MAX);
    let asked = proto::SummarizeEntriesRequest { page_size: 0, page_token: String::new(), ..request.clone() };
    let pages = Pages::of("SummarizeEntries", &asked);
    // The position is a name in the store: of a consumer, or of a consumer and a run.
    let after = pages.place(&mut fields, &request.page_token, |place| {
        page_token::name(place).filter(|_| request.consumer.is_empty())
    });
    let scope = if request.consumer.is_empty() {
        CountScope::ConsumerPage(after.unwrap_or_default(), size)
    } else {
        CountScope::One(Namespace::new(&request.consumer, &request.replay_run))
    };
    fields.finish(|| Query { scope, pages })
}

pub(super) async fn summarize(
    operators: &Operators,
    query: Query,
) -> Result<proto::SummarizeEntriesResponse, Rejection> {
    let full = if let CountScope::ConsumerPage(_, size) = &query.scope { Some(*size) } else { None };
    let (names, summary) = operators.count(query.scope, SUMMARY_MAX).await?;
    let last = names.last().filter(|_| full == Some(names.len()));
    let next_page_token = last.map_or_else(String::new, |last| query.pages.token(last.as_bytes()));
    let policies = operators.policies_here();
    let mut consumers = Vec::with_capacity(names.len());
    for name in names {
        let policy = policies.of(Namespace::stored(&name).consumer());
        let inbox = inbox(operators, &name, policy.inbox, full.is_none()).await;
        consumers.push(proto::ConsumerSummary { inbox, ..consumer(&summary, &name, &policy) });
    }
    Ok(proto::SummarizeEntriesResponse {
        consumers,
        as_of: Some(words::shown(summary.reading.now)),
        next_page_token,
    })
}

/// The stored messages of a namespace. `named`: the request names the consumer.
async fn inbox(
    operators: &Operators,
    name: &str,
    has_inbox: bool,
    named: bool,
) -> Option<proto::InboxSummary> {
    let namespace = Namespace::stored(name);
    if !namespace.replay_run().is_empty() || !(has_inbox || named) {
        return None;
    }
    // A count that fails must not take the states of all consumers with it.
    let backlog = operators.backlog(namespace.consumer(), SUMMARY_MAX + 1).await.ok()?;
    let (due, later) = (backlog.counts.due, backlog.counts.later);
    (has_inbox || due + later > 0).then(|| counted(due, later, backlog.oldest))
}

/// The summary of these counts. Each count is read up to `SUMMARY_MAX + 1`: one above `SUMMARY_MAX` is shown as `SUMMARY_MAX`, and
/// sets `at_least`.
fn counted(due: i64, later: i64, oldest: Option<Span>) -> proto::InboxSummary {
    proto::InboxSummary {
        due: due.min(SUMMARY_MAX),
        oldest_due_age: oldest.map(words::duration),
        later: later.min(SUMMARY_MAX),
        at_least: due.max(later) > SUMMARY_MAX,
    }
}

fn consumer(summary: &Summary, name: &str, policy: &Policy) -> proto::ConsumerSummary {
    let namespace = Namespace::stored(name);
    let now = summary.reading.now;
    let counts = summary.counts.iter().filter(|count| count.consumer == name);
    let expired = summary.expired.iter().find(|expired| expired.consumer == name);
    let doubled = summary.doubled.iter().find(|(consumer, _)| *consumer == name);
    proto::ConsumerSummary {
        states: states(summary, name),
        expired: expired.map_or(0, |expired| expired.count),
        longest_expired: expired.map(|expired| words::age(now, expired.since)),
        near_exhaustion: counts.map(|count| count.near_exhaustion).sum(),
        disabled: policy.disabled,
        held_by: policy.held_by.as_deref().map(str::to_owned),
        consumer: namespace.consumer().to_owned(),
        replay_run: namespace.replay_run().to_owned(),
        doubled: doubled.map_or(0, |(_, count)| *count),
        inbox: None,
    }
}

/// The number of a namespace's entries in each state.
pub(super) fn states(summary: &Summary, name: &str) -> Vec<proto::StateSummary> {
    let now = summary.reading.now;
    let counts = summary.counts.iter().filter(|count| count.consumer == name);
    let mut states: Vec<proto::StateSummary> = counts
        .map(|count| proto::StateSummary {
            state: words::state(count.state).into(),
            cause: words::cause(count.state).into(),
            count: count.count,
            estimated: false,
            oldest_age: count.oldest.map(|oldest| words::age(now, oldest)),
            at_least: count.at_least,
        })
        .collect();
    let completed = summary.completed.iter().find(|(consumer, _)| *consumer == name);
    let completed = completed.map_or(0, |(_, count)| *count);
    // A sample without completed entries does not mean that none exist.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_of_a_run_without_its_consumer_is_refused() {
        for (consumer, replay_run, is_wrong) in
            [("", "", false), ("c", "", false), ("c", "rebuild-1", false), ("", "rebuild-1", true)]
        {
            let request = proto::SummarizeEntriesRequest {
                consumer: consumer.into(),
                replay_run: replay_run.into(),
                ..Default::default()
            };
            let refused = query(&request, &Limits::default()).err();
            let fields = refused.map(|refused| refused.violations.into_iter().map(|one| one.field).collect());
            assert_eq!(
                fields,
                is_wrong.then(|| vec!["replay_run".to_owned()]),
                "{consumer:?} {replay_run:?}"
            );
        }
    }

    #[test]
    fn inbox_counts_above_the_maximum_set_at_least() {
        for (due, later, shown) in [
            (0, 0, (0, 0, false)),
            (SUMMARY_MAX, SUMMARY_MAX, (SUMMARY_MAX, SUMMARY_MAX, false)),
            (SUMMARY_MAX + 1, 7, (SUMMARY_MAX, 7, true)),
            (7, SUMMARY_MAX + 1, (7, SUMMARY_MAX, true)),
        ] {
            let counts = counted(due, later, None);
            assert_eq!((counts.due, counts.later, counts.at_least), shown, "{due} due, {later} later");
        }
    }
}

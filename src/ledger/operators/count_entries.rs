//! Counts the entries for the metrics, once a period: by the same summary that operators ask for, and in turn with their
//! reads.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::handle::Operators;
use super::read::CountScope;
use crate::domain::{NameCounts, Namespace, Rejection, Span, State, StoreTime, Summary};
use crate::ledger::runtime::{Instant, sleep};
use crate::metrics::{Counted, CountedInbox, Metrics};

/// Delay of the first count after the start, when a server has more important work.
const FIRST: Duration = Duration::from_secs(2);
/// Pause after a count, as a multiple of the time that it took.
const REST_FACTOR: u32 = 10;
/// After this many failures in a row the old figures are removed: they are not true any more.
const FAILURES_MAX: u32 = 3;
/// Up to this many entries of each state of a consumer the counts are exact: with more open ones a count would keep a Postgres
/// backend busy for longer than a second.
const COUNTED_MAX: i64 = 1_000_000;
/// Number of consumers that one read counts.
const PAGE: usize = 100;
/// Number of pages: further consumers are not counted.
const PAGES_MAX: usize = 100;

pub(crate) async fn run(operators: Operators, metrics: Metrics, every: Duration, stop: CancellationToken) {
    let (mut rest, mut failures) = (FIRST.min(every), 0);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(rest) => {}
        }
        let began = Instant::now();
        let counted = count(&operators).await;
        let policies = operators.policies_here();
        failures = show(&metrics, counted, failures, &|name| policies.registered(name));
        let took = began.elapsed();
        metrics.entries_took(took);
        rest = every.saturating_sub(took).max(took * REST_FACTOR);
    }
}

/// Shows what was counted, after this number of failures in a row. Returns that number as it is now.
fn show(
    metrics: &Metrics,
    counted: Result<AllCounted, Rejection>,
    failures: u32,
    has_policy: &dyn Fn(&str) -> bool,
) -> u32 {
    match counted {
        Ok((counted, at, stored)) => {
            metrics.names_counted(&stored);
            metrics.entries_counted(counted, at.micros() / 1_000_000, has_policy);
            0
        }
        Err(rejection) => {
            let failures = failures.saturating_add(1);
            tracing::warn!(reason = %rejection.reason, failures, "the entries could not be counted");
            if failures == FAILURES_MAX {
                metrics.entries_counted(BTreeMap::new(), 0, has_policy);
            }
            failures
        }
    }
}

/// The counts, the store's clock, and the number of names.
type AllCounted = (BTreeMap<String, Counted>, StoreTime, NameCounts);

async fn count(operators: &Operators) -> Result<AllCounted, Rejection> {
    let (mut counted, mut after) = (BTreeMap::new(), String::new());
    let (mut at, mut stored) = (StoreTime(0), NameCounts::default());
    let policies = operators.policies_here();
    for _ in 0..PAGES_MAX {
        let page = CountScope::ConsumerPage(after.clone(), PAGE);
        let (names, summary) = operators.count(page, COUNTED_MAX).await?;
        (at, stored) = (summary.reading.now, summary.names);
        // Entries of replay runs are not live ones, whose ages are watched.
        let live: Vec<String> =
            names.iter().filter(|name| Namespace::stored(name).replay_run().is_empty()).cloned().collect();
        add(&mut counted, &live, &summary);
        let Some(last) = next_after(names) else { break };
        after = last;
    }
    for (consumer, one) in counted.iter_mut().filter(|(consumer, _)| policies.of(consumer).inbox) {
        let backlog = operators.backlog(consumer, COUNTED_MAX).await?;
        let (due, later) = (backlog.counts.due, backlog.counts.later);
        one.inbox =
            Some(CountedInbox { due, later, oldest: backlog.oldest.map_or(0, Span::micros) / 1_000_000 });
    }
    Ok((counted, at, stored))
}

/// The name after which the next page begins; `None` if this page is the last one. Names of replay runs count: they fill a page, too.
fn next_after(mut names: Vec<String>) -> Option<String> {
    if names.len() < PAGE {
        return None;
    }
    names.pop()
}

fn add(all: &mut BTreeMap<String, Counted>, names: &[String], summary: &Summary) {
    let now = summary.reading.now;
    let age = |since: StoreTime| ((now - since).micros() / 1_000_000).max(0);
    for name in names {
        all.entry(name.clone()).or_default();
    }
    for count in &summary.counts {
        let Some(one) = all.get_mut(&count.consumer) else { continue };
        let (state, kind) = match count.state {
            State::Received => (0, Some(0)),
            State::InProgress => (1, Some(1)),
            State::FailedRetryable => (2, Some(0)),
            State::Completed => (3, None),
            State::FailedTerminal => (4, None),
            State::Parked(_) => (5, Some(3)),
        };
        // Parked entries are listed by their causes.
        one.states[state] += count.count;
        if let Some(kind) = kind {
            one.oldest[kind] = one.oldest[kind].max(count.oldest.map_or(0, age));
        }
        one.near_exhaustion += count.near_exhaustion;
    }
    for (consumer, count) in &summary.completed {
        if let Some(one) = all.get_mut(consumer) {
            one.states[3] = *count;
        }
    }
    for expired in &summary.expired {
        if let Some(one) = all.get_mut(&expired.consumer) {
            one.expired = expired.count;
            one.oldest[2] = age(expired.since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Reason;

    #[test]
    fn counts_are_removed_after_three_failures_in_a_row() {
        let metrics = Metrics::new().unwrap();
        let mut failures = 0;
        // Whether a count succeeds, and whether the counts are shown afterwards.
        for (number, (succeeds, is_shown)) in [
            (true, true),
            (false, true),
            (false, true),
            (true, true),
            (false, true),
            (true, true),
            (false, true),
            (false, true),
            (false, false),
            (false, false),
            (true, true),
            (false, true),
            (false, true),
            (false, false),
        ]
        .into_iter()
        .enumerate()
        {
            let counts =
                || (BTreeMap::from([("c".into(), Counted::default())]), StoreTime(1), NameCounts::default());
            let counted =
                if succeeds { Ok(counts()) } else { Err(Rejection::new(Reason::StoreUnavailable, "no")) };
            failures = show(&metrics, counted, failures, &|_| true);
            let text = metrics.text().unwrap();
            assert_eq!(
                text.contains("idempotency_ledger_entries{consumer=\"c\""),
                is_shown,
                "count {number}: {text}"
            );
        }
    }

    #[test]
    fn next_page_follows_full_page_also_of_replay_runs() {
        for (consumers, runs, is_full) in
            [(PAGE, 0, true), (PAGE - 1, 1, true), (0, PAGE, true), (PAGE - 2, 1, false)]
        {
            let live = (0..consumers).map(|number| format!("a{number:03}"));
            let runs =
                (0..runs).map(|number| Namespace::new("b", &format!("run {number:03}")).name().to_owned());
            let names: Vec<String> = live.chain(runs).collect();
            let last = names.last().cloned();
            assert_eq!(next_after(names), last.filter(|_| is_full), "{consumers} consumers");
        }
    }
}

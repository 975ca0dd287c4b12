//! What lists, summaries and metrics show, next to what the rows mean.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use idempotency_ledger::domain::Entry;
use idempotency_ledger::proto::{self, EntryOrder, EntryState};

use super::expected::{Counts, Kind, Rows, STATES, counts, fits, micros};
use super::filters::{self, FILTERS};
use super::walk::{NAMESPACES, Walk, max_attempts};
use crate::proof::steps::pick;

const COUNTED_AT: &str = "idempotency_ledger_entries_counted_timestamp_seconds";
/// How long a count for the metrics may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn of<'r>(rows: &'r Rows, consumer: &'r str, run: &'r str) -> impl Iterator<Item = &'r Entry> {
    rows.entries.iter().filter(move |entry| entry.key.consumer() == consumer && entry.key.replay_run() == run)
}

/// Lists by filters: the namespace as a whole, and then parts of it.
pub(super) async fn lists(walk: &mut Walk, rows: &Rows) -> Result<(), String> {
    for number in 0..FILTERS {
        let filter = filters::numbered(walk, number);
        let newest_first = walk.random.percent(50);
        let page_size = *pick(&mut walk.random, &[1, 2, 3, 100]);
        let order = if newest_first { EntryOrder::NewestFirst } else { EntryOrder::OldestFirst };
        let mut request = proto::ListEntriesRequest {
            filter: Some(filter.clone()),
            order: order.into(),
            page_size,
            page_token: String::new(),
        };
        let what = format!("{request:?}");
        let mut found = Vec::new();
        loop {
            let page = walk.server.admin.list_entries(request.clone()).await;
            let page = page.map_err(|status| format!("{what}: {status:?}"))?.into_inner();
            found.extend(page.entries);
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
        let now = walk.server.at.now();
        let mut expected: Vec<_> = rows
            .entries
            .iter()
            .filter(|entry| fits(entry, &filter, now))
            .map(|entry| (entry.key.source().to_owned(), entry.key.id().to_owned()))
            .collect();
        let created = |entry: &proto::Entry| entry.created_at.map(|at| (at.seconds, at.nanos));
        let in_order = found.is_sorted_by(|one, next| {
            if newest_first { created(one) >= created(next) } else { created(one) <= created(next) }
        });
        let mut names: Vec<_> =
            found.into_iter().map(|entry| entry.key.unwrap()).map(|key| (key.source, key.id)).collect();
        names.sort_unstable();
        expected.sort_unstable();
        if names != expected || !in_order {
            return Err(format!(
                "{what}: shows {names:?}, in order: {in_order}; the store holds {expected:?}"
            ));
        }
    }
    Ok(())
}

fn kinds(states: &[proto::StateSummary]) -> Result<BTreeMap<Kind, (i64, Option<i64>)>, String> {
    let mut all = BTreeMap::new();
    for one in states {
        if one.estimated || one.at_least {
            return Err(format!("it is small enough to be counted exactly: {one:?}"));
        }
        // Completed ones are counted, and there may be none.
        if one.count > 0 {
            let age = one.oldest_age.map(micros);
            all.insert((one.state, one.cause), (one.count, age));
        }
    }
    Ok(all)
}

/// The summary of all namespaces, on pages, and of each; and the list of runs.
pub(super) async fn summaries(walk: &Walk, rows: &Rows) -> Result<(), String> {
    let (mut admin, now) = (walk.server.admin.clone(), walk.server.at.now());
    let mut all = BTreeMap::new();
    let mut request = proto::SummarizeEntriesRequest { page_size: 2, ..Default::default() };
    loop {
        let page = admin.summarize_entries(request.clone()).await.unwrap().into_inner();
        for one in page.consumers {
            let counts = Counts {
                kinds: kinds(&one.states)?,
                expired: one.expired,
                longest_expired: one.longest_expired.map(micros),
                near_exhaustion: one.near_exhaustion,
                doubled: one.doubled,
                inbox: one
                    .inbox
                    .map_or((0, 0, None), |inbox| (inbox.due, inbox.later, inbox.oldest_due_age.map(micros))),
            };
            if all.insert((one.consumer.clone(), one.replay_run.clone()), counts).is_some() {
                return Err(format!("a summary shows {} {} twice", one.consumer, one.replay_run));
            }
        }
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    for (consumer, run) in NAMESPACES {
        let expected = counts(of(rows, consumer, run), max_attempts(consumer), now);
        let shown = all.remove(&(consumer.to_owned(), run.to_owned())).unwrap_or_default();
        if shown != expected {
            return Err(format!("the summary of {consumer} {run}: {shown:?}; the store holds {expected:?}"));
        }
    }
    if let Some(other) = all.keys().next() {
        return Err(format!("a summary of {other:?}"));
    }
    let request = proto::ListReplayRunsRequest { consumer: "c".into(), ..Default::default() };
    let runs = admin.list_replay_runs(request).await.unwrap().into_inner().runs;
    let shown = kinds(&runs[0].states)?;
    let expected = counts(of(rows, "c", "r"), max_attempts("c"), now).kinds;
    if shown != expected {
        return Err(format!("the run: {shown:?}; the store holds {expected:?}"));
    }
    Ok(())
}

/// The metrics of live entries and of their messages, once they are those of now.
pub(super) async fn metrics(walk: &Walk, rows: &Rows) -> Result<(), String> {
    let (now, since) = (walk.server.at.now(), Instant::now());
    let second = now.micros().div_euclid(1_000_000) as f64;
    while walk.server.metric(COUNTED_AT) != Some(second) {
        if since.elapsed() > PATIENCE {
            return Err(format!("the metrics are of {:?}, not of {second}", walk.server.metric(COUNTED_AT)));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for consumer in ["c", "d"] {
        let expected = counts(of(rows, consumer, ""), max_attempts(consumer), now);
        let states = STATES.map(|state| {
            let name = EntryState::try_from(state).unwrap().as_str_name().trim_start_matches("ENTRY_STATE_");
            let series =
                format!("entries{{consumer=\"{consumer}\",state=\"{}\"}}", name.to_ascii_lowercase());
            (series, expected.of_state(state))
        });
        let oldest = |kind: &str, age: i64| {
            (format!("entries_oldest_seconds{{consumer=\"{consumer}\",kind=\"{kind}\"}}"), age)
        };
        let messages = |kind: &str, count: i64| {
            (format!("inbox_messages{{consumer=\"{consumer}\",kind=\"{kind}\"}}"), count)
        };
        let claimable = [EntryState::Received, EntryState::FailedRetryable];
        let others = [
            (format!("entries_expired{{consumer=\"{consumer}\"}}"), expected.expired),
            (format!("entries_near_exhaustion{{consumer=\"{consumer}\"}}"), expected.near_exhaustion),
            oldest("claimable", expected.oldest(&claimable)),
            oldest("in_progress", expected.oldest(&[EntryState::InProgress])),
            oldest("parked", expected.oldest(&[EntryState::Parked])),
            oldest("expired", expected.longest_expired.unwrap_or_default() / 1_000_000),
            messages("due", expected.inbox.0),
            messages("later", expected.inbox.1),
            (
                format!("inbox_oldest_due_seconds{{consumer=\"{consumer}\"}}"),
                expected.inbox.2.unwrap_or_default() / 1_000_000,
            ),
        ];
        for (series, count) in states.chain(others) {
            // A consumer without entries has no series.
            let shown = walk.server.metric(&format!("idempotency_ledger_{series}")).unwrap_or_default();
            if shown != count as f64 {
                return Err(format!("{series} is {shown}; the store holds {count}"));
            }
        }
    }
    Ok(())
}

//! How long a consumer's handler takes, from a sample of its newest completed entries.

use std::collections::BTreeSet;
use std::time::Duration;

use prost_types::Timestamp;

use crate::cli::client::{Admin, Client};
use crate::cli::problem::Problem;
use crate::proto;

const SAMPLE: usize = 200;
/// A filter may leave pages empty: this many are read.
const PAGES_MAX: usize = 10;

/// The durations, as figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    pub(super) sample: usize,
    pub(super) p99: Duration,
    pub(super) max: Duration,
    /// The number of different sources in the sample.
    pub(super) sources: usize,
}

/// Samples a consumer's newest completed entries; `None` if it has no such entries.
pub(super) async fn look(
    client: &Client,
    admin: &mut Admin,
    consumer: &str,
) -> Result<Option<Observed>, Problem> {
    let mut request = proto::ListEntriesRequest {
        filter: Some(proto::EntryFilter {
            consumer: consumer.to_owned(),
            states: vec![proto::EntryState::Completed.into()],
            ..proto::EntryFilter::default()
        }),
        order: proto::EntryOrder::NewestFirst.into(),
        page_size: i32::try_from(SAMPLE).unwrap_or(i32::MAX),
        page_token: String::new(),
    };
    let (mut took, mut sources) = (Vec::new(), BTreeSet::new());
    for _ in 0..PAGES_MAX {
        let page = admin.list_entries(client.request(request.clone())).await;
        let page = page.map_err(|status| Problem::of(&status))?.into_inner();
        let timed = |entry: &proto::Entry| Some((duration(entry)?, entry.key.as_ref()?.source.clone()));
        for (duration, source) in page.entries.iter().filter_map(timed) {
            took.push(duration);
            sources.insert(source);
        }
        if took.len() >= SAMPLE || page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    Ok(figures(took, sources.len()))
}

/// The time from the grant to the close by its holder; `None` for entries that operators resolved or
/// imported.
fn duration(entry: &proto::Entry) -> Option<Duration> {
    if entry.closed_by() != proto::ClosedBy::Complete {
        return None;
    }
    let millis = |at: &Timestamp| at.seconds * 1_000 + i64::from(at.nanos) / 1_000_000;
    let took = millis(entry.closed_at.as_ref()?) - millis(entry.granted_at.as_ref()?);
    u64::try_from(took).ok().map(Duration::from_millis)
}

fn figures(mut took: Vec<Duration>, sources: usize) -> Option<Observed> {
    took.sort_unstable();
    let sample = took.len();
    let rank = (sample * 99).div_ceil(100).max(1) - 1;
    Some(Observed { sample, p99: *took.get(rank)?, max: *took.last()?, sources })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_the_sample() {
        assert_eq!(figures(Vec::new(), 0), None);
        let found = figures((1..=200).rev().map(Duration::from_secs).collect(), 3).unwrap();
        let (p99, max) = (Duration::from_secs(198), Duration::from_secs(200));
        assert_eq!(found, Observed { sample: 200, p99, max, sources: 3 });
    }

    #[test]
    fn only_a_close_by_its_holder_has_a_duration() {
        let at = |seconds, nanos| Some(Timestamp { seconds, nanos });
        let completed = proto::Entry {
            closed_by: proto::ClosedBy::Complete.into(),
            granted_at: at(10, 500_000_000),
            closed_at: at(12, 0),
            ..proto::Entry::default()
        };
        let operator = proto::ClosedBy::Operator.into();
        for (entry, took) in [
            (completed.clone(), Some(Duration::from_millis(1_500))),
            (proto::Entry { closed_by: operator, ..completed.clone() }, None),
            (proto::Entry { granted_at: None, ..completed.clone() }, None),
            (proto::Entry { closed_at: at(9, 0), ..completed }, None),
        ] {
            assert_eq!(duration(&entry), took, "{entry:?}");
        }
    }
}

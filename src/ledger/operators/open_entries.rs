//! Reads of the open entries of all consumers, through the index of open entries: a list of them, and their number by error. Each
//! reads a bounded number of consumers and of entries.

use std::collections::{BTreeMap, VecDeque};

use super::read::Ages;
use super::retry::JobResult;
use crate::domain::{EntryFilter, KeyHash, ListedRow, Listing, Namespace, OpenRange, Reading, StoreTime};
use crate::store::{Session, StoreError};

/// Number of names that one statement looks at. Each is a probe of an index, of some pages: 100 names touch at most 2,000
/// (`tests/it/proof/rows/bounded.rs`).
const NAMES: usize = 100;
/// Number of such statements for one page: a ledger of many consumers without open entries ends the page early.
const ROUNDS_MAX: usize = 10;
/// Number of consumers whose entries one page lists, each by one statement.
const LISTED_MAX: usize = 20;
/// Number of entries that are read to be grouped.
const GROUPED_MAX: usize = 10_000;
/// Number of consumers whose entries are grouped.
const GROUPED_CONSUMERS_MAX: usize = 100;
/// Number of entries that one statement reads to group them; each may be in another page of the table.
const PART_MAX: usize = 1_000;
/// With many ranges each gets at least this many entries.
const PART_MIN: usize = 100;

/// A position in the list of all consumers: after the entries of a consumer, or within them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenPosition {
    /// The name of the consumer; empty at the start.
    pub consumer: String,
    /// The position within its entries; `None` if they are listed to the end.
    pub after: Option<(StoreTime, KeyHash)>,
}

/// A page of the list of all consumers.
#[derive(Debug)]
pub struct OpenPage {
    /// The filter as it was carried out: with instants in place of ages.
    pub filter: EntryFilter,
    /// The rows, each part with the reading of the store's clock at which it was listed.
    pub rows: Vec<(Reading, ListedRow)>,
    /// The position from which to continue; `None` if this is the last page.
    pub next: Option<OpenPosition>,
}

pub(super) async fn list(
    session: &mut dyn Session,
    asked: &Listing,
    from: &OpenPosition,
    ages: Ages,
) -> JobResult<OpenPage> {
    let mut filter = asked.filter.clone();
    ages.fixed(session, &mut filter).await?;
    let mut page = OpenPage { filter, rows: Vec::new(), next: None };
    let mut at = from.clone();
    if at.after.is_some() && fill(session, asked, &mut page, &mut at).await? {
        return Ok(Ok(page));
    }
    let mut listed = 0;
    for _ in 0..ROUNDS_MAX {
        let EntryFilter { states, doubled, .. } = &page.filter;
        let found = session.operators().open_consumers(&at.consumer, states, *doubled, NAMES).await?;
        for name in found.open.into_iter().filter(|name| is_live(name)) {
            if listed == LISTED_MAX {
                page.next = Some(at);
                return Ok(Ok(page));
            }
            listed += 1;
            at = OpenPosition { consumer: name, after: None };
            if fill(session, asked, &mut page, &mut at).await? {
                return Ok(Ok(page));
            }
        }
        let Some(last) = found.last else { return Ok(Ok(page)) };
        at = OpenPosition { consumer: last, after: None };
    }
    page.next = Some(at);
    Ok(Ok(page))
}

/// Lists the entries of the consumer at a position; returns whether the page ends there.
async fn fill(
    session: &mut dyn Session,
    asked: &Listing,
    page: &mut OpenPage,
    at: &mut OpenPosition,
) -> Result<bool, StoreError> {
    let listing = Listing {
        filter: EntryFilter { consumer: at.consumer.clone(), ..page.filter.clone() },
        after: at.after.take(),
        limit: asked.limit - page.rows.len(),
        newest_first: asked.newest_first,
    };
    let listed = session.operators().list(&listing).await?;
    page.rows.extend(listed.rows.into_iter().map(|row| (listed.reading, row)));
    at.after = listed.next;
    let ends = at.after.is_some() || page.rows.len() >= asked.limit;
    if ends {
        page.next = Some(at.clone());
    }
    Ok(ends)
}

/// Whether the namespace is a consumer's own, not that of a replay run.
fn is_live(name: &str) -> bool {
    Namespace::stored(name).replay_run().is_empty()
}

/// Entries of one consumer that are in the same state, for the same cause, with the same error.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    /// The consumer.
    pub consumer: String,
    /// The number of the state.
    pub state: i16,
    /// The number of the cause; 0 where the state is not PARKED.
    pub cause: i16,
    /// The first line of the error.
    pub error: String,
}

/// The number of entries of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupCount {
    /// The number of entries.
    pub count: i64,
    /// When the oldest of them was created.
    pub oldest: StoreTime,
}

/// The groups of the entries that were read.
#[derive(Debug)]
pub struct EntryGroups {
    /// The reading of the store's clock.
    pub reading: Reading,
    /// The groups, those with the most entries first.
    pub groups: Vec<(GroupKey, GroupCount)>,
    /// Number of entries that were read.
    pub looked_at: usize,
    /// Whether there are more entries than were read.
    pub is_sample: bool,
}

pub(super) async fn group(
    session: &mut dyn Session,
    filter: &EntryFilter,
    ages: Ages,
) -> JobResult<EntryGroups> {
    let mut filter = filter.clone();
    ages.fixed(session, &mut filter).await?;
    let mut reading = session.entries().load(&[]).await?.reading;
    let (namespaces, mut is_sample) = namespaces(session, &filter).await?;
    let mut ranges: VecDeque<OpenRange> = namespaces
        .iter()
        .flat_map(|namespace| filter.states.iter().map(|state| (namespace.clone(), *state)))
        .map(|(namespace, state)| OpenRange { namespace, state, before: None, limit: 0 })
        .collect();
    // Every range gets its turn before a long one goes on.
    let part = (GROUPED_MAX / ranges.len().max(1)).clamp(PART_MIN, PART_MAX);
    let (mut groups, mut looked_at) = (BTreeMap::<GroupKey, GroupCount>::new(), 0);
    while let Some(mut range) = ranges.pop_front() {
        let left = GROUPED_MAX - looked_at;
        range.limit = part.min(left).max(1);
        let (now, rows) = session.operators().open_rows(&range, &filter).await?;
        reading = now;
        if left == 0 {
            is_sample |= !rows.is_empty();
            if is_sample {
                break;
            }
            continue;
        }
        looked_at += rows.len();
        range.before = rows.last().map(|row| row.place);
        let is_full = rows.len() == range.limit;
        for row in rows.into_iter().filter(|row| row.fits) {
            let consumer = Namespace::stored(&range.namespace).consumer().to_owned();
            let key = GroupKey { consumer, state: range.state, cause: row.cause, error: row.error };
            let created = row.place.0;
            let group = groups.entry(key).or_insert(GroupCount { count: 0, oldest: created });
            group.count += 1;
            group.oldest = group.oldest.min(created);
        }
        if is_full {
            ranges.push_back(range);
        }
    }
    let mut groups: Vec<(GroupKey, GroupCount)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
    Ok(Ok(EntryGroups { reading, groups, looked_at, is_sample }))
}

/// The namespaces whose entries are grouped, and whether there are more.
async fn namespaces(
    session: &mut dyn Session,
    filter: &EntryFilter,
) -> Result<(Vec<String>, bool), StoreError> {
    if !filter.consumer.is_empty() {
        return Ok((vec![filter.namespace().name().to_owned()], false));
    }
    let (mut all, mut after) = (Vec::new(), String::new());
    for _ in 0..ROUNDS_MAX {
        let found = session.operators().open_consumers(&after, &filter.states, filter.doubled, NAMES).await?;
        all.extend(found.open.into_iter().filter(|name| is_live(name)));
        if all.len() > GROUPED_CONSUMERS_MAX {
            all.truncate(GROUPED_CONSUMERS_MAX);
            return Ok((all, true));
        }
        let Some(last) = found.last else { return Ok((all, false)) };
        after = last;
    }
    Ok((all, true))
}

//! What `GroupEntries` shows, next to what the rows mean.

use std::collections::BTreeMap;

use idempotency_ledger::domain::{Entry, Span, State, StoreTime};
use idempotency_ledger::proto::{EntryFilter, EntryState, GroupEntriesRequest};

use super::expected::{Rows, age, fits, kind, micros};
use super::filters::{drawn, whole};
use super::walk::{NAMESPACES, Walk};

/// The number of claims that are added to the index of open claims by one statement.
const INDEXED: usize = 1_000;
/// The length of the line of an error by which entries are grouped.
const ERROR_CHARS: usize = 200;
/// Claims that were first granted within this time may be left out.
const LEFT_OUT: Span = Span::from_secs(60);

/// The consumer, the state, the cause, and the first line of the error.
type Group = (String, i32, i32, String);
/// The number of entries, and the age of the oldest one in microseconds.
type Count = (i64, i64);
const EMPTY: Count = (0, i64::MIN);

fn grouped<'e>(entries: impl Iterator<Item = &'e Entry>, now: StoreTime) -> BTreeMap<Group, Count> {
    let mut all = BTreeMap::new();
    for entry in entries {
        let (state, cause) = kind(entry);
        let line = entry.last_error.split('\n').next().unwrap_or_default();
        let error: String = line.chars().take(ERROR_CHARS).collect();
        let one = all.entry((entry.key.consumer().to_owned(), state, cause, error)).or_insert(EMPTY);
        *one = (one.0 + 1, one.1.max(age(now, entry.created_at)));
    }
    all
}

/// The groups of all consumers, and those of the namespace that was changed, as a whole and by a random filter. `indexed` says
/// whether all claims are added to the index of open claims before, so that no claim may be left out but those of the last minute.
pub(super) async fn groups(walk: &mut Walk, rows: &Rows, indexed: bool) -> Result<(), String> {
    let namespace = NAMESPACES[walk.last];
    let mut part = drawn(&mut walk.random, namespace);
    part.states.retain(|state| *state != i32::from(EntryState::Completed));
    part.doubled = false;
    while indexed && walk.index_open_claims(INDEXED).await > 0 {}
    for filter in [EntryFilter::default(), whole(namespace), part] {
        compared(walk, rows, filter, indexed).await?;
    }
    Ok(())
}

async fn compared(walk: &Walk, rows: &Rows, filter: EntryFilter, indexed: bool) -> Result<(), String> {
    let now = walk.server.at.now();
    // In SQLite each claim is in the index from its beginning.
    let in_index = |entry: &Entry| {
        let is_old = indexed && entry.created_at + LEFT_OUT <= now;
        is_old || entry.state != State::InProgress || walk.server.at.database.is_none()
    };
    let open: Vec<&Entry> =
        rows.entries.iter().filter(|one| one.state != State::Completed && fits(one, &filter, now)).collect();
    let most = grouped(open.iter().copied(), now);
    let least = grouped(open.iter().copied().filter(|entry| in_index(entry)), now);

    let request = GroupEntriesRequest { filter: Some(filter), maximum: 0 };
    let what = format!("{request:?}");
    let answer = walk.server.admin.clone().group_entries(request).await;
    let answer = answer.map_err(|status| format!("{what}: {status:?}"))?.into_inner();
    let in_order = answer.groups.is_sorted_by(|one, next| one.count >= next.count);
    let is_whole = !answer.is_sample && answer.more_groups == 0;
    let mut shown = BTreeMap::new();
    for one in answer.groups {
        let count = (one.count, one.oldest_age.map_or(i64::MIN, micros));
        shown.insert((one.consumer, one.state, one.cause, one.error), count);
    }
    let of = |groups: &BTreeMap<Group, Count>, group: &Group| groups.get(group).copied().unwrap_or(EMPTY);
    let is_between = |group: &Group| {
        let (least, shown, most) = (of(&least, group), of(&shown, group), of(&most, group));
        (least.0..=most.0).contains(&shown.0) && (least.1..=most.1).contains(&shown.1)
    };
    if !in_order || !is_whole || !most.keys().chain(shown.keys()).all(is_between) {
        return Err(format!(
            "{what}: shows {shown:?}, in order: {in_order}, as a whole: {is_whole}; the store holds {least:?} to {most:?}"
        ));
    }
    Ok(())
}

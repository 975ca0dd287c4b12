//! Filters and pages of entries, as messages.

use prost::Message as _;
use uuid::Uuid;

use super::page_token::{self, Pages};
use crate::domain::{EntryFilter, KeyHash, ListedRow, Listing, Reading, Rejection, Span, StoreTime};
use crate::ledger::{Ages, OpenPosition, Operators, Sought};
use crate::proto;
use crate::wire::entry;
use crate::wire::errors;
use crate::wire::fields::{FieldChecks, Limits};
use crate::wire::words;

const PAGE_DEFAULT: usize = 100;
const PAGE_MAX: usize = 1_000;
/// A page ends beyond this many bytes: with the longest entry added, it is below what clients accept.
pub(super) const PAGE_BYTES: usize = 3 << 20;
/// The longest text that a filter looks for in errors, in bytes.
const ERROR_TEXT_MAX: usize = 256;
/// The states of the index of open entries: all but COMPLETED.
pub(super) const OPEN: [i16; 5] = [
    proto::EntryState::Received as i16,
    proto::EntryState::InProgress as i16,
    proto::EntryState::FailedRetryable as i16,
    proto::EntryState::FailedTerminal as i16,
    proto::EntryState::Parked as i16,
];
/// The longest age that a filter may name.
const AGE_MAX: Span = Span::from_days(10_000);

/// Which entry `GetEntry` asks for: by its key or by the hash of its key.
pub(super) fn sought(request: &proto::GetEntryRequest, limits: &Limits) -> Result<Sought, Rejection> {
    let mut fields = FieldChecks::new(limits);
    let sought = match (&request.key, request.key_hash.as_str()) {
        (key, "") => fields.key(key.as_ref()).map(Sought::Key),
        (Some(_), _) => {
            fields.wrong("key_hash", "is set together with key: name the entry by one of them");
            None
        }
        (None, hash) => fields.key_hash("key_hash", hash).map(Sought::Hash),
    };
    // Where nothing is sought there is a violation.
    let sought = fields.finish(|| sought)?;
    sought.ok_or_else(|| errors::internal("a key is neither wrong nor right"))
}

/// Whose entries a filter may select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selects {
    /// Those of one consumer.
    One,
    /// Also those of all consumers, if the filter names none.
    OneOrAll,
}

/// The filter, and the ages that are converted to instants by the store's clock.
pub(super) fn filter(
    fields: &mut FieldChecks<'_>,
    asked: Option<&proto::EntryFilter>,
    limits: &Limits,
    selects: Selects,
) -> (EntryFilter, Ages) {
    let asked = asked.cloned().unwrap_or_default();
    let all = asked.consumer.is_empty() && selects == Selects::OneOrAll;
    if all {
        if !asked.replay_run.is_empty() {
            fields.wrong("filter.replay_run", "is set without a consumer: a run is one consumer's");
        }
    } else {
        fields.name("filter.consumer", &asked.consumer, limits.consumer);
    }
    fields.text("filter.owner", &asked.owner, limits.owner);
    fields.text("filter.error_contains", &asked.error_contains, ERROR_TEXT_MAX);
    fields.text("filter.source", &asked.source, limits.source);
    fields.text("filter.id_prefix", &asked.id_prefix, limits.id);
    let mut states = numbers(fields, "filter.states", &asked.states, 6, |number| {
        proto::EntryState::try_from(number).is_ok_and(|state| state != proto::EntryState::Unspecified)
    });
    let causes = numbers(fields, "filter.causes", &asked.causes, 5, |number| {
        proto::ParkCause::try_from(number).is_ok_and(|cause| cause != proto::ParkCause::Unspecified)
    });
    let by_text = !asked.owner.is_empty() || !asked.error_contains.is_empty();
    // Expired claims have only one state: the index of that state finds them.
    if states.is_empty() && asked.expired {
        states = vec![proto::EntryState::InProgress as i16];
    } else if states.is_empty() && (!causes.is_empty() || asked.parked_max_age.is_some()) {
        states = vec![proto::EntryState::Parked as i16];
    } else if states.is_empty() && (by_text || (all && !asked.doubled)) {
        states = OPEN.to_vec();
    }
    if states.contains(&(proto::EntryState::Completed as i16)) {
        if by_text || asked.parked_max_age.is_some() {
            let text = "names COMPLETED together with owner, error_contains or parked_max_age, which look at open entries alone";
            fields.wrong("filter.states", text);
        } else if all && !asked.doubled {
            fields.wrong("filter.states", "names COMPLETED without a consumer: name the consumer");
        }
    }
    fields.replay_run("filter.replay_run", &asked.replay_run);
    if proto::MessageState::try_from(asked.inbox).is_err() {
        fields.wrong("filter.inbox", format!("is {}, which this server does not know", asked.inbox));
    }
    let min = age(fields, "filter.min_age", asked.min_age.as_ref());
    let max = age(fields, "filter.max_age", asked.max_age.as_ref());
    let parked_max = age(fields, "filter.parked_max_age", asked.parked_max_age.as_ref());
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        fields.wrong("filter.min_age", "is longer than max_age: nothing can fit");
    }
    let filter = EntryFilter {
        source: (!asked.source.is_empty()).then_some(asked.source),
        id_prefix: asked.id_prefix,
        states,
        causes,
        expired: asked.expired,
        doubled: asked.doubled,
        replay_run: asked.replay_run,
        owner: asked.owner,
        error: asked.error_contains,
        message_state: i16::try_from(asked.inbox).ok().filter(|state| *state != 0),
        ..EntryFilter::of(&asked.consumer)
    };
    (filter, Ages { min, max, parked_max })
}

/// Sorted, without duplicates.
fn numbers(
    fields: &mut FieldChecks<'_>,
    field: &str,
    asked: &[i32],
    max: usize,
    known: impl Fn(i32) -> bool,
) -> Vec<i16> {
    if asked.len() > max {
        fields.wrong(field, format!("has {} values, must have at most {max}", asked.len()));
        return Vec::new();
    }
    for (at, number) in asked.iter().enumerate() {
        if !known(*number) {
            fields.wrong(&format!("{field}[{at}]"), format!("is {number}, which this server does not know"));
        }
    }
    let mut numbers: Vec<i16> = asked.iter().filter_map(|number| i16::try_from(*number).ok()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn age(fields: &mut FieldChecks<'_>, field: &str, asked: Option<&prost_types::Duration>) -> Option<Span> {
    let span = fields.span(field, asked?)?;
    if span > AGE_MAX {
        fields.wrong(field, "is longer than 10000 days, the longest allowed");
    }
    Some(span)
}

/// A `ListEntries` request.
pub(super) struct Query {
    listing: Listing,
    /// The consumer at which a list of all goes on; empty at its start.
    from: String,
    ages: Ages,
    pages: Pages,
}

impl Query {
    pub(super) fn of(request: &proto::ListEntriesRequest, limits: &Limits) -> Result<Query, Rejection> {
        let mut fields = FieldChecks::new(limits);
        let (mut filter, mut ages) = filter(&mut fields, request.filter.as_ref(), limits, Selects::OneOrAll);
        let newest_first = match proto::EntryOrder::try_from(request.order) {
            Ok(proto::EntryOrder::Unspecified | proto::EntryOrder::OldestFirst) => false,
            Ok(proto::EntryOrder::NewestFirst) => true,
            Err(_) => {
                fields.wrong("order", format!("is {}, which this server does not know", request.order));
                false
            }
        };
        let limit = fields.page_size(request.page_size, PAGE_DEFAULT, PAGE_MAX);
        let asked = proto::ListEntriesRequest { page_size: 0, page_token: String::new(), ..request.clone() };
        let pages = Pages::of("ListEntries", &asked);
        let place = pages.place(&mut fields, &request.page_token, ListPosition::read);
        let after = place.as_ref().and_then(|place| place.after);
        let mut from = String::new();
        if let Some(place) = place {
            (filter.created_from, filter.created_until) = (place.from, place.until);
            filter.parked_from = place.parked;
            from = place.consumer;
            ages = Ages::default();
        }
        fields.finish(|| Query { listing: Listing { filter, newest_first, after, limit }, from, ages, pages })
    }

    /// Whose entries are listed; empty for all consumers.
    pub(super) fn consumer(&self) -> &str {
        &self.listing.filter.consumer
    }

    pub(super) async fn run(self, operators: &Operators) -> Result<proto::ListEntriesResponse, Rejection> {
        if self.listing.filter.consumer.is_empty() {
            return self.run_all(operators).await;
        }
        let (listing, listed) = operators.list(self.listing, self.ages).await?;
        let rows = listed.rows.into_iter().map(|row| (listed.reading, row));
        let (mut page, ended) = shown(rows);
        let next = ended.map(|ended| ended.place).or(listed.next);
        page.looked_at_until = next.map(|after| words::timestamp(after.0));
        page.next_page_token = next.map_or(String::new(), |after| {
            self.pages.token(&ListPosition::of(&listing.filter, Some(after), String::new()).bytes())
        });
        Ok(page)
    }

    /// A page of all consumers.
    async fn run_all(self, operators: &Operators) -> Result<proto::ListEntriesResponse, Rejection> {
        let from = OpenPosition { consumer: self.from, after: self.listing.after };
        let open = operators.list_open(self.listing, from, self.ages).await?;
        let (mut page, ended) = shown(open.rows);
        let ended = ended.map(|ended| OpenPosition { consumer: ended.consumer, after: Some(ended.place) });
        page.next_page_token = ended.or(open.next).map_or(String::new(), |next| {
            self.pages.token(&ListPosition::of(&open.filter, next.after, next.consumer).bytes())
        });
        Ok(page)
    }
}

/// Where a page ended early: after the row with this consumer and this place.
struct PageEnd {
    consumer: String,
    place: (StoreTime, KeyHash),
}

/// Rows as a page of at most [`PAGE_BYTES`] and one entry; and where the page ended, if that left rows out.
fn shown(
    rows: impl IntoIterator<Item = (Reading, ListedRow)>,
) -> (proto::ListEntriesResponse, Option<PageEnd>) {
    let (mut page, mut bytes) = (proto::ListEntriesResponse::default(), 0);
    for (reading, row) in rows {
        let mut consumer = String::new();
        match row.entry {
            Ok(entry) => {
                consumer.push_str(entry.key.consumer());
                let entry = entry::entry(entry, &reading);
                bytes += entry.encoded_len();
                page.entries.push(entry);
            }
            Err(unreadable) => page.unreadable.push(proto::UnreadableEntry {
                key_hash: unreadable.key.to_string(),
                column: unreadable.column.to_owned(),
                created_at: Some(words::timestamp(row.place.0)),
            }),
        }
        // Only an entry makes the page longer, so the row that ends it has a consumer.
        if bytes >= PAGE_BYTES {
            return (page, Some(PageEnd { consumer, place: row.place }));
        }
    }
    (page, None)
}

/// Where a listing continues, and the instants that its first page has fixed.
struct ListPosition {
    /// `None` if the list goes on with the consumer after `consumer`.
    after: Option<(StoreTime, KeyHash)>,
    from: StoreTime,
    until: StoreTime,
    parked: Option<StoreTime>,
    /// The name of the consumer in the list of all; empty in that of one consumer.
    consumer: String,
}

/// An instant that no entry has: for a position or an instant that is not given.
const NEVER: i64 = i64::MIN;

impl ListPosition {
    fn of(filter: &EntryFilter, after: Option<(StoreTime, KeyHash)>, consumer: String) -> ListPosition {
        let (from, until, parked) = (filter.created_from, filter.created_until, filter.parked_from);
        ListPosition { after, from, until, parked, consumer }
    }

    /// What servers of earlier versions do not know follows what they know, and only where it is used.
    fn bytes(&self) -> Vec<u8> {
        let (at, key) = self.after.unwrap_or((StoreTime(NEVER), Uuid::nil()));
        let instants = [at, self.from, self.until].map(|instant| instant.micros().to_be_bytes());
        let mut bytes = [key.as_bytes(), instants.as_flattened()].concat();
        if self.parked.is_some() || !self.consumer.is_empty() {
            bytes.extend_from_slice(&self.parked.map_or(NEVER, StoreTime::micros).to_be_bytes());
            bytes.extend_from_slice(self.consumer.as_bytes());
        }
        bytes
    }

    fn read(place: &[u8]) -> Option<ListPosition> {
        let (key, rest) = place.split_first_chunk()?;
        let (at, rest) = rest.split_first_chunk()?;
        let (from, rest) = rest.split_first_chunk()?;
        let (until, rest) = rest.split_first_chunk()?;
        let (mut parked, mut consumer) = (NEVER, String::new());
        if !rest.is_empty() {
            let (instant, name) = rest.split_first_chunk()?;
            parked = i64::from_be_bytes(*instant);
            if !name.is_empty() {
                consumer = page_token::name(name)?;
            }
        }
        let given = |micros: i64| (micros != NEVER).then_some(StoreTime(micros));
        Some(ListPosition {
            after: given(i64::from_be_bytes(*at)).map(|at| (at, Uuid::from_bytes(*key))),
            from: StoreTime(i64::from_be_bytes(*from)),
            until: StoreTime(i64::from_be_bytes(*until)),
            parked: given(parked),
            consumer,
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::domain::{self, ClockLimits, Context, Entry, Import, Imported, Key, Policy};

    #[test]
    fn list_position_comes_back_as_it_was_written() {
        let place = |at| Some((StoreTime(at), Uuid::from_u128(7)));
        let position = |after, parked, consumer: &str| ListPosition {
            after,
            from: StoreTime(1),
            until: StoreTime::MAX,
            parked,
            consumer: consumer.to_owned(),
        };
        for (written, bytes) in [
            (position(place(5), None, ""), 40),
            (position(place(5), Some(StoreTime(9)), ""), 48),
            (position(place(5), None, "pay"), 51),
            (position(None, Some(StoreTime(0)), "pay"), 51),
        ] {
            let text = written.bytes();
            assert_eq!(text.len(), bytes, "an earlier version reads the first form");
            let read = ListPosition::read(&text).unwrap();
            assert_eq!(
                (read.after, read.from, read.until, read.parked, read.consumer),
                (written.after, written.from, written.until, written.parked, written.consumer)
            );
            assert!(ListPosition::read(&text[..39]).is_none());
        }
        assert!(ListPosition::read(&[0; 41]).is_none());
        assert!(ListPosition::read(&[0xff; 49]).is_none(), "a name that no store has");
    }

    /// Errors of up to 64 KiB would make a page of 1,000 entries longer than clients accept.
    #[test]
    fn shown_ends_a_page_that_is_long_enough() {
        let (policy, now) = (Policy::default(), StoreTime(1 << 50));
        let context = Context {
            policy: &policy,
            now,
            token_offset: 0,
            position: 1,
            clock_behind: false,
            clock_before_release: false,
            clock_ahead: false,
        };
        let import = Import { completed_at: None, result: Bytes::new(), fingerprint: Bytes::new() };
        let row = |number: usize| {
            let key = Key::new("c", "tests", &number.to_string());
            let Ok(Imported::Stored(entry)) = domain::import(&key, None, &import, &context) else {
                panic!("an entry")
            };
            let entry = Entry { last_error: "e".repeat(1 << 20), ..entry.entry().clone() };
            ListedRow { place: (StoreTime(i64::try_from(number).unwrap()), key.hash()), entry: Ok(entry) }
        };
        let reading = Reading { now, token_offset: 0, mark: 0, limits: ClockLimits::NONE };
        for (rows, entries, ended) in [(2, 2, None), (3, 3, Some(2)), (5, 3, Some(2))] {
            let (page, end) = shown((0..rows).map(|number| (reading, row(number))));
            assert_eq!(page.entries.len(), entries, "{rows} rows");
            let end = end.map(|end| (end.consumer, end.place.0));
            assert_eq!(end, ended.map(|place| ("c".to_owned(), StoreTime(place))), "{rows} rows");
        }
    }
}

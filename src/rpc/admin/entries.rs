//! Filters and pages of entries, as messages.

use prost::Message as _;
use uuid::Uuid;

use super::page_token::Pages;
use crate::domain::{EntryFilter, KeyHash, Listing, Rejection, Span, StoreTime};
use crate::ledger::{Ages, Operators, Sought};
use crate::proto;
use crate::wire::entry;
use crate::wire::errors;
use crate::wire::fields::{FieldChecks, Limits};
use crate::wire::words;

const PAGE_DEFAULT: usize = 100;
const PAGE_MAX: usize = 1_000;
/// A page ends beyond this many bytes: with the longest entry added, it is below what clients accept.
pub(super) const PAGE_BYTES: usize = 3 << 20;
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

/// The filter, and the ages that are converted to instants by the store's clock.
pub(super) fn filter(
    fields: &mut FieldChecks<'_>,
    asked: Option<&proto::EntryFilter>,
    limits: &Limits,
) -> (EntryFilter, Ages) {
    let asked = asked.cloned().unwrap_or_default();
    fields.name("filter.consumer", &asked.consumer, limits.consumer);
    fields.text("filter.source", &asked.source, limits.source);
    fields.text("filter.id_prefix", &asked.id_prefix, limits.id);
    let mut states = numbers(fields, "filter.states", &asked.states, 6, |number| {
        proto::EntryState::try_from(number).is_ok_and(|state| state != proto::EntryState::Unspecified)
    });
    let causes = numbers(fields, "filter.causes", &asked.causes, 5, |number| {
        proto::ParkCause::try_from(number).is_ok_and(|cause| cause != proto::ParkCause::Unspecified)
    });
    // Expired claims have but one state: the index of that state finds them.
    if states.is_empty() && asked.expired {
        states = vec![proto::EntryState::InProgress as i16];
    } else if states.is_empty() && !causes.is_empty() {
        states = vec![proto::EntryState::Parked as i16];
    }
    fields.replay_run("filter.replay_run", &asked.replay_run);
    let min = age(fields, "filter.min_age", asked.min_age.as_ref());
    let max = age(fields, "filter.max_age", asked.max_age.as_ref());
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
        ..EntryFilter::of(&asked.consumer)
    };
    (filter, Ages { min, max })
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
    ages: Ages,
    pages: Pages,
}

impl Query {
    pub(super) fn of(request: &proto::ListEntriesRequest, limits: &Limits) -> Result<Query, Rejection> {
        let mut fields = FieldChecks::new(limits);
        let (mut filter, mut ages) = filter(&mut fields, request.filter.as_ref(), limits);
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
        let after = place.as_ref().map(|place| place.after);
        if let Some(place) = place {
            (filter.created_from, filter.created_until) = (place.from, place.until);
            ages = Ages::default();
        }
        fields.finish(|| Query { listing: Listing { filter, newest_first, after, limit }, ages, pages })
    }

    /// Whose entries are listed.
    pub(super) fn consumer(&self) -> &str {
        &self.listing.filter.consumer
    }

    pub(super) async fn run(self, operators: &Operators) -> Result<proto::ListEntriesResponse, Rejection> {
        let (listing, listed) = operators.list(self.listing, self.ages).await?;
        let mut page = proto::ListEntriesResponse::default();
        let (mut next, mut bytes) = (listed.next, 0);
        for row in listed.rows {
            if bytes >= PAGE_BYTES {
                break;
            }
            match row.entry {
                Ok(entry) => {
                    let entry = entry::entry(entry, &listed.reading);
                    bytes += entry.encoded_len();
                    page.entries.push(entry);
                }
                Err(unreadable) => page.unreadable.push(proto::UnreadableEntry {
                    key_hash: unreadable.key.to_string(),
                    column: unreadable.column.to_owned(),
                    created_at: Some(words::timestamp(row.place.0)),
                }),
            }
            if bytes >= PAGE_BYTES {
                next = Some(row.place);
            }
        }
        page.looked_at_until = next.map(|after| words::timestamp(after.0));
        page.next_page_token = next.map_or(String::new(), |after| {
            let (from, until) = (listing.filter.created_from, listing.filter.created_until);
            self.pages.token(&ListPosition { after, from, until }.bytes())
        });
        Ok(page)
    }
}

/// Where a listing continues, and the instants that its first page has fixed.
struct ListPosition {
    after: (StoreTime, KeyHash),
    from: StoreTime,
    until: StoreTime,
}

impl ListPosition {
    fn bytes(&self) -> Vec<u8> {
        let (at, key) = self.after;
        let instants = [at, self.from, self.until].map(|instant| instant.micros().to_be_bytes());
        [key.as_bytes(), instants.as_flattened()].concat()
    }

    fn read(place: &[u8]) -> Option<ListPosition> {
        let (key, instants) = place.split_first_chunk()?;
        let (instants, []) = instants.as_chunks() else { return None };
        let [at, from, until] = *instants else { return None };
        let [at, from, until] = [at, from, until].map(|instant| StoreTime(i64::from_be_bytes(instant)));
        Some(ListPosition { after: (at, Uuid::from_bytes(*key)), from, until })
    }
}

//! `ListAuditEvents`: what operators did, and what it changed.

mod changed;

use prost::Message as _;
use uuid::Uuid;

use super::entries::PAGE_BYTES;
use super::page_token::{self, Pages};
use crate::domain::{AuditEvent, AuditListing, AuditOf, KeyHash, Rejection, StoreTime, audit_action};
use crate::proto;
use crate::wire::fields::{FieldChecks, Limits};
use crate::wire::words;

const PAGE_DEFAULT: usize = 100;
const PAGE_MAX: usize = 1_000;
/// Number of events that are read for one page if the filter may exclude events.
const LOOKED_AT_MAX: usize = 1_000;
const OPERATION_ID_MAX: usize = 64;
const ACTIONS_MAX: usize = 32;
const ACTOR_BYTES_MAX: usize = 512;

/// A page of the audit: the query for the store, what of its answer is shown, and the position of the next page.
pub(super) struct AuditQuery {
    pub(super) listing: AuditListing,
    filter: EventFilter,
    limit: usize,
    pages: Pages,
}

/// Which of the events that were read are shown.
struct EventFilter {
    actions: Vec<String>,
    actor: String,
    from: Option<StoreTime>,
    until: Option<StoreTime>,
}

impl EventFilter {
    fn fits(&self, event: &AuditEvent) -> bool {
        (self.actions.is_empty() || self.actions.contains(&event.action))
            && (self.actor.is_empty() || self.actor == event.actor)
            && self.from.is_none_or(|from| event.at >= from)
            && self.until.is_none_or(|until| event.at < until)
    }

    fn excludes_nothing(&self) -> bool {
        self.actions.is_empty() && self.actor.is_empty() && self.from.is_none() && self.until.is_none()
    }
}

pub(super) fn query(
    request: &proto::ListAuditEventsRequest,
    limits: &Limits,
) -> Result<AuditQuery, Rejection> {
    let mut fields = FieldChecks::new(limits);
    fields.text("consumer", &request.consumer, limits.consumer);
    let key = match &request.key {
        None => None,
        Some(key) => fields.key(Some(key)).map(|key| key.hash()),
    };
    let elsewhere = |key: &proto::EntryKey| !request.consumer.is_empty() && request.consumer != key.consumer;
    if request.key.as_ref().is_some_and(elsewhere) {
        fields.wrong("consumer", "is not that of the key: leave it out");
    }
    let limit = fields.page_size(request.page_size, PAGE_DEFAULT, PAGE_MAX);
    let asked = proto::ListAuditEventsRequest { page_size: 0, page_token: String::new(), ..request.clone() };
    let pages = Pages::of("ListAuditEvents", &asked);
    let before = pages.place(&mut fields, &request.page_token, audit_place);
    operation(&mut fields, request);
    let filter = filter(&mut fields, request);
    let of = match (key, request.consumer.as_str(), request.operation.as_str()) {
        (Some(key), ..) => AuditOf::Entry(key),
        (None, "", _) => AuditOf::All,
        (None, consumer, "") => AuditOf::Consumer(consumer.to_owned()),
        (None, consumer, id) => AuditOf::Operation { consumer: consumer.to_owned(), id: id.to_owned() },
    };
    fields.finish(|| {
        let looked_at = if filter.excludes_nothing() { limit } else { LOOKED_AT_MAX };
        // By time the newest come first: those at `until` and later are not even read.
        let first = filter.until.filter(|_| by_time(&of)).map(|until| (until, String::new()));
        let listing = AuditListing { before: before.or(first), of, limit: looked_at };
        AuditQuery { listing, filter, limit, pages }
    })
}

/// Whether the events are listed by time.
fn by_time(of: &AuditOf) -> bool {
    match of {
        AuditOf::All | AuditOf::Consumer(_) | AuditOf::Entry(_) => true,
        AuditOf::Operation { .. } => false,
    }
}

fn operation(fields: &mut FieldChecks<'_>, request: &proto::ListAuditEventsRequest) {
    if request.operation.is_empty() {
        return;
    }
    fields.request_id("operation", &request.operation, OPERATION_ID_MAX);
    if request.key.is_some() {
        fields.wrong("operation", "is set together with key: ask for one of them");
    } else if request.consumer.is_empty() {
        fields.wrong("operation", "is set without a consumer, to whom an operation belongs");
    }
}

fn filter(fields: &mut FieldChecks<'_>, request: &proto::ListAuditEventsRequest) -> EventFilter {
    if request.actions.len() > ACTIONS_MAX {
        let text = format!("has {} values, must have at most {ACTIONS_MAX}", request.actions.len());
        fields.wrong("actions", text);
    } else {
        for (at, action) in request.actions.iter().enumerate() {
            if !audit_action::ALL.contains(&action.as_str()) {
                let text = format!("is not an action; the actions are {}", audit_action::ALL.join(", "));
                fields.wrong(&format!("actions[{at}]"), text);
            }
        }
    }
    fields.text("actor", &request.actor, ACTOR_BYTES_MAX);
    let from = fields.instant("from", request.from.as_ref());
    let until = fields.instant("until", request.until.as_ref());
    if let (Some(from), Some(until)) = (from, until)
        && from >= until
    {
        fields.wrong("from", "is not before until: nothing can fit");
    }
    EventFilter { actions: request.actions.clone(), actor: request.actor.clone(), from, until }
}

/// The instant of an event, and the id under which the store has it.
fn audit_place(place: &[u8]) -> Option<(StoreTime, String)> {
    let (at, id) = place.split_first_chunk()?;
    Some((StoreTime(i64::from_be_bytes(*at)), page_token::name(id)?))
}

impl AuditQuery {
    /// The page of these events.
    pub(super) fn page(self, events: Vec<AuditEvent>) -> proto::ListAuditEventsResponse {
        let mut more = events.len() == self.listing.limit;
        let ends = self.filter.from.filter(|_| by_time(&self.listing.of));
        let mut page = proto::ListAuditEventsResponse::default();
        let mut bytes = 0;
        for one in events {
            if ends.is_some_and(|from| one.at < from) {
                more = false;
                break;
            }
            if bytes >= PAGE_BYTES || page.events.len() == self.limit {
                more = true;
                break;
            }
            let place = [&one.at.micros().to_be_bytes()[..], one.stored_id().as_bytes()].concat();
            page.next_page_token = self.pages.token(&place);
            if self.filter.fits(&one) {
                let one = event(one);
                bytes += one.encoded_len();
                page.events.push(one);
            }
        }
        if !more {
            page.next_page_token.clear();
        }
        page
    }
}

fn event(event: AuditEvent) -> proto::AuditEvent {
    let changes = changed::values(&event);
    proto::AuditEvent {
        request_id: event.request_id,
        at: Some(words::timestamp(event.at)),
        actor: event.actor,
        action: event.action,
        consumer: event.consumer,
        key_hash: event.key.map_or(String::new(), |key: KeyHash| Uuid::to_string(&key)),
        reason: event.reason,
        before_json: event.before.unwrap_or_default(),
        after_json: event.after.unwrap_or_default(),
        changes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_by(actor: &str, at: i64) -> AuditEvent {
        AuditEvent {
            request_id: at.to_string(),
            at: StoreTime(at),
            actor: actor.to_owned(),
            action: "PARK".into(),
            consumer: "c".into(),
            key: None,
            reason: "r".into(),
            before: None,
            after: None,
            digest: None,
        }
    }

    /// A page goes on from the last event that was read, also where none of those that were read fits.
    #[test]
    fn filtered_page_has_next_token_while_events_may_follow() {
        let asked = |page_token: String| {
            let request = proto::ListAuditEventsRequest {
                actor: "a".into(),
                page_size: 2,
                page_token,
                ..Default::default()
            };
            query(&request, &Limits::default()).unwrap()
        };
        // The actors of the events that are read, how many are shown, and the instant from which the next page goes on.
        for (actors, shown, next) in [
            (vec!["b"; LOOKED_AT_MAX - 1], 0, None),
            (vec!["b"; LOOKED_AT_MAX], 0, Some(LOOKED_AT_MAX)),
            ([vec!["a"; 2], vec!["b"; 3]].concat(), 2, Some(2)),
            ([vec!["a"; 2], vec!["b"; LOOKED_AT_MAX - 2]].concat(), 2, Some(2)),
            ([vec!["b"; LOOKED_AT_MAX - 1], vec!["a"]].concat(), 1, Some(LOOKED_AT_MAX)),
            (vec!["a"; 2], 2, None),
        ] {
            let events = (1..).zip(&actors).map(|(at, actor)| made_by(actor, at)).collect();
            let page = asked(String::new()).page(events);
            assert_eq!(page.events.len(), shown);
            let token = page.next_page_token;
            let before = (!token.is_empty()).then(|| asked(token).listing.before.unwrap().0);
            assert_eq!(
                before,
                next.map(|at| StoreTime(i64::try_from(at).unwrap())),
                "{shown} of {}",
                actors.len()
            );
        }
    }
}

//! Lists and counts: what fits a filter is shown once and in order, amid changes; open entries are counted exactly.

mod everywhere;
mod marks;
mod open;
mod stored;
mod summaries;
mod walks;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::{
    self, EntryFilter, EntryOrder, EntryState, FailureKind, ListEntriesRequest, ParkCause,
};

use crate::harness::details::{acquired, claim, fields, key};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(
    every_filter_shows_exactly_what_fits_in_order,
    a_page_token_belongs_to_its_filter_and_order,
    ages_mean_the_instants_of_the_first_page,
    what_stands_still_is_shown_once_amid_changes,
    lists_and_counts_wait_for_no_writer,
    a_prefix_finds_ids_however_they_are_stored,
    malformed_queries_are_refused_by_field,
);

/// What a message came to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Made {
    Held,
    Done,
    Parked,
    Released,
    Retried,
    GivenUp,
}

const ALL: [Made; 6] = [Made::Held, Made::Done, Made::Parked, Made::Released, Made::Retried, Made::GivenUp];

impl Made {
    fn state(self) -> EntryState {
        match self {
            Made::Held => EntryState::InProgress,
            Made::Done => EntryState::Completed,
            Made::Parked => EntryState::Parked,
            Made::Released => EntryState::Received,
            Made::Retried => EntryState::FailedRetryable,
            Made::GivenUp => EntryState::FailedTerminal,
        }
    }
}

async fn settle(server: &mut TestServer, key: Option<proto::EntryKey>, token: i64, made: Made) {
    let fail = |kind: FailureKind| proto::FailRequest {
        key: key.clone(),
        token,
        kind: kind.into(),
        ..Default::default()
    };
    match made {
        Made::Held => {}
        Made::Done => {
            let request = proto::CompleteRequest { key, token, ..Default::default() };
            server.client.complete(request).await.unwrap();
        }
        Made::Released => {
            server
                .client
                .release(proto::ReleaseRequest {
                    key,
                    token,
                    delay: None,
                    unpin_fingerprint: false,
                    event_type: String::new(),
                })
                .await
                .unwrap();
        }
        Made::Parked => drop(server.client.fail(fail(FailureKind::Park)).await.unwrap()),
        Made::Retried => drop(server.client.fail(fail(FailureKind::Retryable)).await.unwrap()),
        Made::GivenUp => drop(server.client.fail(fail(FailureKind::Terminal)).await.unwrap()),
    }
}

async fn make(server: &mut TestServer, consumer: &str, id: &str, made: Made) -> i64 {
    let token = acquired(&server.client.claim(claim(consumer, id)).await.unwrap().into_inner()).token;
    settle(server, key(consumer, id), token, made).await;
    token
}

fn filter(states: &[EntryState]) -> EntryFilter {
    EntryFilter {
        consumer: "c".into(),
        states: states.iter().map(|state| (*state).into()).collect(),
        ..Default::default()
    }
}

fn ask(filter: EntryFilter, newest_first: bool, page_size: i32) -> ListEntriesRequest {
    let order = if newest_first { EntryOrder::NewestFirst } else { EntryOrder::OldestFirst };
    ListEntriesRequest { filter: Some(filter), order: order.into(), page_size, page_token: String::new() }
}

/// The ids on all pages, in their order.
async fn ids(server: &mut TestServer, mut request: ListEntriesRequest) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let page = server.admin.list_entries(request.clone()).await.unwrap().into_inner();
        assert!(page.entries.len() <= usize::try_from(request.page_size).unwrap());
        ids.extend(page.entries.into_iter().map(|entry| entry.key.unwrap().id));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return ids;
        }
    }
}

/// Runs what the purge's task does in between: here nothing waits for its time.
async fn mark(server: &TestServer) {
    while server.at.session().await.upkeep().index_open_claims(7).await.unwrap() > 0 {}
}

async fn every_filter_shows_exactly_what_fits_in_order(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let mut made = Vec::new();
    for number in 0..48 {
        let (id, what) = (format!("{}-{number:02}", number % 2), ALL[number % 6]);
        make(&mut server, "c", &id, what).await;
        make(&mut server, "other", &id, what).await;
        made.push((id, what));
        // Three are created at each instant; a part of them lies more than a minute back in the end.
        if number % 3 == 2 {
            server.advance(Span::from_secs(5)).await;
        }
        if number == 30 {
            mark(&server).await;
        }
    }
    let sets: Vec<Vec<EntryState>> = (0..64_u32)
        .map(|bits| {
            ALL.iter()
                .enumerate()
                .filter(|(at, _)| bits & (1 << at) != 0)
                .map(|(_, made)| made.state())
                .collect()
        })
        .collect();
    for states in sets {
        for (prefix, newest_first) in [("", false), ("", true), ("1-", false), ("1-", true), ("1-4", true)] {
            let wanted = |made: Made| states.is_empty() || states.contains(&made.state());
            let expected: BTreeSet<&str> = made
                .iter()
                .filter(|(id, made)| wanted(*made) && id.starts_with(prefix))
                .map(|(id, _)| id.as_str())
                .collect();
            let filter = EntryFilter { id_prefix: prefix.into(), ..filter(&states) };
            let seen = ids(&mut server, ask(filter, newest_first, 4)).await;
            let once: BTreeSet<&str> = seen.iter().map(String::as_str).collect();
            let count = expected.len();
            assert_eq!((once, seen.len()), (expected, count), "{states:?} {prefix} {newest_first}");
            let mut groups: Vec<usize> =
                seen.iter().map(|id| made.iter().position(|(made, _)| made == id).unwrap() / 3).collect();
            if newest_first {
                groups.reverse();
            }
            assert!(groups.is_sorted(), "{states:?} {prefix} {newest_first}: {seen:?}");
        }
    }
    let parked = |cause: ParkCause| EntryFilter { causes: vec![cause.into()], ..filter(&[]) };
    assert_eq!(ids(&mut server, ask(parked(ParkCause::Consumer), false, 100)).await.len(), 8);
    assert!(ids(&mut server, ask(parked(ParkCause::Operator), false, 100)).await.is_empty());
    for (source, number) in [("tests", 48), ("elsewhere", 0)] {
        let filter = EntryFilter { source: source.into(), ..filter(&[]) };
        assert_eq!(ids(&mut server, ask(filter, false, 100)).await.len(), number, "{source}");
    }
    // Of the eight that are held, those of more than 31 seconds ago are expired.
    let expired = EntryFilter { expired: true, ..filter(&[]) };
    assert_eq!(ids(&mut server, ask(expired, false, 3)).await.len(), 5);
    server.stop().await;
}

async fn a_page_token_belongs_to_its_filter_and_order(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for number in 0..4 {
        make(&mut server, "c", &number.to_string(), Made::Parked).await;
    }
    let minute = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    let first = ask(filter(&[EntryState::Parked]), false, 2);
    let page_token = server.admin.list_entries(first.clone()).await.unwrap().into_inner().next_page_token;
    let other = |filter: EntryFilter, newest_first| ask(filter, newest_first, 2);
    for wrong in [
        other(filter(&[EntryState::Parked]), true),
        other(filter(&[EntryState::Parked, EntryState::Received]), false),
        other(filter(&[]), false),
        other(EntryFilter { consumer: "d".into(), ..filter(&[EntryState::Parked]) }, false),
        other(EntryFilter { source: "tests".into(), ..filter(&[EntryState::Parked]) }, false),
        other(EntryFilter { id_prefix: "1".into(), ..filter(&[EntryState::Parked]) }, false),
        other(EntryFilter { causes: vec![4], ..filter(&[EntryState::Parked]) }, false),
        other(EntryFilter { expired: true, ..filter(&[EntryState::Parked]) }, false),
        other(EntryFilter { min_age: minute, ..filter(&[EntryState::Parked]) }, false),
        other(EntryFilter { max_age: minute, ..filter(&[EntryState::Parked]) }, false),
    ] {
        let wrong = ListEntriesRequest { page_token: page_token.clone(), ..wrong };
        let refused = server.admin.list_entries(wrong.clone()).await.unwrap_err();
        assert_eq!(fields(&refused), ["page_token"], "{wrong:?}");
    }
    let second = ListEntriesRequest { page_token, ..first };
    assert_eq!(server.admin.list_entries(second).await.unwrap().into_inner().entries.len(), 2);
    server.stop().await;
}

/// Ids that are UUIDs are stored in another form than others.
async fn a_prefix_finds_ids_however_they_are_stored(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let (lower, upper) = ("0189abcd-ac96-774b-bcce-b302099a8057", "0189ABCD-ac96-774b-bcce-b302099a8057");
    let (simple, other) = ("0189abcdac96774bbcceb302099a8057", "0189abcd-ac96");
    for id in [lower, upper, simple, other] {
        make(&mut server, "c", id, Made::Held).await;
    }
    for (prefix, expected) in [
        ("", vec![lower, upper, simple, other]),
        ("0189", vec![lower, upper, simple, other]),
        ("0189a", vec![lower, simple, other]),
        ("0189abcd-ac96", vec![lower, other]),
        ("0189abcd-ac96-774b-bcce-b3", vec![lower]),
        (lower, vec![lower]),
        (upper, vec![upper]),
        ("0189abcd-ac96-774b-bcce-b302099a80570", vec![]),
    ] {
        let filter = EntryFilter { id_prefix: prefix.into(), ..filter(&[]) };
        let listed = server.admin.list_entries(ask(filter, false, 10)).await.unwrap().into_inner();
        let ids: BTreeSet<String> = listed.entries.into_iter().map(|entry| entry.key.unwrap().id).collect();
        assert_eq!(ids, expected.into_iter().map(str::to_owned).collect(), "{prefix}");
    }
    server.stop().await;
}

async fn ages_mean_the_instants_of_the_first_page(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for number in 0..10 {
        make(&mut server, "c", &number.to_string(), Made::Parked).await;
        server.advance(Span::from_secs(60)).await;
    }
    // The ages are 10 to 1 minutes now.
    let minutes = |number: i64| Some(prost_types::Duration { seconds: number * 60, nanos: 0 });
    for (min, max, expected) in [(8, 10_000, 3), (0, 3, 3), (4, 6, 3), (11, 12, 0)] {
        let filter =
            EntryFilter { min_age: minutes(min), max_age: minutes(max), ..filter(&[EntryState::Parked]) };
        assert_eq!(ids(&mut server, ask(filter, false, 2)).await.len(), expected, "{min} to {max}");
    }
    let young = EntryFilter { max_age: minutes(3), ..filter(&[EntryState::Parked]) };
    let mut request = ask(young, false, 2);
    let first = server.admin.list_entries(request.clone()).await.unwrap().into_inner();
    server.advance(Span::from_secs(3_600)).await;
    request.page_token = first.next_page_token;
    let second = server.admin.list_entries(request).await.unwrap().into_inner();
    assert_eq!((first.entries.len(), second.entries.len()), (2, 1), "an hour later they are what they were");
    server.stop().await;
}

/// Between any two pages others are claimed, completed, parked and redriven, so that they enter and leave the
/// filter, at places before and behind the page.
async fn what_stands_still_is_shown_once_amid_changes(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let (mut still, mut moving) = (BTreeSet::new(), BTreeMap::new());
    for number in 0..60 {
        let id = format!("m{number:02}");
        let made = if number % 2 == 0 { Made::Parked } else { Made::Held };
        let token = make(&mut server, "c", &id, made).await;
        if number % 3 == 0 {
            still.insert((id, made));
        } else {
            moving.insert(id, (made, token));
        }
        server.advance(Span::from_secs(i64::from(number % 4 == 0) * 40)).await;
    }
    for (states, made) in [
        (vec![EntryState::Parked], vec![Made::Parked]),
        (vec![EntryState::InProgress], vec![Made::Held]),
        (vec![EntryState::Parked, EntryState::InProgress], vec![Made::Parked, Made::Held]),
        (vec![], vec![Made::Parked, Made::Held]),
    ] {
        for newest_first in [false, true] {
            let mut request = ask(filter(&states), newest_first, 3);
            let (mut seen, mut round) = (HashSet::new(), 0);
            loop {
                let page = server.admin.list_entries(request.clone()).await.unwrap().into_inner();
                for entry in page.entries {
                    let id = entry.key.unwrap().id;
                    assert!(seen.insert(id.clone()), "{id} was shown twice: {states:?} {newest_first}");
                }
                request.page_token = page.next_page_token;
                if request.page_token.is_empty() {
                    break;
                }
                // One of those that move, at each place in turn: out of the filter, or into it again.
                round += 1;
                let (id, (made, token)) = moving.iter_mut().nth(round * 7 % 40).unwrap();
                let seen = proto::GetEntryRequest { key: key("c", id), ..Default::default() };
                let version = server.admin.get_entry(seen).await.unwrap().into_inner().entry.unwrap().version;
                if *made == Made::Held {
                    let fail = proto::FailRequest {
                        key: key("c", id),
                        token: *token,
                        kind: FailureKind::Park.into(),
                        ..Default::default()
                    };
                    server.client.fail(fail).await.unwrap();
                    *made = Made::Parked;
                } else {
                    let redrive = proto::RedriveEntryRequest {
                        key: key("c", id),
                        request_id: format!("amid pages {states:?} {newest_first} {round}"),
                        expected_version: version,
                        reason: "amid pages".into(),
                        ..Default::default()
                    };
                    server.admin.redrive_entry(redrive).await.unwrap();
                    let held = acquired(&server.client.claim(claim("c", id)).await.unwrap().into_inner());
                    (*made, *token) = (Made::Held, held.token);
                }
                make(&mut server, "c", &format!("new {states:?} {newest_first} {round}"), Made::Done).await;
                mark(&server).await;
            }
            for (id, what) in &still {
                assert_eq!(seen.contains(id), made.contains(what), "{id}: {states:?} {newest_first}");
            }
        }
    }
    server.stop().await;
}

async fn lists_and_counts_wait_for_no_writer(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    make(&mut server, "c", "1", Made::Parked).await;
    let held = server.at.hold_writes().await;
    assert_eq!(ids(&mut server, ask(filter(&[EntryState::Parked]), false, 10)).await, ["1"]);
    let request = proto::SummarizeEntriesRequest::default();
    let answer = server.admin.summarize_entries(request).await.unwrap().into_inner();
    assert_eq!(answer.consumers[0].states[0].count, 1);
    drop(held);
    server.stop().await;
}

async fn malformed_queries_are_refused_by_field(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let span = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    let wrong = EntryFilter {
        consumer: "x".repeat(129),
        source: "s\n".into(),
        id_prefix: "i".repeat(513),
        states: vec![2, 0, 9],
        causes: vec![6],
        min_age: span(-1),
        max_age: span(10_001 * 86_400),
        ..Default::default()
    };
    let crossed = EntryFilter { min_age: span(2), max_age: span(1), ..filter(&[]) };
    let rows: [(&str, ListEntriesRequest, &[&str]); 3] = [
        (
            "beyond each bound",
            ask(wrong, false, 1_001),
            &[
                "filter.consumer",
                "filter.source",
                "filter.id_prefix",
                "filter.states[1]",
                "filter.states[2]",
                "filter.causes[0]",
                "filter.min_age",
                "filter.max_age",
                "page_size",
            ],
        ),
        (
            "ages that exclude each other, and no such order",
            ListEntriesRequest { order: 7, ..ask(crossed, false, 1) },
            &["filter.min_age", "order"],
        ),
        ("more states than there are", ask(filter(&[EntryState::Parked; 7]), false, 1), &["filter.states"]),
    ];
    for (what, request, wrong) in rows {
        let refused = server.admin.list_entries(request).await.unwrap_err();
        assert_eq!(fields(&refused), wrong, "{what}");
    }
    let request = proto::SummarizeEntriesRequest {
        consumer: "c".into(),
        page_size: 101,
        page_token: "b".into(),
        replay_run: "a b".into(),
    };
    let refused = server.admin.summarize_entries(request).await.unwrap_err();
    assert_eq!(fields(&refused), ["replay_run", "page_size", "page_token"]);
    server.stop().await;
}

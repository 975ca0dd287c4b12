//! Open entries of all consumers: listed by consumer, found by owner, error and instant of parking, and grouped by error.

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::{
    self, EntryFilter, EntryState, FailureKind, GroupEntriesRequest, GroupEntriesResponse,
    ListEntriesRequest, ParkCause,
};

use super::{ALL, Made, ask, ids, make, mark};
use crate::harness::details::{acquired, claim, fields, key};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, TestServer};

on_both_stores!(
    open_entries_of_all_consumers_are_listed_by_name,
    a_page_of_all_consumers_reads_a_bounded_number_of_them,
    open_entries_are_found_by_owner_error_and_time_of_parking,
    time_of_parking_outlives_a_later_change,
    open_entries_are_grouped_by_the_first_line_of_their_error,
    groups_of_more_entries_than_are_read_are_a_sample,
    filters_of_open_entries_are_refused_where_they_make_no_sense,
);

pub(super) fn all(states: &[EntryState]) -> EntryFilter {
    EntryFilter { states: states.iter().map(|state| (*state).into()).collect(), ..Default::default() }
}

/// The consumers and ids on all pages, and the largest page.
pub(super) async fn named(server: &mut TestServer, mut request: ListEntriesRequest) -> (Vec<String>, usize) {
    let (mut names, mut largest) = (Vec::new(), 0);
    loop {
        let page = server.admin.list_entries(request.clone()).await.unwrap().into_inner();
        largest = largest.max(page.entries.len());
        let keys = page.entries.into_iter().map(|entry| entry.key.unwrap());
        names.extend(keys.map(|key| format!("{}/{}", key.consumer, key.id)));
        assert!(page.looked_at_until.is_none());
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return (names, largest);
        }
    }
}

async fn open_entries_of_all_consumers_are_listed_by_name(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for name in ["b", "a", "B"] {
        for made in ALL {
            make(&mut server, name, &format!("{made:?}"), made).await;
            server.advance(Span::from_secs(1)).await;
        }
    }
    // All consumers have a completed one; this one has nothing else.
    make(&mut server, "done", "1", Made::Done).await;
    server.advance(Span::from_secs(90)).await;
    mark(&server).await;
    let open: Vec<Made> = ALL.into_iter().filter(|made| *made != Made::Done).collect();
    for newest_first in [false, true] {
        let mut expected = Vec::new();
        for name in ["B", "a", "b"] {
            let mut of_one: Vec<String> = open.iter().map(|made| format!("{name}/{made:?}")).collect();
            if newest_first {
                of_one.reverse();
            }
            expected.extend(of_one);
        }
        for size in [1, 2, 4, 5, 100] {
            let (found, largest) = named(&mut server, ask(all(&[]), newest_first, size)).await;
            assert_eq!(found, expected, "by {size}, newest first: {newest_first}");
            assert!(largest <= usize::try_from(size).unwrap());
        }
    }
    let (parked, _) = named(&mut server, ask(all(&[EntryState::Parked]), false, 2)).await;
    assert_eq!(parked, ["B/Parked", "a/Parked", "b/Parked"]);
    let expired = EntryFilter { expired: true, ..all(&[]) };
    assert_eq!(named(&mut server, ask(expired, false, 2)).await.0, ["B/Held", "a/Held", "b/Held"]);
    let doubled = EntryFilter { doubled: true, ..all(&[]) };
    assert!(named(&mut server, ask(doubled, false, 2)).await.0.is_empty());
    // A token of one consumer is not one of all, and the reverse.
    let first = ask(all(&[]), false, 1);
    let page_token = server.admin.list_entries(first.clone()).await.unwrap().into_inner().next_page_token;
    let one = EntryFilter { consumer: "a".into(), ..all(&[]) };
    let wrong = ListEntriesRequest { page_token, ..ask(one, false, 1) };
    assert_eq!(fields(&server.admin.list_entries(wrong).await.unwrap_err()), ["page_token"]);
    server.stop().await;
}

async fn a_page_of_all_consumers_reads_a_bounded_number_of_them(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let mut expected = Vec::new();
    for number in 0..150 {
        let (name, made) = (format!("c{number:03}"), if number % 3 == 0 { Made::Parked } else { Made::Done });
        make(&mut server, &name, "1", made).await;
        if made == Made::Parked {
            expected.push(format!("{name}/1"));
        }
    }
    let (found, largest) = named(&mut server, ask(all(&[]), false, 1_000)).await;
    assert_eq!(found, expected);
    assert_eq!(largest, 20, "a page lists 20 consumers");
    server.stop().await;
}

/// A claim of this owner that is parked with this error.
async fn park(server: &mut TestServer, consumer: &str, id: &str, owner: &str, error: &str) {
    let request = proto::ClaimRequest { owner: owner.into(), ..claim(consumer, id) };
    let token = acquired(&server.client.claim(request).await.unwrap().into_inner()).token;
    let fail = proto::FailRequest {
        key: key(consumer, id),
        token,
        kind: FailureKind::Park.into(),
        error: error.into(),
        ..Default::default()
    };
    server.client.fail(fail).await.unwrap();
}

async fn open_entries_are_found_by_owner_error_and_time_of_parking(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    park(&mut server, "c", "1", "pod-a/1", "provider answered 502").await;
    park(&mut server, "c", "2", "pod-b/1", "no such account: 100%").await;
    let held = proto::ClaimRequest { owner: "pod-a/1".into(), ..claim("c", "3") };
    server.client.claim(held).await.unwrap();
    make(&mut server, "c", "done", Made::Done).await;
    park(&mut server, "d", "1", "pod-a/1", "provider answered 504").await;
    server.advance(Span::from_secs(100)).await;
    mark(&server).await;
    park(&mut server, "c", "4", "pod-b/1", "provider answered 502").await;
    server.advance(Span::from_secs(10)).await;
    let one = || EntryFilter { consumer: "c".into(), ..Default::default() };
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    for (filter, expected) in [
        (EntryFilter { owner: "pod-a/1".into(), ..one() }, &["1", "3"][..]),
        (EntryFilter { owner: "pod-a".into(), ..one() }, &[]),
        (EntryFilter { error_contains: "answered 50".into(), ..one() }, &["1", "4"]),
        // Nothing of it is a pattern.
        (EntryFilter { error_contains: "100%".into(), ..one() }, &["2"]),
        (EntryFilter { error_contains: "provider_answered".into(), ..one() }, &[]),
        (EntryFilter { error_contains: "PROVIDER".into(), ..one() }, &[]),
        (EntryFilter { parked_max_age: seconds(11), ..one() }, &["4"]),
        (EntryFilter { parked_max_age: seconds(9), ..one() }, &[]),
        (EntryFilter { parked_max_age: seconds(111), ..one() }, &["1", "2", "4"]),
        (
            EntryFilter {
                owner: "pod-b/1".into(),
                error_contains: "502".into(),
                parked_max_age: seconds(111),
                ..one()
            },
            &["4"],
        ),
    ] {
        for (newest_first, size) in [(false, 1), (true, 2)] {
            let mut found = ids(&mut server, ask(filter.clone(), newest_first, size)).await;
            found.sort();
            assert_eq!(found, expected, "{filter:?}");
        }
    }
    let everywhere = EntryFilter { error_contains: "provider".into(), ..all(&[]) };
    assert_eq!(named(&mut server, ask(everywhere, false, 1)).await.0, ["c/1", "c/4", "d/1"]);
    // The first page fixes what the age means.
    let parked = EntryFilter { parked_max_age: seconds(111), ..one() };
    let first = ask(parked, false, 1);
    let page = server.admin.list_entries(first.clone()).await.unwrap().into_inner();
    server.advance(Span::from_secs(1_000)).await;
    let rest = ListEntriesRequest { page_token: page.next_page_token, ..first };
    assert_eq!(ids(&mut server, rest).await, ["2", "4"]);
    server.stop().await;
}

/// A row of a spool without an end changes a parked entry, and leaves it parked since the same instant.
async fn time_of_parking_outlives_a_later_change(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for id in ["changed", "left"] {
        park(&mut server, "c", id, "w", "timeout").await;
    }
    server.advance(Span::from_secs(100)).await;
    let row = proto::ReconcileRow {
        key: key("c", "changed"),
        at: Some(prost_types::Timestamp { seconds: START.micros() / 1_000_000, nanos: 0 }),
        evidence: proto::EffectEvidence::SpoolUnfinished.into(),
        ..Default::default()
    };
    let request = proto::ReconcileEntriesRequest { reason: "tests".into(), dry_run: false, rows: vec![row] };
    let results = server.admin.reconcile_entries(request).await.unwrap().into_inner().results;
    assert_eq!(results[0].outcome(), proto::ReconcileOutcome::Parked, "{results:?}");
    let doubtful = i32::from(ParkCause::EffectUnknown);
    for (causes, seconds, expected) in [
        (vec![], 99, &[][..]),
        (vec![], 101, &["changed", "left"]),
        (vec![doubtful], 99, &[]),
        (vec![doubtful], 101, &["changed"]),
    ] {
        let parked_max_age = Some(prost_types::Duration { seconds, nanos: 0 });
        let filter = EntryFilter { consumer: "c".into(), causes, parked_max_age, ..Default::default() };
        for newest_first in [false, true] {
            let mut found = ids(&mut server, ask(filter.clone(), newest_first, 1)).await;
            found.sort();
            assert_eq!(found, expected, "{filter:?}");
        }
    }
    server.stop().await;
}

async fn group(server: &mut TestServer, filter: EntryFilter, maximum: i32) -> GroupEntriesResponse {
    let request = GroupEntriesRequest { filter: Some(filter), maximum };
    server.admin.group_entries(request).await.unwrap().into_inner()
}

/// The groups in short.
fn short(answer: &GroupEntriesResponse) -> Vec<(&str, EntryState, ParkCause, &str, i64)> {
    answer
        .groups
        .iter()
        .map(|one| (one.consumer.as_str(), one.state(), one.cause(), one.error.as_str(), one.count))
        .collect()
}

async fn open_entries_are_grouped_by_the_first_line_of_their_error(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for id in ["1", "2", "3"] {
        park(&mut server, "c", id, "w", &format!("timeout\nstack of {id}")).await;
        server.advance(Span::from_secs(10)).await;
    }
    park(&mut server, "c", "4", "w", "no such account").await;
    park(&mut server, "d", "1", "w", "timeout").await;
    park(&mut server, "d", "2", "w", &"\u{e4}".repeat(300)).await;
    park(&mut server, "d", "3", "w", "").await;
    for made in [Made::GivenUp, Made::Retried, Made::Done] {
        make(&mut server, "c", &format!("{made:?}"), made).await;
    }
    let whole = group(&mut server, EntryFilter::default(), 0).await;
    assert!(!whole.is_sample && whole.more_groups == 0 && whole.looked_at == 9, "{whole:?}");
    let (parked, consumer, none) = (EntryState::Parked, ParkCause::Consumer, ParkCause::Unspecified);
    let long = "\u{e4}".repeat(200);
    assert_eq!(short(&whole)[0], ("c", parked, consumer, "timeout", 3), "{whole:?}");
    assert_eq!(whole.groups[0].oldest_age.unwrap().seconds, 30);
    let mut rest = short(&whole)[1..].to_vec();
    rest.sort_by_key(|(consumer, state, _, error, _)| (*consumer, *state, error.to_owned()));
    assert_eq!(
        rest,
        [
            ("c", EntryState::FailedRetryable, none, "", 1),
            ("c", EntryState::FailedTerminal, none, "", 1),
            ("c", parked, consumer, "no such account", 1),
            ("d", parked, consumer, "", 1),
            ("d", parked, consumer, "timeout", 1),
            ("d", parked, consumer, long.as_str(), 1),
        ]
    );
    let few = group(&mut server, EntryFilter::default(), 2).await;
    assert_eq!((few.groups.len(), few.more_groups), (2, 5));
    let one = EntryFilter { consumer: "d".into(), error_contains: "time".into(), ..Default::default() };
    assert_eq!(short(&group(&mut server, one, 0).await), [("d", parked, consumer, "timeout", 1)]);
    let absent = EntryFilter { consumer: "absent".into(), ..Default::default() };
    assert!(group(&mut server, absent, 0).await.groups.is_empty());
    server.stop().await;
}

async fn groups_of_more_entries_than_are_read_are_a_sample(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for id in ["1", "2", "3"] {
        park(&mut server, "small", id, "w", "timeout").await;
    }
    let mut answer = proto::GroupEntriesResponse::default();
    // As many as are read, and more.
    for (part, claims, is_sample) in [(0, 9_997, false), (1, 1, true), (2, 1_000, true)] {
        let ids: Vec<String> = (0..claims).map(|number| format!("{part}-{number}")).collect();
        for ids in ids.chunks(1_000) {
            let requests = ids.iter().map(|id| claim("big", id)).collect();
            server.client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap();
        }
        server.advance(Span::from_secs(90)).await;
        while server.at.session().await.upkeep().index_open_claims(1_000).await.unwrap() > 0 {}
        answer = group(&mut server, EntryFilter::default(), 0).await;
        assert_eq!((answer.is_sample, answer.looked_at), (is_sample, 10_000), "part {part}");
    }
    // However long the range of another consumer is.
    let none = ParkCause::Unspecified;
    assert_eq!(
        short(&answer),
        [
            ("big", EntryState::InProgress, none, "", 9_997),
            ("small", EntryState::Parked, ParkCause::Consumer, "timeout", 3),
        ]
    );
    let small = EntryFilter { consumer: "small".into(), ..Default::default() };
    assert!(!group(&mut server, small, 0).await.is_sample);
    server.stop().await;
}

async fn filters_of_open_entries_are_refused_where_they_make_no_sense(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let completed = all(&[EntryState::Completed]);
    let one = EntryFilter { consumer: "c".into(), ..completed.clone() };
    let second = Some(prost_types::Duration { seconds: 1, nanos: 0 });
    for (what, filter, wrong) in [
        ("completed of all", completed.clone(), &["filter.states"][..]),
        ("a run of all", EntryFilter { replay_run: "r".into(), ..all(&[]) }, &["filter.replay_run"]),
        ("completed by owner", EntryFilter { owner: "w".into(), ..one.clone() }, &["filter.states"]),
        ("completed by error", EntryFilter { error_contains: "w".into(), ..one.clone() }, &["filter.states"]),
        ("completed and parked", EntryFilter { parked_max_age: second, ..one.clone() }, &["filter.states"]),
        (
            "beyond each bound",
            EntryFilter {
                owner: "o".repeat(129),
                error_contains: "e".repeat(257),
                parked_max_age: Some(prost_types::Duration { seconds: 10_001 * 86_400, nanos: 0 }),
                ..all(&[])
            },
            &["filter.owner", "filter.error_contains", "filter.parked_max_age"],
        ),
    ] {
        let refused = server.admin.list_entries(ask(filter, false, 1)).await.unwrap_err();
        assert_eq!(fields(&refused), wrong, "{what}");
    }
    for (what, request, wrong) in [
        ("completed", GroupEntriesRequest { filter: Some(one), maximum: 0 }, &["filter.states"][..]),
        (
            "doubled, and too many groups",
            GroupEntriesRequest { filter: Some(EntryFilter { doubled: true, ..all(&[]) }), maximum: 1_001 },
            &["filter.doubled", "maximum"],
        ),
    ] {
        let refused = server.admin.group_entries(request).await.unwrap_err();
        assert_eq!(fields(&refused), wrong, "{what}");
    }
    server.stop().await;
}

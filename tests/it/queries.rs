//! Lists and counts: what fits a filter is shown once and in order, whatever else happens meanwhile; what
//! is not COMPLETED is counted exactly.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use idempotency_ledger::domain::{Policy, Span};
use idempotency_ledger::rpc::proto::{
    self, EntryFilter, EntryOrder, EntryState, FailureKind, ListEntriesRequest, ParkCause,
};

use crate::harness::details::{acquired, claim, fields, key};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(
    every_filter_shows_exactly_what_fits_in_order,
    a_page_token_belongs_to_its_filter_and_order,
    ages_mean_the_instants_of_the_first_page,
    what_stands_still_is_shown_once_amid_changes,
    the_marks_change_nothing_that_is_shown,
    every_consumer_has_its_turn_to_be_marked,
    a_clock_that_was_set_back_hides_nothing,
    a_summary_counts_what_is_there,
    a_small_ledger_is_counted_exactly,
    a_summary_pages_through_the_consumers,
    lists_and_counts_wait_for_no_writer,
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
            server.client.release(proto::ReleaseRequest { key, token, delay: None }).await.unwrap();
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
            assert_eq!(
                (once, seen.len()),
                (expected.clone(), expected.len()),
                "{states:?} {prefix} {newest_first}"
            );
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

/// What is beyond the mark is found by another way than what is before it.
async fn the_marks_change_nothing_that_is_shown(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let mut expected = Vec::new();
    for number in 0..30 {
        let id = format!("m{number:02}");
        let made = if number % 5 == 0 { Made::Done } else { Made::Held };
        let token = make(&mut server, "c", &id, made).await;
        if made == Made::Held {
            expected.push(id.clone());
        }
        if number % 7 == 0 && made == Made::Held {
            // Renewed: in the index before its time.
            let renew = proto::RenewRequest { key: key("c", &id), token, ..Default::default() };
            server.client.renew(renew).await.unwrap();
        }
        server.advance(Span::from_secs(7)).await;
    }
    for step in 0..4 {
        let held = filter(&[EntryState::InProgress]);
        assert_eq!(ids(&mut server, ask(held.clone(), false, 4)).await, expected, "{step}");
        let mut back = ids(&mut server, ask(held, true, 4)).await;
        back.reverse();
        assert_eq!(back, expected, "{step}");
        let request = proto::SummarizeEntriesRequest { consumer: "c".into(), ..Default::default() };
        let summary = server.admin.summarize_entries(request).await.unwrap().into_inner();
        let counts: Vec<(i32, i64)> =
            summary.consumers[0].states.iter().map(|state| (state.state, state.count)).collect();
        assert_eq!(counts, [(2, 24), (4, 6)], "{step}");
        if step < 2 {
            server.at.session().await.upkeep().index_open_claims(5).await.unwrap();
        } else {
            mark(&server).await;
            server.advance(Span::from_secs(61)).await;
        }
    }
    // Completed ones leave it, marked or not.
    let tokens = expected.clone();
    for id in &tokens {
        let asked = proto::GetEntryRequest { key: key("c", id), ..Default::default() };
        let entry = server.admin.get_entry(asked).await.unwrap().into_inner().entry.unwrap();
        let resolve = proto::ResolveEntryRequest {
            key: key("c", id),
            request_id: format!("resolve {id}"),
            expected_version: entry.version,
            reason: "done".into(),
            force: true,
            state: EntryState::Completed.into(),
            ..Default::default()
        };
        server.admin.resolve_entry(resolve).await.unwrap();
    }
    assert!(ids(&mut server, ask(filter(&[EntryState::InProgress]), false, 4)).await.is_empty());
    server.stop().await;
}

/// Some always have new claims; the others are not forgotten for them.
async fn every_consumer_has_its_turn_to_be_marked(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let names: Vec<String> = (0..230).map(|number| format!("c{number:03}")).collect();
    let claims = |round: i32| {
        let one = |name: &String| claim(name, &round.to_string());
        proto::BatchClaimRequest { requests: names.iter().map(one).collect() }
    };
    let mut session = server.at.session().await;
    for round in 0..4 {
        server.client.batch_claim(claims(round)).await.unwrap();
        server.advance(Span::from_secs(61)).await;
        session.upkeep().index_open_claims(1_000).await.unwrap();
    }
    let Some(database) = &server.at.database else { return drop(server.stop().await) };
    let statement = "SELECT count(*) FROM ledger.consumers n WHERE n.marked_at = 0
                     AND EXISTS (SELECT 1 FROM ledger.entries e WHERE e.consumer = n.no)";
    let mut connection = crate::harness::postgres::shared().connect(database).await;
    let unmarked: i64 = sqlx::query_scalar(statement).fetch_one(&mut connection).await.unwrap();
    assert_eq!(unmarked, 0, "of 230 consumers");
    sqlx::Connection::close(connection).await.unwrap();
    server.stop().await;
}

async fn a_clock_that_was_set_back_hides_nothing(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    make(&mut server, "c", "before", Made::Held).await;
    server.advance(Span::from_secs(120)).await;
    mark(&server).await;
    // An hour back; what operators do then is to raise token_offset.
    server.advance(Span::from_secs(-3_600)).await;
    let meta = if kind == Kind::Postgres { "ledger.meta" } else { "meta" };
    server.at.execute(&format!("UPDATE {meta} SET token_offset = 7200000000")).await;
    mark(&server).await;
    make(&mut server, "c", "after", Made::Held).await;
    for seconds in [0, 61, 61] {
        server.advance(Span::from_secs(seconds)).await;
        let mut held = ids(&mut server, ask(filter(&[EntryState::InProgress]), false, 4)).await;
        held.sort();
        assert_eq!(held, ["after", "before"], "{seconds}");
        mark(&server).await;
    }
    server.stop().await;
}

async fn a_summary_counts_what_is_there(kind: Kind) {
    let few = Policy { max_attempts: 2, ..Policy::default() };
    let disabled = Policy { disabled: true, ..Policy::default() };
    let setup = Setup::default().with("few", few).with("held", disabled);
    let mut server = TestServer::start_with(kind, setup).await;
    for (number, made) in ALL.iter().enumerate() {
        for copy in 0..=number {
            make(&mut server, "c", &format!("{made:?}-{copy}"), *made).await;
        }
        server.advance(Span::from_secs(10)).await;
    }
    make(&mut server, "few", "1", Made::Retried).await;
    make(&mut server, "few", "2", Made::Done).await;
    // The microseconds of a grant would tell its token.
    server.advance(Span(7)).await;
    let summarize =
        |consumer: &str| proto::SummarizeEntriesRequest { consumer: consumer.into(), ..Default::default() };
    let answer = server.admin.summarize_entries(summarize("c")).await.unwrap().into_inner();
    let [summary] = answer.consumers.as_slice() else { panic!("{answer:?}") };
    let told: Vec<(EntryState, ParkCause, i64, Option<i64>)> = summary
        .states
        .iter()
        .map(|one| (one.state(), one.cause(), one.count, one.oldest_age.map(|age| age.seconds)))
        .collect();
    let none = ParkCause::Unspecified;
    assert_eq!(
        told,
        [
            (EntryState::Received, none, 4, Some(30)),
            (EntryState::InProgress, none, 1, Some(60)),
            (EntryState::FailedRetryable, none, 5, Some(20)),
            (EntryState::Completed, none, 2, None),
            (EntryState::FailedTerminal, none, 6, Some(10)),
            (EntryState::Parked, ParkCause::Consumer, 3, Some(40)),
        ]
    );
    assert!(summary.states.iter().all(|state| !state.estimated) && !summary.disabled);
    let ages = summary.states.iter().filter_map(|state| state.oldest_age).chain(summary.longest_expired);
    assert!(ages.map(|age| age.nanos).all(|nanos| nanos == 0) && answer.as_of.unwrap().nanos == 0);
    // Its lease of 30 s and its grace of 1 s were over 29 s ago.
    assert_eq!((summary.expired, summary.longest_expired.map(|span| span.seconds)), (1, Some(29)));
    assert_eq!(summary.near_exhaustion, 0);
    let few = server.admin.summarize_entries(summarize("few")).await.unwrap().into_inner();
    assert_eq!(few.consumers[0].near_exhaustion, 1, "one attempt of two was used");
    let held = server.admin.summarize_entries(summarize("held")).await.unwrap().into_inner();
    assert!(held.consumers[0].disabled && held.consumers[0].states.is_empty());
    server.stop().await;
}

/// What a consumer has COMPLETED, and whether that is an estimate.
async fn completed(server: &TestServer, consumer: &str) -> Option<(i64, bool)> {
    let request = proto::SummarizeEntriesRequest { consumer: consumer.into(), ..Default::default() };
    let answer = server.admin.clone().summarize_entries(request).await.unwrap().into_inner();
    let [summary] = answer.consumers.as_slice() else { panic!("{answer:?}") };
    let completed = summary.states.iter().find(|one| one.state() == EntryState::Completed);
    completed.map(|one| (one.count, one.estimated))
}

async fn a_small_ledger_is_counted_exactly(kind: Kind) {
    const EXACT_MAX: i64 = 4_000;
    let server = TestServer::start(kind).await;
    let part = |consumer: &str, ids: std::ops::Range<i64>| proto::ImportEntriesRequest {
        operation_id: "before".into(),
        reason: "adoption".into(),
        entries: ids
            .map(|id| proto::ImportedEntry { key: key(consumer, &id.to_string()), ..Default::default() })
            .collect(),
    };
    let import = async |parts: Vec<proto::ImportEntriesRequest>| {
        let stored = server.admin.clone().import_entries(futures_util::stream::iter(parts)).await;
        let mut stored = stored.unwrap().into_inner();
        while let Some(answer) = stored.message().await.unwrap() {
            assert!(answer.rejections.is_empty(), "{answer:?}");
        }
    };
    let most = (0..4).map(|at| part("c", at * 1_000..(at + 1) * 1_000 - i64::from(at == 3)));
    import(most.chain([part("d", 0..1)]).collect()).await;
    assert_eq!(completed(&server, "c").await, Some((EXACT_MAX - 1, false)));
    assert_eq!(completed(&server, "d").await, Some((1, false)));
    assert_eq!(completed(&server, "nobody").await, None);
    import(vec![part("d", 1..2)]).await;
    let (estimate, estimated) = completed(&server, "c").await.unwrap();
    assert!(estimated && (EXACT_MAX - 1..EXACT_MAX + 40).contains(&estimate), "{estimate}");
    server.stop().await;
}

async fn a_summary_pages_through_the_consumers(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for name in ["b", "a", "c", "ä", "A"] {
        make(&mut server, name, "1", Made::Parked).await;
    }
    let (mut seen, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = proto::SummarizeEntriesRequest { page_size: 2, page_token, ..Default::default() };
        let page = server.admin.summarize_entries(request).await.unwrap().into_inner();
        assert!(page.consumers.iter().all(|one| one.states[0].count == 1));
        seen.extend(page.consumers.into_iter().map(|one| one.consumer));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, ["A", "a", "b", "c", "ä"], "by bytes");
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
    let refused = server.admin.list_entries(ask(wrong, false, 1_001)).await.unwrap_err();
    assert_eq!(
        fields(&refused),
        [
            "filter.consumer",
            "filter.source",
            "filter.id_prefix",
            "filter.states[1]",
            "filter.states[2]",
            "filter.causes[0]",
            "filter.min_age",
            "filter.max_age",
            "page_size",
        ]
    );
    let crossed = EntryFilter { min_age: span(2), max_age: span(1), ..filter(&[]) };
    let request = ListEntriesRequest { order: 7, ..ask(crossed, false, 1) };
    let refused = server.admin.list_entries(request).await.unwrap_err();
    assert_eq!(fields(&refused), ["filter.min_age", "order"]);
    let many = filter(&[EntryState::Parked; 7]);
    let refused = server.admin.list_entries(ask(many, false, 1)).await.unwrap_err();
    assert_eq!(fields(&refused), ["filter.states"]);
    let request =
        proto::SummarizeEntriesRequest { consumer: "c".into(), page_size: 101, page_token: "b".into() };
    let refused = server.admin.summarize_entries(request).await.unwrap_err();
    assert_eq!(fields(&refused), ["page_size", "page_token"]);
    server.stop().await;
}

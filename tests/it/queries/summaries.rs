//! Counts: exact for what is not COMPLETED, page by page through the consumers.

use idempotency_ledger::domain::{Policy, Span, State};
use idempotency_ledger::proto::{self, EntryState, ParkCause};

use super::{ALL, Made, make};
use crate::harness::details::key;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::inbox::{inbox, message, next};

on_both_stores!(
    a_summary_counts_what_is_there,
    a_small_ledger_is_counted_exactly,
    a_summary_pages_through_the_consumers,
    summary_counts_stored_messages,
    parked_entries_are_bounded_over_all_causes_together,
);

async fn summary_counts_stored_messages(kind: Kind) {
    let setup = Setup::default().with("c", inbox()).with("quiet", inbox());
    let mut server = TestServer::start_with(kind, setup).await;
    make(&mut server, "plain", "1", Made::Held).await;
    make(&mut server, "quiet", "1", Made::Done).await;
    server.client.store(message("first")).await.unwrap();
    server.advance(Span::from_secs(20)).await;
    for number in 0..3 {
        server.client.store(message(&format!("{number}"))).await.unwrap();
    }
    let handed = server.client.claim_next(next(1)).await.unwrap().into_inner();
    assert_eq!(handed.messages.len(), 1);
    server.advance(Span::from_secs(10)).await;
    let all = server.admin.summarize_entries(proto::SummarizeEntriesRequest::default()).await;
    let counted: Vec<_> = all.unwrap().into_inner().consumers.into_iter().map(shown).collect();
    let (mine, quiet) = (Some((3, 1, Some(10), false)), Some((0, 0, None, false)));
    assert_eq!(counted, [("c".into(), mine), ("plain".into(), None), ("quiet".into(), quiet)]);
    // Of more than 1,000 only 1,000 are counted.
    for (stored, expected) in [(997, (1_000, false)), (1, (1_000, true))] {
        let requests = (0..stored).map(|number| message(&format!("{stored}-{number}"))).collect();
        server.client.batch_store(proto::BatchStoreRequest { requests }).await.unwrap();
        let request = proto::SummarizeEntriesRequest { consumer: "c".into(), ..Default::default() };
        let answer = server.admin.summarize_entries(request).await.unwrap().into_inner();
        let (due, _, _, at_least) = shown(answer.consumers[0].clone()).1.unwrap();
        assert_eq!((due, at_least), expected, "{stored} more");
    }
    // An inbox that was switched off still has its messages.
    let off = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: "off".into(),
        reason: "test".into(),
        update_mask: Some(prost_types::FieldMask { paths: vec!["inbox".into()] }),
        policy: Some(proto::Policy { inbox: Some(false), ..Default::default() }),
        ..Default::default()
    };
    server.admin.set_policy(off).await.unwrap();
    let mine = Some((1_000, 1, Some(10), true));
    for (consumer, expected) in [("c", mine), ("plain", None), ("quiet", quiet)] {
        let request = proto::SummarizeEntriesRequest { consumer: consumer.into(), ..Default::default() };
        let answer = server.admin.summarize_entries(request).await.unwrap().into_inner();
        assert_eq!(shown(answer.consumers[0].clone()).1, expected, "{consumer}");
    }
    server.stop().await;
}

/// The consumer, and of its stored messages: due, later, the age of the oldest, and whether there are more.
fn shown(summary: proto::ConsumerSummary) -> (String, Option<(i64, i64, Option<i64>, bool)>) {
    let inbox = summary
        .inbox
        .map(|one| (one.due, one.later, one.oldest_due_age.map(|age| age.seconds), one.at_least));
    (summary.consumer, inbox)
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

async fn parked_entries_are_bounded_over_all_causes_together(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for id in ["1", "2"] {
        make(&mut server, "c", id, Made::Parked).await;
        make(&mut server, "c", &format!("retried {id}"), Made::Retried).await;
    }
    let request = proto::ParkEntriesRequest {
        filter: Some(proto::EntryFilter {
            consumer: "c".into(),
            states: vec![EntryState::FailedRetryable.into()],
            ..Default::default()
        }),
        operation_id: "park".into(),
        reason: "looks wrong".into(),
        rate: 1_000,
        ..Default::default()
    };
    let mut answers = server.admin.park_entries(request).await.unwrap().into_inner();
    while answers.message().await.unwrap().is_some() {}
    let mut session = server.at.session().await;
    for (most, at_least) in [(5, false), (4, false), (3, true), (1, true)] {
        let summary = session.operators().summary(&[("c".to_owned(), None)], most).await.unwrap();
        let parked = summary.counts.iter().filter(|count| matches!(count.state, State::Parked(_)));
        let found: Vec<bool> = parked.map(|count| count.at_least).collect();
        assert!(found.contains(&true) == at_least, "four are PARKED, up to {most} are counted: {summary:?}");
    }
    drop(session);
    server.stop().await;
}

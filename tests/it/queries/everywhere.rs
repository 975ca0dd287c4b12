//! Lists and groups over more consumers than one statement looks at, and doubled entries of all of them.

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::{
    self, EffectEvidence, EntryFilter, EntryState, GroupEntriesRequest, ReconcileOutcome,
};

use super::open::{all, named};
use super::{Made, ask, make, mark};
use crate::harness::details::key;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, TestServer};

on_both_stores!(
    list_of_all_consumers_goes_on_behind_consumers_without_open_entries,
    list_of_all_consumers_pages_within_and_across_consumers,
    doubled_entries_of_all_consumers_are_listed_with_completed_ones,
    groups_of_more_than_a_hundred_consumers_are_a_sample,
);

/// One statement looks at 100 names, and reads at most 20 consumers with open entries: here it finds two or three.
async fn list_of_all_consumers_goes_on_behind_consumers_without_open_entries(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let mut expected = Vec::new();
    for number in 0..250 {
        let (name, is_open) = (format!("c{number:03}"), number % 41 == 3);
        make(&mut server, &name, "1", if is_open { Made::Parked } else { Made::Done }).await;
        if is_open {
            expected.push(format!("{name}/1"));
        }
    }
    assert_eq!(expected.len(), 7);
    for size in [1, 3, 1_000] {
        let (found, _) = named(&mut server, ask(all(&[]), false, size)).await;
        assert_eq!(found, expected, "by {size}");
    }
    server.stop().await;
}

async fn list_of_all_consumers_pages_within_and_across_consumers(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let mut expected = Vec::new();
    for (name, count) in [("a", 7), ("b", 1), ("c", 12), ("d", 3)] {
        for id in 0..count {
            make(&mut server, name, &format!("{id:02}"), Made::Parked).await;
            server.advance(Span::from_secs(1)).await;
            expected.push(format!("{name}/{id:02}"));
        }
    }
    for size in [1, 3, 7, 8, 11, 23] {
        let (found, largest) = named(&mut server, ask(all(&[]), false, size)).await;
        assert_eq!(found, expected, "by {size}");
        assert_eq!(largest, usize::try_from(size).unwrap(), "a page is filled across consumers");
    }
    server.stop().await;
}

/// A row of a spool for an effect that its consumer completed by a claim, too.
async fn doubled(server: &mut TestServer, consumer: &str, id: &str) {
    let row = proto::ReconcileRow {
        key: key(consumer, id),
        at: Some(prost_types::Timestamp { seconds: START.micros() / 1_000_000 - 60, nanos: 0 }),
        evidence: EffectEvidence::Spool.into(),
        ..Default::default()
    };
    let request = proto::ReconcileEntriesRequest {
        reason: "the ledger was away".into(),
        dry_run: false,
        rows: vec![row],
    };
    let results = server.admin.reconcile_entries(request).await.unwrap().into_inner().results;
    assert_eq!(results[0].outcome(), ReconcileOutcome::Doubled, "{results:?}");
}

async fn doubled_entries_of_all_consumers_are_listed_with_completed_ones(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for name in ["a", "b", "c"] {
        for (id, made) in [("done", Made::Done), ("parked", Made::Parked), ("twice", Made::Done)] {
            make(&mut server, name, id, made).await;
            server.advance(Span::from_secs(1)).await;
        }
    }
    for name in ["a", "c"] {
        doubled(&mut server, name, "twice").await;
    }
    mark(&server).await;
    let of = |states: &[EntryState]| EntryFilter { doubled: true, ..all(states) };
    let both = ["a/twice", "c/twice"];
    for (filter, expected) in [
        (of(&[]), &both[..]),
        (of(&[EntryState::Completed]), &both),
        (of(&[EntryState::Parked]), &[]),
        (all(&[]), &["a/parked", "b/parked", "c/parked"]),
    ] {
        for size in [1, 2, 100] {
            let (mut found, _) = named(&mut server, ask(filter.clone(), false, size)).await;
            found.sort();
            assert_eq!(found, expected, "by {size}: {filter:?}");
        }
    }
    // Another entry of a consumer that has no other one.
    make(&mut server, "0", "twice", Made::Done).await;
    doubled(&mut server, "0", "twice").await;
    let page = server.admin.list_entries(ask(of(&[]), true, 100)).await.unwrap().into_inner();
    let first = &page.entries[0];
    assert_eq!((first.key.clone(), first.state()), (key("0", "twice"), EntryState::Completed));
    assert!(page.entries.len() == 3 && page.entries.iter().all(|entry| entry.doubled));
    server.stop().await;
}

async fn groups_of_more_than_a_hundred_consumers_are_a_sample(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for number in 0..100 {
        make(&mut server, &format!("c{number:03}"), "1", Made::Parked).await;
    }
    for (extra, is_sample) in [(None, false), (Some("d"), true)] {
        if let Some(name) = extra {
            make(&mut server, name, "1", Made::Parked).await;
        }
        let request = GroupEntriesRequest { filter: Some(EntryFilter::default()), maximum: 1_000 };
        let answer = server.admin.group_entries(request).await.unwrap().into_inner();
        assert_eq!((answer.is_sample, answer.looked_at, answer.groups.len()), (is_sample, 100, 100));
        let names: std::collections::BTreeSet<&str> =
            answer.groups.iter().map(|one| one.consumer.as_str()).collect();
        assert!(names.len() == 100 && !names.contains("d"), "the first hundred of them");
    }
    // Of one consumer the groups are whole.
    let filter = Some(EntryFilter { consumer: "d".into(), ..Default::default() });
    let one = server.admin.group_entries(GroupEntriesRequest { filter, maximum: 0 }).await.unwrap();
    assert!(!one.into_inner().is_sample);
    server.stop().await;
}

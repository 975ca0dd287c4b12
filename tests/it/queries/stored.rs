//! Entries by what the ledger keeps of their message.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::{
    EntryFilter, EntryState, GetEntryRequest, MessageState, RedriveEntriesRequest, RedriveEntryRequest,
    SummarizeEntriesRequest,
};

use super::{Made, ask, ids, make};
use crate::harness::details::{fields, key};
use crate::harness::faulty::{FaultyStore, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer, TestStore};
use crate::inbox::{inbox, message, next, server as with_inbox};

on_both_stores!(
    entries_are_found_by_what_is_kept_of_their_message,
    summary_whose_count_of_messages_fails_has_the_states,
);

/// The states of entries are what an operator looks for while a store is in trouble.
async fn summary_whose_count_of_messages_fails_has_the_states(kind: Kind) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    let mut server = TestServer::on(at, Setup::default().with("c", inbox())).await;
    server.client.store(message("1")).await.unwrap();
    for (no_due_counts, expected) in [(false, Some(1)), (true, None), (false, Some(1))] {
        plan.no_due_counts.store(no_due_counts, Ordering::SeqCst);
        for consumer in ["", "c"] {
            let request = SummarizeEntriesRequest { consumer: consumer.into(), ..Default::default() };
            let found = server.admin.summarize_entries(request).await.unwrap().into_inner().consumers;
            assert_eq!(
                found.iter().map(|one| &*one.consumer).collect::<Vec<_>>(),
                ["c"],
                "asked for {consumer:?}"
            );
            let states: Vec<_> = found[0].states.iter().map(|of| (of.state(), of.count)).collect();
            assert_eq!(states, [(EntryState::Received, 1)], "asked for {consumer:?}");
            assert_eq!(found[0].inbox.map(|inbox| inbox.due), expected, "asked for {consumer:?}");
        }
    }
    server.stop().await;
}

async fn entries_are_found_by_what_is_kept_of_their_message(kind: Kind) {
    let mut server = with_inbox(kind).await;
    make(&mut server, "c", "plain", Made::Held).await;
    server.advance(Span::from_secs(1)).await;
    for id in ["erased", "held", "due"] {
        server.client.store(message(id)).await.unwrap();
        if id == "erased" {
            let entry =
                server.admin.get_entry(GetEntryRequest { key: key("c", id), ..Default::default() }).await;
            let redrive = RedriveEntryRequest {
                key: key("c", id),
                request_id: "r".into(),
                reason: "test".into(),
                expected_version: entry.unwrap().into_inner().entry.unwrap().version,
                drop_fingerprint: true,
                force: true,
                ..Default::default()
            };
            server.admin.redrive_entry(redrive).await.unwrap();
        } else if id == "held" {
            let handed = server.client.claim_next(next(1)).await.unwrap().into_inner();
            assert_eq!(handed.messages[0].key, key("c", id));
        }
        server.advance(Span::from_secs(1)).await;
    }
    let of = |inbox: MessageState, states: &[EntryState]| EntryFilter {
        consumer: "c".into(),
        inbox: inbox.into(),
        states: states.iter().map(|state| (*state).into()).collect(),
        ..Default::default()
    };
    for (state, states, found) in [
        (MessageState::Unspecified, &[][..], &["plain", "erased", "held", "due"][..]),
        (MessageState::Kept, &[], &["held", "due"]),
        (MessageState::Kept, &[EntryState::InProgress], &["held"]),
        (MessageState::Erased, &[], &["erased"]),
        (MessageState::Erased, &[EntryState::InProgress], &[]),
    ] {
        for newest_first in [false, true] {
            let mut expected = found.to_vec();
            if newest_first {
                expected.reverse();
            }
            let listed = ids(&mut server, ask(of(state, states), newest_first, 1)).await;
            assert_eq!(listed, expected, "{state:?} {states:?}");
        }
    }
    // Rows that do not match take no place of the page.
    let page = server.admin.list_entries(ask(of(MessageState::Kept, &[]), false, 2)).await.unwrap();
    assert_eq!(page.into_inner().entries.len(), 2);
    let unknown = EntryFilter { inbox: 3, ..of(MessageState::Kept, &[]) };
    let refused = server.admin.list_entries(ask(unknown.clone(), false, 1)).await.unwrap_err();
    assert_eq!(fields(&refused), ["filter.inbox"]);
    let parked = EntryFilter { states: vec![EntryState::Parked.into()], ..unknown };
    let bulk = RedriveEntriesRequest { filter: Some(parked), ..crate::bulk::redrive("op") };
    let refused = server.admin.redrive_entries(bulk).await.unwrap_err();
    assert_eq!(fields(&refused), ["filter.inbox"]);
    server.stop().await;
}

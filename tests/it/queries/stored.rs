//! Entries by what the ledger keeps of their message.

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::{
    EntryFilter, EntryState, GetEntryRequest, MessageState, RedriveEntriesRequest, RedriveEntryRequest,
};

use super::{Made, ask, ids, make};
use crate::harness::details::{fields, key};
use crate::harness::on_both_stores;
use crate::harness::server::Kind;
use crate::inbox::{message, next, server as with_inbox};

on_both_stores!(entries_are_found_by_what_is_kept_of_their_message);

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
    let unknown = EntryFilter { inbox: 3, ..of(MessageState::Kept, &[]) };
    let refused = server.admin.list_entries(ask(unknown.clone(), false, 1)).await.unwrap_err();
    assert_eq!(fields(&refused), ["filter.inbox"]);
    let parked = EntryFilter { states: vec![EntryState::Parked.into()], ..unknown };
    let bulk = RedriveEntriesRequest { filter: Some(parked), ..crate::bulk::redrive("op") };
    let refused = server.admin.redrive_entries(bulk).await.unwrap_err();
    assert_eq!(fields(&refused), ["filter.inbox"]);
    server.stop().await;
}

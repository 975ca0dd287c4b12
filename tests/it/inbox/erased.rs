//! An entry whose message is erased waits for another delivery: each change that makes such an entry due answers so.
//! docs/contract.md, section 15.

use futures_util::TryStreamExt as _;
use idempotency_ledger::proto::{self, EntryState, MessageState};

use super::kept::redriven;
use super::next::entry;
use super::{server, stored};
use crate::bulk::redrive;
use crate::harness::details::key;
use crate::harness::on_both_stores;
use crate::harness::server::Kind;

on_both_stores!(
    changes_of_one_entry_say_that_its_message_is_erased,
    changes_of_many_entries_say_whose_messages_are_erased
);

/// A redrive that erases a stored message.
fn without_the_fingerprint() -> proto::RedriveEntryRequest {
    proto::RedriveEntryRequest { drop_fingerprint: true, force: true, ..Default::default() }
}

async fn changes_of_one_entry_say_that_its_message_is_erased(kind: Kind) {
    let mut server = server(kind).await;
    for (state, erased) in
        [(EntryState::Received, true), (EntryState::Completed, false), (EntryState::FailedTerminal, false)]
    {
        let id = state.as_str_name();
        stored(&mut server, id).await;
        assert!(!redriven(&mut server, id, proto::RedriveEntryRequest::default()).await.message_erased);
        for change in [without_the_fingerprint(), proto::RedriveEntryRequest::default()] {
            let redriven = redriven(&mut server, id, change).await;
            let found = (redriven.message_erased, redriven.entry.unwrap().message_state());
            assert_eq!(found, (true, MessageState::Erased), "{id}");
        }
        let request = proto::ResolveEntryRequest {
            key: key("c", id),
            request_id: format!("resolve {id}"),
            expected_version: entry(&mut server, id).await.version,
            reason: "tests".into(),
            state: state.into(),
            ..Default::default()
        };
        let resolved = server.admin.resolve_entry(request).await.unwrap().into_inner();
        assert_eq!(resolved.message_erased, erased, "{id}");
    }
    server.stop().await;
}

/// A dry run says the same as the operation.
async fn changes_of_many_entries_say_whose_messages_are_erased(kind: Kind) {
    let mut server = server(kind).await;
    for id in ["kept", "erased"] {
        stored(&mut server, id).await;
    }
    redriven(&mut server, "erased", without_the_fingerprint()).await;
    let received = || {
        let states = vec![EntryState::Received.into()];
        Some(proto::EntryFilter { consumer: "c".into(), states, ..Default::default() })
    };
    let shown = |outcomes: Vec<(Option<proto::EntryKey>, bool)>| {
        let mut shown: Vec<_> = outcomes.into_iter().map(|(key, erased)| (key.unwrap().id, erased)).collect();
        shown.sort();
        shown
    };
    let known = [("erased".to_owned(), true), ("kept".to_owned(), false)];
    for dry_run in [true, false] {
        let request = proto::RedriveEntriesRequest { filter: received(), dry_run, ..redrive("redrive") };
        let reports = server.admin.redrive_entries(request).await.unwrap().into_inner();
        let reports: Vec<proto::RedriveEntriesResponse> = reports.try_collect().await.unwrap();
        let outcomes = reports.into_iter().flat_map(|report| report.outcomes);
        assert_eq!(shown(outcomes.map(|one| (one.key, one.message_erased)).collect()), known, "{dry_run}");
    }
    for (state, erased) in [(EntryState::Received, true), (EntryState::FailedTerminal, false)] {
        let request = proto::ResolveEntriesRequest {
            filter: received(),
            operation_id: format!("resolve {}", state.as_str_name()),
            reason: "tests".into(),
            rate: 1_000,
            state: state.into(),
            ..Default::default()
        };
        let reports = server.admin.resolve_entries(request).await.unwrap().into_inner();
        let reports: Vec<proto::ResolveEntriesResponse> = reports.try_collect().await.unwrap();
        let outcomes = reports.into_iter().flat_map(|report| report.outcomes);
        let expected = known.clone().map(|(id, was_erased)| (id, was_erased && erased));
        assert_eq!(shown(outcomes.map(|one| (one.key, one.message_erased)).collect()), expected, "{state:?}");
    }
    server.stop().await;
}

//! A page looks at a bounded number of entries, whatever the filter leaves out; the pages together show all that fits, once
//! and in order. Counts are bounded too, and report it.

use std::collections::HashMap;

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::{
    self, EntryFilter, EntryState, FailureKind, ListEntriesResponse, settlement,
};

use super::{ask, filter, mark};
use crate::harness::details::{acquired, claim, key};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(
    a_page_looks_at_a_thousand_entries,
    pages_of_several_states_show_each_entry_once,
    a_count_is_exact_up_to_its_bound,
    a_redrive_of_more_than_are_counted_leaves_as_many_as_there_may_be,
);

/// The most entries that a page looks at where the filter leaves some out, and that a summary counts.
const MOST: usize = 1_000;

async fn claim_all(server: &mut TestServer, ids: &[String]) -> HashMap<String, i64> {
    let mut tokens = HashMap::new();
    for part in ids.chunks(500) {
        let requests = part.iter().map(|id| claim("c", id)).collect();
        let answer = server.client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap();
        let granted = answer.into_inner().responses;
        tokens.extend(part.iter().cloned().zip(granted.iter().map(|one| acquired(one).token)));
        server.advance(Span::from_secs(1)).await;
    }
    tokens
}

async fn fail_all(server: &mut TestServer, tokens: &HashMap<String, i64>, ids: &[String], kind: FailureKind) {
    for part in ids.chunks(500) {
        let fail = |id: &String| {
            let fail = proto::FailRequest {
                key: key("c", id),
                token: tokens[id],
                kind: kind.into(),
                ..Default::default()
            };
            proto::Settlement { action: Some(settlement::Action::Fail(fail)) }
        };
        let settlements = part.iter().map(fail).collect();
        let settled = server.client.batch_settle(proto::BatchSettleRequest { settlements }).await.unwrap();
        assert_eq!(settled.into_inner().results.len(), part.len());
    }
}

async fn walk(server: &mut TestServer, filter: EntryFilter, newest_first: bool) -> Vec<ListEntriesResponse> {
    let mut request = ask(filter, newest_first, 300);
    let mut pages = Vec::new();
    loop {
        let page = server.admin.list_entries(request.clone()).await.unwrap().into_inner();
        request.page_token.clone_from(&page.next_page_token);
        pages.push(page);
        if request.page_token.is_empty() {
            return pages;
        }
        assert!(pages.len() < 1_000, "it ends");
    }
}

fn ids(pages: &[ListEntriesResponse]) -> Vec<String> {
    let entries = pages.iter().flat_map(|page| &page.entries);
    entries.map(|entry| entry.key.clone().unwrap().id).collect()
}

async fn a_page_looks_at_a_thousand_entries(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let all: Vec<String> = (0..2_500).map(|number| format!("{}-{number:04}", number % 7)).collect();
    claim_all(&mut server, &all).await;
    for newest_first in [false, true] {
        let none = EntryFilter { id_prefix: "no such".into(), ..filter(&[]) };
        let pages = walk(&mut server, none, newest_first).await;
        assert!(pages.iter().all(|page| page.entries.is_empty()));
        // Of 500 entries each second.
        let until: Vec<i64> =
            pages.iter().filter_map(|page| page.looked_at_until).map(|until| until.seconds).collect();
        let steps: Vec<i64> = until.windows(2).map(|two| (two[1] - two[0]).abs()).collect();
        assert_eq!((pages.len(), until.len(), steps), (2_500 / MOST + 1, 2, vec![2]), "{newest_first}");
        let some = EntryFilter { id_prefix: "3-".into(), ..filter(&[]) };
        let mut seen = ids(&walk(&mut server, some, newest_first).await);
        seen.sort();
        let mut expected: Vec<&String> = all.iter().filter(|id| id.starts_with("3-")).collect();
        expected.sort();
        assert_eq!(seen.iter().collect::<Vec<_>>(), expected, "{newest_first}");
    }
    server.stop().await;
}

/// Of each state a part of the bound is looked at. Where one state has many entries and the others have later ones, these wait
/// for the page on which their turn is.
async fn pages_of_several_states_show_each_entry_once(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let all: Vec<String> = (0..2_000).map(|number| format!("{number:04}")).collect();
    let tokens = claim_all(&mut server, &all).await;
    fail_all(&mut server, &tokens, &all[..900], FailureKind::Park).await;
    fail_all(&mut server, &tokens, &all[1_200..1_700], FailureKind::Terminal).await;
    mark(&server).await;
    let open = filter(&[EntryState::InProgress, EntryState::Parked, EntryState::FailedTerminal]);
    for prefix in ["", "0", "1"] {
        for newest_first in [false, true] {
            let open = EntryFilter { id_prefix: prefix.into(), ..open.clone() };
            let pages = walk(&mut server, open, newest_first).await;
            let shown: Vec<String> = pages
                .iter()
                .flat_map(|page| &page.entries)
                .map(|entry| format!("{:?} {}", entry.created_at, entry.key.clone().unwrap().id))
                .collect();
            let mut seen = ids(&pages);
            seen.sort();
            let expected: Vec<&String> = all.iter().filter(|id| id.starts_with(prefix)).collect();
            assert_eq!(seen.iter().collect::<Vec<_>>(), expected, "{prefix} {newest_first} {shown:?}");
            let instants = pages.iter().flat_map(|page| &page.entries);
            let instants: Vec<i64> = instants.map(|entry| entry.created_at.unwrap().seconds).collect();
            let in_order =
                instants.is_sorted_by(|one, next| if newest_first { one >= next } else { one <= next });
            assert!(in_order, "{prefix} {newest_first}");
        }
    }
    server.stop().await;
}

async fn a_count_is_exact_up_to_its_bound(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let all: Vec<String> = (0..2_200).map(|number| format!("{number:04}")).collect();
    let tokens = claim_all(&mut server, &all).await;
    fail_all(&mut server, &tokens, &all[..MOST], FailureKind::Park).await;
    server.advance(Span::from_secs(120)).await;
    for marked in [false, true] {
        let request = proto::SummarizeEntriesRequest { consumer: "c".into(), ..Default::default() };
        let answer = server.admin.summarize_entries(request).await.unwrap().into_inner();
        let summary = &answer.consumers[0];
        let counts: Vec<(EntryState, i64, bool)> =
            summary.states.iter().map(|one| (one.state(), one.count, one.at_least)).collect();
        let expected =
            [(EntryState::InProgress, MOST as i64 + 1, true), (EntryState::Parked, MOST as i64, false)];
        assert_eq!((&counts[..], summary.expired), (&expected[..], MOST as i64 + 1), "{marked}");
        let mut session = server.at.session().await;
        let whole = session.operators().summary(&[("c".into(), None)], 1_000_000).await.unwrap();
        let whole: Vec<(i64, bool)> = whole.counts.iter().map(|one| (one.count, one.at_least)).collect();
        assert_eq!(whole, [(1_200, false), (1_000, false)], "{marked}");
        mark(&server).await;
    }
    server.stop().await;
}

async fn a_redrive_of_more_than_are_counted_leaves_as_many_as_there_may_be(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let all: Vec<String> = (0..MOST + 200).map(|number| format!("{number:04}")).collect();
    let tokens = claim_all(&mut server, &all).await;
    fail_all(&mut server, &tokens, &all, FailureKind::Park).await;
    let request = proto::RedriveEntriesRequest {
        filter: Some(filter(&[EntryState::Parked])),
        operation_id: "counted".into(),
        reason: "counted".into(),
        dry_run: true,
        maximum: 5_000,
        ..Default::default()
    };
    let mut stream = server.admin.redrive_entries(request).await.unwrap().into_inner();
    let mut done = 0;
    while let Some(progress) = stream.message().await.unwrap() {
        done += progress.outcomes.len();
        let left = i64::try_from(all.len() - done).unwrap();
        assert!(progress.finished || progress.at_most_left >= left, "{} of {left}", progress.at_most_left);
    }
    assert_eq!(done, all.len());
    server.stop().await;
}

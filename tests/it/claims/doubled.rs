//! Two claims of one message that both report its effect as done, in either order: an alarm, once for each report after the
//! first one, and an entry that operators find.

use idempotency_ledger::domain::{Entry, Span, State};
use idempotency_ledger::proto;
use idempotency_ledger::proto::settlement::Action;
use idempotency_ledger::proto::settlement_result::Outcome;
use tonic::Code;

use super::{complete, delivery, entry, fail, release, server, take};
use crate::harness::details::refusal;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(
    a_holder_that_was_overtaken_learns_that_the_other_completed,
    two_completes_in_either_order_are_an_alarm,
    a_mark_changes_nothing_else_of_the_entry,
    a_holder_that_repeats_itself_is_no_alarm,
    a_second_report_behind_a_forced_redrive_is_an_alarm,
    reports_that_wait_together_are_told_apart,
    an_attempt_without_a_token_is_not_marked,
    a_report_behind_a_release_is_seen_by_a_batch,
    doubled_effects_are_listed_and_counted,
);

const DOUBLED: &str = "idempotency_ledger_doubled_effects_total{consumer=\"c\"}";

fn alarms(server: &TestServer) -> f64 {
    server.metric(DOUBLED).unwrap_or(0.0)
}

/// The answers to Completes, by single calls or as one batch: the reason of each refusal; empty: OK.
async fn report(server: &mut TestServer, id: &str, tokens: &[i64], batched: bool) -> Vec<String> {
    let requests = tokens.iter().map(|token| complete(id, *token, "done"));
    let mut said = Vec::new();
    if batched {
        let action = |request| proto::Settlement { action: Some(Action::Complete(request)) };
        let batch = proto::BatchSettleRequest { settlements: requests.map(action).collect() };
        for result in server.client.batch_settle(batch).await.unwrap().into_inner().results {
            said.push(match result.outcome.unwrap() {
                Outcome::Rejected(rejected) => {
                    rejected.reason().as_str_name().trim_start_matches("ERROR_REASON_").to_owned()
                }
                _ => String::new(),
            });
        }
    } else {
        for request in requests {
            let answer = server.client.complete(request).await;
            said.push(answer.err().map_or_else(String::new, |status| refusal(&status).reason));
        }
    }
    said
}

/// A holder whose lease ends, and the one that gets its message.
async fn two_holders(server: &mut TestServer, id: &str) -> (i64, i64) {
    let first = take(server, delivery(id, 1)).await.token;
    server.advance(Span::from_secs(60)).await;
    (first, take(server, delivery(id, 2)).await.token)
}

async fn a_holder_that_was_overtaken_learns_that_the_other_completed(kind: Kind) {
    let mut server = server(kind).await;
    let slow = take(&mut server, delivery("1", 1)).await;
    server.advance(Span::from_secs(31)).await;
    let quick = take(&mut server, delivery("1", 2)).await;
    server.client.complete(complete("1", quick.token, "quick")).await.unwrap();
    let before = entry(&server, "1").await;
    let lost = server.client.complete(complete("1", slow.token, "slow")).await.unwrap_err();
    let refused = refusal(&lost);
    assert_eq!((refused.code, refused.reason.as_str()), (Code::Aborted, "LEASE_LOST"));
    assert_eq!((refused.state.as_str(), refused.advice.as_str()), ("COMPLETED", "ACK"));
    let mut after = entry(&server, "1").await;
    assert!(after.doubled, "{after:?}");
    (after.version, after.superseded_completes, after.doubled) = (before.version, 0, false);
    after.history[0].reported_done = false;
    assert_eq!(after, before, "more than the mark was changed");
    server.stop().await;
}

async fn two_completes_in_either_order_are_an_alarm(kind: Kind) {
    let mut server = server(kind).await;
    let mut expected = 0.0;
    for (round, batched) in [false, true].into_iter().enumerate() {
        for later_first in [false, true] {
            let id = format!("{round}-{later_first}");
            let (first, second) = two_holders(&mut server, &id).await;
            let order = if later_first { [second, first] } else { [first, second] };
            let answers = if later_first { ["", "LEASE_LOST"] } else { ["LEASE_LOST", ""] };
            for (token, answer) in order.into_iter().zip(answers) {
                assert_eq!(alarms(&server), expected, "{id}: one report is none");
                assert_eq!(report(&mut server, &id, &[token], batched).await, [answer], "{id}");
            }
            expected += 1.0;
            assert_eq!(alarms(&server), expected, "{id}");
            let entry = entry(&server, &id).await;
            assert_eq!((entry.superseded_completes, entry.doubled), (1, true), "{id}: {entry:?}");
            assert_eq!((entry.state, entry.token), (State::Completed, second), "{id}");
            assert!(
                entry.history[0].reported_done && entry.history[0].token == Some(first),
                "{id}: {entry:?}"
            );
        }
    }
    server.stop().await;
}

async fn a_mark_changes_nothing_else_of_the_entry(kind: Kind) {
    let mut server = server(kind).await;
    for completed in [false, true] {
        let id = completed.to_string();
        let (first, second) = two_holders(&mut server, &id).await;
        if completed {
            assert_eq!(report(&mut server, &id, &[second], false).await, [""]);
        }
        server.advance(Span::from_secs(5)).await;
        let before = entry(&server, &id).await;
        assert_eq!(report(&mut server, &id, &[first], false).await, ["LEASE_LOST"]);
        let after = entry(&server, &id).await;
        let mut history = before.history.clone();
        history[0].reported_done = true;
        let expected = Entry {
            version: before.version + 1,
            history,
            superseded_completes: 1,
            doubled: completed,
            ..before
        };
        assert_eq!(after, expected);
    }
    server.stop().await;
}

async fn a_holder_that_repeats_itself_is_no_alarm(kind: Kind) {
    let mut server = server(kind).await;
    // The one that has the message, and the one that has lost it.
    let (first, second) = two_holders(&mut server, "both").await;
    for batched in [false, true] {
        assert_eq!(report(&mut server, "both", &[second, second], batched).await, ["", ""]);
    }
    assert_eq!(alarms(&server), 0.0, "it repeats itself");
    assert_eq!(report(&mut server, "both", &[first], false).await, ["LEASE_LOST"]);
    let before = entry(&server, "both").await;
    for batched in [false, true] {
        assert_eq!(report(&mut server, "both", &[first, first], batched).await, ["LEASE_LOST", "LEASE_LOST"]);
        assert_eq!(report(&mut server, "both", &[second], batched).await, [""]);
    }
    assert_eq!(alarms(&server), 1.0, "all of these are repeats");
    assert_eq!(entry(&server, "both").await, before, "changed byte for byte");
    // The only report of a message, whose next holder fails.
    let (first, second) = two_holders(&mut server, "one").await;
    for _ in 0..2 {
        assert_eq!(report(&mut server, "one", &[first], false).await, ["LEASE_LOST"]);
    }
    server.client.fail(fail("one", second)).await.unwrap();
    assert_eq!(alarms(&server), 1.0, "one report");
    let entry = entry(&server, "one").await;
    assert_eq!((entry.superseded_completes, entry.doubled), (1, false));
    server.stop().await;
}

/// Who completed a message and is asked for nothing more repeats itself; who had lost it before that reports another effect.
async fn a_second_report_behind_a_forced_redrive_is_an_alarm(kind: Kind) {
    let mut server = server(kind).await;
    let (first, second) = two_holders(&mut server, "1").await;
    assert_eq!(report(&mut server, "1", &[second], false).await, [""]);
    let redrive = proto::RedriveEntryRequest {
        key: crate::harness::details::key("c", "1"),
        request_id: "again".into(),
        expected_version: entry(&server, "1").await.version,
        reason: "test".into(),
        force: true,
        ..Default::default()
    };
    server.admin.redrive_entry(redrive).await.unwrap();
    assert_eq!(report(&mut server, "1", &[second], false).await, ["LEASE_LOST"]);
    assert_eq!((alarms(&server), entry(&server, "1").await.superseded_completes), (0.0, 0), "a repeat");
    assert_eq!(report(&mut server, "1", &[first], false).await, ["LEASE_LOST"]);
    assert_eq!(alarms(&server), 1.0);
    assert!(entry(&server, "1").await.doubled);
    server.stop().await;
}

/// Decided together and written once, in the order in which they came.
async fn reports_that_wait_together_are_told_apart(kind: Kind) {
    let mut server = server(kind).await;
    let (first, second) = two_holders(&mut server, "1").await;
    let said = report(&mut server, "1", &[first, first, second, second, first], true).await;
    assert_eq!(said, ["LEASE_LOST", "LEASE_LOST", "", "", "LEASE_LOST"]);
    assert_eq!(alarms(&server), 1.0);
    let (first, second) = two_holders(&mut server, "2").await;
    assert_eq!(
        report(&mut server, "2", &[second, first, first], true).await,
        ["", "LEASE_LOST", "LEASE_LOST"]
    );
    assert_eq!(alarms(&server), 2.0);
    for id in ["1", "2"] {
        assert_eq!(entry(&server, id).await.superseded_completes, 1, "{id}");
    }
    server.stop().await;
}

/// As a version has written it that kept no tokens of past attempts.
async fn an_attempt_without_a_token_is_not_marked(kind: Kind) {
    let mut server = server(kind).await;
    let (first, second) = two_holders(&mut server, "1").await;
    server
        .at
        .execute("UPDATE @entries SET history = '[{\"n\":1,\"s\":1,\"e\":2,\"o\":\"worker\",\"by\":6}]' WHERE id = '1'")
        .await;
    let before = entry(&server, "1").await;
    assert_eq!((before.history[0].attempt, before.history[0].token), (1, None));
    assert_eq!(report(&mut server, "1", &[first], false).await, ["LEASE_LOST"]);
    assert_eq!(entry(&server, "1").await, before, "nothing is guessed");
    assert_eq!(report(&mut server, "1", &[second], false).await, [""]);
    assert_eq!(alarms(&server), 0.0);
    server.stop().await;
}

/// The attempt is given back: its message is completed in time and by its first attempt, as most are.
async fn a_report_behind_a_release_is_seen_by_a_batch(kind: Kind) {
    let mut server = server(kind).await;
    let mut settlements = Vec::new();
    for id in ["1", "2", "3"] {
        let first = take(&mut server, delivery(id, 1)).await.token;
        server.client.release(release(id, first)).await.unwrap();
        let second = take(&mut server, delivery(id, 2)).await;
        assert_eq!(second.attempt, 1);
        if id == "2" {
            assert_eq!(report(&mut server, id, &[first], false).await, ["LEASE_LOST"]);
        }
        let action = Some(Action::Complete(complete(id, second.token, "done")));
        settlements.push(proto::Settlement { action });
    }
    let results =
        server.client.batch_settle(proto::BatchSettleRequest { settlements }).await.unwrap().into_inner();
    assert!(
        results.results.iter().all(|one| matches!(&one.outcome, Some(Outcome::Complete(done)) if !done.late))
    );
    assert_eq!(alarms(&server), 1.0);
    server.stop().await;
}

async fn doubled_effects_are_listed_and_counted(kind: Kind) {
    let mut server = server(kind).await;
    for number in 0..5 {
        let id = number.to_string();
        let (first, second) = two_holders(&mut server, &id).await;
        // Of every other one the second holder is at work still.
        let tokens = if number % 2 == 0 { vec![first, second] } else { vec![first] };
        report(&mut server, &id, &tokens, false).await;
    }
    let mut of = async |order: proto::EntryOrder, states: Vec<i32>| {
        let filter = proto::EntryFilter { consumer: "c".into(), doubled: true, states, ..Default::default() };
        let mut request = proto::ListEntriesRequest {
            filter: Some(filter),
            order: order.into(),
            page_size: 2,
            ..Default::default()
        };
        let mut ids = Vec::new();
        loop {
            let page = server.admin.list_entries(request.clone()).await.unwrap().into_inner();
            for entry in page.entries {
                assert!(entry.doubled && entry.superseded_completes == 1 && entry.history[0].reported_done);
                ids.push(entry.key.unwrap().id);
            }
            if page.next_page_token.is_empty() {
                return ids;
            }
            request.page_token = page.next_page_token;
        }
    };
    assert_eq!(of(proto::EntryOrder::OldestFirst, vec![]).await, ["0", "2", "4"]);
    assert_eq!(of(proto::EntryOrder::NewestFirst, vec![]).await, ["4", "2", "0"]);
    let completed = vec![proto::EntryState::Completed.into()];
    assert_eq!(of(proto::EntryOrder::OldestFirst, completed).await, ["0", "2", "4"]);
    let open = vec![proto::EntryState::InProgress.into()];
    assert_eq!(of(proto::EntryOrder::OldestFirst, open).await, [""; 0]);
    for consumer in ["c", ""] {
        let request = proto::SummarizeEntriesRequest { consumer: consumer.into(), ..Default::default() };
        let summary = server.admin.summarize_entries(request).await.unwrap().into_inner();
        assert_eq!(summary.consumers[0].doubled, 3, "{summary:?}");
    }
    server.stop().await;
}

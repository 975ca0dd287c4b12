//! Store, row by row: docs/contract.md, section 15.

use idempotency_ledger::domain::{Policy, Span};
use idempotency_ledger::proto::{self, Advice, FailureKind};

use super::{answered, handed, inbox, message, next, seconds, server, server_with, stored};
use crate::harness::details::{acquired, claim, fields, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(
    store_is_answered_by_the_state_of_the_entry,
    other_fingerprint_is_a_mismatch,
    old_message_without_an_entry_is_outside_the_window,
    consumer_without_an_inbox_is_refused,
    faulty_message_names_field_and_limit,
    batch_is_answered_item_by_item,
    full_backlog_is_refused_and_heals,
    erased_message_comes_back_with_a_new_delivery,
    deleted_entry_leaves_no_message,
    erasure_that_is_late_shows_its_lag,
    stored_messages_are_counted_as_they_come_and_go,
    stored_message_is_counted_once_by_its_event_type,
);

pub(super) async fn answer_to(server: &mut TestServer, request: proto::StoreRequest) -> (String, Advice) {
    answered(&server.client.store(request).await.unwrap().into_inner())
}

pub(super) async fn held(server: &mut TestServer, id: &str) -> i64 {
    acquired(&server.client.claim(claim("c", id)).await.unwrap().into_inner()).token
}

pub(super) async fn failed(server: &mut TestServer, id: &str, kind: FailureKind) {
    let token = held(server, id).await;
    let request = proto::FailRequest {
        key: key("c", id),
        token,
        kind: kind.into(),
        error: "broken".into(),
        ..Default::default()
    };
    server.client.fail(request).await.unwrap();
}

async fn store_is_answered_by_the_state_of_the_entry(kind: Kind) {
    let mut server = server(kind).await;
    held(&mut server, "in progress").await;
    failed(&mut server, "retryable", FailureKind::Retryable).await;
    failed(&mut server, "terminal", FailureKind::Terminal).await;
    failed(&mut server, "parked", FailureKind::Park).await;
    let token = held(&mut server, "released").await;
    let request = proto::ReleaseRequest { key: key("c", "released"), token, ..Default::default() };
    server.client.release(request).await.unwrap();
    let token = held(&mut server, "completed").await;
    let request = proto::CompleteRequest { key: key("c", "completed"), token, ..Default::default() };
    server.client.complete(request).await.unwrap();
    // The id, the first answer with its advice, and that of a repeat.
    for (id, first, again, advice) in [
        ("absent", "stored RECEIVED", "already_stored RECEIVED", Advice::Ack),
        ("in progress", "stored IN_PROGRESS", "already_stored IN_PROGRESS", Advice::Ack),
        ("retryable", "stored FAILED_RETRYABLE", "already_stored FAILED_RETRYABLE", Advice::Ack),
        ("released", "stored RECEIVED", "already_stored RECEIVED", Advice::Ack),
        ("parked", "stored PARKED", "already_stored PARKED", Advice::Ack),
        ("completed", "completed", "completed", Advice::Ack),
        ("terminal", "failed broken", "failed broken", Advice::DeadLetter),
    ] {
        assert_eq!(answer_to(&mut server, message(id)).await, (first.to_owned(), advice), "{id}");
        let request = message(id);
        let response = server.client.store(request).await.unwrap().into_inner();
        assert_eq!(answered(&response), (again.to_owned(), advice), "{id} again");
        if let Some(proto::store_response::Verdict::AlreadyStored(it)) = response.verdict {
            assert!(it.stored_at.is_some(), "{id}");
        }
    }
    server.stop().await;
}

async fn other_fingerprint_is_a_mismatch(kind: Kind) {
    let mut server = server(kind).await;
    let with =
        |id: &str, digest: u8| proto::StoreRequest { fingerprint: vec![digest; 32].into(), ..message(id) };
    assert_eq!(answer_to(&mut server, with("1", 1)).await.0, "stored RECEIVED");
    assert_eq!(answer_to(&mut server, with("1", 1)).await.0, "already_stored RECEIVED");
    assert_eq!(
        answer_to(&mut server, with("1", 2)).await,
        ("fingerprint_mismatch".into(), Advice::DeadLetter)
    );
    // A claim without a fingerprint was first: the message pins it.
    held(&mut server, "2").await;
    assert_eq!(answer_to(&mut server, with("2", 1)).await.0, "stored IN_PROGRESS");
    assert_eq!(answer_to(&mut server, with("2", 2)).await.0, "fingerprint_mismatch");
    // A message that is kept keeps its fingerprint: an acknowledgement of another payload would lose that payload.
    let (id, token) = handed(&mut server, next(1)).await.remove(0);
    let release =
        proto::ReleaseRequest { key: key("c", &id), token, unpin_fingerprint: true, ..Default::default() };
    let released = server.client.release(release).await.unwrap().into_inner();
    assert!(!released.fingerprint_unpinned);
    assert_eq!(answer_to(&mut server, with(&id, 2)).await.0, "fingerprint_mismatch");
    server.stop().await;
}

async fn old_message_without_an_entry_is_outside_the_window(kind: Kind) {
    let mut server = server(kind).await;
    let made = |seconds: i64| Some(prost_types::Timestamp { seconds: 1_780_000_000 - seconds, nanos: 0 });
    const WEEK: i64 = 7 * 86_400;
    for (id, occurred_at, word) in [
        ("young", made(WEEK - 1), "stored RECEIVED"),
        ("old", made(WEEK), "outside_window"),
        ("without", None, "stored RECEIVED"),
    ] {
        let request = proto::StoreRequest { occurred_at, ..message(id) };
        let (found, advice) = answer_to(&mut server, request).await;
        assert_eq!(found, word, "{id}");
        assert_eq!(advice == Advice::DeadLetter, word == "outside_window");
    }
    server.stop().await;
}

async fn consumer_without_an_inbox_is_refused(kind: Kind) {
    let mut server = server(kind).await;
    let request = proto::StoreRequest { key: key("plain", "1"), ..message("1") };
    let refused = server.client.store(request).await.unwrap_err();
    let refusal = refusal(&refused);
    assert_eq!((refusal.reason.as_str(), refusal.advice.as_str()), ("INBOX_OFF", "RETRY_LATER"));
    server.stop().await;
}

async fn faulty_message_names_field_and_limit(kind: Kind) {
    let mut server = server(kind).await;
    let with = |change: fn(&mut proto::Message)| {
        let mut request = message("1");
        change(request.message.as_mut().unwrap());
        request
    };
    let header =
        |name: usize, value: usize| proto::Header { name: "n".repeat(name), value: vec![0; value].into() };
    let many = (0..65).map(|_| header(1, 1)).collect();
    let mut of_many = message("1");
    of_many.message.as_mut().unwrap().headers = many;
    let mut of_large = message("1");
    of_large.message.as_mut().unwrap().headers = vec![header(1, 16_384)];
    let mut of_nameless = message("1");
    of_nameless.message.as_mut().unwrap().headers = vec![header(0, 1), header(257, 1)];
    for (request, field, advice) in [
        (with(|it| it.payload = vec![0; (256 << 10) + 1].into()), "message.payload", "DEAD_LETTER"),
        (of_many, "message.headers", "DEAD_LETTER"),
        (of_large, "message.headers", "DEAD_LETTER"),
        (of_nameless, "message.headers[0].name", "DEAD_LETTER"),
        (with(|it| it.topic = "t".repeat(257)), "message.topic", "DEAD_LETTER"),
        (with(|it| it.message_key = vec![0; 513].into()), "message.message_key", "DEAD_LETTER"),
        (with(|it| it.event_version = "v".repeat(129)), "message.event_version", "DEAD_LETTER"),
        (with(|it| it.content_type = "a\n".into()), "message.content_type", "DEAD_LETTER"),
        (proto::StoreRequest { message: None, ..message("1") }, "message", "RETRY_LATER"),
        (
            proto::StoreRequest { fingerprint: vec![0; 65].into(), ..message("1") },
            "fingerprint",
            "RETRY_LATER",
        ),
        (proto::StoreRequest { key: None, ..message("1") }, "key", "RETRY_LATER"),
    ] {
        let refused = server.client.store(request).await.unwrap_err();
        assert_eq!(fields(&refused)[0], field);
        assert_eq!(refusal(&refused).advice, advice, "{field}");
    }
    let largest = with(|it| it.payload = vec![7; 256 << 10].into());
    assert_eq!(answer_to(&mut server, largest).await.0, "stored RECEIVED");
    let mut of_run = message("2");
    of_run.key.as_mut().unwrap().replay_run = "r".into();
    assert_eq!(fields(&server.client.store(of_run).await.unwrap_err()), ["key.replay_run"]);
    for (request, field) in [
        (proto::ClaimNextRequest { claim_id: String::new(), ..next(1) }, "claim_id"),
        (proto::ClaimNextRequest { claim_id: "x".into(), ..next(1) }, "claim_id"),
        (proto::ClaimNextRequest { consumer: String::new(), ..next(1) }, "consumer"),
        (proto::ClaimNextRequest { owner: "o".repeat(129), ..next(1) }, "owner"),
        (next(1_001), "max"),
        (next(-1), "max"),
        (proto::ClaimNextRequest { bytes_max: 3_670_017, ..next(1) }, "bytes_max"),
    ] {
        assert_eq!(fields(&server.client.claim_next(request).await.unwrap_err()), [field]);
    }
    server.stop().await;
}

async fn batch_is_answered_item_by_item(kind: Kind) {
    let mut server = server(kind).await;
    stored(&mut server, "before").await;
    let requests = vec![
        message("1"),
        message("before"),
        message("1"),
        proto::StoreRequest { key: key("plain", "1"), ..message("1") },
        proto::StoreRequest { message: None, ..message("2") },
        message("3"),
    ];
    let response = server.client.batch_store(proto::BatchStoreRequest { requests }).await;
    let words: Vec<String> =
        response.unwrap().into_inner().responses.iter().map(|one| answered(one).0).collect();
    assert_eq!(
        words,
        [
            "stored RECEIVED",
            "already_stored RECEIVED",
            "already_stored RECEIVED",
            "rejected ERROR_REASON_INBOX_OFF",
            "rejected ERROR_REASON_INVALID_FIELD",
            "stored RECEIVED",
        ]
    );
    let requests = (0..1_001).map(|id| message(&id.to_string())).collect();
    let refused = server.client.batch_store(proto::BatchStoreRequest { requests }).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "TOO_MANY_ITEMS");
    let requests: Vec<_> = (0..1_000).map(|id| message(&format!("many {id}"))).collect();
    let response = server.client.batch_store(proto::BatchStoreRequest { requests }).await.unwrap();
    assert!(response.into_inner().responses.iter().all(|one| answered(one).0 == "stored RECEIVED"));
    server.stop().await;
}

async fn full_backlog_is_refused_and_heals(kind: Kind) {
    let policy = Policy { backlog_max_age: seconds(3_600), ..inbox() };
    let setup = || Setup::default().with("c", policy.clone());
    let mut server = server_with(kind, setup()).await;
    stored(&mut server, "1").await;
    server.advance(seconds(3_601)).await;
    // What a server read of the backlog before is good for ten seconds: another one reads it now.
    let mut other =
        crate::harness::server::Served::start(std::sync::Arc::clone(&server.at.store), setup()).await;
    let refused = other.client.store(message("2")).await.unwrap_err();
    let refusal = refusal(&refused);
    assert_eq!((refusal.reason.as_str(), refusal.advice.as_str()), ("BACKLOG_FULL", "RETRY_LATER"));
    let known = other.client.store(message("1")).await.unwrap().into_inner();
    assert_eq!(answered(&known).0, "already_stored RECEIVED", "a kept message is acknowledged");
    let handed = other.client.claim_next(next(1)).await.unwrap().into_inner();
    assert_eq!(handed.messages.len(), 1);
    other.stop().await;
    let mut healed =
        crate::harness::server::Served::start(std::sync::Arc::clone(&server.at.store), setup()).await;
    let response = healed.client.store(message("2")).await.unwrap().into_inner();
    assert_eq!(answered(&response).0, "stored RECEIVED");
    healed.stop().await;
    server.stop().await;
    // All messages together.
    let setup = Setup { inbox_bytes_max: 200, ..Setup::default().with("c", inbox()) };
    let mut server = server_with(kind, setup.clone()).await;
    for id in ["1", "2", "3"] {
        stored(&mut server, id).await;
    }
    let mut other =
        crate::harness::server::Served::start(std::sync::Arc::clone(&server.at.store), setup).await;
    let refused = other.client.store(message("4")).await.unwrap_err();
    assert_eq!(crate::harness::details::refusal(&refused).reason, "BACKLOG_FULL");
    assert!(other.metric("idempotency_ledger_inbox_message_bytes").unwrap() >= 200.0);
    let unknown = proto::StoreRequest { key: key("without", "1"), ..message("1") };
    other.client.store(unknown).await.unwrap_err();
    for outcome in ["backlog_full", "inbox_off"] {
        let count = format!("idempotency_ledger_inbox_stores_total{{outcome=\"{outcome}\"}}");
        assert_eq!(other.metric(&count), Some(1.0), "{outcome}");
    }
    other.stop().await;
    server.stop().await;
}

/// Messages that the ledger knows, and those that it refuses, do not count.
async fn stored_message_is_counted_once_by_its_event_type(kind: Kind) {
    let mut server = crate::inbox::server(kind).await;
    let of_type = |id: &str, event_type: &str| {
        let mut request = message(id);
        request.message.as_mut().unwrap().event_type = event_type.into();
        request
    };
    for (id, event_type) in [("1", "paid"), ("2", "paid"), ("1", "paid"), ("3", ""), ("3", "sent")] {
        server.client.store(of_type(id, event_type)).await.unwrap();
    }
    let requests = vec![of_type("4", "paid"), of_type("2", "sent")];
    server.client.batch_store(proto::BatchStoreRequest { requests }).await.unwrap();
    let refused = proto::StoreRequest { key: key("without", "1"), ..of_type("1", "paid") };
    server.client.store(refused).await.unwrap_err();
    for (event_type, count) in [("paid", Some(3.0)), ("", Some(1.0)), ("sent", None)] {
        let series = format!("consumer=\"c\",event_type=\"{event_type}\"");
        let found = server.metric(&format!("idempotency_ledger_inbox_stored_total{{{series}}}"));
        assert_eq!(found, count, "{series}");
    }
    server.stop().await;
}

async fn erased_message_comes_back_with_a_new_delivery(kind: Kind) {
    let setup =
        Setup { purge_every: std::time::Duration::from_millis(100), ..Setup::default().with("c", inbox()) };
    let mut server = server_with(kind, setup).await;
    stored(&mut server, "1").await;
    let read = |reason: &str| proto::GetMessageRequest { key: key("c", "1"), reason: reason.into() };
    let shown = server.admin.get_message(read("an audit")).await.unwrap().into_inner();
    assert_eq!(shown.message, message("1").message);
    let handed = server.client.claim_next(next(1)).await.unwrap().into_inner();
    let token = handed.messages[0].acquired.as_ref().unwrap().token;
    let request = proto::CompleteRequest { key: key("c", "1"), token, ..Default::default() };
    server.client.complete(request).await.unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let request = proto::GetEntryRequest { key: key("c", "1"), ..Default::default() };
        let entry = server.admin.get_entry(request).await.unwrap().into_inner().entry.unwrap();
        if entry.message_state() == proto::MessageState::Erased {
            break;
        }
        assert!(std::time::Instant::now() < until, "it is never erased");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let gone = server.admin.get_message(read("again")).await.unwrap_err();
    assert_eq!(refusal(&gone).reason, "ENTRY_NOT_FOUND");
    assert_eq!(answer_to(&mut server, message("1")).await.0, "completed");
    server.stop().await;
}

async fn deleted_entry_leaves_no_message(kind: Kind) {
    let mut server = server(kind).await;
    stored(&mut server, "1").await;
    stored(&mut server, "2").await;
    server.advance(seconds(120)).await;
    let found = proto::GetEntryRequest { key: key("c", "1"), ..Default::default() };
    let entry = server.admin.get_entry(found).await.unwrap().into_inner().entry.unwrap();
    let request = |force: bool| proto::DeleteEntryRequest {
        key: key("c", "1"),
        expected_version: entry.version,
        request_id: format!("erasure {force}"),
        reason: "an erasure".into(),
        force,
        ..Default::default()
    };
    let refused = server.admin.delete_entry(request(false)).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "STATE_NOT_ALLOWED", "the message was acknowledged");
    server.admin.delete_entry(request(true)).await.unwrap();
    let kept = server.at.number("SELECT count(*) FROM @ledger.messages").await;
    assert_eq!(kept, 1, "the message of the other entry");
    assert_eq!(handed(&mut server, next(9)).await.len(), 1);
    assert_eq!(answer_to(&mut server, message("1")).await.0, "stored RECEIVED");
    server.stop().await;
}

async fn erasure_that_is_late_shows_its_lag(kind: Kind) {
    let policy = Policy { message_retention: Span::from_secs(60), ..inbox() };
    // Each look at the messages sets the gauge: it shows the lag until the next one.
    let every = std::time::Duration::from_secs(3);
    let setup = Setup { purge_every: every, ..Setup::default().with("c", policy) };
    let mut server = server_with(kind, setup).await;
    stored(&mut server, "1").await;
    let (_, token) = handed(&mut server, next(1)).await.remove(0);
    let request = proto::CompleteRequest { key: key("c", "1"), token, ..Default::default() };
    server.client.complete(request).await.unwrap();
    server.advance(seconds(70)).await;
    let lag = || server.metric("idempotency_ledger_inbox_erase_lag_seconds").unwrap();
    crate::waiting::until("a lag of ten seconds is shown", || lag() >= 10.0).await;
    crate::waiting::until("the message is erased", || lag() == 0.0).await;
    server.stop().await;
}

async fn stored_messages_are_counted_as_they_come_and_go(kind: Kind) {
    let every = std::time::Duration::from_millis(50);
    let setup = Setup { count_every: every, ..Setup::default().with("c", inbox()) };
    let mut server = server_with(kind, setup).await;
    for id in ["1", "2", "3"] {
        stored(&mut server, id).await;
    }
    server.advance(seconds(7)).await;
    let metric = |name: &str| format!("idempotency_ledger_inbox_{name}");
    let (due, later) =
        (metric("messages{consumer=\"c\",kind=\"due\"}"), metric("messages{consumer=\"c\",kind=\"later\"}"));
    let oldest = metric("oldest_due_seconds{consumer=\"c\"}");
    // The messages that are handed out, and what is counted then.
    for (max, expected) in [(0, (3.0, 0.0, 7.0)), (2, (1.0, 2.0, 7.0)), (1, (0.0, 3.0, 0.0))] {
        if max > 0 {
            server.client.claim_next(next(max)).await.unwrap();
        }
        crate::waiting::until(&format!("{expected:?} is counted"), || {
            let of = |name: &str| server.metric(name).unwrap_or(-1.0);
            (of(&due), of(&later), of(&oldest)) == expected
        })
        .await;
    }
    server.stop().await;
}

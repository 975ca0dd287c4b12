//! Stored messages on the command line: looking at one, and the changes that take the only copy.

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto;

use super::{ask, ask_with};
use crate::harness::details::key;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};
use crate::inbox::{handed, message, next, server as with_inbox, stored};

on_both_stores!(
    message_is_shown_with_a_reason,
    changes_that_take_the_only_copy_say_so,
    redrives_name_the_messages_that_only_a_delivery_brings,
    store_from_a_file_exits_by_the_verdict,
    next_shows_what_is_due_and_claims_nothing,
    next_shows_a_suspect_and_who_held_it,
);

const ONLY_COPY: &str = "the ledger has the only copy of its message";

async fn of_a_stored_message(kind: Kind) -> TestServer {
    let mut server = with_inbox(kind).await;
    server.client.store(message("1")).await.unwrap();
    server
}

async fn message_is_shown_with_a_reason(kind: Kind) {
    let server = of_a_stored_message(kind).await;
    let entry = ask(&server, &["entries", "get", "c", "tests", "1"]).await;
    let entry = entry.says(0, &["kept", "policy", "entries message c tests 1 --reason WHY"]);
    assert!(!entry.out.contains("at the claim"), "it was never claimed: {}", entry.out);
    let look = ["entries", "message", "c", "tests", "1"];
    ask(&server, &look).await.says(2, &["--reason"]);
    let with_reason = [&look[..], &["--reason", "ticket 12"]].concat();
    ask(&server, &with_reason).await.says(0, &["payload of 1", "orders", "application/json"]);
    ask(&server, &[&with_reason[..], &["--payload"]].concat()).await.is(0, "payload of 1");
    let answer = ask(&server, &[&with_reason[..], &["--json"]].concat()).await.json().remove(0);
    assert_eq!(answer["message"]["payload"], "cGF5bG9hZCBvZiAx", "{answer}");
    let audit = ["audit", "list", "--action", "read_message"];
    ask(&server, &audit).await.says(0, &["READ_MESSAGE", "ticket 12"]);
    ask(&server, &["audit", "list", "--action", "REED_MESSAGE"])
        .await
        .says(1, &["READ_MESSAGE", "actions[0]"]);
    let looks = ["audit", "list", "--consumer", "c", "--operation", "message"];
    ask(&server, &looks).await.says(0, &["READ_MESSAGE", "ticket 12"]);
    ask(&server, &["audit", "list", "--action", "PARK"]).await.says(0, &["no event matches"]);
    server.stop().await;
}

async fn store_from_a_file_exits_by_the_verdict(kind: Kind) {
    let mut server = with_inbox(kind).await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, payload: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, payload).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (one, two, large) =
        (file("one", b"one"), file("two", b"two"), file("large", &[b'x'; (256 << 10) + 1]));
    let missing = folder.path().join("missing").to_str().unwrap().to_owned();
    for (consumer, file, more, code, says) in [
        ("c", &missing, None, 2, "missing: No such file"),
        ("c", &large, None, 1, "message.payload"),
        ("none", &one, None, 4, "INBOX_OFF"),
        ("c", &one, None, 0, "stored: its entry is RECEIVED"),
        ("c", &one, None, 0, "was stored before"),
        ("c", &two, None, 1, "the id was used before with another payload"),
        ("c", &two, Some("--no-fingerprint"), 0, "was stored before"),
    ] {
        let store =
            ["entries", "store", consumer, "tests", "1", "--content-type", "text/plain", "--file", file];
        let arguments: Vec<&str> = store.into_iter().chain(more).collect();
        ask(&server, &arguments).await.says(code, &[says]);
    }
    let piped = ["entries", "store", "c", "tests", "2", "--file", "-", "--json"];
    let answer = ask_with(&server, &piped, b"piped").await.json().remove(0);
    assert_eq!(answer["stored"]["state"], "ENTRY_STATE_RECEIVED", "{answer}");
    let look = ["entries", "message", "c", "tests", "2", "--payload", "--reason", "r"];
    ask(&server, &look).await.is(0, "piped");
    let handed = server.client.claim_next(next(1)).await.unwrap().into_inner();
    let message = handed.messages[0].message.clone().unwrap();
    assert_eq!((&message.payload[..], message.content_type.as_str()), (&b"one"[..], "text/plain"));
    server.stop().await;
}

async fn changes_that_take_the_only_copy_say_so(kind: Kind) {
    let server = of_a_stored_message(kind).await;
    for (change, loses) in [
        (&["redrive"][..], false),
        (&["redrive", "--drop-fingerprint"], true),
        (&["delete"], true),
        (&["delete", "--force"], true),
    ] {
        // A younger entry cannot be deleted.
        server.advance(Span::from_secs(61)).await;
        let key = ["c", "tests", "1", "--reason", "r", "--yes"];
        let ran = ask(&server, &[&["entries"][..], change, &key].concat()).await;
        assert_eq!(ran.err.contains(ONLY_COPY), loses, "{change:?}: {ran:?}");
        let refused = loses && !change.contains(&"--force");
        ran.says(if refused { 4 } else { 0 }, if refused { &["STATE_NOT_ALLOWED", "--force"] } else { &[] });
    }
    server.stop().await;
}

async fn redrives_name_the_messages_that_only_a_delivery_brings(kind: Kind) {
    let server = of_a_stored_message(kind).await;
    let one = ["entries", "redrive", "c", "tests", "1", "--reason", "r", "--yes"];
    let kept = ask(&server, &one).await.says(0, &[]);
    assert!(!kept.err.contains("erased"), "{kept:?}");
    let erased =
        "its message is erased: only another Store or delivery of the message has it processed again";
    for more in [&["--drop-fingerprint", "--force"][..], &[]] {
        ask(&server, &[&one[..], more].concat()).await.says(0, &[erased]);
    }
    let many = ["entries", "redrive", "--consumer", "c", "--state", "RECEIVED", "--reason", "r", "--yes"];
    let counted = "1 message is erased: only another delivery has it processed again";
    for (more, says) in [(&["--dry-run"][..], "1 would be redriven"), (&[], "1 redriven")] {
        ask(&server, &[&many[..], more].concat()).await.says(0, &[says, counted]);
    }
    server.stop().await;
}

/// What `entries next` lists, as ids.
async fn listed(server: &TestServer, more: &[&str]) -> Vec<String> {
    let ran = ask(server, &[&["entries", "next", "c", "--json"][..], more].concat()).await;
    let id = |line: &serde_json::Value| line["key"]["id"].as_str().unwrap_or_default().to_owned();
    ran.json().iter().map(id).collect()
}

async fn next_shows_what_is_due_and_claims_nothing(kind: Kind) {
    let mut server = with_inbox(kind).await;
    ask(&server, &["entries", "next", "c"])
        .await
        .says(0, &["c: 0 stored messages are due", "no message is due"]);
    for id in ["1", "2", "3"] {
        stored(&mut server, id).await;
        server.advance(Span::from_secs(1)).await;
    }
    assert_eq!(listed(&server, &[]).await, ["1", "2", "3"]);
    // The first one fails, and is due after those that were stored later.
    let (id, token) = handed(&mut server, next(1)).await.remove(0);
    let fails = proto::FailRequest {
        key: key("c", &id),
        token,
        error: "answered 502".into(),
        retry_after: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
        ..Default::default()
    };
    server.client.fail(fails).await.unwrap();
    assert_eq!(listed(&server, &[]).await, ["2", "3"]);
    ask(&server, &["entries", "next", "c"])
        .await
        .says(0, &["c: 2 stored messages are due", "1 is handed out later"]);
    server.advance(Span::from_secs(120)).await;
    for (more, ids) in [(&[][..], &["2", "3", "1"][..]), (&["--limit", "2"], &["2", "3"])] {
        assert_eq!(listed(&server, more).await, ids, "{more:?}");
    }
    let look = ask(&server, &["entries", "next", "c"]).await;
    look.says(0, &["answered 502", "entries message c tests 2 --reason WHY"]);
    for limit in ["0", "1001"] {
        ask(&server, &["entries", "next", "c", "--limit", limit]).await.says(2, &["1..=1000"]);
    }
    ask(&server, &["entries", "next", "absent"])
        .await
        .says(0, &["no inbox, and no stored message", "knows no consumer"]);
    let hold = ["policy", "set", "c", "--disabled", "--reason", "r"];
    ask(&server, &hold).await.says(0, &[]);
    let stopped = ["nothing is handed out now: the policy of the consumer is disabled", "policy history c"];
    ask(&server, &["entries", "next", "c"]).await.says(0, &stopped);
    ask(&server, &["policy", "set", "c", "--disabled", "false", "--reason", "r"]).await.says(0, &[]);
    // The looks have claimed nothing: the same messages are handed out, in this order.
    let ids: Vec<String> = handed(&mut server, next(9)).await.into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["2", "3", "1"]);
    assert!(listed(&server, &[]).await.is_empty(), "all are held");
    server.stop().await;
}

async fn next_shows_a_suspect_and_who_held_it(kind: Kind) {
    let mut server = with_inbox(kind).await;
    stored(&mut server, "1").await;
    for attempt in 1..=2 {
        assert_eq!(handed(&mut server, next(1)).await.len(), 1, "attempt {attempt}");
        // Lease and grace are over.
        server.advance(Span::from_secs(120)).await;
        let suspect = if attempt == 2 { "yes" } else { "no" };
        let row = ask(&server, &["entries", "next", "c"]).await.says(0, &["IN_PROGRESS", "worker"]).out;
        let row = row.lines().find(|line| line.contains("IN_PROGRESS")).unwrap().to_owned();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words[1..3], [attempt.to_string().as_str(), suspect], "{row}");
    }
    server.stop().await;
}

//! Single entries: listing, showing and mending them.

mod narrow;

use std::sync::Arc;

use idempotency_ledger::domain::{Key, Span};
use idempotency_ledger::proto::EntryState;

use super::{ask, ask_with, complete, park, state, take};
use crate::harness::faulty::{FaultyStore, Inject, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer, TestStore};

on_both_stores!(
    entries_are_listed_in_columns,
    an_entry_is_shown_with_what_can_be_done,
    an_entry_is_found_by_the_hash_of_its_key,
    a_parked_entry_is_redriven,
    an_entry_is_parked,
    what_became_of_a_message_is_recorded,
    a_deletion_is_confirmed,
    a_message_outside_the_window_is_admitted,
    a_change_says_why_it_was_refused,
    a_summary_counts_by_state,
    the_audit_tells_who_did_what,
    an_unknown_outcome_is_found_out,
    a_person_at_a_terminal_is_asked,
    json_escapes_control_and_bidi_characters_and_parses_to_the_same_text,
);

/// A terminal that shows the answer must not take a part of it for a command.
async fn json_escapes_control_and_bidi_characters_and_parses_to_the_same_text(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (id, error) = ("order\u{202e}1\u{200b}", "no\u{9b}2J\u{85}such\u{2066}account\u{7f}");
    park(&server, id, error).await;
    for arguments in [
        &["entries", "list", "--consumer", "c", "--json"][..],
        &["--json", "entries", "get", "c", "tests", id],
    ] {
        let ran = ask(&server, arguments).await;
        assert!(ran.out.chars().all(|one| one == '\n' || (' '..='~').contains(&one)), "{ran:?}");
        let entry = ran.json().remove(0);
        let entry = entry.get("entry").unwrap_or(&entry);
        assert_eq!((&entry["key"]["id"], &entry["lastError"]), (&id.into(), &error.into()), "{ran:?}");
    }
    server.stop().await;
}

/// What is made later is listed later.
async fn tick(server: &TestServer) {
    server.advance(Span::from_secs(1)).await;
}

async fn entries_are_listed_in_columns(kind: Kind) {
    let server = TestServer::start(kind).await;
    park(&server, "order-1", "no such\u{1b}[31m account").await;
    tick(&server).await;
    complete(&server, "order-2").await;
    tick(&server).await;
    take(&server, "invoice-3").await;
    let listed = ask(&server, &["entries", "list", "--consumer", "c"]).await.says(0, &[]);
    let lines: Vec<&str> = listed.out.lines().collect();
    assert_eq!(lines.len(), 4, "{listed:?}");
    assert!(lines[0].starts_with("STATE        CAUSE     ATTEMPTS  ID         SOURCE  AGE"), "{listed:?}");
    assert!(lines[1].starts_with("PARKED       CONSUMER  1         order-1    tests   "), "{listed:?}");
    assert!(lines[1].ends_with("worker  no such\u{fffd}[31m account"), "{listed:?}");
    assert!(lines[2].starts_with("COMPLETED    -         1         order-2    tests   "), "{listed:?}");
    assert!(lines[3].starts_with("IN_PROGRESS  -         1         invoice-3  tests   "), "{listed:?}");
    assert_eq!(listed.err, "");
    for (flags, ids) in [
        (&["--state", "PARKED"][..], &["order-1"][..]),
        (&["--state", "parked", "COMPLETED"], &["order-1", "order-2"]),
        (&["--cause", "OPERATOR"], &[]),
        (&["--id-prefix", "order-", "--newest-first"], &["order-2", "order-1"]),
        (&["--source", "other"], &[]),
        (&["--older-than", "1h"], &[]),
        (&["--newer-than", "1h", "--limit", "0"], &["order-1", "order-2", "invoice-3"]),
        (&["--limit", "1"], &["order-1"]),
    ] {
        let mut arguments = vec!["entries", "list", "--consumer", "c", "--json"];
        arguments.extend(flags);
        let found = ask(&server, &arguments).await.json();
        let found: Vec<&str> = found.iter().map(|entry| entry["key"]["id"].as_str().unwrap()).collect();
        assert_eq!(found, ids, "{flags:?}");
    }
    let cut =
        ask(&server, &["entries", "list", "--consumer", "c", "--limit", "2"]).await.says(0, &["more: "]);
    assert_eq!((cut.out.lines().count(), cut.err.as_str()), (3, "more: raise --limit (2), or 0 for all\n"));
    let none = ask(&server, &["entries", "list", "--consumer", "nobody"]).await.is(0, "");
    assert_eq!(none.err, "no entry matches\nnote: the ledger knows no consumer of this name yet\n");
    let colored =
        ask(&server, &["entries", "list", "--consumer", "c", "--color", "always"]).await.says(0, &[]);
    assert!(colored.out.contains("\u{1b}[31mPARKED\u{1b}[0m"), "{colored:?}");
    server.stop().await;
}

async fn an_entry_is_shown_with_what_can_be_done(kind: Kind) {
    let server = TestServer::start(kind).await;
    park(&server, "it's", "no such account").await;
    let shown = ask(&server, &["entries", "get", "c", "tests", "it's"]).await;
    shown.says(
        0,
        &[
            "state        PARKED (CONSUMER)\n",
            "last error   no such account\n",
            "closed by    FAIL_PARK\n",
            "parked       2026-05-28T20:26:40Z (",
            &format!("next: {} entries redrive c tests \"it's\" --reason WHY    # have it", super::BINARY),
            "--as received --reason WHY",
        ],
    );
    let told = ask(&server, &["--json", "entries", "get", "c", "tests", "it's"]).await;
    let told = &told.json()[0];
    let allowed = serde_json::json!([
        { "change": "ENTRY_CHANGE_REDRIVE" }, { "change": "ENTRY_CHANGE_RESOLVE" },
    ]);
    assert_eq!((&told["entry"]["allowedChanges"], &told["entry"]["effectDoubtful"]), (&allowed, &().into()));
    assert_eq!(told["entry"]["state"], "ENTRY_STATE_PARKED");
    assert_eq!(told["entry"]["parkedAt"], "2026-05-28T20:26:40Z");
    assert_eq!(told["entry"]["attempts"], 1);
    ask(&server, &["entries", "redrive", "c", "tests", "it's", "--reason", "r"]).await.says(0, &[]);
    take(&server, "it's").await;
    let shown = ask(&server, &["entries", "get", "c", "tests", "it's"]).await;
    shown.says(0, &["earlier attempts\n", "  ATTEMPT  STARTED", "FAIL_PARK  worker  no such account"]);
    ask(&server, &["entries", "get", "c", "tests", "nothing"])
        .await
        .says(3, &["error: ENTRY_NOT_FOUND: ", "next: ", "--id-prefix"]);
    ask(&server, &["entries", "get", "c", "tests"]).await.says(2, &["3 values required"]);
    ask(&server, &["entries", "get", "c", "tests", ""])
        .await
        .says(1, &["error: INVALID_FIELD: ", "\n  key.id: is empty, must be 1 to 512 bytes\n"]);
    server.stop().await;
}

async fn an_entry_is_found_by_the_hash_of_its_key(kind: Kind) {
    let server = TestServer::start(kind).await;
    for id in ["1", "2"] {
        take(&server, id).await;
    }
    ask(&server, &["entries", "park", "c", "tests", "2", "--reason", "r"]).await.says(0, &[]);
    let hash = ask(&server, &["audit", "list", "--json"]).await.json().remove(0)["keyHash"].clone();
    let hash = hash.as_str().unwrap();
    let simple = hash.replace('-', "");
    for hash in [hash, &simple] {
        ask(&server, &["entries", "get", "--hash", hash])
            .await
            .says(0, &["id           2\n", "PARKED (OPERATOR)"]);
    }
    let by_key = ask(&server, &["entries", "get", "c", "tests", "2", "--json"]).await;
    ask(&server, &["entries", "get", "--hash", hash, "--json"]).await.is(0, &by_key.out);
    let other = "00000000-0000-4000-8000-000000000000";
    for (arguments, code, says) in [
        (&["--hash", other][..], 3, &["ENTRY_NOT_FOUND"][..]),
        (&["--hash", "order-2"], 1, &["INVALID_FIELD", "\n  key_hash: is not a hash of a key"]),
        (&["--hash", ""], 2, &["--hash"]),
        (&["c", "tests", "2", "--hash", other], 2, &["cannot be used with"]),
        (&[], 2, &["CONSUMER", "SOURCE", "ID"]),
    ] {
        ask(&server, &[&["entries", "get"][..], arguments].concat()).await.says(code, says);
    }
    server.stop().await;
}

async fn a_parked_entry_is_redriven(kind: Kind) {
    let server = TestServer::start(kind).await;
    park(&server, "1", "x").await;
    let version = server.entry(&Key::new("c", "tests", "1")).await.unwrap().version.to_string();
    let redrive = ["entries", "redrive", "c", "tests", "1", "--reason", "is back", "--request-id", "r1"];
    let redrive = [&redrive[..], &["--expected-version", &version]].concat();
    let done = ask(&server, &redrive).await.says(0, &["c tests 1 is RECEIVED now, version "]);
    assert!(done.err.contains("c tests 1: PARKED (CONSUMER), version "), "{done:?}");
    assert!(done.err.contains("will: have it processed again"), "{done:?}");
    // The repeat names the same version, and changes nothing.
    ask(&server, &redrive).await.says(0, &["this repeat changed nothing"]);
    take(&server, "1").await;
    let told = ask(&server, &["entries", "redrive", "c", "tests", "1", "--reason", "r", "--json"]).await;
    assert_eq!((told.code, told.out.as_str()), (4, ""), "the claim is open: {told:?}");
    told.says(4, &["STATE_NOT_ALLOWED", "--force"]);
    let force = ["entries", "redrive", "c", "tests", "1", "--reason", "r", "--force"];
    ask(&server, &force).await.says(2, &["not confirmed", "is not a terminal", "--yes"]);
    assert_eq!(state(&server, "1").await, EntryState::InProgress);
    let told = ask(&server, &[&force[..], &["--yes", "--json"]].concat()).await;
    assert_eq!(told.json()[0]["entry"]["state"], "ENTRY_STATE_RECEIVED");
    assert_eq!(told.err, "", "machines are told nothing beside the answer");
    server.stop().await;
}

async fn an_entry_is_parked(kind: Kind) {
    let server = TestServer::start(kind).await;
    take(&server, "1").await;
    ask(&server, &["entries", "park", "c", "tests", "1", "--reason", "looks wrong"])
        .await
        .says(0, &["c tests 1 is PARKED now, version "]);
    assert_eq!(state(&server, "1").await, EntryState::Parked);
    server.stop().await;
}

async fn what_became_of_a_message_is_recorded(kind: Kind) {
    let server = TestServer::start(kind).await;
    for id in ["done", "never", "not"] {
        take(&server, id).await;
    }
    server.advance(Span::from_secs(60)).await;
    let resolve = |id: &'static str, state: &'static str| {
        vec!["entries", "resolve", "c", "tests", id, "--as", state, "--reason", "looked it up"]
    };
    let done = [&resolve("done", "completed")[..], &["--result", "-", "--evidence", "receipt 7"]].concat();
    ask_with(&server, &done, b"\x00\xff").await.says(0, &["c tests done is COMPLETED now"]);
    let found = ask(&server, &["entries", "get", "c", "tests", "done", "--json"]).await;
    assert_eq!(found.json()[0]["entry"]["resultBytes"], 2);
    let never = [&resolve("never", "failed")[..], &["--evidence", "no such account"]].concat();
    ask(&server, &never).await.says(0, &["FAILED_TERMINAL now"]);
    ask(&server, &resolve("not", "received")).await.says(0, &["RECEIVED now"]);
    let wrong = [&resolve("not", "received")[..], &["--result", "-"]].concat();
    ask(&server, &wrong).await.says(2, &["only what is --as completed has a result"]);
    let wrong = [&resolve("not", "completed")[..], &["--result", "/no/such/file"]].concat();
    ask(&server, &wrong).await.says(2, &["--result: /no/such/file: "]);
    let forced = [&resolve("done", "failed")[..], &["--force"]].concat();
    ask(&server, &forced).await.says(2, &["not confirmed"]);
    ask(&server, &[&forced[..], &["--yes"]].concat()).await.says(0, &["FAILED_TERMINAL now"]);
    ask(&server, &["entries", "resolve", "c", "tests", "not", "--as", "lost", "--reason", "r"])
        .await
        .says(2, &["lost", "completed, failed, received"]);
    server.stop().await;
}

async fn a_deletion_is_confirmed(kind: Kind) {
    let server = TestServer::start(kind).await;
    complete(&server, "1").await;
    server.advance(Span::from_secs(120)).await;
    let delete = ["entries", "delete", "c", "tests", "1", "--reason", "erasure", "--force"];
    ask(&server, &delete).await.says(2, &["not confirmed"]);
    assert_eq!(state(&server, "1").await, EntryState::Completed);
    let told = ask(&server, &["entries", "get", "c", "tests", "1", "--json"]).await.json().remove(0);
    let version = told["entry"]["version"].as_str().unwrap().to_owned();
    let sure = [&delete[..], &["--yes", "--request-id", "d1", "--expected-version", &version]].concat();
    ask(&server, &sure).await.is(0, "c tests 1 is gone\n");
    ask(&server, &sure).await.says(0, &["is gone (it had been done before; this repeat changed nothing)"]);
    ask(&server, &[&delete[..], &["--yes"]].concat()).await.says(3, &["ENTRY_NOT_FOUND"]);
    server.stop().await;
}

async fn a_message_outside_the_window_is_admitted(kind: Kind) {
    let server = TestServer::start(kind).await;
    let admit = ["entries", "redrive", "c", "tests", "old", "--reason", "never processed"];
    ask(&server, &admit).await.says(3, &["ENTRY_NOT_FOUND"]);
    ask(&server, &[&admit[..], &["--admit"]].concat()).await.says(0, &["c tests old is RECEIVED now"]);
    server.stop().await;
}

async fn a_change_says_why_it_was_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    park(&server, "1", "x").await;
    let park = ["entries", "park", "c", "tests", "1"];
    ask(&server, &park).await.says(2, &["--reason <REASON>"]);
    ask(&server, &[&park[..], &["--reason", ""]].concat())
        .await
        .says(1, &["error: INVALID_FIELD", "\n  reason: is empty"]);
    let refused = ask(&server, &[&park[..], &["--reason", "r"]].concat()).await;
    let refused = refused.says(4, &["STATE_NOT_ALLOWED", "next: look at it with `entries get`\n"]);
    assert!(!refused.err.contains("force"), "{refused:?}");
    ask(&server, &["entries", "redrive", "c", "tests", "1", "--reason", "r", "--expected-version", "7"])
        .await
        .says(4, &["VERSION_MISMATCH", "it was changed"]);
    assert_eq!(state(&server, "1").await, EntryState::Parked);
    server.stop().await;
}

async fn a_summary_counts_by_state(kind: Kind) {
    let server = TestServer::start(kind).await;
    park(&server, "1", "x").await;
    park(&server, "2", "x").await;
    take(&server, "3").await;
    server.advance(Span::from_secs(3_700)).await;
    let shown =
        ask(&server, &["entries", "summary"]).await.says(0, &["expired claims: 1, the longest for 1h"]);
    let lines: Vec<&str> = shown.out.lines().collect();
    assert_eq!(lines[0], "as of 2026-05-28T21:28:20Z", "{shown:?}");
    assert_eq!(lines[1], "needs a person:", "{shown:?}");
    assert_eq!(
        lines[2], "  2 entries are parked: c 2 (entries list --state PARKED --group-by error)",
        "{shown:?}"
    );
    assert!(lines.contains(&"  PARKED       CONSUMER  2      1h 1m"), "{shown:?}");
    let told = ask(&server, &["entries", "summary", "--consumer", "c", "--json"]).await.json();
    assert_eq!(told[0]["consumers"][0]["expired"], "1");
    let none = ask(&server, &["entries", "summary", "--consumer", "nobody"]).await;
    none.says(0, &["note: the ledger knows no consumer of this name yet"]);
    ask(&server, &["entries", "summary", "--every", "1s"]).await.says(2, &["--watch"]);
    server.stop().await;
}

async fn the_audit_tells_who_did_what(kind: Kind) {
    let server = TestServer::start(kind).await;
    for id in ["1", "2"] {
        take(&server, id).await;
        tick(&server).await;
        ask(&server, &["entries", "park", "c", "tests", id, "--reason", &format!("why {id}")])
            .await
            .says(0, &[]);
    }
    let listed = ask(&server, &["audit", "list"]).await.says(0, &[]);
    let lines: Vec<&str> = listed.out.lines().collect();
    assert!(
        lines[0].starts_with("WHEN                  ACTOR      ACTION  CONSUMER  KEY HASH"),
        "{listed:?}"
    );
    assert!(lines[1].starts_with("2026-05-28T20:26:42Z  anonymous  PARK    c         "), "{listed:?}");
    assert!(lines[1].ends_with("why 2") && lines[2].ends_with("why 1") && lines.len() == 3, "{listed:?}");
    let one = ["audit", "list", "--consumer", "c", "--source", "tests", "--id", "1", "--json"];
    let told = ask(&server, &one).await.json();
    assert_eq!((told.len(), &told[0]["reason"]), (1, &"why 1".into()));
    ask(&server, &["audit", "list", "--limit", "1"]).await.says(0, &["there are more"]);
    ask(&server, &["audit", "list", "--source", "tests"]).await.says(2, &["--id"]);
    ask(&server, &["audit", "list", "--consumer", "nobody"]).await.is(0, "");
    server.stop().await;
}

async fn an_unknown_outcome_is_found_out(kind: Kind) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    let server = TestServer::on(at, Setup::default()).await;
    take(&server, "1").await;
    let version = {
        let told = ask(&server, &["entries", "get", "c", "tests", "1", "--json"]).await.json().remove(0);
        told["entry"]["version"].as_str().unwrap().to_owned()
    };
    // What was applied and not answered is answered by the repeat, and nothing is said of it.
    plan.next([Inject::LostAnswer]);
    let park = ["entries", "park", "c", "tests", "1", "--reason", "r"];
    let done = ask(&server, &park).await.says(0, &["c tests 1 is PARKED now, version "]);
    assert!(!done.out.contains("repeat"), "{done:?}");
    // For ever nobody tries.
    plan.next([Inject::LostRequest; 40]);
    let resolve =
        ["entries", "resolve", "c", "tests", "1", "--as", "failed", "--reason", "r", "--force", "-y"];
    let unknown = ask(&server, &[&resolve[..], &["--request-id", "r 1"]].concat()).await;
    let version = version.parse::<i64>().unwrap() + 1;
    unknown.says(
        5,
        &[
            "error: OUTCOME_UNKNOWN: ",
            &format!(
                "next: it may have been done: repeat the same command with --request-id 'r 1' \
                 --expected-version {version}\n"
            ),
        ],
    );
    server.stop().await;
}

async fn a_person_at_a_terminal_is_asked(kind: Kind) {
    if super::no_terminals() {
        return;
    }
    let server = TestServer::start(kind).await;
    take(&server, "1").await;
    let address = server.address();
    let line = format!("{} entries redrive c tests 1 --force --reason r --endpoint {address}", super::BINARY);
    let typed = |answer: &'static str| super::on_a_terminal(line.clone(), answer);
    let long = format!("order-{}-end", "0".repeat(200));
    take(&server, &long).await;
    take(&server, "1 ").await;
    let list =
        format!("stty rows 24 cols 80; {} entries list --consumer c --endpoint {address}", super::BINARY);
    // How much of the name is left depends on how long the age is in words.
    let narrow =
        super::on_a_terminal(list.clone(), "").await.says(0, &["  order-", "…", "0-end  ", "  '1 '  "]);
    assert!(!narrow.out.contains(&long), "{narrow:?}");
    super::on_a_terminal(format!("{list} --wide"), "").await.says(0, &[&long]);
    let asked = format!("at http://{address}: Do it? [y/N] ");
    typed("n\n").await.says(2, &["by force", &asked, "not confirmed; nothing was changed"]);
    assert_eq!(state(&server, "1").await, EntryState::InProgress);
    typed("yes\n").await.says(0, &["c tests 1 is RECEIVED now"]);
    server.stop().await;
}

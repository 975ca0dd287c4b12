//! Policies: one by one, from files, and what is wrong with them.

use std::fs;
use std::path::PathBuf;

use idempotency_ledger::domain::{Policy, Span};
use idempotency_ledger::identity::Guard;

use super::{Ran, alone, ask, ask_with, complete};
use crate::harness::details::{claim, key};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::identity::People;
use crate::unreadable::newer;

on_both_stores!(
    a_policy_is_set_shown_and_taken_back,
    a_change_needs_the_version_that_was_seen,
    a_file_is_applied_once,
    a_file_that_is_wrong_changes_nothing,
    an_application_that_breaks_off_says_what_is_done,
    application_that_breaks_off_half_way_is_partly_done,
    mistakes_are_found_with_figures,
    consumers_are_held_and_resumed,
    a_policy_of_a_newer_version_is_shown_as_unreadable,
);

async fn consumers_are_held_and_resumed(kind: Kind) {
    let server = TestServer::start_with(kind, Setup::default().with("pay", Policy::default())).await;
    let hold = ["policy", "hold", "--prefix", "pay", "--reason", "provider is down"];
    ask(&server, &["policy", "hold", "--reason", "r"]).await.says(2, &["--all", "--prefix"]);
    ask(&server, &["policy", "hold", "--all", "--prefix", "a", "--reason", "r"]).await.says(2, &["--prefix"]);
    ask(&server, &hold).await.says(2, &["not confirmed"]);
    let yes = [&hold[..], &["--yes", "--request-id", "h1"]].concat();
    let done = "the consumers whose names begin with pay: no new grants";
    ask(&server, &yes).await.is(0, &format!("{done}\n"));
    ask(&server, &yes).await.says(0, &[done, "this repeat changed nothing"]);
    ask(&server, &[&hold[..], &["-y"]].concat())
        .await
        .says(4, &["STATE_NOT_ALLOWED", "held already", "`policy holds`"]);
    ask(&server, &["policy", "hold", "--prefix", "a*", "-y", "--reason", "r"])
        .await
        .says(1, &["without the *"]);
    let listed = ask(&server, &["policy", "holds"]).await.says(0, &["CONSUMERS", "provider is down"]);
    assert!(listed.out.lines().any(|line| line.starts_with("pay*  ")), "{listed:?}");
    ask(&server, &["policy", "holds", "--prefix", "ship"]).await.is(0, "");
    ask(&server, &["policy", "list"]).await.says(0, &["  held\n"]);
    ask(&server, &["policy", "get", "pay-new"])
        .await
        .says(0, &["by a hold of the consumers whose names begin with pay"]);
    let all = ["policy", "hold", "--all", "-y", "--reason", "all of it", "--json"];
    assert_eq!(ask(&server, &all).await.json()[0]["hold"]["all"], true);
    ask(&server, &["policy", "get", "pay"]).await.says(0, &["by a hold of all consumers: no new grants"]);
    let resume = ["policy", "resume", "--reason", "it is up", "-y"];
    ask(&server, &[&resume[..], &["--all"]].concat()).await.is(0, "all consumers: the hold has ended\n");
    ask(&server, &[&resume[..], &["--prefix", "pay"]].concat()).await.says(0, &["the hold has ended"]);
    ask(&server, &[&resume[..], &["--prefix", "pay"]].concat()).await.says(4, &["STATE_NOT_ALLOWED"]);
    ask(&server, &["policy", "holds"]).await.says(0, &["no consumer is held"]);
    ask(&server, &[&hold[..], &["-y"]].concat()).await.says(0, &[done]);
    ask(&server, &[&resume[..], &["--prefix", "pay", "--json"]].concat()).await.is(0, "{}\n");
    ask(&server, &["policy", "set", "*", "--disabled", "--reason", "r"]).await.says(1, &["policy hold"]);
    server.stop().await;
}

async fn a_policy_is_set_shown_and_taken_back(kind: Kind) {
    let setup = Setup::default().with("filed", Policy { lease: Span::from_secs(40), ..Policy::default() });
    let server = TestServer::start_with(kind, setup).await;
    ask(&server, &["policy", "get", "pay"]).await.says(
        0,
        &[
            "source                 DEFAULT, ",
            "version                0\n",
            "max_redelivery_window  not stated\n",
        ],
    );
    let set =
        ["policy", "set", "pay", "--lease", "2m", "--backoff-max", "10m", "--on-expiry", "park_if_started"];
    let set = [&set[..], &["--disabled", "--reason", "slow provider"]].concat();
    let dry = ask(&server, &[&set[..], &["--dry-run"]].concat()).await;
    let dry = dry.is(0, "dry run: nothing was changed\n");
    let difference = "pay\n  lease: 30s → 2m\n  on_expiry: RECLAIM → PARK_IF_STARTED\n  \
                      backoff.max: 5m → 10m\n  disabled: false → true\n";
    let note = "note: the ledger knows no consumer of this name yet\n";
    // What `policy lint` finds comes first.
    let warnings = |ran: &Ran| {
        let told = ran.err.strip_suffix(&format!("{difference}{note}")).map(str::to_owned);
        let told = told.unwrap_or_else(|| panic!("{ran:?}"));
        let field = |line: &str| line.strip_prefix("warning: pay: ")?.split(':').next().map(str::to_owned);
        told.lines().map(|line| field(line).unwrap_or_else(|| panic!("{line}"))).collect::<Vec<_>>()
    };
    assert_eq!(warnings(&dry), ["max_redelivery_window", "on_expiry", "disabled"]);
    let told = ask(&server, &[&set[..], &["--dry-run", "--json"]].concat()).await.json().remove(0);
    let lease = serde_json::json!({ "path": "lease", "from": "30s", "to": "2m" });
    assert_eq!((&told["dryRun"], &told["changes"][0]), (&true.into(), &lease));
    assert_eq!((&told["policy"]["policy"]["lease"], &told["policy"]["version"]), (&"120s".into(), &1.into()));
    ask(&server, &["policy", "history", "pay"]).await.is(3, "");
    let done = ask(&server, &set).await.is(0, "pay: version 1 in force, from SET\n");
    assert_eq!(warnings(&done), ["max_redelivery_window", "on_expiry", "disabled"]);
    let listed = ask(&server, &["policy", "list"]).await.says(0, &[]);
    let lines: Vec<&str> = listed.out.lines().collect();
    assert_eq!(
        lines,
        [
            "CONSUMER  SOURCE         VERSION  LEASE  ON EXPIRY        ATTEMPTS  RETENTION",
            "filed     CONFIGURATION  0        40s    RECLAIM          10        7d",
            "pay       SET            1        2m     PARK_IF_STARTED  10        7d         disabled",
        ]
    );
    let told = ask(&server, &["policy", "get", "pay", "--json"]).await.json().remove(0);
    assert_eq!((&told["policy"]["lease"], &told["source"]), (&"120s".into(), &"POLICY_SOURCE_SET".into()));
    let again =
        ["policy", "set", "pay", "--disabled", "false", "--retention", "60d", "--reason", "works again"];
    ask(&server, &again).await.says(0, &["  failed_retention: 30d → 60d\n", "pay: version 2 in force"]);
    // What was forgotten by the shorter retention is not known again.
    ask(&server, &["policy", "get", "pay"])
        .await
        .says(0, &["window_floor", ": older messages are outside_window"]);
    let history =
        ask(&server, &["policy", "history", "pay", "--limit", "1"]).await.says(0, &["there are more"]);
    let expected = "version 2, 2026-05-28T20:26:40Z, anonymous: works again\n  retention: 7d → 60d\n  \
                    failed_retention: 30d → 60d\n  abandoned_retention: 30d → 60d\n  \
                    result_retention: 7d → 60d\n  disabled: true → false\n";
    assert_eq!(history.out, expected);
    assert_eq!(ask(&server, &["policy", "history", "pay", "--json"]).await.json().len(), 2);
    let limited = ["policy", "set", "pay", "--claims-per-second", "50", "--reason", "spare the provider"];
    ask(&server, &limited)
        .await
        .says(0, &["  claims_per_second: 0 (no limit) → 50\n", "pay: version 3 in force"]);
    let delete = ["policy", "delete", "pay", "--reason", "back to normal"];
    ask(&server, &delete).await.says(2, &["not confirmed"]);
    ask(&server, &[&delete[..], &["-y"]].concat()).await.is(0, "pay: version 4 in force, from DEFAULT\n");
    ask(&server, &[&delete[..], &["-y"]].concat()).await.says(3, &["POLICY_NOT_FOUND"]);
    let never = ["policy", "delete", "never", "-y", "--reason", "r"];
    ask(&server, &never).await.says(3, &["POLICY_NOT_FOUND"]);
    ask(&server, &["policy", "history", "pay"]).await.says(0, &["deleted: the server's configuration"]);
    ask(&server, &["policy", "history", "never"]).await.is(3, "");
    ask(&server, &["policy", "lint", "--consumer", "never"])
        .await
        .says(0, &["knows no consumer of this name"]);
    let known = ask(&server, &["policy", "lint", "--consumer", "filed"]).await.says(0, &[]);
    assert!(!known.err.contains("note: "), "{known:?}");
    server.stop().await;
}

async fn a_change_needs_the_version_that_was_seen(kind: Kind) {
    let server = TestServer::start(kind).await;
    ask(&server, &["policy", "set", "pay", "--reason", "r"]).await.says(2, &["at least one field"]);
    ask(&server, &["policy", "set", "pay", "--lease", "2m"]).await.says(2, &["--reason <REASON>"]);
    ask(&server, &["policy", "set", "pay", "--lease", "soon", "--reason", "r"])
        .await
        .says(2, &["soon", "30s"]);
    let set = ["policy", "set", "pay", "--lease", "2m", "--reason", "r", "--expected-version"];
    ask(&server, &[&set[..], &["4"]].concat()).await.says(4, &["VERSION_MISMATCH"]);
    let first = [&set[..], &["0", "--request-id", "p1"]].concat();
    ask(&server, &first).await.says(0, &["version 1"]);
    ask(&server, &first).await.says(0, &["this repeat changed nothing"]);
    let short = ["policy", "set", "pay", "--max-redelivery-window", "14d", "--reason", "r"];
    ask(&server, &short).await.says(1, &["RETENTION_TOO_SHORT", "--accepted-risk", "\n  policy.retention: "]);
    ask(&server, &[&short[..], &["--dry-run"]].concat()).await.says(
        1,
        &["the server would refuse it: RETENTION_TOO_SHORT: ", "\n  policy.retention: ", "--accepted-risk"],
    );
    let accepted = [&short[..], &["--accepted-risk", "a newsletter"]].concat();
    ask(&server, &accepted).await.says(0, &["accepted_risk: - → \"a newsletter\""]);
    let back =
        ["policy", "set", "pay", "--accepted-risk", "", "--max-redelivery-window", "7d", "--reason", "r"];
    ask(&server, &back).await.says(0, &["accepted_risk: \"a newsletter\" → -", "version 3"]);
    let same = ["policy", "set", "pay", "--lease", "2m", "--reason", "r"];
    ask(&server, &same).await.says(0, &["pay\n  no field changes\n"]);
    let delete = ["policy", "delete", "pay", "--reason", "r", "-y", "--json", "--expected-version"];
    ask(&server, &[&delete[..], &["1"]].concat()).await.says(4, &["VERSION_MISMATCH"]);
    let answer = ask(&server, &[&delete[..], &["4"]].concat()).await.json().remove(0);
    assert_eq!(answer["policy"]["version"], 5, "{answer}");
    server.stop().await;
}

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policies.yaml");
    fs::write(&file, text).unwrap();
    (folder, file)
}

async fn a_file_is_applied_once(kind: Kind) {
    let server = TestServer::start(kind).await;
    for consumer in ["old", "other"] {
        ask(&server, &["policy", "set", consumer, "--lease", "1m", "--reason", "r"]).await.says(0, &[]);
    }
    let (_folder, path) = file(
        "consumers:\n  payments:\n    lease: 2m\n    on_expiry: PARK_IF_STARTED\n    \
         backoff: {initial: 5s, max: 10m}\n  old: {delete: true}\n  mail: {max_attempts: 3}\n",
    );
    let apply = ["policy", "apply", "-f", path.to_str().unwrap(), "--reason", "ticket 4711"];
    let difference = "mail\n  max_attempts: 10 → 3\nold\n  taken back: the server's configuration is in force \
                      again\npayments\n  lease: 30s → 2m\n  on_expiry: RECLAIM → PARK_IF_STARTED\n  \
                      backoff.initial: 1s → 5s\n  backoff.max: 5m → 10m\n\
                      consumers that the file does not name are left alone\n";
    let dry = ask(&server, &[&apply[..], &["--dry-run"]].concat()).await;
    let dry = dry.is(7, "dry run: 3 policies would change; nothing was changed\n");
    // Next to it stands what `policy lint` finds.
    let shown = |ran: &Ran| {
        let lines = ran.err.lines().filter(|line| !line.starts_with("warning: "));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(shown(&dry), difference);
    assert!(dry.err.contains("warning: payments: on_expiry: is PARK_IF_STARTED"), "{dry:?}");
    let told = ask(&server, &[&apply[..], &["--dry-run", "--json"]].concat()).await.json().remove(0);
    let lease = serde_json::json!({ "path": "lease", "from": "30s", "to": "2m" });
    assert_eq!((&told["dryRun"], &told["differences"]["payments"]["changes"][0]), (&true.into(), &lease));
    assert_eq!(told["differences"]["old"]["delete"], true);
    ask(&server, &apply).await.says(2, &["not confirmed", "--yes"]);
    let done = ask(&server, &[&apply[..], &["--yes"]].concat()).await.is(0, "3 policies changed\n");
    assert!(shown(&done).starts_with(difference), "{done:?}");
    ask(&server, &apply).await.is(0, "nothing to change\n");
    ask(&server, &[&apply[..], &["--dry-run"]].concat()).await.is(0, "nothing to change\n");
    let told = ask(&server, &[&apply[..], &["--json"]].concat()).await.json().remove(0);
    assert_eq!(told["changed"], serde_json::json!([]));
    let piped = ["policy", "apply", "-f", "-", "--reason", "r", "--yes"];
    let text = b"consumers: {mail: {on_expiry: park, max_attempts: 3}}";
    ask_with(&server, &piped, text).await.is(0, "1 policy changed\n");
    ask_with(&server, &piped, b"").await.says(2, &["names no consumer"]);
    let inbox = ask_with(&server, &piped, b"consumers: {mail: {inbox: true}}").await;
    inbox.says(0, &["raises the level of the store"]);
    let json = [&piped[..], &["--json"]].concat();
    let answer = ask_with(&server, &json, b"consumers: {mail: {lease: 1m}}").await.json().remove(0);
    assert_eq!(answer["changed"], serde_json::json!(["mail"]), "{answer}");
    ask(&server, &["policy", "get", "old"]).await.says(0, &["source                 DEFAULT"]);
    ask(&server, &["policy", "get", "other"]).await.says(0, &["lease                  1m"]);
    ask(&server, &["policy", "history", "mail"]).await.says(0, &["anonymous: ticket 4711"]);
    server.stop().await;
}

async fn a_file_that_is_wrong_changes_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    for (code, text, says) in [
        (
            2,
            "consumers:\n  a: {lease: 1m}\n  b:\n    leese: 2m\n",
            &["line 4: consumers.b.leese: unknown field"][..],
        ),
        (
            1,
            "consumers:\n  a: {lease: 1m}\n  b: {lease: 1ms, max_hold: 500d}\n",
            &["nothing was changed:\n", "\n  consumers.b.lease: is ", "\n  consumers.b.max_hold: is "],
        ),
        (1, "consumers:\n  a: {lease: 1m}\n  \"\": {lease: 1m}\n", &["INVALID_FIELD", "consumer: is empty"]),
        (1, "consumers:\n  a: {lease: 1m}\n  b*: {lease: 1m}\n", &["INVALID_FIELD", "consumer: ends with *"]),
    ] {
        let (_folder, path) = file(text);
        let apply = ["policy", "apply", "-f", path.to_str().unwrap(), "--reason", "r", "--yes"];
        ask(&server, &apply).await.says(code, says);
    }
    ask(&server, &["policy", "apply", "-f", "/no/such.yaml", "--reason", "r"])
        .await
        .says(2, &["/no/such.yaml"]);
    ask(&server, &["policy", "list"]).await.is(0, "");
    server.stop().await;
}

async fn an_application_that_breaks_off_says_what_is_done(kind: Kind) {
    let server = TestServer::start(kind).await;
    // A reason that is too long is refused by the server at the first consumer already.
    let (_folder, path) = file("consumers:\n  a: {lease: 1m}\n  b: {lease: 1m}\n");
    let long = "x".repeat(1_100);
    let apply = ["policy", "apply", "-f", path.to_str().unwrap(), "--yes", "--reason", &long];
    ask(&server, &apply).await.says(1, &["a: INVALID_FIELD", "\n  changed: none; not changed: a, b\n"]);
    let told = ask(&server, &[&apply[..], &["--json"]].concat()).await;
    assert_eq!(told.code, 1);
    assert_eq!(told.out, "{\"changed\":[],\"dryRun\":false,\"notChanged\":[\"a\",\"b\"]}\n");
    server.stop().await;
}

async fn application_that_breaks_off_half_way_is_partly_done(kind: Kind) {
    let people = People::new(&[("all", &[("*", "read admin")]), ("half", &[("*", "read"), ("a", "admin")])]);
    let setup = Setup { guard: Guard::new(people.trust()), ..Setup::default() };
    let server = TestServer::start_with(kind, setup).await;
    let by = |name| ["--token", people.token(name), "--plaintext-token"];
    let set = ["policy", "set", "b", "--lease", "40s", "--reason", "r"];
    ask(&server, &[&set[..], &by("all")].concat()).await.says(0, &[]);
    // The deletion is refused only when it is made.
    let (_folder, path) = file("consumers:\n  a: {lease: 1m}\n  b: {delete: true}\n");
    let apply = ["policy", "apply", "-f", path.to_str().unwrap(), "--yes", "--reason", "r"];
    let apply = [&apply[..], &by("half")].concat();
    ask(&server, &apply)
        .await
        .says(6, &["b: CONSUMER_NOT_ALLOWED", "\n  changed: a; not changed: b\n", "apply the file again"]);
    ask(&server, &apply).await.says(1, &["\n  changed: none; not changed: b\n"]);
    server.stop().await;
}

async fn mistakes_are_found_with_figures(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let held = server.client.claim(claim("c", "slow")).await.unwrap().into_inner();
    let token = crate::harness::details::acquired(&held).token;
    server.advance(Span::from_secs(45)).await;
    let request =
        idempotency_ledger::proto::CompleteRequest { key: key("c", "slow"), token, ..Default::default() };
    server.client.complete(request).await.unwrap();
    complete(&server, "fast").await;
    ask(&server, &["policy", "lint"])
        .await
        .says(0, &["no consumer has its own policy", "0 policies looked at, 0 warnings"]);
    let lint = ["policy", "lint", "--consumer", "c"];
    ask(&server, &lint).await.says(
        0,
        &[
            "warning: c: max_redelivery_window: is not stated",
            "warning: c: lease: is 30s, and the newest 2 completed entries took 45s (99th percentile), at most 45s",
            "1 policy looked at, 2 warnings\n",
        ],
    );
    ask(&server, &[&lint[..], &["--strict"]].concat()).await.says(1, &["2 warnings"]);
    // They are said before anything is changed.
    let short = "warning: c: lease: is 20s, and the newest 2 completed entries took 45s";
    let (_folder, path) = file("consumers: {c: {lease: 20s}}\n");
    let apply = ["policy", "apply", "-f", path.to_str().unwrap(), "--reason", "r"];
    ask(&server, &[&apply[..], &["--dry-run"]].concat()).await.says(7, &[short]);
    ask(&server, &apply).await.says(2, &[short, "not confirmed"]);
    let set = ["policy", "set", "c", "--lease", "20s", "--reason", "r"];
    ask(&server, &[&set[..], &["--dry-run"]].concat()).await.says(0, &[short, "nothing was changed"]);
    let told = ask(&server, &set).await.says(0, &[short]);
    assert!(told.err.find(short) < told.err.find("  lease: 30s → 20s"), "{told:?}");
    let back = ["policy", "delete", "c", "--reason", "r", "-y"];
    ask(&server, &back).await.says(0, &[]);
    let (_folder, path) = file("consumers: {c: {lease: 2m, max_redelivery_window: 7d}}\n");
    ask(&server, &["policy", "lint", "--strict", "-f", path.to_str().unwrap()])
        .await
        .is(0, "1 policy looked at, 0 warnings\n");
    let (_folder, path) = file("consumers: {c: {max_redelivery_window: 14d, max_attempts: 0}}\n");
    let refused = "warning: c: policy: the server would refuse it: retention: is 7d, shorter than";
    ask(&server, &["policy", "lint", "--strict", "-f", path.to_str().unwrap()])
        .await
        .says(1, &[refused, "1 policy looked at, 1 warning\n"]);
    let told = ask(&server, &[&lint[..], &["--json"]].concat()).await.json().remove(0);
    assert_eq!(
        (told["warnings"].as_array().unwrap().len(), &told["warnings"][1]["field"]),
        (2, &"lease".into())
    );
    server.stop().await;
}

#[test]
fn a_file_is_linted_without_a_server() {
    let (_folder, path) =
        file("consumers:\n  a: {max_attempts: 0}\n  b: {lease: 1m, max_redelivery_window: 7d}\n");
    let lint = ["policy", "lint", "--offline", "-f", path.to_str().unwrap()];
    let found = alone(&lint).says(0, &["warning: a: max_attempts: is 0", "2 policies looked at, 2 warnings"]);
    assert!(!found.out.contains("warning: b"), "{found:?}");
    alone(&[&lint[..], &["--strict"]].concat()).says(1, &[]);
    alone(&["policy", "lint", "--offline"]).says(2, &["--file"]);
}

async fn a_policy_of_a_newer_version_is_shown_as_unreadable(kind: Kind) {
    let server = TestServer::start(kind).await;
    ask(&server, &["policy", "set", "pay", "--lease", "2m", "--reason", "r"]).await.says(0, &[]);
    newer(&server.at, "pay", 2, r#"{"quorum":3}"#).await;
    // The server reads it with the next look of an operator.
    let unreadable = "this server cannot read";
    ask(&server, &["policy", "get", "pay"]).await.says(0, &["unreadable", unreadable, "lease"]);
    ask(&server, &["policy", "list"]).await.says(0, &["  unreadable\n"]);
    ask(&server, &["policy", "history", "pay"])
        .await
        .says(0, &["  a newer version set it, and this server cannot read it\n", "version 1, "]);
    // A file without its fields would take them back.
    ask(&server, &["policy", "export"])
        .await
        .says(1, &["error: pay: a newer version set the policy", unreadable]);
    server.stop().await;
}

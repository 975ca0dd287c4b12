//! The whole picture: what is stuck in all consumers, whom it needs, and what it failed with.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{ChildStdout, Stdio};

use idempotency_ledger::domain::{Policy, Span};
use idempotency_ledger::proto;

use super::{ask, command, complete, park, take};
use crate::harness::details::{acquired, claim, key};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(
    list_without_a_consumer_shows_all_consumers,
    list_groups_entries_by_their_error,
    get_of_a_held_entry_names_its_holder_and_the_forced_redrive,
    summary_names_held_consumers_without_entries,
    watched_summary_names_what_has_changed,
);

/// An entry of another consumer that its client had parked.
async fn park_of(server: &TestServer, consumer: &str, id: &str, error: &str) {
    let request = proto::ClaimRequest { owner: "pod-b/1".into(), ..claim(consumer, id) };
    let token = acquired(&server.client.clone().claim(request).await.unwrap().into_inner()).token;
    let request = proto::FailRequest {
        key: key(consumer, id),
        token,
        kind: proto::FailureKind::Park.into(),
        error: error.into(),
        ..Default::default()
    };
    server.client.clone().fail(request).await.unwrap();
}

fn ids(found: &[serde_json::Value]) -> Vec<String> {
    let name = |entry: &serde_json::Value| {
        format!("{}/{}", entry["key"]["consumer"].as_str().unwrap(), entry["key"]["id"].as_str().unwrap())
    };
    found.iter().map(name).collect()
}

async fn list_without_a_consumer_shows_all_consumers(kind: Kind) {
    let server = TestServer::start(kind).await;
    park(&server, "1", "no such account").await;
    complete(&server, "2").await;
    park_of(&server, "b", "1", "provider answered 502").await;
    server.advance(Span::from_secs(100)).await;
    park_of(&server, "b", "2", "provider answered 504").await;
    let listed = ask(&server, &["entries", "list"]).await.says(0, &[]);
    let lines: Vec<&str> = listed.out.lines().collect();
    assert_eq!(lines.len(), 4, "{listed:?}");
    assert!(lines[0].starts_with("STATE   CAUSE     ATTEMPTS  CONSUMER  ID  SOURCE  AGE"), "{listed:?}");
    assert!(lines[1].starts_with("PARKED  CONSUMER  1         b         1   tests "), "{listed:?}");
    assert!(lines[3].starts_with("PARKED  CONSUMER  1         c         1   tests "), "{listed:?}");
    for (flags, expected) in [
        (&["--limit", "2"][..], &["b/1", "b/2"][..]),
        (&["--newest-first"], &["b/2", "b/1", "c/1"]),
        (&["--owner", "pod-b/1"], &["b/1", "b/2"]),
        (&["--error-contains", "account"], &["c/1"]),
        (&["--parked-since", "1m"], &["b/2"]),
        (&["--parked-since", "1h", "--error-contains", "502"], &["b/1"]),
        (&["--state", "entry_state_parked", "--limit", "0"], &["b/1", "b/2", "c/1"]),
        (&["--consumer", "c", "--owner", "worker"], &["c/1"]),
    ] {
        let found = ask(&server, &[&["entries", "list", "--json"], flags].concat()).await;
        assert_eq!(ids(&found.json()), expected, "{flags:?}");
    }
    ask(&server, &["entries", "list", "--limit", "2"]).await.says(0, &["more: raise --limit (2)"]);
    ask(&server, &["entries", "list", "--state", "COMPLETED"])
        .await
        .says(1, &["filter.states", "name the consumer"]);
    ask(&server, &["entries", "list", "--owner", "absent"]).await.says(0, &["no entry matches\n"]);
    let unknown = "note: the ledger knows no consumer of this name yet";
    ask(&server, &["entries", "list", "--consumer", "absent"]).await.says(0, &["no entry matches", unknown]);
    let none = ask(&server, &["entries", "list", "--consumer", "c", "--owner", "absent"]).await;
    assert_eq!(none.err, "no entry matches\n");
    // The filters are those of a redrive too.
    let redrive = ["entries", "redrive", "--consumer", "b", "--state", "PARKED", "--reason", "r", "--yes"];
    let some = ask(&server, &[&redrive[..], &["--error-contains", "504"]].concat()).await;
    some.is(0, "1 redriven, 0 refused\n");
    let left = ask(&server, &["entries", "list", "--state", "PARKED", "--json"]).await;
    assert_eq!(ids(&left.json()), ["b/1", "c/1"]);
    server.stop().await;
}

async fn list_groups_entries_by_their_error(kind: Kind) {
    let server = TestServer::start(kind).await;
    for id in ["1", "2", "3"] {
        park(&server, id, &format!("timeout\nof {id}")).await;
    }
    park_of(&server, "b", "1", "no such account").await;
    let list = ["entries", "list", "--group-by", "error"];
    let shown = ask(&server, &list).await.says(0, &[]);
    let lines: Vec<&str> = shown.out.lines().collect();
    assert_eq!(lines.len(), 3, "{shown:?}");
    assert!(lines[0].starts_with("COUNT  CONSUMER  STATE   CAUSE     OLDEST"), "{shown:?}");
    assert!(
        lines[1].starts_with("3      c         PARKED  CONSUMER ") && lines[1].ends_with("  timeout"),
        "{shown:?}"
    );
    assert!(lines[2].starts_with("1      b ") && lines[2].ends_with("  no such account"), "{shown:?}");
    let next = "entries list --consumer c --state PARKED ";
    assert!(shown.err.starts_with("next: ") && shown.err.contains(next), "{shown:?}");
    let few = ask(&server, &[&list[..], &["--limit", "1"]].concat()).await;
    few.says(0, &["1 group is not shown: raise --limit, or 0 for 1000\n"]);
    let shown = ask(&server, &[&list[..], &["--consumer", "c", "--json"]].concat()).await.json();
    assert_eq!((shown.len(), &shown[0]["groups"][0]["count"]), (1, &"3".into()));
    assert_eq!((&shown[0]["lookedAt"], &shown[0]["isSample"]), (&"3".into(), &().into()));
    let unknown = ask(&server, &[&list[..], &["--consumer", "absent"]].concat()).await;
    unknown.says(0, &["no entry matches", "note: the ledger knows no consumer of this name yet"]);
    ask(&server, &[&list[..], &["--newest-first"]].concat()).await.says(2, &["cannot be used with"]);
    ask(&server, &["entries", "list", "--group-by", "owner"]).await.says(2, &["owner", "error"]);
    server.stop().await;
}

async fn get_of_a_held_entry_names_its_holder_and_the_forced_redrive(kind: Kind) {
    let server = TestServer::start(kind).await;
    let token = take(&server, "1").await;
    let get = ["entries", "get", "c", "tests", "1"];
    let shown = ask(&server, &get).await;
    let shown = shown.says(0, &["held by      worker since ", ", last renewed never, lease "]);
    let forced = format!("next: {} entries redrive c tests 1 --force --reason WHY    # ", super::BINARY);
    let line = shown.out.lines().find(|line| line.starts_with(&forced));
    assert!(line.is_some_and(|line| line.contains("the effect may happen twice")), "{shown:?}");
    server.advance(Span::from_secs(5)).await;
    let renew = proto::RenewRequest { key: key("c", "1"), token, ..Default::default() };
    server.client.clone().renew(renew).await.unwrap();
    let shown = ask(&server, &get).await.says(0, &["held by      worker since "]);
    assert!(!shown.out.contains("last renewed never"), "{shown:?}");
    // No client holds a settled entry.
    complete(&server, "2").await;
    let done = ask(&server, &["entries", "get", "c", "tests", "2"]).await;
    assert!(!done.out.contains("held by") && !done.out.contains("--force"), "{done:?}");
    server.stop().await;
}

async fn summary_names_held_consumers_without_entries(kind: Kind) {
    let disabled = Policy { disabled: true, ..Policy::default() };
    let server = TestServer::start_with(kind, Setup::default().with("mail", disabled)).await;
    let hold = ["policy", "hold", "--prefix", "team-a-", "--reason", "migration", "-y"];
    ask(&server, &hold).await.says(0, &[]);
    let shown = ask(&server, &["entries", "summary"]).await;
    let stopped = "  no new grants: team-a-* (held), mail (disabled) (policy holds; policy history mail)\n";
    shown.says(0, &["needs a person:\n", stopped, "there are no entries\n"]);
    ask(&server, &["policy", "resume", "--prefix", "team-a-", "--reason", "done", "-y"]).await.says(0, &[]);
    park(&server, "1", "x").await;
    park_of(&server, "b", "1", "x").await;
    let shown = ask(&server, &["entries", "summary"]).await;
    let shown = shown.says(0, &["  no new grants: mail (disabled)", "all consumers\n"]);
    assert!(shown.out.contains("  PARKED  CONSUMER  2      "), "the total: {shown:?}");
    server.stop().await;
}

type Printed = Lines<BufReader<ChildStdout>>;

/// Reads until a line has this text; returns it with what reads on.
async fn until(mut printed: Printed, text: &'static str) -> (String, Printed) {
    let read = move || {
        let found = printed.by_ref().map(Result::unwrap).find(|line| line.contains(text));
        (found.unwrap_or_else(|| panic!("no line has {text:?}")), printed)
    };
    tokio::task::spawn_blocking(read).await.unwrap()
}

async fn watched_summary_names_what_has_changed(kind: Kind) {
    let server = TestServer::start(kind).await;
    park(&server, "1", "x").await;
    let mut child = command(&["entries", "summary", "--watch", "--every", "100ms"])
        .args(["--endpoint", &server.address().to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let printed = BufReader::new(child.stdout.take().unwrap()).lines();
    let (_, printed) = until(printed, "changed since the last look: nothing").await;
    park(&server, "2", "x").await;
    let (changed, printed) = until(printed, "PARKED (CONSUMER) +1").await;
    assert_eq!(changed, "changed since the last look: c PARKED (CONSUMER) +1");
    drop(printed);
    child.kill().unwrap();
    child.wait().unwrap();
    server.stop().await;
}

/// A server of an earlier version would ignore the filter, and redrive what it excludes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_that_a_server_does_not_know_are_refused() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    let (_reporter, health) = tonic_health::server::health_reporter();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let server = tonic::transport::Server::builder().add_service(health).serve_with_incoming(incoming);
    let server = tokio::spawn(server);
    let refused = "does not know --owner, --error-contains, --parked-since and --kept: it would ignore them";
    let redrive = ["entries", "redrive", "--consumer", "c", "--state", "PARKED", "--reason", "r", "--yes"];
    let commands = [
        ([&redrive[..], &["--error-contains", "502"]].concat(), refused),
        ([&redrive[..], &["--parked-since", "1h"]].concat(), refused),
        (vec!["entries", "list", "--owner", "pod-a/1"], refused),
        (vec!["entries", "list", "--kept"], refused),
        (redrive.to_vec(), "Unimplemented"),
    ];
    let run = move || {
        for (command, says) in commands {
            super::alone(&[&command[..], &["--endpoint", &endpoint]].concat())
                .says(1, &[says, "older than this command line"]);
        }
    };
    tokio::task::spawn_blocking(run).await.unwrap();
    server.abort();
}

//! The audit by what was done, by whom and when; and policies as a file.

use super::{ask, ask_with, complete, park};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};
use idempotency_ledger::domain::Span;

on_both_stores!(audit_list_filters_and_shows_what_changed, exported_policies_apply_without_a_difference);

async fn audit_list_filters_and_shows_what_changed(kind: Kind) {
    let server = TestServer::start(kind).await;
    for id in ["1", "2"] {
        park(&server, id, "x").await;
    }
    let many = ["entries", "redrive", "--consumer", "c", "--state", "PARKED", "--reason", "is back", "--yes"];
    ask(&server, &[&many[..], &["--operation-id", "op-1"]].concat()).await.says(0, &["2 redriven"]);
    server.advance(Span::from_secs(60)).await;
    ask(&server, &["policy", "set", "c", "--lease", "40s", "--reason", "r"]).await.says(0, &[]);
    server.advance(Span::from_secs(1)).await;
    ask(&server, &["policy", "set", "c", "--lease", "2m", "--reason", "slow provider"]).await.says(0, &[]);
    let listed = ask(&server, &["audit", "list"]).await.says(0, &[]);
    let lines: Vec<&str> = listed.out.lines().collect();
    assert!(lines[0].contains("  CHANGED "), "{listed:?}");
    assert!(lines[1].contains("  SET_POLICY ") && lines[1].contains("  lease 40s → 2m "), "{listed:?}");
    assert!(
        lines[3].contains("  REDRIVE ") && lines[3].contains("  PARKED → RECEIVED, attempts 1 → 0 "),
        "{listed:?}"
    );
    for (flags, number) in [
        (&["--consumer", "c", "--operation", "op-1"][..], 3),
        (&["--consumer", "c", "--operation", "op"], 0),
        (&["--action", "redrive"], 2),
        (&["--action", "SET_POLICY", "REDRIVE_ENTRIES"], 3),
        (&["--actor", "anonymous"], 5),
        (&["--actor", "anybody"], 0),
        (&["--since", "2026-05-28T20:27:40Z"], 2),
        (&["--until", "2026-05-28T20:27:40Z"], 3),
        (&["--since", "2026-05-28T20:26:40Z", "--until", "2026-05-28T20:26:41Z", "--action", "REDRIVE"], 2),
    ] {
        let shown = ask(&server, &[&["audit", "list", "--json"], flags].concat()).await.json();
        assert_eq!(shown.len(), number, "{flags:?}: {shown:?}");
    }
    let shown = ask(&server, &["audit", "list", "--json", "--limit", "1"]).await.json();
    let change = serde_json::json!([{ "path": "lease", "from": "40s", "to": "2m" }]);
    assert_eq!(shown[0]["changes"], change);
    ask(&server, &["audit", "list", "--operation", "op-1"]).await.says(2, &["--consumer"]);
    ask(&server, &["audit", "list", "--since", "soon"]).await.says(2, &["soon", "nor a duration like 2h"]);
    server.stop().await;
}

async fn exported_policies_apply_without_a_difference(kind: Kind) {
    let server = TestServer::start(kind).await;
    ask(&server, &["policy", "export"]).await.says(3, &["no operator has set a policy"]);
    let set = ["policy", "set", "pay", "--lease", "2m", "--backoff-max", "10m", "--reason", "r"];
    let risk = ["--max-redelivery-window", "14d", "--accepted-risk", "a \"newsletter\": #1"];
    ask(&server, &[&set[..], &risk].concat()).await.says(0, &[]);
    ask(&server, &["policy", "set", "ship: 1", "--disabled", "--reason", "r"]).await.says(0, &[]);
    complete(&server, "1").await;
    let exported = ask(&server, &["policy", "export"]).await;
    let exported = exported.says(0, &["consumers:\n", "  \"pay\":\n    lease: 2m\n", "  \"ship: 1\":\n"]);
    let apply = ["policy", "apply", "-f", "-", "--reason", "r"];
    ask_with(&server, &apply, exported.out.as_bytes()).await.is(0, "nothing to change\n");
    // At a server that knows none of them the file makes the same policies.
    let other = TestServer::start(kind).await;
    let made = ask_with(&other, &[&apply[..], &["--yes"]].concat(), exported.out.as_bytes()).await;
    made.says(0, &["2 policies changed"]);
    ask(&other, &["policy", "export"]).await.is(0, &exported.out);
    let one = ask(&server, &["policy", "export", "pay"]).await.says(0, &[]);
    assert!(!one.out.contains("ship"), "{one:?}");
    ask(&server, &["policy", "export", "c"]).await.says(0, &["  \"c\":\n    lease: 30s\n"]);
    let shown = ask(&server, &["policy", "export", "--json"]).await.json();
    assert_eq!(shown.len(), 2);
    other.stop().await;
    server.stop().await;
}

//! `tokens`: how the store's clock stands, and raising what is added to it.

use idempotency_ledger::domain::Span;

use super::{alone, ask, take};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, TestServer};

on_both_stores!(an_offset_is_shown_and_raised, an_offset_is_not_raised_unasked);

async fn an_offset_is_shown_and_raised(kind: Kind) {
    let server = TestServer::start(kind).await;
    take(&server, "1").await;
    let fine = ask(&server, &["tokens", "show"]).await;
    fine.says(0, &["the store's clock shows 2026-", "token offset: 0s\n", "the clock is not behind\n"]);
    server.at.set_clock(START - Span::from_secs(90)).await;
    let behind = ask(&server, &["tokens", "show"]).await;
    behind.says(1, &["the clock is behind by 1m 30s: nothing is granted until it has caught up\n"]);
    let raise = ["tokens", "raise-offset", "--reason", "set back", "--yes"];
    let short = ask(&server, &[&raise[..], &["--by", "60s", "--request-id", "r 1"]].concat()).await;
    short.is(0, "token offset: 1m\n").says(0, &["still behind by 30s"]);
    let again = ["--by", "60s", "--request-id", "r 1", "--expected-offset", "0s"];
    let again = ask(&server, &[&raise[..], &again].concat()).await;
    again.is(0, "token offset: 1m (it had been done before; this repeat changed nothing)\n");
    let other = ask(
        &server,
        &[&raise[..], &["--by", "61s", "--request-id", "r 1", "--expected-offset", "0s"]].concat(),
    )
    .await;
    other.says(1, &["INVALID_FIELD: ", "request_id: was used before"]);
    let stale = ask(&server, &[&raise[..], &["--by", "1h", "--expected-offset", "0s"]].concat()).await;
    stale.says(4, &["VERSION_MISMATCH: ", "look again with `tokens show`"]);
    let far = ask(&server, &[&raise[..], &["--by", "400d"]].concat()).await;
    far.says(1, &["token_offset: is more than 366 days above the present one"]);
    let told = ask(&server, &[&raise[..], &["--by", "1h", "--json"]].concat()).await.json().remove(0);
    assert_eq!((&told["tokenOffset"], &told["behind"]), (&"3660s".into(), &serde_json::Value::Null));
    let told = ask(&server, &["tokens", "show", "--json"]).await.json().remove(0);
    assert_eq!(told["tokenOffset"], "3660s");
    take(&server, "2").await;
    let audit = ask(&server, &["audit", "list"]).await;
    audit.says(0, &["RAISE_TOKEN_OFFSET", "set back"]);
    server.stop().await;
}

async fn an_offset_is_not_raised_unasked(kind: Kind) {
    let server = TestServer::start(kind).await;
    let raise = ["tokens", "raise-offset", "--by", "1h", "--reason", "r"];
    ask(&server, &raise).await.says(2, &["not confirmed", "add --yes"]);
    ask(&server, &["tokens", "show"]).await.says(0, &["token offset: 0s\n"]);
    if !super::no_terminals() {
        let line = format!("{} {} --endpoint {}", super::BINARY, raise.join(" "), server.address());
        let no = super::on_a_terminal(line.clone(), "n\n").await;
        no.says(2, &["Raise the token offset from 0s to 1h, for good (it can never be lowered)? [y/N] "]);
        super::on_a_terminal(line, "y\n").await.says(0, &["token offset: 1h"]);
    }
    alone(&["tokens", "raise-offset", "--reason", "r"]).says(2, &["--by"]);
    alone(&["tokens", "raise-offset", "--by", "soon", "--reason", "r"]).says(2, &["soon", "30s"]);
    server.stop().await;
}

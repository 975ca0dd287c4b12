//! `tokens`: how the store's clock stands, and raising what is added to it.

use idempotency_ledger::domain::{Span, StoreTime};

use super::{alone, ask, take};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, Setup, TestServer, TestStore};

on_both_stores!(
    an_offset_is_shown_and_raised,
    an_offset_is_not_raised_unasked,
    a_clock_before_the_release_must_be_set_right,
    a_clock_that_has_jumped_ahead_is_reported,
);

async fn judged(kind: Kind) -> TestServer {
    TestServer::on(TestStore::new(kind).await.judged().await, Setup::default()).await
}

async fn a_clock_before_the_release_must_be_set_right(kind: Kind) {
    let server = judged(kind).await;
    server.at.set_clock(StoreTime(86_400_000_000)).await;
    let shown = ask(&server, &["tokens", "show"]).await;
    shown.says(
        1,
        &["the store's clock shows 1970-01-02", "before the date of the server's release", "set it right"],
    );
    let raise = ["tokens", "raise-offset", "--by", "366d", "--reason", "r", "--yes"];
    let raised = ask(&server, &raise).await;
    raised.says(5, &["before the date of the server's release", "token_offset does not help"]);
    let json = ask(&server, &["tokens", "show"]).await;
    json.says(1, &["token offset: 0s\n"]);
    server.at.set_clock(START).await;
    ask(&server, &["tokens", "show"]).await.says(0, &["the clock is not behind"]);
    server.stop().await;
}

async fn a_clock_that_has_jumped_ahead_is_reported(kind: Kind) {
    let server = judged(kind).await;
    take(&server, "1").await;
    server.at.set_clock(START + Span::from_days(400)).await;
    let shown = ask(&server, &["tokens", "show"]).await;
    let ahead = "the clock is ahead of its mark by 1year";
    shown.says(
        1,
        &["the store's clock shows 2027-", "highest reading so far: 2026-", ahead, "migrate --accept-clock"],
    );
    server.stop().await;
}

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

//! How the purge keeps up.

use std::time::Duration;

use idempotency_ledger::domain::Span;

use super::{ask, complete};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(a_purge_that_falls_behind_fails_the_check);

async fn a_purge_that_falls_behind_fails_the_check(kind: Kind) {
    // It looks at the start, and not again in the time of this test.
    let setup = Setup { purge_every: Duration::from_secs(3_600), ..Setup::default() };
    let server = TestServer::start_with(kind, setup).await;
    while ask(&server, &["retention", "status"]).await.out.contains("no server was heard of") {}
    complete(&server, "1").await;
    let shown = ask(&server, &["retention", "status"]).await;
    shown.says(0, &["0 entries wait for the purge\nthe purge keeps up\n"]);
    server.advance(Span::from_days(20)).await;
    let shown = ask(&server, &["retention", "status"]).await;
    shown.says(1, &["1 entry waits for the purge, the oldest for 12d 22h\nthe purge falls behind"]);
    let told = ask(&server, &["retention", "status", "--json"]).await;
    assert_eq!(told.code, 1);
    let told: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&told["due"], &told["fallingBehind"]), (&"1".into(), &true.into()));
    server.stop().await;
}

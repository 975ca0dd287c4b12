//! Each item of a batch counts as a call of its principal. Every RPC whose request has a list of items needs a row.

use std::collections::BTreeSet;

use idempotency_ledger::identity::Guard;
use idempotency_ledger::rpc::PrincipalLimits;
use serde_json::{Value, json};

use super::People;
use crate::harness::details::claim;
use crate::harness::dynamic::Rpc;
use crate::harness::raw::channel;
use crate::harness::server::{Kind, Setup, TestServer};

const ITEMS: usize = 40;
const PER_SECOND: usize = 4;

/// The batches: the field of the items, and one item of a key.
fn batches() -> [(&'static str, &'static str, fn(Value) -> Value); 4] {
    [
        ("BatchClaim", "requests", |key| json!({ "key": key, "claimId": claim("c", "").claim_id })),
        ("BatchLookup", "requests", |key| json!({ "key": key })),
        ("BatchSettle", "settlements", |key| json!({ "complete": { "key": key, "token": "1" } })),
        ("BatchStore", "requests", |key| json!({ "key": key })),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_of_each_batch_count_and_their_refusals_are_counted() {
    let batches = batches();
    let lists = Rpc::with_field(&["requests", "settlements"]);
    let known: BTreeSet<&str> = lists.iter().map(Rpc::name).collect();
    assert_eq!(batches.iter().map(|(rpc, ..)| *rpc).collect::<BTreeSet<_>>(), known, "a row for each batch");
    // Each batch has a separate principal, whose rate limit is unused.
    let all: &[(&str, &str)] = &[("*", "claim settle store")];
    let people = People::new(&batches.map(|(rpc, ..)| (rpc, all)));
    let principals = PrincipalLimits { calls_per_second: PER_SECOND, ..PrincipalLimits::default() };
    let setup = Setup { guard: Guard::new(people.trust()), principals, ..Setup::default() };
    let server = TestServer::start_with(Kind::Sqlite, setup).await;
    let channel = channel(&server).await;
    for (rpc, list, item) in batches {
        let called = lists.iter().find(|one| one.name() == rpc).unwrap();
        let items: Vec<Value> = (0..ITEMS)
            .map(|number| item(json!({ "consumer": "c", "source": "tests", "id": number.to_string() })))
            .collect();
        let counted = || {
            [
                "idempotency_ledger_refusals_total{reason=\"QUOTA_EXCEEDED\"}",
                "idempotency_ledger_principal_refusals_total{limit=\"rate\"}",
            ]
            .map(|metric| server.metric(metric).unwrap_or_default())
        };
        let before = counted();
        let request = called.request(&json!({ list: items }));
        let answers = called.call(&channel, Some(people.token(rpc)), &request).await.unwrap();
        let text = serde_json::to_string(&answers).unwrap();
        let refused = text.matches("ERROR_REASON_QUOTA_EXCEEDED").count();
        // More than a second's calls pass only where the batch takes long.
        assert!((ITEMS / 2..ITEMS).contains(&refused), "{rpc}: {refused} items were refused");
        #[allow(clippy::cast_precision_loss, reason = "a small number")]
        let expected = before.map(|count| count + refused as f64);
        assert_eq!(counted(), expected, "{rpc}");
    }
    server.stop().await;
}

//! BatchStore: each item is answered like a separate Store.

use idempotency_ledger::domain::{FingerprintMode, OccurredAtMode, Policy};
use idempotency_ledger::proto::{self, store_response::Verdict};

use super::{answered, inbox, message, server, server_with};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup};

on_both_stores!(
    same_keys_twice_in_a_large_batch_are_stored_in_the_order_of_the_batch,
    item_that_lacks_what_the_policy_demands_is_refused_with_its_path,
);

/// More items than a sort keeps in order by chance.
const KEYS: usize = 200;

async fn same_keys_twice_in_a_large_batch_are_stored_in_the_order_of_the_batch(kind: Kind) {
    let mut server = server(kind).await;
    let of = |fingerprint: &'static str| {
        (0..KEYS).map(move |id| proto::StoreRequest {
            fingerprint: fingerprint.into(),
            ..message(&id.to_string())
        })
    };
    let requests = of("first").chain(of("second")).collect();
    let response = server.client.batch_store(proto::BatchStoreRequest { requests }).await.unwrap();
    let words: Vec<String> = response.into_inner().responses.iter().map(|one| answered(one).0).collect();
    let expected = [vec!["stored RECEIVED"; KEYS], vec!["fingerprint_mismatch"; KEYS]].concat();
    assert_eq!(words, expected);
    server.stop().await;
}

async fn item_that_lacks_what_the_policy_demands_is_refused_with_its_path(kind: Kind) {
    let demands =
        Policy { fingerprint: FingerprintMode::Require, occurred_at: OccurredAtMode::Require, ..inbox() };
    let mut server = server_with(kind, Setup::default().with("c", inbox()).with("d", demands)).await;
    let requests = vec![message("1"), super::message_of("d", "1")];
    let response = server.client.batch_store(proto::BatchStoreRequest { requests }).await.unwrap();
    let responses = response.into_inner().responses;
    assert_eq!(answered(&responses[0]).0, "stored RECEIVED");
    let Some(Verdict::Rejected(rejected)) = &responses[1].verdict else { panic!("{responses:?}") };
    let paths: Vec<&str> = rejected.field_violations.iter().map(|one| one.field.as_str()).collect();
    assert_eq!(paths, ["requests[1].fingerprint", "requests[1].occurred_at"]);
    server.stop().await;
}

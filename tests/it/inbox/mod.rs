//! The inbox: docs/contract.md, section 15, over the wire and on both stores.

mod batches;
mod changes;
mod conservation;
mod erased;
mod handouts;
mod kept;
mod log;
mod next;
mod store_rules;
mod store_table;
mod waits;

use std::sync::atomic::{AtomicU64, Ordering};

use idempotency_ledger::domain::{Policy, Span};
use idempotency_ledger::proto::store_response::Verdict;
use idempotency_ledger::proto::{self, Advice};
use uuid::Uuid;

use crate::harness::details::key;
use crate::harness::server::{Kind, Setup, TestServer};

/// A policy of a consumer whose messages are stored.
pub(crate) fn inbox() -> Policy {
    Policy { inbox: true, ..Policy::default() }
}

/// A server that stores the messages of the consumer `c`.
pub(crate) async fn server(kind: Kind) -> TestServer {
    server_with(kind, Setup::default().with("c", inbox())).await
}

pub(crate) async fn server_with(kind: Kind, setup: Setup) -> TestServer {
    TestServer::start_with(kind, setup).await
}

/// A message of the consumer `c`.
pub(crate) fn message(id: &str) -> proto::StoreRequest {
    message_of("c", id)
}

pub(crate) fn message_of(consumer: &str, id: &str) -> proto::StoreRequest {
    proto::StoreRequest {
        key: key(consumer, id),
        message: Some(proto::Message {
            payload: format!("payload of {id}").into_bytes().into(),
            headers: vec![proto::Header { name: "trace".into(), value: vec![1, 2].into() }],
            topic: "orders".into(),
            partition: Some(3),
            offset: Some(44),
            message_key: b"customer 7".to_vec().into(),
            event_type: "order.paid".into(),
            event_version: "2".into(),
            content_type: "application/json".into(),
        }),
        fingerprint: Vec::new().into(),
        occurred_at: None,
    }
}

/// The verdict's word, with the state that it names, and the advice.
pub(crate) fn answered(response: &proto::StoreResponse) -> (String, Advice) {
    let word = match response.verdict.as_ref().expect("a verdict") {
        Verdict::Stored(it) => format!("stored {}", it.state().as_str_name()),
        Verdict::AlreadyStored(it) => format!("already_stored {}", it.state().as_str_name()),
        Verdict::Completed(_) => "completed".into(),
        Verdict::Failed(it) => format!("failed {}", it.error),
        Verdict::FingerprintMismatch(_) => "fingerprint_mismatch".into(),
        Verdict::OutsideWindow(_) => "outside_window".into(),
        Verdict::Rejected(it) => format!("rejected {}", it.reason().as_str_name()),
    };
    (word.replace("ENTRY_STATE_", ""), response.advice())
}

/// Stores a message; it must be stored now.
pub(crate) async fn stored(server: &mut TestServer, id: &str) {
    let response = server.client.store(message(id)).await.unwrap().into_inner();
    assert_eq!(answered(&response), ("stored RECEIVED".into(), Advice::Ack), "{id}");
}

/// The last claim_id, as a number.
static LAST_CLAIM: AtomicU64 = AtomicU64::new(0);

fn claim_id() -> String {
    let number = LAST_CLAIM.fetch_add(1, Ordering::Relaxed) + 1;
    // The version and the variant of a random one.
    Uuid::from_u128(0x4000_8000_0000_0000_0000 | u128::from(number)).to_string()
}

/// A call for up to this many messages, with its own claim_id.
pub(crate) fn next(max: i32) -> proto::ClaimNextRequest {
    proto::ClaimNextRequest {
        consumer: "c".into(),
        claim_id: claim_id(),
        owner: "worker".into(),
        max,
        ..Default::default()
    }
}

/// The ids and tokens of the messages that a call is handed out.
pub(crate) async fn handed(server: &mut TestServer, request: proto::ClaimNextRequest) -> Vec<(String, i64)> {
    let response = server.client.claim_next(request).await.unwrap().into_inner();
    ids(&response)
}

pub(crate) fn ids(response: &proto::ClaimNextResponse) -> Vec<(String, i64)> {
    let one = |handed: &proto::Handed| {
        let key = handed.key.as_ref().expect("a key");
        (key.id.clone(), handed.acquired.as_ref().expect("a claim").token)
    };
    response.messages.iter().map(one).collect()
}

pub(crate) fn seconds(seconds: i64) -> Span {
    Span::from_secs(seconds)
}

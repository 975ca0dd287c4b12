//! What an error says of itself.

use idempotency_ledger::proto::{self, claim_response::Verdict};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// An error, as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) reason: String,
    pub(crate) advice: String,
    pub(crate) state: String,
}

/// Every error carries an ErrorInfo of our domain, whose reason is in the published enum.
pub(crate) fn refusal(status: &Status) -> Refusal {
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("no ErrorInfo: {status:?}"));
    assert_eq!(info.domain, "idempotency.ledger.v1");
    let published = proto::ErrorReason::from_str_name(&format!("ERROR_REASON_{}", info.reason));
    assert!(published.is_some(), "{} is not published", info.reason);
    let of = |name: &str| info.metadata.get(name).cloned().unwrap_or_default();
    Refusal {
        code: status.code(),
        reason: info.reason.clone(),
        advice: of("advice"),
        state: of("current_state"),
    }
}

/// The paths of a BadRequest.
pub(crate) fn fields(status: &Status) -> Vec<String> {
    let details = status.get_error_details();
    let violations = details.bad_request().map(|bad| bad.field_violations.clone()).unwrap_or_default();
    violations.into_iter().map(|violation| violation.field).collect()
}

pub(crate) fn key(consumer: &str, id: &str) -> Option<proto::EntryKey> {
    Some(proto::EntryKey {
        consumer: consumer.into(),
        source: "tests".into(),
        id: id.into(),
        ..Default::default()
    })
}

pub(crate) fn claim(consumer: &str, id: &str) -> proto::ClaimRequest {
    proto::ClaimRequest { key: key(consumer, id), owner: "worker".into(), ..Default::default() }
}

/// The verdict, which must be `acquired`.
pub(crate) fn acquired(response: &proto::ClaimResponse) -> proto::Acquired {
    match response.verdict.clone() {
        Some(Verdict::Acquired(acquired)) => {
            assert_eq!(response.advice(), proto::Advice::Process);
            acquired
        }
        other => panic!("not acquired: {other:?}"),
    }
}

/// The verdict, which must be `completed`.
pub(crate) fn completed(response: &proto::ClaimResponse) -> proto::Completed {
    match response.verdict.clone() {
        Some(Verdict::Completed(completed)) => {
            assert_eq!(response.advice(), proto::Advice::Ack);
            completed
        }
        other => panic!("not completed: {other:?}"),
    }
}

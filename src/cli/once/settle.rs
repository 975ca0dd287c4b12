//! Settles the claim by the command's outcome, repeated until the ledger has confirmed it or the time is
//! over.

use std::time::Duration;

use bytes::Bytes;
use tonic::Status;

use super::grant::Held;
use crate::cli::problem::{Problem, reason};
use crate::cli::retry;
use crate::proto::{
    CompleteRequest, CompleteResponse, ErrorReason, FailRequest, FailureKind, ReleaseRequest,
};

/// Completes the claim: the command is done. `result` is `None` if its output must not be stored. Returns
/// whether the ledger has the output.
///
/// # Errors
/// The ledger did not confirm it.
pub(super) async fn complete(held: &Held, result: Option<Bytes>, within: Duration) -> Result<bool, Problem> {
    let is_sent = result.as_ref().is_some_and(|result| !result.is_empty());
    let done = match completed(held, result, within).await {
        // The command is done, and a result that the server refuses must not undo that.
        Err(status) if is_sent && is_refused_for_its_result(&status) => completed(held, None, within).await,
        done => done,
    };
    done.map(|answer| !answer.result_dropped).map_err(|status| Problem::of(&status))
}

async fn completed(held: &Held, result: Option<Bytes>, within: Duration) -> Result<CompleteResponse, Status> {
    let request = CompleteRequest {
        key: Some(held.key.clone()),
        token: held.token,
        result_left_out: result.is_none(),
        result: result.unwrap_or_default(),
        ..CompleteRequest::default()
    };
    let done = retry::until_confirmed(within, || {
        let (mut ledger, request) = (held.ledger.clone(), held.client.request(request.clone()));
        async move { ledger.complete(request).await }
    });
    done.await
}

fn is_refused_for_its_result(status: &Status) -> bool {
    let refused = [ErrorReason::InvalidField, ErrorReason::TooLarge];
    reason(status).is_some_and(|(_, reason)| refused.contains(&reason))
}

/// Fails the attempt: the command has failed.
///
/// # Errors
/// The ledger did not confirm it.
pub(super) async fn fail(
    held: &Held,
    kind: FailureKind,
    error: String,
    within: Duration,
) -> Result<(), Problem> {
    let mut request =
        FailRequest { key: Some(held.key.clone()), token: held.token, ..FailRequest::default() };
    (request.kind, request.error) = (kind.into(), error);
    let done = retry::until_confirmed(within, || {
        let (mut ledger, request) = (held.ledger.clone(), held.client.request(request.clone()));
        async move { ledger.fail(request).await }
    });
    done.await.map(drop).map_err(|status| Problem::of(&status))
}

/// Releases the attempt: nothing was done.
///
/// # Errors
/// The ledger did not confirm it.
pub(super) async fn release(held: &Held, within: Duration) -> Result<(), Problem> {
    let request =
        ReleaseRequest { key: Some(held.key.clone()), token: held.token, ..ReleaseRequest::default() };
    let done = retry::until_confirmed(within, || {
        let (mut ledger, request) = (held.ledger.clone(), held.client.request(request.clone()));
        async move { ledger.release(request).await }
    });
    done.await.map(drop).map_err(|status| Problem::of(&status))
}

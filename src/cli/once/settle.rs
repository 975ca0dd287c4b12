//! What became of the command, reported until the ledger has confirmed it or the time for that is over.

use std::time::Duration;

use bytes::Bytes;
use tonic::Status;

use super::grant::Held;
use crate::cli::problem::{Problem, reason};
use crate::cli::retry;
use crate::rpc::proto::{CompleteRequest, ErrorReason, FailRequest, FailureKind, ReleaseRequest};

/// The command is done. Whether its output was stored.
///
/// # Errors
/// The ledger did not confirm it.
pub(super) async fn complete(held: &Held, result: Bytes, within: Duration) -> Result<bool, Problem> {
    let is_empty = result.is_empty();
    match completed(held, result, within).await {
        Ok(()) => Ok(true),
        // What the result is refused for is no reason to lose what was done.
        Err(status) if !is_empty && is_refused_for_its_result(&status) => {
            let done = completed(held, Bytes::new(), within).await;
            done.map(|()| false).map_err(|status| Problem::of(&status))
        }
        Err(status) => Err(Problem::of(&status)),
    }
}

async fn completed(held: &Held, result: Bytes, within: Duration) -> Result<(), Status> {
    let request = CompleteRequest { key: Some(held.key.clone()), token: held.token, result };
    let done = retry::until_confirmed(within, || {
        let (mut ledger, request) = (held.ledger.clone(), held.client.request(request.clone()));
        async move { ledger.complete(request).await }
    });
    done.await.map(drop)
}

fn is_refused_for_its_result(status: &Status) -> bool {
    let refused = [ErrorReason::InvalidField, ErrorReason::TooLarge];
    reason(status).is_some_and(|(_, reason)| refused.contains(&reason))
}

/// The command has failed.
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

/// Nothing was done: the attempt is given back.
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

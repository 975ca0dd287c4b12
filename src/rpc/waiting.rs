//! Calls that wait for another verdict, at the edge: until when, with which credential, and on whose account.

use std::time::Duration;

use tokio::time::Instant;
use tonic::metadata::MetadataMap;

use super::edge::auth::AuthenticatedCaller;
use super::edge::waits::WaitPlace;
use crate::domain::{Answer, Reason, Rejection, Span, Submission};
use crate::ledger::{LEFT_MIN, Ledger, WaitEnds, WaitingCaller};
use crate::traces::CallSpan;

/// The time that is left for the last look of a wait.
const LAST_LOOK: Duration = Duration::from_millis(50);

/// How a call waits for another verdict.
pub(super) struct WaitRequest {
    caller: AuthenticatedCaller,
    ends: WaitEnds,
}

/// How a call waits for another verdict; `None` if it does not wait, or is refused.
pub(super) fn of(
    caller: &AuthenticatedCaller,
    asked: &Result<Submission, Rejection>,
    max_wait: Duration,
    metadata: MetadataMap,
) -> Option<WaitRequest> {
    let wait = asked.as_ref().ok()?.wait;
    if wait == Span::ZERO {
        return None;
    }
    let (now, deadline) = (Instant::now(), caller.deadline);
    let left = deadline.saturating_duration_since(now).saturating_sub(LEFT_MIN + LAST_LOOK);
    let ends = WaitEnds { at: now + wait.to_std().min(max_wait).min(left), deadline };
    Some(WaitRequest { caller: caller.with_credential(metadata.into_headers()), ends })
}

/// The caller of a waiting call.
pub(super) struct Waiting {
    caller: AuthenticatedCaller,
    consumer: String,
}

impl Waiting {
    pub(super) fn new(caller: AuthenticatedCaller, consumer: &str) -> Waiting {
        Waiting { caller, consumer: consumer.to_owned() }
    }
}

/// Carries out a command that may wait.
pub(super) async fn submit(
    ledger: &Ledger,
    submission: Submission,
    span: CallSpan,
    WaitRequest { caller, ends }: WaitRequest,
) -> Answer {
    let waiting = Waiting::new(caller, submission.key.consumer());
    ledger.submit_waiting(submission, span, ends, &waiting).await
}

impl WaitingCaller for Waiting {
    type Permit = WaitPlace;

    fn principal(&self) -> Option<&str> {
        self.caller.named_principal()
    }

    fn place(&self) -> Option<WaitPlace> {
        self.caller.wait_place()
    }

    fn rests(&self) {
        if let Ok(call) = self.caller.call() {
            call.rest();
        }
    }

    /// The token file may have given the name of the credential to another principal, to which the claim does
    /// not belong.
    fn judged(&self) -> Result<(), Rejection> {
        let again = self.caller.checked_again()?;
        if again.principal() != self.caller.principal() {
            let text = "the credential names another principal by now; nothing was changed: repeat the call";
            return Err(Rejection::new(Reason::Unauthenticated, text));
        }
        again.allowed(&self.consumer)
    }

    fn looks(&self) -> Result<(), Rejection> {
        self.caller.call()?.resume()
    }
}

//! Calls that wait for another verdict, as the edge knows them: until when, by which credential, and by whose account.

use std::time::Duration;

use tokio::time::Instant;
use tonic::metadata::MetadataMap;

use super::edge::auth::Caller;
use super::edge::waits::WaitPlace;
use crate::domain::{Answer, Reason, Rejection, Span, Submission};
use crate::ledger::{LEFT_MIN, Ledger, WaitEnds, WaitingCaller};
use crate::traces::CallSpan;

/// What the last look of a wait takes of the call's time.
const LAST_LOOK: Duration = Duration::from_millis(50);

/// How a call waits.
pub(super) struct Waits {
    caller: Caller,
    ends: WaitEnds,
}

/// How a call waits for another verdict. `None` if it does not, or is refused.
pub(super) fn of(
    caller: &Caller,
    asked: &Result<Submission, Rejection>,
    max_wait: Duration,
    metadata: MetadataMap,
) -> Option<Waits> {
    let wait = asked.as_ref().ok()?.wait;
    if wait == Span::ZERO {
        return None;
    }
    let (now, deadline) = (Instant::now(), caller.deadline);
    let left = deadline.saturating_duration_since(now).saturating_sub(LEFT_MIN + LAST_LOOK);
    let ends = WaitEnds { at: now + wait.to_std().min(max_wait).min(left), deadline };
    Some(Waits { caller: caller.shows(metadata.into_headers()), ends })
}

/// A waiting call's caller.
struct Waiting {
    caller: Caller,
    consumer: String,
}

/// Carries out a command, and lets it wait.
pub(super) async fn submit(
    ledger: &Ledger,
    submission: Submission,
    span: CallSpan,
    Waits { caller, ends }: Waits,
) -> Answer {
    let waiting = Waiting { caller, consumer: submission.key.consumer().to_owned() };
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

    /// The file of tokens may have given the name of the credential to another principal, to which the claim does not belong.
    fn judged(&self) -> Result<(), Rejection> {
        let again = self.caller.again()?;
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

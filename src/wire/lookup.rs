//! Look-ups: their commands, and their findings as messages.

use super::convert::{ParsedCommand, claim_response};
use super::errors;
use super::fields::{FieldChecks, FieldScope, Limits};
use super::reasons::During;
use super::words::state;
use crate::domain::{Answer, Command, Finding, Rejection, Reply, Submission};
use crate::proto::lookup_response::Found;
use crate::proto::lookup_result::Outcome;
use crate::proto::{self, claim_response::Verdict};

pub(crate) fn asked(request: proto::LookupRequest, limits: &Limits, part: FieldScope) -> ParsedCommand {
    let mut fields = FieldChecks::of(limits, part);
    let key = fields.own_key(request.key);
    let wait = fields.wait(request.wait.as_ref(), part);
    fields.submission(key, Command::Lookup).map(|asked| Submission { wait, ..asked })
}

///
/// # Errors
/// `INTERNAL`: the reply answers another kind of command.
pub(crate) fn response(reply: Reply) -> Result<proto::LookupResponse, Rejection> {
    let Reply::Found(finding) = reply else {
        return Err(errors::internal("another kind of answer answered a look-up"));
    };
    let Finding { state: now, attempt, verdict } = *finding;
    let mut response = proto::LookupResponse {
        state: now.map_or(proto::EntryState::Unspecified, state).into(),
        attempt,
        ..proto::LookupResponse::default()
    };
    let Some(verdict) = verdict else { return Ok(response) };
    // The same messages as a Claim's, without its advice.
    let claimed = claim_response(verdict);
    response.retry_after = claimed.retry_after;
    response.found = match claimed.verdict {
        Some(Verdict::Completed(it)) => Some(Found::Completed(it)),
        Some(Verdict::Failed(it)) => Some(Found::Failed(it)),
        Some(Verdict::Parked(it)) => Some(Found::Parked(it)),
        Some(Verdict::InProgress(it)) => Some(Found::InProgress(it)),
        Some(Verdict::Backoff(it)) => Some(Found::Backoff(it)),
        Some(
            Verdict::Acquired(_)
            | Verdict::FingerprintMismatch(_)
            | Verdict::OutsideWindow(_)
            | Verdict::Rejected(_)
            | Verdict::Suppressed(_),
        )
        | None => return Err(errors::internal("a look-up found what no entry holds")),
    };
    Ok(response)
}

/// The result of the item with this index of a batch.
pub(crate) fn result((index, answer): (usize, Answer)) -> proto::LookupResult {
    let outcome = match answer.and_then(response) {
        Ok(response) => Outcome::Lookup(response),
        Err(rejection) => {
            let rejection = rejection.within(&format!("requests[{index}]."));
            Outcome::Rejected(errors::rejected(&rejection, During::Other))
        }
    };
    proto::LookupResult { outcome: Some(outcome) }
}

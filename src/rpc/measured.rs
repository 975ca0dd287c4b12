//! What the edge makes of messages and of answers, each by itself: for `benches` alone.

use crate::domain::Verdict;
use crate::proto;
use crate::wire::convert::{self, Asked};
use crate::wire::fields::{Limits, Part};

/// The command of a claim by anybody.
///
/// # Errors
/// What is wrong with the message.
pub fn claim_command(request: proto::ClaimRequest, limits: &Limits) -> Asked {
    convert::claim(request, "anonymous", "", limits, Part::Whole, false)
}

/// The command of a completion.
///
/// # Errors
/// What is wrong with the message.
pub fn complete_command(request: proto::CompleteRequest, limits: &Limits) -> Asked {
    convert::complete(request, limits, Part::Whole)
}

/// The answer to a claim.
#[must_use]
pub fn verdict_message(verdict: Verdict) -> proto::ClaimResponse {
    convert::claim_response(verdict)
}

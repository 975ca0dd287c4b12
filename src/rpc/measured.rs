//! The edge's conversions of messages and of answers, one by one: for `benches` alone.

use crate::domain::Verdict;
use crate::proto;
use crate::wire::convert::{self, ParsedCommand};
use crate::wire::fields::{FieldScope, Limits};

/// The command of an anonymous claim.
///
/// # Errors
/// The fault of the message.
pub fn claim_command(request: proto::ClaimRequest, limits: &Limits) -> ParsedCommand {
    convert::claim(request, "anonymous", "", limits, FieldScope::Whole, false)
}

/// The command of a completion.
///
/// # Errors
/// The fault of the message.
pub fn complete_command(request: proto::CompleteRequest, limits: &Limits) -> ParsedCommand {
    convert::complete(request, limits, FieldScope::Whole)
}

/// The answer to a claim.
#[must_use]
pub fn verdict_message(verdict: Verdict) -> proto::ClaimResponse {
    convert::claim_response(verdict)
}

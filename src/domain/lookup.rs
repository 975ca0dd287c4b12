//! Lookup: what a Claim would find, without claiming. See docs/contract.md, section 4.

use super::claim;
use super::context::{Context, Decision};
use super::policy::Doubt;
use super::preconditions::refusal;
use super::reason::Reason;
use super::replay::{RunMode, Standing};
use super::reply::{Answer, Finding, Reply};
use super::{Entry, Policy, State};

/// No entry was found, or none was looked for.
const NOTHING: Finding = Finding { state: None, attempt: 0, verdict: None };

/// What a Lookup is answered whatever the entry is; `None` if the entry decides. A hold or a disabled policy
/// does not matter: a Lookup grants nothing.
pub(super) fn without_entry(policy: &Policy) -> Option<Answer> {
    match policy.run {
        Standing::Live | Standing::Known { mode: RunMode::Rebuild, .. } => None,
        // The run may have been created since the policies were read.
        Standing::Unknown if matches!(policy.doubt, Doubt::Stale | Doubt::Lost) => {
            Some(Err(refusal(Reason::StoreUnavailable)))
        }
        Standing::Unknown => Some(Err(refusal(Reason::ReplayRunUnknown))),
        Standing::Known { mode: RunMode::Suppress, .. } => Some(Ok(found(NOTHING))),
    }
}

/// Decides a Lookup: it never writes.
pub(super) fn decide(entry: Option<&Entry>, context: &Context<'_>) -> Decision {
    let answer = without_entry(context.policy)
        .unwrap_or_else(|| Ok(found(entry.map_or(NOTHING, |entry| of_entry(entry, context)))));
    Decision::read(answer)
}

fn found(finding: Finding) -> Reply {
    Reply::Found(Box::new(finding))
}

fn of_entry(entry: &Entry, context: &Context<'_>) -> Finding {
    let verdict = match entry.state {
        State::Completed => Some(claim::completed(entry, None, context)),
        State::FailedTerminal => Some(claim::failed(entry)),
        State::Parked(cause) => Some(claim::parked(entry, cause, false)),
        State::Received | State::FailedRetryable => claim::backoff(entry, context),
        // Also when expired: the next Claim decides what happens to it.
        State::InProgress => Some(claim::held(entry, context)),
    };
    Finding { state: Some(entry.state), attempt: entry.attempts, verdict }
}

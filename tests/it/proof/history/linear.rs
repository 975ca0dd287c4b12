//! What can be checked in one pass, by real time alone.

use std::collections::HashMap;

use super::{Call, Event, Outcome};

/// A token belongs to one claim; tokens of different claims grow in real-time order; nothing is
/// acquired by a call that began after a Complete had returned, unless an operator had a hand in the
/// key. `events` are sorted by invocation.
pub(crate) fn check_in_real_time(events: &[Event]) -> Result<(), String> {
    let operated = events.iter().any(|event| matches!(event.call, Call::Order { .. }));
    let mut owners = HashMap::new();
    let (mut grants, mut completed) = (Vec::new(), i64::MAX);
    for event in events {
        match (event.call, event.outcome) {
            (Call::Claim { claim }, Outcome::Acquired { token, .. }) => {
                if *owners.entry(token).or_insert(claim) != claim {
                    return Err(format!("token {token} was given to two claims"));
                }
                grants.push((event, claim, token));
            }
            (Call::Complete { .. }, Outcome::Settled { .. }) => completed = completed.min(event.returned),
            _ => {}
        }
    }
    // By return: the highest token that had certainly been given before a call began.
    let mut returned = grants.clone();
    returned.sort_by_key(|(event, ..)| event.returned);
    let (mut highest, mut seen) = ((0, 0), returned.iter().peekable());
    for (event, claim, token) in &grants {
        while let Some((_, other, before)) = seen.next_if(|(before, ..)| before.returned < event.invoked) {
            highest = highest.max((*before, *other));
        }
        if *token <= highest.0 && highest.1 != *claim {
            return Err(format!("token {token} came after {}", highest.0));
        }
        if event.invoked > completed && !operated {
            return Err(format!("token {token} was given after a Complete had returned"));
        }
    }
    Ok(())
}

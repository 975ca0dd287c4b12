//! What can be checked in one pass, by real time alone.

use std::collections::HashMap;

use super::{Call, Event, Loss, Outcome};

/// A token belongs to one claim; tokens of different claims grow in real-time order; nothing is
/// acquired by a call that began after a Complete had returned, unless an operator had a hand in the
/// key, or it may have been undone. `events` are sorted by invocation.
pub(crate) fn check_in_real_time(events: &[Event], undone: &[Option<Loss>]) -> Result<(), String> {
    let operated = events.iter().any(|event| matches!(event.call, Call::Order { .. }));
    let mut owners = HashMap::new();
    let (mut grants, mut completed) = (Vec::new(), i64::MAX);
    for (event, undone) in events.iter().zip(undone) {
        match (event.call, event.outcome) {
            (Call::Claim { claim } | Call::Next { claim }, Outcome::Acquired { token, replayed, .. }) => {
                if *owners.entry(token).or_insert(claim) != claim {
                    return Err(format!("token {token} was given to two claims"));
                }
                // Of what was undone no new token may be lower; one that is told again was there before.
                grants.push((event, claim, token, replayed, undone.is_some()));
            }
            (Call::Complete { .. }, Outcome::Settled { .. }) if undone.is_none() => {
                completed = completed.min(event.returned);
            }
            _ => {}
        }
    }
    // By return: the highest token that had certainly been given before a call began.
    let mut returned = grants.clone();
    returned.sort_by_key(|(event, ..)| event.returned);
    let (mut highest, mut standing, mut seen) = ((0, 0), (0, 0), returned.iter().peekable());
    for (event, claim, token, replayed, _) in &grants {
        while let Some((_, other, before, _, undone)) =
            seen.next_if(|(before, ..)| before.returned < event.invoked)
        {
            highest = highest.max((*before, *other));
            if !undone {
                standing = standing.max((*before, *other));
            }
        }
        let highest = if *replayed { standing } else { highest };
        if *token <= highest.0 && highest.1 != *claim {
            return Err(format!("token {token} came after {}", highest.0));
        }
        if event.invoked > completed && !operated {
            return Err(format!("token {token} was given after a Complete had returned"));
        }
    }
    Ok(())
}

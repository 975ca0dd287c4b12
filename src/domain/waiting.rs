//! Waiting for a verdict: docs/contract.md, section 4, "Waiting". Which answers a call waits for, what a read
//! of the entry means to the calls that wait for its key, and how an answer changes that is given later than
//! it was found.

use super::entry::{Claimant, Entry, State};
use super::reply::{Answer, Reply, Verdict};
use super::{Reason, Rejection, Span, StoreTime};

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Another claim holds the key, for this long at most.
    Holder(Span),
    /// The next attempt is due after this time.
    Due(Span),
    /// The caller is a Lookup: the entry is not COMPLETED, `FAILED_TERMINAL` or PARKED.
    Settled,
}

/// What a call with this answer waits for, if it may wait this long; `None` if it is answered immediately.
#[must_use]
pub fn awaited(answer: &Answer, left: Span) -> Option<Awaited> {
    if left <= Span::ZERO {
        return None;
    }
    match answer {
        Ok(Reply::Verdict(verdict)) => match verdict {
            Verdict::InProgress { retry_after, .. } => Some(Awaited::Holder(*retry_after)),
            Verdict::Backoff { retry_after, .. } if *retry_after <= left => Some(Awaited::Due(*retry_after)),
            Verdict::Backoff { .. }
            | Verdict::Acquired { .. }
            | Verdict::Completed { .. }
            | Verdict::Failed { .. }
            | Verdict::Parked { .. }
            | Verdict::FingerprintMismatch { .. }
            | Verdict::OutsideWindow { .. }
            | Verdict::Suppressed { .. } => None,
        },
        Ok(Reply::Found(finding)) => match finding.state {
            Some(State::Completed | State::FailedTerminal | State::Parked(_)) => None,
            Some(State::Received | State::InProgress | State::FailedRetryable) | None => {
                Some(Awaited::Settled)
            }
        },
        Ok(
            Reply::Renewed { .. } | Reply::Completed { .. } | Reply::Failed { .. } | Reply::Released { .. },
        )
        | Err(_) => None,
    }
}

/// Whether a look that is refused for this reason is repeated at the next poll: nothing is wrong with the
/// call.
#[must_use]
pub fn is_repeated(reason: Reason) -> bool {
    matches!(reason, Reason::Overloaded | Reason::OutcomeUnknown | Reason::StoreUnavailable)
}

/// The error of a call whose looks have failed one after the other: that nothing was changed is not known after a look of which it is
/// not known.
#[must_use]
pub fn failed_again(before: Option<Rejection>, now: Rejection) -> Rejection {
    before.filter(|before| before.reason == Reason::OutcomeUnknown).unwrap_or(now)
}

/// What an entry means to the calls that wait for its key.
#[derive(Clone, Debug, PartialEq)]
pub enum Sight {
    /// No Claim will be granted: the message is done, was given up, or waits for a person.
    Settled,
    /// The next Claim may be granted.
    Claimable,
    /// A claim holds the key, for this long at most.
    Held(Claimant, Span),
    /// The next attempt is due after this time.
    NotDue(Span),
}

/// What the entry of a key means to the calls that wait for it, at this instant of the store's clock.
#[must_use]
pub fn sight(entry: Option<&Entry>, now: StoreTime) -> Sight {
    let Some(entry) = entry else { return Sight::Claimable };
    match entry.state {
        State::Completed | State::FailedTerminal | State::Parked(_) => Sight::Settled,
        State::Received | State::FailedRetryable if now < entry.not_before => {
            Sight::NotDue(entry.not_before.remaining(now))
        }
        State::Received | State::FailedRetryable => Sight::Claimable,
        State::InProgress => match &entry.claimant {
            Some(claimant) if !entry.expired(now) => {
                Sight::Held(claimant.clone(), (entry.lease_until + entry.grace).remaining(now))
            }
            Some(_) | None => Sight::Claimable,
        },
    }
}

/// The answer, adjusted by the time that has passed since the look that found it.
///
/// # Errors
/// That of the answer.
pub fn answered_after(answer: Answer, passed: Span) -> Answer {
    let left = |span: Span| (span - passed).max(Span::ZERO);
    with_waits(answer, &left, &left)
}

/// The answer to a call whose wait is left to another server, or to this one a little later: the client
/// repeats it soon.
///
/// # Errors
/// That of the answer.
pub fn answered_to_repeat(answer: Answer, soon: Span) -> Answer {
    with_waits(answer, &|retry_after| retry_after.min(soon), &|lease| lease)
}

/// The answer with other remaining times. An error keeps its own.
fn with_waits(mut answer: Answer, retry: &dyn Fn(Span) -> Span, lease_left: &dyn Fn(Span) -> Span) -> Answer {
    let verdict = match &mut answer {
        Ok(Reply::Verdict(verdict)) => Some(verdict),
        Ok(Reply::Found(finding)) => finding.verdict.as_mut(),
        Ok(
            Reply::Renewed { .. } | Reply::Completed { .. } | Reply::Failed { .. } | Reply::Released { .. },
        )
        | Err(_) => None,
    };
    match verdict {
        Some(Verdict::InProgress { lease, retry_after, .. }) => {
            (*lease, *retry_after) = (lease_left(*lease), retry(*retry_after));
        }
        Some(Verdict::Backoff { retry_after, .. }) => *retry_after = retry(*retry_after),
        Some(
            Verdict::Acquired { .. }
            | Verdict::Completed { .. }
            | Verdict::Failed { .. }
            | Verdict::Parked { .. }
            | Verdict::FingerprintMismatch { .. }
            | Verdict::OutsideWindow { .. }
            | Verdict::Suppressed { .. },
        )
        | None => {}
    }
    answer
}

#[cfg(test)]
#[allow(clippy::unnecessary_wraps, reason = "the function takes and returns an answer")]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{Finding, Key, ParkCause, Policy, Rejection};

    const SECOND: Span = Span::from_secs(1);

    #[test]
    fn unknown_outcome_stays_over_later_refusals() {
        for (before, now, expected) in [
            (None, Reason::StoreUnavailable, Reason::StoreUnavailable),
            (Some(Reason::StoreUnavailable), Reason::Overloaded, Reason::Overloaded),
            (Some(Reason::StoreUnavailable), Reason::OutcomeUnknown, Reason::OutcomeUnknown),
            (Some(Reason::OutcomeUnknown), Reason::StoreUnavailable, Reason::OutcomeUnknown),
        ] {
            let before = before.map(|reason| Rejection::new(reason, "before"));
            assert_eq!(failed_again(before, Rejection::new(now, "now")).reason, expected, "{now:?}");
        }
    }

    #[test]
    fn look_is_repeated_where_the_store_failed_for_a_moment() {
        let repeated: Vec<Reason> =
            Reason::ALL.iter().copied().filter(|reason| is_repeated(*reason)).collect();
        assert_eq!(repeated, [Reason::Overloaded, Reason::StoreUnavailable, Reason::OutcomeUnknown]);
    }

    fn in_progress(retry_after: Span) -> Answer {
        let (owner, lease) = (String::new(), retry_after - SECOND);
        Ok(Reply::Verdict(Verdict::InProgress { owner, attempt: 1, lease, retry_after }))
    }

    fn backoff(retry_after: Span) -> Answer {
        Ok(Reply::Verdict(Verdict::Backoff { attempts_left: None, last_error: String::new(), retry_after }))
    }

    fn found(state: Option<State>) -> Answer {
        Ok(Reply::Found(Box::new(Finding { state, attempt: 1, verdict: None })))
    }

    #[test]
    fn only_in_progress_and_a_backoff_that_ends_in_time_are_awaited() {
        let wait = Span::from_secs(5);
        let suppressed = Verdict::Suppressed { replay_run: "r".into() };
        let failed = Verdict::Failed { error: String::new(), failed_at: StoreTime(0) };
        let parked = Verdict::Parked {
            cause: ParkCause::Operator,
            error: String::new(),
            parked_at: StoreTime(0),
            newly: false,
        };
        let refused = |reason| Err(Rejection::new(reason, ""));
        for (answer, expected) in [
            (in_progress(SECOND), Some(Awaited::Holder(SECOND))),
            (in_progress(Span::from_secs(600)), Some(Awaited::Holder(Span::from_secs(600)))),
            (backoff(SECOND), Some(Awaited::Due(SECOND))),
            (backoff(wait), Some(Awaited::Due(wait))),
            (backoff(wait + Span(1)), None),
            (Ok(Reply::Verdict(suppressed)), None),
            (Ok(Reply::Verdict(failed)), None),
            (Ok(Reply::Verdict(parked)), None),
            (refused(Reason::Overloaded), None),
            (refused(Reason::ConsumerDisabled), None),
            (found(None), Some(Awaited::Settled)),
            (found(Some(State::Received)), Some(Awaited::Settled)),
            (found(Some(State::InProgress)), Some(Awaited::Settled)),
            (found(Some(State::FailedRetryable)), Some(Awaited::Settled)),
            (found(Some(State::Completed)), None),
            (found(Some(State::FailedTerminal)), None),
            (found(Some(State::Parked(ParkCause::Consumer))), None),
        ] {
            assert_eq!(awaited(&answer, wait), expected, "{answer:?}");
            assert_eq!(awaited(&answer, Span::ZERO), None, "without a wait: {answer:?}");
        }
    }

    #[test]
    fn sight_of_an_entry_shows_which_calls_are_answered() {
        let now = StoreTime(1_000_000_000);
        let claimant = Claimant { claim_id: Uuid::nil(), principal: "p".into(), owner: "o".into() };
        let blank = Entry::blank(&Key::new("c", "s", "1"), &Policy::default(), now);
        let of = |state| Entry { state, ..blank.clone() };
        let held = Entry {
            claimant: Some(claimant.clone()),
            lease_until: now + SECOND,
            grace: SECOND,
            ..of(State::InProgress)
        };
        let later = Entry { not_before: now + SECOND, ..of(State::FailedRetryable) };
        for (entry, at, expected) in [
            (None, now, Sight::Claimable),
            (Some(of(State::Completed)), now, Sight::Settled),
            (Some(of(State::FailedTerminal)), now, Sight::Settled),
            (Some(of(State::Parked(ParkCause::Operator))), now, Sight::Settled),
            (Some(of(State::Received)), now, Sight::Claimable),
            (Some(later.clone()), now, Sight::NotDue(SECOND)),
            (Some(later), now + SECOND, Sight::Claimable),
            (Some(held.clone()), now, Sight::Held(claimant.clone(), SECOND + SECOND)),
            // In grace it counts as held, and the wait is over when a Claim may take it.
            (Some(held.clone()), now + SECOND, Sight::Held(claimant, SECOND)),
            (Some(held), now + SECOND + SECOND, Sight::Claimable),
        ] {
            assert_eq!(sight(entry.as_ref(), at), expected, "{entry:?}");
        }
    }

    #[test]
    fn later_answers_have_shorter_waits() {
        let (three, two) = (Span::from_secs(3), Span::from_secs(2));
        assert_eq!(answered_after(in_progress(three), SECOND), in_progress(two));
        assert_eq!(answered_after(backoff(SECOND), three), backoff(Span::ZERO), "never below zero");
        assert_eq!(answered_to_repeat(backoff(three), SECOND), backoff(SECOND));
        assert_eq!(answered_to_repeat(backoff(SECOND), three), backoff(SECOND), "never later than it was");
        let Ok(Reply::Verdict(Verdict::InProgress { lease, retry_after, .. })) =
            answered_to_repeat(in_progress(three), SECOND)
        else {
            panic!("another verdict")
        };
        assert_eq!((lease, retry_after), (two, SECOND), "what is left of the lease stays");
        let refused =
            || Err(Rejection { retry_after: Some(three), ..Rejection::new(Reason::Overloaded, "later") });
        assert_eq!(answered_after(refused(), SECOND), refused(), "an error keeps its own");
        assert_eq!(answered_to_repeat(refused(), SECOND), refused());
    }
}

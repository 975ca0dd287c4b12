//! The rules of docs/contract.md, section 15, again: written from the text and not from the core.

use idempotency_ledger_domain::{Body, ClosedBy, FingerprintMode, OccurredAtMode, Policy, State};

use super::{Op, POSITION_MAX, Row, Said, World, admitted, changed, claim, error};

/// A Store: what is said, and what is known then.
pub(crate) fn store(
    row: Option<&Row>,
    (print, occurred_at): (&[u8], Option<i64>),
    world: &World<'_>,
) -> (Said, Option<Row>) {
    let (said, after) = stored(row, print, occurred_at, world);
    (said, after.map(|after| changed(after, world)).or(row.cloned()))
}

/// A Store: the table of docs/contract.md, section 15, the first row that fits. It grants nothing: neither `disabled` nor attempts
/// matter.
fn stored(
    row: Option<&Row>,
    print: &[u8],
    occurred_at: Option<i64>,
    world: &World<'_>,
) -> (Said, Option<Row>) {
    let World { policy, now, offset, .. } = *world;
    if policy.fingerprint == FingerprintMode::Require && print.is_empty() {
        return (error("INVALID_FIELD", None), None);
    }
    if policy.occurred_at == OccurredAtMode::Require && occurred_at.is_none() {
        return (error("INVALID_FIELD", None), None);
    }
    if !policy.inbox {
        return (error("INBOX_OFF", None), None);
    }
    let ignored = policy.fingerprint == FingerprintMode::Ignore;
    let Some(row) = row else {
        if world.ahead {
            return (error("STORE_CLOCK_AHEAD", None), None);
        }
        let start = (now - policy.retention.0).max(policy.window_floor.0);
        if let Some(at) = occurred_at.filter(|at| *at <= start) {
            return (Said::Outside { window: now - start, occurred_at: at }, None);
        }
        if policy.backlog_full {
            return (error("BACKLOG_FULL", None), None);
        }
        if world.behind {
            return (error("STORE_CLOCK_BEHIND", None), None);
        }
        let token = world.choice.clamp(now + offset + 1, now + offset + POSITION_MAX);
        let print = if ignored { Vec::new() } else { print.to_vec() };
        let after = Row { by: ClosedBy::Store, token, print, body: Some(Body::Kept), ..admitted(world) };
        return (Said::Stored { state: State::Received, before: false }, Some(after));
    };
    if !ignored && !row.unpinned && !row.print.is_empty() && !print.is_empty() && row.print != print {
        return (Said::Mismatch { expected: row.print.clone(), presented: print.to_vec() }, None);
    }
    match row.state {
        State::Completed => (Said::StoredDone { at: row.closed_at }, None),
        State::FailedTerminal => (Said::Failed { error: row.error.clone(), at: row.closed_at }, None),
        state if row.body == Some(Body::Kept) => (Said::Stored { state, before: true }, None),
        state => {
            if policy.backlog_full {
                return (error("BACKLOG_FULL", Some(state)), None);
            }
            let mut after = Row { body: Some(Body::Kept), ..row.clone() };
            if !ignored && (row.print.is_empty() || row.unpinned) {
                (after.print, after.unpinned) = (print.to_vec(), false);
            }
            (Said::Stored { state, before: false }, Some(after))
        }
    }
}

/// When a kept message is due: once the next attempt is, or the lease and the grace of its claim are over.
pub(crate) fn next_at(row: &Row) -> Option<i64> {
    match (row.body, row.state) {
        (Some(Body::Kept), State::Received | State::FailedRetryable) => Some(row.not_before),
        (Some(Body::Kept), State::InProgress) => Some(row.lease_until + row.grace),
        _ => None,
    }
}

/// Whether the lease of a message ran out twice in a row.
pub(crate) fn suspect(row: &Row, now: i64) -> bool {
    let expired = row.state == State::InProgress && now >= row.lease_until + row.grace;
    expired && row.past.last().is_some_and(|past| past.expired)
}

/// When the message of a row is erased: `message_retention` after its completion, and with the row where it was given up.
pub(super) fn erase_at(row: &Row, policy: &Policy) -> Option<i64> {
    match (row.body, row.state) {
        (Some(Body::Kept), State::Completed) => Some(row.closed_at + policy.message_retention.0),
        (Some(Body::Kept), State::FailedTerminal) => row.keep_until,
        _ => None,
    }
}

/// The row once its message is erased. `None` if the message is not due for that: nothing but the state of the message changes.
pub(crate) fn erased(row: &Row, now: i64) -> Option<Row> {
    let due = row.erase_at.is_some_and(|at| at <= now);
    due.then(|| Row { body: Some(Body::Erased), erase_at: None, ..row.clone() })
}

/// What a ClaimNext asks: who, for how long, how many messages and how many bytes.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) who: (u128, String),
    pub(crate) lease: Option<i64>,
    pub(crate) max: usize,
    pub(crate) bytes_max: usize,
}

/// What a ClaimNext comes to.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// The messages that are handed out, by their places among the rows that are due.
    pub(crate) handed: Vec<(usize, Said, Row)>,
    /// The rows that are parked instead.
    pub(crate) parked: Vec<(usize, Row)>,
    /// Why nothing is handed out.
    pub(crate) refused: Option<Said>,
}

/// A row that is due, as it is handed out: a Claim of anyone else with this claim_id, of which REQUIRE demands nothing.
pub(crate) fn handed(row: &Row, look: &Look, world: &World<'_>) -> (Said, Option<Row>) {
    let (fingerprint, occurred_at) = match world.policy.fingerprint {
        FingerprintMode::Ignore => (FingerprintMode::Ignore, OccurredAtMode::Optional),
        _ => (FingerprintMode::Verify, OccurredAtMode::Optional),
    };
    let policy = Policy { fingerprint, occurred_at, ..world.policy.clone() };
    let world = World { policy: &policy, ..*world };
    let op = Op::Claim { who: look.who.clone(), lease: look.lease, print: Vec::new(), occurred_at: None };
    let (said, after) = claim(Some(row), &op, &world);
    (said, after.map(|after| changed(after, &world)))
}

/// The rows that are due, in their order and each with the size of its message, of which `look` hands out some. `tokens` are those
/// that were observed, by place.
pub(crate) fn hand_out(
    due: &[(Row, usize)],
    look: &Look,
    tokens: &dyn Fn(usize) -> i64,
    world: &World<'_>,
) -> Looked {
    let (mut looked, mut bytes) = (Looked::default(), 0);
    for (place, (row, size)) in due.iter().enumerate() {
        if looked.handed.len() >= look.max {
            break;
        }
        let (said, after) = handed(row, look, &World { choice: tokens(place), ..*world });
        match (said, after) {
            (said @ Said::Acquired { .. }, Some(after)) => {
                // A suspect is handed out alone; the first message whatever its size.
                let alone = suspect(row, world.now);
                if !looked.handed.is_empty() && (alone || bytes + size > look.bytes_max) {
                    break;
                }
                bytes += size;
                looked.handed.push((place, said, after));
                if alone {
                    break;
                }
            }
            (Said::Parked { .. }, Some(after)) => looked.parked.push((place, after)),
            // It can be handed to no claim, and must not hold up those behind it.
            (Said::Error { reason, .. }, _) if reason == "ENTRY_UNREADABLE" => {}
            (said, _) => {
                looked.refused = looked.handed.is_empty().then_some(said);
                break;
            }
        }
    }
    looked
}

/// What a repeat of a ClaimNext is answered of one of its rows: `acquired` again, and the row if it was re-armed. `None` if this
/// claim does not hold it any more, or its effect was announced.
pub(crate) fn handed_again(row: &Row, look: &Look, world: &World<'_>) -> Option<(Said, Option<Row>)> {
    if row.state != State::InProgress || row.who.as_ref() != Some(&look.who) || row.started {
        return None;
    }
    match handed(row, look, world) {
        (said @ Said::Acquired { replayed: true, .. }, after) => Some((said, after)),
        _ => None,
    }
}

//! The core with a bug in it.

use idempotency_ledger::domain::{
    ClosedBy, Command, Context, Decision, Entry, Key, OnExpiry, Reply, Settle, Span, State, Verdict, decide,
};

pub(super) type Core = fn(&Key, Option<&Entry>, &Command, &Context<'_>) -> Decision;
type Row<'a> = Option<&'a Entry>;

/// The real core, told something else about the row.
fn misread(
    key: &Key,
    row: Row<'_>,
    command: &Command,
    context: &Context<'_>,
    change: impl FnOnce(&mut Entry),
) -> Decision {
    let mut row = row.cloned();
    if let Some(row) = &mut row {
        change(row);
    }
    decide(key, row.as_ref(), command, context)
}

fn is_claim(command: &Command) -> bool {
    matches!(command, Command::Claim(_))
}

fn is_release(command: &Command) -> bool {
    matches!(command, Command::Settle(_, Settle::Release { .. }))
}

pub(super) fn any_token_completes(
    key: &Key,
    row: Row<'_>,
    command: &Command,
    context: &Context<'_>,
) -> Decision {
    match (row, command) {
        (Some(row), Command::Settle(_, settle @ Settle::Complete { .. })) => {
            decide(key, Some(row), &Command::Settle(row.token, settle.clone()), context)
        }
        _ => decide(key, row, command, context),
    }
}

pub(super) fn any_token_renews(
    key: &Key,
    row: Row<'_>,
    command: &Command,
    context: &Context<'_>,
) -> Decision {
    match (row, command) {
        (Some(row), Command::Settle(_, settle @ Settle::Renew { .. })) => {
            decide(key, Some(row), &Command::Settle(row.token, settle.clone()), context)
        }
        _ => decide(key, row, command, context),
    }
}

pub(super) fn owner_alone(key: &Key, row: Row<'_>, command: &Command, context: &Context<'_>) -> Decision {
    let mut command = command.clone();
    if let (Command::Claim(claim), Some(known)) = (&mut command, row.and_then(|row| row.claimant.as_ref()))
        && claim.claimant.owner == known.owner
    {
        claim.claimant = known.clone();
    }
    decide(key, row, &command, context)
}

/// A decision that grants, with another token.
fn with_token(mut decision: Decision, granted: i64) -> Decision {
    if let (Ok(Reply::Verdict(Verdict::Acquired { token, .. })), Some(next)) =
        (&mut decision.answer, &mut decision.write)
    {
        (*token, next.token) = (granted, granted);
    }
    decision
}

pub(super) fn token_kept(key: &Key, row: Row<'_>, command: &Command, context: &Context<'_>) -> Decision {
    let decision = decide(key, row, command, context);
    if let Some(row) = row { with_token(decision, row.token) } else { decision }
}

pub(super) fn token_restarts(key: &Key, row: Row<'_>, command: &Command, context: &Context<'_>) -> Decision {
    let decision = decide(key, row, command, context);
    if row.is_some_and(|row| row.closed_by == ClosedBy::Operator) {
        with_token(decision, 1)
    } else {
        decision
    }
}

pub(super) fn no_grace(key: &Key, row: Row<'_>, command: &Command, context: &Context<'_>) -> Decision {
    misread(key, row, command, context, |row| {
        if is_claim(command) {
            row.grace = Span::ZERO;
        }
    })
}

pub(super) fn no_grace_at_a_look(
    key: &Key,
    row: Row<'_>,
    command: &Command,
    context: &Context<'_>,
) -> Decision {
    misread(key, row, command, context, |row| row.grace = Span::ZERO)
}

pub(super) fn held_is_free(key: &Key, row: Row<'_>, command: &Command, context: &Context<'_>) -> Decision {
    misread(key, row, command, context, |row| {
        if is_claim(command) && row.state == State::InProgress {
            row.state = State::Received;
        }
    })
}

pub(super) fn held_is_completed(
    key: &Key,
    row: Row<'_>,
    command: &Command,
    context: &Context<'_>,
) -> Decision {
    misread(key, row, command, context, |row| {
        if is_claim(command) && row.state == State::InProgress {
            row.state = State::Completed;
        }
    })
}

pub(super) fn completed_is_held(
    key: &Key,
    row: Row<'_>,
    command: &Command,
    context: &Context<'_>,
) -> Decision {
    misread(key, row, command, context, |row| {
        if is_claim(command) && row.state == State::Completed {
            row.state = State::InProgress;
        }
    })
}

pub(super) fn always_reclaims(key: &Key, row: Row<'_>, command: &Command, context: &Context<'_>) -> Decision {
    misread(key, row, command, context, |row| row.on_expiry = OnExpiry::Reclaim)
}

pub(super) fn completed_is_new(
    key: &Key,
    row: Row<'_>,
    command: &Command,
    context: &Context<'_>,
) -> Decision {
    misread(key, row, command, context, |row| {
        if is_claim(command) && row.state == State::Completed {
            row.state = State::Received;
        }
    })
}

pub(super) fn release_reopens(key: &Key, row: Row<'_>, command: &Command, context: &Context<'_>) -> Decision {
    misread(key, row, command, context, |row| {
        if row.closed_by == ClosedBy::Complete && is_release(command) {
            row.closed_by = ClosedBy::Open;
        }
    })
}

pub(super) fn terminal_is_open(
    key: &Key,
    row: Row<'_>,
    command: &Command,
    context: &Context<'_>,
) -> Decision {
    misread(key, row, command, context, |row| {
        if row.closed_by == ClosedBy::FailTerminal {
            row.closed_by = ClosedBy::Open;
        }
    })
}

pub(super) fn repeat_refused(key: &Key, row: Row<'_>, command: &Command, context: &Context<'_>) -> Decision {
    misread(key, row, command, context, |row| {
        if row.closed_by == ClosedBy::Complete {
            row.closed_by = ClosedBy::Operator;
        }
    })
}

pub(super) fn gives_back_twice(
    key: &Key,
    row: Row<'_>,
    command: &Command,
    context: &Context<'_>,
) -> Decision {
    misread(key, row, command, context, |row| {
        if row.closed_by == ClosedBy::Release && is_release(command) {
            row.closed_by = ClosedBy::Open;
        }
    })
}

pub(super) fn writes_with_refusal(
    key: &Key,
    row: Row<'_>,
    command: &Command,
    context: &Context<'_>,
) -> Decision {
    let mut decision = decide(key, row, command, context);
    if decision.answer.is_err() {
        decision.write = row.map(|row| Entry { version: row.version + 1, ..row.clone() });
    }
    decision
}

fn is_complete(command: &Command) -> bool {
    matches!(command, Command::Settle(_, Settle::Complete { .. }))
}

pub(super) fn marks_again(key: &Key, row: Row<'_>, command: &Command, context: &Context<'_>) -> Decision {
    misread(key, row, command, context, |row| {
        if is_complete(command) {
            row.history.iter_mut().for_each(|past| past.reported_done = false);
        }
    })
}

pub(super) fn forgets_the_first_report(
    key: &Key,
    row: Row<'_>,
    command: &Command,
    context: &Context<'_>,
) -> Decision {
    let mut decision = decide(key, row, command, context);
    if let Some(next) = &mut decision.write
        && is_complete(command)
    {
        next.doubled = false;
    }
    decision
}

pub(super) fn forgets_doubt(key: &Key, row: Row<'_>, command: &Command, context: &Context<'_>) -> Decision {
    let mut decision = decide(key, row, command, context);
    if let Some(next) = &mut decision.write
        && is_release(command)
    {
        next.effect_unknown = false;
    }
    decision
}

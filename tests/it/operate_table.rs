//! Operators' changes, by the table of docs/contract.md, section 6: every combination of state, last claim,
//! time, flags, change and force is enumerated; the rows stand here in the contract's order, the first that
//! matches says what is refused, and with which reason, or what becomes of the entry. The entry afterwards is
//! compared as a whole: what a row does not name must stay as it was.

mod cases;
mod edges;

use bytes::Bytes;
use idempotency_ledger::domain::{
    Attempt, Change, Changed, ClosedBy, Context, Entry, ParkCause, Policy, Reason, Rejection, Span, State,
    operate,
};

use self::cases::{Ask, BUMPED, Case, NOW, OFFSET, POSITION, Time, VERSION, Was};

/// What comes of it.
#[derive(Clone, Copy)]
enum Want {
    Refused(Reason),
    /// An entry is made.
    Admitted,
    /// The entry afterwards: what it was, with these changes.
    Becomes(fn(&Case, &mut Entry)),
    Gone,
}

type Row = (&'static str, fn(&Case) -> bool, Want);

fn absent(case: &Case) -> bool {
    case.was == Was::Absent
}

fn is(case: &Case, state: State) -> bool {
    matches!(case.was, Was::Present(found, _) if found == state)
}

/// *Unsettled* = closed_by open, EXPIRY or OPERATOR_PARK.
fn unsettled(case: &Case) -> bool {
    matches!(case.was, Was::Present(_, ClosedBy::Open | ClosedBy::Expiry | ClosedBy::OperatorPark))
}

/// The last claim is unsettled, and its lease + grace is not over.
fn at_work(case: &Case) -> bool {
    unsettled(case) && case.time != Time::Over
}

fn in_doubt(case: &Case) -> bool {
    case.effect_started || case.prior_effect_started || case.effect_unknown
}

fn redrives(case: &Case) -> bool {
    matches!(case.ask, Ask::Redrive { .. })
}

fn resolves(case: &Case) -> bool {
    matches!(case.ask, Ask::Completed | Ask::FailedTerminal | Ask::Received)
}

/// RECEIVED, IN_PROGRESS, FAILED_RETRYABLE.
fn may_be_parked(case: &Case) -> bool {
    is(case, State::Received) || is(case, State::InProgress) || is(case, State::FailedRetryable)
}

/// The table of docs/contract.md, section 6, in its order.
const ROWS: &[Row] = &[
    (
        "absent, redriven with admit",
        |c| absent(c) && matches!(c.ask, Ask::Redrive { admit: true, .. }),
        Want::Admitted,
    ),
    ("absent", absent, Want::Refused(Reason::EntryNotFound)),
    (
        "Redrive of a COMPLETED without force",
        |c| redrives(c) && is(c, State::Completed) && !c.force,
        Want::Refused(Reason::StateNotAllowed),
    ),
    (
        "Redrive while the unsettled claim's lease + grace is not over, without force",
        |c| redrives(c) && at_work(c) && !c.force,
        Want::Refused(Reason::StateNotAllowed),
    ),
    ("Redrive", redrives, Want::Becomes(redriven)),
    (
        "Resolve of a COMPLETED without force",
        |c| resolves(c) && is(c, State::Completed) && !c.force,
        Want::Refused(Reason::StateNotAllowed),
    ),
    (
        "Resolve while the unsettled claim's lease + grace is not over, without force",
        |c| resolves(c) && at_work(c) && !c.force,
        Want::Refused(Reason::StateNotAllowed),
    ),
    ("Resolve to COMPLETED", |c| c.ask == Ask::Completed, Want::Becomes(resolved_completed)),
    ("Resolve to FAILED_TERMINAL", |c| c.ask == Ask::FailedTerminal, Want::Becomes(resolved_failed)),
    (
        "forced Resolve to RECEIVED, the holder may be at work",
        |c| c.ask == Ask::Received && at_work(c),
        Want::Becomes(resolved_received_by_force),
    ),
    ("Resolve to RECEIVED", |c| c.ask == Ask::Received, Want::Becomes(resolved_received)),
    (
        "Park of an open claim",
        |c| c.ask == Ask::Park && is(c, State::InProgress),
        Want::Becomes(parked_while_open),
    ),
    ("Park", |c| c.ask == Ask::Park && may_be_parked(c), Want::Becomes(parked)),
    ("Park of what nobody would be granted", |c| c.ask == Ask::Park, Want::Refused(Reason::StateNotAllowed)),
    (
        "Delete of a COMPLETED without force",
        |c| is(c, State::Completed) && !c.force,
        Want::Refused(Reason::StateNotAllowed),
    ),
    ("Delete of an unsettled claim without force", |c| unsettled(c) && !c.force, {
        Want::Refused(Reason::StateNotAllowed)
    }),
    ("Delete of an effect in doubt without force", |c| in_doubt(c) && !c.force, {
        Want::Refused(Reason::StateNotAllowed)
    }),
    ("Delete", |_| true, Want::Gone),
];

/// Token bumped, claim forgotten; closed_by OPERATOR; `effect_started` becomes `prior_effect_started`.
fn forgotten(case: &Case, entry: &mut Entry) {
    entry.token = BUMPED;
    entry.claimant = None;
    entry.rearmed = false;
    entry.closed_by = ClosedBy::Operator;
    entry.closed_at = Some(NOW);
    entry.parked_at = None;
    entry.prior_effect_started = case.prior_effect_started || case.effect_started;
    entry.effect_started = false;
    entry.result = Bytes::new();
}

/// RECEIVED, due now, attempts 0. The entry is kept for `abandoned_retention` of 50 days, unless its effect is
/// in doubt.
fn claimable(case: &Case, entry: &mut Entry, in_doubt: bool) {
    entry.state = State::Received;
    entry.not_before = NOW;
    entry.attempts = 0;
    let days = if case.longer_at_claim { 90 } else { 50 };
    // Of the last change and the lease's end, the later one.
    let from = if case.time == Time::Running { NOW + Span::from_secs(1) } else { NOW };
    entry.retain_until = (!in_doubt).then_some(from + Span::from_days(days));
}

fn redriven(case: &Case, entry: &mut Entry) {
    forgotten(case, entry);
    claimable(case, entry, in_doubt(case) || unsettled(case));
    entry.effect_unknown = case.effect_unknown || unsettled(case);
    if matches!(case.ask, Ask::Redrive { drop_fingerprint: true, .. }) {
        entry.fingerprint = Bytes::new();
    }
}

fn resolved_completed(case: &Case, entry: &mut Entry) {
    forgotten(case, entry);
    entry.state = State::Completed;
    entry.effect_unknown = false;
    entry.result = Bytes::from_static(b"receipt 7");
    entry.retain_until = Some(NOW + Span::from_days(if case.longer_at_claim { 90 } else { 9 }));
}

fn resolved_failed(case: &Case, entry: &mut Entry) {
    forgotten(case, entry);
    entry.state = State::FailedTerminal;
    entry.effect_unknown = false;
    entry.last_error = "no such account".into();
    entry.retain_until = Some(NOW + Span::from_days(if case.longer_at_claim { 90 } else { 40 }));
}

fn resolved_received(case: &Case, entry: &mut Entry) {
    forgotten(case, entry);
    claimable(case, entry, false);
    entry.effect_unknown = false;
    entry.prior_effect_started = false;
}

fn resolved_received_by_force(case: &Case, entry: &mut Entry) {
    forgotten(case, entry);
    claimable(case, entry, true);
    entry.effect_unknown = true;
}

/// PARKED (`OPERATOR`), token kept; PARKED never expires.
fn parked(_: &Case, entry: &mut Entry) {
    entry.state = State::Parked(ParkCause::Operator);
    entry.parked_at = Some(NOW);
    entry.retain_until = None;
}

fn parked_while_open(case: &Case, entry: &mut Entry) {
    parked(case, entry);
    entry.closed_by = ClosedBy::OperatorPark;
    entry.closed_at = Some(NOW);
}

/// Asks the core.
fn ask(
    case: &Case,
    entry: Option<&Entry>,
    expected_version: i64,
    context: &Context<'_>,
) -> Result<Changed, Rejection> {
    let change = Change { expected_version, action: cases::action(case.ask), force: case.force };
    operate(&cases::key(), entry, &change, context)
}

fn context(policy: &Policy) -> Context<'_> {
    Context {
        policy,
        now: NOW,
        token_offset: OFFSET,
        position: POSITION,
        clock_behind: false,
        clock_before_release: false,
        clock_ahead: false,
    }
}

#[test]
fn the_core_answers_every_row() {
    let policy = cases::policy();
    let context = context(&policy);
    let mut hit = vec![0; ROWS.len()];
    for case in &cases::cases() {
        let row = ROWS.iter().position(|(_, matches, _)| matches(case));
        let row = row.unwrap_or_else(|| panic!("no row answers {case:?}"));
        hit[row] += 1;
        let (name, _, want) = &ROWS[row];
        let before = cases::entry(case);
        let version = before.as_ref().map_or(0, |entry| entry.version);
        match (*want, ask(case, before.as_ref(), version, &context)) {
            (Want::Refused(reason), Err(rejection)) => {
                assert_eq!(rejection.reason, reason, "{name}: {case:?}");
                assert_eq!(rejection.state, before.map(|entry| entry.state), "{name}: {case:?}");
                // Where force would help, the refusal says so.
                let parks = case.ask == Ask::Park || absent(case);
                assert_eq!(rejection.message.contains("`force`"), !parks, "{name}: {rejection:?}");
            }
            (Want::Admitted, Ok(Changed::Entry(after))) => {
                assert_eq!(*after, edges::admitted(), "{name}: {case:?}");
            }
            (Want::Becomes(change), Ok(Changed::Entry(after))) => {
                let before = before.unwrap_or_else(|| panic!("{name}: {case:?}"));
                assert_eq!(*after, expected(case, &before, change), "{name}: {case:?}");
            }
            (Want::Gone, Ok(Changed::Gone)) => {}
            (_, got) => panic!("{name}: {got:?} for {case:?}"),
        }
    }
    for ((name, _, _), hits) in ROWS.iter().zip(hit) {
        assert!(hits > 0, "no case reaches the row `{name}`");
    }
}

/// The whole entry as the row has it.
fn expected(case: &Case, before: &Entry, change: fn(&Case, &mut Entry)) -> Entry {
    let mut want =
        Entry { version: VERSION + 1, updated_at: NOW, history: history(case, before), ..before.clone() };
    change(case, &mut want);
    want
}

/// A claim that is forgotten stays in the history, once; a parked one is still the entry's last claim.
fn history(case: &Case, before: &Entry) -> Vec<Attempt> {
    let Some(holder) = before.claimant.as_ref().filter(|_| case.ask != Ask::Park) else { return Vec::new() };
    let (outcome, ended_at) = match before.closed_at {
        Some(at) => (before.closed_by, at),
        // Nobody closed it: it ended with its lease, or now.
        None => (ClosedBy::Expiry, before.lease_until.min(NOW)),
    };
    let by_fail = matches!(outcome, ClosedBy::FailRetryable | ClosedBy::FailTerminal | ClosedBy::FailPark);
    vec![Attempt {
        // The released attempt was given back: it was the fourth.
        attempt: if outcome == ClosedBy::Release { 4 } else { 3 },
        started_at: before.granted_at,
        ended_at,
        owner: holder.owner.clone(),
        outcome,
        error: if by_fail { before.last_error.clone() } else { String::new() },
        reported_done: false,
        token: Some(before.token),
    }]
}

//! Claim, by the table of docs/contract.md, section 4: every combination of state, asker, time, policy
//! and fingerprint is enumerated; the rows stand here in the contract's order, the first
//! that matches answers, and a combination that no row matches fails. Asked of the core, and
//! through the wire of a server on each store.

mod cases;
mod lookup;
mod wire;

use bytes::Bytes;
use idempotency_ledger::domain::{
    Claim, Claimant, ClosedBy, Command, Context, Entry, FingerprintMode, OnExpiry, ParkCause, Reply, Span,
    State, Verdict, decide,
};

use self::cases::{asked, cases, entry, key, policy};
use crate::harness::server::START;

/// What stands in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Was {
    Absent,
    Received(ClosedBy),
    FailedRetryable,
    InProgress,
    Completed(ClosedBy),
    FailedTerminal,
    Parked(ParkCause),
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    Same,
    OtherClaimId,
    OtherOwner,
}

/// Where the store's clock stands with respect to the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    /// The lease runs; or the entry is due.
    Running,
    /// The lease is over, the grace runs; or the entry is not due.
    Grace,
    /// Lease and grace are over.
    Expired,
    /// They are over, and `max_hold` is used up.
    HoldOver,
}

/// The fingerprints of the entry and of the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prints {
    None,
    Stored,
    Presented,
    Equal,
    Different,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    was: Was,
    asker: Asker,
    time: Time,
    effect_started: bool,
    rearmed: bool,
    on_expiry: OnExpiry,
    exhausted: bool,
    disabled: bool,
    mode: FingerprintMode,
    prints: Prints,
}

/// What comes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Want {
    /// A new grant: the attempt's number, and whether the effect of an earlier one is unknown.
    Granted {
        attempt: i32,
        effect_unknown: bool,
        prior_effect_started: bool,
    },
    /// The same token again; whether the lease was armed again.
    Replayed {
        rearmed: bool,
    },
    Completed {
        by_this_claim: bool,
    },
    InProgress,
    Backoff,
    Failed,
    Parked(ParkCause),
    Mismatch,
    /// Refused with this reason.
    Refused(&'static str),
}

const LEASE: Span = Span::from_secs(30);
const GRACE: Span = Span::from_secs(5);
const HOLD: Span = Span::from_secs(3_600);
const TOKEN: i64 = 1_000;

type Row = (&'static str, fn(&Case) -> bool, fn(&Case) -> Want);

fn differ(case: &Case) -> bool {
    case.prints == Prints::Different && case.mode != FingerprintMode::Ignore
}

fn waits(case: &Case) -> bool {
    matches!(case.was, Was::Received(_) | Was::FailedRetryable)
}

fn closed_by_holder(case: &Case) -> bool {
    matches!(case.was, Was::Received(ClosedBy::Release) | Was::FailedRetryable)
}

fn held(case: &Case) -> bool {
    case.was == Was::InProgress
}

fn same(case: &Case) -> bool {
    case.asker == Asker::Same
}

fn lease_over(case: &Case) -> bool {
    case.time != Time::Running
}

fn expired(case: &Case) -> bool {
    held(case) && matches!(case.time, Time::Expired | Time::HoldOver)
}

fn parks(case: &Case) -> bool {
    case.on_expiry == OnExpiry::Park || (case.on_expiry == OnExpiry::ParkIfStarted && case.effect_started)
}

/// A grant, or what stands in its way.
fn grant(case: &Case) -> Want {
    if case.disabled {
        return Want::Refused("CONSUMER_DISABLED");
    }
    if case.exhausted && case.was != Was::Absent {
        return Want::Parked(ParkCause::AttemptsExhausted);
    }
    Want::Granted {
        attempt: if case.was == Was::Absent { 1 } else { 2 },
        effect_unknown: held(case),
        prior_effect_started: case.effect_started && case.was != Was::Absent,
    }
}

fn park(case: &Case) -> Want {
    if case.disabled {
        return Want::Refused("CONSUMER_DISABLED");
    }
    Want::Parked(if case.effect_started { ParkCause::EffectUnknown } else { ParkCause::LeaseExpired })
}

/// The table of docs/contract.md, section 4, in its order.
const ROWS: &[Row] = &[
    (
        "REQUIRE without a fingerprint",
        |c| c.mode == FingerprintMode::Require && matches!(c.prints, Prints::None | Prints::Stored),
        |_| Want::Refused("INVALID_FIELD"),
    ),
    ("any, both fingerprints, different", |c| c.was != Was::Absent && differ(c), |_| Want::Mismatch),
    ("absent", |c| c.was == Was::Absent, grant),
    (
        "completed",
        |c| matches!(c.was, Was::Completed(_)),
        |c| Want::Completed { by_this_claim: same(c) && c.was == Was::Completed(ClosedBy::Complete) },
    ),
    ("failed", |c| c.was == Was::FailedTerminal, |_| Want::Failed),
    (
        "parked",
        |c| matches!(c.was, Was::Parked(_)),
        |c| match c.was {
            Was::Parked(cause) => Want::Parked(cause),
            _ => unreachable!(),
        },
    ),
    (
        "closed by its holder, same claim",
        |c| closed_by_holder(c) && same(c),
        |_| Want::Refused("CLAIM_CLOSED"),
    ),
    ("not due", |c| waits(c) && c.time == Time::Grace, |_| Want::Backoff),
    ("due", waits, grant),
    (
        "held, effect started, same claim",
        |c| held(c) && c.effect_started && same(c),
        |_| Want::Refused("CLAIM_CLOSED"),
    ),
    (
        "held, lease runs, same claim",
        |c| held(c) && !lease_over(c) && same(c),
        |_| Want::Replayed { rearmed: false },
    ),
    ("held, lease runs", |c| held(c) && !lease_over(c), |_| Want::InProgress),
    (
        "held, lease over, hold left, not rearmed, same claim",
        |c| held(c) && same(c) && c.time != Time::HoldOver && !c.rearmed,
        |_| Want::Replayed { rearmed: true },
    ),
    ("held, lease over, else, same claim", |c| held(c) && same(c), |_| Want::Refused("CLAIM_CLOSED")),
    ("held, in grace", |c| held(c) && c.time == Time::Grace, |_| Want::InProgress),
    ("expired, reclaimable", |c| expired(c) && !parks(c), grant),
    ("expired, parks", |c| expired(c) && parks(c), park),
];

fn want(case: &Case) -> Want {
    let row = ROWS.iter().find(|(_, matches, _)| matches(case));
    let (_, _, want) = row.unwrap_or_else(|| panic!("no row answers {case:?}"));
    want(case)
}

/// What the entry must look like afterwards.
fn check_entry(case: &Case, want: &Want, before: Option<&Entry>, after: Option<&Entry>) {
    let Some(after) = after else {
        assert!(before.is_none() && matches!(want, Want::Refused(_)), "{case:?} lost its entry");
        return;
    };
    match want {
        Want::Granted { attempt, effect_unknown, prior_effect_started } => {
            assert!(after.token > before.map_or(0, |before| before.token), "{case:?}");
            assert_eq!(after.state, State::InProgress, "{case:?}");
            assert_eq!(after.closed_by, ClosedBy::Open, "{case:?}");
            assert_eq!(after.attempts, *attempt, "{case:?}");
            assert_eq!(after.effect_unknown, *effect_unknown, "{case:?}");
            assert_eq!(after.prior_effect_started, *prior_effect_started, "{case:?}");
            assert!(!after.rearmed && !after.effect_started, "{case:?}");
            let remembered = before.is_some_and(|before| before.claimant.is_some());
            assert_eq!(after.history.len(), usize::from(remembered), "{case:?}");
            let pinned = case.mode != FingerprintMode::Ignore && case.prints == Prints::Presented;
            if pinned {
                assert_eq!(after.fingerprint, Bytes::from_static(b"A"), "{case:?}");
            }
        }
        Want::Replayed { rearmed } => {
            assert_eq!(after.token, TOKEN, "{case:?}");
            assert_eq!(after.rearmed, *rearmed || case.rearmed, "{case:?}");
        }
        Want::Parked(cause) => {
            assert_eq!(after.state, State::Parked(*cause), "{case:?}");
            assert_eq!(after.token, TOKEN, "{case:?}");
            if case.was == Was::InProgress {
                assert_eq!(after.closed_by, ClosedBy::Expiry, "{case:?}");
                assert!(after.effect_unknown, "{case:?}");
            }
        }
        Want::Completed { .. }
        | Want::InProgress
        | Want::Backoff
        | Want::Failed
        | Want::Mismatch
        | Want::Refused(_) => {
            let before = before.unwrap_or_else(|| panic!("{case:?} made an entry"));
            assert_eq!(after.token, before.token, "{case:?}");
            assert_eq!(after.state, before.state, "{case:?}");
            assert_eq!(after.lease_until, before.lease_until, "{case:?}");
        }
    }
}

#[test]
fn the_core_answers_every_row() {
    let mut hit = vec![0; ROWS.len()];
    for (number, case) in cases().iter().enumerate() {
        let now = START;
        let row = ROWS.iter().position(|(_, matches, _)| matches(case));
        hit[row.unwrap_or_else(|| panic!("no row answers {case:?}"))] += 1;
        let want = want(case);
        let before = entry(case, number, now);
        let (claim_id, owner, print) = asked(case);
        let command = Command::Claim(Claim {
            claimant: Claimant { claim_id, principal: "anonymous".into(), owner: owner.into() },
            lease: None,
            fingerprint: Bytes::from_static(print),
            occurred_at: None,
            traceparent: String::new(),
            handed_out: false,
        });
        let policy = policy(case);
        let context = Context {
            policy: &policy,
            now,
            token_offset: 0,
            position: 1,
            clock_behind: false,
            clock_before_release: false,
            clock_ahead: false,
        };
        let decision = decide(&key(case, number), before.as_ref(), &command, &context);
        let got = match &decision.answer {
            Err(rejection) => Want::Refused(leak(&format!("{:?}", rejection.reason))),
            Ok(Reply::Verdict(verdict)) => of_verdict(verdict, decision.write.is_some()),
            Ok(other) => panic!("{other:?}"),
        };
        let want_core = match want {
            Want::Refused(reason) => Want::Refused(leak(&camel(reason))),
            ref other => other.clone(),
        };
        assert_eq!(got, want_core, "{case:?}");
        check_entry(case, &want, before.as_ref(), decision.write.as_ref().or(before.as_ref()));
        let grants = matches!(want, Want::Granted { .. } | Want::Replayed { rearmed: true });
        let newly_parked = matches!(want, Want::Parked(_)) && !matches!(case.was, Was::Parked(_));
        assert_eq!(decision.write.is_some(), grants || newly_parked, "{case:?}");
    }
    for ((name, _, _), hits) in ROWS.iter().zip(hit) {
        assert!(hits > 0, "no case reaches the row `{name}`");
    }
}

/// `LEASE_LOST` to `LeaseLost`.
fn camel(word: &str) -> String {
    word.split('_').map(|part| part[..1].to_owned() + &part[1..].to_lowercase()).collect()
}

fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn of_verdict(verdict: &Verdict, wrote: bool) -> Want {
    match verdict {
        Verdict::Acquired { replayed: true, token, .. } => {
            assert_eq!(*token, TOKEN);
            Want::Replayed { rearmed: wrote }
        }
        Verdict::Acquired { attempt, effect_unknown, prior_effect_started, .. } => Want::Granted {
            attempt: *attempt,
            effect_unknown: *effect_unknown,
            prior_effect_started: *prior_effect_started,
        },
        Verdict::Completed { by_this_claim, .. } => Want::Completed { by_this_claim: *by_this_claim },
        Verdict::InProgress { .. } => Want::InProgress,
        Verdict::Backoff { .. } => Want::Backoff,
        Verdict::Failed { .. } => Want::Failed,
        Verdict::Parked { cause, .. } => Want::Parked(*cause),
        Verdict::FingerprintMismatch { .. } => Want::Mismatch,
        Verdict::OutsideWindow { .. } | Verdict::Suppressed { .. } => panic!("{verdict:?}"),
    }
}

//! Claim, by the table of docs/contract.md, section 4: every combination of state, asker, time, policy
//! and fingerprint is enumerated; the rows stand here in the contract's order, the first
//! that matches answers, and a combination that no row matches fails. Asked of the core, and
//! through the wire of a server on each store.

use bytes::Bytes;
use idempotency_ledger::domain::{
    Claim, Claimant, ClosedBy, Command, Context, Entry, FingerprintMode, Key, OnExpiry, ParkCause, Policy,
    Reply, Span, State, StoreTime, Verdict, decide,
};
use idempotency_ledger::rpc::proto::{self, claim_response};
use uuid::Uuid;

use crate::harness::details::refusal;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, Setup, TestServer};

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
    /// The same token again; whether the lease was armed anew.
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

/// Every combination that differs in something that its state has.
fn cases() -> Vec<Case> {
    let waits = [Was::Received(ClosedBy::Release), Was::Received(ClosedBy::Operator), Was::FailedRetryable];
    let finals = [
        Was::Completed(ClosedBy::Complete),
        Was::Completed(ClosedBy::Operator),
        Was::FailedTerminal,
        Was::Parked(ParkCause::AttemptsExhausted),
        Was::Parked(ParkCause::LeaseExpired),
        Was::Parked(ParkCause::EffectUnknown),
        Was::Parked(ParkCause::Consumer),
        Was::Parked(ParkCause::Operator),
    ];
    let modes = [FingerprintMode::Verify, FingerprintMode::Ignore, FingerprintMode::Require];
    let prints = [Prints::None, Prints::Stored, Prints::Presented, Prints::Equal, Prints::Different];
    let expiries = [OnExpiry::Reclaim, OnExpiry::Park, OnExpiry::ParkIfStarted];
    let mut cases = Vec::new();
    let all = [Was::Absent, Was::InProgress].into_iter().chain(waits).chain(finals);
    for was in all {
        for asker in [Asker::Same, Asker::OtherClaimId, Asker::OtherOwner] {
            for time in [Time::Running, Time::Grace, Time::Expired, Time::HoldOver] {
                for bits in 0..16_u8 {
                    for on_expiry in expiries {
                        for mode in modes {
                            for prints in prints {
                                let case = Case {
                                    was,
                                    asker,
                                    time,
                                    effect_started: bits & 1 != 0,
                                    rearmed: bits & 2 != 0,
                                    exhausted: bits & 4 != 0,
                                    disabled: bits & 8 != 0,
                                    on_expiry,
                                    mode,
                                    prints,
                                };
                                if sensible(&case) {
                                    cases.push(case);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    cases
}

/// Leaves out what an entry in this state has not, so that no case is there twice.
fn sensible(case: &Case) -> bool {
    let held = case.was == Was::InProgress;
    let waits = matches!(case.was, Was::Received(_) | Was::FailedRetryable);
    let absent = case.was == Was::Absent;
    (held || !case.rearmed)
        && (held || case.on_expiry == OnExpiry::Reclaim)
        && (held || case.time == Time::Running || (waits && case.time == Time::Grace))
        && (held || waits || !case.effect_started)
        && !(case.was == Was::Received(ClosedBy::Operator) && case.asker != Asker::OtherClaimId)
        && (!absent || (case.asker == Asker::OtherClaimId && matches!(case.prints, Prints::None | Prints::Presented)))
        // Fingerprints and modes are crossed with all states, not with all flags of a held one.
        && (case.prints == Prints::None && case.mode == FingerprintMode::Verify
            || (!case.rearmed && !case.effect_started && case.on_expiry == OnExpiry::Reclaim && !case.exhausted))
}

fn holder() -> Claimant {
    Claimant {
        claim_id: Uuid::from_u128(0x1111_4111_8111_1111_1111),
        principal: "anonymous".into(),
        owner: "holder".into(),
    }
}

/// A valid claim_id of version 4, told apart by a number.
fn claim_id(number: u128) -> Uuid {
    uuid::Builder::from_random_bytes(number.to_be_bytes()).into_uuid()
}

fn policy(case: &Case) -> Policy {
    Policy {
        reclaim_grace: GRACE,
        max_hold: HOLD,
        lease: LEASE,
        // Read at each operation; the entry keeps its own from its grant.
        on_expiry: OnExpiry::Park,
        max_attempts: i32::from(case.exhausted),
        disabled: case.disabled,
        fingerprint: case.mode,
        max_lease: Span::from_secs(900),
        ..Policy::default()
    }
}

/// A consumer for each policy.
fn consumer(case: &Case) -> String {
    format!("{}{}{:?}", i32::from(case.exhausted), i32::from(case.disabled), case.mode)
}

fn key(case: &Case, number: usize) -> Key {
    Key::new(&consumer(case), "table", &format!("case-{number}"))
}

/// The entry of a case, as of the instant at which it is asked for.
fn entry(case: &Case, number: usize, now: StoreTime) -> Option<Entry> {
    let (state, closed_by) = match case.was {
        Was::Absent => return None,
        Was::Received(closed_by) => (State::Received, closed_by),
        Was::FailedRetryable => (State::FailedRetryable, ClosedBy::FailRetryable),
        Was::InProgress => (State::InProgress, ClosedBy::Open),
        Was::Completed(closed_by) => (State::Completed, closed_by),
        Was::FailedTerminal => (State::FailedTerminal, ClosedBy::FailTerminal),
        Was::Parked(cause) => (
            State::Parked(cause),
            match cause {
                ParkCause::AttemptsExhausted => ClosedBy::FailRetryable,
                ParkCause::LeaseExpired | ParkCause::EffectUnknown => ClosedBy::Expiry,
                ParkCause::Consumer => ClosedBy::FailPark,
                ParkCause::Operator => ClosedBy::OperatorPark,
            },
        ),
    };
    let granted_at = match case.time {
        Time::Running => now - Span::from_secs(1),
        Time::Grace => now - LEASE - Span::from_secs(1),
        Time::Expired => now - LEASE - GRACE - Span::from_secs(1),
        Time::HoldOver => now - HOLD - Span::from_secs(1),
    };
    let forgotten = closed_by == ClosedBy::Operator;
    let stored = matches!(case.prints, Prints::Stored | Prints::Equal | Prints::Different);
    Some(Entry {
        key: key(case, number),
        version: 1,
        token: TOKEN,
        state,
        closed_by,
        closed_at: (closed_by != ClosedBy::Open).then_some(now),
        parked_at: matches!(state, State::Parked(_)).then_some(now),
        claimant: (!forgotten).then(|| Claimant { claim_id: claim_id(1), ..holder() }),
        granted_at,
        lease_until: granted_at + LEASE,
        grace: GRACE,
        hold_until: granted_at + HOLD,
        on_expiry: case.on_expiry,
        policy_version: 1,
        retention: Span::from_days(7),
        rearmed: case.rearmed,
        effect_started: case.effect_started,
        prior_effect_started: false,
        effect_unknown: false,
        checkpoint: Bytes::from_static(b"half"),
        attempts: 1,
        not_before: if case.time == Time::Grace { now + Span::from_secs(1) } else { now },
        last_error: "broken".into(),
        history: Vec::new(),
        fingerprint: if stored { Bytes::from_static(b"A") } else { Bytes::new() },
        result: Bytes::new(),
        retain_until: None,
        purge_at: now + Span::from_days(8),
        created_at: granted_at,
        updated_at: granted_at,
        traceparent: String::new(),
    })
}

fn asked(case: &Case) -> (Uuid, &'static str, &'static [u8]) {
    let print: &[u8] = match case.prints {
        Prints::None | Prints::Stored => b"",
        Prints::Presented | Prints::Equal => b"A",
        Prints::Different => b"B",
    };
    match case.asker {
        Asker::Same => (claim_id(1), "holder", print),
        Asker::OtherClaimId => (claim_id(2), "holder", print),
        Asker::OtherOwner => (claim_id(1), "another", print),
    }
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
        });
        let policy = policy(case);
        let context = Context { policy: &policy, now, token_offset: 0, position: 1, clock_behind: false };
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
        Verdict::OutsideWindow { .. } => panic!("{verdict:?}"),
    }
}

on_both_stores!(the_wire_answers_every_row);

async fn the_wire_answers_every_row(kind: Kind) {
    let cases = cases();
    let mut setup = Setup::default();
    for case in &cases {
        setup.own.insert(consumer(case), policy(case));
    }
    let server = TestServer::start_with(kind, setup).await;
    let entries: Vec<Entry> =
        cases.iter().enumerate().filter_map(|(number, case)| entry(case, number, server.at.now())).collect();
    server.put(&entries).await;
    let keys: Vec<Key> = cases.iter().enumerate().map(|(number, case)| key(case, number)).collect();
    let before = server.entries(&keys).await;

    // Many at once, so that they meet in batches.
    let mut answers = Vec::new();
    for part in cases.iter().enumerate().collect::<Vec<_>>().chunks(64) {
        let calls = part.iter().map(|(number, case)| {
            let mut client = server.client.clone();
            let (claim_id, owner, print) = asked(case);
            let request = proto::ClaimRequest {
                key: Some(proto::EntryKey {
                    consumer: consumer(case),
                    source: "table".into(),
                    id: format!("case-{number}"),
                }),
                claim_id: claim_id.to_string(),
                owner: owner.into(),
                fingerprint: Bytes::from_static(print),
                ..Default::default()
            };
            async move { client.claim(request).await }
        });
        answers.extend(futures_util::future::join_all(calls).await);
    }
    let after = server.entries(&keys).await;
    for (number, (case, answer)) in cases.iter().zip(answers).enumerate() {
        let want = want(case);
        let rearmed = after[number].as_ref().is_some_and(|entry| entry.rearmed) && !case.rearmed;
        let (got, advice) = match answer {
            Err(status) => {
                let refusal = refusal(&status);
                (Want::Refused(leak(&refusal.reason)), refusal.advice)
            }
            Ok(response) => {
                let response = response.into_inner();
                let advice = response.advice().as_str_name().trim_start_matches("ADVICE_").to_owned();
                (of_response(response, rearmed), advice)
            }
        };
        assert_eq!(got, want, "{case:?}");
        assert_eq!(advice, advice_of(&want), "{case:?}");
        check_entry(case, &want, before[number].as_ref(), after[number].as_ref());
    }
    server.stop().await;
}

/// The advice of each verdict: docs/contract.md, section 4.
fn advice_of(want: &Want) -> &'static str {
    match want {
        Want::Granted { .. } | Want::Replayed { .. } => "PROCESS",
        Want::Completed { .. } => "ACK",
        Want::InProgress | Want::Backoff | Want::Refused(_) => "RETRY_LATER",
        Want::Failed | Want::Parked(_) | Want::Mismatch => "DEAD_LETTER",
    }
}

fn of_response(response: proto::ClaimResponse, rearmed: bool) -> Want {
    use claim_response::Verdict as V;
    let waits = response.retry_after.is_some();
    match response.verdict.expect("a verdict") {
        V::Acquired(acquired) if acquired.replayed => {
            assert_eq!(acquired.token, TOKEN);
            Want::Replayed { rearmed }
        }
        V::Acquired(acquired) => Want::Granted {
            attempt: acquired.attempt,
            effect_unknown: acquired.effect_unknown,
            prior_effect_started: acquired.prior_effect_started,
        },
        V::Completed(completed) => Want::Completed { by_this_claim: completed.by_this_claim },
        V::InProgress(_) => {
            assert!(waits, "in_progress without retry_after");
            Want::InProgress
        }
        V::Backoff(_) => {
            assert!(waits, "backoff without retry_after");
            Want::Backoff
        }
        V::Failed(failed) => {
            assert_eq!(failed.error, "broken");
            Want::Failed
        }
        V::Parked(parked) => Want::Parked(match parked.cause() {
            proto::ParkCause::AttemptsExhausted => ParkCause::AttemptsExhausted,
            proto::ParkCause::LeaseExpired => ParkCause::LeaseExpired,
            proto::ParkCause::EffectUnknown => ParkCause::EffectUnknown,
            proto::ParkCause::Consumer => ParkCause::Consumer,
            proto::ParkCause::Operator => ParkCause::Operator,
            proto::ParkCause::Unspecified => panic!("parked without a cause"),
        }),
        V::FingerprintMismatch(mismatch) => {
            assert_eq!((&mismatch.expected[..], &mismatch.presented[..]), (&b"A"[..], &b"B"[..]));
            Want::Mismatch
        }
        other @ (V::OutsideWindow(_) | V::Rejected(_)) => panic!("{other:?}"),
    }
}

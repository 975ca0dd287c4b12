//! The words of the core in those of the spec.

use idempotency_ledger_domain::{
    Action, Answer, Attempt, Change, Claim, Claimant, ClosedBy, Command, EffectRow, Entry, Evidence,
    Reconciled, Rejection, Reply, Resolution, Settle, Span, Store, StoreTime, StoreVerdict, Verdict,
};
use uuid::Uuid;

use super::reconciled::{Effect, Proof};
use super::spec::{Op, Order, Past, Row, Said};

pub(crate) fn command(op: &Op) -> Command {
    match op.clone() {
        Op::Claim { who, lease, print, occurred_at } => Command::Claim(Claim {
            claimant: Claimant { claim_id: Uuid::from_u128(who.0), principal: String::new(), owner: who.1 },
            lease: lease.map(Span),
            fingerprint: print.into(),
            occurred_at: occurred_at.map(StoreTime),
            traceparent: String::new(),
            handed_out: false,
        }),
        Op::Complete { token, result, too_large } => {
            Command::Settle(token, Settle::Complete { result: result.into(), left_out: too_large })
        }
        Op::Fail { token, kind, error, retry_after } => {
            Command::Settle(token, Settle::Fail { kind, error, retry_after: retry_after.map(Span) })
        }
        Op::Release { token, delay, unpin } => {
            Command::Settle(token, Settle::Release { delay: Span(delay), unpin })
        }
        Op::Renew { token, lease, started, checkpoint, too_large } => Command::Settle(
            token,
            Settle::Renew {
                lease: lease.map(Span),
                effect_started: started,
                checkpoint: checkpoint.map(Into::into),
                checkpoint_dropped: too_large,
            },
        ),
        Op::Lookup => Command::Lookup,
        Op::Store { .. } => panic!("a Store is decided by its own rules"),
    }
}

pub(crate) fn change(order: &Order, expected_version: i64) -> Change {
    let (action, force) = match order.clone() {
        Order::Redrive { force, drop_fingerprint, admit } => {
            (Action::Redrive { drop_fingerprint, admit }, force)
        }
        Order::Park => (Action::Park, false),
        Order::Complete { force, result } => {
            (Action::Resolve(Resolution::Completed { result: result.into() }), force)
        }
        Order::FailTerminal { force, error } => {
            (Action::Resolve(Resolution::FailedTerminal { error }), force)
        }
        Order::NotDone { force } => (Action::Resolve(Resolution::Received), force),
        Order::Delete { force } => (Action::Delete, force),
    };
    Change { expected_version, action, force }
}

pub(crate) fn effect(effect: &Effect) -> EffectRow {
    EffectRow {
        at: StoreTime(effect.at),
        evidence: match effect.proof {
            Proof::Guard => Evidence::Guard,
            Proof::Spool => Evidence::Spool,
            Proof::Unfinished => Evidence::Unfinished,
        },
        result: effect.result.clone().into(),
        fingerprint: effect.print.clone().into(),
    }
}

/// The word of the answer to a reconciled row.
pub(crate) fn reconciled(decided: &Result<Reconciled, Rejection>) -> String {
    match decided {
        Ok(decided) => word(format!("{:?}", decided.outcome).split(' ').next().unwrap()),
        Err(rejection) => word(&format!("{:?}", rejection.reason)),
    }
}

/// The row that the spec would know, had it come this far.
pub(crate) fn row(entry: &Entry) -> Row {
    Row {
        state: entry.state,
        by: entry.closed_by,
        token: entry.token,
        who: entry.claimant.as_ref().map(|who| (who.claim_id.as_u128(), who.owner.clone())),
        lease_until: entry.lease_until.0,
        grace: entry.grace.0,
        hold_until: entry.hold_until.0,
        on_expiry: entry.on_expiry,
        retention: entry.retention.0,
        rearmed: entry.rearmed,
        started: entry.effect_started,
        prior: entry.prior_effect_started,
        unknown: entry.effect_unknown,
        checkpoint: entry.checkpoint.to_vec(),
        attempts: entry.attempts,
        not_before: entry.not_before.0,
        error: entry.last_error.clone(),
        print: entry.fingerprint.to_vec(),
        unpinned: entry.unpinned,
        result: entry.result.to_vec(),
        dropped: entry.result_dropped,
        body: entry.body,
        erase_at: entry.erase_at.map(|at| at.0),
        closed_at: entry.closed_at.map_or(0, |at| at.0),
        parked_at: entry.parked_at.map_or(0, |at| at.0),
        changed_at: entry.updated_at.0,
        keep_until: entry.retain_until.map(|at| at.0),
        past: entry.history.iter().map(past).collect(),
        marks: entry.superseded_completes,
        doubled: entry.doubled,
    }
}

fn past(attempt: &Attempt) -> Past {
    let completed = attempt.outcome == ClosedBy::Complete;
    let expired = attempt.outcome == ClosedBy::Expiry;
    Past { token: attempt.token, completed, expired, marked: attempt.reported_done }
}

/// Whether the core's answer is an alarm: the effect was reported as done before. A repeat is none.
pub(crate) fn alarms(answer: &Answer) -> bool {
    match answer {
        Err(rejection) => rejection.doubled,
        Ok(Reply::Completed { replayed, doubled, .. }) => *doubled && !replayed,
        Ok(_) => false,
    }
}

pub(crate) fn by_core(answer: &Answer) -> Said {
    match answer.clone() {
        Err(rejection) => {
            Said::Error { reason: word(&format!("{:?}", rejection.reason)), state: rejection.state }
        }
        Ok(Reply::Renewed { lease, hold, on_expiry, revived, checkpoint_dropped: dropped }) => {
            Said::RenewOk { lease: lease.0, hold: hold.0, on_expiry, revived, dropped }
        }
        Ok(Reply::Completed { replayed, late, result_dropped: dropped, .. }) => {
            Said::CompleteOk { replayed, late, dropped }
        }
        Ok(Reply::Failed { state, retry_after, attempts_left, replayed }) => {
            Said::FailOk { state, retry_after: retry_after.map(|wait| wait.0), attempts_left, replayed }
        }
        Ok(Reply::Released { replayed, unpinned, .. }) => Said::ReleaseOk { replayed, unpinned },
        Ok(Reply::Verdict(verdict)) => of_verdict(verdict),
        Ok(Reply::Found(found)) => Said::Found {
            state: found.state,
            attempt: found.attempt,
            holds: found.verdict.map(|verdict| Box::new(of_verdict(verdict))),
        },
    }
}

pub(crate) fn of_verdict(verdict: Verdict) -> Said {
    match verdict {
        Verdict::Acquired {
            token,
            attempt,
            lease,
            hold,
            on_expiry,
            replayed,
            effect_unknown,
            prior_effect_started,
            checkpoint,
            last_error,
            attempts_left,
            ..
        } => Said::Acquired {
            token,
            attempt,
            lease: lease.0,
            hold: hold.0,
            on_expiry,
            replayed,
            effect_unknown,
            prior_effect_started,
            checkpoint: checkpoint.to_vec(),
            last_error,
            attempts_left,
        },
        Verdict::Completed {
            result,
            result_expired,
            completed_at,
            attempt,
            by_this_claim,
            fingerprint_unverified,
            result_dropped,
        } => Said::Completed {
            result: result.to_vec(),
            expired: result_expired,
            dropped: result_dropped,
            at: completed_at.0,
            attempt,
            by_this_claim,
            unverified: fingerprint_unverified,
        },
        Verdict::InProgress { owner, attempt, lease, retry_after } => {
            Said::InProgress { owner, attempt, lease: lease.0, retry_after: retry_after.0 }
        }
        Verdict::Backoff { attempts_left, last_error, retry_after } => {
            Said::Backoff { attempts_left, last_error, retry_after: retry_after.0 }
        }
        Verdict::Failed { error, failed_at } => Said::Failed { error, at: failed_at.0 },
        Verdict::Parked { cause, error, parked_at, newly: _ } => {
            Said::Parked { cause, error, at: parked_at.0 }
        }
        Verdict::FingerprintMismatch { expected, presented } => {
            Said::Mismatch { expected: expected.to_vec(), presented: presented.to_vec() }
        }
        Verdict::OutsideWindow { window, occurred_at } => {
            Said::Outside { window: window.0, occurred_at: occurred_at.0 }
        }
        Verdict::Suppressed { replay_run } => Said::Suppressed { run: replay_run },
    }
}

/// A message to be kept.
pub(crate) fn message(print: &[u8], occurred_at: Option<i64>) -> Store {
    Store {
        fingerprint: print.to_vec().into(),
        occurred_at: occurred_at.map(StoreTime),
        traceparent: String::new(),
    }
}

pub(crate) fn of_store(answer: &Result<StoreVerdict, Rejection>) -> Said {
    let verdict = match answer.clone() {
        Ok(verdict) => verdict,
        Err(rejection) => return by_core(&Err(rejection)),
    };
    match verdict {
        StoreVerdict::Stored { state } => Said::Stored { state, before: false },
        StoreVerdict::AlreadyStored { state } => Said::Stored { state, before: true },
        StoreVerdict::Completed { completed_at } => Said::StoredDone { at: completed_at.0 },
        StoreVerdict::Failed { error, failed_at } => Said::Failed { error, at: failed_at.0 },
        StoreVerdict::FingerprintMismatch { expected, presented } => {
            Said::Mismatch { expected: expected.to_vec(), presented: presented.to_vec() }
        }
        StoreVerdict::OutsideWindow { window, occurred_at } => {
            Said::Outside { window: window.0, occurred_at: occurred_at.0 }
        }
    }
}

/// `LeaseLost` as `LEASE_LOST`.
pub(crate) fn word(name: &str) -> String {
    let mut word = String::new();
    for (index, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && index > 0 {
            word.push('_');
        }
        word.push(letter.to_ascii_uppercase());
    }
    word
}

//! Effects without claims, as messages.

use std::collections::HashSet;

use tonic::Extensions;

use super::AdminRpc;
use crate::domain::{EffectRow, Evidence, Key, Reason, ReconcileOutcome, Rejection, StoreTime, Violation};
use crate::ledger::{ReconcileOrder, ReconcileRow};
use crate::proto;
use crate::rpc::edge::auth;
use crate::wire::digest::digest;
use crate::wire::errors;
use crate::wire::fields::{FieldChecks, FieldScope, Limits};
use crate::wire::reasons::During;
use crate::wire::words;

const REASON_MAX: usize = 1_024;

/// Carries a request out. It has an operation's permit for as long as it works.
pub(super) async fn reconcile(
    admin: &AdminRpc,
    extensions: &Extensions,
    request: &proto::ReconcileEntriesRequest,
) -> Result<proto::ReconcileEntriesResponse, Rejection> {
    let caller = auth::caller(extensions)?;
    caller.allowed_somewhere()?;
    let (operators, limits) = (admin.operators(caller), &admin.limits);
    let mut fields = FieldChecks::new(limits);
    fields.name("reason", &request.reason, REASON_MAX);
    fields.finish(|| ())?;
    if request.rows.len() > limits.batch_items {
        return Err(too_many(request.rows.len(), limits.batch_items));
    }
    let mut seen = HashSet::new();
    let checked: Vec<Result<ReconcileRow, Rejection>> = request
        .rows
        .iter()
        .enumerate()
        .map(|(index, asked)| {
            let row = row(asked, index, limits)?;
            caller.allowed(row.key.consumer())?;
            if seen.insert(row.key.hash()) { Ok(row) } else { Err(twice(index)) }
        })
        .collect();
    let rows: Vec<ReconcileRow> = checked.iter().filter_map(|row| row.as_ref().ok()).cloned().collect();
    // No valid row is left, so the store need not be asked.
    let mut outcomes = if rows.is_empty() {
        Vec::new()
    } else {
        let order = ReconcileOrder {
            actor: caller.principal().to_owned(),
            reason: request.reason.clone(),
            dry_run: request.dry_run,
            rows,
        };
        let open = operators.open_operation(caller.principal(), request.dry_run)?;
        let _place = operators.place(&open).await?;
        operators.reconcile(order).await?
    }
    .into_iter();
    let results = checked.into_iter().enumerate().map(|(index, row)| {
        let outcome = row.and_then(|_| outcomes.next().unwrap_or_else(|| Err(unanswered())));
        result(outcome.map_err(|rejection| rejection.within(&format!("rows[{index}]."))))
    });
    Ok(proto::ReconcileEntriesResponse { results: results.collect() })
}

fn row(asked: &proto::ReconcileRow, index: usize, limits: &Limits) -> Result<ReconcileRow, Rejection> {
    let mut fields = FieldChecks::of(limits, FieldScope::Item { list: "rows", index });
    let key = fields.key(asked.key.as_ref());
    let at = fields.instant("at", asked.at.as_ref());
    if asked.at.is_none() {
        fields.wrong("at", "is missing: set the instant of the effect, which identifies the row");
    }
    let evidence = match asked.evidence() {
        proto::EffectEvidence::Guard => Evidence::Guard,
        proto::EffectEvidence::Spool => Evidence::Spool,
        proto::EffectEvidence::SpoolUnfinished => Evidence::Unfinished,
        proto::EffectEvidence::Unspecified => {
            fields.wrong("evidence", "must be GUARD, SPOOL or SPOOL_UNFINISHED");
            Evidence::Unfinished
        }
    };
    fields.bytes("result", &asked.result, limits.result);
    if !asked.result.is_empty() && evidence == Evidence::Unfinished {
        fields.wrong("result", "belongs to an effect that has ended");
    }
    fields.bytes("fingerprint", &asked.fingerprint, limits.fingerprint);
    // Without a key or an instant there is a violation, so that the placeholders are never used.
    fields.finish(|| ReconcileRow {
        key: key.unwrap_or_else(|| Key::new("", "", "")),
        digest: digest("ReconcileEntries", asked),
        effect: EffectRow {
            at: at.unwrap_or(StoreTime(0)),
            evidence,
            result: asked.result.clone(),
            fingerprint: asked.fingerprint.clone(),
        },
    })
}

fn result(outcome: Result<ReconcileOutcome, Rejection>) -> proto::ReconcileResult {
    use proto::ReconcileOutcome as Word;
    let (word, retry_after) = match outcome {
        Ok(ReconcileOutcome::Completed) => (Word::Completed, None),
        Ok(ReconcileOutcome::Resolved) => (Word::Resolved, None),
        Ok(ReconcileOutcome::Parked) => (Word::Parked, None),
        Ok(ReconcileOutcome::Confirmed) => (Word::Confirmed, None),
        Ok(ReconcileOutcome::Doubled) => (Word::Doubled, None),
        Ok(ReconcileOutcome::NotNow { retry_after }) => (Word::NotNow, Some(words::duration(retry_after))),
        Ok(ReconcileOutcome::Contradicts) => (Word::Contradicts, None),
        Ok(ReconcileOutcome::Mismatch) => (Word::Mismatch, None),
        Ok(ReconcileOutcome::Known) => (Word::Known, None),
        Ok(ReconcileOutcome::RetentionOver) => (Word::RetentionOver, None),
        Err(rejection) => {
            let rejected = Some(errors::rejected(&rejection, During::Other));
            return proto::ReconcileResult { rejected, ..Default::default() };
        }
    };
    proto::ReconcileResult { outcome: word.into(), retry_after, rejected: None }
}

fn too_many(rows: usize, max: usize) -> Rejection {
    let description = format!("has {rows} items, must be at most {max}");
    let message = format!("rows {description}; nothing of it was changed");
    let violations = vec![Violation { field: "rows".into(), description }];
    Rejection { violations, ..Rejection::new(Reason::TooManyItems, message) }
}

fn twice(index: usize) -> Rejection {
    Rejection::invalid(vec![Violation {
        field: format!("rows[{index}].key"),
        description: "is in this request before: each key once".into(),
    }])
}

/// The ledger answers each row.
fn unanswered() -> Rejection {
    Rejection::new(
        Reason::Internal,
        "a bug of the server left this row without an answer: repeat the request",
    )
}

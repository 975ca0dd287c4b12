//! The stored form of past attempts.

use serde::{Deserialize, Serialize};

use super::numbers;
use crate::domain::{Attempt, StoreTime};

/// A past attempt as stored: with short names, since they repeat in each attempt.
#[derive(Serialize, Deserialize)]
struct Past {
    n: i32,
    s: i64,
    e: i64,
    o: String,
    by: i16,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    err: String,
    /// The token. A version that does not know this field writes the attempts back without it, and without the mark below: such
    /// an attempt is never marked (again).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    t: Option<i64>,
    /// Whether it was reported as done when its token was no longer the latest one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    done: bool,
}

/// Reads attempts from a stored text, or returns why they cannot be read.
pub(super) fn read(text: Option<&str>) -> Result<Vec<Attempt>, String> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let past: Vec<Past> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let attempts = past.into_iter().map(|one| {
        Ok(Attempt {
            attempt: one.n,
            started_at: StoreTime(one.s),
            ended_at: StoreTime(one.e),
            owner: one.o,
            outcome: numbers::closed_by(one.by).ok_or_else(|| format!("{} is none of its values", one.by))?,
            error: one.err,
            token: one.t,
            reported_done: one.done,
        })
    });
    attempts.collect()
}

/// The stored text of attempts; `None` if there are no attempts.
pub(super) fn stored(history: &[Attempt]) -> Option<String> {
    if history.is_empty() {
        return None;
    }
    let past: Vec<Past> = history
        .iter()
        .map(|one| Past {
            n: one.attempt,
            s: one.started_at.0,
            e: one.ended_at.0,
            o: one.owner.clone(),
            by: numbers::of_closed_by(one.outcome),
            err: one.error.clone(),
            t: one.token,
            done: one.reported_done,
        })
        .collect();
    serde_json::to_string(&past).ok()
}
